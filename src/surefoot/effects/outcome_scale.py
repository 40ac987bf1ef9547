"""The scale on which an outcome is analysed, and how an effect on it reads on the scale it was measured on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.study.log_sections import Reward


@dataclass(frozen=True)
class OutcomeScale:
    """`none`, `sqrt`, or log(x + offset)."""

    transform: str
    offset: float | None

    def is_defined(self, values: Any) -> Any:
        if self.transform == "none":
            return np.ones_like(values, dtype=bool)
        return values >= 0 if self.offset is None else values + self.offset > 0

    def apply(self, values: Any) -> Any:
        if self.transform == "none":
            return values
        return np.sqrt(values) if self.offset is None else np.log(values + self.offset)

    @property
    def is_log(self) -> bool:
        return self.offset is not None


def parse_transform(transform: str) -> OutcomeScale:
    """The same words as the study's `reward.transform`.

    >>> parse_transform("log(x + 0.5)").offset
    0.5
    """
    try:
        found = Reward(transform=transform)
    except ValueError as error:
        raise InputError(f"transform '{transform}' is unknown; write 'none', 'sqrt' or 'log(x + 0.5)'") from error
    return OutcomeScale(found.transform, found.offset)
