"""Both clients against the real service, directly and through a proxy that loses, delays and refuses."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from surefoot import InputError
from surefoot.client import (
    AccessError,
    AsyncClient,
    Client,
    ConflictError,
    Decision,
    InvalidRequestError,
    NetworkError,
    NotFoundError,
    Outcome,
    Retries,
    UnavailableError,
    UnexpectedAnswerError,
)
from surefoot.service.database.schema import decisions, outcomes
from tests.service.support.postgres import free_port

WHEN = datetime(2026, 3, 1, 9, tzinfo=UTC)
CONTEXT = {"weather": 0.5, "engagement": -1.0, "place": "home"}
FAULTS = ["reset", "lost_answer", "half_an_answer", "busy", "bad_gateway"]


def rows(trial, table, **where):
    query = sa.select(table).where(*(table.c[name] == value for name, value in where.items()))
    with trial.database.autocommit() as connection:
        return connection.execute(query).all()


def test_a_decision_point_from_registration_to_outcome(connect, served, participant):
    client = connect(served.url, served.app)
    registered = client.register(participant)
    assert registered.participant_id == participant and registered.registered_at.tzinfo is not None
    assert client.register(participant) == registered
    decision = client.decide(participant, 0, WHEN, CONTEXT)
    (row,) = rows(served.trial, decisions, participant_id=participant)
    assert (decision.decision_id, decision.action, decision.probability) == (row.id, row.action, row.probability)
    assert (decision.action_name, decision.probabilities) == (("nothing", "send")[row.action], (0.5, 0.5))
    assert (decision.source, decision.reasons, decision.policy_id) == ("warm-up", (), None)
    (receipt,) = client.send_outcomes([decision.outcome(312, WHEN + timedelta(hours=1))])
    assert receipt.kept and (receipt.status, receipt.probability_agrees) == ("recorded", True)
    (kept,) = rows(served.trial, outcomes, decision_id=decision.decision_id)
    assert kept.outcome == 312


def test_who_is_not_available_gets_nothing(connect, served, participant):
    client = connect(served.url, served.app)
    client.register(participant)
    decision = client.decide(participant, 0, WHEN, {}, availability=False, reasons=["driving"])
    assert (decision.action, decision.probability, decision.source) == (0, 1.0, "unavailable")


@pytest.mark.parametrize("fault", FAULTS)
def test_there_is_one_draw_whatever_the_network_does(connect, served, proxy, participant, fault):
    client = connect(proxy.url, served.app)
    client.register(participant)
    proxy.seen.clear()
    proxy.faults.extend([fault] * 2)
    decision = client.decide(participant, 0, WHEN, CONTEXT)
    assert len(proxy.seen) == 3 and len(set(proxy.seen)) == 1
    (row,) = rows(served.trial, decisions, participant_id=participant)
    assert (decision.decision_id, decision.action) == (row.id, row.action)


def test_an_answer_that_takes_too_long_is_asked_for_again(connect, served, proxy, participant):
    connect(served.url, served.app).register(participant)
    client = connect(proxy.url, served.app, timeout=0.5)
    proxy.faults.append("slow")
    assert isinstance(client.decide(participant, 0, WHEN, CONTEXT), Decision)
    assert len(proxy.seen) >= 2 and len(set(proxy.seen)) == 1
    assert len(rows(served.trial, decisions, participant_id=participant)) == 1


def test_it_gives_up_and_the_same_call_later_gets_the_same_draw(connect, served, proxy, participant):
    client = connect(proxy.url, served.app)
    client.register(participant)
    proxy.faults.extend(["lost_answer"] * 4)
    with pytest.raises(NetworkError, match="the same call again is safe"):
        client.decide(participant, 0, WHEN, CONTEXT)
    (row,) = rows(served.trial, decisions, participant_id=participant)
    assert client.decide(participant, 0, WHEN, CONTEXT).decision_id == row.id
    proxy.faults.extend(["busy"] * 4)
    with pytest.raises(UnavailableError, match="503 no_database") as refused:
        client.decide(participant, 1, WHEN + timedelta(hours=1), CONTEXT)
    assert refused.value.retry_after == 0


def test_errors_say_what_where_and_who_can_help(connect, served, participant):
    client = connect(served.url, served.app)
    with pytest.raises(NotFoundError, match="register the participant first") as unknown:
        client.decide(participant, 0, WHEN, CONTEXT)
    assert (unknown.value.code, unknown.value.field) == ("unknown_participant", "participant_id")
    client.register(participant)
    client.decide(participant, 0, WHEN, CONTEXT)
    with pytest.raises(ConflictError) as conflict:
        client.decide(participant, 0, WHEN, {**CONTEXT, "weather": 0.6})
    assert (conflict.value.status, conflict.value.code) == (409, "decided_otherwise")
    assert len(conflict.value.request_id) == 16
    with pytest.raises(InvalidRequestError) as invalid:
        client.decide(participant, -1, WHEN, CONTEXT)
    assert invalid.value.field == "decision_idx"
    with pytest.raises(AccessError, match="role admin"):
        client.pause(participant, "a rash")


def test_a_wrong_key_is_told_and_never_shown(connect, served):
    secret = "sf_this-is-secret"  # noqa: S105 - made up
    client = connect(served.url, secret)
    with pytest.raises(AccessError, match="401") as refused:
        client.register("p")
    assert "secret" not in repr(client) + str(refused.value) + repr(refused.value)
    with pytest.raises(InputError) as wrong:
        Client(served.url, f"{secret}\n")
    assert "secret" not in str(wrong.value)


def test_nobody_there_is_a_network_error(connect):
    client = connect(f"http://127.0.0.1:{free_port()}", "sf_key", retries=Retries(attempts=2, first_wait=0))
    with pytest.raises(NetworkError, match="ConnectError"):
        client.register("p")


@pytest.mark.parametrize("path", ["/nowhere", "/metrics"])
def test_another_server_is_not_taken_for_the_service(connect, served, path):
    client = connect(served.url + path, served.app)
    with pytest.raises((UnexpectedAnswerError, NotFoundError)):
        client.register("p")


def test_a_pause_holds_until_it_is_ended(connect, served, participant):
    client = connect(served.url, served.admin)
    client.register(participant)
    assert client.pause(participant, "a rash").paused
    stopped = client.decide(participant, 0, WHEN, CONTEXT)
    assert (stopped.source, stopped.action) == ("unavailable", 0)
    assert stopped.reasons == ("paused: the participant",)
    assert client.resume(participant, "healed").participant_id == participant
    assert client.decide(participant, 1, WHEN + timedelta(hours=1), CONTEXT).source == "warm-up"


def test_who_has_withdrawn_is_asked_about_no_more(connect, served, participant):
    client = connect(served.url, served.admin)
    client.register(participant)
    decision = client.decide(participant, 0, WHEN, CONTEXT)
    left = client.withdraw(participant, "moved away")
    assert left.withdrawn and client.withdraw(participant, "moved away") == left
    with pytest.raises(ConflictError, match="has withdrawn"):
        client.decide(participant, 1, WHEN + timedelta(hours=1), CONTEXT)
    (receipt,) = client.send_outcomes([decision.outcome(1.0, WHEN + timedelta(minutes=1))])
    assert receipt.status == "withdrawn" and not receipt.kept


def test_many_outcomes_go_in_batches_and_in_order(connect, served, proxy, participant):
    client = connect(proxy.url, served.app)
    client.register(participant)
    decision = client.decide(participant, 0, WHEN, CONTEXT)
    sent = [Outcome(f"{number:032x}", None, WHEN) for number in range(2_500)]
    sent[1_700] = decision.outcome(1.0, WHEN + timedelta(minutes=1))
    proxy.seen.clear()
    proxy.faults.extend(["none", "lost_answer"])
    receipts = client.send_outcomes(sent)
    assert [receipt.decision_id for receipt in receipts] == [outcome.decision_id for outcome in sent]
    assert len(proxy.seen) == 4 and proxy.seen[1] == proxy.seen[2]
    assert receipts[1_700].status == "repeated" and not receipts[0].kept
    assert len(rows(served.trial, outcomes, decision_id=decision.decision_id)) == 1


def test_one_outcome_at_fault_does_not_hold_up_the_others(connect, served, participant):
    client = connect(served.url, served.app)
    client.register(participant)
    decision = client.decide(participant, 0, WHEN, CONTEXT)
    good = [decision.outcome(value, WHEN + timedelta(minutes=value + 1)) for value in range(6)]
    ahead = decision.outcome(9.0, datetime.now(UTC) + timedelta(days=365))
    receipts = client.send_outcomes([*good[:4], ahead, *good[4:]])
    assert [receipt.status for receipt in receipts] == ["recorded"] * 4 + ["timestamp_in_future"] + ["recorded"] * 2
    assert "timestamp_in_future" in receipts[4].reason


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("trial.example.org", "not the URL of a server"),
        ("ftp://trial.example.org", "not the URL of a server"),
        ("https://me:secret@trial.example.org", "the key is the second argument"),
        ("https://", "not the URL of a server"),
        ("https://trial.example.org:port", "is not a URL"),
    ],
)
def test_a_url_that_cannot_be_one_is_refused(kind, url, said):
    with pytest.raises(InputError, match=said):
        kind(url, "sf_key")


def test_without_a_queue_there_is_nothing_to_flush(connect, served):
    with pytest.raises(InputError, match="name a folder"):
        connect(served.url, served.app).flush()


def test_clients_are_context_managers(served):
    with Client(served.url, served.app) as client:
        assert repr(client) == f"Client({served.url!r})"
    with pytest.raises(RuntimeError, match="closed"):
        client.register("p")


def test_importing_the_client_loads_neither_mathematics_nor_the_service():
    heavy = ["numpy", "pydantic", "fastapi", "surefoot.service", "surefoot.learning"]
    program = f"import sys, surefoot.client; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


def test_an_app_that_was_installed_again_goes_on_where_it_was(connect, served, participant):
    client = connect(served.url, served.app)
    client.register(participant)
    assert client.next_decision(participant).next_decision_idx == 0
    client.decide(participant, 3, WHEN, CONTEXT)
    standing = client.next_decision(participant)
    assert (standing.last_decision_idx, standing.last_timestamp, standing.next_decision_idx) == (3, WHEN, 4)
    assert standing.not_before >= WHEN and not standing.paused and not standing.withdrawn
