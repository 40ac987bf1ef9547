"""Which standard errors are valid for the effects in a study's logs, and the policy updates that the adaptive ones need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from surefoot.errors import InputError
from surefoot.inference.adaptive_sandwich import Floats, PolicyUpdate, UpdateHistory
from surefoot.inference.learned_updates import RecordedUpdate, learn_update
from surefoot.study.collection_section import CONSEQUENCES
from surefoot.study.trial_updates import has_trial_updates, read_trial_updates

if TYPE_CHECKING:
    from surefoot.data.trajectories import Trajectories
    from surefoot.study import Study, StudyLogs

AGREEMENT = 1e-3
"""Probabilities of a policy that was learned again may differ from the logged ones by rounding."""
QUESTIONS = {
    "usual": (
        "The usual standard errors take the policies that this trial happened to use as given: how precisely is the effect "
        "under these policies known?"
    ),
    "adaptive": (
        "The adaptive standard errors also count that another run of the trial would learn other policies: what would a "
        "replication find?"
    ),
}
"""What each kind of standard error answers."""
DEPENDENT = "Policies learned from several participants during the trial, so participants are not independent."


@dataclass(frozen=True, eq=False)
class ErrorChoice:
    """The kind of standard errors of a report, `usual` or `adaptive`, why, and the updates where both are known."""

    used: str
    sentences: tuple[str, ...]
    history: UpdateHistory | None = None
    warning: str = ""
    """Why the valid ones are missing."""


def choose_errors(study: Study, path: str | Path, read: StudyLogs, wanted: str | None = None) -> ErrorChoice:
    """The adaptive standard errors after policies that learned from several participants, else the usual ones.

    Parameters
    ----------
    study
        Its `[collection]` says how actions were chosen, unless the files of a trial lie next to the logs.
    path
        The logs.
    read
        The same, read.
    wanted
        `usual` or `adaptive`, instead of the valid kind.

    Returns
    -------
    ErrorChoice
    """
    recorded = has_trial_updates(path)
    policy = study.collection.policy
    conditions = tuple(study.collection.describe(read.logs))
    if recorded:
        # What the trial recorded outranks what the study says about it.
        policy = "pooled" if study.method().pooling.needs_everybody else "own"
    if policy in ("fixed", "own") and wanted != "adaptive":
        return ErrorChoice("usual", conditions)
    if not conditions and not recorded and wanted != "adaptive":
        return ErrorChoice("usual", ())  # Every decision point had the same probabilities.
    try:
        if not recorded:
            raise InputError(
                "the files of a trial (decisions.updates.csv and decisions.learned.csv, which surefoot export writes) "
                "do not lie next to the logs, so it is not known what the policies learned from"
            )
        history = read_history(study, path, read)
    except InputError as error:
        if wanted == "adaptive":
            raise
        refusal = f"Adaptive standard errors cannot be computed: {error}."
        if policy == "pooled":
            return ErrorChoice("usual", (*conditions, QUESTIONS["usual"]), warning=refusal)
        return ErrorChoice("usual", (*conditions, refusal, QUESTIONS["usual"]))
    if history is None:
        if wanted == "adaptive":
            raise InputError("no policy that was learned in the trial decided anything; use the usual errors")
        return ErrorChoice("usual", (CONSEQUENCES["fixed"],))
    used = wanted or "adaptive"
    return ErrorChoice(used, (DEPENDENT, *QUESTIONS.values(), f"This report uses the {used} ones."), history)


def read_history(study: Study, path: str | Path, read: StudyLogs) -> UpdateHistory | None:
    """The updates of a trial from the files next to its logs; None where no policy of the trial decided anything.

    Every policy is learned again from what its update knew, and compared with the logged probabilities.
    """
    updates = read_trial_updates(study, path, read)
    # Updates knew values that the screen of the whole trial may flag; what they left out is recorded.
    section = study.screen
    logs = read.logs
    if section is not None and section.on:
        logs = study.model_copy(update={"screen": section.model_copy(update={"on": False})}).read(path).logs
    order = logs.order
    trial = logs[order]
    method = study.method()

    def limit(probabilities: Floats, slopes: Floats) -> tuple[Floats, Floats]:
        return study.clip_probabilities(probabilities), study.clip_slopes(probabilities, slopes)

    learned = []
    for version, number in updates.made_by.items():
        drawn = (updates.policy[order] == version) & trial.available
        if drawn.any():
            recorded = RecordedUpdate(
                outcomes=updates.learn_outcomes(number)[order],
                before=updates.before[order] < number,
                decided=np.flatnonzero(drawn),
            )
            update = learn_update(method, trial, recorded, limit)
            _compare_probabilities(update, trial, version, updates.count_erased(number))
            learned.append(update)
    return UpdateHistory(np.asarray(trial.participant_index), learned) if learned else None


def _compare_probabilities(update: PolicyUpdate, trial: Trajectories, version: int, erased: int) -> None:
    """Refuse a policy that, learned again, is not the one that decided."""
    taken = np.take_along_axis(update.probabilities, update.action[:, None], axis=1)[:, 0]
    logged = trial.probability[update.decided]
    distance = np.abs(taken - logged)
    worst = int(np.argmax(distance))
    if distance[worst] > AGREEMENT:
        row = update.decided[worst]
        lost = f"; {erased} of the outcomes that it learned from were erased since" if erased else ""
        raise InputError(
            f"policy version {version}, learned again, gives probability {taken[worst]:.3g} at {trial.names.time} "
            f"{trial.time[row]} of participant {trial.participant[row].item()!r} where the log has {logged[worst]:.3g}"
            f"{lost}; give the study of the trial, with its method, penalties and probability limits"
        )
