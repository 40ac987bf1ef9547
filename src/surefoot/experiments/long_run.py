"""S7: what methods earn in the long run compared with never prompting, when prompts cost later what they gain now.

Every policy of a replicate meets the same random numbers, and its difference from `never` is taken within the replicate: one
long-run average has a noise of several steps, and no policy earns more than nine. The paper's nine methods and one
look-ahead learn a policy for each participant; the look-ahead family learns one for everybody. A second part lets people
differ and compares a policy for each, one for all, and partial pooling.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surefoot.data.trajectories import Trajectories
from surefoot.experiments import engine
from surefoot.learning.methods import method
from surefoot.policies import coin, never
from surefoot.policies.policies import Policies, Policy
from surefoot.reports import figures
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
    def study(self) -> str:
        return f"{self.simulator}, {self.participants} × {self.decision_points}"

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

    def collect(self, replicate: int, seed: int) -> Trajectories:
        """The logs of the study under a coin."""
        dynamics, outliers = (np.random.SeedSequence(seed, spawn_key=(7, replicate, use)) for use in range(2))
        simulator = SIMULATORS[self.simulator](participants=self.participants)
        logs = simulator.collect(coin(2), decision_points=self.decision_points, seed=dynamics)
        if not self.ratio:
            return logs
        return contaminate(logs, mechanism=self.mechanism, ratio=self.ratio, seed=outliers).logs


SENSOR = (("clean", 0.0), ("sensor", 0.04), ("sensor", 0.1))
PROMPTED = (("prompted", 0.04), ("prompted", 0.1))
SIZES = ((50, 42), (50, 210), (200, 210))
DESIGNS = (
    *(StudyDesign("HeartSteps", 50, points) for points in (10, 20)),
    *(StudyDesign("HeartSteps", *size, *data) for size in SIZES for data in (*SENSOR, *PROMPTED)),
    *(StudyDesign("chain walk", *size, *data) for size in SIZES for data in SENSOR),
)
SHOWN = "HeartSteps, 50 × 210"
"""The study of the figure and of the first sentences."""


def run_designs(replicate: int, parameters: engine.Parameters, designs: Sequence[StudyDesign] = DESIGNS) -> list[engine.Row]:
    """What every policy earns in every design; a smaller study is the beginning of a larger one."""
    rows = []
    references: dict[str, dict[str, tuple[float, float]]] = {}
    for design in designs:
        simulator = SIMULATORS[design.simulator](participants=EVALUATED)
        if design.simulator not in references:
            references[design.simulator] = _earn(simulator, reference_policies(simulator), replicate, parameters)
        logs = design.collect(replicate, parameters["seed"])
        learned = {}
        for name in design.methods:
            unfitted = engine.make_method("hb-ahead", pooling="person") if name == ONE_EACH else engine.make_method(name)
            learned[name] = engine.fit_quietly(unfitted, logs).policies_
        earned = references[design.simulator] | _earn(simulator, learned, replicate, parameters)
        for name, (reward, share) in earned.items():
            measures = {"reward": reward, "difference": reward - earned["never"][0], "share_treated": share}
            rows.append({"method": name, **measures, **design._asdict()})
    return rows


def _earn(
    simulator: Simulator, policies: Mapping[str, Policy | Policies], replicate: int, parameters: engine.Parameters
) -> dict[str, tuple[float, float]]:
    """Long-run reward and share treated of every policy."""
    numbers = np.random.SeedSequence(parameters["seed"], spawn_key=(7, replicate, 2))
    runs = simulator.run(policies, steps=parameters["steps"], keep=parameters["keep"], seed=numbers)
    return {name: (float(run.reward.mean()), float(run.share_treated.mean())) for name, run in runs.items()}


EarnedTable = dict[tuple[StudyDesign, str], dict[str, float]]


def summarise_earned(rows: list[engine.Row]) -> EarnedTable:
    """By design and method: means over replicates, the standard error, minimum and 5 % quantile of the differences."""
    return {
        (StudyDesign(*key[:-1]), key[-1]): {
            "reward": float(values["reward"].mean()),
            "difference": float(values["difference"].mean()),
            "standard_error": engine.standard_error(values["difference"]),
            "worst": float(values["difference"].min()),
            "low": float(np.quantile(values["difference"], 0.05)),
            "share_treated": float(values["share_treated"].mean()),
        }
        for key, values in engine.group_rows(rows, *StudyDesign._fields, "method").items()
    }


EARNED_LIMITS = (
    ("mean difference", "difference", 5.0, SHOWN, "hb-ahead"),
    ("worst replicate", "worst", 0.0, SHOWN, "hb-ahead"),
    ("mean reward", "reward", 1503.0, SHOWN, "hb-ahead"),
    ("mean difference", "difference", 7.5, "HeartSteps, 200 × 210", "hb-ahead"),
    ("mean difference", "difference", 0.0, "HeartSteps, 50 × 42", "hb-ahead"),
    ("worst replicate", "worst", -20.0, "HeartSteps, 50 × 42", "hb-ahead"),
    *(("mean difference", "difference", -1.0, f"HeartSteps, 50 × {points}", "hb-ahead") for points in (10, 20)),
    *(("5 % quantile", "low", -2.0, f"HeartSteps, 50 × {points}", "hb-ahead") for points in (10, 20)),
    ("mean difference", "difference", -2.0, SHOWN, ONE_EACH),
    *(("mean reward", "reward", 89.5, f"chain walk, 50 × {points}", "hb-ahead") for points in (42, 210)),
)
"""(label, measure, least, study, method): the least that a method must reach on the least favourable data of a study."""


def judge_earned(table: EarnedTable) -> list[engine.Limit]:
    """Every limit with the least favourable data of its study."""
    limits = []
    for label, measure, least, study, name in EARNED_LIMITS:
        values = {
            design.data: summary[measure]
            for (design, policy), summary in table.items()
            if (design.study, policy) == (study, name)
        }
        if values:
            worst = min(values, key=lambda data: values[data])
            limits.append(engine.Limit(f"{label}: {study}, {name}", worst, values[worst], least, at_most=False))
    return limits


def draw_earned(table: EarnedTable) -> "Figure":
    """Long-run difference from never in the study that is shown, a panel for each kind of data."""
    designs = list(dict.fromkeys(design for design, _ in table if design.study == SHOWN))
    names = [*REFERENCES[1:], *PAPER, *FAMILY]
    figure, axes = figures.new_figure(1, len(designs), width=13, height=5.2, sharey=True, squeeze=False)
    for panel, design in zip(axes[0], designs, strict=True):
        for height, name in enumerate(names):
            colour = figures.GREY if name in REFERENCES else figures.BLUE if name in FAMILY else figures.ORANGE
            summary = table[design, name]
            bar = 1.96 * summary["standard_error"]
            panel.errorbar(summary["difference"], height, xerr=bar, fmt="o", color=colour, markersize=4, linewidth=1.2)
        panel.axvline(0, color=figures.INK, linewidth=0.8, linestyle="--")
        panel.set_xscale("symlog", linthresh=10)
        panel.set_xticks([-300, -30, 0, 10], ["−300", "−30", "0", "10"])
        panel.minorticks_off()
        panel.set_yticks(range(len(names)), names)
        panel.set_ylim(len(names) - 0.5, -0.5)
        figures.label_axes(panel, x="steps per decision point\nmore than never", y="", title=design.data)
    return figure


def report_designs(rows: list[engine.Row], parameters: engine.Parameters) -> engine.Report:
    """S7 over all replicates."""
    table = summarise_earned(rows)
    studies: dict[str, tuple[list[StudyDesign], list[str]]] = {}
    for design in dict.fromkeys(design for design, _ in table):
        studies.setdefault(design.study, ([], []))[0].append(design)
    for designs, names in studies.values():
        everyone = (*REFERENCES[1:], *PAPER, *FAMILY, ONE_EACH)
        names.extend(name for name in everyone if any((design, name) in table for design in designs))
    first = studies[SHOWN][0][0]
    shown = {name: summary for (design, name), summary in table.items() if design == first}
    size = SHOWN.removeprefix("HeartSteps, ")
    return engine.Report(
        rows=rows,
        figure=draw_earned(table),
        description="Long-run reward compared with never prompting",
        page=engine.render_page("s7.md", table=table, studies=studies, shown=shown, size=size, parameters=parameters),
        limits=judge_earned(table),
        results={
            "results": [
                {"design": f"{design.study}, {design.data}", "method": name, **summary}
                for (design, name), summary in table.items()
            ]
        },
    )


S7 = engine.Experiment(
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
"""A participant is harmed who loses more than this many steps a decision point compared with never prompting."""
CAUTIOUS = "partial, κ = 0.5"
FITS: dict[str, dict[str, Any]] = {
    "person": {"pooling": "person", "caution": 0.0},
    "all": {"pooling": "all"},
    "partial": {"pooling": "partial"},
    CAUTIOUS: {"pooling": "partial", "caution": 0.5},
    "partial, κ = 0": {"pooling": "partial", "caution": 0.0},
}
"""`hb-ahead` with these; one each without caution, because with it such a policy does nothing."""


def run_people(
    replicate: int, parameters: engine.Parameters, spreads: Sequence[float] = SPREADS, points: Sequence[int] = POINTS
) -> list[engine.Row]:
    """Every fit of every spread; a smaller study is the beginning of a larger one.

    `coefficient_error` is the root mean square over people of the distance of their coefficients from the truth.
    """
    rows = []
    for spread in spreads:
        people, dynamics, numbers = (
            np.random.SeedSequence(parameters["seed"], spawn_key=(7, replicate, use)) for use in (3, 4, 5)
        )
        simulator = HeartSteps(participants=EVALUATED, spread=spread, seed=people)
        truth = np.broadcast_to(simulator.critic_coef, (EVALUATED, 8))
        for size in points:
            logs = simulator.collect(coin(2), decision_points=size, seed=dynamics)
            fits = {name: engine.fit_quietly(method("hb-ahead", **options), logs) for name, options in FITS.items()}
            policies: dict[str, Policy | Policies] = {"never": never(2)}
            policies |= {name: fitted.policies_ for name, fitted in fits.items()}
            runs = simulator.run(policies, steps=parameters["steps"], keep=parameters["keep"], seed=numbers)
            for name, fitted in fits.items():
                gain = runs[name].reward - runs["never"].reward
                measures = {
                    "coefficient_error": float(np.sqrt(((fitted.critic_coef_ - truth) ** 2).sum(axis=1).mean())),
                    "difference": float(gain.mean()),
                    "harmed": float((gain < -HARMED).mean()),
                }
                rows.append({"spread": spread, "decision_points": size, "fit": name, **measures})
    return rows


PeopleTable = dict[tuple[Any, ...], dict[str, float]]


def summarise_people(rows: list[engine.Row]) -> PeopleTable:
    """By spread, decision points and fit: means over replicates, and the standard error of the difference."""
    return {
        key: {
            **{name: float(values[name].mean()) for name in ("coefficient_error", "difference", "harmed")},
            "standard_error": engine.standard_error(values["difference"]),
        }
        for key, values in engine.group_rows(rows, "spread", "decision_points", "fit").items()
    }


ERROR_LIMITS = (
    *((1.0, points, ("person", "all"), 0.85) for points in (105, 210)),
    (2.0, 210, ("person", "all"), 0.7),
    *((0.0, points, ("all",), 1.2) for points in POINTS),
)
"""(spread, decision points, others, most): the error of partial pooling's coefficients over the best of the others."""
GAIN_LIMITS = ((1.0, 10.0), (2.0, 80.0))
"""(spread, least): the steps that partial pooling with κ = 0.5 earns more than one policy for all, at 210 points."""
MOST_HARMED = 0.08
"""With κ = 0.5 at spread 1 and 210 points."""


