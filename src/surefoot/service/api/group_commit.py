"""Group commit: decisions that arrive together share one durable transaction, so that the disk is waited for once."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from surefoot.service.trial.api_models import DecisionRequest
from surefoot.service.trial.decisions import decide_batch
from surefoot.service.trial.trial import Trial

LARGEST = 64
"""Decisions of one transaction."""
GATHER_SECONDS = 0.002
"""While others asked a moment ago, a transaction waits for so long at most until as many have asked again."""


class DecisionRecorder:
    """Collects requests while a transaction is under way; the next one takes all that came meanwhile."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._waiting: deque[tuple[DecisionRequest, asyncio.Future[str]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._expected = 0
        self._enough: asyncio.Event | None = None

    def close(self) -> None:
        """End the thread, after the transaction that is under way; the next decision makes another."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    async def decide(self, request: DecisionRequest) -> str:
        """The reply to a request, once it is on the disk."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._enough is not None and len(self._waiting) >= self._expected:
            self._enough.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._thread = self._thread or ThreadPoolExecutor(1, "decisions")
        while self._waiting:
            await self._gather()
            batch = self._take_batch()
            self._expected = len(batch)
            try:
                asked = [request for request, _ in batch]
                replies = await loop.run_in_executor(self._thread, decide_batch, self._trial, asked)
            except Exception as error:
                replies = [error] * len(batch)
            for (_, future), reply in zip(batch, replies, strict=True):
                if future.cancelled():
                    continue
                if isinstance(reply, Exception):
                    future.set_exception(reply)
                else:
                    future.set_result(reply)

    async def _gather(self) -> None:
        """Who was answered together asks again at nearly the same time: one transaction takes them all."""
        if len(self._waiting) < self._expected:
            self._enough = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._enough.wait(), GATHER_SECONDS)
            self._enough = None

    def _take_batch(self) -> list[tuple[DecisionRequest, asyncio.Future[str]]]:
        """In the order of arrival; a second decision point of a participant waits for the next batch."""
        batch: list[tuple[DecisionRequest, asyncio.Future[str]]] = []
        points: dict[str, int] = {}
        later: deque[tuple[DecisionRequest, asyncio.Future[str]]] = deque()
        while self._waiting and len(batch) < LARGEST:
            request, future = self._waiting.popleft()
            if points.setdefault(request.participant_id, request.decision_idx) == request.decision_idx:
                batch.append((request, future))
            else:
                later.append((request, future))
        self._waiting.extendleft(reversed(later))
        return batch
