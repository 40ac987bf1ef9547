"""S7: what methods earn in the long run compared with never prompting, when prompts cost later what they gain now.

Every policy of a replicate meets the same random numbers, and its difference from `never` is taken within the replicate: one
long-run average has a noise of several steps, and no policy earns more than nine. The paper's nine methods and one
look-ahead learn a policy for each participant; the look-ahead family learns one for everybody. A second part lets people
differ and compares a policy for each, one for all, and partial pooling.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning
from surefoot.experiments.engine import Experiment, Limit, Parameters, Report, limits_table, make_method, markdown_table
from surefoot.learning.methods import Method, method
from surefoot.policies import coin, never
from surefoot.policies.policies import Policies, Policy
from surefoot.reports import figures
from surefoot.reports.numbers import format_signed
from surefoot.simulators import ChainWalk, HeartSteps, Simulator, contaminate, reference_policies

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIMULATORS: dict[str, type[Simulator]] = {"HeartSteps": HeartSteps, "chain walk": ChainWalk}
EVALUATED = 50
"""People in whom a policy for everybody is run."""
PAPER = tuple(f"{prefix}{name}" for name in ("linucb", "accb", "saccb") for prefix in ("", "filter-", "ro-"))
FAMILY = ("ahead", "ro-ahead", "hb-ahead")
ONE_EACH = "hb-ahead, one each"
"""A look-ahead from each participant's decision points alone."""
REFERENCES = ("never", "coin", "always", "oracle-myopic")
SHOWN = ("HeartSteps", "50 × 210")
"""The study of the figure and the first sentences."""
PARAMETERS = {"replicates": 20, "steps": 2000, "keep": 1700}
QUICK = {"replicates": 3, "steps": 1500, "keep": 1200}


class StudyDesign(NamedTuple):
    """One simulated study, repeated in every replicate."""

    simulator: str
    participants: int
    decision_points: int
    mechanism: str = "clean"
    ratio: float = 0.0

    @property
    def size(self) -> str:
        return f"{self.participants} × {self.decision_points}"

    @property
    def data(self) -> str:
        return self.mechanism + (f" {100 * self.ratio:g} %" if self.ratio else "")

    @property
    def methods(self) -> tuple[str, ...]:
        """The look-ahead family; with 50 people and enough decision points also those that learn one policy each.

        To them more people are only more of the same, so that 200 people would show nothing new.
        """
        one_each = self.participants == EVALUATED and self.decision_points >= 42
        return (*FAMILY, *((ONE_EACH, *PAPER) if one_each else ()))


CLEAN = (("clean", 0.0),)
SENSOR = (("sensor", 0.04), ("sensor", 0.1))
PROMPTED = (("prompted", 0.04), ("prompted", 0.1))
SIZES = ((50, 42), (50, 210), (200, 210))
DESIGNS = (
    *(StudyDesign("HeartSteps", 50, points) for points in (10, 20)),
    *(StudyDesign("HeartSteps", *size, *data) for size in SIZES for data in (*CLEAN, *SENSOR, *PROMPTED)),
    *(StudyDesign("chain walk", *size, *data) for size in SIZES for data in (*CLEAN, *SENSOR)),
)


class EarnedRow(NamedTuple):
    """What one policy earned in one replicate."""

    design: int
    method: str
    reward: float
    difference: float
    """From `never`, under the same random numbers."""
    share_treated: float


def run_designs(replicate: int, parameters: Parameters, designs: Sequence[StudyDesign] = DESIGNS) -> list[EarnedRow]:
    """All designs of one replicate; a smaller study is the beginning of a larger one."""
    rows = []
    references: dict[str, dict[str, tuple[float, float]]] = {}
    for number, design in enumerate(designs):
        simulator = SIMULATORS[design.simulator](participants=EVALUATED)
        if design.simulator not in references:
            references[design.simulator] = _earn(simulator, reference_policies(simulator), replicate, parameters)
        logs = collect_logs(design, replicate, parameters["seed"])
        learned = {name: _fit_quietly(_make(name), logs).policies_ for name in design.methods}
        earned = {**references[design.simulator], **_earn(simulator, learned, replicate, parameters)}
        nothing = earned["never"][0]
        rows += [EarnedRow(number, name, reward, reward - nothing, share) for name, (reward, share) in earned.items()]
    return rows


