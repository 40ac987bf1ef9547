"""Rehearse a whole trial: candidates side by side in environments, from a pilot or from what the study states."""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from surefoot.atomic_files import json_text, refuse_unwritable, write_texts
from surefoot.data.log_table import LogFile
from surefoot.data.trajectories import Trajectories
from surefoot.effects.study_effects import plan_primary_effect
from surefoot.errors import InputError, did_you_mean
from surefoot.experiments.engine import UnitProgress, run_units
from surefoot.fitting.manifest import hash_arrays
from surefoot.log_checks import check_logs, list_warnings
from surefoot.numerics.parallel import count_cores
from surefoot.rehearsal.candidate_answers import CandidateAnswers, JoinedBlocks
from surefoot.rehearsal.model_checks import PilotChecks, check_pilot_model
from surefoot.rehearsal.pilot_effect import PilotEffect, estimate_pilot_effect
from surefoot.rehearsal.pilot_fit import fit_pilot
from surefoot.rehearsal.pilot_model import PilotModel
from surefoot.rehearsal.plan import RehearsalPlan
from surefoot.rehearsal.recommendation import recommend, recommend_overall
from surefoot.rehearsal.report import Rehearsal
from surefoot.rehearsal.study_model import from_study
from surefoot.rehearsal.trial_blocks import Block, Stage, TuningTask, run_block, tune
from surefoot.study import Study, StudyLogs
from surefoot.study.log_reader import study_files
from surefoot.version import __version__

ENGINES = ("processes", "dask")
FORMAT = "surefoot-rehearsal-1"
MANIFEST = "manifest.json"
SPREAD_TRIALS = 20
"""Simulated trials from which the reward's standard deviation is taken."""


@dataclass(frozen=True, eq=False)
class _Pilot:
    """What a pilot says, or the study where there is none."""

    model: PilotModel
    effect: PilotEffect | None
    checks: PilotChecks | None
    warnings: tuple[str, ...] = ()


def rehearse(
    pilot: str | Path | StudyLogs | Trajectories | None,
    study: Study | str | Path,
    plan: RehearsalPlan | str | Path | None = None,
    *,
    trials: int | None = None,
    folder: str | Path | None = None,
    jobs: int = 0,
    engine: str = "processes",
    scheduler: str | None = None,
    progress: UnitProgress | None = None,
) -> Rehearsal:
    """Simulate trials of every candidate in every environment, and say what would come of them.

    Parameters
    ----------
    pilot
        Logs of a pilot: a file, or what `study.read` gave; None to take the study's ranges and what the plan states.
    study
        The study, or its file.
    plan
        The plan, or its file; the defaults without one.
    trials
        How many of each environment, instead of the plan's number.
    folder
        Where finished blocks are kept, so that an interrupted rehearsal goes on, and more trials can be added.
    jobs
        Processes; 0 means one for every core. Never changes a number.
    engine, scheduler
        `processes` on this machine, or `dask` with the address of a scheduler (without it a cluster on this machine).
    progress
        Told of every finished block.

    Returns
    -------
    Rehearsal
        Answers, recommendation, table, page.

    Examples
    --------
    >>> import surefoot as sf
    >>> text = '''[columns]
    ... participant = "participant"
    ... time = "time"
    ... [state.mood]
    ... range = [0, 10]
    ... [reward]
    ... range = [0, 100]
    ... [probability_limits]
    ... minimum = 0.2
    ... maximum = 0.8'''
    >>> plan = sf.rehearsal.RehearsalPlan.parse('''trials = 4
    ... tuning_trials = 2
    ... methods = ["saccb"]
    ... environment = [{effect = 0.3}]
    ... design = {participants = 8, days = 4, per_day = 3, update_every = 2}''')
    >>> rehearsal = rehearse(None, sf.Study.parse(text), plan, jobs=1)
    >>> [environment.name for environment in rehearsal.environments], list(rehearsal.answers["effect 0.3"])
    (['no effect', 'effect 0.3'], ['coin', 'never', 'always', 'best fixed', 'saccb'])
    """
    study = study if isinstance(study, Study) else Study.load(study)
    if not isinstance(plan, RehearsalPlan):
        plan = RehearsalPlan() if plan is None else RehearsalPlan.load(plan)
    plan = plan if trials is None else plan.with_trials(trials)
    logs = Path(pilot) if isinstance(pilot, str | Path) else pilot
    elsewhere = _choose_engine(engine, scheduler, jobs)
    manifest = make_manifest(study, plan, fingerprint_pilot(logs, study))
    if folder is not None:
        refuse_other_results(Path(folder), manifest)
    known = _learn_pilot(logs, study, plan)
    with _open_blocks(folder, manifest) as blocks:
        stage, spread, notes = _set_stage(study, plan, known)
        run = partial(
            run_units, folder=blocks, jobs=jobs or count_cores(), progress=progress or UnitProgress(), elsewhere=elsewhere
        )
        tasks = [TuningTask(number, plan.tuning_trials) for number in range(len(stage.models))]
        stage = replace(stage, tuned=tuple(run(tasks, partial(tune, stage=stage))))
        units = _list_blocks(plan, len(stage.models))
        results = run(units, partial(run_block, stage=stage))
    return _conclude(plan, known, stage, manifest, dict(zip(units, results, strict=True)), spread, notes)


