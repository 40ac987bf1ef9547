"""Random streams: one per participant and purpose, so that nobody's numbers depend on who or what is run beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

PURPOSES = {"dynamics": 0, "actions": 1, "outliers": 2, "bootstrap": 3, "participants": 4}


def streams(seed: int | np.random.SeedSequence, purpose: str, people: Iterable[int]) -> Iterator[np.random.Generator]:
    """The generator of each participant (by position) for one purpose."""
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    for participant_index in people:
        key = (*root.spawn_key, PURPOSES[purpose], participant_index)
        yield np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=key))