def collect_logs(design: StudyDesign, replicate: int, seed: int) -> Trajectories:
    """The logs of one study under a coin."""
    dynamics, outliers = (np.random.SeedSequence(seed, spawn_key=(7, replicate, part)) for part in range(2))
    simulator = SIMULATORS[design.simulator](participants=design.participants)
    logs = simulator.collect(coin(2), decision_points=design.decision_points, seed=dynamics)
    if not design.ratio:
        return logs
    return contaminate(logs, mechanism=design.mechanism, ratio=design.ratio, seed=outliers).logs


def _make(name: str) -> Method:
    return make_method("hb-ahead", pooling="person") if name == ONE_EACH else make_method(name)


def _fit_quietly(unfitted: Method, logs: Trajectories) -> Method:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return unfitted.fit(logs)


def _earn(
    simulator: Simulator, policies: Mapping[str, Policy | Policies], replicate: int, parameters: Parameters
) -> dict[str, tuple[float, float]]:
    """Long-run reward and share treated of every policy."""
    numbers = np.random.SeedSequence(parameters["seed"], spawn_key=(7, replicate, 2))
    runs = simulator.run(policies, steps=parameters["steps"], keep=parameters["keep"], seed=numbers)
    return {name: (float(run.reward.mean()), float(run.share_treated.mean())) for name, run in runs.items()}


class EarnedSummary(NamedTuple):
    """One method under one design, over the replicates."""

    design: int
    method: str
    reward: float
    difference: float
    standard_error: float
    """Of the mean difference."""
    worst: float
    """The lowest difference."""
    low: float
    """The 5 % quantile of the differences."""
    share_treated: float


def summarise_earned(replicates: Sequence[Sequence[Any]]) -> dict[tuple[int, str], EarnedSummary]:
    """Means, standard errors and worst replicates, in the order of the first replicate."""
    groups: dict[tuple[int, str], list[EarnedRow]] = {}
    for rows in replicates:
        for row in (EarnedRow(*values) for values in rows):
            groups.setdefault((row.design, row.method), []).append(row)
    summaries = {}
    for key, rows in groups.items():
        differences = np.array([row.difference for row in rows])
        summaries[key] = EarnedSummary(
            *key,
            reward=float(np.mean([row.reward for row in rows])),
            difference=float(differences.mean()),
            standard_error=_standard_error(differences),
            worst=float(differences.min()),
            low=float(np.quantile(differences, 0.05)),
            share_treated=float(np.mean([row.share_treated for row in rows])),
        )
    return summaries


def _standard_error(values: Any) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")


class EarnedLimit(NamedTuple):
    """The least that a method must reach on the least favourable data of a study."""

    what: str
    measure: str
    least: float
    simulator: str = "HeartSteps"
    size: str = "50 × 210"
    method: str = "hb-ahead"


EARNED_LIMITS = (
    EarnedLimit("mean difference", "difference", 5.0),
    EarnedLimit("worst replicate", "worst", 0.0),
    EarnedLimit("mean reward", "reward", 1503.0),
    EarnedLimit("mean difference", "difference", 7.5, size="200 × 210"),
    EarnedLimit("mean difference", "difference", 0.0, size="50 × 42"),
    EarnedLimit("worst replicate", "worst", -20.0, size="50 × 42"),
    *(EarnedLimit("mean difference", "difference", -1.0, size=size) for size in ("50 × 10", "50 × 20")),
    *(EarnedLimit("5 % quantile", "low", -2.0, size=size) for size in ("50 × 10", "50 × 20")),
    EarnedLimit("mean difference", "difference", -2.0, method=ONE_EACH),
    *(EarnedLimit("mean reward", "reward", 89.5, simulator="chain walk", size=size) for size in ("50 × 42", "50 × 210")),
)


def judge_earned(table: Mapping[tuple[int, str], EarnedSummary], designs: Sequence[StudyDesign] = DESIGNS) -> list[Limit]:
    """Every limit with the least favourable of the data that it is about."""
    limits = []
    for limit in EARNED_LIMITS:
        values = {
            design.data: float(getattr(table[number, limit.method], limit.measure))
            for number, design in enumerate(designs)
            if (design.simulator, design.size) == (limit.simulator, limit.size)
        }
        if values:
            worst = min(values, key=lambda data: values[data])
            what = f"{limit.what}: {limit.simulator}, {limit.size}, {limit.method}"
            limits.append(Limit(what, worst, values[worst], limit.least, at_most=False))
    return limits


