"""Does the model show what the pilot shows? Pilots of the same people, with prompts drawn anew, against the real one.

The numbers are those that a rehearsal is used for: the effect of a prompt at once, on the outcomes and state variables of
the next decision points, and between people who were prompted often and seldom; then means, spreads and gaps. In the real
and in the simulated pilots they are computed in the same way, with the action less its probability.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.errors import InputError
from surefoot.rehearsal.pilot_model import PilotModel
from surefoot.rehearsal.plan import PILOT_EFFECT, Environment
from surefoot.reports.numbers import format_number
from surefoot.screening.screen import find_worst

Floats = NDArray[np.float64]
LAGS = (1, 2, 3, 5)
"""Decision points later at which effects are compared."""
FAR = 3.0
"""Standard deviations of the simulated numbers beyond which the pilot's is a reason to look, …"""
TOO_FAR = 4.0
"""… and an effect of the model is unsafe."""
FEWEST_PILOTS = 20


class PilotCheck(NamedTuple):
    """One number of the pilot, with mean, 2.5 % and 97.5 % point of the same number in simulated pilots; the verdict is
    `fine`, `look`, or `unsafe` for an effect that the model does not show."""

    name: str
    observed: float
    simulated: float
    low: float
    high: float
    verdict: str

    @property
    def sentence(self) -> str:
        """The difference in words; empty where there is none."""
        if self.verdict == "fine":
            return ""
        values = f"{self.name}: {format_number(self.observed)} in the pilot, {format_number(self.simulated)} simulated"
        ratio = self.simulated / self.observed if self.observed else np.nan
        return f"{values} ({100 * ratio:.0f} % of it)" if 0 < ratio < 100 else values


class Series(NamedTuple):
    """Values (pilots, people, decision points) less their participant's mean, 0 where unknown; `known` is 1 or 0."""

    known: Floats
    deviations: Floats

    @classmethod
    def of_values(cls, values: Floats) -> "Series":
        known = (~np.isnan(values)).astype(np.float64)
        filled = np.nan_to_num(values)
        means = filled.sum(axis=-1, keepdims=True) / np.maximum(known.sum(axis=-1, keepdims=True), 1)
        return cls(known, known * (filled - means))

    @property
    def autocorrelation(self) -> Floats:
        product = np.einsum("rpt,rpt->r", self.deviations[..., 1:], self.deviations[..., :-1])
        return np.asarray(product / np.maximum(self.squares, 1e-300))

    @property
    def squares(self) -> Floats:
        return np.asarray(np.einsum("rpt,rpt->r", self.deviations, self.deviations))

    def measure_response(self, centred: Floats, lag: int) -> Floats:
        """The effect of a prompt on values some decision points later, by randomisation alone, (pilots,)."""
        before = centred[..., : centred.shape[-1] - lag]
        product = np.einsum("rpt,rpt->r", before, self.deviations[..., lag:])
        return np.asarray(product / np.maximum(np.einsum("rpt,rpt,rpt->r", before, before, self.known[..., lag:]), 1e-12))


def compare_frequent(means: Floats, centred: Floats) -> Floats:
    """Mean outcome of the half of people that chance prompted more often, less that of the other half, (pilots,)."""
    luck = centred.sum(axis=-1)
    often = luck > np.median(luck, axis=-1, keepdims=True)

    def average(chosen: NDArray[np.bool_]) -> Floats:
        return np.asarray((means * chosen).sum(axis=-1) / np.maximum(chosen.sum(axis=-1), 1))

    return average(often) - average(~often)


def measure_pilots(centred: Floats, outcome: Floats, states: Floats, names: list[str]) -> Iterator[tuple[str, bool, Floats]]:
    """(name, whether it is an effect, the number in every pilot) of the real pilot, or of simulated ones.

    `centred` is the action less its probability, (pilots, people, decision points), and `states` are (columns, …); NaN where
    missing or past the end.
    """
    series = Series.of_values(outcome)
    yield "effect at once", True, series.measure_response(centred, 0)
    for lag in LAGS:
        yield f"effect {lag} later", True, series.measure_response(centred, lag)
    means = np.nansum(outcome, axis=-1) / np.maximum(series.known.sum(axis=-1), 1)
    yield "people prompted often minus seldom", True, compare_frequent(means, centred)
    known = series.known.sum(axis=(1, 2))
    yield "outcome: mean", False, np.nansum(outcome, axis=(1, 2)) / known
    yield "outcome: spread within people", False, np.sqrt(series.squares / known)
    yield "outcome: spread between people", False, means.std(axis=-1)
    yield "outcome: autocorrelation", False, series.autocorrelation
    complete = ~np.isnan(outcome) & ~np.isnan(states).any(axis=0)
    yield "complete decision points", False, complete.mean(axis=(1, 2))
    for name, values in zip(names, states, strict=True):
        column = Series.of_values(values)
        for lag in LAGS:
            yield f"{name}: response {lag} later", True, column.measure_response(centred, lag)
        yield f"{name}: mean", False, np.nansum(values, axis=(1, 2)) / np.maximum(column.known.sum(axis=(1, 2)), 1)
        yield f"{name}: autocorrelation", False, column.autocorrelation


