"""The paper's claims, each judged by a rule that is written here and printed in the report.

Everything is compared within a replicate, where all methods met the same people and the same random numbers; intervals are
95 % over replicates. A claim is judged on HeartSteps under `prompted` outliers and on the chain walk; HeartSteps under
`sensor` is shown as well and does not count, since ElrAR cannot show there what the claim is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.experiments.paper import (
    FILTER_NAMES,
    RATIOS,
    SCENES,
    STRENGTHS,
    SWEPT_TAUS,
    TYPES,
    Cell,
    Results,
    Scene,
    Settings,
    scene_title,
)
from surefoot.inference.intervals import Interval, mean_interval

HOLDS = "holds"
PART = "holds in part"
NOT = "does not hold"
JUDGED = (SCENES[0], SCENES[2])
ALIKE = {"heartsteps": 0.01, "chain-walk": 0.02}
"""A relative difference that counts as none."""
NEAR_THE_PAPER = 2 / 3
"""A gain of at least this share of the paper's counts as the paper's."""
LARGEST_FALL = {"heartsteps": 0.05, "chain-walk": 0.15}
"""A curve that falls by at most this much is level on HeartSteps and falls slightly on the chain walk."""
MARGINS = dict(zip(TYPES, (131.4, 136.2, 139.9), strict=True))
"""By how many steps the paper's robust methods lead on HeartSteps."""
ALIKE_RULE = (
    "Relative difference robust minus plain: holds where the interval lies within ± 1 % (HeartSteps) or ± 2 % (chain walk), "
    "in part where only the mean does, does not hold otherwise."
)
GAIN_RULE = (
    "Both averaged over the settings, then the relative gain: holds where its interval lies above zero and its mean is at "
    "least two thirds of the paper's figure, in part where only the interval lies above zero, does not hold otherwise."
)


class ClaimFinding(NamedTuple):
    """One number of ours that bears on a claim."""

    scene: Scene
    what: str
    ours: Interval
    unit: str
    verdict: str
    paper: float | None = None
    shown_only: bool = False
    """Whether the claim's verdict ignores it in any case."""

    @property
    def where(self) -> str:
        return scene_title(*self.scene)

    @property
    def counts(self) -> bool:
        """Whether the claim's verdict rests on it."""
        return self.scene in JUDGED and not self.shown_only


@dataclass(frozen=True)
class Claim:
    """A claim, what the paper reports, our findings, and the verdict with the rule it follows from."""

    name: str
    text: str
    paper: str
    rule: str
    findings: list[ClaimFinding]

    @property
    def experiment(self) -> str:
        return self.name.split()[0].lower()

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
                "where": finding.where,
                "what": finding.what,
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


def _judge_difference(scene: Scene, what: str, values: NDArray[np.float64], **options: Any) -> ClaimFinding:
    """Holds where the interval of the difference lies above zero, not where it lies below."""
    interval = mean_interval(values)
    verdict = HOLDS if interval.low > 0 else (NOT if interval.high <= 0 else PART)
    return ClaimFinding(scene, what, interval, _unit(scene), verdict, **options)


def _list_forms(results: Results, settings: Settings, scene: Scene, kind: str) -> dict[str, NDArray[np.float64]]:
    """ElrAR of the plain method, of it after each filter, and of its robust form."""
    cells = {
        "plain": settings.cell(kind),
        **{name: settings.cell(f"filter-{kind}", name) for name in FILTER_NAMES},
        "robust": settings.cell(f"ro-{kind}"),
    }
    return {name: results.cell("s1", scene, cell) for name, cell in cells.items()}


def _best_of_its_type(results: Results, settings: Settings) -> Iterator[ClaimFinding]:
    for scene in SCENES:
        for kind in TYPES:
            forms = _list_forms(results, settings, scene, kind)
            robust = forms.pop("robust")
            rival = max(forms, key=lambda name: forms[name].mean())
            paper = MARGINS[kind] if scene[0] == "heartsteps" else None
            what = f"ro-{kind} minus {kind if rival == 'plain' else f'filter-{kind} ({rival})'}, its best rival"
            yield _judge_difference(scene, what, robust - forms[rival], paper=paper)
            if rival != "plain":
                yield _judge_difference(
                    scene, f"ro-{kind} minus {kind}", robust - forms["plain"], paper=paper, shown_only=True
                )


def _filter_helps_less(results: Results, settings: Settings) -> Iterator[ClaimFinding]:
    for scene in SCENES:
        for kind in TYPES:
            forms = _list_forms(results, settings, scene, kind)
            for name in FILTER_NAMES:
                yield _judge_difference(scene, f"filter-{kind} ({name}) minus {kind}", forms[name] - forms["plain"])
                yield _judge_difference(scene, f"ro-{kind} minus filter-{kind} ({name})", forms["robust"] - forms[name])


def _judge_alike(results: Results, experiment: str, scene: Scene, plain: Cell) -> ClaimFinding:
    robust = plain._replace(method=f"ro-{plain.method}")
    ratio = results.cell(experiment, scene, robust) / results.cell(experiment, scene, plain)
    interval = mean_interval(100 * (ratio - 1))
    limit = 100 * ALIKE[scene[0]]
    within = -limit <= interval.low and interval.high <= limit
    verdict = HOLDS if within else (PART if abs(interval.value) <= limit else NOT)
    return ClaimFinding(scene, f"{robust.method} over {plain.method}", interval, "%", verdict)


def _alike_without_outliers(results: Results, settings: Settings) -> Iterator[ClaimFinding]:
    for scene in SCENES:
        for kind in TYPES:
            yield _judge_alike(results, "s2", scene, settings.cell(kind, ratio=0.0))


