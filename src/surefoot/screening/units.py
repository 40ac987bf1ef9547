"""Values in another unit, or with a decimal point in another place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.numerics.masked_quantiles import quantiles
from surefoot.screening.detectors import Detector
from surefoot.screening.series import Block, Found

Array = NDArray[np.float64]
FIRST_RECORD = 8
"""With fewer values a participant's own distribution is not known; it is looked at again whenever the record has doubled."""
CANDIDATE = 3.0
"""In quartile scales: what lies nearer is an ordinary value in its own unit."""
QUARTILE = 0.6745
"""Of a standard normal variable."""
SCALE_WEIGHT = 20.0
"""The population's scale counts as much as so many values of the participant's own."""
DEGREES = (3.0, 8.0, 30.0)
ROUNDS = 3
COMPARED = 50
"""Participants of the sample whose records decide how long the tails are."""
FAR = 4.0
"""In quartile scales: what lies beyond is a tail or another unit."""
CLUSTER_EVIDENCE = 5.0
"""Log-likelihood by which other units must beat a long tail."""
LEAST_VALUES = 3.0
"""So few values in another unit may be chance: a cluster is what is more."""
RARE = 1e-5
"""The least share of a unit, for a participant who alone has it."""


class Usual(NamedTuple):
    """What is usual in the population, per column."""

    places: tuple[int, ...]
    centre: Array
    scales: Array
    """Lower and upper quartile distance as standard deviations, (columns, 2)."""
    share: Array
    """Of values in each other unit, (columns, factors)."""
    positive: NDArray[np.bool_]
    """Whether the column is judged by its logarithm, (columns,)."""
    degrees: Array
    """Of freedom: how long the tails are, (columns,)."""


class Records(NamedTuple):
    """Everybody's values on their scale, which is that of `Usual.positive`."""

    values: Array
    """(columns, participants, decision points); zeros are missing."""
    references: dict[int, tuple[Array, Array, NDArray[np.int64]]]
    """Centre, scales and number of values by the length of the record, kept while everything in it is trusted."""

    @classmethod
    def read(cls, measured: Array, positive: NDArray[np.bool_]) -> Records:
        return cls(_on_scale(measured, positive), {})


