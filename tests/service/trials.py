"""Trials with data in them, made by the service's own functions."""

import numpy as np

from surefoot.service.trial import decisions, outcomes, participants
from surefoot.service.trial.api_models import DecisionReply, DecisionRequest, Outcome

START = np.datetime64("2026-03-01T08:00:00")


def moment(hours):
    return f"{START + np.timedelta64(int(60 * hours), 'm')}Z"


def fill(service, people=2, points=30, first=0, seed=0, effect=2.0):
    """Decisions with outcomes: sending helps more in good weather; every fifth decision point has no outcome yet."""
    rng = np.random.default_rng(seed)
    found = []
    for participant in (f"p{number}" for number in range(people)):
        participants.register(service.database, participant)
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
            answer = DecisionReply.model_validate_json(decisions.decide(service, asked))
            found.append(answer)
            reward = float(weather + answer.action * (effect * weather) + 0.1 * rng.normal())
            if index % 5 != 4:
                sent.append(
                    Outcome(decision_id=answer.decision_id, proximal_outcome=reward, timestamp=moment(2 * index + 1))
                )
        outcomes.record(service, sent)
    return found
