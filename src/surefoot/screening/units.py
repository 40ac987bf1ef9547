"""Detects values in another unit, or with a misplaced decimal point."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.numerics.masked_quantiles import quantiles
from surefoot.reports.numbers import format_percent
from surefoot.screening.detectors import Detection, Detector, Floats, Mask, ScreenBatch

FIRST_RECORD = 8
"""Values needed to estimate a participant's distribution, which is estimated again whenever the record has doubled."""
CANDIDATE = 3.0
"""In quartile scales: values nearer to the centre are in their own unit."""
QUARTILE = 0.6745
"""Of a standard normal variable."""
SCALE_WEIGHT = 20.0
"""The population's scale counts as much as this many of the participant's values."""
DEGREES = (3.0, 8.0, 30.0)
ROUNDS = 3
COMPARED = 50
"""Participants of the sample whose records are used to estimate how long the tails are."""
FAR = 4.0
"""In quartile scales: values beyond are in a tail or in another unit."""
CLUSTER_EVIDENCE = 5.0
"""Least log-likelihood ratio of other units against a long tail."""
LEAST_VALUES = 3.0
"""This many values in another unit may be chance; a cluster has more."""
RARE = 1e-5
"""The least share of a unit, so that a single participant may have one."""


class UnitModel(NamedTuple):
    """Distribution and shares of other units in the population, per column."""

    columns: tuple[int, ...]
    centre: Floats
    scales: Floats
    """Lower and upper quartile distance as standard deviations, (columns, 2)."""
    share: Floats
    """Share of the values in each other unit, (columns, factors)."""
    positive: Mask
    """Whether the column is judged by its logarithm, (columns,)."""
    degrees: Floats
    """Degrees of freedom of Student's t, (columns,); the fewer, the longer the tails."""


References = dict[int, tuple[Floats, Floats, NDArray[np.int64]]]
"""Centre, scales and number of values by the length of the record; stored for records that are trusted completely."""


