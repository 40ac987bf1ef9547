"""The clients, with threads and with asyncio: the same exchange with the service, sent in two ways."""

import asyncio
import functools
import json
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from urllib.parse import quote

import httpx2

from surefoot.client import exchange
from surefoot.client.outcome_queue import OutcomeQueue
from surefoot.errors import InputError
from surefoot.version import __version__

T = TypeVar("T")
P = ParamSpec("P")


class _Exchange:
    """What both clients do, as coroutines: `send` asks, `sleep` waits, `work` lets a function use the disk."""

    def __init__(
        self,
        url: str,
        key: str,
        retries: exchange.Retries | None,
        queue: str | Path | OutcomeQueue | None,
        *,
        send: Callable[..., Awaitable[httpx2.Response]],
        sleep: Callable[[float], Awaitable[None]],
        work: Callable[..., Awaitable[Any]],
    ) -> None:
        try:
            given = httpx2.URL(url)
        except (httpx2.InvalidURL, TypeError) as error:
            raise InputError(f"{url!r} is not a URL; write it like https://trial.example.org") from error
        if given.scheme not in ("http", "https") or not given.host:
            raise InputError(f"{url!r} is not the URL of a server; write it like https://trial.example.org")
        if given.userinfo or given.query or given.fragment:
            raise InputError("the URL is that of the server alone; the key is the second argument")
        # Without repeating it: a key belongs in no log.
        if not isinstance(key, str) or not key.isascii() or not key.isprintable() or not key or " " in key:
            raise InputError("the key is not one of Surefoot's; it begins with sf_ and has no spaces (surefoot keys create)")
        self.url = str(given).rstrip("/").removesuffix("/api/v1")
        agent = f"surefoot-client/{__version__}"
        self._headers = {"Authorization": f"Bearer {key}", "User-Agent": agent, "Content-Type": "application/json"}
        self._retries = retries or exchange.Retries()
        self._queue = OutcomeQueue(queue) if isinstance(queue, str | Path) else queue
        self._send = send
        self._sleep = sleep
        self._work = work

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def queue(self) -> OutcomeQueue:
        """The queue on disk; its length is how many outcomes wait."""
        if self._queue is None:
            raise InputError("this client has no queue; name a folder for it when you make it: queue='outcomes'")
        return self._queue

    def close_queue(self) -> None:
        if self._queue is not None:
            self._queue.close()

    async def register(self, participant_id: str) -> exchange.Participant:
        """Register a participant by a pseudonym; repeating it is harmless."""

        def read(given: Any) -> exchange.Participant:
            return exchange.Participant(given["participant_id"], datetime.fromisoformat(given["registered_at"]))

        return await self._ask("/participants", exchange.encode(participant_id=participant_id), read)

    async def next_decision(self, participant_id: str) -> exchange.NextDecision:
        """The participant's last decision point, and the next: for an app that was installed again."""
        path = f"/participants/{quote(participant_id, safe='')}/next"
        return await self._ask(path, None, exchange.NextDecision.read)

    async def decide(
        self,
        participant_id: str,
        decision_idx: int,
        timestamp: datetime,
        context: Mapping[str, exchange.Value],
        *,
        availability: bool = True,
        reasons: Sequence[str] = (),
    ) -> exchange.Decision:
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
        if isinstance(reasons, str):
            raise InputError(f"reasons is a list of texts; write [{reasons!r}]")
        content = exchange.encode(
            participant_id=participant_id,
            decision_idx=exchange.make_plain(decision_idx, "decision_idx"),
            timestamp=exchange.format_time(timestamp),
            availability=availability,
            reasons=list(reasons),
            context={name: exchange.make_plain(value, f"context['{name}']") for name, value in context.items()},
        )
        return await self._ask("/decisions", content, exchange.Decision.read)

    async def send_outcomes(self, outcomes: Iterable[exchange.Outcome]) -> list[exchange.Receipt]:
        """Send outcomes now, in as many requests as they need; a receipt for each, in order."""
        texts = [outcome.text() for outcome in outcomes]
        receipts = []
        for start in range(0, len(texts), exchange.OUTCOMES_PER_BATCH):
            receipts += await self._deliver(texts[start : start + exchange.OUTCOMES_PER_BATCH])
        return receipts

    async def queue_outcomes(self, outcomes: Iterable[exchange.Outcome]) -> None:
        """Put outcomes on disk, needing no network; `flush` sends them."""
        await self._work(self.queue.append, list(outcomes))

    async def flush(self) -> list[exchange.Receipt]:
        """Send what waits on disk, in order; a receipt for each.

        Without network it raises `NetworkError`: what was answered is settled, the rest waits on. What the service did not
        keep is set aside in the queue's folder, with a `QueueWarning`.
        """
        receipts: list[exchange.Receipt] = []
        while batch := await self._work(self.queue.first, exchange.OUTCOMES_PER_BATCH):
            answered = await self._deliver(batch)
            await self._work(self.queue.settle, answered)
            receipts += answered
        return receipts

    async def withdraw(self, participant_id: str, reason: str) -> exchange.Withdrawal:
        """A participant leaves, for good: no more decisions, outcomes or learning. Repeating it is harmless."""
        path = f"/participants/{quote(participant_id, safe='')}/withdraw"
        return await self._ask(
            path,
            exchange.encode(reason=reason),
            lambda given: exchange.Withdrawal(given["participant_id"], given["withdrawn"]),
        )

    async def pause(self, participant_id: str | None, reason: str) -> exchange.Pause:
        """Pause a participant, or the whole study (None): decision points are unavailable from now on."""
        return await self._change_pause(participant_id, "pause", reason)

    async def resume(self, participant_id: str | None, reason: str) -> exchange.Pause:
        """End the pause of a participant, or of the whole study (None)."""
        return await self._change_pause(participant_id, "resume", reason)

    async def _change_pause(self, participant_id: str | None, change: str, reason: str) -> exchange.Pause:
        subject = "study" if participant_id is None else f"participants/{quote(participant_id, safe='')}"
        path = f"/{subject}/{change}"
        return await self._ask(
            path, exchange.encode(reason=reason), lambda given: exchange.Pause(given["participant_id"], given["paused"])
        )

    async def _deliver(self, texts: Sequence[str]) -> list[exchange.Receipt]:
        """Send a batch of outcomes, each given as its JSON text.

        A batch that is refused is halved until what is at fault stands alone: it gets the receipt `refused`, the others
        are recorded.
        """

        def read(given: Any) -> list[exchange.Receipt]:
            results = given["results"]
            if len(results) != len(texts):
                raise ValueError("there is not one receipt for each outcome")
            sent = [json.loads(text)["decision_id"] for text in texts]
            return [
                exchange.Receipt(decision_id, row["status"], row["action_prob_agrees"], _explain(row))
                for decision_id, row in zip(sent, results, strict=True)
            ]

        try:
            return await self._ask("/outcomes", f'{{"outcomes": [{", ".join(texts)}]}}'.encode(), read)
        except exchange.InvalidRequestError as error:
            if len(texts) == 1:
                return [exchange.Receipt(json.loads(texts[0])["decision_id"], "refused", None, str(error))]
        half = len(texts) // 2
        return await self._deliver(texts[:half]) + await self._deliver(texts[half:])

    async def _ask(self, path: str, content: bytes | None, read: Callable[[Any], T]) -> T:
        """Send one request, and the same bytes again while there is no answer or the service cannot answer yet.

        Without content it is a GET.
        """
        method = "GET" if content is None else "POST"
        retries = self._retries
        attempt = 0
        while True:
            problem: exchange.NetworkError | exchange.UnavailableError
            least = 0.0
            try:
                reply = await self._send(method, f"{self.url}/api/v1{path}", content=content, headers=self._headers)
                return exchange.read_reply(path, reply, read)
            except httpx2.RequestError as error:
                words = f"no answer ({type(error).__name__}: {error}); the same call again is safe"
                problem = exchange.NetworkError(f"{self.url}{path}: {words}")
                problem.__cause__ = error
            except exchange.UnavailableError as error:
                problem = error
                least = error.retry_after or 0.0
            attempt += 1
            if attempt == retries.attempts or least > retries.longest_wait:
                raise problem
            back_off = min(retries.longest_wait, retries.first_wait * 2.0 ** (attempt - 1))
            wait = max(back_off * random.uniform(0.5, 1.0), least)  # noqa: S311 - spreads load, keeps no secret
            exchange.log.info("%s: %s; again in %.1f s", path, problem, wait)
            await self._sleep(wait)


