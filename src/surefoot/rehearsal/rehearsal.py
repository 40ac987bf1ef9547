"""Rehearse a whole trial: candidates side by side in environments, from a pilot or from the study's description."""

import hashlib
import json
import platform
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from surefoot.atomic_files import json_text, refuse_unwritable, write_texts
from surefoot.data.log_columns import Problems
from surefoot.data.log_table import LogFile
from surefoot.data.trajectories import Trajectories
from surefoot.effects.study_effects import plan_primary_effect
from surefoot.errors import InputError, require_known
from surefoot.experiments.engine import run_units
from surefoot.fitting.parts import hash_arrays
from surefoot.log_checks import Check, check_logs
from surefoot.numerics.parallel import Progress, count_processes, open_cluster
from surefoot.rehearsal.gymnasium_model import EnvironmentModel, import_environments
from surefoot.rehearsal.model_checks import PilotChecks, check_pilot_model
from surefoot.rehearsal.pilot_effects import RESAMPLES, PilotEffects
from surefoot.rehearsal.pilot_model import PilotModel, fit_pilot, from_study
from surefoot.rehearsal.plan import Environment, RehearsalPlan, TrialDesign
from surefoot.rehearsal.recommendation import CandidateAnswers, recommend, recommend_overall
from surefoot.rehearsal.report import Rehearsal
from surefoot.rehearsal.trial_blocks import Block, Stage, run_block
from surefoot.study import Study, StudyLogs
from surefoot.study.log_reader import study_files, transform_outcome
from surefoot.version import __version__

ENGINES = ("processes", "dask")
FORMAT = "surefoot-rehearsal-2"
MANIFEST = "manifest.json"


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
    progress: Progress | None = None,
) -> Rehearsal:
    """Simulate trials of every candidate in every environment, and recommend one or none.

    Parameters
    ----------
    pilot
        Logs of a pilot: a file, or the result of `study.read`; None for the study's ranges and the plan's numbers.
    study
        The study, or its file.
    plan
        The plan, or its file; the defaults without one.
    trials
        Trials of each environment, instead of the plan's number.
    folder
        Stores finished blocks, so that an interrupted rehearsal goes on, and trials can be added; nothing is written
        without one.
    jobs
        Processes; 0 means one for every core. Never changes a number.
    engine, scheduler
        `processes` on this machine, or `dask` with the address of a scheduler (without it a cluster on this machine).
    progress
        Called with the number of finished blocks, and of all.

    Returns
    -------
    Rehearsal
        Answers, recommendation, table, page.

    Examples
    --------
    >>> import surefoot as sf
    >>> text = '[columns]\\nparticipant = "p"\\ntime = "t"\\n[state.mood]\\nrange = [0, 10]\\n[outcome]\\nrange = [0, 100]'
    >>> study = sf.Study.parse(text + "\\n[probability_limits]\\nminimum = 0.2\\nmaximum = 0.8")
    >>> design = "{participants = 8, days = 4, per_day = 3, update_every = 2}"
    >>> plan = sf.rehearsal.RehearsalPlan.parse(f'''trials = 4
    ... methods = ["saccb"]
    ... environment = [{{effect = 0.3}}]
    ... design = {design}''')
    >>> rehearsal = rehearse(None, study, plan, jobs=1)
    >>> [environment.title for environment in rehearsal.environments], list(rehearsal.answers["effect 0.3"])
    (['no effect', 'effect 0.3'], ['coin', 'never', 'always', 'saccb'])
    """
    study = study if isinstance(study, Study) else Study.load(study)
    if not isinstance(plan, RehearsalPlan):
        plan = RehearsalPlan() if plan is None else RehearsalPlan.load(plan)
    plan = plan if trials is None else plan.with_trials(trials)
    processes = count_processes(jobs)
    require_known("engine", engine, ENGINES)
    if engine == "processes" and scheduler is not None:
        raise InputError("scheduler is for engine 'dask'; choose that engine or leave the scheduler out")
    workers = open_cluster(scheduler) if engine == "dask" else None
    pilot = Path(pilot) if isinstance(pilot, str) else pilot
    if isinstance(pilot, Path):
        inputs = [LogFile(file).fingerprint(pilot) for file in study_files(study, pilot)]
    else:
        inputs = [] if pilot is None else hash_arrays(pilot.logs if isinstance(pilot, StudyLogs) else pilot)
    manifest = make_manifest(study, plan, inputs)
    if folder is not None:
        refuse_other_results(Path(folder), manifest)
    logs = study.read(pilot) if isinstance(pilot, Path) else pilot
    people = _choose_people(study, plan, logs)
    environments = people.environments
    stage, note = _make_stage(study, plan, people)
    blocks = _list_blocks(plan, environments)
    with tempfile.TemporaryDirectory(prefix="surefoot-rehearsal-") as temporary:
        stored = Path(temporary) if folder is None else open_folder(Path(folder), manifest)
        run = partial(run_block, stage=stage)
        units = run_units(blocks, run, folder=stored, jobs=processes, progress=progress, workers=workers)
        results = dict(zip(blocks, units, strict=True))

    def collect(number: int, kind: str) -> list[Any]:
        return [results[block] for block in blocks if (block.environment, block.kind) == (number, kind)]

    answers = {
        environment.title: {
            candidate.name: CandidateAnswers.join(
                environment,
                candidate,
                plan.rule.level,
                collect(number, "trials"),
                collect(number, "draws"),
                people=0 if people.effects is None else people.effects.people,
                level_error=people.level_error,
            )
            for candidate in stage.candidates
        }
        for number, environment in enumerate(environments)
    }
    null = answers[environments[0].title]
    by_environment = tuple(
        recommend(answers[environment.title], null, plan.rule, is_judged=environment.carry_over == "estimate")
        for environment in environments
    )
    return Rehearsal(
        plan=plan,
        design=stage.design,
        environments=tuple(environments),
        answers=answers,
        by_environment=by_environment,
        overall=recommend_overall(by_environment, people.spread, people.checks.faults if people.checks is not None else ()),
        spread=people.spread,
        unit=study.outcome_unit,
        treatment=study.treatment_words,
        log_checks=people.log_checks,
        checks=people.checks,
        effects=people.effects,
        manifest=manifest,
        notes=(*([note] if note else []), *people.limits),
    )


