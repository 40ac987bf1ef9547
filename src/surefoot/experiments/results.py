"""Results by cell: every measure as one value per replicate, with means and 95 % intervals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.experiments.settings import Cell

ELRAR = "long_run_average_reward"


class Interval(NamedTuple):
    """A mean over replicates with its 95 % interval (Student's t)."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Interval:
        from scipy.stats import t

        mean = float(values.mean())
        # Equal values have a spread of rounding only, which differs between summation orders.
        error = float(values.std(ddof=1) / np.sqrt(len(values)))
        width = float(t.ppf(0.975, len(values) - 1)) * error
        return cls(mean, mean - width, mean + width)


class Results:
    """Looks rows up by experiment, scene and cell; all values come as arrays over replicates."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        self._values: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
        for row in rows:
            setting = tuple(None if row[name] != row[name] else row[name] for name in ("ratio", "strength", "tau"))
            key = (row["experiment"], row["data_set"], row["mechanism"], row["method"], row["filter"], *setting)
            self._values.setdefault(key, {})[row["replicate"]] = row

    def cell(self, experiment: str, scene: tuple[str, str], cell: Cell, measure: str = ELRAR) -> NDArray[np.float64]:
        """One value per replicate."""
        found = self._values[experiment, *scene, *cell]
        return np.array([found[replicate][measure] for replicate in sorted(found)])

    def reference(self, scene: tuple[str, str], policy: str, measure: str = ELRAR) -> NDArray[np.float64]:
        """The same for `never`, `always`, `coin` or `oracle-myopic`."""
        found = self._values["reference", *scene, policy, "", None, None, None]
        return np.array([found[replicate][measure] for replicate in sorted(found)])
