"""One fit to all people's decision points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import BLOCK_CELLS, Trajectories
from surefoot.learning.pooling.pooling import Block, Pooling


class EveryonePooling(Pooling):
    """One policy, learned from everybody's decision points, for anybody."""

    name: ClassVar[str] = "all"
    shared: ClassVar[bool] = True
    serves_anybody: ClassVar[bool] = True
    needs_everybody: ClassVar[bool] = True
    whom: ClassVar[str] = "One policy for everybody."
    for_whom: ClassVar[str] = "for everyone"
    estimates: ClassVar[str] = "Estimates"

    def list_participants(self, logs: Trajectories) -> NDArray[Any]:
        return np.array(["everyone"])

    def list_blocks(self, logs: Trajectories, cells: int = BLOCK_CELLS) -> Iterator[Block]:
        return logs.one_block()

    def assign_rows(self, logs: Trajectories) -> NDArray[np.int64]:
        return np.zeros(len(logs), dtype=np.int64)
