"""Group commit: decisions that arrive together share one durable transaction, so that the disk is waited for once."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import sqlalchemy as sa

from surefoot.service.database.databases import DATABASE_FAULTS
from surefoot.service.operations.monitoring import write_readiness
from surefoot.service.trial.api_models import ApiError, DecisionRequest
from surefoot.service.trial.decisions import decide_batch
from surefoot.service.trial.trial import Trial

log = logging.getLogger("surefoot.service")
LARGEST = 64  # decisions of one transaction
LONGEST_QUEUE = 4000
"""More requests than the service can answer before their clients give up."""
GATHER_SECONDS = 0.002
"""Clients that were answered together ask again at nearly the same time: a transaction waits this long for all of them."""
STUCK_SECONDS = 15.0
"""A thread that has not finished a transaction by then is replaced."""
READY_SECONDS = 1.0
"""Everybody who asks for readiness within this time gets one answer."""
CLOSING_SECONDS = 2.0
Reply = str | Exception
Waiting = tuple[DecisionRequest, "asyncio.Future[Reply]"]


class ReplaceableThread:
    """A thread that makes one call after the other, and that nobody needs to wait for when a call does not end."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True, name="decisions")

    def call(self, function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        """The result, for the event loop that asks."""
        if self._thread.ident is None:
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def settle(result: Any, error: Exception | None) -> None:
            if not future.done():
                future.set_result(result) if error is None else future.set_exception(error)

        def run() -> None:
            try:
                outcome: tuple[Any, Exception | None] = (function(*arguments), None)
            except Exception as error:
                outcome = (None, error)
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(settle, *outcome)

        self._calls.put(run)
        return future

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def close(self, seconds: float = 0.0) -> None:
        """End the thread after the call under way; wait so long for it."""
        self._calls.put(None)
        if seconds and self._thread.ident is not None:
            self._thread.join(seconds)


class DecisionRecorder:
    """Collects requests while a transaction is under way; the next one takes all that came meanwhile.

    Transactions have a thread of their own. Everything else happens on the event loop, so that nothing needs a lock.
    """

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._waiting: deque[Waiting] = deque()
        self._thread = ReplaceableThread()
        self._task: asyncio.Task[None] | None = None
        self._expected = 0
        self._complete = asyncio.Event()
        self._readiness: asyncio.Task[Exception | None] | None = None
        self._ready_until = 0.0

    def close(self) -> None:
        """End the thread, after the transaction that is under way."""
        self._thread.close(CLOSING_SECONDS)

    async def decide(self, request: DecisionRequest) -> str:
        """The reply to a request, once it is on the disk."""
        if len(self._waiting) >= LONGEST_QUEUE:
            raise ApiError(503, "too_busy", "too many requests wait; send it again", headers={"Retry-After": "2"})
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._task is None:
            self._task = asyncio.create_task(self._record())
        elif len(self._waiting) == self._expected:
            self._complete.set()
        reply = await future
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def check_readiness(self) -> None:
        """Raise what would keep a decision from being recorded now; asked for once a second, however many want to know."""
        if self._readiness is None or (self._readiness.done() and time.monotonic() >= self._ready_until):
            self._readiness = asyncio.create_task(self._try_writing())
        error = await asyncio.shield(self._readiness)
        if error is not None:
            raise error.with_traceback(None)

    async def _try_writing(self) -> Exception | None:
        try:
            await self._call_in_thread(write_readiness, self._trial.database)
            return None
        except Exception as error:
            return error
        finally:
            self._ready_until = time.monotonic() + READY_SECONDS

    async def _call_in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a call in the thread of decisions, which is replaced when a call does not end."""
        thread = self._thread
        future = thread.call(function, *arguments)
        await asyncio.wait([future], timeout=STUCK_SECONDS)
        if future.done():
            return future.result()
        if thread is self._thread:
            log.error("a transaction has not ended in %g seconds; another thread decides from now on", STUCK_SECONDS)
            thread.close()
            self._thread = ReplaceableThread()
        raise sa.exc.TimeoutError

    async def _record(self) -> None:
        """One transaction after the other while anybody waits."""
        try:
            while self._waiting:
                await asyncio.sleep(0)  # after everything that has arrived by now was read
                if len(self._waiting) < self._expected:
                    self._complete = asyncio.Event()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._complete.wait(), GATHER_SECONDS)
                batch = self._take_batch()
                self._expected = len(batch)
                replies: list[Reply]
                try:
                    replies = await self._call_in_thread(_decide_apart, self._trial, [request for request, _ in batch])
                except Exception as error:
                    replies = [error] * len(batch)
                for (_, future), reply in zip(batch, replies, strict=True):
                    if not future.done():
                        future.set_result(reply)
        finally:
            self._task = None

    def _take_batch(self) -> list[Waiting]:
        """In the order of arrival; a second decision point of a participant waits for the next batch."""
        batch: list[Waiting] = []
        points: dict[str, int] = {}
        later: deque[Waiting] = deque()
        while self._waiting and len(batch) < LARGEST:
            request, future = self._waiting.popleft()
            same_point = points.setdefault(request.participant_id, request.decision_idx) == request.decision_idx
            (batch if same_point else later).append((request, future))
        self._waiting.extendleft(reversed(later))
        return batch


def _decide_apart(trial: Trial, requests: Sequence[DecisionRequest]) -> list[Reply]:
    """Decide together; where that fails and the database is not the reason, decide each alone: an error belongs to its
    request."""
    try:
        return decide_batch(trial, requests)
    except DATABASE_FAULTS as fault:
        return [fault] * len(requests)
    except Exception as error:
        if len(requests) == 1:
            return [error]
        return [reply for request in requests for reply in _decide_apart(trial, [request])]
