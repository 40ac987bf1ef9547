"""Running trials on simulated people, by the rules that the service runs them by."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from surefoot.data.log_columns import Problems
from surefoot.data.trajectories import DecisionPoints
from surefoot.errors import InputError
from surefoot.numerics.random_streams import streams
from surefoot.rehearsal.attendance import Attendance
from surefoot.rehearsal.candidates import Candidate
from surefoot.rehearsal.design import UPDATE_HOUR, TrialDesign
from surefoot.rehearsal.live_policies import LivePolicies
from surefoot.rehearsal.state_reading import StateReading
from surefoot.rehearsal.trial_record import SOURCES, TrialRecord, UpdateRecord
from surefoot.simulators.simulator import Seed, Simulator
from surefoot.study import Study, TrialSection
from surefoot.study.log_description import ScreenSection
from surefoot.study.log_reader import finish_logs, restore_outcome
from surefoot.study.measured_logs import MeasuredLogs
from surefoot.trial_rules.choices import (
    NEVER,
    WEEK,
    WITHIN,
    count_microseconds,
    find_reached_limits,
    find_sources,
    fixed_probabilities,
    unavailable_probabilities,
)
from surefoot.trial_rules.proposals import Proposal, propose_policy
from surefoot.trial_rules.randomisation import draw_actions, draw_uniforms, random_key

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
FIXED, POLICY, FALLBACK, WARM_UP, UNAVAILABLE = map(SOURCES.index, ("fixed", "policy", "fallback", "warm-up", "unavailable"))


def run_trials(
    simulator: Simulator,
    candidate: Candidate,
    design: TrialDesign,
    *,
    seeds: Sequence[Seed],
    secrets: Sequence[bytes] | None = None,
) -> list[TrialRecord]:
    """Run one trial for each seed, all of them together.

    Who decides, with which probabilities, what is drawn and which policy may go live follows the study's `[trial]` by the
    service's own rules: a service with the same secret, asked at the same decision points, decides the same. A trial
    comes out the same whatever others are run beside it; two candidates with the same seeds meet the same people and the
    same chance. Staff are assumed to activate what passes the checks; whoever leaves asks for no more decisions, and what
    they gave stays.

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
    return _Trials(simulator, candidate, design, seeds, secrets).run()


def derive_secret(seed: Seed) -> bytes:
    """The key of a trial's draws, from its seed."""
    return next(streams(seed, "draws", ["secret"])).bytes(32)


def name_participants(count: int) -> list[str]:
    """Ids that sort as they count."""
    return [f"p{place:0{len(str(count - 1))}d}" for place in range(count)]