def _choose_engine(
    engine: str, scheduler: str | None, jobs: int
) -> Callable[[list[Any], Callable[[Any], Any]], Iterator[tuple[Any, Any]]] | None:
    if engine not in ENGINES:
        raise InputError(f"there is no engine '{engine}'{did_you_mean(engine, ENGINES)}; choose from {list(ENGINES)}")
    if jobs < 0:
        raise InputError(f"jobs is {jobs}; give a number of processes, or 0 for one per core")
    if engine == "processes":
        if scheduler is not None:
            raise InputError("scheduler is for engine 'dask'; choose that engine or leave the scheduler out")
        return None
    from surefoot.fitting.dask import run_on_cluster

    return partial(run_on_cluster, scheduler=scheduler)


@contextmanager
def _open_blocks(folder: str | Path | None, manifest: dict[str, Any]) -> Iterator[Path]:
    """Where blocks are kept; for as long as this takes where no folder is named."""
    if folder is not None:
        yield open_folder(Path(folder), manifest)
        return
    with tempfile.TemporaryDirectory(prefix="surefoot-rehearsal-") as temporary:
        yield Path(temporary)


def _learn_pilot(logs: Path | StudyLogs | Trajectories | None, study: Study, plan: RehearsalPlan) -> _Pilot:
    per_day = plan.design.per_day if "per_day" in plan.design.model_fields_set else None
    people = plan.people.model_dump(exclude={"outcome"})
    if logs is None:
        participants = plan.design.participants
        points = per_day or plan.design.per_day
        return _Pilot(from_study(study, participants=participants, seed=plan.seed, per_day=points, **people), None, None)
    read = study.read(logs) if isinstance(logs, Path) else logs
    model = fit_pilot(read, study, seed=plan.seed, outcome=plan.people.outcome, per_day=per_day)
    effect = estimate_pilot_effect(read, study, seed=plan.seed)
    comparison = check_pilot_model(model, read, seed=plan.seed, environment=effect.environment)
    return _Pilot(model, effect, comparison, tuple(list_warnings(check_logs(read, study))))


def _set_stage(study: Study, plan: RehearsalPlan, known: _Pilot) -> tuple[Stage, float, tuple[str, ...]]:
    """What the blocks need, the reward's standard deviation, and notes for the reader."""
    model = known.model
    models = tuple(model.in_environment(environment) for environment in plan.list_environments(known.effect))
    analysis, estimator, note = plan_primary_effect(study)
    defined = dict(analysis.defined_missing)
    if analysis.outcome in defined:
        defined[analysis.outcome] = float(model.to_reward(np.array([defined[analysis.outcome]]))[0])
    spread = _measure_spread(model, plan)
    stage = Stage(
        models=models,
        candidates=tuple(plan.list_candidates(study)),
        design=plan.design.model_copy(update={"per_day": model.anatomy.clock.per_day}),
        seed=plan.seed,
        harm=plan.rule.harm * spread,
        analysis=replace(analysis, missing_as=defined or None),
        estimator=estimator,
    )
    return stage, spread, (note,) if note else ()


def _measure_spread(model: PilotModel, plan: RehearsalPlan) -> float:
    """Of the reward at available decision points, where nothing has an effect."""
    from surefoot.policies.constant_policies import never

    seeds = list(range(SPREAD_TRIALS))
    course = model.draw_people(plan.design.participants, seed=seeds).start(seed=seeds)
    course.advance(never(len(model.action_names)), min(plan.design.days * plan.design.per_day, 60))
    return float(course.rewards[course.available].std())


