"""S1 to S4, the experiments of the paper: their cells, one replicate of them, and the verdict on every claim.

Everything is compared within a replicate, where all methods meet the same people and the same random numbers; intervals are
95 % over replicates. A claim is judged on HeartSteps under `prompted` outliers and on the chain walk; HeartSteps under
`sensor` is shown as well and does not count, since ElrAR cannot show there what the claim is about.
"""

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.experiments.engine import Row, fit_quietly, group_rows, make_method
from surefoot.inference.intervals import Interval, mean_interval
from surefoot.policies import coin
from surefoot.simulators import ChainWalk, HeartSteps, Simulator, contaminate
from surefoot.simulators.measures import coefficient_error, reference_policies, reference_states, regret_at

Floats = NDArray[np.float64]
EXPERIMENTS = ("s1", "s2", "s3", "s4")
DATA_SETS: dict[str, type[Simulator]] = {"heartsteps": HeartSteps, "chain-walk": ChainWalk}
TYPES = ("linucb", "accb", "saccb")
RATIOS = tuple(percent / 100 for percent in range(10))
STRENGTHS = tuple(float(strength) for strength in range(11))
SWEPT_TAUS = {
    "heartsteps": (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0),
    "chain-walk": (0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0),
}
ENOUGH_REPLICATES = 10
"""With fewer, Student's t alone makes an interval of a mean wider by more than a seventh."""
FILTER_NAMES = ("hampel", "kalman")
REFERENCE_STATES = 200
"""States per participant at which the immediate regret is taken."""
ELRAR = "long_run_average_reward"
CRITIC_MEASURES = ("coefficient_error", "share_removed", "precision", "recall")


class Scene(NamedTuple):
    """A data set under one mechanism of outliers."""

    data_set: str
    mechanism: str

    def __str__(self) -> str:
        name = {"heartsteps": "HeartSteps", "chain-walk": "Chain walk"}[self.data_set]
        return f"{name}, {self.mechanism} outliers" if sum(scene[0] == self.data_set for scene in SCENES) > 1 else name

    @property
    def unit(self) -> str:
        return "steps" if self.data_set == "heartsteps" else "points"


SCENES = (Scene("heartsteps", "prompted"), Scene("heartsteps", "sensor"), Scene("chain-walk", "sensor"))
"""HeartSteps under `prompted` first, for the reason that the report gives."""
JUDGED = (SCENES[0], SCENES[2])


class Cell(NamedTuple):
    """One method in one setting."""

    method: str
    filter: str
    """`hampel` or `kalman` for the filter methods, empty for the others."""
    ratio: float
    strength: float
    tau: float


