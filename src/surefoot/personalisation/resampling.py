"""Reruns of a recorded trial on outcomes without advantages (Ghosh et al., arXiv 2304.05365).

A resampled person repeats their own decision points: states, availability, outcomes and what is missing, with the estimated
effects of prompts taken out of the outcomes. The trial's algorithm learns from them again, update after update, by the rules
of the service, with prompts drawn anew. What it then seems to know about people is chance.
"""

import hashlib
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.experiments.engine import keep_units, run_units
from surefoot.numerics.parallel import Progress, count_processes
from surefoot.personalisation.result import Personalisation, average_certainty
from surefoot.policies.policies import Policies
from surefoot.rehearsal import Candidate, PilotModel, TrialDesign, fit_pilot, run_trials
from surefoot.rehearsal.trial_run import Attendance
from surefoot.simulators.simulator import Seed
from surefoot.study import Study, StudyLogs, TrialSection
from surefoot.study.trial_section import Dose
from surefoot.study.trial_updates import TrialUpdates, read_policy_versions, read_trial_updates

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Marks = NDArray[np.bool_]
BLOCK = 10
"""Resamples that are computed and stored together."""
SHOWN = 20
"""Resamples whose paths are kept for pictures."""
FEWEST = 19
"""With fewer resamples no p-value can be 5 %."""


def check_personalisation(
    study: Study | str | Path,
    path: str | Path,
    *,
    resamples: int = 199,
    seed: int = 0,
    per_day: int | None = None,
    folder: str | Path | None = None,
    jobs: int = 0,
    progress: Progress | None = None,
) -> Personalisation:
    """Test whether a trial's algorithm learned more about people than by chance.

    At every decision point that a learned policy decided, the algorithm held a probability that a prompt has a positive
    effect: Φ of the standardised advantage (0 or 1 for a method without a posterior). A participant's score is its mean over
    these decision points; near 0 or 1 the advantage had one sign all along. The same score is computed from resampled
    trials without any advantage.

    Parameters
    ----------
    study
        The study of the trial, or its file.
    path
        `decisions.csv` as `surefoot export` or `write_trial` writes it, with the files next to it.
    resamples
        Resampled trials.
    seed
        Seed of the resampled draws.
    per_day
        Decision points a day, where neither the study's `day_boundary` nor timestamps say it.
    folder
        Keeps finished resamples, so that an interrupted analysis goes on; nothing is written without one.
    jobs
        Processes; 0 means one for every core. Never changes a number.
    progress
        Called with the number of finished blocks of resamples, and of all.

    Returns
    -------
    Personalisation

    Examples
    --------
    >>> import tempfile, surefoot as sf
    >>> text = '[columns]\\nparticipant = "p"\\ntime = "t"\\navailable = "free"\\nprobability = "chance"\\n[state.mood]\\n'
    >>> text += '[outcome]\\nrange = [0, 100]\\n[method]\\nname = "ts"\\npooling = "all"\\n'
    >>> text += '[probability_limits]\\nminimum = 0.3\\nmaximum = 0.7\\n[trial]\\nday_boundary = 5'
    >>> study = sf.Study.parse(text)
    >>> people = sf.rehearsal.from_study(study, participants=5, seed=1)
    >>> design = sf.rehearsal.TrialDesign(participants=5, days=6, update_every=3)
    >>> (trial,) = sf.rehearsal.run_trials(people, sf.rehearsal.Candidate("ts", study), design, seeds=[1])
    >>> with tempfile.TemporaryDirectory() as name:
    ...     check_personalisation(study, sf.rehearsal.write_trial(trial, study, name), resamples=19, jobs=1).resampled.shape
    (19, 5)
    """
    if resamples < FEWEST:
        raise InputError(f"resamples is {resamples}; with fewer than {FEWEST} no p-value can be 5 %")
    study = study if isinstance(study, Study) else Study.load(study)
    read = study.read(path)
    updates = read_trial_updates(study, path, read)
    versions = read_policy_versions(path)
    _check_versions(updates, versions)
    certainty = find_certainty(read.logs, updates.policy, versions)
    if np.isnan(certainty).all():
        raise InputError(
            f"{path}: no decision point was decided by a policy that the trial learned; nothing can be compared"
        )
    stage = _prepare(study, read, updates, seed, per_day)
    blocks = [Block(first, min(BLOCK, resamples - first)) for first in range(0, resamples, BLOCK)]
    with _open_folder(folder, stage) as units:
        work = partial(run_block, stage=stage)
        results = run_units(blocks, work, units, jobs=count_processes(jobs), progress=progress)
    return Personalisation(
        participants=read.logs.participants,
        certainty=read.logs.pad_rows(certainty),
        resampled=np.array([scores for result in results for scores in result["scores"]]),
        paths=np.array([path for result in results for path in result["paths"]]),
        pooled=study.method().pooling.shared,
        notes=tuple(_list_notes(study, read, updates, certainty)),
    )


