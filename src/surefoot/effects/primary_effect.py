"""A study's primary effect on logs in memory, such as simulated ones: fast, with rewards as they are optimised."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from surefoot.data.frames import make_frame
from surefoot.effects.analysis import Analysis
from surefoot.effects.estimators import ESTIMATORS
from surefoot.effects.excursion import fit_analysis
from surefoot.effects.result import EffectResult
from surefoot.effects.study_effects import TAKEN, expand_terms, list_columns

if TYPE_CHECKING:
    from surefoot.data.trajectories import Trajectories
    from surefoot.study import Study


def plan_primary_effect(study: Study) -> tuple[Analysis, str, str]:
    """The analysis of the average effect in `[effects]` at its first lag, the estimator, and a note.

    Logs in memory hold the state and the reward. Where the study names another outcome, a distal one or a numerator that
    is not a state variable, weighted and centred least squares of the reward stands in, and the note says so.
    """
    asked, column = study.effects, study.reward.column
    other = asked.outcome not in (None, column) or ESTIMATORS[asked.estimator].distal
    unknown = isinstance(asked.numerator, str) and asked.numerator not in study.state_names
    estimator = "wcls" if other else asked.estimator
    note = (
        f"The primary analysis ({asked.estimator} of {asked.outcome or column}) needs more than state and reward: weighted "
        f"and centred least squares of {column} stands in for it."
        if other or unknown
        else ""
    )
    analysis = Analysis(
        participant=study.columns.participant,
        time=study.columns.time,
        outcome=column,
        treatment=study.actions.column,
        probability=study.columns.probability or TAKEN,
        probability_of="action taken",
        available=study.columns.available or "available",
        controls=expand_terms(study, asked.controls),
        numerator=None if unknown else asked.numerator,
        lag=asked.lags[0],
        future=asked.future,
        missing_as=None if other else asked.missing_as,
        actions=study.actions.names,
    )
    return analysis, estimator, note


def estimate_primary_effect(study: Study, logs: Trajectories, analysis: Analysis, estimator: str) -> EffectResult:
    """The average effect on the reward as it stands in the logs.

    Parameters
    ----------
    study, logs
        As usual; the rewards are already transformed.
    analysis, estimator
        What `plan_primary_effect` gives.

    Returns
    -------
    EffectResult
        `params`, `bse`, `pvalues`.

    Examples
    --------
    >>> import surefoot as sf
    >>> text = '[columns]\\nparticipant = "participant"\\ntime = "time"\\n'
    >>> study = sf.Study.parse(text + "[state.weather]\\n[state.engagement]\\n[state.fatigue]")
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> found = estimate_primary_effect(study, logs, *plan_primary_effect(study)[:2])
    >>> found.names
    ('Intercept',)
    """
    used = {*analysis.role_columns, *analysis.controls, *analysis.moderators}
    columns = {name: values for name, values in list_columns(study, logs, logs.reward).items() if name in used}
    columns[analysis.available or "available"] = logs.available
    # Ids as numbers: what stands for a participant does not matter here, and numbers sort faster.
    columns[analysis.participant] = np.asarray(logs.participant_index)
    frame = make_frame(columns, "pyarrow")
    return fit_analysis(frame, replace(analysis, transform="none"), estimator=estimator, check_draws=False)
