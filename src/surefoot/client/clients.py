"""The clients, with threads and with asyncio: they send and wait; what to send and what it means is in `exchange`."""

import asyncio
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from surefoot.client.exceptions import NetworkError
from surefoot.client.exchange import (
    OUTCOMES_PER_BATCH,
    Call,
    Decision,
    Outcome,
    Participant,
    Pause,
    Receipt,
    Reply,
    Retries,
    Steps,
    Value,
    Withdrawal,
    ask,
    ask_decision,
    ask_pause,
    ask_registration,
    ask_withdrawal,
    deliver,
)
from surefoot.client.outcome_queue import OutcomeQueue
from surefoot.errors import InputError
from surefoot.version import __version__

try:
    import httpx2
except ImportError as error:
    raise ImportError("surefoot.client needs httpx2; install it with: pip install 'surefoot[client]'") from error

T = TypeVar("T")


class _Settings:
    """What both clients have in common."""

    def __init__(self, url: str, key: str, retries: Retries | None, queue: str | Path | OutcomeQueue | None) -> None:
        self.url = _check_url(url)
        self._headers = {
            "Authorization": f"Bearer {_check_key(key)}",
            "User-Agent": f"surefoot-client/{__version__}",
            "Content-Type": "application/json",
        }
        self._retries = retries or Retries()
        self._queue = OutcomeQueue(queue) if isinstance(queue, str | Path) else queue

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def queue(self) -> OutcomeQueue:
        """The queue on disk; its length is how many outcomes wait."""
        if self._queue is None:
            raise InputError(
                f"this client has no queue; name a folder for it: {type(self).__name__}(url, key, queue='outcomes')"
            )
        return self._queue

    def _request(self, call: Call[Any]) -> dict[str, Any]:
        return {"url": f"{self.url}/api/v1{call.path}", "content": call.content, "headers": self._headers}

    def _lost(self, call: Call[Any], error: httpx2.RequestError) -> NetworkError:
        lost = NetworkError(
            f"{self.url}{call.path}: no answer ({type(error).__name__}: {error}); the same call again is safe"
        )
        lost.__cause__ = error
        return lost


