"""What a column of a log looks like at first sight, for drafting a study."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from surefoot.data.file_settings import PLAIN, FileSettings
from surefoot.data.log_columns import MISSING, LogColumn, first_failure, is_text, settle_missing

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """One column: its numbers if it holds numbers, else the texts that occur in it."""

    name: str
    rows: int
    missing: int
    numbers: NDArray[np.float64] | None
    """The finite numbers that are there; None for a column of anything else."""
    levels: list[str]
    """The texts that occur, the most frequent first; empty for numbers and for what is not text."""

    @classmethod
    def of(cls, name: str, cells: pa.Array, settings: FileSettings = PLAIN) -> ColumnSummary:
        import pyarrow as pa

        cells = LogColumn(name, settle_missing(cells, MISSING), settings=settings).plain_numbers().cells
        kind = cells.type
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if is_text(kind) and cells.null_count < len(cells) and first_failure(cells, pa.float64()) is None:
            number, cells = True, cells.cast(pa.float64())
        if number:
            values = cells.cast(pa.float64(), safe=False).drop_null().to_numpy(zero_copy_only=False)
            values = values[np.isfinite(values)] / (100 if name in settings.percent else 1)
            return cls(name, len(cells), cells.null_count, values, [])
        if not (is_text(kind) or pa.types.is_boolean(kind)):
            return cls(name, len(cells), cells.null_count, None, [])
        texts, indices = LogColumn(name, cells).distinct()
        counts = np.bincount(indices[indices >= 0], minlength=len(texts))
        order = np.argsort(-counts, kind="stable")
        return cls(name, len(cells), cells.null_count, None, [texts[code] for code in order if counts[code]])

    def without(self, codes: Sequence[float]) -> ColumnSummary:
        """The same column with some numbers counted as missing."""
        if self.numbers is None or not codes:
            return self
        kept = self.numbers[~np.isin(self.numbers, codes)]
        return replace(self, numbers=kept, missing=self.missing + len(self.numbers) - len(kept))

    @cached_property
    def is_constant(self) -> bool:
        """Whether fewer than two values occur."""
        if self.numbers is None:
            return len(self.levels) < 2
        return self.numbers.size == 0 or bool(np.ptp(self.numbers) == 0)

    def shape(self) -> tuple[float, float, float]:
        """Mean, standard deviation and skewness; not finite when the values are too large or all the same."""
        values = np.empty(0) if self.numbers is None else self.numbers
        with np.errstate(all="ignore"):
            mean, deviation = values.mean(), values.std()
            return float(mean), float(deviation), float(np.mean(((values - mean) / deviation) ** 3))


def quote(text: str) -> str:
    """A text as TOML writes it: JSON's strings are TOML's basic strings."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
