"""Hidden Markov chain of a device that is live or not, for all devices and participants at once.

The hidden state is live or not live. Each step shows whether an *event* happened (a zero, or a repeated value). A device
that is not live always gives the event. A live device gives it at the participant's own rate, which starts at the
population's rate and follows the participant's record so far: rate = (w·population + events so far) / (w + live steps so
far), where each step is weighted by the probability that the device is live. Between steps the device becomes *not live*
with probability `enter` and live again with probability `leave`. Over a gap of Δ typical gaps the chain moves the share
1 − e^{−λΔ} of the way to its stationary distribution, with λ = −log(1 − enter − leave).

Arrays are (steps, groups, participants): a group is a device, or a column with its own parameters. Several `kinds` of steps
alternate: the state of a decision point, then its outcome.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.screening.detectors import Detector

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Moves = tuple[Array, Array]
"""`enter` and `leave` of every step, to broadcast to (steps, groups, participants)."""

LONGEST_GAP = 1000.0
TYPICAL_GAPS = (0.5, 2.0)
"""In typical gaps: only steps in this range are used to learn how often a device changes over one typical gap."""
PIECE = 50
"""Least number of decision points in a piece of a record."""
SETTLED = 0.1
"""Learning stops once all probabilities change by less than this share."""
PRIOR_STEPS = 2.0
"""Weight, in steps, of the first guess of every probability: a device that was never off says little about `leave`."""


@dataclass(frozen=True)
class ChainDetector(Detector):
    """A detector that judges events by the chain."""

    threshold: float = 0.9
    """A value is flagged when the probability that its device is not live is at least this."""
    weight: float = 20.0
    """The population's rate of events counts as much as this many decision points of the participant's own."""
    rounds: int = 4
    """Steps of expectation and maximisation."""

    def check(self) -> None:
        if not (0.5 <= self.threshold < 1 and self.weight > 0 and self.rounds >= 1):
            raise InputError(f"{self.name} needs 0.5 <= threshold < 1, weight > 0 and rounds >= 1; got {self}")


class Chain(NamedTuple):
    """Probabilities of the population, (kinds, groups) each. `enter[k]` and `leave[k]` apply to the change before a step of
    kind k."""

    enter: Array
    leave: Array
    rate: Array

    @classmethod
    def first_guess(cls, rate: Array) -> "Chain":
        return cls(np.full_like(rate, 0.02), np.full_like(rate, 0.15), rate)

    def moves(self, gaps: Array) -> Moves:
        """From gaps (decision points, participants)."""
        kinds, groups = self.rate.shape
        if gaps.size and gaps.min() == gaps.max():
            gaps = gaps[:, :1]
        total = np.minimum(self.enter + self.leave, 0.999)[:, :, None]
        ways = np.broadcast_to(total, (len(gaps), kinds, groups, gaps.shape[1])).copy()
        # Only the time between decision points varies; the time from a state to its outcome does not.
        ways[:, 0] = -np.expm1(np.log1p(-total[0]) * gaps[:, None, :])
        share = (self.enter / (self.enter + self.leave))[:, :, None]
        shape = (len(gaps) * kinds, groups, gaps.shape[1])
        return (share * ways).reshape(shape), ((1 - share) * ways).reshape(shape)


def relative_gaps(gaps: Array, typical: float) -> Array:
    """(participants, decision points) in time units → (decision points, participants) in typical gaps."""
    relative = gaps.T / typical
    relative[np.isnan(relative)] = 1.0
    return np.clip(relative, 0.0, LONGEST_GAP)


class Filtered(NamedTuple):
    """After each step: the probability that the device is not live, and the rate of the event for a live device."""

    not_live: Array
    rate: Array


def run_filter(event: Mask, seen: Mask, chain: Chain, moves: Moves, weight: float, floor: Array) -> Filtered:
    """Filter forwards in time. `floor` is the least rate at each step, broadcast against the events."""
    enter, leave = moves
    kinds, groups = chain.rate.shape
    participants = event.shape[2]
    steps = np.full((kinds, groups, participants), float(weight))
    events = steps * chain.rate[:, :, None]
    now = np.broadcast_to((chain.enter[0] / (chain.enter[0] + chain.leave[0]))[:, None], (groups, participants))
    filtered = Filtered(np.empty(event.shape), np.empty(event.shape))
    floor = np.broadcast_to(floor, event.shape)
    stay = 1 - enter - leave
    for step in range(len(event)):
        kind = step % kinds
        before = stay[step] * now + enter[step]
        rate = np.maximum(events[kind] / steps[kind], floor[step], out=filtered.rate[step])
        now = np.divide(before, rate + before * (1 - rate), out=filtered.not_live[step])
        np.copyto(now, 0.0, where=~event[step])
        np.copyto(now, before, where=~seen[step])
        live = (1 - now) * seen[step]
        steps[kind] += live
        events[kind] += live * event[step]
    return filtered


def look_ahead(event: Mask, seen: Mask, filtered: Filtered, moves: Moves, depth: NDArray[np.int64]) -> Array:
    """Probability that the device is not live at each step, given the steps so far and the next `depth`, (kinds, groups).

    >>> event, seen = np.array([1, 1, 0], bool).reshape(3, 1, 1), np.ones((3, 1, 1), bool)
    >>> chain = Chain(np.array([[0.1]]), np.array([[0.1]]), np.array([[0.5]]))
    >>> moves = chain.moves(np.ones((3, 1)))
    >>> filtered = run_filter(event, seen, chain, moves, 1e9, np.zeros(1))
    >>> filtered.not_live[:, 0, 0].round(3), look_ahead(event, seen, filtered, moves, np.array([[1]]))[:, 0, 0].round(3)
    (array([0.667, 0.776, 0.   ]), array([0.776, 0.277, 0.   ]))
    """
    not_live = np.zeros(event.shape)
    cells = np.nonzero(event & seen)  # A step without the event shows that the device is live.
    deep = depth[cells[0] % len(depth), cells[1]]
    live, dead = _messages(cells, deep, event, seen, filtered.rate, moves)
    weighed = filtered.not_live[cells] * dead
    not_live[cells] = weighed / np.maximum(weighed + (1 - filtered.not_live[cells]) * live, 1e-300)
    return not_live


def _messages(
    cells: tuple[NDArray[np.int64], ...], depth: NDArray[np.int64], event: Mask, seen: Mask, rate: Array, moves: Moves
) -> tuple[Array, Array]:
    """Likelihoods of the next `depth` steps if the device is live at the cell, and if it is not."""
    live = np.ones(len(depth))
    dead = np.ones(len(depth))
    further = np.flatnonzero((depth > 0) & (cells[0] + 1 < len(event)))
    if not len(further):
        return live, dead
    step, group, participant = (index[further] for index in cells)
    following = (step + 1, group, participant)
    later = _messages(following, depth[further] - 1, event, seen, rate, moves)
    quiet = seen[following] & ~event[following]
    often = np.where(seen[following], np.where(event[following], rate[following], 1 - rate[following]), 1.0)
    next_live = often * later[0]
    next_dead = np.where(quiet, 0.0, later[1])
    enter, leave = (probability[step + 1, group, participant if probability.shape[2] > 1 else 0] for probability in moves)
    live[further] = next_live + enter * (next_dead - next_live)
    dead[further] = next_dead + leave * (next_live - next_dead)
    return live, dead


def learn_chain(
    event: Mask, seen: Mask, gaps: Array, chain: Chain, *, weight: float, rounds: int, most_enter: float, floor: Array
) -> Chain:
    """Learn the chain by expectation and maximisation on the sample's complete records (Baum and others, 1970).

    With `rounds = 0` every step of the sample counts as live.
    """
    kinds, groups = chain.rate.shape
    pieces = max(1, len(gaps) // PIECE)
    floor = _fold(np.broadcast_to(floor, event.shape), pieces, kinds)
    event = _fold(event, pieces, kinds)
    seen = _fold(seen, pieces, kinds)
    gaps = _fold(gaps[:, None], pieces, 1)[:, 0]
    typical = (gaps >= TYPICAL_GAPS[0]) & (gaps <= TYPICAL_GAPS[1])
    first = chain

    def sum_by_kind(values: NDArray[Any]) -> Array:
        return np.asarray(values.reshape(-1, kinds, groups, event.shape[2]).sum(axis=(0, 3)))

    def blend(sums: Array, counts: Array, guess: Array) -> Array:
        return (sums + PRIOR_STEPS * guess) / (counts + PRIOR_STEPS)

    if not rounds:
        count = sum_by_kind(seen)
        rate = blend(sum_by_kind(event & seen), count, first.rate)
        return Chain(blend(np.zeros(1), count, first.enter), first.leave, rate)
    for _ in range(rounds):
        moves = chain.moves(gaps)
        filtered = run_filter(event, seen, chain, moves, weight, floor)
        dead, entered, left = _smooth_chain(filtered.not_live, moves)
        counts = []
        for kind in range(kinds):
            # A change happens between two steps, so the first step has none.
            steps = np.arange(kind if kind else kinds, len(event), kinds)
            both = seen[steps] & seen[steps - 1] & (typical[steps // kinds][:, None, :] if kind == 0 else True)
            was_dead = dead[steps - 1]
            chances = (entered[steps], 1 - was_dead, left[steps], was_dead)
            counts.append([(chance * both).sum(axis=(0, 2)) for chance in chances])
        entered_sum, live_sum, left_sum, dead_sum = np.array(counts).transpose(1, 0, 2)
        live = np.where(seen, 1 - dead, 0.0)
        before = chain
        chain = Chain(
            np.minimum(blend(entered_sum, live_sum, first.enter), most_enter),
            blend(left_sum, dead_sum, first.leave),
            blend(sum_by_kind(np.where(event, live, 0.0)), sum_by_kind(live), first.rate),
        )
        if all(np.allclose(new, old, rtol=SETTLED) for new, old in zip(chain, before, strict=True)):
            break
    return chain


def _fold(array: NDArray[Any], pieces: int, kinds: int) -> NDArray[Any]:
    """Cut records (steps, groups, participants) into pieces and treat each piece as a participant: fewer steps to loop over.

    The loop over steps takes most of the time, and learning from pieces changes the result little.
    """
    size = -(-len(array) // (kinds * pieces)) * kinds
    wide = np.zeros((pieces * size, *array.shape[1:]), dtype=array.dtype)
    wide[: len(array)] = array
    return np.concatenate(np.split(wide, pieces), axis=2)


def _smooth_chain(not_live: Array, moves: Moves) -> tuple[Array, Array, Array]:
    """Probabilities given the complete record: not live at each step; became not live, and live again, before each step."""
    # The loop holds only the terms that depend on the next step.
    was = not_live[:-1]
    into = moves[0][1:]
    out = moves[1][1:]
    gone = (1 - was) * into
    stayed = was * (1 - out)
    back = was * out
    to_dead = np.maximum(gone + stayed, 1e-300)
    to_live = np.maximum(back + (1 - was) * (1 - into), 1e-300)
    dead = not_live.copy()
    entered = np.zeros_like(not_live)
    left = np.zeros_like(not_live)
    for step in range(len(dead) - 1, 0, -1):
        ratio = dead[step] / to_dead[step - 1]
        np.multiply(gone[step - 1], ratio, out=entered[step])
        np.multiply(back[step - 1], (1 - dead[step]) / to_live[step - 1], out=left[step])
        np.add(stayed[step - 1] * ratio, left[step], out=dead[step - 1])
    return dead, entered, left
