"""One fit for each participant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import BLOCK_CELLS, Trajectories
from surefoot.learning.pooling.pooling import Block, Pooling


class PersonPooling(Pooling):
    """Everybody learns from their own decision points alone, as in the paper."""

    name: ClassVar[str] = "person"
    shared: ClassVar[bool] = False
    serves_anybody: ClassVar[bool] = False
    needs_everybody: ClassVar[bool] = False
    whom: ClassVar[str] = "One policy for each participant."
    estimates: ClassVar[str] = "Mean over people"

    def list_participants(self, logs: Trajectories) -> NDArray[Any]:
        return logs.participants

    def list_blocks(self, logs: Trajectories, cells: int = BLOCK_CELLS) -> Iterator[Block]:
        return logs.blocks(cells)

    def assign_rows(self, logs: Trajectories) -> NDArray[np.int64]:
        return logs.participant_index
