"""One part of a fit: some people's policies, critics and weights, and what there is to say about them."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot import policies
from surefoot.errors import FitWarning
from surefoot.features import critic_feature_names
from surefoot.methods import Method
from surefoot.policies import Policies
from surefoot.study import Study, StudyLogs

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
    """As it was fitted; not saved."""

    def save(self, folder: Path) -> None:
        from pyarrow import parquet

        self.policies.save(folder / "policies.parquet")
        parquet.write_table(self.critic, folder / "critic.parquet")
        parquet.write_table(self.weights, folder / "weights.parquet")
        (folder / "summary.json").write_text(json.dumps(self.summary), encoding="utf-8")


def fit_part(study: Study, logs: StudyLogs, engine: str = "numpy") -> PartFit:
    """Fit the study's method to these people; warnings are kept in the summary, so that a resumed run has them too."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FitWarning)
        method = study.method().fit(logs.logs, engine=engine)
    for warning in caught:
        if not issubclass(warning.category, FitWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    told = [str(warning.message) for warning in caught if issubclass(warning.category, FitWarning)]
    return PartFit(method.policies_, _critic(method), _weights(method, logs), _summary(study, method, logs, told), method)


def _critic(method: Method) -> pa.Table:
    import pyarrow as pa

    logs, unit = method.logs_, method._unit
    names = [f"{action}: {feature}" for action, feature in critic_feature_names(logs.state_names, logs.action_names)]
    used = ~np.isnan(method.weights_)
    units = len(method.users_)
    return pa.table(
        {
            "user": method.users_,
            "threshold": method.threshold_,
            "scale": method.scale_,
            "n_iter": method.n_iter_,
            "decision_points": np.bincount(unit, minlength=units),
            "used": np.bincount(unit[used], minlength=units),
            "removed": np.bincount(unit[used & (method.weights_ == 0)], minlength=units),
            **{name: np.ascontiguousarray(method.critic_coef_[:, j]) for j, name in enumerate(names)},
        }
    )


def _weights(method: Method, logs: StudyLogs) -> pa.Table:
    import pyarrow as pa

    return pa.table(
        {
            "row": logs.row,
            "user": logs.logs.user,
            "time": logs.logs.time,
            "weight": pa.array(method.weights_, from_pandas=True),
            "residual": pa.array(method.residuals_, from_pandas=True),
        }
    )


def _summary(study: Study, method: Method, logs: StudyLogs, told: list[str]) -> dict[str, Any]:
    data, free = logs.logs, logs.logs.available
    missing = {name: np.isnan(data.state[free, j]) for j, name in enumerate(data.state_names)}
    firsts = {variable: missing[study.columns_of(variable)[0]] for variable in study.state}
    used = ~np.isnan(method.weights_)
    return {
        "people": len(data.users),
        "decision_points": len(data),
        "available": int(free.sum()),
        "used": int(used.sum()),
        "removed": int((method.weights_[used] == 0).sum()),
        "missing": {
            **{name: int(n.sum()) for name, n in firsts.items()},
            data.names.reward: int(np.isnan(data.reward[free]).sum()),
        },
        "implausible": {name: int(count.sum()) for name, count in logs.implausible.items()},
        "warnings": told,
    }


def merged_policies(folders: list[Path]) -> Policies:
    """The policies of several parts as one, sorted by person."""
    found = [policies.load(folder / "policies.parquet") for folder in folders]
    first = found[0]
    if first.users is None:
        return first
    users = np.concatenate([part.users for part in found if part.users is not None])
    order = np.argsort(users)
    arrays = {name: np.concatenate([part.rule.arrays()[name] for part in found])[order] for name in first.rule.arrays()}
    return Policies(users[order], type(first.rule)(**arrays), first.action_names, first.state_names)


def merge_tables(folders: list[Path], name: str, out: Path, sort_by: str | None = None) -> None:
    """The tables of several parts as one file, part by part; with `sort_by` in memory and sorted."""
    import pyarrow as pa
    from pyarrow import parquet

    files = [folder / name for folder in folders]
    schema = pa.unify_schemas([parquet.read_schema(file) for file in files], promote_options="permissive")
    with parquet.ParquetWriter(out, schema) as writer:
        if sort_by is not None:
            writer.write_table(pa.concat_tables([parquet.read_table(file).cast(schema) for file in files]).sort_by(sort_by))
            return
        for file in files:
            writer.write_table(parquet.read_table(file).cast(schema))