@dataclass(frozen=True, eq=False)
class _People:
    """The people in every environment, and what the pilot says about them; without one effects and checks are None."""

    environments: list[Environment]
    models: tuple[PilotModel | EnvironmentModel, ...]
    design: TrialDesign
    spread: float
    effects: PilotEffects | None = None
    checks: PilotChecks | None = None
    log_checks: tuple[Check, ...] = ()
    level_error: float = 0.0
    limits: tuple[str, ...] = ()


def _choose_people(study: Study, plan: RehearsalPlan, logs: StudyLogs | Trajectories | None) -> _People:
    """People of a pilot, of the study's description, or of the plan's Gymnasium environments."""
    design = plan.design
    if plan.is_imported:
        environments = plan.list_environments(has_pilot=logs is not None)
        imported = import_environments(study, design, environments)
        return _People(environments, imported, design, imported[1].measure_spread(plan.seed))
    if logs is None:
        numbers = plan.people.model_dump()
        model = from_study(study, participants=design.participants, seed=plan.seed, per_day=design.per_day, **numbers)
        is_unclear = False
    else:
        per_day = design.per_day if "per_day" in design.model_fields_set else None
        model = fit_pilot(logs, study, seed=plan.seed, per_day=per_day, draws=max(RESAMPLES, plan.trials))
        is_unclear = model.effects.later_is_unclear
    environments = plan.list_environments(has_pilot=logs is not None, is_unclear=is_unclear)
    people = _People(
        environments,
        tuple(model.in_environment(environment) for environment in environments),
        design.model_copy(update={"per_day": model.per_day}),
        model.effects.spread,
    )
    if logs is None:
        return people
    return replace(
        people,
        effects=model.effects,
        checks=check_pilot_model(model, seed=plan.seed),
        log_checks=check_logs(logs, study),
        level_error=model.level_error,
        limits=tuple(model.list_limits(design.days)),
    )


def _make_stage(study: Study, plan: RehearsalPlan, people: _People) -> tuple[Stage, str | None]:
    """Everything that a block needs, and a note where the primary analysis is not the study's."""
    analysis, estimator, note = plan_primary_effect(study)
    defined = dict(analysis.defined_missing)
    if analysis.outcome in defined:
        raw = np.array([defined[analysis.outcome]])
        defined[analysis.outcome] = float(transform_outcome(raw, study.outcome, Problems())[0])
    stage = Stage(
        models=people.models,
        candidates=tuple(plan.list_candidates(study)),
        design=people.design,
        seed=plan.seed,
        harm=plan.rule.harm * people.spread,
        analysis=replace(analysis, missing_as=defined or None),
        estimator=estimator,
    )
    return stage, note


def _list_blocks(plan: RehearsalPlan, environments: list[Environment]) -> list[Block]:
    """A block of every environment, then the next block."""
    return [
        Block(number, first, min(plan.block, plan.trials - first), kind)
        for first in range(0, plan.trials, plan.block)
        for number, environment in enumerate(environments)
        # The ends of a range are shown and not judged: a block is enough.
        if environment.carry_over == "estimate" or first == 0
        for kind in (("trials", "draws") if environment.is_drawn else ("trials",))
    ]


def make_manifest(study: Study, plan: RehearsalPlan, pilot: list[dict[str, Any]]) -> dict[str, Any]:
    """The inputs of a rehearsal, for a protocol, with a key of all of them but the number of trials: more can be added."""
    keys = plan.model_dump(mode="json")
    trials = keys.pop("trials")

    def digest(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    versions = {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}
    inputs = {
        "versions": {"surefoot": __version__, **versions},
        "study": {"sha256": digest(study.text)},
        "plan": {"sha256": digest(json.dumps(keys, sort_keys=True)), "keys": keys},
        "pilot": pilot,
    }
    return {"format": FORMAT, "key": digest(json.dumps(inputs, sort_keys=True))[:16], **inputs, "trials": trials}


def open_folder(folder: Path, manifest: dict[str, Any]) -> Path:
    """The folder's place for blocks, with its manifest written."""
    with refuse_unwritable(folder):
        (folder / "blocks").mkdir(parents=True, exist_ok=True)
    write_texts({folder / MANIFEST: json_text(manifest) + "\n"})
    return folder / "blocks"


def refuse_other_results(folder: Path, manifest: dict[str, Any]) -> None:
    """Refuse a folder of another rehearsal, or of something else, before anything is computed."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        before = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = None
    if not isinstance(before, dict) or before.get("format") != FORMAT:
        raise InputError(f"{folder}: exists, but is not a rehearsal; choose another folder with --out")
    if before.get("key") == manifest["key"]:
        return
    inputs = ("study", "plan", "pilot", "versions")
    changed = [name for name in inputs if before.get(name) != json.loads(json_text(manifest[name]))]
    raise InputError(
        f"{folder}: holds the results of another rehearsal (another {', '.join(changed)}); choose another folder with "
        "--out, or remove this one"
    )