def find_certainty(logs: Trajectories, version: Codes, policies: Mapping[int, Policies]) -> Floats:
    """The probability, by the policy that decided a row, that a prompt has a positive effect, (rows,).

    NaN where no learned policy decided, or where the state is no longer known.
    """
    certainty = np.full(len(logs), np.nan)
    known = ~np.isnan(logs.state).any(axis=1)
    for number in np.unique(version[version > 0]).tolist():
        rows = np.flatnonzero((version == number) & known)
        people = logs.participant[rows].astype(str)
        # Policies of people whose data were erased are not exported.
        covered = policies[number].covers(people)
        rules = policies[number].rules_for(people[covered])
        certainty[rows[covered]] = rules.prefers_sending(logs.state[rows[covered]])
    return certainty


class Block(NamedTuple):
    """Resamples that are computed together, the smallest unit of work that is stored."""

    first: int
    size: int

    @property
    def name(self) -> str:
        return f"resamples-{self.first:06d}-{self.first + self.size - 1:06d}"


@dataclass(frozen=True, eq=False)
class Stage:
    """Everything that a block needs."""

    people: PilotModel
    """Simulates everybody's decision points without an effect of prompts."""
    candidate: Candidate
    """The trial's method."""
    rounds: Codes
    """The number of updates before every decision point, (people, decision points); −1 where padded."""
    known_after: Codes
    """The round after which every outcome is known, in the same shape."""
    times: NDArray[Any]
    seed: int

    @property
    def design(self) -> TrialDesign:
        """A round of the recorded trial is a day of the rerun."""
        most = max(int(np.bincount(rounds[rounds >= 0]).max()) for rounds in self.rounds)
        return TrialDesign(participants=len(self.rounds), days=int(self.rounds.max()) + 1, per_day=most, update_every=1)


class RecordedAttendance(Attendance):
    """Everybody's decision points in rounds, those between two updates of the recorded trial."""

    def __init__(self, stage: Stage, seeds: Sequence[Seed]) -> None:
        super().__init__(stage.design, seeds)
        self._stage = stage
        self._trials = len(seeds)
        rounds = range(int(stage.rounds.max()) + 1)
        self._counts = np.stack([(stage.rounds == number).sum(axis=1) for number in rounds])

    def count_slots(self, day: int) -> int:
        return int(self._counts[day].max())

    def list_active(self, day: int, slot: int = 0) -> Marks:
        return np.tile(self._counts[day] > slot, (self._trials, 1))

    def find_own_days(self, people: Codes, time: Codes) -> Codes:
        return np.asarray(self._stage.rounds[people, time])

    def find_times(self, study: Study, people: Codes, time: Codes) -> NDArray[Any]:
        return np.asarray(self._stage.times[people, time])

    def find_arrived(self, trial: int, day: int, people: Codes, time: Codes, open_for: timedelta) -> Marks:
        return np.asarray(self._stage.known_after[people, time] <= day)