class Unit(NamedTuple):
    """The smallest piece of work: one replicate of one scene, in which all methods meet the same people and numbers."""

    scene: Scene
    replicate: int

    @property
    def name(self) -> str:
        return f"{self.scene.data_set}-{self.scene.mechanism}-{self.replicate:04d}"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that decides the numbers; two runs with equal settings give equal results."""

    experiments: tuple[str, ...] = EXPERIMENTS
    replicates: int = 20
    participants: int = 50
    decision_points: int = 210
    steps: int = 5000
    keep: int = 4000
    ratio: float = 0.04
    """ψ where an experiment does not sweep it."""
    strength: float = 5.0
    """ν where an experiment does not sweep it."""
    seed: int = 0

    def check(self) -> None:
        """Refuse what cannot be run, before any work starts."""
        for name, least in (("replicates", 2), ("participants", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        features = max(len(simulator.critic_coef) for simulator in DATA_SETS.values())
        if self.decision_points < features:
            problem = f"the critic has {features} features and needs at least as many decision points"
            raise InputError(f"decision_points is {self.decision_points}; {problem}")
        if not 1 <= self.keep <= self.steps:
            raise InputError(f"keep is {self.keep} of {self.steps} steps; it must be at least 1 and at most all of them")
        if not 0 <= self.ratio <= 1:
            raise InputError(f"ratio (ψ) is {self.ratio}; it is a share of the decision points, between 0 and 1")
        if not 0 <= self.strength < float("inf"):
            raise InputError(f"strength (ν) is {self.strength}; it must be a finite number of at least 0")

    @property
    def caution(self) -> str:
        """A warning when the verdicts rest on few replicates; empty when they do not."""
        if self.replicates >= ENOUGH_REPLICATES:
            return ""
        return (
            f"{self.replicates} replicates are few: intervals are wide and verdicts may still change. "
            f"Run it with --replicates {Settings().replicates} before relying on one."
        )

    def cell(self, method: str, filter_name: str = "", **swept: float) -> Cell:
        """A method at these settings, except for the parameter that is swept."""
        return Cell(method, filter_name, self.ratio, self.strength, 1.0)._replace(**swept)  # type: ignore[arg-type]

    def cells(self, data_set: str) -> Iterator[tuple[str, Cell]]:
        """(experiment, cell) of every row that a replicate gives."""
        methods = [prefix + kind for kind in TYPES for prefix in ("", "ro-")]
        filtered = [self.cell(f"filter-{kind}", name) for kind in TYPES for name in FILTER_NAMES]
        cells = {
            "s1": [*(self.cell(method) for method in methods), *filtered],
            "s2": [self.cell(method, ratio=ratio) for ratio in RATIOS for method in methods],
            "s3": [self.cell(method, strength=strength) for strength in STRENGTHS for method in methods],
            "s4": [self.cell("accb"), *(self.cell("ro-accb", tau=tau) for tau in SWEPT_TAUS[data_set])],
        }
        for experiment in self.experiments:
            for cell in cells[experiment]:
                yield experiment, cell

    def units(self) -> list[Unit]:
        """In the order in which they are run: a replicate of every scene, then the next replicate."""
        return [Unit(scene, replicate) for replicate in range(self.replicates) for scene in SCENES]


def run_unit(unit: Unit, settings: Settings) -> list[Row]:
    """The rows of one replicate of one scene; a measure that does not apply is None."""
    scene = unit.scene
    simulator = DATA_SETS[scene.data_set](participants=settings.participants)
    # A replicate of a data set has the same people under every mechanism.
    number = list(DATA_SETS).index(scene.data_set)
    seeds = [np.random.SeedSequence(settings.seed, spawn_key=(number, unit.replicate, use)) for use in range(4)]
    clean = simulator.collect(coin(2), decision_points=settings.decision_points, seed=seeds[0])
    cells = list(settings.cells(scene.data_set))
    dirty = {
        (ratio, strength): contaminate(clean, mechanism=scene.mechanism, ratio=ratio, strength=strength, seed=seeds[1])
        for ratio, strength in dict.fromkeys((cell.ratio, cell.strength) for _, cell in cells)
    }
    fitted = {}
    for cell in dict.fromkeys(cell for _, cell in cells):
        filtering = {"filter": cell.filter} if cell.filter else {}
        logs = dirty[cell.ratio, cell.strength].logs
        fitted[cell] = fit_quietly(make_method(cell.method, tau=cell.tau, **filtering), logs)
    references = {Cell(name, "", None, None, None): policy for name, policy in reference_policies(simulator).items()}  # type: ignore[arg-type]
    policies: dict[Any, Any] = {cell: method.policies_ for cell, method in fitted.items()} | references
    runs = simulator.run(policies, steps=settings.steps, keep=settings.keep, seed=seeds[2])
    states = reference_states(simulator, REFERENCE_STATES, seeds[3])
    measures: dict[Cell, Row] = {}
    for cell, policy in policies.items():
        measures[cell] = {
            ELRAR: float(runs[cell].reward.mean()),
            "share_treated": float(runs[cell].share_treated.mean()),
            "immediate_regret": regret_at(simulator, policy, states).mean,
            **dict.fromkeys(CRITIC_MEASURES),
        }
        if cell in fitted:
            touched = dirty[cell.ratio, cell.strength].touched
            removed = fitted[cell].weights_ == 0
            both = float((removed & touched).sum())
            removes = touched.any() and fitted[cell].critic_.removal is not None
            measures[cell] |= {
                "coefficient_error": coefficient_error(simulator, fitted[cell]).mean,
                "share_removed": float(removed.mean()),
                "precision": float(both / removed.sum()) if removed.any() else None,
                "recall": float(both / touched.sum()) if removes else None,
            }
    return [
        {"experiment": experiment, **scene._asdict(), **cell._asdict(), "replicate": unit.replicate, **measures[cell]}
        for experiment, cell in (*cells, *(("reference", cell) for cell in references))
    ]


class Results:
    """Values by experiment, scene and cell, as arrays over replicates."""

    def __init__(self, rows: list[Row]) -> None:
        self._values = group_rows(rows, "experiment", *Scene._fields, *Cell._fields)

    def cell(self, experiment: str, scene: Scene, cell: Cell, measure: str = ELRAR) -> Floats:
        return self._values[experiment, *scene, *cell][measure].astype(np.float64)

    def reference(self, scene: Scene, policy: str, measure: str = ELRAR) -> Floats:
        """The same for `never`, `always`, `coin` or `oracle-myopic`."""
        return self._values["reference", *scene, policy, "", None, None, None][measure].astype(np.float64)

    def forms(self, settings: Settings, scene: Scene, kind: str) -> dict[str, Floats]:
        """ElrAR in S1 of a plain method, of its filtered forms, and of its robust form."""
        return {
            "plain": self.cell("s1", scene, settings.cell(kind)),
            **{name: self.cell("s1", scene, settings.cell(f"filter-{kind}", name)) for name in FILTER_NAMES},
            "robust": self.cell("s1", scene, settings.cell(f"ro-{kind}")),
        }


# Claims

HOLDS = "holds"
PART = "holds in part"
NOT = "does not hold"
ALIKE = {"heartsteps": 1.0, "chain-walk": 2.0}
"""A relative difference, in per cent, that counts as none."""
NEAR_THE_PAPER = 2 / 3
"""A gain of at least this share of the paper's counts as the paper's."""
LARGEST_FALL = {"heartsteps": 5.0, "chain-walk": 15.0}
"""In per cent: a curve that falls by less is level on HeartSteps and falls slightly on the chain walk."""
MARGINS = dict(zip(TYPES, (131.4, 136.2, 139.9), strict=True))
"""By how many steps the paper's robust methods lead on HeartSteps."""
GAINS = {"s2": {"heartsteps": 10.5, "chain-walk": 23.2}, "s4": {"heartsteps": 12.6, "chain-walk": 33.1}}
"""The paper's gains of Ro-ACCB over ACCB in per cent, averaged over a sweep."""


