"""Random streams: one per participant and purpose, so that a participant's numbers do not depend on other participants."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import numpy as np

PURPOSES = {
    "dynamics": 0,
    "actions": 1,
    "outliers": 2,
    "bootstrap": 3,
    "participants": 4,
    "sample": 5,
    "posterior": 6,
    "draws": 7,
    "staying": 8,
}


def streams(seed: int | np.random.SeedSequence, purpose: str, participants: Iterable[Any]) -> Iterator[np.random.Generator]:
    """The generator of each participant, by id, for one purpose.

    >>> [int(rng.integers(100)) for rng in streams(0, "bootstrap", ["anna", "ben"])]
    [40, 16]
    >>> [int(rng.integers(100)) for rng in streams(0, "bootstrap", ["ben"])]
    [16]
    """
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    for participant in participants:
        key = (*root.spawn_key, PURPOSES[purpose], *_id_words(participant))
        yield np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=key))


def _id_words(participant: Any) -> tuple[int, ...]:
    """A natural number as it is; for any other id, four words of a hash of its text."""
    if isinstance(participant, int | np.integer) and participant >= 0:
        return (int(participant),)
    digest = blake2b(str(participant).encode(), digest_size=16).digest()
    return tuple(int.from_bytes(digest[at : at + 4], "little") for at in range(0, 16, 4))
