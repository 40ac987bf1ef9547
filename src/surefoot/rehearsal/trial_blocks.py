"""Blocks of trials: every candidate in the same trials of one environment, and the numbers that are stored of a trial."""

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.effects.analysis import Analysis
from surefoot.effects.study_effects import estimate_primary_effect
from surefoot.errors import InputError
from surefoot.rehearsal.gymnasium_model import EnvironmentModel
from surefoot.rehearsal.pilot_model import PilotModel
from surefoot.rehearsal.plan import COIN, NEVER, Candidate, TrialDesign
from surefoot.rehearsal.trial_run import DECIDERS, TrialRecord, run_trials
from surefoot.study import Study

Floats = NDArray[np.float64]
UPDATE_STATES = ("done", "refused", "waiting", "failed")


class Block(NamedTuple):
    """Some trials of one environment, the smallest unit of work that is stored.

    Kinds: `trials` with the estimated effects; `draws`, the same trials with effects drawn from the pilot's uncertainty,
    another draw for each.
    """

    environment: int
    first: int
    trials: int
    kind: str = "trials"

    @property
    def name(self) -> str:
        return f"environment-{self.environment:02d}-{self.kind}-{self.first:06d}-{self.first + self.trials - 1:06d}"


@dataclass(frozen=True, eq=False)
class Stage:
    """Everything that a block needs: the people in every environment, candidates, and the primary analysis. A mean outcome
    lower by `harm` than never's harms."""

    models: tuple[PilotModel | EnvironmentModel, ...]
    candidates: tuple[Candidate, ...]
    design: TrialDesign
    seed: int
    harm: float
    analysis: Analysis
    estimator: str

    def draw_people(self, block: Block) -> tuple[PilotModel | EnvironmentModel, list[int]]:
        """New people for every trial of the block, and the seeds of the trials, the same for all candidates and blocks."""
        numbers = range(block.first, block.first + block.trials)
        roots = [np.random.SeedSequence(self.seed, spawn_key=(0, number)) for number in numbers]
        seeds = [int(root.generate_state(1, np.uint64)[0]) for root in roots]
        draws = [1 + number for number in numbers] if block.kind == "draws" else None
        people = self.models[block.environment].draw_people(self.design.participants, seed=seeds, draws=draws)
        return people, seeds


def run_block(block: Block, stage: Stage) -> dict[str, dict[str, list[Any]]]:
    """Candidate → measure → a value for each trial; they depend on the block and the stage alone."""
    people, seeds = stage.draw_people(block)
    candidates = {candidate.name: candidate for candidate in stage.candidates}

    def run(name: str) -> list[TrialRecord]:
        return run_trials(people, candidates[name], stage.design, seeds=seeds)

    compared = {name: run(name) for name in (COIN, NEVER)}
    points = stage.design.decision_points
    outcomes = {
        name: [record.measured.pad_rows(record.outcome, points=points) for record in records]
        for name, records in compared.items()
    }
    results: dict[str, dict[str, list[Any]]] = {}
    for name, candidate in candidates.items():
        measures: dict[str, list[Any]] = {}
        for trial, record in enumerate(compared.pop(name) if name in compared else run(name)):
            row = {
                **summarise_trial(
                    record, outcomes[COIN][trial], outcomes[NEVER][trial], harm=stage.harm, per_day=stage.design.per_day
                ),
                **analyse_trial(candidate.study, record, stage.analysis, stage.estimator),
            }
            for measure, value in row.items():
                measures.setdefault(measure, []).append(value)
        results[name] = measures
    return results


def _mean(values: Floats, axis: int | None = None) -> Any:
    """The mean of known values; NaN where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmean(values, axis=axis)


def summarise_trial(record: TrialRecord, coin: Floats, never: Floats, *, harm: float, per_day: int) -> dict[str, Any]:
    """The numbers of a trial that do not need an analysis; `coin` and `never` are outcomes of the same people with the same
    chance, (people, decision points).

    `outcome` and `lower_quarter`: mean and 25th percentile of people's mean outcomes. `sent`, `sent_low`, `sent_high`: share
    of available decision points with a prompt, mean, 10th and 90th percentile of people. `harmed`: share of people with a
    mean outcome more than `harm` below never's.
    """
    points = coin.shape[1]
    pad = partial(record.measured.pad_rows, points=points)
    outcome = pad(record.outcome)
    free = record.measured.available
    sent = pad(np.where(free, record.measured.action > 0, np.nan))
    fallback = pad(np.where(free, record.source == DECIDERS.index("fallback"), np.nan))
    means = _mean(outcome, -1)
    shares = _mean(sent, -1)
    over_never = _mean(outcome - never, -1)
    days = points // per_day
    states = [update.state for update in record.updates]

    def by_day(values: Floats) -> list[float]:
        return [float(_mean(day)) for day in np.split(values[:, : days * per_day], days, axis=1)]

    return {
        "outcome": float(means.mean()),
        "lower_quarter": float(np.quantile(means, 0.25)),
        "sent": float(_mean(shares)),
        "sent_low": float(np.nanquantile(shares, 0.1)),
        "sent_high": float(np.nanquantile(shares, 0.9)),
        "over_coin": float(_mean(outcome - coin, -1).mean()),
        "over_never": float(over_never.mean()),
        "harmed": float((over_never < -harm).mean()),
        "fallback": float(_mean(fallback)),
        "outcome_by_day": by_day(outcome),
        "sent_by_day": by_day(sent),
        **{f"updates_{state}": float(states.count(state)) for state in UPDATE_STATES},
        "refused_by": [check for update in record.updates for check in update.refused_by],
        "failures": next((str(update.message) for update in record.updates if update.state == "failed"), ""),
        "left": float(np.mean(~np.isnan(record.left))),
    }


def analyse_trial(study: Study, record: TrialRecord, analysis: Analysis, estimator: str) -> dict[str, Any]:
    """The primary analysis of a trial's logs; NaN, with the reason, where it is refused."""
    try:
        if (record.measured.probability == 1).all():
            # Known without the screen, which takes most of the time.
            raise InputError("every action was certain, so there is nothing to compare")
        result = estimate_primary_effect(study, record.logs, analysis, estimator)
        weight = result.points.counted_only.weight
        return {
            "estimate": float(result.params[0]),
            "standard_error": float(result.bse[0]),
            "p_value": float(result.joint_test().pvalue),
            "effective_share": float(weight.sum() ** 2 / (len(weight) * (weight**2).sum())),
            "no_analysis": "",
        }
    except InputError as error:
        missing = dict.fromkeys(("estimate", "standard_error", "p_value", "effective_share"), np.nan)
        return {**missing, "no_analysis": str(error)}