def run_block(block: Block, stage: Stage) -> dict[str, list[Any]]:
    """The scores of everybody in each resample, and their paths in the first few; they depend on seed and stage alone."""
    numbers = range(block.first, block.first + block.size)
    roots = [np.random.SeedSequence(stage.seed, spawn_key=(number,)) for number in numbers]
    seeds = [int(root.generate_state(1, np.uint64)[0]) for root in roots]
    attendance = RecordedAttendance(stage, seeds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        records = run_trials(stage.people, stage.candidate, stage.design, seeds=seeds, attendance=attendance)
    scores = []
    paths = []
    for number, record in zip(numbers, records, strict=True):
        policies = {version: update.policies for version, update in enumerate(record.updates, 1) if update.policies}
        path = record.logs.pad_rows(find_certainty(record.logs, record.version, policies))
        scores.append(average_certainty(path).tolist())
        if number < SHOWN:
            paths.append(path.round(3).tolist())
    return {"scores": scores, "paths": paths}


def _check_versions(updates: TrialUpdates, versions: Mapping[int, Policies]) -> None:
    """Refuse a trial whose policies were not all learned in it, or are not all there."""
    used = np.unique(updates.policy[updates.policy > 0]).tolist()
    foreign = [version for version in used if version not in updates.made_by]
    if foreign:
        raise InputError(
            f"policy version {foreign[0]} decided and was not learned in the trial (a pilot's, say), so the trial cannot be "
            "rerun; leave its decision points out"
        )
    absent = [version for version in used if version not in versions]
    if absent:
        raise InputError(f"policy version {absent[0]} decided and is not among the policies; export the trial again")


def _prepare(study: Study, read: StudyLogs, updates: TrialUpdates, seed: int, per_day: int | None) -> Stage:
    """The people without effects, and the schedule of the recorded trial."""
    logs = read.logs
    # Updates with decision points after them; others changed nothing.
    boundaries = np.unique(updates.before[updates.before > 0])
    rounds = np.searchsorted(boundaries, updates.before, side="right")
    known_after = rounds.copy()
    first = np.full(len(logs), np.iinfo(np.int64).max)
    np.minimum.at(first, updates.spans["row"], updates.spans["first_update"])
    learned = first < np.iinfo(np.int64).max
    last_round = len(boundaries)
    known_after[learned] = np.searchsorted(boundaries, first[learned]).clip(rounds[learned], last_round)
    trial = study.trial or TrialSection()
    # Decision points that a limit on prompts stopped are unavailable in the logs, and stay so.
    unlimited = study.model_copy(update={"trial": trial.model_copy(update={"dose": Dose()})})
    return Stage(
        people=fit_pilot(read, study, seed=seed, per_day=per_day, draws=2),
        candidate=Candidate(study.method_name, unlimited),
        rounds=logs.pad_rows(rounds, -1),
        known_after=logs.pad_rows(known_after, 0),
        times=logs.pad_rows(logs.time, logs.time[0]),
        seed=seed,
    )


@contextmanager
def _open_folder(folder: str | Path | None, stage: Stage) -> Iterator[Path]:
    """The folder of finished blocks of this trial, study and seed."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="surefoot-personalised-") as temporary:
            yield Path(temporary)
        return
    digest = hashlib.sha256(stage.candidate.study.text.encode())
    people = stage.people.people
    for values in (
        stage.rounds,
        stage.known_after,
        people.recorded,
        people.sent,
        people.probability,
        people.recorded_outcome,
    ):
        digest.update(np.ascontiguousarray(values).tobytes())
    with keep_units(Path(folder), {"inputs": digest.hexdigest(), "seed": stage.seed}) as units:
        yield units


def _list_notes(study: Study, read: StudyLogs, updates: TrialUpdates, certainty: Floats) -> Iterator[str]:
    """What the reader has to know about this trial."""
    if np.isin(certainty[~np.isnan(certainty)], (0.0, 0.5, 1.0)).all():
        yield (
            f"{study.method_name} has no posterior: a decision point counts as 1 where the policy prefers a prompt and as 0 "
            "where it does not. Scores of methods with a posterior (`ts`) tell smaller differences apart."
        )
    unknown = int(((updates.policy > 0) & np.isnan(certainty)).sum())
    if unknown:
        yield (
            f"{unknown:,} decision points of {int((updates.policy > 0).sum()):,} that a policy decided are left out: their "
            "state was screened out since, or the data were erased."
        )
    if study.trial is not None and study.trial.dose.is_limited:
        yield "Decision points that a limit on prompts stopped in the trial are stopped in every resample too."
