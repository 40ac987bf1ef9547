"""A study in the middle of its course, for looking at: days of decisions, two policies, removed rows, alerts."""

from datetime import UTC, datetime, timedelta

import numpy as np

from surefoot.service.access import record_action
from surefoot.service.database.clock import VARIABLE
from surefoot.service.database.schema import DecisionReply
from surefoot.service.trial import alerts, decisions, participants
from surefoot.service.trial.adverse_events import record_event
from surefoot.service.trial.api_models import DecisionRequest, Outcome
from surefoot.service.trial.upkeep import BACKED_UP, SEALED
from surefoot.service.updates import updates
from surefoot.service.updates.schedule import claim_job
from tests.service.support.trials import STUDY

DESIGN = STUDY.replace("[trial]\n", '[trial]\ntitle = "Walking after heart surgery"\nday_boundary = 5\n', 1).replace(
    'update_time = "never"', 'update_time = "23:00"'
)
DESIGN += "\n[monitoring]\nharm = 1\nfutility = 0.2\nburden = 4\n"
"""The tests' study with decision points and an update every day, and a board's boundaries."""
BEGIN = datetime(2026, 3, 2, 9, tzinfo=UTC)
NASTY = "<script>console.error('x')</script>"


class Clock:
    """The service's clock, set by the test."""

    def __init__(self, monkeypatch, folder):
        self._file = folder / "clock.txt"
        self.set(BEGIN)
        monkeypatch.setenv(VARIABLE, str(self._file))

    def set(self, moment):
        self.moment = moment
        self._file.write_text(moment.isoformat())


def seed(trial, clock, people=4, days=10):
    """Five decision points a day from each participant (p1 falls silent, p4 never speaks); an update in the last two
    nights."""
    rng = np.random.default_rng(0)
    for number in range(people + 1):
        participants.register_participant(trial.database, f"p{number}")
    for day in range(days):
        for point in range(5):
            clock.set(BEGIN + timedelta(days=day, hours=2.5 * point))
            for number in range(people):
                if number != 1 or day < days - 3:
                    _point(trial, clock, rng, f"p{number}", 5 * day + point)
        if day >= days - 2:
            clock.set(BEGIN + timedelta(days=day, hours=14))
            night = clock.moment.date().isoformat()
            assert claim_job(trial, f"update:{night}", clock.moment)
            assert updates.run_update(trial, updates.begin_update(trial, f"schedule, night of {night}")) == "done"
    clock.set(BEGIN + timedelta(days=days, hours=0))
    for number in {*range(people)} - {1}:
        _point(trial, clock, rng, f"p{number}", 5 * days)
    clock.set(BEGIN + timedelta(days=days, hours=1))
    with trial.database.transaction() as connection:
        for action in (BACKED_UP, SEALED):
            record_action(connection, "schedule", action)
        for kind, words in (("no-data", "no decision was asked for in the last 24 hours"), ("policy-check", NASTY)):
            alerts.raise_alert(connection, kind=kind, occasion=f"{kind}:test", message=words)
    record_event(
        trial,
        "p0",
        happened_at=BEGIN + timedelta(days=3),
        description="Fell on the stairs; a bruise.",
        serious=False,
        related="possibly related",
        by="key 0123456789ab",
    )
    return updates.list_policies(trial)


def _point(trial, clock, rng, participant, index):
    """Sending helps more in good weather; some answers are blank, some people drive, some sensors count nonsense."""
    context = {
        "weather": float(rng.normal()),
        "engagement": float(rng.normal()),
        "place": str(rng.choice(["other", "home"])),
    }
    if rng.random() < 0.05:
        del context["engagement"]
    free = bool(rng.random() > 0.1)
    body = {"participant_id": participant, "decision_idx": index, "timestamp": clock.moment, "availability": free}
    asked = DecisionRequest(**body, reasons=[] if free else ["driving"], context=context)
    answer = DecisionReply.model_validate_json(decisions.decide(trial, asked))
    outcome = context["weather"] * (1 + 2 * answer.action) + 0.3 * rng.normal() + (30 if rng.random() < 0.05 else 0)
    if rng.random() > 0.1:
        told = Outcome(decision_id=answer.decision_id, outcome=float(outcome), timestamp=clock.moment)
        decisions.record_outcomes(trial, [told])