class ClaimFinding(NamedTuple):
    """One number of ours that bears on a claim."""

    scene: Scene
    comparison: str
    ours: Interval
    unit: str
    verdict: str
    paper: float | None = None
    shown_only: bool = False
    """Whether the claim's verdict ignores it in any case."""

    @property
    def counts(self) -> bool:
        """Whether the claim's verdict rests on it."""
        return self.scene in JUDGED and not self.shown_only


@dataclass(frozen=True)
class Claim:
    """A claim, what the paper reports, our findings, and the verdict with its rule; the name begins with the experiment."""

    name: str
    text: str
    paper: str
    rule: str
    findings: list[ClaimFinding]

    @property
    def verdict(self) -> str:
        """All findings that count hold; some do; none does."""
        verdicts = {finding.verdict for finding in self.findings if finding.counts}
        if verdicts <= {HOLDS}:
            return HOLDS
        return NOT if verdicts == {NOT} else PART

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        findings = [
            {
                "where": str(finding.scene),
                "what": finding.comparison,
                "paper": finding.paper,
                "ours": finding.ours.value,
                "interval_95": [finding.ours.low, finding.ours.high],
                "unit": finding.unit,
                "verdict": finding.verdict,
                "counts": finding.counts,
            }
            for finding in self.findings
        ]
        words = {"name": self.name, "claim": self.text, "paper": self.paper, "verdict": self.verdict, "rule": self.rule}
        return {**words, "findings": findings}


def _judge_difference(scene: Scene, comparison: str, values: Floats, **options: Any) -> ClaimFinding:
    """Holds where the interval of the difference lies above zero, not where it lies below."""
    interval = mean_interval(values)
    verdict = HOLDS if interval.low > 0 else (NOT if interval.high <= 0 else PART)
    return ClaimFinding(scene, comparison, interval, scene.unit, verdict, **options)


def _judge_alike(results: Results, experiment: str, scene: Scene, plain: Cell) -> ClaimFinding:
    robust = plain._replace(method=f"ro-{plain.method}")
    ratio = results.cell(experiment, scene, robust) / results.cell(experiment, scene, plain)
    interval = mean_interval(100 * (ratio - 1))
    limit = ALIKE[scene.data_set]
    within = -limit <= interval.low and interval.high <= limit
    verdict = HOLDS if within else (PART if abs(interval.value) <= limit else NOT)
    return ClaimFinding(scene, f"{robust.method} over {plain.method}", interval, "%", verdict)


def _judge_best(results: Results, settings: Settings, scene: Scene, experiment: str) -> Iterator[ClaimFinding]:
    for kind in TYPES:
        forms = results.forms(settings, scene, kind)
        robust = forms.pop("robust")
        rival = max(forms, key=lambda name: forms[name].mean())
        paper = MARGINS[kind] if scene.data_set == "heartsteps" else None
        comparison = f"ro-{kind} minus {kind if rival == 'plain' else f'filter-{kind} ({rival})'}, its best rival"
        yield _judge_difference(scene, comparison, robust - forms[rival], paper=paper)
        if rival != "plain":
            lead = robust - forms["plain"]
            yield _judge_difference(scene, f"ro-{kind} minus {kind}", lead, paper=paper, shown_only=True)


