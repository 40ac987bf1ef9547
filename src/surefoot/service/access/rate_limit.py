"""How often one key may ask: a bucket of tokens that fills at the study's rate."""

from __future__ import annotations

import time


class RateLimiter:
    """Requests of each key at this worker; the limit is per worker, so that no request waits for another process."""

    def __init__(self, per_second: float, burst: float | None = None) -> None:
        self._rate = per_second
        self._full = 2 * per_second if burst is None else burst
        self._buckets: dict[str, tuple[float, float]] = {}

    def seconds_to_wait(self, who: str, at: float | None = None) -> float:
        """Seconds until the next request is allowed; 0 when this one is.

        >>> limiter = RateLimiter(1)
        >>> [limiter.seconds_to_wait(key, at=10.0) for key in ("a", "a", "a", "b")]
        [0.0, 0.0, 1.0, 0.0]
        """
        moment = time.monotonic() if at is None else at
        tokens, last = self._buckets.get(who, (self._full, moment))
        tokens = min(self._full, tokens + (moment - last) * self._rate)
        if tokens < 1:
            self._buckets[who] = (tokens, moment)
            return (1 - tokens) / self._rate
        self._buckets[who] = (tokens - 1, moment)
        return 0.0
