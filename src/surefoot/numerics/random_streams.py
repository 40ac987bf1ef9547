"""Random streams: one per participant and purpose, so that a participant's numbers do not depend on other participants."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import numpy as np

NAMES = ("dynamics", "actions", "outliers", "bootstrap", "participants", "sample", "posterior", "draws", "staying")
PURPOSES = {name: number for number, name in enumerate(NAMES)}


def streams(seed: int | np.random.SeedSequence, purpose: str, participants: Iterable[Any]) -> Iterator[np.random.Generator]:
    """The generator of each participant, by id, for one purpose.

    >>> [int(rng.integers(100)) for rng in streams(0, "bootstrap", ["anna", "ben"])]
    [40, 16]
    >>> [int(rng.integers(100)) for rng in streams(0, "bootstrap", ["ben"])]
    [16]
    """
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    for participant in participants:
        if isinstance(participant, int | np.integer) and participant >= 0:
            words = [int(participant)]
        else:  # Four words of a hash of its text.
            words = np.frombuffer(blake2b(str(participant).encode(), digest_size=16).digest(), "<u4").tolist()
        key = (*root.spawn_key, PURPOSES[purpose], *words)
        yield np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=key))