def _list_blocks(plan: RehearsalPlan, environments: int) -> list[Block]:
    """In the order in which they are run: a block of every environment, then the next block."""
    return [
        Block(environment, first, min(plan.block, plan.trials - first))
        for first in range(0, plan.trials, plan.block)
        for environment in range(environments)
    ]


def _conclude(
    plan: RehearsalPlan,
    known: _Pilot,
    stage: Stage,
    manifest: dict[str, Any],
    results: dict[Block, Any],
    spread: float,
    notes: tuple[str, ...],
) -> Rehearsal:
    answers: dict[str, dict[str, CandidateAnswers]] = {}
    for number, model in enumerate(stage.models):
        environment = model.environment
        blocks = [result for block, result in results.items() if block.environment == number]
        answers[environment.name] = {}
        for candidate in stage.list_candidates(number):
            joined = JoinedBlocks.of(blocks, candidate.name)
            answers[environment.name][candidate.name] = CandidateAnswers(
                environment=environment.name,
                candidate=candidate.name,
                sends=candidate.send,
                level=plan.rule.level,
                is_null=not environment.effects,
                same_truth=not environment.varies_by_trial,
                values=joined.values,
                reasons=joined.reasons,
                refusals=joined.refusals,
            )
    null = next(iter(answers.values()))
    by_environment = tuple(recommend(candidates, null, plan.rule) for candidates in answers.values())
    return Rehearsal(
        plan=plan,
        design=stage.design,
        environments=tuple(model.environment for model in stage.models),
        answers=answers,
        by_environment=by_environment,
        overall=recommend_overall(by_environment, spread),
        tuned=stage.tuned,
        spread=spread,
        unit=_name_unit(known.model),
        warnings=known.warnings,
        checks=known.checks,
        effect=known.effect,
        manifest=manifest,
        notes=notes,
    )


def _name_unit(model: PilotModel) -> str:
    study = model.anatomy.study
    return str(study.reward_unit) if model.anatomy.reward is not None else study.reward.column


# The manifest, which a protocol can cite, and the folder in which blocks wait for each other


def fingerprint_pilot(pilot: Path | StudyLogs | Trajectories | None, study: Study) -> list[dict[str, Any]]:
    """Name, size and hash of every file, or a hash of what was in memory."""
    if pilot is None:
        return []
    if isinstance(pilot, Path):
        return [LogFile(file).fingerprint(pilot) for file in study_files(study, pilot)]
    return hash_arrays(pilot.logs if isinstance(pilot, StudyLogs) else pilot)


def make_manifest(study: Study, plan: RehearsalPlan, pilot: list[dict[str, Any]]) -> dict[str, Any]:
    """What a rehearsal is made of; `key` names it. The number of trials is not part of the key: more can be added."""
    keys = plan.model_dump(mode="json")
    trials = keys.pop("trials")
    made_of = {
        "versions": {
            "surefoot": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
        "study": {"sha256": hashlib.sha256(study.text.encode()).hexdigest()},
        "plan": {"sha256": hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest(), "keys": keys},
        "pilot": pilot,
    }
    key = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:16]
    return {"format": FORMAT, "key": key, **made_of, "trials": trials}


def open_folder(folder: Path, manifest: dict[str, Any]) -> Path:
    """The folder's place for blocks, after its manifest was written."""
    with refuse_unwritable(folder):
        (folder / "blocks").mkdir(parents=True, exist_ok=True)
    write_texts({folder / MANIFEST: json_text(manifest) + "\n"})
    return folder / "blocks"


def refuse_other_results(folder: Path, manifest: dict[str, Any]) -> None:
    """Before anything is computed: a folder of another rehearsal, or of something else, stays as it is."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        before = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = None
    if not isinstance(before, dict) or before.get("format") != FORMAT:
        raise InputError(f"{folder}: is there and is not a rehearsal; choose another folder with --out")
    if before.get("key") == manifest["key"]:
        return
    parts = ("study", "plan", "pilot", "versions")
    changed = [name for name in parts if before.get(name) != json.loads(json_text(manifest[name]))]
    raise InputError(
        f"{folder}: holds the results of another rehearsal (another {', '.join(changed)}); choose another folder with "
        "--out, or remove this one"
    )
