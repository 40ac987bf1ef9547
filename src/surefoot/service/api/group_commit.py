"""Group commit: decisions that arrive together share one durable transaction, so that the disk is waited for once."""

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from surefoot.service.trial.api_models import DecisionRequest
from surefoot.service.trial.decisions import decide_batch
from surefoot.service.trial.trial import Trial

LARGEST = 64  # decisions of one transaction
GATHER_SECONDS = 0.002
"""Clients that were answered together ask again at nearly the same time: a transaction waits this long for all of them."""
Waiting = tuple[DecisionRequest, "asyncio.Future[str | Exception]"]


class DecisionRecorder:
    """Collects requests while a transaction is under way; the next one takes all that came meanwhile.

    Transactions have a thread of their own. Everything else happens on the event loop, so that nothing needs a lock.
    """

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._waiting: deque[Waiting] = deque()
        self._thread = ThreadPoolExecutor(1, "decisions")
        self._task: asyncio.Task[None] | None = None
        self._expected = 0
        self._complete = asyncio.Event()

    def close(self) -> None:
        """End the thread, after the transaction that is under way."""
        self._thread.shutdown()

    async def decide(self, request: DecisionRequest) -> str:
        """The reply to a request, once it is on the disk."""
        future: asyncio.Future[str | Exception] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._task is None:
            self._task = asyncio.create_task(self._record())
        elif len(self._waiting) == self._expected:
            self._complete.set()
        reply = await future
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def _record(self) -> None:
        """One transaction after the other while anybody waits."""
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                await asyncio.sleep(0)  # after everything that has arrived by now was read
                if len(self._waiting) < self._expected:
                    self._complete = asyncio.Event()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._complete.wait(), GATHER_SECONDS)
                batch = self._take_batch()
                self._expected = len(batch)
                replies: list[str | Exception]
                try:
                    requests = [request for request, _ in batch]
                    replies = await loop.run_in_executor(self._thread, decide_batch, self._trial, requests)
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
