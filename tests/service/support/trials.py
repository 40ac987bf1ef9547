"""Trials with data in them, made by the service's own functions."""

import json
from datetime import timedelta

import numpy as np
import sqlalchemy as sa

from surefoot.service.database import schema
from surefoot.service.database.schema import DecisionReply
from surefoot.service.trial import decisions, participants
from surefoot.service.trial.api_models import DecisionRequest, Outcome
from surefoot.service.trial.decisions import decide
from surefoot.service.updates import updates
from tests.service.support.client import request

STUDY = """\
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"

[state.weather]
range = [-10, 10]

[state.engagement]

[state.place]
kind = "category"
levels = ["other", "home"]

[outcome]
column = "steps"

[method]
name = "ro-accb"
pooling = "person"

[probability_limits]
minimum = 0.1
maximum = 0.9

[trial]
warm_up_decision_points = 20
warm_up_probability = 0.5
fallback_probability = 0.25
update_time = "never"

[trial.guard_rails]
max_removed = 0.5
max_send_rate_change = 0.8

[trial.limits]
requests_per_second = 10000
"""

START = np.datetime64("2026-03-01T08:00:00")


def moment(hours):
    return f"{START + np.timedelta64(int(60 * hours), 'm')}Z"


def fill(trial, people=2, points=30, first=0, seed=0, effect=2.0):
    """Decisions with outcomes: sending helps more in good weather; every fifth decision point has no outcome yet."""
    rng = np.random.default_rng(seed)
    found = []
    for participant in (f"p{number}" for number in range(people)):
        participants.register_participant(trial.database, participant)
        sent = []
        for index in range(first, first + points):
            weather, engagement = rng.normal(size=2).round(3).tolist()
            asked = DecisionRequest(
                participant_id=participant,
                decision_idx=index,
                timestamp=moment(2 * index),
                availability=index % 10 != 9,
                reasons=["driving"] if index % 10 == 9 else [],
                context={"weather": weather, "engagement": engagement, "place": str(rng.choice(["other", "home"]))},
            )
            answer = DecisionReply.model_validate_json(decisions.decide(trial, asked))
            found.append(answer)
            outcome = float(weather + answer.action * (effect * weather) + 0.1 * rng.normal())
            if index % 5 != 4:
                sent.append(Outcome(decision_id=answer.decision_id, outcome=outcome, timestamp=moment(2 * index + 1)))
        decisions.record_outcomes(trial, sent)
    return found


def update(trial):
    update_id = updates.begin_update(trial, "test")
    return updates.run_update(trial, update_id), updates.update_status(trial, update_id)


def column(trial, one):
    with trial.database.autocommit() as connection:
        return list(connection.scalars(sa.select(one)))


def answer(trial, participant="p0", index=1000, **changes):
    """The reply to a decision point; without a timestamp of its own half an hour after the participant's last."""
    if "timestamp" not in changes:
        with trial.database.autocommit() as connection:
            mine = schema.decisions.c.participant_id == participant
            last = connection.execute(
                sa.select(schema.decisions).where(mine).order_by(schema.decisions.c.decided_at.desc())
            ).first()
        if last is not None:
            again = last.decision_idx == index
            changes["timestamp"] = (last.decided_at + timedelta(minutes=0 if again else 30)).isoformat()
    return json.loads(decide(trial, DecisionRequest.model_validate(request(participant, index, **changes))))


def erase(trial, participant="p0"):
    asked = participants.ask_erasure(trial.database, participant, reason="by letter", by="test")
    return participants.confirm_erasure(trial.database, participant, asked.code, by="test")
