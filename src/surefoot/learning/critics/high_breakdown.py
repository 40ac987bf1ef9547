"""The critic that survives a third of the data being wrong, and costs next to nothing when none is.

The features x(s, a) give every action coefficients of its own, so every arm (the decision points with one action) is
fitted by itself, and an artefact that follows a prompt cannot hide among the decision points without one:

1. rows whose state is far out as a whole are set aside (`state_outliers`);
2. least trimmed squares in every arm, concentrated from three fixed starts; where an arm varies much more than another,
   as with artefacts in about half of it, also from the fit of that other, which is preferred: an artefact moves rewards
   further than a message does;
3. the paper's capped least squares from there, the cap at 2.65 times the smallest of the arms' residual scales: artefacts
   inflate the scale of the arm they are in, not of the others;
4. rounds of: residual scale, adaptive fence (Gervini and Yohai), least squares on what is inside; the first time
   with the MAD as scale, then, more efficient, with the standard deviation of what lies within 2.65 of them, so that
   artefacts just inside the fence cannot widen it round by round; in between the skewness of what was kept decides whether
   the fence must allow for a long tail;
5. ridge on the kept decision points.

The weights are hard, 0 or 1 times the decision point's own: a decision point either counts in full for critic and actor,
or can be listed.
"""

from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar

from array_api_compat import device

from surefoot.learning.batch import Batch
from surefoot.learning.critics import critic
from surefoot.learning.critics.state_outliers import ENOUGH, state_outlyingness
from surefoot.numerics.arrays import Array, PerParticipant, array_namespace, contiguous, stack_features, take_people
from surefoot.numerics.batched_cholesky import solve
from surefoot.numerics.fences import (
    adaptive_fence,
    core_skewness,
    gap_fence,
    half_normal_cdf,
    has_few_values,
    remove_skewness,
)
from surefoot.numerics.masked_quantiles import SmallestHalf, median, quantiles, scaled_mad

ABSOLUTE_STEPS = 6
CONCENTRATION_STEPS = 3


def fit_sets(joined: Array, weights: Array) -> Array:
    """Coefficients (sets, people, features) of weighted least squares of [r, X], for several sets of weights (sets, people,
    decision points)."""
    xp = array_namespace(joined)
    sets, people, points = weights.shape
    x = joined[:, 1:, :]
    turned = xp.matrix_transpose(joined)
    products = xp.concat([(x * weights[index, :, None, :]) @ turned for index in range(sets)])
    squares = products[:, :, 1:]
    right = products[:, :, 0]
    solution, smallest_pivot, _ = solve(squares, products[:, :, :1])
    coef = solution[..., 0]
    shaky = xp.nonzero(smallest_pivot < critic.SHAKY_PIVOT)[0]
    if shaky.shape[0]:
        u = xp.reshape(weights, (sets * people, points))[shaky]
        nothing = xp.zeros_like(right[shaky])
        coef[shaky] = critic.solve_corrected(joined[shaky % people], u, squares[shaky], right[shaky], nothing)
    return xp.reshape(coef, (sets, people, -1))


def fit_residuals(joined: Array, weights: Array) -> Array:
    """Residuals of every decision point from weighted least squares of [r, X]."""
    u = array_namespace(joined).astype(weights, joined.dtype)
    return critic.joined_residuals(joined, fit_sets(joined, u[None, ...]))[0]


def sum_squares(values: Array) -> Array:
    """Along the last axis."""
    return (values[..., None, :] @ values[..., :, None])[..., 0, 0]