def _explain(receipt: Mapping[str, Any]) -> str | None:
    """Why an outcome was refused, in words."""
    return None if receipt.get("message") is None else f"{receipt['status']}: {receipt['message']}"


class AsyncClient(_Exchange):
    """A client of the decision service for asyncio; its methods are those of `Client`, with `await`.

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
        retries: exchange.Retries | None = None,
        queue: str | Path | OutcomeQueue | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx2.AsyncClient(timeout=timeout, transport=transport)
        self._flushing = asyncio.Lock()
        super().__init__(url, key, retries, queue, send=self._http.request, sleep=asyncio.sleep, work=asyncio.to_thread)

    async def flush(self) -> list[exchange.Receipt]:
        """Send what waits on disk; see `Client.flush`."""
        async with self._flushing:
            return await super().flush()

    async def close(self) -> None:
        """Close connections and queue; what waits on disk waits on."""
        await self._http.aclose()
        self.close_queue()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _at_once(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """A function as a coroutine that never gives way."""

    async def call(*given: P.args, **named: P.kwargs) -> T:
        return function(*given, **named)

    return call


def _block_on(
    method: Callable[Concatenate[_Exchange, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["Client", P], T]:
    """A method of `Client` from a coroutine that runs to its end at once, because nothing in it gives way."""

    @functools.wraps(method)
    def call(client: "Client", /, *given: P.args, **named: P.kwargs) -> T:
        try:
            method(client._exchange, *given, **named).send(None)
        except StopIteration as end:
            answer: T = end.value
            return answer
        raise AssertionError("the exchange waited for an event loop")

    return call


class Client:
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
        retries: exchange.Retries | None = None,
        queue: str | Path | OutcomeQueue | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._http = httpx2.Client(timeout=timeout, transport=transport)
        self._flushing = threading.Lock()
        send = _at_once(self._http.request)
        sleep = _at_once(time.sleep)
        work = _at_once(lambda function, *given: function(*given))
        self._exchange = _Exchange(url, key, retries, queue, send=send, sleep=sleep, work=work)
        self.url = self._exchange.url

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    @property
    def queue(self) -> OutcomeQueue:
        """The queue on disk; its length is how many outcomes wait."""
        return self._exchange.queue

    register = _block_on(_Exchange.register)
    next_decision = _block_on(_Exchange.next_decision)
    decide = _block_on(_Exchange.decide)
    send_outcomes = _block_on(_Exchange.send_outcomes)
    queue_outcomes = _block_on(_Exchange.queue_outcomes)
    withdraw = _block_on(_Exchange.withdraw)
    pause = _block_on(_Exchange.pause)
    resume = _block_on(_Exchange.resume)

    _flush = _block_on(_Exchange.flush)

    @functools.wraps(_flush)
    def flush(self) -> list[exchange.Receipt]:
        with self._flushing:
            return self._flush()

    def close(self) -> None:
        """Close connections and queue; what waits on disk waits on."""
        self._http.close()
        self._exchange.close_queue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