def draw_earned(table: Mapping[tuple[int, str], EarnedSummary], designs: Sequence[StudyDesign] = DESIGNS) -> Figure:
    """Long-run difference from never in the study that is shown, a panel for each kind of data."""
    shown = [number for number, design in enumerate(designs) if (design.simulator, design.size) == SHOWN]
    names = [*REFERENCES[1:], *PAPER, *FAMILY]
    figure, axes = figures.new_figure(1, len(shown), width=13, height=5.2, sharey=True, squeeze=False)
    for panel, number in zip(axes[0], shown, strict=True):
        for height, name in enumerate(names):
            colour = figures.GREY if name in REFERENCES else figures.BLUE if name in FAMILY else figures.ORANGE
            row = table[number, name]
            bar = 1.96 * row.standard_error
            panel.errorbar(row.difference, height, xerr=bar, fmt="o", color=colour, markersize=4, linewidth=1.2)
        panel.axvline(0, color=figures.INK, linewidth=0.8, linestyle="--")
        panel.set_xscale("symlog", linthresh=10)
        panel.set_xticks([-300, -30, 0, 10], ["−300", "−30", "0", "10"])
        panel.minorticks_off()
        panel.set_yticks(range(len(names)), names)
        panel.set_ylim(len(names) - 0.5, -0.5)
        figures.label_axes(panel, x="steps per decision point\nmore than never", y="", title=designs[number].data)
    return figure


def report_designs(replicates: list[Any], parameters: Parameters, designs: Sequence[StudyDesign] = DESIGNS) -> Report:
    """S7 over all replicates."""
    table = summarise_earned(replicates)
    limits = judge_earned(table, designs)
    first = next(number for number, design in enumerate(designs) if (design.simulator, design.size) == SHOWN)
    ours = table[first, "hb-ahead"]
    best = table[first, "oracle-myopic"]
    lines = [
        "**S7: what a policy earns in the long run, compared with never prompting**",
        "",
        "On HeartSteps every prompt tires people for about a day. Never prompting earns "
        f"{table[first, 'never'].reward:,.0f} steps a decision point. The best policy that looks at the next outcome only "
        f"earns {best.reward:,.0f}: it knows the truth and still loses {-best.difference:.0f} steps, because a prompt costs "
        "later several times what it gains now. All of the paper's nine methods look at the next outcome only. `hb-ahead`, "
        f"from the same {SHOWN[1]} logs, earns {ours.difference:+.1f} more than never, prompting at "
        f"{100 * ours.share_treated:.0f} % of the decision points; no policy could earn more than about 9.",
        "",
        f"Differences from `never` under the same random numbers, means over {parameters['replicates']} replicates ± "
        "standard error; the worst replicate in brackets. `ahead`, `ro-ahead` and `hb-ahead` learn one policy for "
        "everybody, the others one each.",
        "",
    ]
    for study in dict.fromkeys((design.simulator, design.size) for design in designs):
        lines += [*_tabulate_study(study, table, designs), ""]
    rows = [(number, *row[1:], *designs[row[0]]) for number, earned in enumerate(replicates) for row in earned]
    names = ("replicate", *EarnedRow._fields[1:], *StudyDesign._fields)
    return Report(
        columns=dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)),
        figure=draw_earned(table, designs),
        description="Long-run reward compared with never prompting",
        page="\n".join([*lines[:-1], *limits_table(limits)]) + "\n",
        limits=limits,
        results={"results": [{**row._asdict(), "design": _describe(designs[row.design])} for row in table.values()]},
    )


def _describe(design: StudyDesign) -> str:
    return f"{design.simulator}, {design.size}, {design.data}"


def _tabulate_study(
    study: tuple[str, str], table: Mapping[tuple[int, str], EarnedSummary], designs: Sequence[StudyDesign]
) -> list[str]:
    """One line for each method, one column for each kind of data."""
    numbers = [number for number, design in enumerate(designs) if (design.simulator, design.size) == study]
    rows = [["never (reward)", *(f"{table[number, 'never'].reward:,.1f}" for number in numbers)]]
    for name in (*REFERENCES[1:], *PAPER, *FAMILY, ONE_EACH):
        if any((number, name) in table for number in numbers):
            rows.append([name, *(_format_difference(table.get((number, name))) for number in numbers)])
    return markdown_table([", ".join(study), *(designs[number].data for number in numbers)], rows)


def _format_difference(row: EarnedSummary | None) -> str:
    if row is None:
        return "–"
    return f"{format_signed(row.difference, 1)} ± {row.standard_error:.1f} ({format_signed(row.worst, 1)})"


