"""When to ask again and what an answer means, without any network."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from surefoot import InputError
from surefoot.client import ApiError, InvalidRequestError, NetworkError, Retries, UnavailableError, UnexpectedAnswerError
from surefoot.client.exchange import Call, Reply, ask, deliver

CALL = Call("/decisions", b"{}", lambda given: given["value"])
GOOD = Reply(200, {}, b'{"value": 7}')
LOST = NetworkError("lost")


def converse(steps, replies):
    """The answer, and how long each attempt waited."""
    waits, replies = [], iter(replies)
    try:
        attempt = next(steps)
        while True:
            assert attempt.call.content == b"{}"
            waits.append(attempt.wait)
            attempt = steps.send(next(replies))
    except StopIteration as end:
        return end.value, waits


def busy(**headers):
    return Reply(503, {name.replace("_", "-"): value for name, value in headers.items()}, b"")


def test_waits_grow_and_are_spread():
    answer, waits = converse(ask(CALL, Retries(5, 1.0)), [LOST] * 4 + [GOOD])
    assert answer == 7 and waits[0] == 0
    for wait, longest in zip(waits[1:], (1, 2, 4, 8), strict=True):
        assert longest / 2 <= wait <= longest
    assert len({converse(ask(CALL, Retries(2)), [LOST, GOOD])[1][1] for _ in range(5)}) > 1


def test_no_wait_is_longer_than_the_longest():
    assert max(converse(ask(CALL, Retries(12, 1.0, 3.0)), [LOST] * 11 + [GOOD])[1]) <= 3


def test_it_comes_back_when_the_service_said():
    assert converse(ask(CALL, Retries(2, 0.01)), [busy(retry_after="5"), GOOD])[1] == [0, 5]
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    assert 15 < converse(ask(CALL, Retries(2, 0.01)), [busy(retry_after=later), GOOD])[1][1] <= 20
    assert converse(ask(CALL, Retries(2, 0.01)), [busy(retry_after="soon"), GOOD])[1][1] <= 0.01


def test_it_does_not_wait_longer_than_it_was_told():
    with pytest.raises(UnavailableError) as refused:
        converse(ask(CALL, Retries(longest_wait=30)), [busy(retry_after="3600")])
    assert refused.value.retry_after == 3600


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 500, 302])
def test_what_would_be_refused_again_is_not_sent_again(status):
    content = b'{"error": {"code": "c", "message": "m", "field": null}}'
    with pytest.raises(ApiError, match=f"{status} c: m"):
        converse(ask(CALL, Retries()), [Reply(status, {}, content)])


@pytest.mark.parametrize(
    ("status", "content"), [(200, b"<html>Sign in</html>"), (200, b"[]"), (404, b"nope"), (302, b""), (400, b'{"error": 1}')]
)
def test_words_of_another_server_are_not_taken_for_an_answer(status, content):
    with pytest.raises(UnexpectedAnswerError, match="not Surefoot's"):
        converse(ask(CALL, Retries()), [Reply(status, {}, content)])


def test_a_batch_that_a_proxy_finds_too_large_is_halved():
    texts = [f'{{"decision_id": "{number}"}}' for number in range(5)]
    steps, sizes = deliver(texts, Retries()), []
    reply = None
    with pytest.raises(StopIteration) as end:
        while True:
            size = steps.send(reply).call.content.count(b"decision_id")
            sizes.append(size)
            results = b", ".join([b'{"decision_id": "", "status": "recorded", "action_prob_agrees": null}'] * size)
            reply = Reply(413, {}, b"<html>") if size > 2 else Reply(200, {}, b'{"results": [' + results + b"]}")
    assert sizes == [5, 2, 3, 1, 2] and len(end.value.value) == 5


def test_one_that_is_too_large_alone_is_refused():
    steps = deliver(['{"decision_id": "x"}'], Retries())
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(Reply(413, {}, b""))
    (receipt,) = end.value.value
    assert (receipt.decision_id, receipt.status, receipt.kept) == ("x", "refused", False)
    assert issubclass(InvalidRequestError, ApiError)


def test_receipts_that_do_not_match_what_was_sent_are_not_believed():
    steps = deliver(['{"decision_id": "x"}'], Retries())
    next(steps)
    with pytest.raises(UnexpectedAnswerError):
        steps.send(Reply(200, {}, b'{"results": []}'))


def test_retries_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="attempts is at least 1"):
        Retries(0)
