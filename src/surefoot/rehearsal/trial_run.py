"""Trials on simulated people, by the rules of the service."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.log_columns import Problems
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.numerics.random_streams import streams
from surefoot.policies.policies import Policies
from surefoot.policies.rules import DecisionRule
from surefoot.rehearsal.plan import UPDATE_HOUR, Candidate, TrialDesign
from surefoot.simulators.simulator import Seed, Simulator, stack_rules
from surefoot.study import Study, TrialSection
from surefoot.study.log_description import ScreenSection
from surefoot.study.log_reader import StudyLogs, check_measured, finish_logs, restore_outcome
from surefoot.trial_rules import choices
from surefoot.trial_rules.proposals import find_known, propose_policy
from surefoot.trial_rules.randomisation import draw_actions, draw_uniforms, random_key

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
BURDEN_LEFT = 0.9
"""The share of the burden of prompts, which lets people leave, that is left one decision point later."""
FIRST_DAY = np.datetime64("2026-01-05", "s")
"""A Monday, on which simulated trials begin where days begin at a clock time."""
DECIDERS = (*choices.SOURCES, "fixed")
"""Who decided: `fixed` in a trial that does not learn."""
FIXED, POLICY, FALLBACK, WARM_UP, UNAVAILABLE = map(
    DECIDERS.index, ("fixed", "policy", "fallback", "warm-up", "unavailable")
)


@dataclass(frozen=True, eq=False)
class UpdateRecord:
    """An update after a day of the trial: `done`, `refused` by checks, `waiting` or `failed`, and why it was not done.

    `known` are the decision points that it learned from, (people, decision points).
    """

    day: int
    state: str
    refused_by: tuple[str, ...]
    message: str | None
    known: Marks | None = None
    policies: Policies | None = None


@dataclass(frozen=True, eq=False)
class TrialRecord:
    """One trial from its first day to its last.

    `reported` are its logs as measured, participant after participant, without outcomes that were lost or too late. For
    every row: the day of the trial and of the participant (from 0), the true outcome, reported or not, who decided
    (positions in `DECIDERS`), and which update made the policy that did (from 1; 0: none). `left` is everybody's own day
    after which they left, NaN for people who stayed.
    """

    study: Study
    reported: StudyLogs
    day: NDArray[np.int64]
    own_day: NDArray[np.int64]
    outcome: Floats
    source: NDArray[np.int64]
    version: NDArray[np.int64]
    updates: list[UpdateRecord]
    left: Floats

    @property
    def measured(self) -> Trajectories:
        """The logs before the screen, in the units of the study."""
        return self.reported.logs

    @cached_property
    def logs(self) -> Trajectories:
        """The logs as the study reads them: screened, scaled and transformed. Screens take time, so only when needed."""
        return finish_logs(self.study, self.reported).logs


def run_trials(
    simulator: Simulator,
    candidate: Candidate,
    design: TrialDesign,
    *,
    seeds: Sequence[Seed],
    secrets: Sequence[bytes] | None = None,
    attendance: "Attendance | None" = None,
) -> list[TrialRecord]:
    """Run one trial for each seed, all of them together.

    Decisions, draws and updates follow the study's `[trial]` by the rules of the service: a service with the same secret
    makes the same decisions at the same decision points. A trial does not depend on the others; two candidates with the same
    seeds meet the same people and the same chance. Staff are assumed to activate every policy that passes the checks.
    Participants who leave ask for no more decisions, and their rows stay.

    Parameters
    ----------
    simulator
        People whose states are the study's: a pilot's model in an environment, `HeartSteps`, …
    candidate
        A method that learns, or a fixed probability.
    design
        Participants as many as the simulator has, days, decision points, entry, updates.
    seeds
        One for each trial.
    secrets
        Keys of the draws, one for each trial; from the seeds unless given.
    attendance
        Everybody's decision points and the updates between them, such as those of a recorded trial; as the design has
        them unless given.

    Returns
    -------
    list of TrialRecord
        In the order of the seeds.

    Examples
    --------
    >>> import surefoot as sf
    >>> text = '[columns]\\nparticipant = "p"\\ntime = "t"\\n[state.weather]\\n[state.engagement]\\n[state.fatigue]\\n'
    >>> design = TrialDesign(participants=3, days=4)
    >>> coin = Candidate.fixed(sf.Study.parse(text), 0.5)
    >>> run_trials(sf.simulators.HeartSteps(3), coin, design, seeds=[1])[0].logs.shape
    (60, 3)
    """
    keys = list(secrets or ()) or [next(streams(seed, "draws", ["secret"])).bytes(32) for seed in seeds]
    if attendance is None:
        _check_design(candidate.study, design)
        attendance = Attendance(design, seeds)
    trials = _Trials(simulator, candidate, design, attendance, seeds, keys)
    for day in range(design.calendar_days):
        trials.run_day(day)
    return [trials.finish(trial) for trial in range(len(seeds))]


class Attendance:
    """Everybody's days, (trials, people): people enter in cohorts, and may leave.

    After each of the own days d = 1 … days − 1 the cumulative hazard grows by λ₀ exp(β b), b the burden (prompts, discounted
    by 0.9 at every decision point) and λ₀ = −log(1 − drop_out) / (days − 1): a participant leaves when it passes their
    patience, exponential with mean 1. The same seed gives the same patience under all policies.
    """

    def __init__(self, design: TrialDesign, seeds: Sequence[Seed]) -> None:
        self._design = design
        self.entry = np.array(design.entries)
        """(people) Everybody's first day in the trial."""
        people = range(design.participants)
        self._patience = np.array([[rng.exponential() for rng in streams(seed, "staying", people)] for seed in seeds])
        self._hazard = -np.log1p(-design.drop_out) / max(design.days - 1, 1)
        self._passed = np.zeros(self._patience.shape)
        self._burden = np.zeros(self._patience.shape)
        self.left = np.full(self._patience.shape, np.nan)
        """The own day after which somebody left; NaN for others."""

    def count_slots(self, day: int) -> int:
        """Decision points on a day of the trial."""
        return self._design.per_day

    def list_active(self, day: int, slot: int = 0) -> Marks:
        """Who takes part on a day of the trial, at a decision point of the day."""
        own_day = day - self.entry
        return np.asarray((own_day >= 0) & (own_day < self._design.days) & np.isnan(self.left))

    def add_prompts(self, sent: Marks, active: Marks) -> None:
        self._burden = np.where(active, BURDEN_LEFT * self._burden + sent, self._burden)

    def end_day(self, day: int, active: Marks) -> None:
        """Let people leave whose patience has ended; nobody leaves after the last own day."""
        if self._hazard == 0:
            return
        own_day = day - self.entry
        staying = active & (own_day < self._design.days - 1)
        growth = self._hazard * np.exp(self._design.drop_out_burden * self._burden)
        self._passed = np.where(staying, self._passed + growth, self._passed)
        self.left = np.where(staying & (self._passed > self._patience), own_day, self.left)

    def find_own_days(self, people: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.int64]:
        """The own day, from 0, of everybody's decision points."""
        return np.asarray(time // self._design.per_day)

    def find_times(self, study: Study, people: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[Any]:
        """Timestamps where the study's days begin at a clock time, else everybody's decision points counted from 0."""
        if not isinstance(study.days, str):
            return time
        design = self._design
        slots = np.array([design.clock_time(0, slot).total_seconds() for slot in range(design.per_day)], dtype=np.int64)
        days = self.entry[people] + time // design.per_day
        return FIRST_DAY + (days * 86_400 + slots[time % design.per_day]).astype("timedelta64[s]")

    def find_arrived(
        self, trial: int, day: int, people: NDArray[np.int64], time: NDArray[np.int64], open_for: timedelta
    ) -> Marks:
        """Which outcomes are known in the night after a day: not too late to count, and not after somebody left."""
        design = self._design
        delay = design.outcome_delay
        arrivals = [design.clock_time(*divmod(slot + delay, design.per_day)) for slot in range(design.per_day)]
        counts = np.array([arrival - design.clock_time(0, slot) <= open_for for slot, arrival in enumerate(arrivals)])
        last_day = np.fmin(day - self.entry, self.left[trial])
        return np.asarray(counts[time % design.per_day] & (time + delay < (last_day[people] + 1) * design.per_day))


class _Trials:
    """Several trials at the same time; arrays are (trials, people, …)."""

    def __init__(
        self,
        simulator: Simulator,
        candidate: Candidate,
        design: TrialDesign,
        attendance: Attendance,
        seeds: Sequence[Seed],
        secrets: list[bytes],
    ) -> None:
        study = candidate.study.with_trial_columns()
        self._candidate = candidate
        self._design = design
        self._study = study
        self._settings = study.trial or TrialSection()
        _check_people(study, design, simulator)
        without_screen = study.model_copy(update={"screen": ScreenSection(on=False)})
        self._update_study = study if design.screen else without_screen
        kinds = [kind for name, kind in study.variable_kinds.items() for _ in study.state_columns[name]]
        self._centre = np.array([kind.centre for kind in kinds])
        self._scale = np.array([kind.scale for kind in kinds])
        self._ranges = np.array([kind.range or (-np.inf, np.inf) for kind in kinds]).T
        digits = len(str(design.participants - 1))
        self._ids = [f"p{person:0{digits}d}" for person in range(design.participants)]
        self._secrets = secrets
        self._simulation = simulator.start(seed=list(seeds))
        self._simulation.reserve(design.decision_points)
        self._attendance = attendance
        lanes = (len(seeds), design.participants)
        self._lanes = np.indices(lanes)
        self._source = np.full((*lanes, design.decision_points), UNAVAILABLE)
        self._version = np.zeros((*lanes, design.decision_points), dtype=np.int64)
        self._live = np.zeros(len(seeds), dtype=np.int64)  # The update that made the live policies of every trial.
        self._prompts: deque[tuple[timedelta, Marks]] = deque()
        self._updates: list[list[UpdateRecord]] = [[] for _ in seeds]
        # The live policies of every trial, and since when; none during warm-up.
        self._policies: list[Policies | None] = [None for _ in seeds]
        self._since = [timedelta(0) for _ in seeds]
        self._coefficients: list[list[dict[str, Any]]] = [[] for _ in seeds]
        # When each policy of a trial went live, and from whom it had learned.
        self._learned_from: list[list[tuple[timedelta, list[str]]]] = [[] for _ in seeds]
        self._covered = np.zeros(lanes, dtype=bool)
        self._rules: list[tuple[list[int], DecisionRule]] = []

    def run_day(self, day: int) -> None:
        """All decision points of a day, and the update that may follow it."""
        active = self._attendance.list_active(day)
        if active.any():
            for slot in range(self._attendance.count_slots(day)):
                self._decide(self._design.clock_time(day, slot), self._attendance.list_active(day, slot))
            self._attendance.end_day(day, active)
        if self._candidate.learns and self._design.updates_after(day) and day + 1 < self._design.calendar_days:
            for trial, updates in enumerate(self._updates):
                updates.append(self._update(trial, day))
            self._rules = self._stack_rules()

    def _decide(self, moment: timedelta, active: Marks) -> None:
        """One decision point of everybody who takes part."""
        now = self._simulation.look()
        time = self._simulation.time
        available = now.available & active & ~self._find_stops(moment)
        state = (self._measure_state(now.state) - self._centre) / self._scale
        source, probabilities = self._choose(state, available, moment)
        chances = probabilities[available]
        # Certain actions do not depend on the draws.
        certain = bool((chances == 1).any(axis=-1).all())
        actions = np.zeros(active.shape, dtype=np.int64)
        actions[available] = draw_actions(np.zeros(len(chances)) if certain else self._draw(time, available), chances)
        taken = np.where(available, np.take_along_axis(probabilities, actions[..., None], axis=-1)[..., 0], 1.0)
        points = (*(lanes[active] for lanes in self._lanes), time[active])
        self._source[points] = source[active]
        self._version[points] = np.where(source == POLICY, self._live[:, None], 0)[active]
        self._simulation.step(actions, taken, active=None if active.all() else active)
        sent = actions > 0
        self._attendance.add_prompts(sent, active)
        if self._settings.dose.is_limited:
            self._prompts.append((moment, sent))

    def _measure_state(self, state: Floats) -> Floats:
        """The simulator's states in the units of logs, missing where a value lies outside its range."""
        measured = state * self._scale + self._centre
        low, high = self._ranges
        outside = (measured < low) | (measured > high)
        return np.where(outside, np.nan, measured) if outside.any() else measured

    def _draw(self, time: NDArray[np.int64], available: Marks) -> Floats:
        """A uniform number for everybody who is available, trial after trial."""
        drawn = []
        for secret, times, free in zip(self._secrets, time, available, strict=True):
            people = np.flatnonzero(free).tolist()
            keys = map(random_key, [self._ids[person] for person in people], times[people].tolist())
            drawn.append(draw_uniforms(secret, keys))
        return np.concatenate(drawn)

    def _find_stops(self, moment: timedelta) -> Marks:
        """Who has reached a limit on prompts."""
        while self._prompts and moment - self._prompts[0][0] >= choices.WEEK:
            self._prompts.popleft()
        if not self._prompts:
            return np.zeros((1, 1), dtype=bool)
        ages = np.array([choices.count_microseconds(moment - earlier) for earlier, _ in self._prompts])
        sent = np.stack([marks.ravel() for _, marks in self._prompts])
        reached = choices.find_reached_limits(self._settings.dose, np.where(sent, ages[:, None], choices.NEVER))
        return np.asarray(reached != choices.WITHIN).reshape(self._prompts[0][1].shape)

    def _choose(self, state: Floats, available: Marks, moment: timedelta) -> tuple[NDArray[np.int64], Floats]:
        """Who decides, and with which probabilities (trials, people, actions)."""
        study = self._study
        send = self._candidate.send
        nothing = np.array(choices.unavailable_probabilities(study))
        if send is not None:
            others = len(nothing) - 1
            row = np.array([1 - send, *[send / others] * others])
            return np.where(available, FIXED, UNAVAILABLE), np.where(available[..., None], row, nothing)
        missing = np.isnan(state).any(axis=-1)
        state = np.nan_to_num(state) if missing.any() else state
        wanted = np.full((*available.shape, len(nothing)), np.nan)
        for trials, rule in self._rules:
            wanted[trials] = rule.probabilities(state[trials])
        wanted[~self._covered] = np.nan
        limited = study.clip_probabilities(wanted.reshape(-1, len(nothing))).reshape(wanted.shape)
        fresh = np.array([[not choices.is_stale(self._settings, moment - since)] for since in self._since])
        usable = fresh & (np.isfinite(limited).all(axis=-1) | ~self._covered)
        source = choices.find_sources(available=available, complete=~missing, covered=self._covered, usable=usable)
        rows = np.stack([nothing] * len(DECIDERS))
        rows[WARM_UP] = choices.fixed_probabilities(study, self._settings.warm_up_probability)
        rows[FALLBACK] = choices.fixed_probabilities(study, self._settings.fallback_probability)
        return source, np.where((source == POLICY)[..., None], limited, rows[source])

    def _stack_rules(self) -> list[tuple[list[int], DecisionRule]]:
        """The live rules of all trials; people without a rule get one that is not used."""
        rules = {}
        for trial, policies in enumerate(self._policies):
            covered = self._covered[trial]
            if policies is not None and covered.any():
                people = np.array(self._ids)[covered]
                rules[trial] = policies.rules_for(people)[np.maximum(np.cumsum(covered) - 1, 0)]
        return stack_rules(rules)

    def _update(self, trial: int, day: int) -> UpdateRecord:
        """Learn from everything known in one trial after a day; a policy that passes the checks goes live."""
        measured = self._measure(trial, day)
        moment = timedelta(days=day, hours=UPDATE_HOUR)

        def label(row: int) -> str:
            logs = measured.logs
            return f"decision point {logs.time[row]} of participant {logs.participants[logs.participant_index[row]]}"

        try:
            history = [(moment - since, people) for since, people in self._learned_from[trial]]
            known_people = find_known(history, self._settings.guard_rails.newcomer_days)
            live = (self._policies[trial], self._coefficients[trial], known_people)
            proposal = propose_policy(self._update_study, measured, *live, label=label)
        except InputError as error:
            return UpdateRecord(day, "failed", (), str(error))
        known = self._list_present(trial)
        known[known] = proposal.logs.logs.usable
        if proposal.state == "done" and proposal.policies is not None:
            self._live[trial] = len(self._updates[trial]) + 1
            self._policies[trial] = proposal.policies
            self._coefficients[trial] = proposal.coefficients
            logs = proposal.logs.logs
            self._learned_from[trial].append((moment, np.unique(logs.participant[logs.usable]).tolist()))
            self._since[trial] = moment
            self._covered[trial] = proposal.policies.covers(np.array(self._ids))
        refused = tuple(finding.check for finding in proposal.findings if not finding.passed)
        return UpdateRecord(day, proposal.state, refused, proposal.message, known, proposal.policies)

    def _list_present(self, trial: int) -> Marks:
        """Decision points that there were so far, (people, decision points)."""
        simulation = self._simulation
        return np.asarray(np.arange(simulation.rewards.shape[2]) < simulation.time[trial][:, None])

    def _measure(self, trial: int, day: int) -> StudyLogs:
        """Everything known in one trial in the night after a day, participant after participant."""
        simulation = self._simulation
        present = self._list_present(trial)
        people, time = np.nonzero(present)
        entered, index = np.unique(people, return_inverse=True)
        measured = self._measure_state(simulation.states[trial][present])
        names = self._study.state_names
        derived = {name: measured[:, names.index(name)] for name in self._study.derived_states}
        read = [number for number, name in enumerate(names) if name not in derived]
        open_for = timedelta(hours=self._settings.outcome_hours)
        arrived = self._attendance.find_arrived(trial, day, people, time, open_for)
        reported = np.where(arrived, simulation.reported[trial][present], np.nan)
        columns = {
            "participants": np.array(self._ids)[entered],
            "participant_index": index,
            "time": self._attendance.find_times(self._study, people, time),
            "state": measured[:, read],
            "available": (self._source[trial, people, time] != UNAVAILABLE).astype(np.float64),
            "action": simulation.actions[trial][present].astype(np.float64),
            "probability": simulation.probability[trial][present],
            "outcome": restore_outcome(reported, self._study.outcome),
        }
        problems = Problems(participant=lambda row: self._ids[people[row]])
        return replace(check_measured(self._study, columns, problems), derived=derived or None)

    def finish(self, trial: int) -> TrialRecord:
        reported = self._measure(trial, self._design.calendar_days - 1)
        people = reported.logs.participant_index
        time = reported.logs.position
        own_day = self._attendance.find_own_days(people, time)
        return TrialRecord(
            study=self._study,
            reported=reported,
            day=own_day + self._attendance.entry[people],
            own_day=own_day,
            outcome=self._simulation.rewards[trial, people, time],
            source=self._source[trial, people, time],
            version=self._version[trial, people, time],
            updates=self._updates[trial],
            left=self._attendance.left[trial],
        )


def _check_people(study: Study, design: TrialDesign, simulator: Simulator) -> None:
    """Refuse people who are not as many as the design has, or whose states are not the study's."""
    people = len(simulator.participants)
    if people != design.participants:
        raise InputError(f"the simulator has {people} people, the design {design.participants}; draw as many as it needs")
    if tuple(simulator.state_names) != study.state_names:
        raise InputError(
            f"the simulator has the states {list(simulator.state_names)}, the study {list(study.state_names)}; "
            "name the same ones in the same order"
        )


def _check_design(study: Study, design: TrialDesign) -> None:
    """Refuse a design that does not fit the study."""
    settings = study.trial or TrialSection()
    if isinstance(study.days, int) and study.days != design.per_day:
        raise InputError(f"per_day is {design.per_day}, but the study's trial.day_boundary is {study.days}; make them equal")
    gap = design.clock_time(0, 1) - design.clock_time(0, 0) if design.per_day > 1 else timedelta(days=1)
    minutes = settings.decision_gap / timedelta(minutes=1)
    if gap < settings.decision_gap:
        raise InputError(
            f"per_day is {design.per_day}: decision points {gap / timedelta(minutes=1):g} minutes apart, which the study "
            f"refuses (trial.decision_gap_minutes is {minutes:g}); take fewer a day"
        )
    following = [name for name, state in study.derived_states.items() if state.follows_outcomes]
    if following and design.outcome_delay:
        raise InputError(
            f"outcome_delay is {design.outcome_delay}, but the state '{following[0]}' follows outcomes, which simulated "
            "people know at once; set outcome_delay = 0, or leave the state out"
        )