S7 = Experiment(
    name="s7",
    title="S7: hb-ahead compared with never",
    parameters=PARAMETERS,
    quick=QUICK,
    run=run_designs,
    report=report_designs,
)


# People who differ

SPREADS = (0.0, 0.5, 1.0, 2.0)
POINTS = (42, 105, 210)
HARMED = 20.0
"""A participant is harmed who loses more than so many steps a decision point compared with never prompting."""
CAUTIOUS = "partial, κ = 0.5"
FITS: dict[str, dict[str, Any]] = {
    "person": {"pooling": "person", "caution": 0.0},
    "all": {"pooling": "all"},
    "partial": {"pooling": "partial"},
    CAUTIOUS: {"pooling": "partial", "caution": 0.5},
    "partial, κ = 0": {"pooling": "partial", "caution": 0.0},
}
"""`hb-ahead` with these; one each without caution, because with it such a policy does nothing."""


class PeopleRow(NamedTuple):
    """One fit of one replicate, or its means over the replicates."""

    spread: float
    decision_points: int
    fit: str
    coefficient_error: float
    """Root mean square over people of the distance of their reward's coefficients from the truth."""
    difference: float
    """What its policy earns more than never, mean over people."""
    harmed: float
    """Share of people who lose more than 20 steps."""
    standard_error: float = float("nan")
    """Of the mean difference."""


PeopleTable = Mapping[tuple[float, int, str], PeopleRow]


def run_people(
    replicate: int, parameters: Parameters, spreads: Iterable[float] = SPREADS, points: Iterable[int] = POINTS
) -> list[PeopleRow]:
    """One replicate of every spread; a smaller study is the beginning of a larger one."""
    rows = []
    for spread in spreads:
        people, dynamics, numbers = (
            np.random.SeedSequence(parameters["seed"], spawn_key=(7, replicate, part)) for part in (3, 4, 5)
        )
        simulator = HeartSteps(participants=EVALUATED, spread=spread, seed=people)
        truth = np.broadcast_to(simulator.critic_coef, (EVALUATED, 8))
        for size in points:
            logs = simulator.collect(coin(2), decision_points=size, seed=dynamics)
            fits = {name: _fit_quietly(method("hb-ahead", **options), logs) for name, options in FITS.items()}
            policies = {"never": never(2), **{name: fitted.policies_ for name, fitted in fits.items()}}
            runs = simulator.run(policies, steps=parameters["steps"], keep=parameters["keep"], seed=numbers)
            for name, fitted in fits.items():
                error = float(np.sqrt(((fitted.critic_coef_ - truth) ** 2).sum(axis=1).mean()))
                gain = runs[name].reward - runs["never"].reward
                rows.append(PeopleRow(spread, size, name, error, float(gain.mean()), float((gain < -HARMED).mean())))
    return rows


def summarise_people(replicates: Sequence[Sequence[Any]]) -> dict[tuple[float, int, str], PeopleRow]:
    """Means over the replicates, in the order of the first."""
    groups: dict[tuple[float, int, str], list[PeopleRow]] = {}
    for rows in replicates:
        for row in (PeopleRow(*values) for values in rows):
            groups.setdefault(row[:3], []).append(row)
    summaries = {}
    for key, rows in groups.items():
        error, difference, harmed = np.array([row[3:6] for row in rows]).T
        means = (float(error.mean()), float(difference.mean()), float(harmed.mean()))
        summaries[key] = PeopleRow(*key, *means, standard_error=_standard_error(difference))
    return summaries


def _compare_errors(spread: float, points: int, *others: str) -> Callable[[PeopleTable], float]:
    """The error of partial pooling's coefficients relative to the better of the others."""

    def measure(table: PeopleTable) -> float:
        best = min(table[spread, points, other].coefficient_error for other in others)
        return table[spread, points, "partial"].coefficient_error / best

    return measure


def _gain_on_pooled(spread: float) -> Callable[[PeopleTable], float]:
    return lambda table: table[spread, 210, CAUTIOUS].difference - table[spread, 210, "all"].difference


