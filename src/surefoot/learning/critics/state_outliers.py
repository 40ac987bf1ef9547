"""How far out a state is as a whole: a deterministic minimum covariance determinant, for all people of a block at once.

After the DetMCD of Hubert, Rousseeuw and Verdonck (2012): a few fixed starts instead of random subsets, concentration
steps, then the covariance of all rows that are not far out. Four things differ. A state variable that mostly takes a few
values (a weekday, a yes or no) would make the covariance of half of the rows degenerate, so it is judged by itself. A
skewed variable is straightened first. The fence adapts: only as many rows are far out as normal states do not explain. And
at least one variable must be unusual by itself.
"""

from array_api_compat import device

from surefoot.numerics.action_probabilities import normal_cdf
from surefoot.numerics.arrays import Array, array_namespace, contiguous, stack_features, take_people
from surefoot.numerics.batched_cholesky import Cholesky
from surefoot.numerics.fences import adaptive_fence, gap_fence, has_few_values, standardise
from surefoot.numerics.masked_quantiles import SmallestHalf, infinite_unless, median_in_order, sort_present

FEW_VALUED = 0.1
"""A variable with one value in more than this share of the rows is judged by itself."""
ENOUGH = 10
"""With fewer rows nothing can be called unusual."""
ROWS_PER_VARIABLE = 5
"""With fewer rows a covariance of half of them says nothing, and every variable is judged by itself."""
FENCE = (3.0, 4.0)
"""As normal scores: a state below the first (1 in 740 is above) is never far out, one above the second always is."""
UNUSUAL = 2.0
"""In robust standard deviations: a row with no variable beyond it is not far out, whatever its distance. Clean states need
not form an ellipsoid: time and its square, or the hour as sine and cosine, do not."""
CONCENTRATION_STEPS = 4
REWEIGHTINGS = 2


def state_outlyingness(state: Array, present: Array) -> Array:
    """How far every present row of (people, decision points, variables) is out, as a share of the participant's fence:
    above 1 is far out.

    >>> import numpy as np
    >>> state = np.stack([np.sin(np.arange(40.0)), np.cos(np.arange(40.0) ** 2)], axis=-1)[None]
    >>> state[0, 7] = [5.0, -5.0]
    >>> np.flatnonzero(state_outlyingness(state, np.ones((1, 40), dtype=bool)) > 1)
    array([7])
    """
    xp = array_namespace(state)
    columns = xp.permute_dims(state, (0, 2, 1))
    known = present[:, None, :] & (columns == columns)  # noqa: PLR0124 - broadcasts to every variable
    count = xp.sum(xp.astype(present, xp.int64), axis=1)
    in_order = sort_present(columns, known)
    by_itself = has_few_values(columns, known, FEW_VALUED, in_order) | (count < ROWS_PER_VARIABLE * state.shape[-1])[:, None]
    alone = xp.zeros_like(state[..., 0])
    people = xp.nonzero(xp.any(by_itself, axis=1))[0]
    if people.shape[0]:
        size, fence = gap_fence(columns[people], known[people])
        alone[people] = xp.max(xp.where(by_itself[people][..., None], size / fence[..., None], 0.0), axis=1)
    z = xp.where(by_itself[..., None], 0.0, standardise(columns, known, in_order))
    joined = _join_one(z)
    inside = _concentrate(joined, present)
    together = _together(joined, present, inside)
    for _ in range(REWEIGHTINGS):
        before = inside
        inside = present & (together <= 1)
        moved = xp.nonzero(xp.any(inside != before, axis=1))[0]
        if not moved.shape[0]:
            break
        together[moved] = _together(take_people(joined, moved), present[moved], inside[moved])
    together = xp.where(xp.any(xp.abs(z) > UNUSUAL, axis=1), together, 0.0)
    return xp.where((count >= ENOUGH)[:, None] & present, xp.maximum(alone, together), 0.0)


def _join_one(z: Array) -> Array:
    """[1, z], (people, 1 + variables, decision points): one product with it gives a mean and a covariance."""
    xp = array_namespace(z)
    columns = [z[:, j, :] for j in range(z.shape[1])]
    return stack_features([xp.ones_like(columns[0]), *columns])


