"""Group commit: decisions that arrive together share one durable transaction, so that the disk is waited for once."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from queue import SimpleQueue

from surefoot.service.trial.api_models import DecisionRequest
from surefoot.service.trial.decisions import decide_batch
from surefoot.service.trial.trial import Trial

LARGEST = 64
"""Decisions of one transaction."""
GATHER_SECONDS = 0.002
"""While others asked a moment ago, a transaction waits for so long at most until as many have asked again."""
Waiting = tuple[DecisionRequest, "asyncio.Future[str]"]


class DecisionRecorder:
    """Collects requests while a transaction is under way; the next one takes all that came meanwhile.

    Transactions have a thread of their own. Everything else happens on the event loop, so that nothing needs a lock.
    """

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._waiting: deque[Waiting] = deque()
        self._batches: SimpleQueue[tuple[asyncio.AbstractEventLoop, list[Waiting]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._busy = False
        self._expected = 0
        self._next: asyncio.Handle | None = None

    def close(self) -> None:
        """End the thread, after the transaction that is under way; the next decision makes another."""
        if self._thread is not None:
            self._batches.put(None)
            self._thread.join()
            self._thread = None

    async def decide(self, request: DecisionRequest) -> str:
        """The reply to a request, once it is on the disk."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()
        self._waiting.append((request, future))
        if not self._busy and (self._next is None or len(self._waiting) == self._expected):
            self._schedule(loop)
        return await future

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        """Gather after everything that has arrived by now was looked at."""
        if self._next is not None:
            self._next.cancel()
        self._next = loop.call_soon(self._gather, loop)

    def _gather(self, loop: asyncio.AbstractEventLoop) -> None:
        """Who was answered together asks again at nearly the same time: one transaction takes them all."""
        if len(self._waiting) >= self._expected:
            self._hand_over(loop)
        else:
            self._next = loop.call_later(GATHER_SECONDS, self._hand_over, loop)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next = None
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="decisions", daemon=True)
            self._thread.start()
        batch = self._take_batch()
        self._busy = True
        self._expected = len(batch)
        self._batches.put((loop, batch))

    def _work(self) -> None:
        while (handed := self._batches.get()) is not None:
            loop, batch = handed
            replies: list[str | Exception]
            try:
                replies = decide_batch(self._trial, [request for request, _ in batch])
            except Exception as error:
                replies = [error] * len(batch)
            try:
                loop.call_soon_threadsafe(self._answer, loop, batch, replies)
            except RuntimeError:  # the loop was closed meanwhile: nobody waits
                self._busy = False

    def _answer(self, loop: asyncio.AbstractEventLoop, batch: list[Waiting], replies: list[str | Exception]) -> None:
        for (_, future), reply in zip(batch, replies, strict=True):
            if future.cancelled():
                continue
            if isinstance(reply, Exception):
                future.set_exception(reply)
            else:
                future.set_result(reply)
        self._busy = False
        if self._waiting:
            self._schedule(loop)

    def _take_batch(self) -> list[Waiting]:
        """In the order of arrival; a second decision point of a participant waits for the next batch."""
        batch: list[Waiting] = []
        points: dict[str, int] = {}
        later: deque[Waiting] = deque()
        while self._waiting and len(batch) < LARGEST:
            request, future = self._waiting.popleft()
            if points.setdefault(request.participant_id, request.decision_idx) == request.decision_idx:
                batch.append((request, future))
            else:
                later.append((request, future))
        self._waiting.extendleft(reversed(later))
        return batch