class _Trials:
    """Several trials on their way; arrays are (trials, people, …)."""

    def __init__(
        self,
        simulator: Simulator,
        candidate: Candidate,
        design: TrialDesign,
        seeds: Sequence[Seed],
        secrets: Sequence[bytes] | None,
    ) -> None:
        self._candidate, self._design, self._study = candidate, design, candidate.study.with_trial_columns()
        self._settings = self._study.trial or TrialSection()
        _check_design(self._study, self._settings, design, len(simulator.participants))
        self._reading = StateReading(self._study, simulator.state_names)
        self._secrets = [derive_secret(seed) for seed in seeds] if secrets is None else list(secrets)
        self._ids = name_participants(design.participants)
        self._names = np.array(self._ids)
        self._course = simulator.start(seed=list(seeds))
        self._attendance = Attendance(design, seeds)
        self._live = LivePolicies(self._settings, self._names, len(seeds), len(self._study.actions.names))
        lanes = (len(seeds), design.participants)
        self._rows = np.indices(lanes)
        shape = (*lanes, design.decision_points)
        self._available = np.zeros(shape, dtype=bool)
        self._probability = np.ones(shape)
        self._source = np.full(shape, UNAVAILABLE)
        self._prompts: deque[tuple[timedelta, Marks]] = deque()
        self._updates: list[list[UpdateRecord]] = [[] for _ in seeds]
        self._update_study = self._study if design.screen else _switch_screen_off(self._study)

    def run(self) -> list[TrialRecord]:
        design = self._design
        for day in range(design.calendar_days):
            active = self._attendance.list_active(day)
            if active.any():
                for place in range(design.per_day):
                    self._decide(design.clock_time(day, place), active)
                self._attendance.end_day(day, active)
            if self._candidate.learns and design.updates_after(day) and day + 1 < design.calendar_days:
                for trial in range(len(self._secrets)):
                    self._updates[trial].append(self._update(trial, day))
        return [self._finish(trial) for trial in range(len(self._secrets))]

    def _decide(self, moment: timedelta, active: Marks) -> None:
        """One decision point of everybody who takes part."""
        now, time = self._course.look(), self._course.time
        available = now.available & active & ~self._find_stops(moment)
        state = self._reading.scale(self._reading.measure(now.state))
        source, probabilities = self._choose(state, available, moment)
        actions = np.zeros(active.shape, dtype=np.int64)
        chances = probabilities[available]
        # What is certain comes out the same whatever is drawn.
        certain = bool((chances == 1).any(axis=-1).all())
        actions[available] = draw_actions(np.zeros(len(chances)) if certain else self._draw(time, available), chances)
        taken = np.where(available, np.take_along_axis(probabilities, actions[..., None], axis=-1)[..., 0], 1.0)
        place = (*(rows[active] for rows in self._rows), time[active])
        self._available[place], self._probability[place] = available[active], taken[active]
        self._source[place] = source[active]
        self._course.step(actions, taken, active=None if active.all() else active)
        sent = actions > 0
        self._attendance.add_prompts(sent, active)
        if self._settings.dose.is_limited:
            self._prompts.append((moment, sent))

    def _draw(self, time: NDArray[np.int64], available: Marks) -> Floats:
        """The number of everybody who is available, trial after trial."""
        drawn = []
        for secret, own, free in zip(self._secrets, time, available, strict=True):
            people = np.flatnonzero(free)
            drawn.append(draw_uniforms(secret, map(random_key, self._names_of(people), own[people].tolist())))
        return np.concatenate(drawn)

    def _names_of(self, people: NDArray[np.int64]) -> list[str]:
        return self._ids if len(people) == len(self._ids) else [self._ids[one] for one in people.tolist()]

    def _find_stops(self, moment: timedelta) -> Marks:
        """Whom a limit on prompts keeps from getting anything."""
        while self._prompts and moment - self._prompts[0][0] >= WEEK:
            self._prompts.popleft()
        if not self._prompts:
            return np.zeros((1, 1), dtype=bool)
        ages = np.array([count_microseconds(moment - one) for one, _ in self._prompts])
        sent = np.stack([marks.ravel() for _, marks in self._prompts])
        reached = find_reached_limits(self._settings.dose, np.where(sent, ages[:, None], NEVER))
        return np.asarray(reached != WITHIN).reshape(self._prompts[0][1].shape)

    def _choose(self, state: Floats, available: Marks, moment: timedelta) -> tuple[NDArray[np.int64], Floats]:
        """Who decides, and with which probabilities (trials, people, actions)."""
        study, settings, send = self._study, self._settings, self._candidate.send
        nothing = np.array(unavailable_probabilities(study))
        if send is not None:
            others = len(nothing) - 1
            row = np.array([1 - send, *[send / others] * others])
            return np.where(available, FIXED, UNAVAILABLE), np.where(available[..., None], row, nothing)
        missing = np.isnan(state).any(axis=-1)
        wanted = self._live.probabilities(np.nan_to_num(state) if missing.any() else state)
        limited = study.clip_probabilities(wanted.reshape(-1, len(nothing))).reshape(wanted.shape)
        covered, finite = self._live.covered, np.isfinite(limited).all(axis=-1)
        usable = self._live.list_usable(moment) & (finite | ~covered)
        source = find_sources(available=available, complete=~missing, covered=covered, usable=usable)
        rows = np.stack([nothing] * len(SOURCES))
        rows[WARM_UP] = fixed_probabilities(study, settings.warm_up_probability)
        rows[FALLBACK] = fixed_probabilities(study, settings.fallback_probability)
        return source, np.where((source == POLICY)[..., None], limited, rows[source])

    def _update(self, trial: int, day: int) -> UpdateRecord:
        """Learn from all that is known in one trial after a day; what passes the checks goes live."""
        began, live = perf_counter(), self._live
        measured = self._measure(trial, day)
        try:
            proposal = propose_policy(
                self._update_study, measured, live.policies[trial], live.coefficients[trial], label=self._label(measured)
            )
        except InputError as error:
            return UpdateRecord(day, "failed", (), str(error), perf_counter() - began)
        self._activate(trial, day, proposal)
        refused = tuple(one.check for one in proposal.findings if not one.passed)
        return UpdateRecord(day, proposal.state, refused, proposal.message, perf_counter() - began)

    def _activate(self, trial: int, day: int, proposal: Proposal) -> None:
        if proposal.state == "done" and proposal.policies is not None:
            moment = timedelta(days=day, hours=UPDATE_HOUR)
            self._live.activate(trial, proposal.policies, proposal.coefficients, moment)

    def _label(self, measured: MeasuredLogs) -> Callable[[int], str]:
        def label(row: int) -> str:
            name = measured.participants[measured.participant_index[row]]
            return f"decision point {measured.points.time[row]} of participant {name}"

        return label

    def _measure(self, trial: int, day: int) -> MeasuredLogs:
        """What is known in one trial in the night after a day, participant after participant."""
        course, points = self._course, self._course.time[trial]
        present = np.arange(course.rewards.shape[2]) < points[:, None]
        people, time = np.nonzero(present)
        kept, index = np.unique(people, return_inverse=True)
        state, derived = self._reading.split(self._reading.measure(course.states[trial][present]))
        reported = np.where(self._has_arrived(trial, day, people, time), course.reported[trial][present], np.nan)
        available = self._available[trial, people, time]
        return MeasuredLogs(
            participants=self._names[kept],
            participant_index=index,
            row=np.arange(len(people)),
            points=DecisionPoints(
                time=time,
                state=state,
                available=available.astype(np.float64),
                action=course.actions[trial][present].astype(np.float64),
                probability=self._probability[trial, people, time],
                reward=restore_outcome(reported, self._study.reward),
                implausible={},
                problems=Problems(participant=lambda row: self._names[people[row]].item()),
            ),
            derived=derived,
        )

    def _has_arrived(self, trial: int, day: int, people: NDArray[np.int64], time: NDArray[np.int64]) -> Marks:
        """Which outcomes are there in the night after a day: not too late to count, and not after somebody left."""
        design, left = self._design, self._attendance.left[trial]
        open_for, delay = timedelta(hours=self._settings.outcome_hours), design.outcome_delay
        arrivals = [design.clock_time(*divmod(place + delay, design.per_day)) for place in range(design.per_day)]
        counts = np.array([at - design.clock_time(0, place) <= open_for for place, at in enumerate(arrivals)])
        last_day = np.fmin(day - self._attendance.entry, left)
        there = time + delay < (last_day[people] + 1) * design.per_day
        return np.asarray(counts[time % design.per_day] & there)

    def _finish(self, trial: int) -> TrialRecord:
        measured = self._measure(trial, self._design.calendar_days - 1)
        people, time = measured.participant_index, np.asarray(measured.points.time)
        own_day = time // self._design.per_day
        return TrialRecord(
            logs=finish_logs(self._study, measured).logs,
            day=own_day + self._attendance.entry[people],
            own_day=own_day,
            reward=self._course.rewards[trial, people, time],
            source=self._source[trial, people, time],
            updates=self._updates[trial],
            left=self._attendance.left[trial],
        )


