"""Detects values in another unit, or with a misplaced decimal point."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.numerics.masked_quantiles import quantiles
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


class Records(NamedTuple):
    """Everybody's values, as logarithms in columns with `UnitModel.positive`."""

    values: Floats
    """(columns, participants, decision points); zeros are missing."""
    references: dict[int, tuple[Floats, Floats, NDArray[np.int64]]]
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

    def check(self) -> None:
        proper = all(np.isfinite(k) and k > 0 and k != 1 for k in self.factors)
        if not (0 < self.threshold < 1 and self.weight > 0 and self.factors and proper):
            raise InputError(f"units needs 0 < threshold < 1, weight > 0 and factors above 0 other than 1; got {self}")

    def learn(self, sample: ScreenBatch) -> UnitModel:
        columns = tuple(sample.layout.measured)
        measured = sample.values[list(columns)]
        with np.errstate(invalid="ignore"):
            positive = np.asarray(~(measured < 0).any(axis=(1, 2)))
        records = Records(_take_logarithms(measured, positive), {})
        flat = records.values.reshape(len(columns), int(np.prod(measured.shape[1:])))
        middle, scales = _find_quartiles(flat, ~np.isnan(flat))
        start = UnitModel(columns, middle, scales, np.empty((len(columns), 0)), positive, np.empty(0))
        count = np.maximum((~np.isnan(measured)).sum(axis=(1, 2)), 1)[:, None]
        return self._find_clusters(records, start, count)

    def _find_clusters(self, records: Records, start: UnitModel, count: NDArray[np.int64]) -> UnitModel:
        """The shares of units and the tails of every column; the least shares and the longest tails without a cluster."""
        cautious = self._shares(records, start, DEGREES[0], count)
        rare = cautious._replace(share=np.full_like(cautious.share, RARE))
        apart = (cautious.share > RARE).any(axis=1)
        if not apart.any():
            return rare
        columns = np.flatnonzero(apart)
        column_model = start._replace(**{name: getattr(start, name)[columns] for name in ("centre", "scales", "positive")})
        column_records = Records(records.values[columns], {})
        fits = [self._shares(column_records, column_model, degrees, count[columns]) for degrees in DEGREES]
        chosen = np.argmax([self._log_likelihood(column_records.values, fit) for fit in fits], axis=0)
        share = np.stack([fit.share for fit in fits])[chosen, np.arange(len(columns))]
        best = fits[0]._replace(share=share, degrees=np.array(DEGREES)[chosen])
        cluster = self._is_cluster(column_records.values, best)
        rare.share[columns[cluster]] = best.share[cluster]
        rare.degrees[columns[cluster]] = best.degrees[cluster]
        return rare

    def _shares(self, records: Records, usual: UnitModel, degrees: float, count: NDArray[np.int64]) -> UnitModel:
        """Estimate the units' shares by expectation and maximisation; `count` is the number of values, including zeros."""
        columns = len(usual.centre)
        usual = usual._replace(degrees=np.full(columns, degrees), share=np.full((columns, len(self.factors)), 0.01))
        for _ in range(ROUNDS):
            total = self._chances(records, usual)[1].sum(axis=1)
            usual = usual._replace(share=np.maximum(np.maximum(total - LEAST_VALUES, 0.0) / count, RARE))
            if (usual.share == RARE).all():
                # No unit has more values than chance gives; smaller shares would leave even fewer.
                break
        return usual

    def _whole_records(self, values: Floats, usual: UnitModel) -> tuple[Floats, tuple[Floats, ...]]:
        """Values of the compared participants, and the centre, scales and degrees of freedom of each complete record."""
        values = values[:, :COMPARED]
        ordinary = self._chances(Records(values, {}), usual)[0] < 0.5
        trusted = ~np.isnan(values) & ordinary
        centre, scales = _reference(values, trusted, trusted.sum(axis=2), usual)
        return values, (centre[..., None], scales[..., 0, None], scales[..., 1, None], usual.degrees[:, None, None])

    def _log_likelihood(self, values: Floats, usual: UnitModel) -> Floats:
        """Log-likelihood of every column of the sample, given each participant's complete record."""
        values, about = self._whole_records(values, usual)
        total = np.sum(self._densities(values, usual, about), axis=0)
        return np.asarray(np.nansum(np.log(np.maximum(total, 1e-300)), axis=(1, 2)))

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
        # The density of y is the density of the value times the scale of its side, restricted to y > FAR.
        scale = np.where(values > centre, high, low)
        units = sum(self._densities(values, usual, about)[1:]) * scale
        within = np.where(far, np.log(np.maximum(units, 1e-300)), 0.0).sum(axis=(1, 2)) / count
        beyond = self._chance_beyond(usual, about)
        return np.asarray(count * (within - np.log(beyond) - sides - np.maximum(pareto, exponential)) > CLUSTER_EVIDENCE)

    def _chance_beyond(self, usual: UnitModel, about: tuple[Floats, ...]) -> Floats:
        """Mean over participants of the probability that a value in another unit lies beyond FAR, summed over units."""
        from scipy.special import stdtr

        centre, low, high, degrees = about
        total = np.zeros(len(centre))
        for unit, factor in enumerate(self.factors):
            inside = np.zeros(centre.shape)
            for sign, limit in ((1, centre + FAR * high), (-1, centre - FAR * low)):
                other = np.where(usual.positive[:, None, None], limit - np.log(factor), limit / factor)
                inside += sign * stdtr(degrees, (other - centre) / np.where(other > centre, high, low))
            total += usual.share[:, unit] * (1 - inside).mean(axis=(1, 2))
        return np.maximum(total, 1e-300)

    def find(self, batch: ScreenBatch, usual: Any) -> list[Detection]:
        records = Records(_take_logarithms(batch.values[list(usual.columns)], usual.positive), {})
        detections = []
        for column, chance in zip(usual.columns, self._chances(records, usual)[0], strict=True):
            if (chance >= self.threshold).any():
                name = batch.layout.columns[column].name
                detections.append(Detection(name, "unit", np.where(chance >= self.threshold, chance, np.nan)))
        return detections

    def _chances(self, records: Records, usual: UnitModel) -> tuple[Floats, Floats]:
        """Probability that each value is in another unit, and their expected number per unit: (columns, participants, …)."""
        chance = np.zeros(records.values.shape)
        so_far = np.zeros((*records.values.shape[:2], len(self.factors)))
        factors = np.array([1.0, *self.factors])[:, None]
        points = records.values.shape[2]
        end = 0
        while end < points:
            begin = end
            end = min(max(2 * begin, FIRST_RECORD), points)
            centre, scales, count = self._refer(records, chance[..., :begin] < 0.5, usual)
            share = (self.weight * usual.share[:, None] + so_far) / (self.weight + count)[..., None]
            values = records.values[..., begin:end]
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

    def _refer(self, records: Records, ordinary: Mask, usual: UnitModel) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Centre, scales and number of the ordinary values so far."""
        length = ordinary.shape[2]
        all_ordinary = bool(ordinary.all())
        if all_ordinary and length in records.references:
            return records.references[length]
        known = records.values[..., :length]
        trusted = ~np.isnan(known) & ordinary
        count = trusted.sum(axis=2)
        reference = (*_reference(known, trusted, count, usual), count)
        if all_ordinary:
            records.references[length] = reference
        return reference


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


def _reference(known: Floats, trusted: Mask, count: NDArray[np.int64], usual: UnitModel) -> tuple[Floats, Floats]:
    """Centre and scales of every participant's record; short records are shrunk towards the population."""
    middle, own_scales = _find_quartiles(known, trusted)
    enough = count >= FIRST_RECORD - 2
    weight = np.where(enough, count / (count + SCALE_WEIGHT), 0.0)[..., None]
    scales = np.sqrt(weight * own_scales**2 + (1 - weight) * usual.scales[:, None] ** 2)
    return np.where(enough, middle, usual.centre[:, None]), scales


def _density(x: Floats, centre: Floats, low: Floats, high: Floats, degrees: Floats) -> Floats:
    """Student's t about the centre, with a scale for each side."""
    from scipy.special import gammaln

    z = (x - centre) / np.where(x > centre, high, low)
    height = np.exp(gammaln((degrees + 1) / 2) - gammaln(degrees / 2)) / np.sqrt(degrees * np.pi)
    return np.asarray(height * (1 + z**2 / degrees) ** (-(degrees + 1) / 2) * 2 / (low + high))