@dataclass(frozen=True)
class Units(Detector):
    """Clusters at × 10, ÷ 1000 and so on of the participant's own distribution.

    A mixture: a value x has density f(x) in its own unit, f(x / k) / k in one that is k times as fine. f is Student's t
    about the median of the participant's record so far, with a scale from each quartile (drawn towards the population's).
    It has 3 degrees of freedom, so that long tails and skewness are not taken for another unit; only where a cluster
    stands out even so, and fits other units better than a long tail, the degrees of freedom and the shares of the units
    are those that explain the sample best. A column of positive values is judged by its logarithm, in which another unit is
    a step of log k: where honest values are spread wider than that step, units cannot be told apart and none is flagged.
    A participant's own record so far moves the shares.

    Parameters
    ----------
    threshold
        A value is flagged when it is at least this likely in another unit.
    factors
        The units looked for. Beside powers of ten a study may have 2.2046 (pounds for kilograms).
    weight
        The population's share of a unit counts as much as this many values of the participant's own.
    """

    name: ClassVar[str] = "units"
    reasons: ClassVar[tuple[str, ...]] = ("unit",)
    reference: ClassVar[str] = (
        "Di Zio M, Guarnera U, Luzi O (2005), Editing systematic unity measure errors through mixture modelling, Survey "
        "Methodology 31(1):53-63."
    )
    threshold: float = 0.5
    factors: tuple[float, ...] = (10.0, 100.0, 1000.0, 0.1, 0.01, 0.001)
    weight: float = 50.0

    def check(self) -> None:
        proper = all(np.isfinite(k) and k > 0 and k != 1 for k in self.factors)
        if not (0 < self.threshold < 1 and self.weight > 0 and self.factors and proper):
            raise InputError(f"units needs 0 < threshold < 1, weight > 0 and factors above 0 other than 1; got {self}")

    def learn(self, sample: Block) -> Usual:
        return self._learn(sample)[0]

    def learn_and_find(self, block: Block) -> tuple[Usual, list[Found]]:
        usual, records = self._learn(block)
        return usual, self._find(block, usual, records)

    def _learn(self, sample: Block) -> tuple[Usual, Records]:
        places = tuple(sample.layout.measured)
        measured = sample.values[list(places)]
        with np.errstate(invalid="ignore"):
            positive = np.asarray(~(measured < 0).any(axis=(1, 2)))
        records = Records.read(measured, positive)
        every = records.values.reshape(len(places), int(np.prod(measured.shape[1:])))
        middle, scales = _quartiles(every, ~np.isnan(every))
        start = Usual(places, middle, scales, np.empty((len(places), 0)), positive, np.empty(0))
        count = np.maximum((~np.isnan(measured)).sum(axis=(1, 2)), 1)[:, None]
        return self._find_clusters(records, start, count), records

    def _find_clusters(self, records: Records, start: Usual, count: NDArray[np.int64]) -> Usual:
        """The shares of units and the tails of every column; the least shares and the longest tails where no cluster is."""
        cautious = self._shares(records, start, DEGREES[0], count)
        rare = cautious._replace(share=np.full_like(cautious.share, RARE))
        apart = (cautious.share > RARE).any(axis=1)
        if not apart.any():
            return rare
        some = np.flatnonzero(apart)
        part = start._replace(**{name: getattr(start, name)[some] for name in ("centre", "scales", "positive")})
        own = Records(records.values[some], {})
        fits = [self._shares(own, part, degrees, count[some]) for degrees in DEGREES]
        chosen = np.argmax([self._log_likelihood(own.values, fit) for fit in fits], axis=0)
        share = np.stack([fit.share for fit in fits])[chosen, np.arange(len(some))]
        best = fits[0]._replace(share=share, degrees=np.array(DEGREES)[chosen])
        cluster = self._is_cluster(own.values, best)
        rare.share[some[cluster]], rare.degrees[some[cluster]] = best.share[cluster], best.degrees[cluster]
        return rare

    def _shares(self, records: Records, usual: Usual, degrees: float, count: NDArray[np.int64]) -> Usual:
        """Expectation and maximisation of the units' shares, tails being so long; `count` of values, zeros included."""
        columns = len(usual.centre)
        usual = usual._replace(degrees=np.full(columns, degrees), share=np.full((columns, len(self.factors)), 0.01))
        for _ in range(ROUNDS):
            total = self._chances(records, usual)[1].sum(axis=1)
            usual = usual._replace(share=np.maximum(np.maximum(total - LEAST_VALUES, 0.0) / count, RARE))
            if (usual.share == RARE).all():
                # No unit has more than chance: with smaller shares even fewer values would be in one.
                break
        return usual

    def _whole_records(self, values: Array, usual: Usual) -> tuple[Array, tuple[Array, ...]]:
        """Some of the sample's values, and centre, scales and degrees of freedom from each whole record."""
        values = values[:, :COMPARED]
        ordinary = self._chances(Records(values, {}), usual)[0] < 0.5
        trusted = ~np.isnan(values) & ordinary
        centre, scales = _reference(values, trusted, trusted.sum(axis=2), usual)
        return values, (centre[..., None], scales[..., 0, None], scales[..., 1, None], usual.degrees[:, None, None])

    def _log_likelihood(self, values: Array, usual: Usual) -> Array:
        """Of every column of the sample, given each participant's whole record."""
        values, about = self._whole_records(values, usual)
        total = np.sum(self._densities(values, usual, about), axis=0)
        return np.asarray(np.nansum(np.log(np.maximum(total, 1e-300)), axis=(1, 2)))

    def _densities(self, values: Array, usual: Usual, about: tuple[Array, ...]) -> list[Array]:
        """Of each value in its own unit, then in every other: share times density."""
        share, positive = usual.share[:, :, None, None], usual.positive[:, None, None]
        found = [(1 - share.sum(axis=1)) * _density(values, *about)]
        for place, factor in enumerate(self.factors):
            other = np.where(positive, values - np.log(factor), values / factor)
            found.append(share[:, place] * _density(other, *about) / np.where(positive, 1.0, factor))
        return found

    def _is_cluster(self, values: Array, usual: Usual) -> NDArray[np.bool_]:
        """Whether what lies far out looks more like other units than like a long tail, for every column.

        With y how far out, in scales, the tail is Pareto's or exponential, whichever fits better.
        """
        from scipy.special import xlogy

        values, about = self._whole_records(values, usual)
        centre, low, high, _ = about
        y = np.where(values > centre, (values - centre) / high, (centre - values) / low)
        with np.errstate(invalid="ignore"):
            far = y > FAR
        count = np.maximum(far.sum(axis=(1, 2)), 1)
        steps = np.where(far, np.log(np.where(far, y, FAR) / FAR), 0.0).sum(axis=(1, 2)) / count
        excess = np.where(far, y - FAR, 0.0).sum(axis=(1, 2)) / count
        pareto = -np.log(np.maximum(steps, 1e-12)) - steps - 1 - np.log(FAR)
        exponential = -np.log(np.maximum(excess, 1e-12)) - 1
        above = (far & (values > centre)).sum(axis=(1, 2)) / count
        sides = xlogy(above, above) + xlogy(1 - above, 1 - above)
        # Densities of y: those of the value times the scale of its side, and only beyond FAR.
        scale = np.where(values > centre, high, low)
        units = sum(self._densities(values, usual, about)[1:]) * scale
        within = np.where(far, np.log(np.maximum(units, 1e-300)), 0.0).sum(axis=(1, 2)) / count
        beyond = self._chance_beyond(usual, about)
        return np.asarray(count * (within - np.log(beyond) - sides - np.maximum(pareto, exponential)) > CLUSTER_EVIDENCE)

    def _chance_beyond(self, usual: Usual, about: tuple[Array, ...]) -> Array:
        """Mean over participants of the chance that a value in another unit lies far out, summed over units."""
        from scipy.special import stdtr

        centre, low, high, degrees = about
        total = np.zeros(len(centre))
        for place, factor in enumerate(self.factors):
            inside = np.zeros(centre.shape)
            for sign, limit in ((1, centre + FAR * high), (-1, centre - FAR * low)):
                other = np.where(usual.positive[:, None, None], limit - np.log(factor), limit / factor)
                inside += sign * stdtr(degrees, (other - centre) / np.where(other > centre, high, low))
            total += usual.share[:, place] * (1 - inside).mean(axis=(1, 2))
        return np.maximum(total, 1e-300)

    def find(self, block: Block, usual: Any) -> list[Found]:
        return self._find(block, usual, Records.read(block.values[list(usual.places)], usual.positive))

    def _find(self, block: Block, usual: Usual, records: Records) -> list[Found]:
        chance, _ = self._chances(records, usual)
        found = []
        for place, one in zip(usual.places, chance, strict=True):
            if (one >= self.threshold).any():
                name = block.layout.columns[place].name
                found.append(Found(name, "unit", np.where(one >= self.threshold, one, np.nan)))
        return found

    def _chances(self, records: Records, usual: Usual) -> tuple[Array, Array]:
        """How likely each value is in another unit, and how many of each participant's are: (columns, participants, …)."""
        values = records.values
        chance = np.zeros(values.shape)
        so_far = np.zeros((*values.shape[:2], len(self.factors)))
        points, begin = values.shape[2], 0
        while begin < points:
            end = min(max(2 * begin, FIRST_RECORD), points)
            centre, scales, count = self._refer(records, chance[..., :begin] < 0.5, usual)
            own = (self.weight * usual.share[:, None] + so_far) / (self.weight + count)[..., None]
            self._judge(values[..., begin:end], centre, scales, own, usual, chance[..., begin:end], so_far)
            begin = end
        return chance, so_far

    def _refer(self, records: Records, ordinary: NDArray[np.bool_], usual: Usual) -> tuple[Array, Array, NDArray[np.int64]]:
        """Centre, scales and number of the values so far that are ordinary."""
        length, whole = ordinary.shape[2], bool(ordinary.all())
        if whole and length in records.references:
            return records.references[length]
        known = records.values[..., :length]
        trusted = ~np.isnan(known) & ordinary
        count = trusted.sum(axis=2)
        found = (*_reference(known, trusted, count, usual), count)
        if whole:
            records.references[length] = found
        return found

    def _judge(
        self,
        values: Array,
        centre: Array,
        scales: Array,
        share: Array,
        usual: Usual,
        chance: Array,
        so_far: Array,
    ) -> None:
        """Fill `chance` for some decision points and add to `so_far`."""
        spread = (scales > 0).all(axis=-1)
        above = np.where(spread, centre + CANDIDATE * scales[..., 1], np.inf)[..., None]
        below = np.where(spread, centre - CANDIDATE * scales[..., 0], -np.inf)[..., None]
        candidates = np.nonzero((values > above) | (values < below))
        if not len(candidates[0]):
            return
        column, participant, _ = candidates
        x, logarithm = values[candidates], usual.positive[column]
        about = (centre[column, participant], *scales[column, participant].T, usual.degrees[column])
        here, factors = share[column, participant].T, np.array([1.0, *self.factors])[:, None]
        # In its own unit, then in every other: (units, candidates).
        density = _density(np.where(logarithm, x - np.log(factors), x / factors), *about)
        density *= np.concatenate([1 - here.sum(axis=0, keepdims=True), here]) / np.where(logarithm, 1.0, factors)
        likely = (density[1:] / np.maximum(density.sum(axis=0), 1e-300)).T
        chance[candidates] = likely.sum(axis=1)
        np.add.at(so_far, (column, participant), likely)