def fit_trimmed(joined: Array, arm: Array) -> Array:
    """Residuals from least trimmed squares: the fit to half of the arm that leaves the smallest sum of squares there.

    The starts are least absolute deviations and the same moved to the lower and to the upper quartile of its residuals:
    where two fifths of the arm are displaced, one of these lies in the midst of the others.
    """
    xp = array_namespace(joined)
    # Least absolute deviations, nearly: least squares weighted anew a few times.
    centre = median(joined[:, 0, :], arm)
    absolute = joined[:, 0, :] - xp.where(xp.isfinite(centre), centre, 0.0)[:, None]
    typical = median(xp.abs(absolute), arm)
    least = xp.where(xp.isfinite(typical) & (typical > 0), 1e-3 * typical, 1.0)[:, None]
    for _ in range(ABSOLUTE_STEPS):
        absolute = fit_residuals(joined, xp.astype(arm, joined.dtype) / xp.maximum(xp.abs(absolute), least))
    low, high = (xp.where(xp.isfinite(quartile), quartile, 0.0) for quartile in quantiles(absolute, arm, (0.25, 0.75)))
    left = absolute - xp.stack([xp.zeros_like(low), low, high])[..., None]
    smallest = SmallestHalf.of_present(arm, joined.shape[1] - 1, joined.dtype)
    halves = smallest.choose(xp.abs(left))
    for _ in range(2):
        left = critic.joined_residuals(joined, fit_sets(joined, xp.astype(halves, joined.dtype)))
        halves = smallest.choose(xp.abs(left))
    best = xp.argmin(sum_squares(left * xp.astype(halves, left.dtype)), axis=0)
    return concentrate(joined, smallest, halves[best, xp.arange(arm.shape[0], device=device(joined))])


def concentrate(joined: Array, smallest: SmallestHalf, half: Array) -> Array:
    """Residuals after concentration steps from half of the arm; whose half stays as it is costs no more time."""
    xp = array_namespace(joined)
    residuals = left = fit_residuals(joined, half)
    moving = xp.arange(half.shape[0], device=device(joined))
    for _ in range(CONCENTRATION_STEPS - 1):
        after = smallest.choose(xp.abs(left))
        changed = xp.nonzero(xp.any(after != half, axis=1))[0]
        if not changed.shape[0]:
            break
        moving = moving[changed]
        joined = take_people(joined, changed)
        smallest = smallest.of(changed)
        half = after[changed]
        residuals[moving] = left = fit_residuals(joined, half)
    return residuals


FEW_VALUED_REWARD = 0.25
"""A reward with one value in more than this share of the decision points can be fitted exactly by half of an arm; then
rewards are judged by themselves, as few-valued states are."""
ROWS_PER_FEATURE = 5
"""An arm with fewer decision points per feature is not fitted by itself; its rewards, too, are judged by themselves."""
FENCE = (2.65, 3.3)
"""In residual scales: a decision point inside the first is never left out for its reward, one beyond the second always
is."""
INNER_DEVIATION = 0.9677
"""The standard deviation of normal noise that lies within the first fence."""
VARIES_MORE = 1.4
PREFERENCE = 4.0
"""An arm whose residual scale is so many times that of another is fitted from the other's fit too, and that is taken unless
its trimmed sum of squares is so many times the least."""
ONE_SIDED = 0.9
SOME = 8
CEILING = 1.2
"""Where so large a share of at least so many decision points beyond the cap lies on one side, they are artefacts: noise
varies to both. Such an arm varies at most so many times as much as the steadiest."""
SKEWNESS_TO_G = 1.5
"""Log-normal noise exp(gZ) has g of about this many times the skewness of what the first round keeps, which has lost its
longest tail."""
WIDTH = 32
"""Arms are padded to a multiple of this: products along such widths round the same however many zeros follow, so that
nobody's numbers depend on who else is in the block."""
CAPPED_STEPS = 3
LAST_ROUNDS = 4
FITS = ABSOLUTE_STEPS + 3 * 2 + CONCENTRATION_STEPS + CAPPED_STEPS + 1 + LAST_ROUNDS + 1


