"""What an off-policy evaluation gives: the values of several policies, and how far the logs speak about them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from surefoot.data.frames import make_frame
from surefoot.inference.intervals import Interval
from surefoot.log_checks import Check
from surefoot.reports.reward_units import RewardUnit

LOGGED = "as logged"
"""The policy that made the logs."""
PREFERRED = "doubly robust"
"""The estimator that sentences speak of."""


@dataclass(frozen=True)
class Value:
    """What one policy is worth by one estimator, and how much more than the logging policy.

    Attributes
    ----------
    policy
        Its name.
    estimator
        Its name.
    value
        The mean reward per decision point under the policy.
    difference
        To the mean reward of the logs, paired within people.
    """

    policy: str
    estimator: str
    value: Interval
    difference: Interval


@dataclass(frozen=True)
class Contrast:
    """How much more one baseline is worth than another, by the preferred estimator.

    Attributes
    ----------
    policy
        Name of the one.
    other
        Name of the other.
    difference
        Paired within people.
    """

    policy: str
    other: str
    difference: Interval


@dataclass(frozen=True)
class Overlap:
    """How far the logs speak about a policy.

    Attributes
    ----------
    policy
        Its name.
    what
        What it is, in words.
    action_rates
        Mean probability of every action, nothing first.
    effective_sample_size
        (Σρ)² / Σρ²: as many decision points drawn from the policy itself would tell as much.
    largest_ratio
        The largest ρ.
    warning
        Empty when the overlap is good.
    """

    policy: str
    what: str
    action_rates: tuple[float, ...]
    effective_sample_size: float
    largest_ratio: float
    warning: str

    @property
    def send_rate(self) -> float:
        """Mean probability of an action other than nothing."""
        return 1 - self.action_rates[0]


@dataclass(frozen=True)
class LongRunValue:
    """What one policy is worth once it has been in force for long.

    Attributes
    ----------
    policy
        Its name.
    value
        The average outcome per decision point.
    difference
        To never acting, paired within people.
    immediate_difference
        To never acting, by the next outcome alone.
    """

    policy: str
    value: Interval
    difference: Interval
    immediate_difference: float

    @property
    def disagreement(self) -> str:
        """Why a look at the next outcome alone would mislead; empty when it would not."""
        if self.difference.high < 0 < self.immediate_difference:
            return "its prompts pay now and cost later"
        if self.immediate_difference < 0 < self.difference.low:
            return "its prompts cost now and pay later"
        return ""


@dataclass(frozen=True, repr=False)
class PolicyValues:
    """Values of several policies from the same logs."""

    people: int
    decision_points: int
    action_names: tuple[str, ...]
    unit: RewardUnit
    cross_fit: str
    critic: str
    estimators: tuple[str, ...]
    values: tuple[Value, ...]
    overlap: tuple[Overlap, ...]
    contrasts: tuple[Contrast, ...]
    """Of every baseline that sends with the one that never does: what sending is worth."""
    long_run: tuple[LongRunValue, ...] = ()
    """Empty unless they were asked for."""
    checks: tuple[Check, ...] = ()
    """Whether the logs are what they are said to be; those that are not fine are shown first."""
    notes: tuple[str, ...] = ()
    """What is to be kept in mind, in words."""

    def __repr__(self) -> str:
        names = ", ".join(row.policy for row in self.overlap)
        return f"{type(self).__name__}({names}: {self.people} people, {self.decision_points} decision points)"

    def value(self, policy: str, estimator: str = PREFERRED) -> Value:
        """What one policy is worth by one estimator."""
        return next(found for found in self.values if (found.policy, found.estimator) == (policy, estimator))

    def to_frame(self, backend: str = "pyarrow") -> Any:
        """One row per policy and estimator, in columns policy, estimator, value, standard_error, low, high, difference, …"""
        rows = [
            {
                "policy": found.policy,
                "estimator": found.estimator,
                **found.value._asdict(),
                "difference": found.difference.value,
                "difference_low": found.difference.low,
                "difference_high": found.difference.high,
            }
            for found in self.values
        ]
        return make_frame({name: [row[name] for row in rows] for name in rows[0]}, backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        values = [
            {**asdict(found), "value": found.value._asdict(), "difference": found.difference._asdict()}
            for found in self.values
        ]
        contrasts = [{**asdict(found), "difference": found.difference._asdict()} for found in self.contrasts]
        long_run = [
            {
                **asdict(found),
                "value": found.value._asdict(),
                "difference": found.difference._asdict(),
                "disagreement": found.disagreement,
            }
            for found in self.long_run
        ]
        overlap = [{**asdict(found), "send_rate": found.send_rate} for found in self.overlap]
        lists = {"values": values, "overlap": overlap, "contrasts": contrasts, "long_run": long_run}
        return {**asdict(self), "unit": str(self.unit), **lists}
