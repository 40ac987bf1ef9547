"""One part of a fit: some people's policies, critics and weights, and what there is to say about them."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.mean_weights import MeanWeights
from surefoot.errors import FitWarning
from surefoot.learning.diagnostics import Learnable
from surefoot.learning.methods import Method
from surefoot.log_checks import CHECKS, check_logs, list_warnings
from surefoot.log_checks.probabilities import check_balance, check_mean_weights
from surefoot.policies.features import critic_feature_names
from surefoot.policies.policies import Policies
from surefoot.study import Study, StudyLogs
from surefoot.study.policy_reading import describe_reading

if TYPE_CHECKING:
    import pyarrow as pa

OF_A_PART = tuple(check for check in CHECKS if check not in (check_mean_weights, check_balance))
"""Mean weights are added up over all parts and judged once; balance, which a fit does not need, is for the audit."""


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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FitWarning)
        method.fit_some(logs.logs, engine=engine)
    messages = []
    for warning in caught:
        if issubclass(warning.category, FitWarning):
            messages.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return StudyFit(method, replace(method.policies_, made_for=describe_reading(study)), messages)


def describe_fit(study: Study, logs: StudyLogs, fit: StudyFit) -> PartFit:
    """A fit with its tables and its summary."""
    import pyarrow as pa

    method = fit.method
    weights = pa.table(
        {
            "row": logs.row,
            "participant": logs.logs.participant,
            "time": logs.logs.time,
            "weight": pa.array(method.weights_, from_pandas=True),
            "residual": pa.array(method.residuals_, from_pandas=True),
        }
    )
    return PartFit(fit.policies, _describe_critic(method), weights, summarise_fit(study, logs, fit), method)


def _describe_critic(method: Method) -> pa.Table:
    """One row per fit."""
    import pyarrow as pa

    logs = method.logs_
    names = [f"{action}: {feature}" for action, feature in critic_feature_names(logs.state_names, logs.action_names)]
    fits = len(method.participants_)
    return pa.table(
        {
            "participant": method.participants_,
            "threshold": method.threshold_,
            "scale": method.scale_,
            "n_iter": method.n_iter_,
            "decision_points": np.bincount(method.unit_, minlength=fits),
            "used": count_used(method),
            "removed": np.bincount(method.unit_[method.removed_], minlength=fits),
            **{name: np.ascontiguousarray(method.critic_coef_[:, j]) for j, name in enumerate(names)},
        }
    )


def count_used(method: Method) -> NDArray[np.int64]:
    """The number of decision points that each fit used."""
    return np.bincount(method.unit_[method.used_], minlength=len(method.participants_))


def summarise_fit(study: Study, logs: StudyLogs, fit: StudyFit | None) -> dict[str, Any]:
    """Counts of the decision points, and the warnings about them and about the fit; None where nothing was fitted."""
    data = logs.logs
    available = data.available
    missing = {name: np.isnan(data.state[available, j]) for j, name in enumerate(data.state_names)}
    firsts = {variable: missing[study.columns_of(variable)[0]] for variable in study.state}
    mean_weights = MeanWeights.of(data)
    return {
        "people": len(data.participants),
        "decision_points": len(data),
        "available": int(available.sum()),
        "used": 0 if fit is None else int(fit.method.used_.sum()),
        "removed": 0 if fit is None else int(fit.method.removed_.sum()),
        "missing": {
            **{name: int(cells.sum()) for name, cells in firsts.items()},
            data.names.reward: int(np.isnan(data.reward[available]).sum()),
        },
        "reward_range": Learnable.of_logs(data).reward_range,
        "implausible": {name: int(count.sum()) for name, count in logs.implausible.items()},
        "flagged": {} if logs.screen is None else logs.screen.counts(),
        "mean_weights": None if mean_weights is None else mean_weights.to_dict(),
        "warnings": ([] if fit is None else fit.warnings) + list_warnings(check_logs(logs, study, checks=OF_A_PART)),
    }
