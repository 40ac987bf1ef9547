"""Methods: an optional filter, a critic and a decision rule under one name, with scikit-learn's manners.

The constructor only assigns, `fit(logs)` returns the method itself, and everything learned ends in an underscore.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError, NotFittedError, did_you_mean
from surefoot.learning import actor
from surefoot.learning.batch import Batch, BatchFit, choose_block_cells
from surefoot.learning.critics import Critic, CriticBatch, CriticFit, make_critic, ridge
from surefoot.learning.diagnostics import NOT_CONVERGED, Learnable, describe_troubles, find_troubles, warn_of_troubles
from surefoot.learning.filters import find_filter
from surefoot.learning.fitted import FitArrays, Fitted, join_rules
from surefoot.learning.horizon import Advantage, BatchOutlook, HorizonTask, find_horizon, immediate_advantage
from surefoot.learning.pooling import Block, Pooling, find_pooling
from surefoot.numerics.arrays import Array, array_namespace, contiguous, keep_freed_memory
from surefoot.numerics.batched_cholesky import Cholesky
from surefoot.numerics.engines import Engine, find_engine
from surefoot.numerics.parallel import map_threads
from surefoot.policies.features import critic_features, effects, policy_features
from surefoot.policies.policies import Policies
from surefoot.policies.rules import Boltzmann, DecisionRule, Pessimistic, UpperConfidence
from surefoot.policies.training import KnownTraining


@dataclass(kw_only=True, eq=False)
class Method(ABC):
    """What the three types of method share: the filter and the critic."""

    critic: str | Critic = "ridge"
    """`ridge`, `capped` for the paper's robust critic, `high-breakdown`, or one of your own."""
    filter: str | None = None
    """`hampel` or `kalman` to clean each participant's series first."""
    critic_penalty: float = 1e-3
    """ζ_c."""
    penalize_intercept: bool = True
    """The paper penalises the intercept too; with a real penalty that biases the treatment effect."""
    tau: float = 1.0
    """Multiplies the threshold of squared residuals of a robust critic."""
    refresh_threshold: bool = False
    """Compute the threshold anew from the residuals of every fit, not only of the first."""
    pooling: str = "person"
    """`person`: one policy for each. `all`: one policy, learned from everybody's decision points, for anybody."""
    horizon: str = "immediate"
    """`immediate`: only the next outcome counts. `long-run`: what an action changes in all later ones counts too."""
    max_gap: int = 1
    """With a long-run horizon: decision points this far apart still count as consecutive."""
    day_boundary: int | str | None = None
    """With a long-run horizon: decision points a day, or the clock time at which a day begins (`04:00`); the transition over
    night then has an intercept of its own."""
    critic_variables: tuple[str, ...] | None = None
    """The state variables that the critic sees; None means all."""
    policy_variables: tuple[str, ...] | None = None
    """The state variables that an actor's policy sees; None means all. LinUCB decides by what its critic sees."""

    _non_negative: ClassVar[tuple[str, ...]] = ("critic_penalty",)
    _positive: ClassVar[tuple[str, ...]] = ("tau",)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not name.endswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
        fitted = vars(self).get("fitted_")
        if fitted is None or not hasattr(fitted, name[:-1]):
            raise NotFittedError(
                f"{type(self).__name__} has no '{name}' yet; call fit(logs) first, or see its documentation"
            )
        return getattr(fitted, name[:-1])

    def parameters(self) -> dict[str, Any]:
        """What the constructor was given."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def fit(self, logs: Trajectories, *, engine: str = "numpy") -> Self:
        """Learn one policy per participant, or one for all, with arrays of NumPy, of PyTorch (`torch`) or on a GPU
        (`gpu`)."""
        self.check_parameters()
        if not isinstance(logs, Trajectories):
            raise InputError(f"fit takes Trajectories, not {type(logs).__name__}; make them with Trajectories.from_frame")
        Learnable.of_logs(logs).require(logs.names.reward)
        return self.fit_some(logs, engine=engine)

    def fit_some(self, logs: Trajectories, *, engine: str = "numpy") -> Self:
        """Learn from a part of larger logs, such as some of the people, in which no reward may be known, or only one."""
        where = find_engine(engine)
        sees: dict[str, Any] = {
            "critic_sees": _mask_variables(self.critic_variables, logs.state_names, "critic_variables"),
            "policy_sees": _mask_variables(self.policy_variables, logs.state_names, "policy_variables"),
        }
        cleaned = logs if self.filter is None else find_filter(self.filter).clean(logs)
        pooling, can_use = find_pooling(self.pooling), cleaned.usable
        participants = pooling.list_participants(cleaned)
        features = int((sees["critic_sees"].sum() + 1) * logs.actions)
        texts = describe_troubles(logs.state_names, logs.action_names, features)
        arrays, troubles = FitArrays(len(participants), logs), np.zeros((len(participants), len(texts)), dtype=bool)
        keep_freed_memory()
        horizon = find_horizon(self.horizon)
        outlook = horizon.look(self._horizon_task(cleaned, pooling, sees, where))

        def fit_block(block: Block) -> tuple[NDArray[np.int64], DecisionRule]:
            fits, rows = block
            batch = Batch.from_rows(cleaned, can_use, rows, where, **sees)
            learned = self.fit_batch(batch, None if outlook is None else outlook.restrict(fits, rows, where))
            arrays.record(fits, rows, where.to_numpy(batch.usable) > 0, learned, where)
            data = (batch.state, batch.action, batch.reward, batch.usable, learned.critic.weights)
            troubles[fits] = where.to_numpy(find_troubles(*data, actions=batch.actions, features=features))
            return fits, learned.rule.to_numpy(where)

        who, rules = zip(*map_threads(fit_block, pooling.list_blocks(cleaned, choose_block_cells(len(logs)))), strict=True)
        served = None if pooling.shared else participants
        names, training = (logs.action_names, logs.state_names), KnownTraining.of_logs(logs)
        policies = Policies(served, join_rules(who, rules), *names, training=training)
        parts = (cleaned, self.make_critic(), pooling, participants, pooling.assign_rows(cleaned))
        learned = {**sees, **arrays.finish(), "policies": policies, "horizon": horizon, "outlook": outlook}
        self.fitted_ = Fitted(*parts, **learned)
        warn_of_troubles(participants, np.column_stack([troubles, ~self.fitted_.converged]), [*texts, NOT_CONVERGED])
        return self

    def _horizon_task(
        self, logs: Trajectories, pooling: Pooling, sees: dict[str, NDArray[np.float64]], engine: Engine
    ) -> HorizonTask:
        return HorizonTask(
            logs=logs,
            critic=self.make_critic(),
            pooling=pooling,
            **sees,
            critic_penalty=self.critic_penalty,
            penalize_intercept=self.penalize_intercept,
            max_gap=self.max_gap,
            day_boundary=self.day_boundary,
            engine=engine,
        )

    def fit_batch(self, batch: Batch, outlook: BatchOutlook | None = None) -> BatchFit:
        """The method on arrays: critic, then decision rule, for all people of a block at once.

        With an `outlook` the critic has judged already, and the rule acts on the long-run advantages.
        """
        xp = array_namespace(batch.state)
        x = critic_features(batch.state * batch.critic_sees, batch.action, batch.actions)
        penalty = self.critic_penalty * xp.ones_like(x[0, 0, :])
        penalty[0] *= self.penalize_intercept
        seen = xp.maximum(batch.critic_sees, batch.policy_sees)
        data = CriticBatch(x, batch.reward, batch.usable, batch.state, batch.action, penalty, batch.actions, seen)
        fit = self.make_critic().fit(data) if outlook is None else outlook.critic
        residuals = ridge.residuals(x, batch.reward, fit.coef)
        total = xp.sum(fit.weights, axis=1)
        squares = xp.sum(fit.weights * residuals**2, axis=1)
        scale = xp.sqrt(squares / xp.where(total > 0, total, xp.ones_like(total)))
        ahead = None if outlook is None else outlook.advantage
        rule, converged = self._decision_rule(batch, x, fit, scale, penalty, ahead)
        return BatchFit(fit, residuals, scale, rule, fit.converged & converged)

    @abstractmethod
    def _decision_rule(
        self, batch: Batch, x: Array, fit: CriticFit, scale: Array, penalty: Array, ahead: Advantage | None
    ) -> tuple[DecisionRule, Array]:
        """Turn the critic's fit, or the advantages ahead, into the decision rules of the block's people, and say for whom
        that converged."""

    def make_critic(self) -> Critic:
        """The critic with this method's parameters."""
        return make_critic(self.critic, self.parameters())

    def check_parameters(self) -> None:
        """Refuse parts that do not exist and numbers that cannot be."""
        for one in fields(self):
            value = getattr(self, one.name)
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if isinstance(one.default, float) and not number:
                raise InputError(f"{one.name} is {value!r}; it must be a number")
        self.make_critic().check_parameters()
        if self.filter is not None:
            find_filter(self.filter)
        find_pooling(self.pooling)
        find_horizon(self.horizon)
        if isinstance(self.max_gap, bool) or not isinstance(self.max_gap, int) or self.max_gap < 1:
            raise InputError(f"max_gap is {self.max_gap!r}; it is a whole number of decision points, at least 1")
        for name in (*self._non_negative, *self._positive):
            value = getattr(self, name)
            if not np.isfinite(value) or value < 0 or (value == 0 and name in self._positive):
                least = "above 0" if name in self._positive else "of at least 0"
                raise InputError(f"{name} is {value}; it must be a finite number {least}")

    def coefficients(self, backend: str | None = None) -> Any:
        """One row per participant and coefficient: participant, part (critic or policy), action, feature, value.

        A policy coefficient above zero makes its action more likely as the feature grows.
        """
        return self.fitted_.tabulate_coefficients(backend)

    def outliers(self, backend: str | None = None) -> Any:
        """One row per decision point that the critic left out: who, when, what came back and what was expected."""
        return self.fitted_.tabulate_removed(backend)