@dataclass(frozen=True)
class Units(Detector):
    """Clusters at × 10, ÷ 1000 and so on of the participant's own distribution.

    The model is a mixture: a value x has density f(x) in its own unit and f(x / k) / k in a unit that is k times as fine.
    f is Student's t about the median of the participant's record so far, with one scale per side from the quartiles, shrunk
    towards the population's scale. It has 3 degrees of freedom, so that long tails and skewness are not mistaken for
    another unit. Only where a cluster still stands out, and other units fit it better than a long tail does, the degrees of
    freedom and the shares of the units are chosen by likelihood. A column of positive values is judged by its logarithm, in
    which another unit is a step of log k; where honest values spread wider than that step, units are indistinguishable and
    no value is flagged. The participant's own record so far updates the shares.
    """

    name: ClassVar[str] = "units"
    reasons: ClassVar[tuple[str, ...]] = ("unit",)
    reference: ClassVar[str] = (
        "Di Zio M, Guarnera U, Luzi O (2005), Editing systematic unity measure errors through mixture modelling, Survey "
        "Methodology 31(1):53-63."
    )
    threshold: float = 0.5
    """A value is flagged when the probability that it is in another unit is at least this."""
    factors: tuple[float, ...] = (10.0, 100.0, 1000.0, 0.1, 0.01, 0.001)
    """The factors between units. A study may add 2.2046 (pounds for kilograms) to the powers of ten."""
    weight: float = 50.0
    """The population's share of a unit counts as much as this many values of the participant's own."""

    def describe(self) -> str:
        return (
            "Values that are probably in another unit, such as 10 or 1,000 times the usual values of the participant. The "
            f"probability of that is at least {format_percent(self.threshold, 0)}."
        )

    def check(self) -> None:
        proper = all(np.isfinite(k) and k > 0 and k != 1 for k in self.factors)
        if not (0 < self.threshold < 1 and self.weight > 0 and self.factors and proper):
            raise InputError(f"units needs 0 < threshold < 1, weight > 0 and factors above 0 other than 1; got {self}")

    def learn(self, sample: ScreenBatch) -> UnitModel:
        columns = sample.layout.measured
        measured = sample.values[columns]
        with np.errstate(invalid="ignore"):
            positive = np.asarray(~(measured < 0).any(axis=(1, 2)))
        values = _take_logarithms(measured, positive)
        flat = values.reshape(len(columns), int(np.prod(measured.shape[1:])))
        middle, scales = _find_quartiles(flat, ~np.isnan(flat))
        start = UnitModel(tuple(columns), middle, scales, np.empty((len(columns), 0)), positive, np.empty(0))
        count = np.maximum((~np.isnan(measured)).sum(axis=(1, 2)), 1)[:, None]
        cautious = self._estimate_shares(values, {}, start, DEGREES[0], count)
        # The least shares and the longest tails where there is no cluster.
        model = cautious._replace(share=np.full_like(cautious.share, RARE))
        apart = np.flatnonzero((cautious.share > RARE).any(axis=1))
        if len(apart):
            start = start._replace(centre=middle[apart], scales=scales[apart], positive=positive[apart])
            values = values[apart]
            references: References = {}
            fits = [self._estimate_shares(values, references, start, degrees, count[apart]) for degrees in DEGREES]
            likelihoods = []
            for fit in fits:
                compared, about = self._whole_records(values, fit)
                total = np.sum(self._densities(compared, fit, about), axis=0)
                likelihoods.append(np.nansum(np.log(np.maximum(total, 1e-300)), axis=(1, 2)))
            chosen = np.argmax(likelihoods, axis=0)
            share = np.stack([fit.share for fit in fits])[chosen, np.arange(len(apart))]
            best = fits[0]._replace(share=share, degrees=np.array(DEGREES)[chosen])
            cluster = self._is_cluster(values, best)
            model.share[apart[cluster]] = best.share[cluster]
            model.degrees[apart[cluster]] = best.degrees[cluster]
        return model

    def _estimate_shares(
        self, values: Floats, references: References, usual: UnitModel, degrees: float, count: NDArray[np.int64]
    ) -> UnitModel:
        """The units' shares by expectation and maximisation; `count` is the number of values, including zeros."""
        columns = len(usual.centre)
        usual = usual._replace(degrees=np.full(columns, degrees), share=np.full((columns, len(self.factors)), 0.01))
        for _ in range(ROUNDS):
            total = self._find_chances(values, usual, references)[1].sum(axis=1)
            usual = usual._replace(share=np.maximum(np.maximum(total - LEAST_VALUES, 0.0) / count, RARE))
            if (usual.share == RARE).all():
                # No unit has more values than chance gives; smaller shares would leave even fewer.
                break
        return usual

    def _whole_records(self, values: Floats, usual: UnitModel) -> tuple[Floats, tuple[Floats, ...]]:
        """Values of the compared participants, and the centre, scales and degrees of freedom of each complete record."""
        values = values[:, :COMPARED]
        ordinary = self._find_chances(values, usual, {})[0] < 0.5
        centre, scales, _ = _find_reference(values, ordinary, usual)
        return values, (centre[..., None], scales[..., 0, None], scales[..., 1, None], usual.degrees[:, None, None])

    def _densities(self, values: Floats, usual: UnitModel, about: tuple[Floats, ...]) -> list[Floats]:
        """Share times density of each value, in its own unit and then in every other unit."""
        share = usual.share[:, :, None, None]
        positive = usual.positive[:, None, None]
        densities = [(1 - share.sum(axis=1)) * _density(values, *about)]
        for unit, factor in enumerate(self.factors):
            other = np.where(positive, values - np.log(factor), values / factor)
            densities.append(share[:, unit] * _density(other, *about) / np.where(positive, 1.0, factor))
        return densities

    def _is_cluster(self, values: Floats, usual: UnitModel) -> Mask:
        """Whether other units explain the far values of each column better than a long tail does.

        y is the distance from the centre in scales; the tail is Pareto's or exponential, whichever fits better.
        """
        from scipy.special import stdtr, xlogy

        values, about = self._whole_records(values, usual)
        centre, low, high, degrees = about
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
        # The density of y is the density of the value times the scale of its side, restricted to y > FAR.
        scale = np.where(values > centre, high, low)
        units = sum(self._densities(values, usual, about)[1:]) * scale
        within = np.where(far, np.log(np.maximum(units, 1e-300)), 0.0).sum(axis=(1, 2)) / count
        # The mean over participants of the probability that a value in another unit lies beyond FAR, summed over units.
        beyond = np.zeros(len(centre))
        for unit, factor in enumerate(self.factors):
            inside = np.zeros(centre.shape)
            for sign, limit in ((1, centre + FAR * high), (-1, centre - FAR * low)):
                other = np.where(usual.positive[:, None, None], limit - np.log(factor), limit / factor)
                inside += sign * stdtr(degrees, (other - centre) / np.where(other > centre, high, low))
            beyond += usual.share[:, unit] * (1 - inside).mean(axis=(1, 2))
        tail = np.maximum(pareto, exponential)
        evidence = count * (within - np.log(np.maximum(beyond, 1e-300)) - sides - tail)
        return np.asarray(evidence > CLUSTER_EVIDENCE)

    def find(self, batch: ScreenBatch, usual: Any) -> Iterator[Detection]:
        values = _take_logarithms(batch.values[list(usual.columns)], usual.positive)
        for column, chance in zip(usual.columns, self._find_chances(values, usual, {})[0], strict=True):
            score = np.where(chance >= self.threshold, chance, np.nan)
            yield Detection(batch.layout.columns[column].name, "unit", score)

    def _find_chances(self, records: Floats, usual: UnitModel, references: References) -> tuple[Floats, Floats]:
        """Probability that each value is in another unit, and their expected number per unit: (columns, participants, …)."""
        chance = np.zeros(records.shape)
        so_far = np.zeros((*records.shape[:2], len(self.factors)))
        factors = np.array([1.0, *self.factors])[:, None]
        end = 0
        while end < records.shape[2]:
            begin = end
            end = min(max(2 * begin, FIRST_RECORD), records.shape[2])
            ordinary = chance[..., :begin] < 0.5
            reference = references.get(begin) if ordinary.all() else None
            if reference is None:
                reference = _find_reference(records[..., :begin], ordinary, usual)
                if ordinary.all():
                    references[begin] = reference
            centre, scales, count = reference
            share = (self.weight * usual.share[:, None] + so_far) / (self.weight + count)[..., None]
            values = records[..., begin:end]
            spread = (scales > 0).all(axis=-1)
            above = np.where(spread, centre + CANDIDATE * scales[..., 1], np.inf)[..., None]
            below = np.where(spread, centre - CANDIDATE * scales[..., 0], -np.inf)[..., None]
            candidates = np.nonzero((values > above) | (values < below))
            column = candidates[0]
            participant = candidates[1]
            if not len(column):
                continue
            x = values[candidates]
            logarithm = usual.positive[column]
            about = (centre[column, participant], *scales[column, participant].T, usual.degrees[column])
            shares = share[column, participant].T
            # Rows: the own unit, then every other; (units, candidates).
            density = _density(np.where(logarithm, x - np.log(factors), x / factors), *about)
            density *= np.concatenate([1 - shares.sum(axis=0, keepdims=True), shares]) / np.where(logarithm, 1.0, factors)
            likely = (density[1:] / np.maximum(density.sum(axis=0), 1e-300)).T
            chance[..., begin:end][candidates] = likely.sum(axis=1)
            np.add.at(so_far, (column, participant), likely)
        return chance, so_far


