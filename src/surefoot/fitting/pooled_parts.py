"""Pooled fits that follow from moments, in bounded memory: a first pass over the parts adds up everybody's moments, a second
one gives every decision point its weight and residual."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from surefoot.fitting.checkpoint import PartFolder
from surefoot.fitting.part_fit import PartFit, collect_fit, describe_critic, describe_policies, describe_weights, summarise
from surefoot.fitting.partition import Partition
from surefoot.fitting.stored_fit import StoredParts
from surefoot.learning.methods import MomentFit, fit_moments
from surefoot.learning.methods.moment_fit import Names
from surefoot.learning.moment_roots import MomentRoots
from surefoot.learning.pooling import find_pooling
from surefoot.numerics.parallel import prefetch
from surefoot.policies.training import KnownTraining
from surefoot.study import Study, StudyLogs


def can_pool_parts(study: Study) -> bool:
    """Whether a pooled fit can go through in parts."""
    return find_pooling(study.pooling).needs_everybody and study.method().why_rows is None


def fit_pooled_parts(partition: Partition, place: PartFolder | StoredParts) -> Iterator[int]:
    """Fit everybody together and write all parts into a place; each number when it is done."""
    found, told, rows = _fit_everybody(partition)
    for number, logs in prefetch((number, partition.read(number)) for number in range(len(partition.parts))):
        warnings = told if number == 0 else []
        place.write(number, _describe_part(partition.study, found, logs, warnings, rows, first=number == 0))
        yield number


def _fit_everybody(partition: Partition) -> tuple[MomentFit, list[str], int]:
    """The fit, what it warned of, and how many rows there are."""
    import pyarrow as pa

    roots, rows, names = _add_up_moments(partition)
    partition.forget_rows()
    pa.default_memory_pool().release_unused()
    found: list[MomentFit] = []
    told = collect_fit(lambda: found.append(fit_moments(partition.study.method(), roots, names)))
    return (found[0] if roots.participants.size == 1 else found[0].without_moments()), told, rows


def _add_up_moments(partition: Partition) -> tuple[MomentRoots, int, Names]:
    """Everybody's moments, how many rows there are, and the names of states and actions."""
    study, method = partition.study, partition.study.method()
    shared, pieces, rows = find_pooling(study.pooling).shared, [], 0
    names: Names = ((), ())
    for logs in prefetch(partition.read(number) for number in range(len(partition.parts))):
        own = method.find_roots(logs.logs)
        pieces.append(own.total() if shared else own)
        rows, names = rows + len(logs.logs), (logs.logs.state_names, logs.logs.action_names)
    roots = MomentRoots.of_others(pieces)
    return roots.total() if shared else roots, rows, names


def _describe_part(study: Study, found: MomentFit, logs: StudyLogs, told: list[str], rows: int, *, first: bool) -> PartFit:
    """What was learned, for the people of one part; one policy for all is written with the first."""
    method, data = study.method(), logs.logs
    method.fitted_ = found.describe_rows(data)
    policies = describe_policies(study, method, KnownTraining.of_logs(data))
    critic = describe_critic(method, method.unit_, method.weights_)
    if policies.participants is None:
        critic = critic.set_column(critic.column_names.index("decision_points"), "decision_points", [[rows]])
    else:
        here = np.isin(policies.participants, data.participants)
        policies = replace(policies, participants=policies.participants[here], rule=policies.rule[here])
        critic = critic.filter(here)
    weights = describe_weights(method, logs)
    repeats = policies.participants is None and not first
    return PartFit(policies, critic, weights, summarise(study, logs, told), method, repeats)
