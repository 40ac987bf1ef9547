"""Linear combinations of an effect's coefficients with their tests, one at a time or together."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from surefoot.data.frames import make_frame
from surefoot.effects.analysis import Floats
from surefoot.inference.intervals import Interval, t_interval
from surefoot.inference.simultaneous import LargestT
from surefoot.reports.numbers import describe_p, log_to_percent


@dataclass(frozen=True, eq=False)
class ContrastResults:
    """Linear combinations Cβ, one for each row of C, as statsmodels' `t_test` gives them."""

    names: tuple[str, ...]
    effect: Floats
    sd: Floats  # Standard errors.
    df_denom: int | Floats  # With imputed outcomes a number for each combination.

    @property
    def tvalue(self) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.effect / self.sd)

    @property
    def pvalue(self) -> Floats:
        return np.asarray(2 * stdtr(self.df_denom, -np.abs(self.tvalue)))

    def conf_int(self, alpha: float = 0.05) -> Floats:
        """(combinations, 2)."""
        half = stdtrit(self.df_denom, 1 - alpha / 2) * self.sd
        return np.column_stack([self.effect - half, self.effect + half])

    def to_frame(self, backend: str | None = None) -> Any:
        """One row for each combination: effect, estimate, standard_error, t, p_value, low, high."""
        low, high = self.conf_int().T
        numbers = (list(self.names), self.effect, self.sd, self.tvalue, self.pvalue, low, high)
        names = ("effect", "estimate", "standard_error", "t", "p_value", "low", "high")
        return make_frame(dict(zip(names, numbers, strict=True)), backend)


@dataclass(frozen=True, eq=False)
class SimultaneousContrasts(ContrastResults):
    """Combinations whose intervals all cover at once, and whose p-values are adjusted for their number (max-t)."""

    largest: LargestT

    @property
    def pvalue(self) -> Floats:
        return np.array([self.largest.exceed(abs(value)) for value in self.tvalue.tolist()])

    def conf_int(self, alpha: float = 0.05) -> Floats:
        """(combinations, 2): all of them hold together with probability 1 − alpha."""
        half = self.largest.critical(alpha) * self.sd
        return np.column_stack([self.effect - half, self.effect + half])


@dataclass(frozen=True)
class JointTest:
    """F test that several coefficients are all 0."""

    names: tuple[str, ...]
    fvalue: float
    df_num: int
    df_denom: float
    pvalue: float

    def __str__(self) -> str:
        return f"F({self.df_num}, {self.df_denom:.4g}) = {self.fvalue:.3f}, {describe_p(self.pvalue)}"


@dataclass(frozen=True)
class EffectRow:
    """One line of the table."""

    analysis: str
    effect: str
    estimate: float
    standard_error: float
    low: float
    high: float
    t: float
    degrees: float
    p: float
    p_holm: float = np.nan  # Adjusted for all tests of the table, after Holm.
    usual_error: float = np.nan  # Standard errors of both kinds, where both are known.
    adaptive_error: float = np.nan
    simultaneous_low: float = np.nan  # With several actions: all pairs of them together, by max-t.
    simultaneous_high: float = np.nan
    simultaneous_p: float = np.nan
    outcome_sd: float = np.nan  # Standard deviation of the outcome; NaN for relative risks.

    @property
    def simultaneous(self) -> Interval:
        """The interval that holds together with those of all other pairs of actions."""
        return Interval(self.estimate, self.standard_error, self.simultaneous_low, self.simultaneous_high)

    @property
    def ratio(self) -> float:
        """How many times wider the adaptive interval is."""
        return self.adaptive_error / self.usual_error

    def widen(self, error: float) -> Interval:
        """The estimate with another standard error."""
        return t_interval(self.estimate, error, self.degrees)

    @property
    def label(self) -> str:
        return self.effect if self.effect == self.analysis else f"{self.analysis}: {self.effect}"

    @property
    def interval(self) -> Interval:
        return Interval(self.estimate, self.standard_error, self.low, self.high)

    @property
    def standardised(self) -> Interval:
        """In standard deviations of the outcome, which is taken as known."""
        return Interval(*(number / self.outcome_sd for number in self.interval))

    @property
    def percent(self) -> Interval:
        """e^effect − 1 in per cent."""
        ends = [log_to_percent(end) for end in (self.estimate, self.low, self.high)]
        return Interval(ends[0], math.nan, *ends[1:])