@dataclass(kw_only=True, eq=False)
class LinUCB(Method):
    """a = argmax_a x(s, a)ᵀw + α σ √(x(s, a)ᵀ A⁻¹ x(s, a)), A = XᵀUX + ζ_c I, σ the weighted residual scale.

    Learns `critic_coef_` (w), `weights_` (u), `threshold_` (ε), `n_iter_`, `residuals_`, `scale_` (σ) and `policies_`.
    """

    exploration: float = 1.0
    """α."""
    _non_negative: ClassVar[tuple[str, ...]] = ("critic_penalty", "exploration")

    def _decision_rule(
        self, batch: Batch, x: Array, fit: CriticFit, scale: Array, penalty: Array, ahead: Advantage | None
    ) -> tuple[UpperConfidence, Array]:
        if ahead is not None:
            mean, spread = ahead.over_nothing()
            return UpperConfidence(mean, self.exploration**2 * spread), fit.converged
        xp = array_namespace(x)
        people, d = fit.coef.shape
        size = d // batch.actions
        system = Cholesky(fit.gram + penalty * xp.eye(d, dtype=x.dtype, device=device(x)))
        means, spreads = [], []
        for action in range(batch.actions):
            # x(s, a) = E_a z(s): row j of `select` holds the critic's features that element j of z feeds.
            select = critic_features(np.eye(size)[:, :-1], np.full(size, action), batch.actions)
            select[:-1] -= critic_features(np.zeros((1, size - 1)), np.array([action]), batch.actions)
            select = xp.asarray(select, device=device(x))
            select[:-1, :] *= batch.critic_sees[:, None]
            # Products participant by participant: one large product would be rounded by how many people there are.
            means.append((fit.coef[:, None, :] @ xp.matrix_transpose(select))[:, 0, :])
            half = system.half_solve(xp.broadcast_to(xp.matrix_transpose(select), (people, d, size)))
            half = contiguous(xp.permute_dims(half, (2, 1, 0)))
            spreads.append(half @ xp.matrix_transpose(half))
        width = (self.exploration * scale)[:, None, None, None] ** 2
        return UpperConfidence(xp.stack(means, axis=1), width * xp.stack(spreads, axis=1)), fit.converged