def _judge_gain(
    results: Results, experiment: str, scene: Scene, pairs: list[tuple[Cell, Cell]], paper: float, over: str
) -> ClaimFinding:
    """Gain of ro-accb over accb, both averaged along a sweep, (plain, robust) cells."""
    plain, robust = (np.mean([results.cell(experiment, scene, pair[side]) for pair in pairs], axis=0) for side in (0, 1))
    interval = mean_interval(100 * (robust / plain - 1))
    reached = interval.low > 0 and interval.value >= NEAR_THE_PAPER * paper
    verdict = HOLDS if reached else (PART if interval.low > 0 else NOT)
    return ClaimFinding(scene, f"ro-accb over accb, averaged over {over}", interval, "%", verdict, paper)


def _gain_over_ratio(results: Results, settings: Settings) -> Iterator[ClaimFinding]:
    for scene in SCENES:
        pairs = [(settings.cell("accb", ratio=ratio), settings.cell("ro-accb", ratio=ratio)) for ratio in RATIOS]
        yield _judge_gain(results, "s2", scene, pairs, 10.5 if scene[0] == "heartsteps" else 23.2, "ψ")


def _steady_in_strength(results: Results, settings: Settings) -> Iterator[ClaimFinding]:
    for scene in SCENES:
        yield _judge_alike(results, "s3", scene, settings.cell("accb", strength=0.0))
        curve = [results.cell("s3", scene, settings.cell("ro-accb", strength=strength)) for strength in STRENGTHS]
        changes = [mean_interval(100 * (value / curve[0] - 1)) for value in curve]
        lowest = min(range(len(changes)), key=lambda number: changes[number].value)
        limit = -100 * LARGEST_FALL[scene[0]]
        verdict = HOLDS if changes[lowest].value >= limit else (PART if changes[-1].value >= limit else NOT)
        what = f"ro-accb at its lowest, ν = {STRENGTHS[lowest]:g}, against ν = 0"
        yield ClaimFinding(scene, what, changes[lowest], "%", verdict)


def _gain_over_tau(results: Results, settings: Settings) -> Iterator[ClaimFinding]:
    for scene in SCENES:
        pairs = [(settings.cell("accb"), settings.cell("ro-accb", tau=tau)) for tau in SWEPT_TAUS[scene[0]]]
        yield _judge_gain(results, "s4", scene, pairs, 12.6 if scene[0] == "heartsteps" else 33.1, "τ")


Judge = Callable[[Results, Settings], Iterator[ClaimFinding]]
CLAIMS: tuple[tuple[str, str, str, str, Judge], ...] = (
    (
        "S1 best",
        "Each robust method is the best of its type on both data sets.",
        "best throughout; on HeartSteps by 131.4, 136.2 and 139.9 steps (LinUCB, ACCB, SACCB)",
        "Robust minus the best of plain and the two filters (the one with the highest mean): holds where the interval is "
        "above zero, in part where it contains zero, does not hold where it is below. The paper's margins stand beside it.",
        _best_of_its_type,
    ),
    (
        "S1 filter",
        "A filter helps, but less than the robust method.",
        "yes",
        "Two differences for each type and filter: filter minus plain, and robust minus filter. Each holds where its "
        "interval is above zero, in part where it contains zero, does not hold where it is below.",
        _filter_helps_less,
    ),
    (
        "S2 clean",
        "Without outliers (ψ = 0) robust and plain are almost identical.",
        "“almost identical”",
        ALIKE_RULE,
        _alike_without_outliers,
    ),
    (
        "S2 gain",
        "Averaged over the share of outliers ψ, Ro-ACCB earns more than ACCB.",
        "+10.5 % HeartSteps, +23.2 % chain walk",
        GAIN_RULE,
        _gain_over_ratio,
    ),
    (
        "S3 strength",
        "With weightless outliers (ν = 0) both are similar; as ν grows the robust method stays level on HeartSteps and "
        "falls slightly on the chain walk.",
        "yes",
        f"{ALIKE_RULE} As ν grows: the largest fall of Ro-ACCB's mean below its value at ν = 0 is at most 5 % on "
        "HeartSteps (level) or 15 % on the chain walk (slight); in part where only the fall at the largest ν is.",
        _steady_in_strength,
    ),
    (
        "S4 gain",
        "Averaged over the threshold's factor τ, Ro-ACCB earns more than ACCB.",
        "+12.6 % HeartSteps, +33.1 % chain walk",
        GAIN_RULE,
        _gain_over_tau,
    ),
)
"""(name, claim, what the paper reports, rule, findings); the first word of the name is the experiment."""


def judge(results: Results, settings: Settings) -> list[Claim]:
    """Every claim whose experiment was run."""
    return [
        Claim(name, text, paper, rule, list(find(results, settings)))
        for name, text, paper, rule, find in CLAIMS
        if name.split()[0].lower() in settings.experiments
    ]


def filters_that_win(results: Results, settings: Settings) -> list[str]:
    """Where a filter has a higher mean than the robust form, in words; empty when nowhere."""
    sentences = []
    for scene in SCENES if "s1" in settings.experiments else ():
        for kind in TYPES:
            forms = _list_forms(results, settings, scene, kind)
            for name in FILTER_NAMES:
                lead = mean_interval(forms[name] - forms["robust"])
                if lead.value > 0:
                    sure = "its interval lies above zero" if lead.low > 0 else "though zero is in its interval"
                    sentences.append(
                        f"{scene_title(*scene)}: filter-{kind} with {name} is above ro-{kind} by {lead.value:.1f} "
                        f"{_unit(scene)} (95 % interval {lead.low:.1f} to {lead.high:.1f}; {sure})"
                    )
    return sentences


def _unit(scene: Scene) -> str:
    return "steps" if scene[0] == "heartsteps" else "points"
