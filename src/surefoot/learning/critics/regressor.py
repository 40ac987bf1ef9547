"""Any regressor as a critic: an actor needs of a critic only what it expects of every action.

Regressors are scikit-learn's, or anything else with `fit(rows, target)` and `predict(rows)`. Each participant, or everybody
together, gets a copy, fitted to [s, 1{a=1}, 1{a=1} s, …] at the regressor's own speed.
"""

from abc import abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError, did_you_mean
from surefoot.learning.batch import Batch
from surefoot.learning.critics.critic import (
    CRITICS,
    Capped,
    Critic,
    CriticFit,
    Removal,
    RemovingCritic,
    boxplot_threshold,
    fit_ridge,
    register_critic,
)
from surefoot.learning.part import make_part
from surefoot.numerics.arrays import Array
from surefoot.policies.features import critic_features

MOST_FITS = 100


@dataclass(frozen=True)
class RegressorFit(CriticFit):
    """What regressors found. `coef` is the linear function of x(s, a) that is nearest to what they expect."""

    expected: Array
    """E[r | s, a] of every decision point and action, (people, decision points, actions)."""
    taken: Array
    """E[r | s, a] of the action taken, (people, decision points)."""

    def find_residuals(self, features: Array, rewards: Array) -> Array:
        return rewards - self.taken

    def find_advantage(self, state: Array, actions: int) -> Array:
        return self.expected[..., 1:] - self.expected[..., :1]

    def expect_rewards(self, state: Array, actions: int) -> Array:
        return self.expected


class RowFit(NamedTuple):
    """A fitted regressor and the weights of the rows that it was fitted to."""

    regressor: Any
    weights: NDArray[np.float64]
    """1.0 for rows that count, 0.0 for the others."""
    threshold: float
    """ε of the squared residuals; +∞ without one."""
    fits: int
    settled: bool


def copy_regressor(regressor: Any) -> Any:
    """A copy that is not fitted; what is drawn at random is drawn alike every time, unless the regressor says how."""
    if not hasattr(regressor, "get_params"):
        return deepcopy(regressor)
    from sklearn.base import clone

    copy = clone(regressor)
    open_seeds = [name for name, value in copy.get_params().items() if name.endswith("random_state") and value is None]
    return copy.set_params(**dict.fromkeys(open_seeds, 0)) if open_seeds else copy


def fit_capped_regressor(
    regressor: Any, rows: NDArray[np.float64], target: NDArray[np.float64], *, tau: float = 1.0, max_iter: int = MOST_FITS
) -> RowFit:
    """Minimise Σ_i min{h_i², ε} + ζ g, h the residuals and g the penalty of any regressor.

    It is fitted to all rows; ε = τ (q₃ + 1.5 (q₃ − q₁)) of the squared residuals is then held; rows beyond it are left out
    and it is fitted again, until the same rows stay. A regressor that minimises Σ h² + ζ g lowers the objective every time;
    another can go in circles, and ends when it does.
    """
    included = np.ones(len(target), dtype=bool)
    seen = set()
    threshold = np.inf
    for fits in range(1, max_iter + 1):
        fitted = copy_regressor(regressor).fit(rows[included], target[included])
        squared = (target - fitted.predict(rows)) ** 2
        if fits == 1:
            threshold = float(boxplot_threshold(squared[None], target[None], np.ones((1, len(target))), tau)[0])
        inside = squared < threshold
        settled = bool((inside == included).all()) or not inside.any()
        if settled or inside.tobytes() in seen:
            break
        seen.add(inside.tobytes())
        if fits < max_iter:
            included = inside
    return RowFit(fitted, included.astype(np.float64), threshold, fits, settled)


