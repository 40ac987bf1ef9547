"""Random draws: (study secret, participant, decision_idx) → one uniform number → one action."""

import hashlib
import hmac
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

BLOCK = 64
"""Bytes that SHA-256 takes in at once."""
PADS = tuple(bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))
"""What HMAC's inner and outer pad make of every byte of a secret (RFC 2104)."""


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


def draw_uniforms(secret: bytes, keys: Iterable[str]) -> NDArray[np.float64]:
    """`draw_uniform` for many keys: HMAC by its definition, with both pads of the secret hashed once.

    >>> draw_uniforms(b"secret", ["draw-1:3:p01:7"]) == [draw_uniform(b"secret", "draw-1:3:p01:7")]
    array([ True])
    """
    filled = (secret if len(secret) <= BLOCK else hashlib.sha256(secret).digest()).ljust(BLOCK, b"\0")
    inner, outer = (hashlib.sha256(filled.translate(pad)) for pad in PADS)
    digests = []
    for key in keys:
        inside = inner.copy()
        outside = outer.copy()
        inside.update(key.encode())
        outside.update(inside.digest())
        digests.append(outside.digest())
    first = np.frombuffer(b"".join(digests), dtype=">u8")[:: inner.digest_size // 8]
    return (first >> np.uint64(11)) / 2**53


def draw_action(number: float, probabilities: Sequence[float]) -> int:
    """The first action whose cumulative probability exceeds the number.

    Rounding can leave the sum a hair below 1; the last possible action takes what is left, never an impossible one.

    >>> [draw_action(u, [0.5, 0.5, 0.0]) for u in (0.0, 0.49, 0.5, 0.9999999999999999)]
    [0, 0, 1, 1]
    """
    total = 0.0
    last = 0
    for action, probability in enumerate(probabilities):
        total += probability
        if probability > 0:
            last = action
            if number < total:
                return action
    return last


def draw_actions(numbers: NDArray[np.float64], probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
    """`draw_action` for numbers (…) and probabilities (…, actions).

    >>> draw_actions(np.array([0.0, 0.49, 0.5]), np.array([0.5, 0.5, 0.0]))
    array([0, 0, 1])
    """
    possible = np.broadcast_to(probabilities > 0, (*numbers.shape, probabilities.shape[-1]))
    chosen = possible & (numbers[..., None] < np.cumsum(probabilities, axis=-1))
    last = possible.shape[-1] - 1 - possible[..., ::-1].argmax(axis=-1)
    return np.asarray(np.where(chosen.any(axis=-1), chosen.argmax(axis=-1), last))
