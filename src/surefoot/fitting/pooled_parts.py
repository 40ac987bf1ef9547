"""Pooled fits in bounded memory.

A first pass over the parts adds up everybody's moments or, where the fit does not follow from them, puts the decision points
into files that the fit goes over as often as it needs. A second pass gives every decision point its weight and residual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from surefoot.fitting.checkpoint import PartFolder
from surefoot.fitting.part_fit import PartFit, collect_fit, describe_critic, describe_policies, describe_weights, summarise
from surefoot.fitting.partition import Partition
from surefoot.fitting.stored_fit import StoredParts
from surefoot.learning.fitted import Fitted
from surefoot.learning.methods import BorrowingFit, MomentFit, PooledFit, can_stream, fit_moments, fit_pooled, write_logs
from surefoot.learning.methods.moment_fit import Names
from surefoot.learning.moment_roots import MomentRoots
from surefoot.learning.pooled_rows import PooledRows
from surefoot.learning.pooling import find_pooling
from surefoot.numerics.parallel import prefetch
from surefoot.policies.training import KnownTraining
from surefoot.study import Study, StudyLogs

AnyFit = MomentFit | PooledFit | BorrowingFit


def can_pool_parts(study: Study, engine: str = "auto") -> bool:
    """Whether a pooled fit goes through in parts: in files it is one of NumPy."""
    method = study.method()
    possible = method.why_rows is None or (engine in ("auto", "numpy") and can_stream(method))
    return engine != "dask" and find_pooling(study.pooling).needs_everybody and possible


def fit_pooled_parts(partition: Partition, place: PartFolder | StoredParts) -> Iterator[int]:
    """Fit everybody together and write all parts into a place; each number when it is done."""
    found, told = _fit_everybody(partition, place.folder)
    rows = sum(int(lengths.sum()) for lengths in partition.lengths)
    for number, logs in prefetch((number, partition.read(number)) for number in range(len(partition.parts))):
        warnings = told if number == 0 else []
        place.write(number, _describe_part(partition.study, found, logs, warnings, rows, first=number == 0))
        yield number


def _fit_everybody(partition: Partition, folder: Path | None) -> tuple[AnyFit, list[str]]:
    """The fit, and what it warned of; decision points, where it needs them, are in files in a folder."""
    method = partition.study.method()
    fit = _prepare_moments(partition) if method.why_rows is None else _prepare_rows(partition, folder)
    _release_memory(partition)
    found: list[AnyFit] = []
    told = collect_fit(lambda: found.append(fit()))
    return found[0], told


def _prepare_rows(partition: Partition, folder: Path | None) -> Callable[[], AnyFit]:
    """Everybody's decision points in files, and then the fit to them."""
    method, everyone = partition.study.method(), np.concatenate(partition.parts)
    order = np.argsort(everyone)
    rows = PooledRows(everyone[order], np.concatenate(partition.lengths)[order], folder, partition.part_rows)
    for logs in prefetch(partition.read(number) for number in range(len(partition.parts))):
        write_logs(method, logs.logs, rows)
    return lambda: fit_pooled(method, rows)


def _prepare_moments(partition: Partition) -> Callable[[], MomentFit]:
    """Everybody's moments, and then the fit to them."""
    roots, names = _add_up_moments(partition)

    def fit() -> MomentFit:
        found = fit_moments(partition.study.method(), roots, names)
        return found if roots.participants.size == 1 else found.without_moments()

    return fit


def _add_up_moments(partition: Partition) -> tuple[MomentRoots, Names]:
    """Everybody's moments, and the names of states and actions."""
    study, method = partition.study, partition.study.method()
    shared, pieces = find_pooling(study.pooling).shared, []
    names: Names = ((), ())
    for logs in prefetch(partition.read(number) for number in range(len(partition.parts))):
        own = method.find_roots(logs.logs)
        pieces.append(own.total() if shared else own)
        names = (logs.logs.state_names, logs.logs.action_names)
    roots = MomentRoots.of_others(pieces)
    return roots.total() if shared else roots, names


def _release_memory(partition: Partition) -> None:
    """What reading needed."""
    import pyarrow as pa

    partition.forget_rows()
    pa.default_memory_pool().release_unused()


def _describe_part(study: Study, found: AnyFit, logs: StudyLogs, told: list[str], rows: int, *, first: bool) -> PartFit:
    """What was learned, for the people of one part; one policy for all is written with the first. There are `rows` in
    all."""
    method, data = study.method(), logs.logs
    described: list[Fitted] = []
    told = told + collect_fit(lambda: described.append(found.describe_rows(data)))
    method.fitted_ = described[0]
    policies = describe_policies(study, method, KnownTraining.of_logs(data))
    used, weights = ~np.isnan(method.weights_), method.weights_
    critic = describe_critic(method, method.unit_, weights)
    if policies.participants is None:
        for name, count in {"decision_points": rows, **found.counts}.items():
            critic = critic.set_column(critic.column_names.index(name), name, [[count]])
    else:
        here = np.isin(policies.participants, data.participants)
        policies = replace(policies, participants=policies.participants[here], rule=policies.rule[here])
        critic = critic.filter(here)
    summary = summarise(study, logs, told) | {"used": int(used.sum()), "removed": int((weights[used] == 0).sum())}
    repeats = policies.participants is None and not first
    return PartFit(policies, critic, describe_weights(method, logs), summary, method, repeats)
