"""Blocks of trials: every candidate in the same trials of one environment, with the same people and the same chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.effects.analysis import Analysis
from surefoot.rehearsal.best_policy import can_plan, run_best
from surefoot.rehearsal.candidates import BEST_FIXED, COIN, NEVER, Candidate
from surefoot.rehearsal.design import TrialDesign
from surefoot.rehearsal.pilot_model import PilotModel
from surefoot.rehearsal.trial_answers import TrialPaths, analyse_trial, count_updates, summarise_paths
from surefoot.rehearsal.trial_record import TrialRecord
from surefoot.rehearsal.trial_run import run_trials

Floats = NDArray[np.float64]
REPORTED, TUNING = 0, 1
"""Which seeds: those of the trials that are reported, and others."""
FIXED_GRID = tuple(round(0.1 * step, 1) for step in range(11))
"""Probabilities of sending among which the best fixed one is looked for."""
PLANNED = "planned"


class Block(NamedTuple):
    """Some trials of one environment; the smallest piece of work that is kept."""

    environment: int
    first: int
    trials: int

    @property
    def name(self) -> str:
        return f"environment-{self.environment:02d}-trials-{self.first:06d}-{self.first + self.trials - 1:06d}"


class TuningTask(NamedTuple):
    """What is best in one environment, found on seeds of its own."""

    environment: int
    trials: int

    @property
    def name(self) -> str:
        return f"environment-{self.environment:02d}-tuning-{self.trials:06d}"


@dataclass(frozen=True, eq=False)
class Stage:
    """All that a block needs.

    Attributes
    ----------
    models
        The people, in every environment.
    candidates
        Without the best fixed probability, which differs between environments.
    design, seed
        Of the trials.
    harm
        A mean reward so much below never's harms.
    analysis, estimator
        The primary analysis.
    tuned
        For every environment what `tune` found; empty before that.
    """

    models: tuple[PilotModel, ...]
    candidates: tuple[Candidate, ...]
    design: TrialDesign
    seed: int
    harm: float
    analysis: Analysis
    estimator: str
    tuned: tuple[Mapping[str, Any], ...] = ()

    def make_seeds(self, purpose: int, first: int, trials: int) -> list[int]:
        """One for each trial, whatever block it is in and whoever decides."""
        roots = [np.random.SeedSequence(self.seed, spawn_key=(purpose, first + trial)) for trial in range(trials)]
        return [int(root.generate_state(1, np.uint64)[0]) for root in roots]

    @property
    def points(self) -> int:
        return self.design.decision_points

    def list_candidates(self, environment: int) -> list[Candidate]:
        """All of them, the best fixed probability after the other references."""
        best = Candidate.fixed(self.candidates[0].study, self.tuned[environment]["best_fixed"], BEST_FIXED)
        places = [place for place, one in enumerate(self.candidates) if one.learns]
        first = places[0] if places else len(self.candidates)
        return [*self.candidates[:first], best, *self.candidates[first:]]


def _lay_rewards(records: list[TrialRecord], points: int) -> Floats:
    return np.stack([TrialPaths.of_record(record, points).reward for record in records])


def tune(task: TuningTask, stage: Stage) -> dict[str, Any]:
    """The mean reward of every fixed probability and of the planned policy; which fixed one, and which of all, is best."""
    seeds = stage.make_seeds(TUNING, 0, task.trials)
    people = stage.models[task.environment].draw_people(stage.design.participants, seed=seeds)
    study = stage.candidates[0].study
    means: dict[str, float] = {}
    for send in FIXED_GRID:
        records = run_trials(people, Candidate.fixed(study, send), stage.design, seeds=seeds)
        means[f"{send:g}"] = float(np.nanmean(_lay_rewards(records, stage.points)))
    best_fixed = max(FIXED_GRID, key=lambda send: means[f"{send:g}"])
    planned = -np.inf
    if can_plan(people.environment):
        planned = float(run_best(people, per_day=stage.design.per_day, days=stage.design.days, seeds=seeds).mean())
        means[PLANNED] = planned
    best = PLANNED if planned > means[f"{best_fixed:g}"] else f"{best_fixed:g}"
    return {"means": means, "best_fixed": best_fixed, "best": best}


def run_block(block: Block, stage: Stage) -> dict[str, dict[str, list[Any]]]:
    """Candidate → measure → a value for each trial; they depend on the block and the stage alone."""
    seeds = stage.make_seeds(REPORTED, block.first, block.trials)
    people = stage.models[block.environment].draw_people(stage.design.participants, seed=seeds)
    candidates = {one.name: one for one in stage.list_candidates(block.environment)}

    def run(name: str) -> list[TrialRecord]:
        return run_trials(people, candidates[name], stage.design, seeds=seeds)

    compared = {name: run(name) for name in (COIN, NEVER, BEST_FIXED)}
    rewards = {name: _lay_rewards(records, stage.points) for name, records in compared.items()}
    best = rewards[BEST_FIXED]
    if stage.tuned[block.environment]["best"] == PLANNED:
        best = run_best(people, per_day=stage.design.per_day, days=stage.design.days, seeds=seeds)
    against = {"coin": rewards[COIN], "never": rewards[NEVER], "best": best}
    return {
        name: _summarise_trials(one, compared.pop(name) if name in compared else run(name), stage, against)
        for name, one in candidates.items()
    }


def _summarise_trials(
    candidate: Candidate, records: list[TrialRecord], stage: Stage, against: Mapping[str, Floats]
) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for trial, record in enumerate(records):
        others = {name: values[trial] for name, values in against.items()}
        paths = TrialPaths.of_record(record, stage.points)
        row = {
            **summarise_paths(paths, **others, harm=stage.harm, per_day=stage.design.per_day),
            **count_updates(update.state for update in record.updates),
            "refused_by": [check for update in record.updates for check in update.refused_by],
            "left": float(np.mean(~np.isnan(record.left))),
            **analyse_trial(candidate.study, record, stage.analysis, stage.estimator),
        }
        for name, value in row.items():
            found.setdefault(name, []).append(value)
    return found