PEOPLE_LIMITS: tuple[tuple[str, Callable[[PeopleTable], float], float, bool], ...] = (
    *(
        (f"coefficients' error of the better, spread 1, {n} points", _compare_errors(1.0, n, "person", "all"), 0.85, True)
        for n in (105, 210)
    ),
    ("coefficients' error of the better, spread 2, 210 points", _compare_errors(2.0, 210, "person", "all"), 0.7, True),
    *((f"coefficients' error of pooled, spread 0, {n} points", _compare_errors(0.0, n, "all"), 1.2, True) for n in POINTS),
    ("steps more than pooled, κ = 0.5, spread 1", _gain_on_pooled(1.0), 10.0, False),
    ("steps more than pooled, κ = 0.5, spread 2", _gain_on_pooled(2.0), 80.0, False),
    ("share harmed, κ = 0.5, spread 1", lambda table: table[1.0, 210, CAUTIOUS].harmed, 0.08, True),
)
"""(what, how it is measured, limit, whether at most) of partial pooling."""


def judge_people(table: PeopleTable) -> list[Limit]:
    """Every limit whose spreads and decision points were run."""
    limits = []
    for what, measure, limit, at_most in PEOPLE_LIMITS:
        try:
            value = measure(table)
        except KeyError:
            continue
        limits.append(Limit(what, "people differ", value, limit, at_most))
    return limits


def draw_people(table: PeopleTable) -> Figure:
    """Coefficients' error and long-run difference by spread, at the largest number of decision points."""
    most = max(row.decision_points for row in table.values())
    figure, (errors, gains) = figures.new_figure(1, 2, width=11, height=4.4)
    colours = {"person": figures.GREY, "all": figures.ORANGE, "partial": figures.BLUE, CAUTIOUS: figures.SERIES[2]}

    def select(name: str) -> list[PeopleRow]:
        return [row for row in table.values() if row.fit == name and row.decision_points == most]

    for name in ("person", "all", "partial"):
        rows = select(name)
        error = [row.coefficient_error for row in rows]
        errors.plot([row.spread for row in rows], error, "o-", color=colours[name], label=name)
    for name in ("person", "all", CAUTIOUS):
        rows = select(name)
        bars = [1.96 * row.standard_error for row in rows]
        difference = [row.difference for row in rows]
        gains.errorbar([row.spread for row in rows], difference, bars, fmt="o-", color=colours[name], label=name, capsize=3)
    gains.axhline(0, color=figures.INK, linewidth=0.8, linestyle="--")
    unit = "steps per decision point"
    figures.label_axes(errors, x="spread between people", y=f"error ({unit})", title="Coefficients of the reward")
    figures.label_axes(gains, x="spread between people", y=f"{unit}\nmore than never", title="Long-run reward")
    for axes in (errors, gains):
        axes.legend(**figures.LEGEND)
    return figure


def report_people(replicates: list[Any], parameters: Parameters) -> Report:
    """S7's people who differ, over all replicates."""
    table = summarise_people(replicates)
    limits = judge_people(table)
    lines = [
        "**S7, people who differ: one policy each, one for all, or partial pooling**",
        "",
        f"`hb-ahead` on 50 people of HeartSteps whose coefficients differ; means over {parameters['replicates']} "
        "replicates, clean logs under a coin. One each is shown without caution: with κ = 3 it does nothing.",
    ]
    for points in dict.fromkeys(row.decision_points for row in table.values()):
        lines += ["", *_tabulate_points(table, points)]
    rows = [(number, *row[:6]) for number, fits in enumerate(replicates) for row in fits]
    names = ("replicate", *PeopleRow._fields[:6])
    return Report(
        columns=dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)),
        figure=draw_people(table),
        description="Error and reward by how much people differ",
        page="\n".join([*lines, *limits_table(limits)]) + "\n",
        limits=limits,
        results={"results": [row._asdict() for row in table.values()]},
    )


def _tabulate_points(table: PeopleTable, points: int) -> list[str]:
    """Error, difference from never and share harmed for every spread."""
    spreads = dict.fromkeys(row.spread for row in table.values() if row.decision_points == points)
    rows = []
    for name in ("person", "all", "partial"):
        errors = [f"{table[spread, points, name].coefficient_error:,.0f}" for spread in spreads]
        rows.append([f"error of the coefficients, {name}", *errors])
    for name in FITS:
        cells = []
        for spread in spreads:
            row = table[spread, points, name]
            cells.append(f"{format_signed(row.difference, 1)} ± {row.standard_error:.1f} ({100 * row.harmed:.0f} %)")
        rows.append([f"steps more than never (harmed), {name}", *cells])
    return markdown_table([f"{points} decision points", *(f"spread {spread:g}" for spread in spreads)], rows)


S7_PEOPLE = Experiment(
    name="s7-people",
    title="S7: partial pooling where people differ",
    parameters=PARAMETERS,
    quick=QUICK,
    run=run_people,
    report=report_people,
)