def _judge_filters(results: Results, settings: Settings, scene: Scene, experiment: str) -> Iterator[ClaimFinding]:
    for kind in TYPES:
        forms = results.forms(settings, scene, kind)
        for name in FILTER_NAMES:
            yield _judge_difference(scene, f"filter-{kind} ({name}) minus {kind}", forms[name] - forms["plain"])
            yield _judge_difference(scene, f"ro-{kind} minus filter-{kind} ({name})", forms["robust"] - forms[name])


def _judge_clean(results: Results, settings: Settings, scene: Scene, experiment: str) -> Iterator[ClaimFinding]:
    for kind in TYPES:
        yield _judge_alike(results, experiment, scene, settings.cell(kind, ratio=0.0))


def _judge_gain(results: Results, settings: Settings, scene: Scene, experiment: str) -> Iterator[ClaimFinding]:
    """Gain of ro-accb over accb, both averaged along the sweep."""
    if experiment == "s4":
        taus = SWEPT_TAUS[scene.data_set]
        plain = [settings.cell("accb")] * len(taus)
        robust = [settings.cell("ro-accb", tau=tau) for tau in taus]
    else:
        plain = [settings.cell("accb", ratio=ratio) for ratio in RATIOS]
        robust = [settings.cell("ro-accb", ratio=ratio) for ratio in RATIOS]
    means = [np.mean([results.cell(experiment, scene, cell) for cell in cells], axis=0) for cells in (plain, robust)]
    interval = mean_interval(100 * (means[1] / means[0] - 1))
    paper = GAINS[experiment][scene.data_set]
    reached = interval.low > 0 and interval.value >= NEAR_THE_PAPER * paper
    verdict = HOLDS if reached else (PART if interval.low > 0 else NOT)
    over = "τ" if experiment == "s4" else "ψ"
    yield ClaimFinding(scene, f"ro-accb over accb, averaged over {over}", interval, "%", verdict, paper)


def _judge_strengths(results: Results, settings: Settings, scene: Scene, experiment: str) -> Iterator[ClaimFinding]:
    yield _judge_alike(results, experiment, scene, settings.cell("accb", strength=0.0))
    curve = [results.cell(experiment, scene, settings.cell("ro-accb", strength=strength)) for strength in STRENGTHS]
    changes = [mean_interval(100 * (value / curve[0] - 1)) for value in curve]
    lowest = min(range(len(changes)), key=lambda number: changes[number].value)
    limit = -LARGEST_FALL[scene.data_set]
    verdict = HOLDS if changes[lowest].value >= limit else (PART if changes[-1].value >= limit else NOT)
    comparison = f"ro-accb at its lowest, ν = {STRENGTHS[lowest]:g}, against ν = 0"
    yield ClaimFinding(scene, comparison, changes[lowest], "%", verdict)


JUDGES: dict[str, Callable[[Results, Settings, Scene, str], Iterator[ClaimFinding]]] = {
    "best": _judge_best,
    "filters": _judge_filters,
    "clean": _judge_clean,
    "gain": _judge_gain,
    "strengths": _judge_strengths,
}
"""By their names in claims.toml: (results, settings, scene, experiment) → findings."""


def judge_claims(results: Results, settings: Settings) -> list[Claim]:
    """Every claim whose experiment was run."""
    described = tomllib.loads(files("surefoot.experiments").joinpath("claims.toml").read_text(encoding="utf-8"))
    claims = []
    for claim in described["claim"]:
        experiment = claim["name"].split()[0].lower()
        if experiment in settings.experiments:
            judge = JUDGES[claim.pop("judge")]
            findings = [finding for scene in SCENES for finding in judge(results, settings, scene, experiment)]
            claims.append(Claim(**{**claim, "rule": claim["rule"].format(**described["rules"])}, findings=findings))
    return claims


def filters_that_win(results: Results, settings: Settings) -> list[str]:
    """Sentences on every filter with a higher mean than the robust form."""
    sentences = []
    for scene in SCENES if "s1" in settings.experiments else ():
        for kind in TYPES:
            forms = results.forms(settings, scene, kind)
            for name in FILTER_NAMES:
                lead = mean_interval(forms[name] - forms["robust"])
                if lead.value > 0:
                    sure = "its interval lies above zero" if lead.low > 0 else "though zero is in its interval"
                    sentences.append(
                        f"{scene}: filter-{kind} with {name} is above ro-{kind} by {lead.value:.1f} "
                        f"{scene.unit} (95 % interval {lead.low:.1f} to {lead.high:.1f}; {sure})"
                    )
    return sentences