def judge_people(table: PeopleTable) -> list[engine.Limit]:
    """Every limit whose spread and decision points were run."""
    limits = []
    for spread, points, others, most in ERROR_LIMITS:
        if (spread, points, "partial") in table:
            better = min(table[spread, points, other]["coefficient_error"] for other in others)
            ratio = table[spread, points, "partial"]["coefficient_error"] / better
            rival = "the better" if len(others) > 1 else "pooled"
            measure = f"coefficients' error of {rival}, spread {spread:g}, {points} points"
            limits.append(engine.Limit(measure, "people differ", ratio, most))
    for spread, least in GAIN_LIMITS:
        if (spread, 210, CAUTIOUS) in table:
            gain = table[spread, 210, CAUTIOUS]["difference"] - table[spread, 210, "all"]["difference"]
            measure = f"steps more than pooled, κ = 0.5, spread {spread:g}"
            limits.append(engine.Limit(measure, "people differ", gain, least, at_most=False))
    if (1.0, 210, CAUTIOUS) in table:
        harmed = table[1.0, 210, CAUTIOUS]["harmed"]
        limits.append(engine.Limit("share harmed, κ = 0.5, spread 1", "people differ", harmed, MOST_HARMED))
    return limits


def draw_people(table: PeopleTable) -> "Figure":
    """Coefficients' error and long-run difference by spread, at the largest number of decision points."""
    most = max(points for _, points, _ in table)
    spreads = list(dict.fromkeys(spread for spread, points, _ in table if points == most))
    figure, (errors, gains) = figures.new_figure(1, 2, width=11, height=4.4)
    colours = {"person": figures.GREY, "all": figures.ORANGE, "partial": figures.BLUE, CAUTIOUS: figures.SERIES[2]}
    for name, colour in colours.items():
        curve = [table[spread, most, name] for spread in spreads]
        if name != CAUTIOUS:
            error = [summary["coefficient_error"] for summary in curve]
            errors.plot(spreads, error, "o-", color=colour, label=name)
        if name != "partial":
            bars = [1.96 * summary["standard_error"] for summary in curve]
            difference = [summary["difference"] for summary in curve]
            gains.errorbar(spreads, difference, bars, fmt="o-", color=colour, label=name, capsize=3)
    gains.axhline(0, color=figures.INK, linewidth=0.8, linestyle="--")
    unit = "steps per decision point"
    figures.label_axes(errors, x="spread between people", y=f"error ({unit})", title="Coefficients of the reward")
    figures.label_axes(gains, x="spread between people", y=f"{unit}\nmore than never", title="Long-run reward")
    for axes in (errors, gains):
        axes.legend(**figures.LEGEND)
    return figure


def report_people(rows: list[engine.Row], parameters: engine.Parameters) -> engine.Report:
    """S7's people who differ, over all replicates."""
    table = summarise_people(rows)
    sizes: dict[int, list[float]] = {}
    for spread, points, _ in table:
        sizes[points] = [*dict.fromkeys([*sizes.get(points, ()), spread])]
    keys = ("spread", "decision_points", "fit")
    return engine.Report(
        rows=rows,
        figure=draw_people(table),
        description="Error and reward by how much people differ",
        page=engine.render_page("s7-people.md", table=table, sizes=sizes, fits=list(FITS), parameters=parameters),
        limits=judge_people(table),
        results={"results": [{**dict(zip(keys, key, strict=True)), **summary} for key, summary in table.items()]},
    )


S7_PEOPLE = engine.Experiment(
    name="s7-people",
    title="S7: partial pooling where people differ",
    parameters=PARAMETERS,
    quick=QUICK,
    run=run_people,
    report=report_people,
)
