"""The public functions: from a frame to a fitted effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from surefoot.data.problems import Place, frame_row
from surefoot.data.row_identities import warn_of_doubts
from surefoot.effects.analysis import Analysis
from surefoot.effects.estimators import ESTIMATORS
from surefoot.effects.result import EffectResult
from surefoot.effects.terms import Terms
from surefoot.effects.trial_rows import read_trial_rows
from surefoot.effects.validity import check_randomisation, check_uncertainty, check_validity
from surefoot.errors import InputError, did_you_mean


class Options(TypedDict, total=False):
    """Those of `excursion_effect`."""

    participant: str
    time: str
    outcome: str
    treatment: str
    probability: float | str | Sequence[str] | None
    probability_of: str | None
    available: str | None
    moderators: Terms
    controls: Terms
    numerator: float | str | Sequence[float] | None
    lag: int
    future: str
    missing_as: float | Mapping[str, float] | None
    transform: str
    actions: Sequence[str] | None


def excursion_effect(
    frame: Any, *, estimator: str = "wcls", place: Place = frame_row, **options: Unpack[Options]
) -> EffectResult:
    """The causal excursion effect of treatment, averaged over history or by moderators.

    Parameters
    ----------
    frame
        A pandas, polars or Arrow table with a row for every decision point, in any order.
    estimator
        `wcls` (continuous outcome), `emee` or `emee2` (binary outcome, log relative risk), `dcee` (one distal outcome).
    participant, time, outcome, treatment
        Names of columns. Treatment is 0 for nothing, 1 for treatment, or up to K − 1 with several.
    probability
        Column with the probabilities (with several treatments, one column for each), or the number with which treatment was
        sent throughout.
    probability_of
        What a column of probabilities is of: `"action taken"`, or `"sending"` whether or not something was sent. It has no
        default, because a wrong one makes effects wrong without a sign of it, and may be left out only where both are
        the same: where the probability is 0.5.
    available
        Column with 1 or 0; None when everybody always is.
    moderators, controls
        Names of columns, or a formula such as `~ home + day`. Moderators should be among the controls too.
    numerator
        p̃: a number, a column that depends on the moderators only, or a number for each treatment.
    lag, future
        The outcome so many decision points later, with treatment in between as `observed` or `none`.
    missing_as
        Where the study defined what a missing outcome stands for: that value, or {column: value}.
    transform
        Of the outcome: `none`, `sqrt`, `log(x + c)`.
    actions
        Names of the actions, nothing first.
    place
        What messages call a row of the frame.

    Returns
    -------
    EffectResult
        `params` with `conf_int`, tests and a summary.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, surefoot as sf
    >>> rng = np.random.default_rng(0)
    >>> sent, before = rng.integers(0, 2, 600), rng.normal(size=600)
    >>> frame = pa.table({"person": np.repeat(np.arange(20), 30), "t": np.tile(np.arange(30), 20), "sent": sent,
    ...                   "p": np.full(600, 0.5), "x": before, "y": before + 0.4 * sent + rng.normal(size=600)})
    >>> found = sf.effects.wcls(frame, participant="person", time="t", outcome="y", treatment="sent", probability="p",
    ...                         controls=["x"])
    >>> found.params.round(2), found.conf_int().round(2), found.df_resid
    (array([0.38]), array([[0.25, 0.51]]), 17)
    """
    result = fit_analysis(frame, Analysis(**options), estimator=estimator, place=place)
    logs = result.points.to_trajectories()
    warn_of_doubts(logs.participants, len(logs), logs.names)
    return result


def fit_analysis(
    frame: Any, analysis: Analysis, *, estimator: str = "wcls", place: Place = frame_row, check_draws: bool = True
) -> EffectResult:
    """As `excursion_effect`, with the options in one object; the draws of simulated trials need no check."""
    if estimator not in ESTIMATORS:
        raise InputError(f"no estimator '{estimator}'{did_you_mean(estimator, ESTIMATORS)}; choose from {list(ESTIMATORS)}")
    if hasattr(frame, "weights_"):
        raise InputError(
            "this is a fitted method, and what a robust fit left over is not analysed: whether it left a row out depends on "
            "the outcome, and so on treatment; give the frame of all decision points"
        )
    points = read_trial_rows(frame, analysis, place=place)
    chosen = ESTIMATORS[estimator]
    check_validity(points, chosen)
    if check_draws:
        check_randomisation(points)
    result = EffectResult(estimator, points, chosen.estimate(points))
    check_uncertainty(points, result.bse)
    return result


def wcls(frame: Any, **options: Unpack[Options]) -> EffectResult:
    """Weighted and centred least squares for a continuous outcome.

    Parameters
    ----------
    frame, **options
        As in `excursion_effect`.

    Returns
    -------
    EffectResult
        `params` with `conf_int`, tests and a summary.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> rng = np.random.default_rng(0)
    >>> sent = np.tile([0, 1], 60)
    >>> frame = pa.table({"person": np.repeat(np.arange(12), 10), "t": np.tile(np.arange(10), 12), "sent": sent,
    ...                   "y": 2.0 * sent + np.repeat(np.arange(12.0), 10) + rng.normal(size=120)})
    >>> columns = {"participant": "person", "time": "t", "outcome": "y", "treatment": "sent"}
    >>> wcls(frame, **columns, probability=0.5).params.round(1)
    array([2.2])
    """
    return excursion_effect(frame, estimator="wcls", **options)


def emee(frame: Any, **options: Unpack[Options]) -> EffectResult:
    """The estimator for the marginal excursion effect on a binary outcome, as log relative risk.

    Parameters
    ----------
    frame, **options
        As in `excursion_effect`.

    Returns
    -------
    EffectResult
        `params` with `conf_int`, tests and a summary.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> sent = np.tile([0, 1], 120)
    >>> active = (np.random.default_rng(0).random(240) < 0.3 + 0.3 * sent).astype(int)
    >>> frame = pa.table({"person": np.repeat(np.arange(12), 20), "t": np.tile(np.arange(20), 12), "sent": sent,
    ...                   "active": active})
    >>> columns = {"participant": "person", "time": "t", "outcome": "active", "treatment": "sent"}
    >>> bool(np.isclose(np.exp(emee(frame, **columns, probability=0.5).params), active[1::2].sum() / active[::2].sum()))
    True
    """
    return excursion_effect(frame, estimator="emee", **options)


def emee2(frame: Any, **options: Unpack[Options]) -> EffectResult:
    """EMEE without weights, for a binary outcome.

    Parameters
    ----------
    frame, **options
        As in `excursion_effect`.

    Returns
    -------
    EffectResult
        `params` with `conf_int`, tests and a summary.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> sent = np.tile([0, 1], 120)
    >>> active = (np.random.default_rng(0).random(240) < 0.3 + 0.3 * sent).astype(int)
    >>> frame = pa.table({"person": np.repeat(np.arange(12), 20), "t": np.tile(np.arange(20), 12), "sent": sent,
    ...                   "active": active})
    >>> columns = {"participant": "person", "time": "t", "outcome": "active", "treatment": "sent"}
    >>> bool(np.isclose(np.exp(emee2(frame, **columns, probability=0.5).params), active[1::2].sum() / active[::2].sum()))
    True
    """
    return excursion_effect(frame, estimator="emee2", **options)


def dcee(frame: Any, **options: Unpack[Options]) -> EffectResult:
    """The distal causal excursion effect on one outcome at the end.

    Parameters
    ----------
    frame, **options
        As in `excursion_effect`; the outcome of a participant stands in all of their rows.

    Returns
    -------
    EffectResult
        `params` with `conf_int`, tests and a summary.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> sent = np.random.default_rng(0).integers(0, 2, (40, 10))
    >>> frame = pa.table({"person": np.repeat(np.arange(40), 10), "t": np.tile(np.arange(10), 40), "sent": sent.ravel(),
    ...                   "y": np.repeat(3.0 * sent.sum(axis=1), 10)})
    >>> found = dcee(frame, participant="person", time="t", outcome="y", treatment="sent", probability=0.5)
    >>> low, high = found.conf_int()[0]
    >>> bool(low < 3 < high)
    True
    """
    return excursion_effect(frame, estimator="dcee", **options)