@dataclass(frozen=True)
class RegressionCritic(Critic):
    """A critic that fits a regressor."""

    weighs_rows: ClassVar[bool] = False
    has_coefficients: ClassVar[bool] = False

    @abstractmethod
    def make_regressor(self) -> Any:
        """One that is not fitted."""

    def fit_rows(self, rows: NDArray[np.float64], target: NDArray[np.float64]) -> RowFit:
        """A copy fitted to some rows; a regressor that leaves rows out itself says so by its `weights_` and `threshold_`."""
        fitted = copy_regressor(self.make_regressor()).fit(rows, target)
        weights = getattr(fitted, "weights_", None)
        if weights is None:
            return RowFit(fitted, np.ones(len(target)), np.inf, 1, True)
        return RowFit(fitted, np.asarray(weights, dtype=np.float64), fitted.threshold_, getattr(fitted, "n_iter_", 1), True)

    def fit(self, batch: Batch) -> RegressorFit:
        if not isinstance(batch.features, np.ndarray):
            raise InputError(f"{self.title} is fitted with NumPy; fit with engine='numpy'")
        people, points, d = batch.features.shape
        state = batch.features[..., 1 : d // batch.arms]
        expected = np.zeros((people, points, batch.arms))
        weights = np.zeros((people, points))
        threshold = np.full(people, np.inf)
        fits = np.zeros(people, dtype=np.int64)
        settled = np.ones(people, dtype=bool)
        inputs = [critic_features(state, np.full((people, points), code), batch.arms) for code in range(batch.arms)]
        for person in range(people):
            usable = np.flatnonzero(batch.weights[person] > 0)
            if usable.size:
                features = np.ascontiguousarray(batch.features[person][usable, 1:])
                row_fit = self.fit_rows(features, batch.reward[person][usable])
                weights[person, usable] = row_fit.weights
                threshold[person] = row_fit.threshold
                fits[person] = row_fit.fits
                settled[person] = row_fit.settled
                for code, x in enumerate(inputs):
                    expected[person, :, code] = row_fit.regressor.predict(np.ascontiguousarray(x[person][:, 1:]))
        taken = np.take_along_axis(expected, batch.action[..., None], axis=-1)[..., 0]
        nearest = fit_ridge(batch.features, taken, weights, penalty=batch.penalty, arms=batch.arms)
        return RegressorFit(nearest.coef, nearest.gram, weights, threshold, fits, settled, expected, taken)


@dataclass(frozen=True)
class RegressorCritic(RegressionCritic):
    """A regressor that was given as an object, as in `method("accb", critic=RandomForestRegressor())`.

    Parameters
    ----------
    regressor
        Anything with `fit` and `predict`, not fitted.

    Examples
    --------
    >>> import surefoot as sf
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> logs = sf.simulators.HeartSteps(participants=3).collect(sf.policies.coin(2), decision_points=60, seed=0)
    >>> sf.method("accb", critic=DecisionTreeRegressor(max_depth=3)).fit(logs).critic_.title
    'the regressor DecisionTreeRegressor'
    """

    name: ClassVar[str] = "regressor"
    regressor: Any

    def __post_init__(self) -> None:
        kind = type(self.regressor).__name__
        for method in ("fit", "predict"):
            if not callable(getattr(self.regressor, method, None)):
                raise InputError(
                    f"critic is {self.regressor!r}; give a critic's name, a Critic, or a regressor, which {kind} is not: "
                    f"it has no {method}"
                )
        object.__setattr__(self, "title", f"the regressor {kind}")
        object.__setattr__(self, "removal", getattr(self.regressor, "removal", None))
        object.__setattr__(self, "weighs_rows", self.removal is not None)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The regressor and, with `deep`, its own parameters."""
        inner = self.regressor.get_params() if deep and hasattr(self.regressor, "get_params") else {}
        return {"regressor": self.regressor, **inner}

    def with_params(self, changes: Mapping[str, Any]) -> "RegressorCritic":
        regressor = changes.get("regressor", self.regressor)
        inner = {name: value for name, value in changes.items() if name != "regressor"}
        known = list(RegressorCritic(regressor).get_params())
        for name in inner:
            if name not in known:
                raise InputError(f"{self.title} has no parameter '{name}'{did_you_mean(name, known)}; it has {known}")
        return RegressorCritic(deepcopy(regressor).set_params(**inner) if inner else regressor)

    def check_parameters(self) -> None:
        pass  # The regressor checks its own when it is fitted.

    def describe(self) -> list[str]:
        return [type(self.regressor).__name__]

    def make_regressor(self) -> Any:
        return self.regressor

    @property
    def strictness(self) -> float:
        return float(np.inf if self.removal is None else self.regressor.tau)

    def at_strictness(self, factor: float) -> Critic:
        if self.removal is None:
            return self
        return RegressorCritic(copy_regressor(self.regressor).set_params(tau=self.regressor.tau * factor))

    def without_removal(self) -> Critic:
        return self.at_strictness(np.inf)


@dataclass(frozen=True)
class CappedRegressionCritic(RemovingCritic, RegressionCritic):
    """A regressor under the paper's cap."""

    removal: ClassVar[Removal] = Capped.removal
    weighs_rows: ClassVar[bool] = True

    def fit_rows(self, rows: NDArray[np.float64], target: NDArray[np.float64]) -> RowFit:
        return fit_capped_regressor(self.make_regressor(), rows, target, tau=self.tau)

    def without_removal(self) -> Critic:
        return CRITICS.find(self.name.removeprefix("capped-"))()


def _import_ensembles(critic: str) -> Any:
    try:
        from sklearn import ensemble
    except ModuleNotFoundError:
        raise InputError(f"critic '{critic}' needs scikit-learn; install it with: pip install 'surefoot[sklearn]'") from None
    return ensemble


@register_critic
@dataclass(frozen=True)
class RandomForest(RegressionCritic):
    """scikit-learn's random forest with at least five decision points in a leaf."""

    name: ClassVar[str] = "random-forest"
    title: ClassVar[str] = "the random forest"

    def make_regressor(self) -> Any:
        return _import_ensembles(self.name).RandomForestRegressor(min_samples_leaf=5, random_state=0)


@register_critic
@dataclass(frozen=True)
class GradientBoosting(RegressionCritic):
    """scikit-learn's gradient boosting over histograms with at least ten decision points in a leaf."""

    name: ClassVar[str] = "gradient-boosting"
    title: ClassVar[str] = "gradient boosting"

    def make_regressor(self) -> Any:
        return _import_ensembles(self.name).HistGradientBoostingRegressor(min_samples_leaf=10, random_state=0)


@register_critic
@dataclass(frozen=True)
class CappedRandomForest(CappedRegressionCritic, RandomForest):
    """A random forest that ignores decision points with very large residuals, as `Capped` does."""

    name: ClassVar[str] = "capped-random-forest"
    title: ClassVar[str] = "the random forest with the paper's cap"


@register_critic
@dataclass(frozen=True)
class CappedGradientBoosting(CappedRegressionCritic, GradientBoosting):
    """Gradient boosting that ignores decision points with very large residuals, as `Capped` does."""

    name: ClassVar[str] = "capped-gradient-boosting"
    title: ClassVar[str] = "gradient boosting with the paper's cap"


def make_critic(critic: Any) -> Critic:
    """The critic that is meant by a name, by a mapping with `name` and parameters, by itself, or by a regressor."""
    named = isinstance(critic, str | dict | Critic)
    return make_part(CRITICS, critic) if named else RegressorCritic(critic)
