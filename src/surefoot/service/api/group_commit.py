"""Group commit: decisions that arrive together share one durable transaction, so that the disk is waited for once."""

from __future__ import annotations

import asyncio
from collections import deque

from starlette.concurrency import run_in_threadpool

from surefoot.service.trial.api_models import DecisionRequest
from surefoot.service.trial.decisions import decide_batch
from surefoot.service.trial.trial import Trial

LARGEST = 64
"""Decisions of one transaction."""


class DecisionRecorder:
    """Collects requests while a transaction is under way; the next one takes all that came meanwhile."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._waiting: deque[tuple[DecisionRequest, asyncio.Future[str]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def decide(self, request: DecisionRequest) -> str:
        """The reply to a request, once it is on the disk."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            batch = self._take_batch()
            try:
                replies = await run_in_threadpool(decide_batch, self._trial, [request for request, _ in batch])
            except Exception as error:
                replies = [error] * len(batch)
            for (_, future), reply in zip(batch, replies, strict=True):
                if future.cancelled():
                    continue
                if isinstance(reply, Exception):
                    future.set_exception(reply)
                else:
                    future.set_result(reply)

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
