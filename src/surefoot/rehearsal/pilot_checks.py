"""Does the model look like the pilot? Many simulated pilots beside the real one, number by number, each with a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.policies.constant_policies import fixed
from surefoot.rehearsal.check_statistics import PilotRecords, Statistic, list_statistics
from surefoot.rehearsal.environments import Environment
from surefoot.rehearsal.page import render_checks
from surefoot.rehearsal.pilot_comparison import PilotCheck, PilotComparison
from surefoot.rehearsal.pilot_data import PilotData
from surefoot.rehearsal.pilot_model import PilotModel
from surefoot.reports.numbers import format_number
from surefoot.reports.summaries import ShownResult, make_table
from surefoot.study import StudyLogs

if TYPE_CHECKING:
    from rich.console import Console

Floats = NDArray[np.float64]
OUTER = 0.01
"""An observed number with less than this share of the simulated ones beyond it is outside."""


@dataclass(frozen=True, eq=False)
class PilotChecks(PilotComparison, ShownResult):
    """A comparison of a model with its pilot that shows itself.

    Attributes
    ----------
    model, checks, pilots, observed, simulated
        As `PilotComparison` has them.
    """

    page_title: ClassVar[str] = "Does the model look like the pilot?"

    def print_summary(self, console: Console) -> None:
        table = make_table("", "pilot", "simulated", "95 % of simulated", "")
        for one in self.checks:
            span = f"{format_number(one.low)} to {format_number(one.high)}"
            table.add_row(one.name, format_number(one.observed), format_number(one.simulated), span, one.verdict)
        console.print(table)
        for line in self.differences:
            console.print(f"look: {line}", markup=False)
        console.print(f"Verdict: {self.verdict} ({self.pilots} simulated pilots)")

    def render_page(self, *, title: str, source: str) -> str:
        return render_checks(self, title=title, source=source)


def check_pilot_model(
    model: PilotModel,
    logs: StudyLogs | Trajectories,
    *,
    pilots: int = 100,
    seed: int = 0,
    environment: Environment | None = None,
) -> PilotChecks:
    """Simulate pilots of new people as long as the real one, and compare.

    Parameters
    ----------
    model
        What `fit_pilot` gave, or another to be tried.
    logs
        The pilot.
    pilots
        How many are simulated; at least 20.
    seed
        Of the simulated pilots.
    environment
        What sending does meanwhile; by default that of the model.

    Returns
    -------
    PilotChecks
        `verdict`, `differences`, `to_frame`, `summary`, `to_html`.

    Examples
    --------
    >>> import surefoot as sf
    >>> text = '''[columns]
    ... participant = "participant"
    ... time = "time"
    ... [state.mood]
    ... range = [0, 10]
    ... [reward]
    ... range = [0, 100]'''
    >>> model = sf.rehearsal.from_study(sf.Study.parse(text), participants=12, seed=1, per_day=3)
    >>> logs = model.collect(sf.policies.coin(2), decision_points=30, seed=2)
    >>> check_pilot_model(model, logs, pilots=20).pilots
    20
    """
    if pilots < 20:
        raise InputError(f"pilots is {pilots}; at least 20 simulated pilots say where a number lies among them")
    anatomy = model.anatomy
    data = PilotData.of_logs(logs, anatomy.study, anatomy.clock.per_day)
    real = _observe(data, model)
    simulated = _simulate(model if environment is None else model.in_environment(environment), data, pilots, seed)
    statistics = list_statistics(real, anatomy.clock.per_day)
    return PilotChecks(model, tuple(_compare(one, real, simulated) for one in statistics), pilots, real, simulated)


def _compare(statistic: Statistic, real: PilotRecords, simulated: PilotRecords) -> PilotCheck:
    observed, drawn = float(statistic.compute(real)[0]), statistic.compute(simulated)
    low, middle, high = np.nanquantile(drawn, (0.025, 0.5, 0.975)).tolist()
    below = float((drawn < observed).mean() + 0.5 * (drawn == observed).mean())
    allowed = statistic.tolerance * (abs(observed) if statistic.relative else 1.0)
    fine = OUTER <= below <= 1 - OUTER or abs(middle - observed) <= allowed
    return PilotCheck(statistic.name, observed, middle, low, high, below, "fine" if fine else "look")


def _observe(data: PilotData, model: PilotModel) -> PilotRecords:
    names = data.study.state_names
    present = data.present[None]
    return PilotRecords(
        present=present,
        available=data.available[None] & present,
        reward=data.reward[None],
        states={name: data.state[None, ..., names.index(name)] for name in _list_columns(model)},
        artefacts={f"{device}: {reason}": marks[None] for (device, reason), (marks, _) in data.flagged.items()},
        slot=data.slot[None],
        zero=float(model.to_reward(np.zeros(1))[0]) if model.anatomy.limits[0] <= 0 else np.nan,
    )


def _list_columns(model: PilotModel) -> list[str]:
    """The state's columns that move by themselves."""
    anatomy = model.anatomy
    moving = [name for name in anatomy.states if anatomy.states[name].moves]
    return [column for name in moving for column in anatomy.study.columns_of(name)]


def _simulate(model: PilotModel, data: PilotData, pilots: int, seed: int) -> PilotRecords:
    """Pilots of as many new people, each as long as one of the real people's."""
    people, points = data.present.shape
    root = np.random.SeedSequence(seed)
    course = model.showing_marks().draw_people(people, seed=root.spawn(pilots)).start(seed=root.spawn(pilots))
    actions = len(model.action_names) - 1
    course.advance(fixed([1 - model.anatomy.sends, *[model.anatomy.sends / actions] * actions]), points)
    present = np.broadcast_to(data.present, (pilots, people, points))
    names = (*data.study.state_names, *(f"{part.device}: {part.reason}" for part in model.anatomy.artefacts))

    def column(name: str) -> Floats:
        return np.where(present, course.states[..., names.index(name)], np.nan)

    return PilotRecords(
        present=present,
        available=course.available & present,
        reward=np.where(present, course.reported, np.nan),
        states={name: column(name) for name in _list_columns(model)},
        artefacts={name: column(name) == 1 for name in names[len(data.study.state_names) :]},
        slot=np.broadcast_to(np.arange(points) % model.anatomy.clock.per_day, present.shape),
        zero=float(model.to_reward(np.zeros(1))[0]) if model.anatomy.limits[0] <= 0 else np.nan,
    )
