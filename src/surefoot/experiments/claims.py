"""The paper's claims, each judged by a rule that is written here and printed in the report.

Everything is compared within a replicate, where all methods met the same people and the same random numbers; intervals are
95 % over replicates. A claim is judged on HeartSteps under `prompted` outliers and on the chain walk; HeartSteps under
`sensor` is shown beside them and does not count, since there ElrAR cannot see what the claim is about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from surefoot.experiments.replicate import scene_title
from surefoot.experiments.results import ELRAR, Results
from surefoot.experiments.settings import RATIOS, SCENES, STRENGTHS, SWEPT_TAUS, TYPES, Cell, Settings
from surefoot.inference.intervals import Interval, mean_interval

HOLDS, PART, NOT = "holds", "holds in part", "does not hold"
JUDGED = (SCENES[0], SCENES[2])
ALIKE = {"heartsteps": 0.01, "chain-walk": 0.02}
"""A relative difference that counts as none."""
NEAR_THE_PAPER = 2 / 3
"""A gain of at least this share of the paper's counts as the paper's."""
LEVEL, SLIGHT = 0.05, 0.15
"""A curve that moves by at most so much is level; one that falls by at most so much falls slightly."""

Scene = tuple[str, str]


@dataclass(frozen=True)
class ClaimFinding:
    """One number of ours that bears on a claim."""

    where: str
    what: str
    ours: Interval
    unit: str
    paper: float | None
    verdict: str
    counts: bool
    """Whether the claim's verdict rests on it."""


@dataclass(frozen=True)
class Claim:
    """A claim, what the paper reports, our findings, and the verdict with the rule it follows from."""

    name: str
    experiment: str
    text: str
    paper: str
    rule: str
    findings: list[ClaimFinding] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """All findings that count hold; some do; none does."""
        verdicts = [finding.verdict for finding in self.findings if finding.counts]
        if all(verdict == HOLDS for verdict in verdicts):
            return HOLDS
        return NOT if all(verdict == NOT for verdict in verdicts) else PART


def judge(results: Results, settings: Settings) -> list[Claim]:
    """Every claim whose experiment was run."""
    return [claim(results, settings) for experiment, claim in CLAIMS if experiment in settings.experiments]


def _scenes() -> list[tuple[Scene, bool]]:
    return [(scene, scene in JUDGED) for scene in SCENES]


def _above_zero(difference: Interval) -> str:
    return HOLDS if difference.low > 0 else (NOT if difference.high <= 0 else PART)


def _best_of_its_type(results: Results, settings: Settings) -> Claim:
    claim = Claim(
        "S1 best",
        "s1",
        "Each robust method is the best of its type on both data sets.",
        "best throughout; on HeartSteps by 131.4, 136.2 and 139.9 steps (LinUCB, ACCB, SACCB)",
        "Robust minus the best of plain and the two filters (the one with the highest mean): holds where the interval is "
        "above zero, in part where it contains zero, does not hold where it is below. The paper's margins stand beside it.",
    )
    margins = dict(zip(TYPES, (131.4, 136.2, 139.9), strict=True))
    for scene, counts in _scenes():
        for kind in TYPES:
            robust = _s1(results, settings, scene, f"ro-{kind}")
            rivals = {
                "plain": _s1(results, settings, scene, kind),
                "hampel": _s1(results, settings, scene, f"filter-{kind}", "hampel"),
                "kalman": _s1(results, settings, scene, f"filter-{kind}", "kalman"),
            }
            rival = max(rivals, key=lambda name: rivals[name].mean())
            ours = mean_interval(robust - rivals[rival])
            paper = margins[kind] if scene[0] == "heartsteps" else None
            what = f"ro-{kind} minus {kind if rival == 'plain' else f'filter-{kind} ({rival})'}, its best rival"
            claim.findings.append(
                ClaimFinding(scene_title(*scene), what, ours, _unit(scene), paper, _above_zero(ours), counts)
            )
            if rival != "plain":
                plain = mean_interval(robust - rivals["plain"])
                claim.findings.append(
                    ClaimFinding(
                        scene_title(*scene), f"ro-{kind} minus {kind}", plain, _unit(scene), paper, _above_zero(plain), False
                    )
                )
    return claim