def _on_scale(values: Array, positive: NDArray[np.bool_]) -> Array:
    """Logarithms of columns of positive values; zeros are missing."""
    found = values.copy()
    found[found == 0] = np.nan
    for place in np.flatnonzero(positive):
        found[place] = np.log(np.where(found[place] > 0, found[place], np.nan))
    return found


def _quartiles(values: Array, present: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Median, and the distance to either quartile as a standard deviation, along the last axis; 0 where nothing is."""
    if not values.shape[-1]:
        return np.zeros(values.shape[:-1]), np.zeros((*values.shape[:-1], 2))
    some = present.any(axis=-1)
    low, middle, high = (np.where(some, one, 0.0) for one in quantiles(values, present, (0.25, 0.5, 0.75)))
    return middle, np.stack([middle - low, high - middle], axis=-1) / QUARTILE


def _reference(known: Array, trusted: NDArray[np.bool_], count: NDArray[np.int64], usual: Usual) -> tuple[Array, Array]:
    """Centre and scales of every participant: the own record's, drawn towards the population's while it is short."""
    middle, own = _quartiles(known, trusted)
    enough = count >= FIRST_RECORD - 2
    part = np.where(enough, count / (count + SCALE_WEIGHT), 0.0)[..., None]
    scales = np.sqrt(part * own**2 + (1 - part) * usual.scales[:, None] ** 2)
    return np.where(enough, middle, usual.centre[:, None]), scales


def _density(x: Array, centre: Array, low: Array, high: Array, degrees: Array) -> Array:
    """Student's t about the centre, with a scale for each side."""
    from scipy.special import gammaln

    z = (x - centre) / np.where(x > centre, high, low)
    height = np.exp(gammaln((degrees + 1) / 2) - gammaln(degrees / 2)) / np.sqrt(degrees * np.pi)
    return np.asarray(height * (1 + z**2 / degrees) ** (-(degrees + 1) / 2) * 2 / (low + high))