@dataclass(frozen=True, repr=False)
class PilotChecks:
    """All comparisons of a model with its pilot."""

    checks: tuple[PilotCheck, ...]
    """One for every number."""
    pilots: int
    """The number of simulated pilots."""

    def __repr__(self) -> str:
        return f"PilotChecks({len(self.checks)} numbers, {self.pilots} simulated pilots, verdict: {self.verdict})"

    @property
    def verdict(self) -> str:
        """The worst of all checks: `fine`, `look` or `unsafe`."""
        return find_worst(check.verdict for check in self.checks)

    @property
    def differences(self) -> tuple[str, ...]:
        """One sentence for every number that differs from the pilot."""
        return tuple(check.sentence for check in self.checks if check.sentence)

    @property
    def faults(self) -> tuple[str, ...]:
        """Differences that make a recommendation unsafe."""
        return tuple(check.sentence for check in self.checks if check.verdict == "unsafe")

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per check."""
        columns = zip(*self.checks, strict=True)
        return make_frame(dict(zip(PilotCheck._fields, map(list, columns), strict=True)), backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "verdict": self.verdict,
            "differences": list(self.differences),
            "pilots": self.pilots,
            "checks": [check._asdict() for check in self.checks],
        }


def check_pilot_model(
    model: PilotModel, *, pilots: int = 40, seed: int = 0, environment: Environment = PILOT_EFFECT
) -> PilotChecks:
    """Compare the pilot with simulations of the same people and new draws of prompts.

    Parameters
    ----------
    model
        The result of `fit_pilot`.
    pilots, seed
        The number of simulated pilots, at least 20, and their seed.
    environment
        The effects of sending in the simulated pilots; by default those of the model.

    Returns
    -------
    PilotChecks
        `verdict`, `differences`, `checks`, `to_frame`.

    Examples
    --------
    >>> import surefoot as sf
    >>> text = '[columns]\\nparticipant = "p"\\ntime = "t"\\n[state.weather]\\n[state.engagement]\\n[state.fatigue]'
    >>> logs = sf.simulators.HeartSteps(participants=10).collect(sf.policies.coin(2), decision_points=60, seed=0)
    >>> check_pilot_model(sf.rehearsal.fit_pilot(logs, sf.Study.parse(text), per_day=5)).verdict
    'fine'
    """
    if pilots < FEWEST_PILOTS:
        raise InputError(
            f"pilots is {pilots}; at least {FEWEST_PILOTS} simulated pilots show where a number lies among them"
        )
    people = model.people
    present = people.present
    simulation = model.in_environment(environment).start(seed=list(range(seed, seed + pilots)))
    simulation.reserve(present.shape[1])
    rng = np.random.default_rng(seed)
    for t in range(present.shape[1]):
        chance = np.broadcast_to(people.probability[:, t], (pilots, len(present)))
        simulation.step((rng.random(chance.shape) < chance).astype(np.int64), chance)
    names = [model.state_names[number] for number in people.read]
    free = people.available & present

    def contiguous(values: NDArray[Any]) -> Floats:
        return np.ascontiguousarray(values, dtype=np.float64)

    centred = free * (contiguous(simulation.actions) - people.probability)
    outcome = contiguous(simulation.reported)
    states = contiguous(np.moveaxis(simulation.states[..., people.read], -1, 0))
    # Artefacts are repeated as they were; a screen would find them in both.
    outcome[:, np.isnan(people.outcome)] = np.nan
    for values, in_pilot in zip(states, people.states, strict=True):
        values[:, np.isnan(in_pilot)] = np.nan
    simulated = measure_pilots(centred, outcome, states, names)
    observed = measure_pilots((free * people.centred)[None], people.outcome[None], people.states[:, None], names)
    spread = model.effects.spread
    checks = []
    for (name, is_effect, value), (_, _, values) in zip(observed, simulated, strict=True):
        low, high = np.nanquantile(values, (0.025, 0.975)).tolist()
        middle = float(np.nanmean(values))
        # Simulated pilots have the people of the real one, whose numbers differ by the prompts alone.
        unit = max(float(np.nanstd(values)), 0.005 * (spread if name.startswith(("effect", "people", "outcome")) else 1.0))
        distance = abs(float(value[0]) - middle) / unit
        verdict = "fine" if distance <= FAR else "unsafe" if is_effect and distance > TOO_FAR else "look"
        checks.append(PilotCheck(name, float(value[0]), middle, low, high, verdict))
    return PilotChecks(tuple(checks), pilots)
