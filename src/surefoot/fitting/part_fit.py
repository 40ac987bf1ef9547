"""One part of a fit: some people's policies, critics and weights, and what there is to say about them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.mean_weights import MeanWeights
from surefoot.errors import FitWarning
from surefoot.learning.diagnostics import Learnable
from surefoot.learning.methods import Method
from surefoot.learning.moment_roots import MomentRoots
from surefoot.log_checks import check_logs, list_warnings
from surefoot.policies.features import critic_feature_names
from surefoot.policies.policies import Policies
from surefoot.policies.training import Training
from surefoot.study import Study, StudyLogs
from surefoot.study.policy_reading import describe_reading

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class PartFit:
    """What was learned about the people of one part."""

    policies: Policies
    critic: pa.Table
    weights: pa.Table
    summary: dict[str, Any]
    method: Method
    """As it was fitted; neither saved nor sent from a worker, because it holds all the logs."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "method": None}

    def save(self, folder: Path) -> None:
        from pyarrow import parquet

        self.policies.save(folder / "policies.parquet")
        parquet.write_table(self.critic, folder / "critic.parquet")
        parquet.write_table(self.weights, folder / "weights.parquet")
        (folder / "summary.json").write_text(json.dumps(self.summary), encoding="utf-8")


@dataclass(frozen=True, eq=False)
class StudyFit:
    """The study's method as it was fitted to some people, its policies, and what it warned of."""

    method: Method
    policies: Policies
    warnings: list[str]


def fit_part(study: Study, logs: StudyLogs, engine: str = "numpy") -> PartFit:
    """Fit the study's method to these people; warnings are kept in the summary, so that a resumed run has them too."""
    return describe_fit(study, logs, fit_study(study, logs, engine))


def fit_study(study: Study, logs: StudyLogs, engine: str = "numpy") -> StudyFit:
    """Fit the study's method to these people."""
    method = study.method()
    told = collect_fit(lambda: method.fit_some(logs.logs, engine=engine))
    return StudyFit(method, describe_policies(study, method), told)


def describe_fit(study: Study, logs: StudyLogs, fit: StudyFit) -> PartFit:
    """A fit with its tables and its summary."""
    method = fit.method
    weights = method.weights_
    used = ~np.isnan(weights)
    counts = {"used": int(used.sum()), "removed": int((weights[used] == 0).sum())}
    critic = describe_critic(method, method.unit_, weights)
    return PartFit(
        fit.policies, critic, describe_weights(method, logs), summarise(study, logs, fit.warnings) | counts, method
    )


def collect_fit(fit: Callable[[], object]) -> list[str]:
    """Fit, and the warnings about it as text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FitWarning)
        fit()
    for warning in caught:
        if not issubclass(warning.category, FitWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return [str(warning.message) for warning in caught if issubclass(warning.category, FitWarning)]


def describe_policies(study: Study, method: Method, training: Training | None = None) -> Policies:
    """The policies of a fitted method, with how the study reads states and, where it is more than the method's logs, what
    they were learned from."""
    found: Policies = method.policies_
    return replace(found, made_for=describe_reading(study), training=training or found.training)


def describe_critic(method: Method, unit: NDArray[np.int64], weights: NDArray[np.float64]) -> pa.Table:
    """One row per fit, from the fit and the weights of rows that belong to it."""
    import pyarrow as pa

    logs = method.logs_
    names = [f"{action}: {feature}" for action, feature in critic_feature_names(logs.state_names, logs.action_names)]
    used, units = ~np.isnan(weights), len(method.participants_)
    return pa.table(
        {
            "participant": method.participants_,
            "threshold": method.threshold_,
            "scale": method.scale_,
            "n_iter": method.n_iter_,
            "decision_points": np.bincount(unit, minlength=units),
            "used": count_used(method),
            "removed": np.bincount(unit[used & (weights == 0)], minlength=units),
            **{name: np.ascontiguousarray(method.critic_coef_[:, j]) for j, name in enumerate(names)},
        }
    )


def count_used(method: Method) -> NDArray[np.int64]:
    """How many decision points each fit used; moments may be of more than the rows that are there."""
    if method.roots_ is None:
        return np.bincount(method.unit_[method.used_], minlength=len(method.participants_))
    roots: MomentRoots = method.roots_.total() if method.pooled_ else method.roots_
    return roots.used


def describe_weights(method: Method, logs: StudyLogs, rows_before: int = 0) -> pa.Table:
    """One row per decision point; `rows_before` were read before these."""
    import pyarrow as pa

    return pa.table(
        {
            "row": rows_before + logs.row,
            "participant": logs.logs.participant,
            "time": logs.logs.time,
            "weight": pa.array(method.weights_, from_pandas=True),
            "residual": pa.array(method.residuals_, from_pandas=True),
        }
    )


def summarise(study: Study, logs: StudyLogs, told: list[str]) -> dict[str, Any]:
    """Counts of what was read, and what there is to say about it."""
    data, free = logs.logs, logs.logs.available
    missing = {name: np.isnan(data.state[free, j]) for j, name in enumerate(data.state_names)}
    firsts = {variable: missing[study.columns_of(variable)[0]] for variable in study.state}
    weights = MeanWeights.of(data)
    return {
        "people": len(data.participants),
        "decision_points": len(data),
        "available": int(free.sum()),
        "used": int(data.usable.sum()),
        "removed": 0,
        "missing": {
            **{name: int(n.sum()) for name, n in firsts.items()},
            data.names.reward: int(np.isnan(data.reward[free]).sum()),
        },
        "reward_range": Learnable.of_logs(data).reward_range,
        "implausible": {name: int(count.sum()) for name, count in logs.implausible.items()},
        "flagged": {} if logs.screen is None else logs.screen.counts(),
        "mean_weights": None if weights is None else weights.to_dict(),
        "warnings": told + list_warnings(check_logs(logs, study)),
    }