@dataclass(kw_only=True, eq=False)
class ACCB(Method):
    """θ = argmax (1/M) Σ_i u_i Σ_a π_θ(a | s_i) x(s_i, a)ᵀw − (ζ_a / 2) ‖θ‖²: the actor-critic contextual bandit.

    Learns `coef_` (θ), `critic_coef_` (w), `weights_` (u), `threshold_` (ε), `n_iter_`, `residuals_` and `policies_`.
    """

    actor_penalty: float = 1e-3
    """ζ_a."""
    _non_negative: ClassVar[tuple[str, ...]] = ("critic_penalty", "actor_penalty")

    @property
    def radius(self) -> float | None:
        """The limit of the mean squared logit; None without one."""
        return None

    def _decision_rule(
        self, batch: Batch, x: Array, fit: CriticFit, scale: Array, penalty: Array, ahead: Advantage | None
    ) -> tuple[Boltzmann, Array]:
        xp = array_namespace(x)
        z = policy_features(batch.state * batch.policy_sees)
        effect = xp.matrix_transpose(effects(fit.coef, batch.actions) if ahead is None else ahead.mean)
        advantage = batch.state @ effect[:, :-1, :] + effect[:, -1:, :]
        count = xp.sum(batch.usable, axis=1)
        found = actor.optimise(z, advantage, fit.weights, count=count, penalty=self.actor_penalty, radius=self.radius)
        return Boltzmann(found.coef), found.converged


