"""When to ask again and what an answer means, without any network."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import pytest

from surefoot import InputError
from surefoot.client import (
    ApiError,
    Client,
    InvalidRequestError,
    NetworkError,
    Outcome,
    Retries,
    UnavailableError,
    UnexpectedAnswerError,
)

WHEN = datetime(2026, 3, 1, 9, tzinfo=UTC)
GOOD = httpx2.Response(200, json={"participant_id": "p", "registered_at": WHEN.isoformat()})
LOST = httpx2.ConnectError("lost")


def busy(**headers):
    return httpx2.Response(503, headers={name.replace("_", "-"): value for name, value in headers.items()})


@pytest.fixture
def converse(monkeypatch):
    """Register somebody, given what comes back; how long each attempt after the first waited."""

    def run(retries, *replies):
        waits, contents, given = [], [], iter(replies)
        monkeypatch.setattr("time.sleep", waits.append)

        def answer(request):
            contents.append(request.content)
            reply = next(given)
            if isinstance(reply, Exception):
                raise reply
            return reply

        with Client("http://trial", "sf_key", retries=retries, transport=httpx2.MockTransport(answer)) as client:
            assert client.register("p").registered_at == WHEN
        assert len(set(contents)) == 1
        return waits

    return run


def test_waits_grow_and_are_spread(converse):
    waits = converse(Retries(5, 1.0), *[LOST] * 4, GOOD)
    for wait, longest in zip(waits, (1, 2, 4, 8), strict=True):
        assert longest / 2 <= wait <= longest
    assert len({converse(Retries(2), LOST, GOOD)[0] for _ in range(5)}) > 1


def test_no_wait_is_longer_than_the_longest(converse):
    assert max(converse(Retries(12, 1.0, 3.0), *[LOST] * 11, GOOD)) <= 3


def test_it_comes_back_when_the_service_said(converse):
    assert converse(Retries(2, 0.01), busy(retry_after="5"), GOOD) == [5]
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    assert 15 < converse(Retries(2, 0.01), busy(retry_after=later), GOOD)[0] <= 20
    assert converse(Retries(2, 0.01), busy(retry_after="soon"), GOOD)[0] <= 0.01


def test_it_asks_no_more_often_and_waits_no_longer_than_it_was_told(converse):
    with pytest.raises(UnavailableError) as refused:
        converse(Retries(longest_wait=30), busy(retry_after="3600"))
    assert refused.value.retry_after == 3600
    with pytest.raises(NetworkError, match=r"no answer \(ConnectError: lost\)"):
        converse(Retries(3), LOST, LOST, LOST)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 500, 302])
def test_what_would_be_refused_again_is_not_sent_again(converse, status):
    content = b'{"error": {"code": "c", "message": "m", "field": null}}'
    with pytest.raises(ApiError, match=f"{status} c: m"):
        converse(Retries(), httpx2.Response(status, content=content))


@pytest.mark.parametrize(
    ("status", "content"), [(200, b"<html>Sign in</html>"), (200, b"[]"), (404, b"nope"), (302, b""), (400, b'{"error": 1}')]
)
def test_words_of_another_server_are_not_taken_for_an_answer(converse, status, content):
    with pytest.raises(UnexpectedAnswerError, match="not Surefoot's"):
        converse(Retries(), httpx2.Response(status, content=content))


def send(count, answer):
    """Send outcomes to a service that answers a batch of some size by `answer`; receipts, and the sizes of the batches."""
    sizes = []

    def reply(request):
        sizes.append(len(json.loads(request.content)["outcomes"]))
        return answer(sizes[-1])

    with Client("http://trial", "sf_key", transport=httpx2.MockTransport(reply)) as client:
        return client.send_outcomes([Outcome(f"{number}", 1.0, WHEN) for number in range(count)]), sizes


def record(size):
    return httpx2.Response(
        200, json={"results": [{"decision_id": "", "status": "recorded", "action_prob_agrees": None}] * size}
    )


def test_a_batch_that_a_proxy_finds_too_large_is_halved():
    receipts, sizes = send(5, lambda size: httpx2.Response(413, content=b"<html>") if size > 2 else record(size))
    assert sizes == [5, 2, 3, 1, 2] and len(receipts) == 5
    assert send(2500, record)[1] == [1000, 1000, 500]


def test_one_that_is_too_large_alone_is_refused():
    (receipt,), _ = send(1, lambda size: httpx2.Response(413))
    assert (receipt.decision_id, receipt.status, receipt.kept) == ("0", "refused", False)
    assert issubclass(InvalidRequestError, ApiError)


def test_receipts_that_do_not_match_what_was_sent_are_not_believed():
    with pytest.raises(UnexpectedAnswerError):
        send(1, lambda size: record(0))


def test_retries_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="attempts is at least 1"):
        Retries(0)
