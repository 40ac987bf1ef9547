"""Methods: an optional filter, a critic and a decision rule under one name, with scikit-learn's manners.

The constructor only assigns, `fit(logs)` returns the method itself, and everything learned ends in an underscore.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.data.trajectories import BLOCK_CELLS, Trajectories
from surefoot.errors import FitWarning, InputError, NotFittedError, did_you_mean
from surefoot.learning import actor, filters
from surefoot.learning.critics import capped
from surefoot.learning.critics.high_breakdown import fit_high_breakdown
from surefoot.learning.diagnostics import fit_troubles, trouble_names
from surefoot.numerics.arrays import Array, array_namespace, contiguous, keep_freed_memory
from surefoot.numerics.batched_cholesky import Cholesky
from surefoot.numerics.engines import Engine, find_engine
from surefoot.numerics.parallel import count_threads, map_threads
from surefoot.policies.features import critic_feature_names, critic_features, effects, policy_feature_names, policy_features
from surefoot.policies.policies import Policies
from surefoot.policies.rules import Boltzmann, DecisionRule, UpperConfidence

CRITICS = ("ridge", "capped", "high-breakdown")
POOLINGS = ("person", "all")


@dataclass(frozen=True, eq=False)
class Batch:
    """Some people's decision points as padded arrays (people, decision points, …) of any engine: what a method learns
    from."""

    state: Array
    action: Array
    reward: Array
    usable: Array
    """1.0 where a decision point can be used, 0.0 on padding and where something is missing."""
    actions: int
    critic_sees: Array
    policy_sees: Array
    """(state variables,): 1.0 for those that are seen, 0.0 for the others."""

    @classmethod
    def of(
        cls, logs: Trajectories, can_use: NDArray[np.bool_], rows: NDArray[np.int64], engine: Engine, **more: Any
    ) -> Batch:
        """Rows of the logs, −1 where padded."""
        usable = (rows >= 0) & can_use[rows]
        # Each variable's values lie side by side, as those of the features do.
        state = np.empty((len(rows), len(logs.state_names), rows.shape[1]))
        for j in range(state.shape[1]):
            state[:, j, :] = np.where(usable, logs.state[:, j][rows], 0.0)
        return cls(
            state=engine.to_device(np.swapaxes(state, 1, 2)),
            action=engine.to_device(np.where(usable, logs.action[rows], 0)),
            reward=engine.to_device(np.where(usable, logs.reward[rows], 0.0)),
            usable=engine.to_device(usable.astype(np.float64)),
            actions=logs.actions,
            **{name: engine.to_device(values) for name, values in more.items()},
        )


@dataclass(frozen=True, eq=False)
class BatchFit:
    """What a method learned from some people's decision points, in arrays of the engine they came in."""

    critic: capped.CriticFit
    residuals: Array
    scale: Array
    """Weighted root mean squared residual, (people,)."""
    rule: DecisionRule
    converged: Array