def _filter_helps_less(results: Results, settings: Settings) -> Claim:
    claim = Claim(
        "S1 filter",
        "s1",
        "A filter helps, but less than the robust method.",
        "yes",
        "Two differences for each type and filter: filter minus plain, and robust minus filter. Each holds where its "
        "interval is above zero, in part where it contains zero, does not hold where it is below.",
    )
    for scene, counts in _scenes():
        for kind in TYPES:
            plain, robust = (_s1(results, settings, scene, name) for name in (kind, f"ro-{kind}"))
            for name in ("hampel", "kalman"):
                filtered = _s1(results, settings, scene, f"filter-{kind}", name)
                for what, ours in (
                    (f"filter-{kind} ({name}) minus {kind}", mean_interval(filtered - plain)),
                    (f"ro-{kind} minus filter-{kind} ({name})", mean_interval(robust - filtered)),
                ):
                    finding = ClaimFinding(scene_title(*scene), what, ours, _unit(scene), None, _above_zero(ours), counts)
                    claim.findings.append(finding)
    return claim


def _alike_without_outliers(results: Results, settings: Settings) -> Claim:
    claim = Claim(
        "S2 clean",
        "s2",
        "Without outliers (ψ = 0) robust and plain are almost identical.",
        "“almost identical”",
        _ALIKE_RULE,
    )
    claim.findings.extend(
        _alike(results, "s2", scene, kind, Cell(kind, "", 0.0, settings.strength, 1.0), counts)
        for scene, counts in _scenes()
        for kind in TYPES
    )
    return claim


_ALIKE_RULE = (
    "Relative difference robust minus plain: holds where the interval lies within ± 1 % (HeartSteps) or ± 2 % (chain walk), "
    "in part where only the mean does, does not hold otherwise."
)


def _alike(results: Results, experiment: str, scene: Scene, kind: str, plain: Cell, counts: bool) -> ClaimFinding:
    before = results.cell(experiment, scene, plain)
    after = results.cell(experiment, scene, plain._replace(method=f"ro-{kind}"))
    ours = mean_interval(100 * (after / before - 1))
    limit = 100 * ALIKE[scene[0]]
    within = -limit <= ours.low and ours.high <= limit
    verdict = HOLDS if within else (PART if abs(ours.value) <= limit else NOT)
    return ClaimFinding(scene_title(*scene), f"ro-{kind} over {kind}", ours, "%", None, verdict, counts)


def _average_gain(
    results: Results, experiment: str, scene: Scene, cells: list[tuple[Cell, Cell]], paper: float, counts: bool, over: str
) -> ClaimFinding:
    """Gain of ro-accb over accb, both averaged along a sweep, (plain, robust) cells."""
    plain, robust = (np.mean([results.cell(experiment, scene, pair[side]) for pair in cells], axis=0) for side in (0, 1))
    ours = mean_interval(100 * (robust / plain - 1))
    reached = ours.low > 0 and ours.value >= NEAR_THE_PAPER * paper
    verdict = HOLDS if reached else (PART if ours.low > 0 else NOT)
    return ClaimFinding(scene_title(*scene), f"ro-accb over accb, averaged over {over}", ours, "%", paper, verdict, counts)


_GAIN_RULE = (
    "Both averaged over the settings, then the relative gain: holds where its interval lies above zero and its mean is at "
    "least two thirds of the paper's figure, in part where only the interval lies above zero, does not hold otherwise."
)


def _gain_over_ratio(results: Results, settings: Settings) -> Claim:
    claim = Claim(
        "S2 gain",
        "s2",
        "Averaged over the share of outliers ψ, Ro-ACCB earns more than ACCB.",
        "+10.5 % HeartSteps, +23.2 % chain walk",
        _GAIN_RULE,
    )
    for scene, counts in _scenes():
        plain = [Cell("accb", "", ratio, settings.strength, 1.0) for ratio in RATIOS]
        pairs = [(cell, cell._replace(method="ro-accb")) for cell in plain]
        claim.findings.append(_average_gain(results, "s2", scene, pairs, _paper(scene, 10.5, 23.2), counts, "ψ"))
    return claim