class Client(_Settings):
    """A client of the decision service, for any number of threads.

    Parameters
    ----------
    url : str
        Of the service: `https://trial.example.org`.
    key : str
        Of the role `app`; pausing and withdrawing need one of the role `admin`. It is shown nowhere.
    timeout : float
        Seconds to wait for a connection, and for an answer, each time it is asked.
    retries : Retries, optional
        How often to ask, and how long to wait between.
    queue : str, Path or OutcomeQueue, optional
        A folder for outcomes that wait; each process needs one of its own.
    transport : httpx2.BaseTransport, optional
        How requests travel; for proxies, certificates of one's own, and tests.

    See Also
    --------
    AsyncClient : The same with `await`.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> with Client("https://trial.example.org", "sf_key") as client:  # doctest: +SKIP
    ...     client.register("p-017")
    ...     decision = client.decide("p-017", 0, datetime.now(UTC), {"weather": 0.4, "place": "home"})
    ...     client.send_outcomes([decision.outcome(312, datetime.now(UTC))])
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout: float = 15.0,
        retries: Retries | None = None,
        queue: str | Path | OutcomeQueue | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        super().__init__(url, key, retries, queue)
        self._http = httpx2.Client(timeout=timeout, transport=transport)
        self._flushing = threading.Lock()

    def register(self, participant_id: str) -> Participant:
        """Register a participant by a pseudonym; repeating it is harmless."""
        return self._run(ask(ask_registration(participant_id), self._retries))

    def decide(
        self,
        participant_id: str,
        decision_idx: int,
        timestamp: datetime,
        context: Mapping[str, Value],
        *,
        availability: bool = True,
        reasons: Sequence[str] = (),
    ) -> Decision:
        """Ask for the draw of one decision point.

        There is one draw for a decision point, however often it is asked for: the call with the same arguments gets the
        same answer, with other arguments a `ConflictError`. So take the timestamp once, not again for each try.

        Parameters
        ----------
        participant_id, decision_idx : str, int
            Whose decision point it is, and which, counted from 0.
        timestamp : datetime
            Of the decision point, with a time zone.
        context : mapping
            By the names of the study's state variables; None where one is missing.
        availability : bool
            Whether the participant may be prompted; if not, `reasons` says why.
        """
        call = ask_decision(participant_id, decision_idx, timestamp, context, availability, reasons)
        return self._run(ask(call, self._retries))

    def send_outcomes(self, outcomes: Iterable[Outcome]) -> list[Receipt]:
        """Send outcomes now, in as many requests as they need; a receipt for each, in order."""
        return self._run(deliver([outcome.text() for outcome in outcomes], self._retries))

    def queue_outcomes(self, outcomes: Iterable[Outcome]) -> None:
        """Put outcomes on disk, needing no network; `flush` sends them."""
        self.queue.append(outcomes)

    def flush(self) -> list[Receipt]:
        """Send what waits on disk, in order; a receipt for each.

        Without network it raises `NetworkError`: what was answered is settled, the rest waits on. What the service did not
        keep is set aside in the queue's folder, with a `QueueWarning`.
        """
        receipts: list[Receipt] = []
        with self._flushing:
            while batch := self.queue.first(OUTCOMES_PER_BATCH):
                answered = self._run(deliver(batch, self._retries))
                self.queue.settle(answered)
                receipts += answered
        return receipts

    def withdraw(self, participant_id: str, reason: str) -> Withdrawal:
        """A participant leaves, for good: no more decisions, outcomes or learning. Repeating it is harmless."""
        return self._run(ask(ask_withdrawal(participant_id, reason), self._retries))

    def pause(self, participant_id: str | None, reason: str) -> Pause:
        """Pause a participant, or the whole study (None): decision points are unavailable from now on."""
        return self._run(ask(ask_pause(participant_id, "pause", reason), self._retries))

    def resume(self, participant_id: str | None, reason: str) -> Pause:
        """End the pause of a participant, or of the whole study (None)."""
        return self._run(ask(ask_pause(participant_id, "resume", reason), self._retries))

    def close(self) -> None:
        """Close connections and queue; what waits on disk waits on."""
        self._http.close()
        if self._queue is not None:
            self._queue.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, steps: Steps[T]) -> T:
        try:
            attempt = next(steps)
            while True:
                time.sleep(attempt.wait)
                attempt = steps.send(self._send(attempt.call))
        except StopIteration as end:
            answer: T = end.value
            return answer

    def _send(self, call: Call[Any]) -> Reply | NetworkError:
        try:
            reply = self._http.post(**self._request(call))
        except httpx2.RequestError as error:
            return self._lost(call, error)
        return Reply(reply.status_code, reply.headers, reply.content)


class AsyncClient(_Settings):
    """A client of the decision service for asyncio; see `Client` for what its methods do.

    Parameters
    ----------
    url, key, timeout, retries, queue
        As for `Client`.
    transport : httpx2.AsyncBaseTransport, optional
        How requests travel.

    See Also
    --------
    Client : The same without `await`.

    Examples
    --------
    >>> async def prompt_now(context):
    ...     async with AsyncClient("https://trial.example.org", "sf_key") as client:
    ...         decision = await client.decide("p-017", 1, datetime.now(UTC), context)
    ...         return decision.action > 0
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout: float = 15.0,
        retries: Retries | None = None,
        queue: str | Path | OutcomeQueue | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(url, key, retries, queue)
        self._http = httpx2.AsyncClient(timeout=timeout, transport=transport)
        self._flushing = asyncio.Lock()

    async def register(self, participant_id: str) -> Participant:
        """Register a participant; see `Client.register`."""
        return await self._run(ask(ask_registration(participant_id), self._retries))

    async def decide(
        self,
        participant_id: str,
        decision_idx: int,
        timestamp: datetime,
        context: Mapping[str, Value],
        *,
        availability: bool = True,
        reasons: Sequence[str] = (),
    ) -> Decision:
        """Ask for the draw of one decision point; see `Client.decide`."""
        call = ask_decision(participant_id, decision_idx, timestamp, context, availability, reasons)
        return await self._run(ask(call, self._retries))

    async def send_outcomes(self, outcomes: Iterable[Outcome]) -> list[Receipt]:
        """Send outcomes now; see `Client.send_outcomes`."""
        return await self._run(deliver([outcome.text() for outcome in outcomes], self._retries))

    async def queue_outcomes(self, outcomes: Iterable[Outcome]) -> None:
        """Put outcomes on disk; see `Client.queue_outcomes`."""
        await asyncio.to_thread(self.queue.append, list(outcomes))

    async def flush(self) -> list[Receipt]:
        """Send what waits on disk; see `Client.flush`."""
        receipts: list[Receipt] = []
        async with self._flushing:
            while batch := await asyncio.to_thread(self.queue.first, OUTCOMES_PER_BATCH):
                answered = await self._run(deliver(batch, self._retries))
                await asyncio.to_thread(self.queue.settle, answered)
                receipts += answered
        return receipts

    async def withdraw(self, participant_id: str, reason: str) -> Withdrawal:
        """Let a participant leave; see `Client.withdraw`."""
        return await self._run(ask(ask_withdrawal(participant_id, reason), self._retries))

    async def pause(self, participant_id: str | None, reason: str) -> Pause:
        """Pause a participant or the study; see `Client.pause`."""
        return await self._run(ask(ask_pause(participant_id, "pause", reason), self._retries))

    async def resume(self, participant_id: str | None, reason: str) -> Pause:
        """End a pause; see `Client.resume`."""
        return await self._run(ask(ask_pause(participant_id, "resume", reason), self._retries))

    async def close(self) -> None:
        """Close connections and queue; what waits on disk waits on."""
        await self._http.aclose()
        if self._queue is not None:
            self._queue.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, steps: Steps[T]) -> T:
        try:
            attempt = next(steps)
            while True:
                await asyncio.sleep(attempt.wait)
                attempt = steps.send(await self._send(attempt.call))
        except StopIteration as end:
            answer: T = end.value
            return answer

    async def _send(self, call: Call[Any]) -> Reply | NetworkError:
        try:
            reply = await self._http.post(**self._request(call))
        except httpx2.RequestError as error:
            return self._lost(call, error)
        return Reply(reply.status_code, reply.headers, reply.content)


def _check_url(url: str) -> str:
    try:
        given = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError) as error:
        raise InputError(f"{url!r} is not a URL; write it like https://trial.example.org") from error
    if given.scheme not in ("http", "https") or not given.host:
        raise InputError(f"{url!r} is not the URL of a server; write it like https://trial.example.org")
    if given.userinfo or given.query or given.fragment:
        raise InputError("the URL is that of the server alone; the key is the second argument")
    return str(given).rstrip("/").removesuffix("/api/v1")


def _check_key(key: str) -> str:
    """Without repeating it: a key belongs in no log."""
    if not isinstance(key, str) or not key.isascii() or not key.isprintable() or not key or " " in key:
        raise InputError("the key is not one of Surefoot's; it begins with sf_ and has no spaces (surefoot keys create)")
    return key
