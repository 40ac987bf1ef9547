"""A device that is live or not, as a hidden Markov chain: for all devices and participants at once.

Hidden: live or not. Seen at every step: whether an *event* happened (a zero; a repeated value). A device that is not live
always gives the event, a live one at the participant's own rate, which starts at the population's and follows the
participant's record so far: rate = (w·population + events so far) / (w + live steps so far), where a step counts as far as
the device is believed live. Between steps it goes to *not live* with probability `enter` and back with `leave`; over a gap
of Δ typical gaps, with λ = −log(1 − enter − leave), by (1 − e^{−λΔ}) of the way to their ratio.

Arrays are (steps, groups, participants): a group is a device or a column with parameters of its own. Steps of several kinds
take turns (`kinds`): the state of a decision point, then its outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

LONGEST_GAP = 1000.0
USUAL_GAPS = (0.5, 2.0)
"""In typical gaps: only steps between these tell how often a device changes over one typical gap."""
PIECE = 50
"""Decision points of a piece of a record at least."""
SETTLED = 0.1
"""Probabilities that change by less than this share are learned."""
PRIOR_STEPS = 2.0
"""Pretended steps behind the first guess of every probability: a device that was never off tells little about `leave`."""


class Chain(NamedTuple):
    """What is usual: (kinds, groups) each. `enter[k]` and `leave[k]` belong to the change that leads to a step of kind k."""

    enter: Array
    leave: Array
    rate: Array

    @classmethod
    def first_guess(cls, rate: Array) -> Chain:
        return cls(np.full_like(rate, 0.02), np.full_like(rate, 0.15), rate)

    def moves(self, gaps: Array) -> tuple[Array, Array]:
        """enter and leave for every step, to be broadcast: (steps, groups, participants); `gaps` (decision points, …)."""
        kinds, groups = self.rate.shape
        if gaps.size and gaps.min() == gaps.max():
            gaps = gaps[:, :1]
        total = np.minimum(self.enter + self.leave, 0.999)[:, :, None]
        ways = np.broadcast_to(total, (len(gaps), kinds, groups, gaps.shape[1])).copy()
        # Only from one decision point to the next does time pass that is not the same for all.
        ways[:, 0] = -np.expm1(np.log1p(-total[0]) * gaps[:, None, :])
        share = (self.enter / (self.enter + self.leave))[:, :, None]
        shape = (len(gaps) * kinds, groups, gaps.shape[1])
        return (share * ways).reshape(shape), ((1 - share) * ways).reshape(shape)


def relative_gaps(gaps: Array, typical: float) -> Array:
    """(participants, decision points) in time units → (decision points, participants) in typical gaps."""
    found = gaps.T / typical
    found[np.isnan(found)] = 1.0
    return np.clip(found, 0.0, LONGEST_GAP)


@dataclass(frozen=True, eq=False)
class Filtered:
    """After each step: how likely the device is not live, and the rate at which a live one would have given the event."""

    not_live: Array
    rate: Array


def run_filter(event: Mask, seen: Mask, chain: Chain, moves: tuple[Array, Array], weight: float, floor: Array) -> Filtered:
    """Through time once. `floor` is what the rate is at least at each step, broadcast against the events."""
    enter, leave = moves
    kinds, groups, participants = *chain.rate.shape, event.shape[2]
    steps = np.full((kinds, groups, participants), float(weight))
    events = steps * chain.rate[:, :, None]
    now = np.broadcast_to((chain.enter[0] / (chain.enter[0] + chain.leave[0]))[:, None], (groups, participants))
    kept = Filtered(np.empty(event.shape), np.empty(event.shape))
    floor = np.broadcast_to(floor, event.shape)
    stay, quiet, unseen = 1 - enter - leave, ~event, ~seen
    for step in range(len(event)):
        kind, happened, there = step % kinds, event[step], seen[step]
        before = stay[step] * now + enter[step]
        rate = np.maximum(events[kind] / steps[kind], floor[step], out=kept.rate[step])
        now = kept.not_live[step]
        np.divide(before, rate + before * (1 - rate), out=now)
        np.copyto(now, 0.0, where=quiet[step])
        np.copyto(now, before, where=unseen[step])
        live = (1 - now) * there
        steps[kind] += live
        live *= happened
        events[kind] += live
    return kept


def look_ahead(event: Mask, seen: Mask, filtered: Filtered, moves: tuple[Array, Array], depth: NDArray[np.int64]) -> Array:
    """How likely the device is not live at each step, given also the next `depth` steps, (kinds, groups).

    >>> event, seen = np.array([1, 1, 0], bool).reshape(3, 1, 1), np.ones((3, 1, 1), bool)
    >>> chain = Chain(np.array([[0.1]]), np.array([[0.1]]), np.array([[0.5]]))
    >>> moves = chain.moves(np.ones((3, 1)))
    >>> filtered = run_filter(event, seen, chain, moves, 1e9, np.zeros(1))
    >>> filtered.not_live[:, 0, 0].round(3), look_ahead(event, seen, filtered, moves, np.array([[1]]))[:, 0, 0].round(3)
    (array([0.667, 0.776, 0.   ]), array([0.776, 0.277, 0.   ]))
    """
    found = np.zeros(event.shape)
    cells = np.nonzero(event & seen)  # Without the event a device is live.
    deep = depth[cells[0] % len(depth), cells[1]]
    live, dead = _messages(cells, deep, event, seen, filtered.rate, moves)
    weighed = filtered.not_live[cells] * dead
    found[cells] = weighed / np.maximum(weighed + (1 - filtered.not_live[cells]) * live, 1e-300)
    return found


Cells = tuple[NDArray[np.int64], ...]


def _messages(
    cells: Cells, depth: NDArray[np.int64], event: Mask, seen: Mask, rate: Array, moves: tuple[Array, Array]
) -> tuple[Array, Array]:
    """How likely what is seen at the next `depth` steps is, if the device is live here, and if it is not."""
    live, dead = np.ones(len(depth)), np.ones(len(depth))
    further = np.flatnonzero((depth > 0) & (cells[0] + 1 < len(event)))
    if not len(further):
        return live, dead
    step, group, participant = (one[further] for one in cells)
    place = (step + 1, group, participant)
    later = _messages(place, depth[further] - 1, event, seen, rate, moves)
    there, happened, often = seen[place], event[place], rate[place]
    next_live = np.where(there, np.where(happened, often, 1 - often), 1.0) * later[0]
    next_dead = np.where(there & ~happened, 0.0, 1.0) * later[1]
    enter, leave = (one[step + 1, group, participant if one.shape[2] > 1 else 0] for one in moves)
    live[further] = next_live + enter * (next_dead - next_live)
    dead[further] = next_dead + leave * (next_live - next_dead)
    return live, dead


def learn_chain(
    event: Mask, seen: Mask, gaps: Array, chain: Chain, *, weight: float, rounds: int, most_enter: float, floor: Array
) -> Chain:
    """Expectation and maximisation, forwards and backwards through the sample's whole records (Baum and others, 1970).

    With no round every step of the sample counts as live.
    """
    kinds, groups = chain.rate.shape
    pieces = max(1, len(gaps) // PIECE)
    event, seen, floor = (_fold(one, pieces, kinds) for one in (event, seen, np.broadcast_to(floor, event.shape)))
    gaps = _fold(gaps[:, None], pieces, 1)[:, 0]
    usual = (gaps >= USUAL_GAPS[0]) & (gaps <= USUAL_GAPS[1])
    first = chain
    if not rounds:
        steps, hits = (one.reshape(-1, kinds, groups, event.shape[2]).sum(axis=(0, 3)) for one in (seen, event & seen))
        seldom, often = first.enter / (steps + PRIOR_STEPS), (hits + PRIOR_STEPS * first.rate) / (steps + PRIOR_STEPS)
        return Chain(PRIOR_STEPS * seldom, first.leave, often)
    for _ in range(rounds):
        moves = chain.moves(gaps)
        filtered = run_filter(event, seen, chain, moves, weight, floor)
        dead, entered, left = _smooth_chain(filtered.not_live, moves)
        shape = (-1, kinds, groups, event.shape[2])
        counts = []
        for kind in range(kinds):
            # A change leads from the step before to this one; nobody changes before their first step.
            steps = np.arange(kind if kind else kinds, len(event), kinds)
            both = seen[steps] & seen[steps - 1] & (usual[steps // kinds][:, None, :] if kind == 0 else True)
            was_dead = dead[steps - 1]
            sums = [(one * both).sum(axis=(0, 2)) for one in (entered[steps], 1 - was_dead, left[steps], was_dead)]
            counts.append(sums)
        entered_sum, live_sum, left_sum, dead_sum = np.array(counts).transpose(1, 0, 2)
        live = np.where(seen, 1 - dead, 0.0).reshape(shape).sum(axis=(0, 3))
        hits = np.where(seen & event, 1 - dead, 0.0).reshape(shape).sum(axis=(0, 3))
        before, chain = (
            chain,
            Chain(
                np.minimum((entered_sum + PRIOR_STEPS * first.enter) / (live_sum + PRIOR_STEPS), most_enter),
                (left_sum + PRIOR_STEPS * first.leave) / (dead_sum + PRIOR_STEPS),
                (hits + PRIOR_STEPS * first.rate) / (live + PRIOR_STEPS),
            ),
        )
        if all(np.allclose(new, old, rtol=SETTLED) for new, old in zip(chain, before, strict=True)):
            break
    return chain


def _fold(array: NDArray[Any], pieces: int, kinds: int) -> NDArray[Any]:
    """Records (steps, groups, participants) as so many pieces, one beside the other: fewer steps of more participants.

    What is learned from pieces differs little, and the loop over steps is what costs time.
    """
    size = -(-len(array) // (kinds * pieces)) * kinds
    wide = np.zeros((pieces * size, *array.shape[1:]), dtype=array.dtype)
    wide[: len(array)] = array
    return np.concatenate(np.split(wide, pieces), axis=2)


def _smooth_chain(not_live: Array, moves: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    """Given the whole record: not live at each step; went there, and came back, on the way to each step."""
    # Only what needs the step after it is left to the loop.
    was, into, out = not_live[:-1], moves[0][1:], moves[1][1:]
    gone, stayed, back = (1 - was) * into, was * (1 - out), was * out
    to_dead = np.maximum(gone + stayed, 1e-300)
    to_live = np.maximum(back + (1 - was) * (1 - into), 1e-300)
    dead, entered, left = not_live.copy(), np.zeros_like(not_live), np.zeros_like(not_live)
    for step in range(len(dead) - 1, 0, -1):
        here = dead[step] / to_dead[step - 1]
        np.multiply(gone[step - 1], here, out=entered[step])
        np.multiply(back[step - 1], (1 - dead[step]) / to_live[step - 1], out=left[step])
        np.add(stayed[step - 1] * here, left[step], out=dead[step - 1])
    return dead, entered, left