@dataclass(kw_only=True, eq=False)
class SACCB(ACCB):
    """ACCB that keeps every action possible: θᵀ Σ θ ≤ α (log(p₀ / (1 − p₀)))², Σ the weighted mean of g gᵀ.

    This is Lei's relaxation of P(p₀ ≤ π_θ(1 | S) ≤ 1 − p₀) ≥ 1 − α.
    """

    minimum_probability: float = 0.1
    """p₀."""
    violation: float = 0.1
    """α."""
    _positive: ClassVar[tuple[str, ...]] = ("tau", "minimum_probability", "violation")

    @property
    def radius(self) -> float:
        return float(self.violation * np.log(self.minimum_probability / (1 - self.minimum_probability)) ** 2)

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.minimum_probability >= 0.5 or self.violation > 1:
            raise InputError("minimum_probability must be below 0.5 and violation at most 1")


@dataclass(kw_only=True, eq=False)
class Pessimist(Method):
    """Leaves the reference action only where another's advantage m(s) exceeds κ standard errors: m(s) > κ √(zᵀVz).

    The reference is doing nothing, unless always taking another action earns more by two standard errors in the long run.
    Learns `critic_coef_` (w), `weights_` (u), `threshold_` (ε), `n_iter_`, `residuals_`, `outlook_` and `policies_`.
    """

    caution: float | None = None
    """κ. By default it follows the decision points of a fit: 1 from 1,500 on, 2 from 400 on, 3 below."""

    def _decision_rule(
        self, batch: Batch, x: Array, fit: CriticFit, scale: Array, penalty: Array, ahead: Advantage | None
    ) -> tuple[Pessimistic, Array]:
        advantage = immediate_advantage(fit, scale, penalty, batch.actions) if ahead is None else ahead
        kappa = choose_caution(advantage.count) if self.caution is None else self.caution + 0.0 * advantage.count
        mean, spread = advantage.over_reference()
        return Pessimistic(mean, kappa[:, None, None, None] ** 2 * spread), fit.converged

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.caution is not None and not (np.isfinite(self.caution) and self.caution >= 0):
            raise InputError(f"caution is {self.caution}; it must be a finite number of at least 0")


CAUTION = ((1500, 1.0), (400, 2.0), (0, 3.0))
"""From so many decision points of a fit on: κ."""


def choose_caution(count: Array) -> Array:
    """κ by the number of decision points of each fit: policies from few of them harm more often than they help."""
    xp = array_namespace(count)
    kappa = xp.zeros_like(count)
    for least, value in CAUTION:
        kappa = xp.where((kappa == 0) & (count >= least), value, kappa)
    return kappa


AHEAD = {"pooling": "all", "horizon": "long-run"}
METHODS: dict[str, tuple[type[Method], dict[str, str]]] = {
    f"{prefix}{name}": (kind, parameters)
    for prefix, parameters in (
        *(("", {}), ("filter-", {"filter": "hampel"}), ("ro-", {"critic": "capped"})),
        ("hb-", {"critic": "high-breakdown"}),
    )
    for name, kind in (("linucb", LinUCB), ("accb", ACCB), ("saccb", SACCB))
} | {
    "ahead": (Pessimist, AHEAD),
    "ro-ahead": (Pessimist, {**AHEAD, "critic": "capped"}),
    "hb-ahead": (Pessimist, {**AHEAD, "critic": "high-breakdown"}),
}
"""The paper's nine methods by name, then three with the high-breakdown critic, then three that look ahead, for everybody
together."""


def method(name: str, **parameters: Any) -> Method:
    """One of the methods, not yet fitted, with parameters of its class.

    >>> method("ro-accb", tau=2.0).critic
    'capped'
    """
    if name not in METHODS:
        raise InputError(f"there is no method '{name}'{did_you_mean(name, METHODS)}; choose from {list(METHODS)}")
    kind, preset = METHODS[name]
    valid = [field.name for field in fields(kind)]
    for parameter in parameters:
        if parameter not in valid:
            raise InputError(f"{name} has no parameter '{parameter}'{did_you_mean(parameter, valid)}; it has {valid}")
    made = kind(**{**preset, **parameters})
    made.check_parameters()
    return made


def _mask_variables(chosen: tuple[str, ...] | None, names: tuple[str, ...], parameter: str) -> NDArray[np.float64]:
    """1.0 for the state variables that are seen, 0.0 for the others: a feature that is always zero gets coefficient zero."""
    for name in chosen or ():
        if name not in names:
            raise InputError(
                f"{parameter} names '{name}', which the logs do not have{did_you_mean(name, names)}", column=name
            )
    return np.array([1.0 if chosen is None or name in chosen else 0.0 for name in names])
