"""Explaining a fitted policy: coefficients with intervals, what carries it, how it answers, whom it would treat when."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.explain.coefficients import Coefficient, Coefficients, estimate_coefficients
from surefoot.explain.consequences import ActionConsequence, find_consequences
from surefoot.explain.response import (
    Course,
    Curve,
    Importance,
    Limited,
    Scaling,
    compute_send_probability,
    count_courses,
    measure_importances,
    trace_curves,
)
from surefoot.inference.intervals import sum_by_participant
from surefoot.learning.methods import Method

__all__ = ["ActionConsequence", "Coefficient", "Coefficients", "Course", "Curve", "Explanation", "Importance", "explain"]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Everything that a policy card shows."""

    fitted: Method
    scaling: Scaling
    coefficients: Coefficients
    importances: tuple[Importance, ...]
    curves: tuple[Curve, ...]
    courses: tuple[Course, ...]
    send_rates: NDArray[np.float64]
    """Each participant's mean probability of being sent something; NaN without usable decision points."""
    send_rate: float
    logged_rate: float
    consequences: tuple[ActionConsequence, ...] = ()
    """What each action does now and later; empty with an immediate horizon."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        rows = [{**asdict(row), "interval": row.interval._asdict()} for row in self.coefficients.rows]
        arrays = [
            [
                {name: part.tolist() if isinstance(part, np.ndarray) else part for name, part in vars(item).items()}
                for item in items
            ]
            for items in (self.curves, self.courses)
        ]
        rates = dict(zip(map(str, self.fitted.logs_.participants.tolist()), self.send_rates.tolist(), strict=True))
        return {
            "method": type(self.fitted).__name__,
            "parameters": self.fitted.parameters(),
            "intervals": self.coefficients.how,
            "coefficients": rows,
            "importances": [asdict(item) for item in self.importances],
            "curves": arrays[0],
            "courses": arrays[1],
            "send_rate": self.send_rate,
            "logged_rate": self.logged_rate,
            "send_rates": rates,
            "consequences": [found.to_dict() for found in self.consequences],
        }


def explain(
    fitted: Method,
    *,
    limited: Limited | None = None,
    scaling: Scaling | None = None,
    draws: int = 200,
    seed: int = 0,
) -> Explanation:
    """Explain a fitted method.

    `limited` keeps probabilities within the study's limits (`study.clip_probabilities`); `scaling` says by which (centre,
    scale) a state variable was scaled, so that curves show it in its own units.

    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=100, seed=0)
    >>> found = explain(sf.method("ro-saccb", pooling="all").fit(logs))
    >>> found.importances[0].feature
    'engagement'
    """
    logs = fitted.logs_
    used = ~np.isnan(fitted.weights_)
    if not used.any():
        raise InputError("no decision point was usable, so there is no policy to explain; see which columns are missing")
    send = compute_send_probability(fitted, limited)
    people = len(logs.participants)
    count = sum_by_participant(logs.participant_index[used], people, np.ones(int(used.sum())))
    sums = sum_by_participant(logs.participant_index[used], people, send[used])
    return Explanation(
        fitted,
        scaling or {},
        estimate_coefficients(fitted, draws=draws, seed=seed),
        measure_importances(fitted),
        trace_curves(fitted, limited=limited, scaling=scaling or {}, seed=seed),
        count_courses(fitted, send),
        np.where(count > 0, sums / np.where(count > 0, count, 1.0), np.nan),
        float(send[used].mean()),
        float((logs.action[used] > 0).mean()),
        find_consequences(fitted),
    )
