"""Results by cell: every measure as one value per replicate."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.experiments.settings import Cell

ELRAR = "long_run_average_reward"


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
