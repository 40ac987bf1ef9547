"""Whether outcomes depend on the action in ways that an effect does not explain: missing, shared and screened values.

Effects compare the recorded outcomes. Where the action decides which outcomes are recorded, they compare different moments.

A pile value is a value that many outcomes share. People who put a watch on when it buzzes record 0 after nothing and steps
after a prompt. The screen does not flag these zeros, and every estimate takes the difference for an effect. A prompt that
works leaves fewer zeros too: the logs cannot distinguish the two, but the people who ran the study can.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from surefoot.data.log_columns import spell
from surefoot.data.suspect_columns import FEW_VALUES, stands_out
from surefoot.data.trajectories import Trajectories
from surefoot.inference.intervals import Interval, difference_interval, sum_by_participant
from surefoot.log_checks.check import Check
from surefoot.reports.numbers import describe_p, format_percent
from surefoot.screening.screen import NOT_DIRT, Screen, find_worst
from surefoot.study import Study, StudyLogs

MISSING_NAME = "missing outcomes by action"
MISSING_UNSAFE = 0.05
"""A difference of 5 percentage points in missing outcomes can change an effect as much as the prompt does."""
MISSING_LOOK = 0.01
"""A smaller difference in missing outcomes hardly changes an effect."""
MISSING_P_VALUE = 0.001
"""A difference with a smaller p-value is not chance; the limit is strict because every update and analysis tests it."""
PILES_NAME = "values by action"
LEAST_SHARE = 0.02
"""A value that a smaller share of the outcomes has after every action hardly changes an effect."""
LEAST_COUNT = 10
"""Values with fewer outcomes are not compared."""
MOST_PILES = 10
PILE_UNSAFE = 0.02
"""If 2 in 100 outcomes become 0, the effect changes by a fiftieth of the mean outcome."""
PILE_LOOK = 0.01
PILE_UNSAFE_P_VALUE = 0.001
"""A smaller p-value, adjusted for the number of comparisons, is not chance; every update tests it."""
PILE_LOOK_P_VALUE = 0.01
FLAGGED_LOOK = 0.05
"""A larger share of flagged decision points needs an explanation."""


def compare_shares(
    logs: Trajectories, happened: NDArray[np.bool_], treated: NDArray[np.bool_], nothing: NDArray[np.bool_]
) -> tuple[Interval, float]:
    """The share of treated rows with the event, minus the share of rows with nothing: with a 95 % interval over people, and
    the p-value of a randomisation test.

    If the event does not depend on the action, Σ d (happened − mean) has mean 0 and variance Σ var(d) (happened − mean)²,
    even if events cluster in people or time and a policy chose p from earlier data: d = 1{A = a} − p for two actions and
    1{A = a}/p(A) − 1{A = 0}/p(A) for several. Without logged probabilities p is the share of treated rows.
    """
    counts = [
        sum_by_participant(logs.participant_index, len(logs.participants), rows)
        for rows in (happened & treated, treated, happened & nothing, nothing)
    ]
    compared = treated | nothing
    sent = treated[compared]
    taken = logs.probability[compared]
    if np.isnan(taken).any():
        design = sent - sent.mean()
        variance = np.full(len(sent), sent.mean() * (1 - sent.mean()))
    elif logs.actions == 2:
        design = np.where(sent, 1 - taken, taken - 1)
        variance = taken * (1 - taken)
    else:
        design = np.where(sent, 1.0, -1.0) / taken
        variance = design**2
    centred = happened[compared] - happened[compared].mean()
    spread = np.sqrt(variance @ centred**2)
    p_value = 2 * ndtr(-abs(design @ centred) / spread) if spread > 0 else 1.0
    return difference_interval(*counts), float(p_value)


def _describe_difference(interval: Interval) -> str:
    """`+8.2 percentage points, 95 % interval 4.0 to 16.0`."""
    value, low, high = (f"{100 * share:+.1f}".replace("-", "−") for share in interval[:1] + interval[2:])
    return f"{value} percentage points, 95 % interval {low.removeprefix('+')} to {high.removeprefix('+')}"


def check_missing_outcomes(read: StudyLogs, study: Study | None) -> Check:
    """Compare the share of missing outcomes after each action with the share after nothing."""
    logs = read.logs
    missing = np.isnan(logs.outcome)
    arms = {name: logs.available & (logs.action == code) for code, name in enumerate(logs.action_names)}
    shares = {name: float(missing[rows].mean()) for name, rows in arms.items() if rows.any()}
    words = ", ".join(f"{format_percent(share)} after '{name}'" for name, share in shares.items())
    reason = f"outcomes are missing: {words}" if missing[logs.available].any() else "no outcome is missing"
    nothing = arms.pop(logs.action_names[0])
    differences: dict[str, Interval] = {}
    verdict = "fine"
    for name, treated in arms.items():
        if nothing.any() and treated.any() and (missing & (nothing | treated)).any():
            interval, p_value = compare_shares(logs, missing, treated, nothing)
            size = abs(interval.value)
            if size >= MISSING_UNSAFE and p_value < MISSING_P_VALUE:
                verdict = "unsafe"
            elif size >= MISSING_LOOK and (interval.excludes_zero or p_value < MISSING_P_VALUE):
                verdict = find_worst((verdict, "look"))
            differences[name] = interval
    numbers = {"shares": shares, "differences": {name: interval._asdict() for name, interval in differences.items()}}
    if verdict == "fine":
        return Check(MISSING_NAME, verdict, reason, "", numbers)
    worst = max(differences.values(), key=lambda interval: abs(interval.value))
    reason += f" (difference {_describe_difference(worst)})"
    if study is not None and study.effects.missing_as is not None:
        reason += "; [effects] missing_as gives a missing outcome a value, so that effects rest on that value"
        verdict = "look"
    remedy = (
        "find out why, and make recording independent of the prompt; until then do not rely on effects, values or "
        "policies: they compare different moments after different actions"
    )
    return Check(MISSING_NAME, verdict, reason, remedy, numbers)


class PileDifference(NamedTuple):
    """The share of outcomes with one value after an action, and after nothing."""

    value: float
    action: str
    shares: dict[str, float]
    difference: Interval
    p_adjusted: float
    real: bool
    """Whether the study says that the value is real behaviour."""

    @property
    def verdict(self) -> str:
        size = abs(self.difference.value)
        if not self.real and size >= PILE_UNSAFE and self.p_adjusted < PILE_UNSAFE_P_VALUE:
            return "unsafe"
        return "look" if not self.real and size >= PILE_LOOK and self.p_adjusted < PILE_LOOK_P_VALUE else "fine"

    def describe(self, outcome: str) -> str:
        """The value, its shares and their difference."""
        shares = " and ".join(f"{format_percent(share)} after '{name}'" for name, share in self.shares.items())
        chance = describe_p(self.p_adjusted)
        difference = _describe_difference(self.difference)
        return f"'{outcome}' is {spell(self.value)} in {shares} (difference {difference}; {chance})"


def check_pile_values(read: StudyLogs, study: Study | None) -> Check:
    """Compare the share of every pile value after each action with its share after nothing, flagged or not."""
    outcome = read.logs.names.outcome
    differences = sorted(_compare_piles(read, study), key=lambda pile: pile.p_adjusted)
    numbers = {"piles": [{**pile._asdict(), "difference": pile.difference._asdict()} for pile in differences]}
    if not differences:
        return Check(PILES_NAME, "fine", f"no value of '{outcome}' is much more common than its neighbours", "", numbers)
    verdict = find_worst(pile.verdict for pile in differences)
    piles = [pile for pile in differences if pile.verdict != "fine"]
    values = ", ".join(dict.fromkeys(spell(pile.value) for pile in piles or differences))
    if verdict == "fine":
        reason = f"{values} of '{outcome}' are about equally common after every action"
        real = [pile for pile in differences if pile.real]
        if real:
            reason = f"the study says that these values are real: {real[0].describe(outcome)}"
        return Check(PILES_NAME, verdict, reason, "", numbers)
    others = ", ".join(dict.fromkeys(spell(pile.value) for pile in piles if pile.value != 0))
    real_lines = ['zero = "real"'] if any(pile.value == 0 for pile in piles) else []
    real_lines += [f"real_values = [{others}]"] if others else []
    remedy = (
        "there are two explanations: the prompt changed what people did, or it changed what was recorded (people put the "
        "watch on when it buzzes, an unanswered question is stored as a number). Look at when the device was worn, or ask "
        f"participants. If people did this, write {' and '.join(real_lines)} in [outcome]: the difference then counts as an "
        f"effect. If not, write missing = [{values}] there, and make recording independent of the prompt; until then do "
        "not rely on effects, values or policies"
    )
    return Check(PILES_NAME, verdict, "; ".join(pile.describe(outcome) for pile in piles), remedy, numbers)


def _compare_piles(read: StudyLogs, study: Study | None) -> list[PileDifference]:
    """Compare the share of every pile value of the measured outcome after each action with its share after nothing."""
    logs = read.logs
    outcome = read.measured_outcome
    rows = logs.available & ~np.isnan(outcome)
    nothing = rows & (logs.action == 0)
    arms = {name: rows & (logs.action == code) for code, name in enumerate(logs.action_names) if code > 0}
    arms = {name: treated for name, treated in arms.items() if treated.any()}
    piles = find_piles(outcome, [nothing, *arms.values()]) if nothing.any() and arms else []
    differences = []
    for value in piles:
        real = study is not None and study.outcome.is_real(value)
        happened = outcome == value
        for name, treated in arms.items():
            shares = {logs.action_names[0]: float(happened[nothing].mean()), name: float(happened[treated].mean())}
            interval, p_value = compare_shares(logs, happened, treated, nothing)
            p_adjusted = min(1.0, p_value * len(piles) * len(arms))
            differences.append(PileDifference(value, name, shares, interval, p_adjusted, real))
    return differences


def find_piles(values: NDArray[np.float64], arms: list[NDArray[np.bool_]]) -> list[float]:
    """Values that many outcomes have after an action, and many more than have the neighbouring values.

    An outcome with few distinct values (yes and no, a scale from 0 to 10) has no pile values: their shares are the outcome.

    >>> steps = np.array([0.0] * 40 + [-99.0] * 20 + list(range(1, 200)))
    >>> find_piles(steps, [np.ones(len(steps), dtype=bool)])
    [0.0, -99.0]
    """
    distinct, counts = np.unique(values[np.logical_or.reduce(arms)], return_counts=True)
    if len(distinct) < FEW_VALUES:
        return []
    in_arms = [np.bincount(np.searchsorted(distinct, values[arm]), minlength=len(distinct)) / arm.sum() for arm in arms]
    likely = np.flatnonzero((np.max(in_arms, axis=0) >= LEAST_SHARE) & (counts >= LEAST_COUNT))
    largest_first = likely[np.argsort(-counts[likely], kind="stable")]
    return [float(distinct[position]) for position in largest_first if stands_out(counts, int(position))][:MOST_PILES]


def check_screen(read: StudyLogs, study: Study | None) -> Check:
    """Report the share of decision points with a value marked missing, and compare it between the actions."""
    screen = read.screen
    if screen is None:
        return Check("screen", "fine", "the logs are not screened")
    marked = np.zeros(len(screen.logs), dtype=bool)
    marked[screen.flags.row[screen.marks]] = True
    share = float(marked[screen.logs.available].mean()) if screen.logs.available.any() else 0.0
    flags = describe_flags(screen)
    reason = f"the screen marked values of {format_percent(share)} of the available decision points as missing"
    reason += f". By column: {flags}" if flags else ""
    verdict = screen.verdict
    if verdict != "fine":
        reason += f". The detector {next(part for part in screen.treatment if part.verdict == verdict).describe()}"
    elif share > FLAGGED_LOOK:
        verdict = "look"
    remedies = {
        "look": "see who and when with surefoot screen --html. Call participants who do not wear the device",
        "unsafe": f"{NOT_DIRT}. Effects estimated from the remaining values are biased; find out why, and make recording "
        "independent of the prompt",
    }
    treatment = [difference.to_dict() for difference in screen.treatment]
    numbers: dict[str, Any] = {"share": share, "counts": screen.counts(), "treatment": treatment}
    return Check("screen", verdict, reason, remedies.get(verdict, ""), numbers)


def describe_flags(screen: Screen) -> str:
    """Counts of marked values by reason and column; empty if there are none. The screen's page has those after each action.

    `steps (not worn, 30); mood, stress (same answer to all items, 12 each)`.
    """
    always_reported = {reason for detector in screen.screener.detectors for reason in detector.reported}
    columns: dict[tuple[str, int], list[str]] = {}
    for row in screen.list_counts():
        if row["reason"] not in always_reported:
            columns.setdefault((row["reason"], row["values"]), []).append(row["column"])
    return "; ".join(
        f"{', '.join(names)} ({reason}, {values:,}{' each' if len(names) > 1 else ''})"
        for (reason, values), names in columns.items()
    )