def _shapes(joined: Array, included: Array) -> tuple[Array, Cholesky]:
    """Mean (sets · people, variables) and factored covariance of every kept set of rows, (sets, people, decision points)."""
    xp = array_namespace(joined)
    counts = xp.astype(included, joined.dtype)
    z = joined[:, 1:, :]
    turned = xp.matrix_transpose(joined)
    sums = xp.concat([(z * counts[index, :, None, :]) @ turned for index in range(included.shape[0])])
    total = xp.reshape(xp.sum(counts, axis=-1), (-1, 1, 1))
    sums = sums / xp.maximum(total, xp.ones_like(total))
    mean = sums[:, :, 0]
    return mean, Cholesky(sums[:, :, 1:] - mean[:, :, None] * mean[:, None, :])


def _distances(joined: Array, mean: Array, shape: Cholesky) -> Array:
    """Squared Mahalanobis distances from means and covariances as of `_shapes`, (sets, people, decision points)."""
    xp = array_namespace(joined)
    size = mean.shape[-1]
    eye = xp.broadcast_to(xp.eye(size, dtype=mean.dtype, device=device(mean)), (mean.shape[0], size, size))
    whitening = contiguous(xp.permute_dims(shape.half_solve(xp.concat([-mean[:, :, None], eye], axis=2)), (2, 0, 1)))
    white = xp.reshape(whitening, (-1, joined.shape[0], size, size + 1)) @ joined
    return xp.sum(white**2, axis=-2)


def _concentrate(joined: Array, present: Array) -> Array:
    """The half of the rows with the smallest covariance determinant that concentration from three starts finds."""
    xp = array_namespace(joined)
    z = joined[:, 1:, :]
    norm = xp.sum(z**2, axis=1)
    sign = z / xp.sqrt(xp.where(norm > 0, norm, 1.0))[:, None, :]
    starts = [norm[None, ...]]
    for bounded in (xp.tanh(z), sign):
        mean, shape = _shapes(_join_one(bounded), present[None, ...])
        starts.append(_distances(joined, xp.zeros_like(mean), shape))
    smallest = SmallestHalf.of_present(present, z.shape[1], z.dtype)
    halves = smallest.choose(xp.concat(starts))
    for _ in range(2):
        halves = smallest.choose(_distances(joined, *_shapes(joined, halves)))
    value = xp.reshape(_shapes(joined, halves)[1].log_determinant(), halves.shape[:2])
    best = xp.argmin(value, axis=0)
    half = best_half = halves[best, xp.arange(z.shape[0], device=device(z))]
    # Further steps from there; whose half stays as it is costs no more time.
    moving = xp.arange(half.shape[0], device=device(joined))
    for _ in range(CONCENTRATION_STEPS):
        after = smallest.choose(_distances(joined, *_shapes(joined, half[None, ...])))[0]
        changed = xp.nonzero(xp.any(after != half, axis=1))[0]
        if not changed.shape[0]:
            break
        moving = moving[changed]
        joined = take_people(joined, changed)
        smallest = smallest.of(changed)
        best_half[moving] = half = after[changed]
    return best_half


def _together(joined: Array, present: Array, included: Array) -> Array:
    """Distances from the kept rows as a share of the fence.

    They become normal scores by Wilson and Hilferty's cube root of χ², after the kept rows' median is made that of χ².
    """
    xp = array_namespace(joined)
    mean, shape = _shapes(joined, included[None, ...])
    squared = _distances(joined, mean, shape)[0]
    rank = xp.astype(xp.maximum(shape.rank, xp.ones_like(shape.rank)), joined.dtype)[:, None]
    count = xp.sum(included, axis=1, dtype=xp.int64, keepdims=True)
    in_order = xp.sort(squared + infinite_unless(included, joined.dtype), axis=-1, stable=False)
    typical = median_in_order(in_order, count)[:, None]
    typical = xp.where(xp.isfinite(typical) & (typical > 0), typical, 1.0)
    spread = 2 / (9 * rank)
    score = (1 - spread) * ((squared / typical) ** (1 / 3) - 1) / xp.sqrt(spread)
    return score / adaptive_fence(score, present, *FENCE, normal_cdf)[:, None]
