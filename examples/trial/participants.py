"""Simulated participants and everything that goes wrong with them, by the HeartSteps model."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

from surefoot.simulators import HeartSteps

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
HOURS = (8, 11, 14, 17, 20)
"""Decision points of a day; the outcome, the steps of the next three hours, is known at the next one."""
ARTEFACT = 5 * 1_900.0
"""Handling the phone after a prompt counts as steps: five times the mean absolute outcome."""


@dataclass
class Truth:
    """What really happened at one decision point, to check the service by."""

    artefact: bool = False
    steps: float | None = None
    """The outcome that must count in the end; None for missing."""


@dataclass
class Participants:
    """All participants at once: states move on with the actions that the service chose."""

    number: int
    seed: int
    truth: dict[str, Truth] = field(default_factory=dict)

    def __post_init__(self):
        self.names = [f"p{participant:03d}" for participant in range(self.number)]
        self._rng = np.random.default_rng(self.seed)
        self._course = HeartSteps(self.number).start(seed=self.seed)
        # One participant in ten has a sensor that dies for four days.
        self._dead_from = np.where(self._rng.random(self.number) < 0.1, self._rng.integers(2, 30, self.number), 10_000)
        self._waiting = []

    def requests(self, day, point):
        """One decision request per participant; some are not available, some context is missing or absurd."""
        moment = BEGIN + timedelta(days=day, hours=HOURS[point])
        states = self._course.look().state[0].round(6).tolist()
        return [self._request(participant, state, day, point, moment) for participant, state in enumerate(states)]

    def _request(self, participant, state, day, point, moment):
        context = dict(zip(HeartSteps.state_names, state, strict=True))
        if self._dead(participant, day):
            context["weather"] = None
        if self._rng.random() < 0.05:
            context["engagement"] = None  # a blank answer
        if self._rng.random() < 0.005:
            context["fatigue"] = 999.0  # a careless one
        driving = bool(self._rng.random() < 0.1)
        return {
            "participant_id": self.names[participant],
            "decision_idx": day * len(HOURS) + point,
            "timestamp": moment,
            "availability": not driving,
            "reasons": ["driving"] if driving else [],
            "context": context,
        }

    def _dead(self, participant, day):
        return 0 <= day - self._dead_from[participant] < 4

    def live_on(self, day, point, decisions):
        """Three hours pass: states change by what was sent, and outcomes get on their way."""
        actions = np.array([[decision.action for decision in decisions]])
        probability = np.array([[decision.probability for decision in decisions]])
        steps = self._course.step(actions, probability)[0]
        after = BEGIN + timedelta(days=day, hours=HOURS[point] + 3)
        for participant, decision in enumerate(decisions):
            self._report(participant, day, decision, float(steps[participant]), after)

    def _report(self, participant, day, decision, steps, after):
        truth = self.truth[decision.decision_id] = Truth()
        if decision.action and self._rng.random() < 0.08:
            truth.artefact, steps = True, steps + ARTEFACT
        chance = self._rng.random()
        if chance < 0.04:
            return  # never comes
        if self._dead(participant, day):
            self._send(decision, None, after)
        elif chance < 0.05:
            self._send(decision, steps, after, hours=60)  # too late to count
        elif chance < 0.11:
            truth.steps = steps
            self._send(decision, steps, after, hours=21)  # no network until tomorrow
        elif chance < 0.14:
            truth.steps = steps
            self._send(decision, steps / 2, after)
            self._send(decision, steps, after, hours=24)  # corrected
        else:
            truth.steps = steps
            self._send(decision, steps, after)

    def _send(self, decision, steps, after, hours=0):
        moment = after + timedelta(hours=hours)
        self._waiting.append((moment, decision.outcome(steps, moment)))

    def outcomes(self, now):
        """What has arrived by now; one in twenty is sent twice."""
        due = [outcome for moment, outcome in self._waiting if moment <= now]
        self._waiting = [waiting for waiting in self._waiting if waiting[0] > now]
        return due + [outcome for outcome in due if self._rng.random() < 0.05]