@dataclass(kw_only=True, eq=False)
class Method(ABC):
    """What the three types of method share: the filter and the critic."""

    critic: str = "ridge"
    """`ridge`, `capped` for the paper's robust critic, or `high-breakdown`."""
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
    critic_variables: tuple[str, ...] | None = None
    """The state variables that the critic sees; None means all."""
    policy_variables: tuple[str, ...] | None = None
    """The state variables that an actor's policy sees; None means all. LinUCB decides by what its critic sees."""

    _non_negative: ClassVar[tuple[str, ...]] = ("critic_penalty",)
    _positive: ClassVar[tuple[str, ...]] = ("tau",)

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):
            raise NotFittedError(
                f"{type(self).__name__} has no '{name}' yet; call fit(logs) first, or see its documentation"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")

    def parameters(self) -> dict[str, Any]:
        """What the constructor was given."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def fit(self, logs: Trajectories, *, engine: str = "numpy") -> Self:
        """Learn one policy per participant, or one for all, with arrays of NumPy, of PyTorch (`torch`) or on a GPU
        (`gpu`)."""
        self._check_parameters()
        if not isinstance(logs, Trajectories):
            raise InputError(f"fit takes Trajectories, not {type(logs).__name__}; make them with Trajectories.from_frame")
        where = find_engine(engine)
        self.logs_ = logs if self.filter is None else filters.clean(logs, self.filter)
        self._critic_sees = _mask(self.critic_variables, logs.state_names, "critic_variables")
        self._policy_sees = _mask(self.policy_variables, logs.state_names, "policy_variables")
        pooled = self.pooling == "all"
        self.participants_ = np.array(["everyone"]) if pooled else logs.participants
        people, features = len(self.participants_), (logs.state.shape[1] + 1) * logs.actions
        self.critic_coef_ = np.zeros((people, features))
        self.threshold_ = np.full(people, np.inf)
        self.scale_ = np.zeros(people)
        self.n_iter_ = np.zeros(people, dtype=np.int64)
        # Row −1, which stands for padding, is the last: one more than there are, and left out at the end.
        self.weights_, self.residuals_ = np.full(len(logs) + 1, np.nan), np.full(len(logs) + 1, np.nan)
        self._converged = np.ones(people, dtype=bool)
        self._troubles = np.zeros((people, 2 + len(logs.state_names) + 2 * logs.actions), dtype=bool)
        can_use = self.logs_.usable
        keep_freed_memory()
        blocks = self.logs_.pooled() if pooled else self.logs_.blocks(_block_cells(len(logs)))
        # Blocks write to rows and people of their own, so threads need not wait for each other.
        who, rules = zip(*map_threads(lambda block: self._fit_block(*block, can_use, where), blocks), strict=True)
        self.weights_, self.residuals_ = self.weights_[:-1], self.residuals_[:-1]
        back = np.argsort(np.concatenate(who))
        kind = type(rules[0])
        rule = kind(**{name: np.concatenate([part.arrays()[name] for part in rules])[back] for name in rules[0].arrays()})
        self.policies_ = Policies(None if pooled else logs.participants, rule, logs.action_names, logs.state_names)
        if isinstance(rule, Boltzmann):
            self.coef_ = rule.coef.reshape(people, -1)
        self._warn()
        return self

    def _fit_block(
        self, people: NDArray[np.int64], rows: NDArray[np.int64], can_use: NDArray[np.bool_], engine: Engine
    ) -> tuple[NDArray[np.int64], DecisionRule]:
        """Learn from some people's rows and keep what was learned in its place; give them back with their rules."""
        sees = {"critic_sees": self._critic_sees, "policy_sees": self._policy_sees}
        batch = Batch.of(self.logs_, can_use, rows, engine, **sees)
        learned = self.fit_batch(batch)
        fit, used = learned.critic, engine.to_numpy(batch.usable) > 0
        troubles = fit_troubles(
            *(batch.state, batch.action, batch.usable, fit.weights), actions=batch.actions, features=self._seen_features
        )
        self._troubles[people] = engine.to_numpy(troubles)
        self.critic_coef_[people], self.threshold_[people] = engine.to_numpy(fit.coef), engine.to_numpy(fit.threshold)
        self.n_iter_[people], self.scale_[people] = engine.to_numpy(fit.n_iter), engine.to_numpy(learned.scale)
        self._converged[people] = engine.to_numpy(learned.converged)
        self.weights_[rows] = np.where(used, engine.to_numpy(fit.weights), np.nan)
        self.residuals_[rows] = np.where(used, engine.to_numpy(learned.residuals), np.nan)
        return people, type(learned.rule)(**{name: engine.to_numpy(part) for name, part in learned.rule.arrays().items()})

    def fit_batch(self, batch: Batch) -> BatchFit:
        """The method on arrays: critic, then decision rule, for all people of a block at once."""
        xp = array_namespace(batch.state)
        x = critic_features(batch.state * batch.critic_sees, batch.action, batch.actions)
        penalty = self.critic_penalty * xp.ones_like(x[0, 0, :])
        penalty[0] *= self.penalize_intercept
        data = (x, batch.reward, batch.usable)
        if self.critic == "capped":
            refresh = self.refresh_threshold
            fit = capped.fit_capped(*data, penalty=penalty, arms=batch.actions, tau=self.tau, refresh_threshold=refresh)
        elif self.critic == "high-breakdown":
            # An artefact in a variable that only the policy sees would mislead the actor.
            state = batch.state * xp.maximum(batch.critic_sees, batch.policy_sees)
            fit = fit_high_breakdown(*data, state=state, action=batch.action, penalty=penalty, tau=self.tau)
        else:
            fit = capped.fit_ridge(*data, penalty=penalty, arms=batch.actions)
        residuals = capped.residuals(x, batch.reward, fit.coef)
        total = xp.sum(fit.weights, axis=1)
        squares = xp.sum(fit.weights * residuals**2, axis=1)
        scale = xp.sqrt(squares / xp.where(total > 0, total, xp.ones_like(total)))
        rule, converged = self._decision_rule(batch, x, fit, scale, penalty)
        return BatchFit(fit, residuals, scale, rule, fit.converged & converged)

    @abstractmethod
    def _decision_rule(
        self, batch: Batch, x: Array, fit: capped.CriticFit, scale: Array, penalty: Array
    ) -> tuple[DecisionRule, Array]:
        """Turn the critic's fit into the decision rules of the block's people, and say for whom that converged."""

    @property
    def _seen_features(self) -> int:
        return int((self._critic_sees.sum() + 1) * self.logs_.actions)

    @property
    def _unit(self) -> NDArray[np.int64]:
        """For every row the position of its fit in `users_`."""
        return np.zeros(len(self.logs_), dtype=np.int64) if self.pooling == "all" else self.logs_.participant_index

    def _warn(self) -> None:
        names = trouble_names(self.logs_.state_names, self.logs_.action_names, self._seen_features)
        for what, who in zip(names, self._troubles.T, strict=True):
            _warn_of(self.participants_[who], what)
        _warn_of(
            self.participants_[~self._converged], "the search did not converge; rescale the states or raise the penalties"
        )

    def _check_parameters(self) -> None:
        if self.critic not in CRITICS:
            raise InputError(
                f"there is no critic '{self.critic}'{did_you_mean(self.critic, CRITICS)}; choose from {list(CRITICS)}"
            )
        if self.filter is not None and self.filter not in filters.FILTERS:
            raise InputError(f"there is no filter '{self.filter}'; choose from {list(filters.FILTERS)} or None")
        if self.pooling not in POOLINGS:
            raise InputError(f"pooling is '{self.pooling}'; choose from {list(POOLINGS)}")
        for name in (*self._non_negative, *self._positive):
            value = getattr(self, name)
            if not np.isfinite(value) or value < 0 or (value == 0 and name in self._positive):
                least = "above 0" if name in self._positive else "at least 0"
                raise InputError(f"{name} is {value}; it must be a finite number {least}")

    def coefficients(self, backend: str | None = None) -> Any:
        """One row per participant and coefficient: participant, part (critic or policy), action, feature, value.

        A policy coefficient above zero makes its action more likely as the feature grows.
        """
        logs = self.logs_
        parts = [("critic", critic_feature_names(logs.state_names, logs.action_names), self.critic_coef_)]
        if isinstance(self.policies_.rule, Boltzmann):
            parts.append(("policy", policy_feature_names(logs.state_names, logs.action_names), self.coef_))
        rows = [(part, action, feature) for part, names, _ in parts for action, feature in names]
        values = np.concatenate([coef for _, _, coef in parts], axis=1)
        people = len(self.participants_)
        part, action, feature = zip(*rows, strict=True)
        data = {
            logs.names.participant: np.repeat(self.participants_, len(rows)),
            "part": list(part) * people,
            "action": list(action) * people,
            "feature": list(feature) * people,
            "value": values.ravel(),
        }
        return make_frame(data, backend or logs.backend)

    def outliers(self, backend: str | None = None) -> Any:
        """One row per decision point that the critic left out: who, when, what came back and what was expected."""
        logs = self.logs_
        out = logs.order[self.weights_[logs.order] == 0]
        data = {
            logs.names.participant: logs.participant[out],
            logs.names.time: logs.time[out],
            logs.names.action: logs.action[out],
            logs.names.reward: logs.reward[out],
            "expected": logs.reward[out] - self.residuals_[out],
            "residual": self.residuals_[out],
            "limit": np.sqrt(self.threshold_[self._unit[out]]),
        }
        return make_frame(data, backend or logs.backend)


@dataclass(kw_only=True, eq=False)
class LinUCB(Method):
    """a = argmax_a x(s, a)ᵀw + α σ √(x(s, a)ᵀ A⁻¹ x(s, a)), A = XᵀUX + ζ_c I, σ the weighted residual scale.

    Learns `critic_coef_` (w), `weights_` (u), `threshold_` (ε), `n_iter_`, `residuals_`, `scale_` (σ) and `policies_`.
    """

    exploration: float = 1.0
    """α."""
    _non_negative: ClassVar[tuple[str, ...]] = ("critic_penalty", "exploration")

    def _decision_rule(
        self, batch: Batch, x: Array, fit: capped.CriticFit, scale: Array, penalty: Array
    ) -> tuple[UpperConfidence, Array]:
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
    def _radius(self) -> float | None:
        return None

    def _decision_rule(
        self, batch: Batch, x: Array, fit: capped.CriticFit, scale: Array, penalty: Array
    ) -> tuple[Boltzmann, Array]:
        xp = array_namespace(x)
        z = policy_features(batch.state * batch.policy_sees)
        effect = xp.matrix_transpose(effects(fit.coef, batch.actions))
        advantage = batch.state @ effect[:, :-1, :] + effect[:, -1:, :]
        count = xp.sum(batch.usable, axis=1)
        found = actor.optimise(z, advantage, fit.weights, count=count, penalty=self.actor_penalty, radius=self._radius)
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
    def _radius(self) -> float:
        return float(self.violation * np.log(self.minimum_probability / (1 - self.minimum_probability)) ** 2)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.minimum_probability >= 0.5 or self.violation > 1:
            raise InputError("minimum_probability must be below 0.5 and violation at most 1")


METHODS: dict[str, tuple[type[Method], dict[str, str]]] = {
    f"{prefix}{name}": (kind, parameters)
    for prefix, parameters in (
        *(("", {}), ("filter-", {"filter": "hampel"}), ("ro-", {"critic": "capped"})),
        ("hb-", {"critic": "high-breakdown"}),
    )
    for name, kind in (("linucb", LinUCB), ("accb", ACCB), ("saccb", SACCB))
}
"""The paper's nine methods by name, then three with the high-breakdown critic."""


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
    return kind(**{**preset, **parameters})


def _mask(chosen: tuple[str, ...] | None, names: tuple[str, ...], parameter: str) -> NDArray[np.float64]:
    """1.0 for the state variables that are seen, 0.0 for the others: a feature that is always zero gets coefficient zero."""
    for name in chosen or ():
        if name not in names:
            raise InputError(
                f"{parameter} names '{name}', which the logs do not have{did_you_mean(name, names)}", column=name
            )
    return np.array([1.0 if chosen is None or name in chosen else 0.0 for name in names])


def _block_cells(rows: int) -> int:
    """One block or more for every thread; many threads need larger ones, or they wait for each other in Python."""
    most = BLOCK_CELLS if count_threads() <= 2 else 2 * BLOCK_CELLS
    return min(max(rows // count_threads(), BLOCK_CELLS), most)


def _warn_of(participants: NDArray[Any], what: str) -> None:
    names = [repr(participant.item()) for participant in participants]
    if names:
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        warnings.warn(f"participant {', '.join(names[:10])}{more}: {what}", FitWarning, stacklevel=4)
