"""What is sent is what the service describes; what cannot be sent is refused before it is."""

import json
from datetime import UTC, datetime
from typing import get_args

import httpx2
import numpy as np
import pytest

from surefoot import InputError
from surefoot.client import Client, UnexpectedAnswerError, exchange
from surefoot.client.exchange import Decision, Outcome
from surefoot.service.database.schema import DecisionReply
from surefoot.service.trial import api_models

WHEN = datetime(2026, 3, 1, 9, tzinfo=UTC)


def encode_decision(*given, **named):
    """What a client sends for a decision point; the service answers nothing that it understands."""
    sent = []

    def answer(request):
        sent.append(request.content)
        return httpx2.Response(404)

    client = Client("http://trial", "sf_key", transport=httpx2.MockTransport(answer))
    with client, pytest.raises(UnexpectedAnswerError):
        client.decide(*given, **named)
    return sent[0]


def literals(model, field):
    return set(get_args(model.model_fields[field].annotation))


def test_words_and_limits_are_those_of_the_service():
    assert set(get_args(exchange.Source)) == literals(DecisionReply, "source")
    assert set(get_args(exchange.Status)) == literals(api_models.OutcomeReceipt, "status")
    described = api_models.Outcomes.model_json_schema()["properties"]["outcomes"]
    assert described["maxItems"] == exchange.OUTCOMES_PER_BATCH


def test_a_request_is_read_by_the_service_as_it_was_meant():
    context = {"steps": np.int64(7), "weather": np.float32(0.5), "home": np.bool_(True), "mood": None, "place": "café"}
    content = encode_decision("p", 3, WHEN, context, availability=False, reasons=["driving"])
    read = api_models.DecisionRequest.model_validate_json(content)
    assert read.context == {"steps": 7, "weather": 0.5, "home": True, "mood": None, "place": "café"}
    assert (read.decision_idx, read.timestamp, read.availability, read.reasons) == (3, WHEN, False, ["driving"])
    assert api_models.Outcome.model_validate_json(Outcome("0" * 32, np.float64(2.5), WHEN, 0.5).text()).action_prob == 0.5
    assert "action_prob" not in json.loads(Outcome("0" * 32, None, WHEN).text())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"timestamp": datetime(2026, 3, 1)}, "give a datetime with a time zone"),
        ({"timestamp": "2026-03-01T09:00Z"}, "give a datetime with a time zone"),
        ({"context": {"weather": float("nan")}}, r"context\['weather'\] is nan.*None where it is missing"),
        ({"context": {"weather": [1]}}, r"context\['weather'\] is of type list"),
        ({"context": {"weather": np.arange(3)}}, r"context\['weather'\] is of type ndarray"),
        ({"reasons": "driving"}, r"write \['driving'\]"),
        ({"decision_idx": {1}}, "decision_idx is of type set"),
        ({"participant_id": b"p"}, "cannot be sent as JSON"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_its_place(change, said):
    usual = {"participant_id": "p", "decision_idx": 0, "timestamp": WHEN, "context": {}, "availability": True, "reasons": []}
    with pytest.raises(InputError, match=said):
        encode_decision(**{**usual, **change})


def test_an_outcome_that_is_not_a_number_is_refused():
    with pytest.raises(InputError, match="None where it is missing"):
        Outcome("0" * 32, float("inf"), WHEN).text()


def test_warnings_of_an_answer_are_read_and_logged(caplog):
    given = {"decision_id": "0" * 32, "action": 0, "action_name": "nothing", "action_prob": [0.5, 0.5]}
    given |= {"source": "fallback", "reasons": [], "policy_id": None}
    assert Decision.read({**given, "warnings": []}).warnings == () and caplog.text == ""
    assert Decision.read({**given, "warnings": ["context.wether is not known"]}).warnings == ("context.wether is not known",)
    assert "context.wether is not known" in caplog.text