def _switch_screen_off(study: Study) -> Study:
    return study.model_copy(update={"screen": ScreenSection(on=False)})


def _check_design(study: Study, settings: TrialSection, design: TrialDesign, people: int) -> None:
    """Refuse a design that the study cannot be run by."""
    if people != design.participants:
        raise InputError(f"the simulator has {people} people, the design {design.participants}; draw as many as it needs")
    if isinstance(study.days, int) and study.days != design.per_day:
        raise InputError(f"per_day is {design.per_day}, but the study's trial.day_boundary is {study.days}; make them equal")
    gap = design.clock_time(0, 1) - design.clock_time(0, 0) if design.per_day > 1 else timedelta(days=1)
    if gap < timedelta(minutes=settings.decision_gap_minutes):
        raise InputError(
            f"per_day is {design.per_day}: decision points {gap / timedelta(minutes=1):g} minutes apart, which the study "
            f"refuses (trial.decision_gap_minutes is {settings.decision_gap_minutes:g}); take fewer a day"
        )
    following = [name for name, one in study.derived_states.items() if one.follows_outcomes]
    if following and design.outcome_delay:
        raise InputError(
            f"outcome_delay is {design.outcome_delay}, but the state '{following[0]}' follows outcomes, which simulated "
            "people know at once; set outcome_delay = 0, or leave the state out"
        )
