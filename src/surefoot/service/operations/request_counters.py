"""Counters of requests at this worker: how many, how they were answered, how long they took."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends in seconds, as Prometheus' histograms have them."""


class RequestCounters:
    """Written by the worker's one event loop only, so that nothing needs a lock."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, int]] = Counter()
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def count(self, route: str, status: int, seconds: float) -> None:
        """One request; `route` is the pattern of the path, so that ids are not counted apart."""
        self._answers[route, status] += 1
        self._buckets[bisect_left(BUCKETS, seconds)] += 1
        self._seconds += seconds

    def lines(self) -> list[str]:
        """In Prometheus' text format; counters of several workers are told apart by their process.

        >>> counters = RequestCounters()
        >>> counters.count("/healthz", 200, 0.004)
        >>> [line.split("}")[-1] for line in counters.lines() if "requests_total{" in line]
        [' 1']
        """
        worker = f'worker="{os.getpid()}"'
        lines = ["# HELP surefoot_requests_total Requests by route and status.", "# TYPE surefoot_requests_total counter"]
        for (route, status), number in sorted(self._answers.items()):
            lines.append(f'surefoot_requests_total{{{worker},route="{route}",status="{status}"}} {number}')
        name = "surefoot_request_seconds"
        lines += [f"# HELP {name} How long requests took.", f"# TYPE {name} histogram"]
        total = 0
        for end, number in zip((*map(str, BUCKETS), "+Inf"), self._buckets, strict=True):
            total += number
            lines.append(f'{name}_bucket{{{worker},le="{end}"}} {total}')
        return [*lines, f"{name}_sum{{{worker}}} {self._seconds:.6f}", f"{name}_count{{{worker}}} {total}"]
