"""Long-run values of several policies with intervals and cautions, by `surefoot.learning.horizon.long_run_value`."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from surefoot.evaluation.values import LongRunValue
from surefoot.inference.intervals import Interval, t_interval
from surefoot.learning.horizon.long_run_value import LongRunLogs

Floats = NDArray[np.float64]
PEOPLE_DIFFER = 0.05
"""People are said to differ when chance would let their halves agree as much in fewer than this share of studies."""
SHORT_SERIES = 30
"""With fewer consecutive decision points of the median participant the jackknife does not remove all of the bias."""
SHORT_FOR_DIFFERENCES = 60
"""Where people differ, intervals from fewer than this are too short: 95 % intervals cover in 88 to 95 % of studies."""


def value_long_run(
    data: LongRunLogs, decisions: Mapping[str, Floats], immediate: Mapping[str, float]
) -> tuple[tuple[LongRunValue, ...], tuple[str, ...]]:
    """Long-run values of policies by name, `never` among them, and cautions; `immediate` are their values by the next
    outcome alone."""
    from surefoot.reports.render import write_sentences

    solutions = {name: data.solve(probabilities) for name, probabilities in decisions.items()}
    baseline = solutions["never"]
    # The same correction for all policies, so that differences compare like with like.
    people_differ = baseline.p_value < PEOPLE_DIFFER
    never, never_influence = baseline.correct(people_differ)
    people = len(never_influence)

    def make_interval(value: float, influence: Floats) -> Interval:
        error = float(np.sqrt((influence**2).sum() * people / (people - 1)))
        return t_interval(value, error, people - 1)

    values = []
    for name, solution in solutions.items():
        value, influence = solution.correct(people_differ)
        difference = make_interval(value - never, influence - never_influence)
        immediate_difference = immediate[name] - immediate["never"]
        values.append(LongRunValue(name, make_interval(value, influence), difference, immediate_difference))
    cautions = write_sentences(
        "long_run.txt",
        people_differ=people_differ,
        p_value=baseline.p_value,
        jackknifed=baseline.jackknifed,
        length=int(np.median(np.bincount(data.position))),
        short=SHORT_SERIES,
        short_for_differences=SHORT_FOR_DIFFERENCES,
    )
    return tuple(values), tuple(cautions)
