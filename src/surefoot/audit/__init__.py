"""The audit of a fit: what was left out, and whether that was safe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.audit.checks import Check, judge, worst
from surefoot.audit.measures import Measures, Sensitivity
from surefoot.data.frames import make_frame
from surefoot.errors import InputError
from surefoot.inference.intervals import sum_by_participant
from surefoot.learning.methods import Method


@dataclass(frozen=True, eq=False)
class Audit:
    """What a fit left out, and the verdict of every check."""

    measures: Measures
    implausible: dict[str, NDArray[np.int64]]
    checks: tuple[Check, ...]
    sensitivity: tuple[Sensitivity, ...]

    @property
    def verdict(self) -> str:
        """The worst of the checks: `fine`, `look` or `unsafe`."""
        return worst([check.verdict for check in self.checks])

    def check(self, name: str) -> Check:
        return next(check for check in self.checks if check.name == name)

    def totals(self) -> dict[str, Any]:
        """Counts over all people."""
        columns = self._columns()
        numbers = {name: int(values.sum()) for name, values in columns.items() if values.dtype.kind in "iu"}
        return {
            "people": len(self.measures.fitted.logs_.participants),
            **numbers,
            "reward_share": self.measures.reward_share()[0],
        }

    def _columns(self) -> dict[str, NDArray[Any]]:
        measures, logs = self.measures, self.measures.fitted.logs_

        def count(rows: NDArray[np.bool_]) -> NDArray[np.int64]:
            return measures.total(rows).astype(np.int64)

        above = measures.removed & (np.where(measures.used, measures.relative, 0.0) > 0)
        found: dict[str, NDArray[Any]] = {
            "decision_points": count(np.ones(len(logs), dtype=bool)),
            "available": count(logs.available),
            "used": count(measures.used),
            "removed": count(measures.removed),
            "removed_above": count(above),
            "removed_below": count(measures.removed & ~above),
        }
        size = np.where(measures.removed, np.abs(measures.fitted.residuals_), 0.0)
        sizes = sum_by_participant(logs.participant_index, len(logs.participants), size)
        found["mean_removed_residual"] = sizes / np.where(found["removed"] > 0, found["removed"], 1)
        found["reward_share"] = measures.reward_share()[1]
        for j, name in enumerate(logs.state_names):
            found[f"missing {name}"] = count(logs.available & np.isnan(logs.state[:, j]))
        found[f"missing {logs.names.reward}"] = count(logs.available & np.isnan(logs.reward))
        return {**found, **{f"implausible {name}": values for name, values in self.implausible.items()}}

    def people(self, backend: str | None = None) -> Any:
        """One row per participant: counts, missing and implausible values by column, and what the cap removed."""
        logs = self.measures.fitted.logs_
        return make_frame({logs.names.participant: logs.participants, **self._columns()}, backend or logs.backend)

    def removed(self, backend: str | None = None) -> Any:
        """Every decision point that the cap removed: who, when, what came back and what was expected."""
        return self.measures.fitted.outliers(backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "verdict": self.verdict,
            "totals": self.totals(),
            "checks": [asdict(check) for check in self.checks],
            "sensitivity": [{**asdict(found), "effect": found.effect._asdict()} for found in self.sensitivity],
            "people": self.people("pyarrow").to_pylist(),
        }


def audit(
    fitted: Method, *, raw_reward: ArrayLike | None = None, implausible: Mapping[str, NDArray[np.int64]] | None = None
) -> Audit:
    """Audit a fitted method.

    `raw_reward` is the reward of every row before a transform, in which shares of the total are counted; `implausible`
    holds for each column how many of every participant's values were outside the plausible range. Both come with
    `study.read`.

    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=100, seed=0)
    >>> audit(sf.method("ro-accb").fit(logs)).verdict
    'fine'
    """
    measures = Measures.of(fitted, None if raw_reward is None else np.asarray(raw_reward, dtype=np.float64))
    people = len(fitted.logs_.participants)
    counts = {name: np.asarray(values, dtype=np.int64) for name, values in (implausible or {}).items()}
    for name, values in counts.items():
        if values.shape != (people,):
            raise InputError(f"implausible['{name}'] has shape {values.shape}; give one count for each of {people} people")
    sensitivity = measures.sensitivity()
    return Audit(measures, counts, judge(measures, sensitivity), sensitivity)