@dataclass
class _Arm(PerParticipant):
    """Everybody's decision points with one action, side by side."""

    joined: Array
    """[r, 1, s], (people, 1 + features, decision points of the arm)."""
    filled: Array
    """False on padding."""
    inside: Array
    """Those whose state is not far out."""
    rounding: Array
    """(people,): residuals below it are no information."""
    ceiling: Array
    """(people,): no residual scale is larger."""
    included: Array
    """Those that the last fit used."""
    core: Array
    """The included decision points from which the residual scale is computed."""
    residuals: Array

    @classmethod
    def gather(cls, joined: list[Array], taken: Array, inside: Array, rounding: Array) -> "_Arm":
        """The arm of the decision points that are `taken`; `joined` is [r, 1, s]."""
        xp = array_namespace(taken)
        count = xp.sum(xp.astype(taken, xp.int64), axis=1)
        width = -(-max(int(xp.max(count)), 1) // WIDTH) * WIDTH
        filled = xp.arange(width, device=device(taken)) < count[:, None]

        def pack(row: Array) -> Array:
            packed = xp.zeros(filled.shape, dtype=row.dtype, device=device(row))
            packed[filled] = row[taken]
            return packed

        rows = stack_features([pack(row) for row in joined])
        present = pack(inside)
        ceiling = xp.full_like(rounding, xp.inf)
        return cls(rows, filled, present, rounding, ceiling, present, present, fit_trimmed(rows, present))

    def of(self, people: Array) -> "_Arm":
        return _Arm(*(take_people(part, people) if part.ndim == 3 else part[people] for part in vars(self).values()))

    @property
    def rewards(self) -> Array:
        return self.joined[:, 0, :]

    @property
    def features(self) -> int:
        return int(self.joined.shape[1]) - 1

    def fit(self, included: Array, core: Array | None = None) -> None:
        self.included = included
        self.core = included if core is None else core
        self.residuals = fit_residuals(self.joined, included)

    def scale(self, *, efficient: bool) -> Array:
        """Residual standard deviation: the root mean square of the core, or, if that is smaller, from the median absolute
        value."""
        xp = array_namespace(self.rewards)
        core = xp.astype(self.core, self.rewards.dtype)
        count = xp.sum(core, axis=1)
        free = xp.maximum(count - self.features, xp.ones_like(count))
        deviation = xp.sqrt(sum_squares(core * self.residuals) / free) / INNER_DEVIATION
        if not efficient:
            typical = scaled_mad(self.residuals, self.core, xp.zeros_like(count))
            deviation = xp.minimum(deviation, xp.where(count > 0, typical, 0.0) * xp.sqrt(count / free))
        return xp.maximum(xp.minimum(deviation, self.ceiling), self.rounding)

    def round(self, g: Array, *, efficient: bool) -> tuple[Array, Array]:
        """Fit anew to what is inside the fence of the last fit; every decision point's share of that fence, and
        the fence."""
        xp = array_namespace(self.rewards)
        scale = self.scale(efficient=efficient)
        centre = xp.zeros_like(g)
        skewed = xp.nonzero(g != 0)[0]
        if skewed.shape[0]:
            quartiles = quantiles(self.residuals[skewed], self.included[skewed], (0.25, 0.5, 0.75))
            low, middle, high = (xp.where(xp.isfinite(quartile), quartile, 0.0) for quartile in quartiles)
            # A skewed distribution A + B (exp(gZ) − 1) / g has its median at A, and B = g IQR / (2 sinh(0.6745 g)).
            size = xp.abs(g[skewed])
            width = (high - low) * size / (2 * xp.sinh(0.6745 * size))
            scale[skewed] = xp.maximum(width, self.rounding[skewed])
            centre[skewed] = middle
        score = xp.abs(remove_skewness((self.residuals - centre[:, None]) / scale[:, None], g))
        fence = adaptive_fence(score, self.inside, *FENCE, half_normal_cdf)
        self.fit(self.inside & (score <= fence[:, None]), self.inside & (score <= FENCE[0]))
        return score / fence[:, None], fence * scale

    def settle(self, g: Array) -> tuple[Array, Array]:
        """Rounds until what is kept stays as it is; whoever has settled costs no more time."""
        xp = array_namespace(self.rewards)
        moving = xp.arange(g.shape[0], device=device(g))
        part = self
        before = self.included
        core = self.core
        share, fence = self.round(g, efficient=True)
        for _ in range(LAST_ROUNDS - 1):
            still = xp.nonzero(xp.any((part.included != before) | (part.core != core), axis=1))[0]
            if not still.shape[0]:
                break
            moving = moving[still]
            part = part.of(still)
            before = part.included
            core = part.core
            share[moving], fence[moving] = part.round(g[moving], efficient=True)
        return share, fence


def _start_from(arm: _Arm, other: _Arm, people: Array) -> None:
    """Concentrate these people's arm from the fit of another, and prefer what comes out."""
    xp = array_namespace(arm.rewards)
    theirs = SmallestHalf.of_present(other.inside[people], other.features, arm.rewards.dtype)
    half = theirs.choose(xp.abs(other.residuals[people]))
    joined = take_people(arm.joined, people)
    before = arm.residuals[people]
    coef = fit_sets(take_people(other.joined, people), xp.astype(half, joined.dtype)[None, ...])
    left = critic.joined_residuals(joined, coef)[0]
    smallest = SmallestHalf.of_present(arm.inside[people], arm.features, joined.dtype)
    for _ in range(2):
        left = fit_residuals(joined, smallest.choose(xp.abs(left)))
    left = concentrate(joined, smallest, smallest.choose(xp.abs(left)))
    both = xp.stack([left, before])
    values = sum_squares(both * xp.astype(smallest.choose(xp.abs(both)), joined.dtype))
    arm.residuals[people] = xp.where((values[0] < PREFERENCE * values[1])[:, None], left, before)


def _cap(arms: list[_Arm], large: list[Array]) -> None:
    """Capped least squares in every arm from its trimmed fit, at the scale of the arm with the smallest.

    Artefacts in half of an arm make its own scale at most about three times too large; an arm whose scale is larger than
    that beside the smallest simply varies more.
    """
    xp = array_namespace(arms[0].rewards)
    scales = [xp.where(enough, arm.scale(efficient=False), xp.inf) for arm, enough in zip(arms, large, strict=True)]
    steadiest = reduce(xp.minimum, scales)
    for arm, scale in zip(arms, scales, strict=True):
        for other, theirs in zip(arms, scales, strict=True):
            people = xp.nonzero((theirs == steadiest) & (scale > VARIES_MORE * theirs) & xp.isfinite(scale))[0]
            if people.shape[0]:
                _start_from(arm, other, people)
    for arm, scale in zip(arms, scales, strict=True):
        limit = FENCE[0] * xp.maximum(xp.minimum(steadiest, scale), scale / 3)
        arm.fit(arm.inside & (xp.abs(arm.residuals) <= limit[:, None]))
        for _ in range(CAPPED_STEPS - 1):
            included = arm.inside & (xp.abs(arm.residuals) <= limit[:, None])
            changed = xp.nonzero(xp.any(included != arm.included, axis=1))[0]
            arm.included = arm.core = included
            if changed.shape[0]:
                arm.residuals[changed] = fit_residuals(take_people(arm.joined, changed), included[changed])
        beyond = arm.inside & ~arm.included
        count, above = (xp.sum(xp.astype(rows, scale.dtype), axis=1) for rows in (beyond, beyond & (arm.residuals > 0)))
        one_sided = (count >= SOME) & (xp.maximum(above, count - above) >= ONE_SIDED * count)
        arm.ceiling = xp.where(one_sided, CEILING * steadiest, xp.inf)


def _reward_outlyingness(base: Array, rewards: Array, taken: list[Array], inside: Array) -> tuple[Array, Array]:
    """Every decision point's share of the fence of its reward (above 1 is outside), and the narrowest fence, (people,)."""
    xp = array_namespace(base)
    rounding = 1e-10 * median(xp.abs(rewards), inside)
    rounding = xp.where(xp.isfinite(rounding), rounding, 0.0) + float(xp.finfo(rewards.dtype).smallest_normal) ** 0.5
    joined = [rewards, *(contiguous(base[..., j]) for j in range(base.shape[-1]))]
    arms = [_Arm.gather(joined, rows, inside, rounding) for rows in taken]

    def spread(values: list[Array]) -> Array:
        """Values of the arms' decision points where these stand among all of a participant's; 0 elsewhere."""
        together = xp.zeros(rewards.shape, dtype=values[0].dtype, device=device(rewards))
        for rows, arm, arm_values in zip(taken, arms, values, strict=True):
            together[rows] = arm_values[arm.filled]
        return together

    large = [xp.sum(xp.astype(arm.inside, xp.int64), axis=1) >= ROWS_PER_FEATURE * base.shape[-1] for arm in arms]
    _cap(arms, large)
    for arm in arms:
        arm.round(xp.zeros_like(rounding), efficient=False)
    scores = spread([arm.residuals / arm.scale(efficient=False)[:, None] for arm in arms])
    g = SKEWNESS_TO_G * core_skewness(scores, spread([arm.included for arm in arms]))
    shares, fences = zip(*(arm.settle(g) for arm in arms), strict=True)
    share = spread(list(shares))
    alone = has_few_values(rewards, inside, FEW_VALUED_REWARD)
    fitted = [enough & ~alone for enough in large]
    narrowest = reduce(xp.minimum, [xp.where(fit, fence, xp.inf) for fit, fence in zip(fitted, fences, strict=True)])
    people = xp.nonzero(~xp.all(xp.stack(fitted), axis=0))[0]
    if people.shape[0]:
        # Where an arm is not fitted, its rewards are judged by themselves.
        size, fence = gap_fence(rewards[people], inside[people])
        by_themselves = size / fence[:, None]
        for rows, fit in zip(taken, fitted, strict=True):
            by_themselves = xp.where(rows[people] & fit[people][:, None], share[people], by_themselves)
        share[people] = by_themselves
        narrowest[people] = xp.minimum(narrowest[people], fence)
    has_enough = xp.sum(xp.astype(inside, xp.int64), axis=1) >= ENOUGH
    return xp.where(has_enough[:, None], share, 0.0), xp.where(has_enough, narrowest, xp.inf)


@critic.register_critic
@dataclass(frozen=True)
class HighBreakdown(critic.RemovingCritic):
    """Ridge regression on the decision points that are outliers neither in state nor in reward.

    τ multiplies the squared fences, as the paper's does. The threshold is the square of a participant's narrowest residual
    fence: a decision point that was left out within it was left out for its state.
    """

    name: ClassVar[str] = "high-breakdown"
    title: ClassVar[str] = "the high-breakdown critic"
    removal: ClassVar[critic.Removal] = critic.Removal(
        "the fences", unit="fences", plural=True, because="for their state or for their reward"
    )
    judges_twice: ClassVar[bool] = True
    compared_with: ClassVar[str] = "capped"

    def fit(self, batch: Batch) -> critic.CriticFit:
        xp = array_namespace(batch.features)
        usable = batch.weights > 0
        reach = self.tau**0.5
        trusted = batch.trusted
        far = state_outlyingness(batch.seen_state, usable) if trusted is None else xp.where(trusted, 0.0, xp.inf)
        base = batch.features[..., : batch.state.shape[-1] + 1]
        taken = [usable & (batch.action == code) for code in range(batch.actions)]
        inside = usable & (far <= 1)
        rewards = batch.reward
        if batch.logged is not None:
            # Without what was subtracted, few values are many, and next to each other.
            alone = has_few_values(batch.logged, inside, FEW_VALUED_REWARD)
            rewards = xp.where(alone[:, None], batch.logged, rewards)
        share, narrowest = _reward_outlyingness(base, rewards, taken, inside)
        weights = xp.where(usable & (far <= reach) & (share <= reach), batch.weights, 0.0)
        last = critic.fit_ridge(batch.features, batch.reward, weights, penalty=batch.penalty, arms=batch.arms)
        return replace(last, threshold=(reach * narrowest) ** 2, n_iter=FITS * last.n_iter)

    def trust_states(self, state: Array, present: Array) -> Array:
        return present & (state_outlyingness(state, present) <= self.tau**0.5)

    def judge_residuals(self, residuals: Array, present: Array) -> Array:
        return self.trust_states(residuals, present)