def _steady_in_strength(results: Results, settings: Settings) -> Claim:
    claim = Claim(
        "S3 strength",
        "s3",
        "With weightless outliers (ν = 0) both are similar; as ν grows the robust method stays level on HeartSteps and "
        "falls slightly on the chain walk.",
        "yes",
        f"{_ALIKE_RULE} As ν grows: the largest fall of Ro-ACCB's mean below its value at ν = 0 is at most 5 % on "
        "HeartSteps (level) or 15 % on the chain walk (slight); in part where only the fall at the largest ν is.",
    )
    for scene, counts in _scenes():
        clean = Cell("accb", "", settings.ratio, 0.0, 1.0)
        claim.findings.append(_alike(results, "s3", scene, "accb", clean, counts))
        curve = [results.cell("s3", scene, Cell("ro-accb", "", settings.ratio, nu, 1.0)) for nu in STRENGTHS]
        changes = [mean_interval(100 * (value / curve[0] - 1)) for value in curve]
        lowest = min(range(len(changes)), key=lambda place: changes[place].value)
        limit = -100 * (LEVEL if scene[0] == "heartsteps" else SLIGHT)
        last_is_fine = changes[-1].value >= limit
        verdict = HOLDS if changes[lowest].value >= limit else (PART if last_is_fine else NOT)
        what = f"ro-accb at its lowest, ν = {STRENGTHS[lowest]:g}, against ν = 0"
        claim.findings.append(ClaimFinding(scene_title(*scene), what, changes[lowest], "%", None, verdict, counts))
    return claim


def _gain_over_tau(results: Results, settings: Settings) -> Claim:
    claim = Claim(
        "S4 gain",
        "s4",
        "Averaged over the threshold's factor τ, Ro-ACCB earns more than ACCB.",
        "+12.6 % HeartSteps, +33.1 % chain walk",
        _GAIN_RULE,
    )
    for scene, counts in _scenes():
        plain = Cell("accb", "", settings.ratio, settings.strength, 1.0)
        pairs = [(plain, plain._replace(method="ro-accb", tau=tau)) for tau in SWEPT_TAUS[scene[0]]]
        claim.findings.append(_average_gain(results, "s4", scene, pairs, _paper(scene, 12.6, 33.1), counts, "τ"))
    return claim


CLAIMS: list[tuple[str, Callable[[Results, Settings], Claim]]] = [
    ("s1", _best_of_its_type),
    ("s1", _filter_helps_less),
    ("s2", _alike_without_outliers),
    ("s2", _gain_over_ratio),
    ("s3", _steady_in_strength),
    ("s4", _gain_over_tau),
]


def filters_that_win(results: Results, settings: Settings) -> list[str]:
    """Where a filter has a higher mean than the robust form, in words; empty when nowhere."""
    found = []
    for scene in SCENES if "s1" in settings.experiments else ():
        for kind in TYPES:
            robust = _s1(results, settings, scene, f"ro-{kind}")
            for name in ("hampel", "kalman"):
                lead = mean_interval(_s1(results, settings, scene, f"filter-{kind}", name) - robust)
                if lead.value > 0:
                    sure = "its interval lies above zero" if lead.low > 0 else "though zero is in its interval"
                    found.append(
                        f"{scene_title(*scene)}: filter-{kind} with {name} is above ro-{kind} by {lead.value:.1f} "
                        f"{_unit(scene)} (95 % interval {lead.low:.1f} to {lead.high:.1f}; {sure})"
                    )
    return found


def _s1(results: Results, settings: Settings, scene: Scene, method: str, filter_name: str = "") -> np.ndarray:
    return results.cell("s1", scene, Cell(method, filter_name, settings.ratio, settings.strength, 1.0), ELRAR)


def _unit(scene: Scene) -> str:
    return "steps" if scene[0] == "heartsteps" else "points"


def _paper(scene: Scene, heartsteps: float, chain_walk: float) -> float:
    return heartsteps if scene[0] == "heartsteps" else chain_walk
