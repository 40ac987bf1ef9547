"""Random draws: (study secret, participant, decision_idx) → one uniform number → one action."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence


def random_key(participant_id: str, decision_idx: int) -> str:
    """What a draw is made for; the length makes it unambiguous.

    >>> random_key("p01", 7)
    'draw-1:3:p01:7'
    """
    return f"draw-1:{len(participant_id)}:{participant_id}:{decision_idx}"


def draw_uniform(secret: bytes, key: str) -> float:
    """The first 53 bits of HMAC-SHA256(secret, key) over 2⁵³: uniform on [0, 1), the same wherever it is computed."""
    digest = hmac.digest(secret, key.encode(), hashlib.sha256)
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def draw_action(number: float, probabilities: Sequence[float]) -> int:
    """The first action whose cumulative probability exceeds the number.

    Rounding can leave the sum a hair below 1; the last possible action takes what is left, never an impossible one.

    >>> [draw_action(u, [0.5, 0.5, 0.0]) for u in (0.0, 0.49, 0.5, 0.9999999999999999)]
    [0, 0, 1, 1]
    """
    total, last = 0.0, 0
    for action, probability in enumerate(probabilities):
        total += probability
        if probability > 0:
            last = action
            if number < total:
                return action
    return last
