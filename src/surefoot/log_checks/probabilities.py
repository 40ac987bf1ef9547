"""Whether actions were drawn with the probabilities that the logs or the study state."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.mean_weights import spread_probabilities
from surefoot.errors import InputError
from surefoot.inference.balance import Imbalance, find_imbalances
from surefoot.log_checks.check import Check
from surefoot.reports.numbers import format_percent
from surefoot.study import Study, StudyLogs

Floats = NDArray[np.float64]
STATED = "the stated probability"
EARLIER_ACTION = "the action before"
EARLIER_OUTCOME = "the outcome before"
TIME = "time in the study"
NOT_USED = "the stated probabilities are not those that were used; log those: until then effects and values are biased"
REMEDIES = {
    STATED: NOT_USED,
    EARLIER_ACTION: NOT_USED,
    TIME: NOT_USED,
    EARLIER_OUTCOME: "find out whether an outcome can be measured after the next decision; if not, the stated probabilities "
    "are not those that were used",
}
STATE_REMEDY = (
    "either the stated probabilities are not those that were used (log those), or the variable was measured after the "
    "decision (leave it out); until then effects and values are biased"
)


def check_mean_weights(read: StudyLogs, study: Study | None) -> Check:
    """Where action a is drawn with probability p(a), the mean of 1{A = a} / p(a) is 1."""
    weights = read.logs.mean_weights()
    if weights is None:
        return Check("probabilities", "fine", "the logs hold no probabilities")
    problem = weights.find_reason()
    numbers = {"mean_weights": weights.means(weights.given)}
    if problem is None:
        reason = f"mean weights, which must be 1, are {weights.describe(weights.given)}"
        return Check("probabilities", "fine", reason, "", numbers)
    return Check("probabilities", "unsafe", problem, weights.find_remedy(), numbers)


def require_stated_probabilities(read: StudyLogs, study: Study | None) -> None:
    """Refuse logs whose probabilities were not used, and say what the actions follow instead where that shows."""
    weights = check_mean_weights(read, study)
    if weights.verdict != "fine":
        balance = check_balance(read, study)
        follows = "" if balance.verdict == "fine" else f"; {balance.reason}"
        raise InputError(f"{weights.reason}{follows}; {weights.remedy}", column=read.logs.names.probability)


def check_balance(read: StudyLogs, study: Study | None) -> Check:
    """Whether actions follow anything known before the decision, beyond their stated probabilities."""
    logs = read.logs
    drawn = np.flatnonzero(logs.available & ~np.isnan(logs.probability) & (logs.probability < 1))
    if not drawn.size:
        return Check("balance", "fine", "no action was drawn with a known probability")
    weights = logs.mean_weights()
    if weights is not None and weights.find_reason() is not None and weights.fitting_reading is not None:
        return Check("balance", "fine", "balance cannot be judged while the probabilities are read as something else")
    before = np.zeros(len(logs), dtype=np.int64)
    before[logs.order[1:]] = logs.order[:-1]
    known = dict(zip(logs.state_names, logs.state[drawn].T, strict=True))
    known[EARLIER_ACTION] = np.where(logs.position > 0, logs.action[before] > 0, np.nan)[drawn]
    known[EARLIER_OUTCOME] = np.where(logs.position > 0, logs.outcome[before], np.nan)[drawn]
    known[TIME] = logs.position[drawn].astype(np.float64)
    # 1 − 0.7 is not quite 0.3, so that rounding alone would tell the actions apart.
    probabilities = np.round(spread_probabilities(logs.action[drawn], logs.probability[drawn], logs.actions), 9)
    numbers: dict[str, Any] = {}
    sure: list[tuple[int, Imbalance]] = []
    for code in range(1, logs.actions):
        stated = probabilities[:, code]
        # Where an action's probability is logged only when it was taken, the other rows cannot be compared.
        if ((stated > 0) & (stated < 1)).all():
            taken = logs.action[drawn] == code
            imbalances = find_imbalances(taken, stated, {**known, STATED: stated}, logs.participant_index[drawn])
            sure += [(code, imbalance) for imbalance in imbalances if imbalance.is_sure]
            numbers[logs.action_names[code]] = {
                imbalance.variable: {"slope": imbalance.slope, "p_holm": imbalance.p_value} for imbalance in imbalances
            }
    if not sure:
        reason = f"actions follow none of {len(known) + 1} variables beyond their stated probabilities"
        if not numbers:
            reason = "an action's probability is known only where it was taken, so balance cannot be checked"
        return Check("balance", "fine", reason, "", numbers)
    code, worst = max(sure, key=lambda pair: (_is_unsafe(pair[1]), abs(pair[1].slope)))
    stated = probabilities[:, code]
    values = {**known, STATED: stated}[worst.variable]
    scaling = (0.0, 1.0) if study is None else study.scaling.get(worst.variable, (0.0, 1.0))
    shares = _describe_shares(logs.action[drawn] == code, stated, values, *scaling)
    follow = f"actions follow {_quote(worst.variable)} beyond their stated probabilities"
    if worst.variable == STATED:
        follow = "actions do not follow their stated probability"
    reason = f"{follow}: '{logs.action_names[code]}' was chosen {shares}"
    others = dict.fromkeys(imbalance.variable for _, imbalance in sure if imbalance.variable != worst.variable)
    if others:
        reason += f"; also out of balance: {', '.join(map(_quote, others))}"
    remedy = REMEDIES.get(worst.variable, STATE_REMEDY)
    return Check("balance", "unsafe" if _is_unsafe(worst) else "look", reason, remedy, numbers)


def _is_unsafe(imbalance: Imbalance) -> bool:
    # An outcome whose window reaches beyond the next decision follows that decision's action.
    return imbalance.is_unsafe and imbalance.variable != EARLIER_OUTCOME


def _describe_shares(taken: NDArray[np.bool_], stated: Floats, values: Floats, centre: float, scale: float) -> str:
    """Shares of decision points at which the action was taken, by the variable in its own unit."""
    levels = np.unique(values[~np.isnan(values)])
    if len(levels) == 2:
        groups = {f"where it is {levels[k] * scale + centre:g}": values == levels[k] for k in (1, 0)}
    else:
        middle = float(np.nanmedian(values))
        high = values > middle if middle < levels[-1] else values >= middle
        above = f"where it is above {middle * scale + centre:.3g}"
        groups = {above: high, "elsewhere": ~high & ~np.isnan(values)}
    return " and ".join(
        f"at {format_percent(taken[rows].mean(), 0)} of decision points {words} "
        f"(stated: {format_percent(stated[rows].mean(), 0)})"
        for words, rows in groups.items()
    )


def _quote(variable: str) -> str:
    return variable if variable in REMEDIES else f"'{variable}'"
