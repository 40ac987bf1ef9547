"""Screening logs as a study asks for it: on values as they were measured, before scaling and transforms."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.screening.detectors import Column, Layout, Questionnaire
from surefoot.screening.screen import Screen, screen_values
from surefoot.screening.screener import LearnedPatterns, Screener
from surefoot.study.log_description import LogDescription, ScreenSection


def screened_columns(study: LogDescription) -> dict[str, tuple[int, ...]]:
    """Every number column that the screen looks at, and the positions in the logs that it fills.

    These are positions among the state's columns that are read; the reward comes after the last.
    """
    places: dict[str, tuple[int, ...]] = {}
    position = 0
    for name, (column, kind) in study.state_kinds.items():
        if kind.is_measured:
            places[column] = (*places.get(column, ()), position)
        position += len(study.columns_of(name))
    places[study.reward.column] = (position,)
    chosen = () if study.screen is None else study.screen.columns
    return {column: where for column, where in places.items() if not chosen or column in chosen}


def make_screener(study: LogDescription, *, clock: bool) -> Screener:
    """The study's detectors and columns; `clock` says whether times are moments."""
    section = study.screen or ScreenSection()
    devices = {variable.column or name: variable.device for name, variable in study.state.items()}
    devices[study.reward.column] = study.reward.device
    if section.devices:
        devices = {column: device if device in section.devices else None for column, device in devices.items()}
    columns = [
        Column(column, "outcome" if column == study.reward.column else "state", devices[column])
        for column in screened_columns(study)
    ]
    columns += [Column(name, role, number=False) for name, role in study.extra_columns().items()]
    looked_at = {column.name for column in columns}
    questionnaires = tuple(
        Questionnaire(
            name=name,
            items=tuple(item for item in one.items if item in looked_at),
            scores=tuple(study.state[score].column or score for score in one.scores),
            seconds=one.seconds,
        )
        for name, one in study.questionnaire.items()
    )
    layout = Layout(tuple(columns), questionnaires, time=study.columns.time, clock=clock)
    return Screener(layout, section.detectors(), section.outcome)


def screen_logs(
    study: LogDescription,
    logs: Trajectories,
    extra: Mapping[str, NDArray[np.float64]],
    row: NDArray[np.int64],
    usual: LearnedPatterns | None = None,
) -> Screen:
    """Logs as measured → what was flagged; `extra` holds the columns of `study.extra_columns`."""
    screener = make_screener(study, clock=logs.time.dtype.kind == "M")
    targets = screened_columns(study)
    measured = np.column_stack([logs.state, logs.reward])
    values = [extra[one.name] if one.name in extra else measured[:, targets[one.name][0]] for one in screener.layout.columns]
    return screen_values(logs, screener, np.stack(values), targets, row=row, usual=usual)