def _take_logarithms(values: Floats, positive: Mask) -> Floats:
    """Logarithms of columns of positive values; zeros are missing."""
    scaled = values.copy()
    scaled[scaled == 0] = np.nan
    for column in np.flatnonzero(positive):
        scaled[column] = np.log(np.where(scaled[column] > 0, scaled[column], np.nan))
    return scaled


def _find_quartiles(values: Floats, present: Mask) -> tuple[Floats, Floats]:
    """Median, and the distance to either quartile as a standard deviation, along the last axis; 0 without values."""
    if not values.shape[-1]:
        return np.zeros(values.shape[:-1]), np.zeros((*values.shape[:-1], 2))
    has_values = present.any(axis=-1)
    low, middle, high = (np.where(has_values, quartile, 0.0) for quartile in quantiles(values, present, (0.25, 0.5, 0.75)))
    return middle, np.stack([middle - low, high - middle], axis=-1) / QUARTILE


def _find_reference(known: Floats, ordinary: Mask, usual: UnitModel) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Centre, scales and number of everybody's ordinary values; short records are shrunk towards the population."""
    trusted = ~np.isnan(known) & ordinary
    count = trusted.sum(axis=2)
    middle, own_scales = _find_quartiles(known, trusted)
    enough = count >= FIRST_RECORD - 2
    weight = np.where(enough, count / (count + SCALE_WEIGHT), 0.0)[..., None]
    scales = np.sqrt(weight * own_scales**2 + (1 - weight) * usual.scales[:, None] ** 2)
    return np.where(enough, middle, usual.centre[:, None]), scales, count


def _density(x: Floats, centre: Floats, low: Floats, high: Floats, degrees: Floats) -> Floats:
    """Student's t about the centre, with a scale for each side."""
    from scipy.special import gammaln

    z = (x - centre) / np.where(x > centre, high, low)
    height = np.exp(gammaln((degrees + 1) / 2) - gammaln(degrees / 2)) / np.sqrt(degrees * np.pi)
    return np.asarray(height * (1 + z**2 / degrees) ** (-(degrees + 1) / 2) * 2 / (low + high))
