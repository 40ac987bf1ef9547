"""What an audit found: the verdict of every check, and everybody's numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.audit.checks import find_own
from surefoot.audit.measures import Measures, Sensitivity
from surefoot.data.frames import make_frame
from surefoot.inference.intervals import Interval, sum_by_participant
from surefoot.log_checks.check import Check, find_worst


@dataclass(frozen=True, eq=False)
class AuditFindings:
    """What a fit left out, and the verdict of every check."""

    measures: Measures
    implausible: dict[str, NDArray[np.int64]]
    checks: tuple[Check, ...]
    sensitivity: tuple[Sensitivity, ...]

    @property
    def verdict(self) -> str:
        """The worst of the checks: `fine`, `look` or `unsafe`."""
        return find_worst(check.verdict for check in self.checks)

    @property
    def effect(self) -> Interval:
        """The mean effect of sending in the fit as it is."""
        return find_own(self.measures, self.sensitivity).effect

    @property
    def left_out(self) -> tuple[str, ...]:
        """Parts of the audit that were left out because the critic has many coefficients, in sentences."""
        return self.measures.list_omissions()

    def check(self, name: str) -> Check:
        """The check of that name."""
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
        """One row per participant: counts, missing and implausible values by column, and what the critic removed."""
        logs = self.measures.fitted.logs_
        return make_frame({logs.names.participant: logs.participants, **self._columns()}, backend or logs.backend)

    def list_most_removed(self, most: int) -> list[dict[str, Any]]:
        """The rows of `people` of those who lost the largest shares of their decision points, in that order."""
        logs, columns = self.measures.fitted.logs_, self._columns()
        share = columns["removed"] / np.maximum(columns["used"], 1)
        first = np.argsort(-share, kind="stable")[:most]
        data = {logs.names.participant: logs.participants, **columns}
        found: list[dict[str, Any]] = make_frame({name: data[name][first] for name in data}, "pyarrow").to_pylist()
        return found

    def removed(self, backend: str | None = None, *, most: int | None = None) -> Any:
        """Every decision point that the critic removed: who, when, what came back and what was expected.

        Where the reward was transformed it is shown as it was logged and as it was fitted. With `most` so many of them,
        those furthest from the fit first.
        """
        measures, fitted, logs = self.measures, self.measures.fitted, self.measures.fitted.logs_
        out = logs.order[measures.removed[logs.order]]
        if most is not None:
            out = out[np.argsort(-np.abs(fitted.residuals_[out]), kind="stable")[:most]]
        raw = {} if measures.unit.transform == "none" else {measures.unit.column: measures.raw_reward[out]}
        data = {
            logs.names.participant: logs.participant[out],
            logs.names.time: logs.time[out],
            logs.names.action: np.array(logs.action_names)[logs.action[out]],
            **raw,
            str(measures.unit): logs.reward[out],
            "expected": logs.reward[out] - fitted.residuals_[out],
            "residual": fitted.residuals_[out],
            "limit": np.sqrt(fitted.threshold_[fitted.unit_[out]]),
        }
        return make_frame(data, backend or logs.backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "verdict": self.verdict,
            "left_out": list(self.left_out),
            "totals": self.totals(),
            "checks": [asdict(check) for check in self.checks],
            "sensitivity": [{**asdict(found), "effect": found.effect._asdict()} for found in self.sensitivity],
            "people": self.people("pyarrow").to_pylist(),
        }
