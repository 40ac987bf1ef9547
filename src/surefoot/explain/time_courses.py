"""Whom a policy would treat when: along each participant's decision points, and over the hours of the day."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.explain.response import Clip
from surefoot.learning.methods import Method

COURSE_BINS = 20


@dataclass(frozen=True, eq=False)
class TimeCourse:
    """How many of the people available at a time would be treated; where there are no data the shares are not a number.

    Attributes
    ----------
    label
        What `place` counts.
    place
        Days or decision points.
    people
        People with a usable decision point there.
    treated
        Share of decision points at which the policy would send something.
    logged
        Share of decision points at which something was sent.
    """

    label: str
    place: NDArray[np.float64]
    people: NDArray[np.float64]
    treated: NDArray[np.float64]
    logged: NDArray[np.float64]


def compute_send_probability(fitted: Method, clip: Clip | None) -> NDArray[np.float64]:
    """Probability of sending anything at every usable row, NaN elsewhere."""
    logs, rows = fitted.logs_, np.flatnonzero(fitted.used_)
    found = fitted.policies_.probabilities(logs.participant[rows], logs.state[rows])
    result = np.full(len(logs), np.nan)
    result[rows] = 1 - (found if clip is None else clip(found))[:, 0]
    return result


def count_courses(fitted: Method, send: NDArray[np.float64]) -> tuple[TimeCourse, ...]:
    """Along each participant's decision points and, where times are dates, over the hours of the day."""
    logs = fitted.logs_
    lengths = np.diff(logs.starts)
    number = np.empty(len(logs), dtype=np.int64)
    number[logs.order] = np.arange(len(logs)) - np.repeat(logs.starts[:-1], lengths)
    width = max(1, -(-int(lengths.max()) // COURSE_BINS))
    bins = -(-int(lengths.max()) // width)
    middles = (1 + (width - 1) / 2 + width * np.arange(bins)).astype(np.float64)
    found = [_count_places("decision point of the participant", number // width, middles, logs, send)]
    if logs.time.dtype.kind == "M":
        hour = logs.time.astype("datetime64[h]").astype(np.int64) % 24
        if len(np.unique(hour)) > 1:
            found.append(_count_places("hour of the day, as logged", hour, np.arange(24.0), logs, send))
    return tuple(found)


def _count_places(
    label: str, place: NDArray[np.int64], shown: NDArray[np.float64], logs: Trajectories, send: NDArray[np.float64]
) -> TimeCourse:
    rows = np.flatnonzero(~np.isnan(send))
    where, places = place[rows], len(shown)
    count = np.bincount(where, minlength=places).astype(np.float64)
    pairs = np.unique(where * len(logs.participants) + logs.participant_index[rows]) // len(logs.participants)
    count[count == 0] = np.nan
    return TimeCourse(
        label,
        shown,
        np.bincount(pairs, minlength=places).astype(np.float64),
        np.bincount(where, weights=send[rows], minlength=places) / count,
        np.bincount(where, weights=logs.action[rows] > 0, minlength=places) / count,
    )
