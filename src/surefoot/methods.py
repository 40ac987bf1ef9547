"""Methods: an optional filter, a critic and a decision rule under one name, with scikit-learn's manners.

The constructor only assigns, `fit(logs)` returns the method itself, and everything learned ends in an underscore.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from surefoot import actors, critics, filters
from surefoot.cholesky import Cholesky
from surefoot.decision_rules import Boltzmann, DecisionRule, UpperConfidence
from surefoot.errors import FitWarning, InputError, NotFittedError, closest
from surefoot.features import critic_feature_names, critic_features, effects, policy_feature_names, policy_features
from surefoot.fit_troubles import fit_troubles
from surefoot.high_breakdown import fit_high_breakdown
from surefoot.policies import Policies
from surefoot.trajectories import Trajectories, tidy

CRITICS = ("ridge", "capped", "high-breakdown")
POOLINGS = ("person", "all")


@dataclass(frozen=True)
class _Block:
    """Some people's tuples as padded arrays; `usable` is 0.0 on padding and on rows that a fit cannot use."""

    people: NDArray[np.int64]
    rows: NDArray[np.int64]
    state: NDArray[np.float64]
    action: NDArray[np.int64]
    reward: NDArray[np.float64]
    usable: NDArray[np.float64]

    @classmethod
    def of(
        cls, logs: Trajectories, can_use: NDArray[np.bool_], people: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> _Block:
        usable = (rows >= 0) & can_use[rows]
        return cls(
            people=people,
            rows=rows,
            state=np.where(usable[..., None], logs.state[rows], 0.0),
            action=np.where(usable, logs.action[rows], 0),
            reward=np.where(usable, logs.reward[rows], 0.0),
            usable=usable.astype(np.float64),
        )


@dataclass(kw_only=True, eq=False)
class Method(ABC):
    """What the three types of method share: the filter and the critic."""

    critic: str = "ridge"
    """`ridge`, `capped` for the paper's robust critic, or `high-breakdown`."""
    filter: str | None = None
    """`hampel` or `kalman` to clean each person's series first."""
    critic_penalty: float = 1e-3
    """ζ_c."""
    penalize_intercept: bool = True
    """The paper penalises the intercept too; with a real penalty that biases the treatment effect."""
    tau: float = 1.0
    """Multiplies the threshold of squared residuals of a robust critic."""
    refresh_threshold: bool = False
    """Compute the threshold anew from the residuals of every fit, not only of the first."""
    pooling: str = "person"
    """`person`: one policy for each. `all`: one policy, learned from everybody's tuples, for anybody."""
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

    def fit(self, logs: Trajectories) -> Self:
        """Learn one policy per person, or one for all."""
        self._check_parameters()
        if not isinstance(logs, Trajectories):
            raise InputError(f"fit takes Trajectories, not {type(logs).__name__}; make them with Trajectories.from_frame")
        self.logs_ = logs if self.filter is None else filters.clean(logs, self.filter)
        self._critic_sees = _mask(self.critic_variables, logs.state_names, "critic_variables")
        self._policy_sees = _mask(self.policy_variables, logs.state_names, "policy_variables")
        pooled = self.pooling == "all"
        self.users_ = np.array(["everyone"]) if pooled else logs.users
        people, features = len(self.users_), (logs.state.shape[1] + 1) * logs.actions
        self.critic_coef_ = np.zeros((people, features))
        self.threshold_ = np.full(people, np.inf)
        self.scale_ = np.zeros(people)
        self.n_iter_ = np.zeros(people, dtype=np.int64)
        self.weights_ = np.full(len(logs), np.nan)
        self.residuals_ = np.full(len(logs), np.nan)
        self._converged = np.ones(people, dtype=bool)
        rules, order = [], []
        can_use = self.logs_.usable
        for chunk, rows in self.logs_.pooled() if pooled else self.logs_.blocks():
            rules.append(self._fit_block(_Block.of(self.logs_, can_use, chunk, rows)))
            order.append(chunk)
        back = np.argsort(np.concatenate(order))
        kind = type(rules[0])
        rule = kind(**{name: np.concatenate([part.arrays()[name] for part in rules])[back] for name in rules[0].arrays()})
        self.policies_ = Policies(None if pooled else logs.users, rule, logs.action_names, logs.state_names)
        if isinstance(rule, Boltzmann):
            self.coef_ = rule.coef.reshape(people, -1)
        self._warn()
        return self

    @property
    def _unit(self) -> NDArray[np.int64]:
        """For every row the position of its fit in `users_`."""
        return np.zeros(len(self.logs_), dtype=np.int64) if self.pooling == "all" else self.logs_.person

    def _warn(self) -> None:
        features = int((self._critic_sees.sum() + 1) * self.logs_.actions)
        for who, what in fit_troubles(self.logs_, self._unit, len(self.users_), self.weights_, features):
            _warn_of(self.users_[who], what)
        _warn_of(self.users_[~self._converged], "the search did not converge; rescale the states or raise the penalties")

    def _fit_block(self, block: _Block) -> DecisionRule:
        x = critic_features(block.state * self._critic_sees, block.action, self.logs_.actions)
        penalty = np.full(x.shape[-1], self.critic_penalty)
        penalty[0] *= self.penalize_intercept
        if self.critic == "capped":
            fit = critics.fit_capped(
                x, block.reward, block.usable, penalty=penalty, tau=self.tau, refresh_threshold=self.refresh_threshold
            )
        elif self.critic == "high-breakdown":
            # An artefact in a variable that only the policy sees would mislead the actor.
            seen = np.maximum(self._critic_sees, self._policy_sees)
            fit = fit_high_breakdown(
                *(x, block.reward, block.usable),
                state=block.state * seen,
                action=block.action,
                penalty=penalty,
                tau=self.tau,
            )
        else:
            fit = critics.fit_ridge(x, block.reward, block.usable, penalty=penalty)
        people, used = block.people, block.usable > 0
        self.critic_coef_[people], self.threshold_[people], self.n_iter_[people] = fit.coef, fit.threshold, fit.n_iter
        self._converged[people] = fit.converged
        self.weights_[block.rows[used]] = fit.weights[used]
        residuals = critics.residuals(x, block.reward, fit.coef)
        self.residuals_[block.rows[used]] = residuals[used]
        total = fit.weights.sum(axis=1)
        self.scale_[people] = np.sqrt((fit.weights * residuals**2).sum(axis=1) / np.where(total > 0, total, 1.0))
        return self._decide(block, x, fit, penalty)

    @abstractmethod
    def _decide(self, block: _Block, x: NDArray[Any], fit: critics.CriticFit, penalty: NDArray[Any]) -> DecisionRule:
        """Turn the critic's fit into the decision rules of the block's people."""

    def _check_parameters(self) -> None:
        if self.critic not in CRITICS:
            raise InputError(
                f"there is no critic '{self.critic}'{closest(self.critic, CRITICS)}; choose from {list(CRITICS)}"
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
        """One row per person and coefficient: user, part (critic or policy), action, feature, value.

        A policy coefficient above zero makes its action more likely as the feature grows.
        """
        logs = self.logs_
        parts = [("critic", critic_feature_names(logs.state_names, logs.action_names), self.critic_coef_)]
        if isinstance(self.policies_.rule, Boltzmann):
            parts.append(("policy", policy_feature_names(logs.state_names, logs.action_names), self.coef_))
        rows = [(part, action, feature) for part, names, _ in parts for action, feature in names]
        values = np.concatenate([coef for _, _, coef in parts], axis=1)
        people = len(self.users_)
        part, action, feature = zip(*rows, strict=True)
        data = {
            logs.names.user: np.repeat(self.users_, len(rows)),
            "part": list(part) * people,
            "action": list(action) * people,
            "feature": list(feature) * people,
            "value": values.ravel(),
        }
        return tidy(data, backend or logs.backend)

    def outliers(self, backend: str | None = None) -> Any:
        """One row per tuple that the critic left out: who, when, what came back and what was expected."""
        logs = self.logs_
        out = logs.order[self.weights_[logs.order] == 0]
        data = {
            logs.names.user: logs.user[out],
            logs.names.time: logs.time[out],
            logs.names.action: logs.action[out],
            logs.names.reward: logs.reward[out],
            "expected": logs.reward[out] - self.residuals_[out],
            "residual": self.residuals_[out],
            "limit": np.sqrt(self.threshold_[self._unit[out]]),
        }
        return tidy(data, backend or logs.backend)


@dataclass(kw_only=True, eq=False)
class LinUCB(Method):
    """a = argmax_a x(s, a)ᵀw + α σ √(x(s, a)ᵀ A⁻¹ x(s, a)), A = XᵀUX + ζ_c I, σ the weighted residual scale.

    Learns `critic_coef_` (w), `weights_` (u), `threshold_` (ε), `n_iter_`, `residuals_`, `scale_` (σ) and `policies_`.
    """

    exploration: float = 1.0
    """α."""
    _non_negative: ClassVar[tuple[str, ...]] = ("critic_penalty", "exploration")

    def _decide(self, block: _Block, x: NDArray[Any], fit: critics.CriticFit, penalty: NDArray[Any]) -> UpperConfidence:
        actions, size = self.logs_.actions, x.shape[-1] // self.logs_.actions
        people = len(x)
        system = Cholesky(critics.gram(x, fit.weights) + penalty * np.eye(x.shape[-1]))
        mean = np.zeros((people, actions, size))
        spread = np.zeros((people, actions, size, size))
        for action in range(actions):
            # x(s, a) = E_a z(s): each column of E_a picks the critic's features that one element of z feeds.
            select = critic_features(np.eye(size)[:, :-1], np.full(size, action), actions)
            select[:-1] -= critic_features(np.zeros((1, size - 1)), np.array([action]), actions)
            select[:-1] *= self._critic_sees[:, None]
            # Products person by person: one large product would be rounded by how many people there are.
            mean[:, action] = (fit.coef[:, None, :] @ select.T)[:, 0]
            halves = [system.half_solve(np.broadcast_to(column, (people, x.shape[-1]))) for column in select]
            half = np.ascontiguousarray(np.stack(halves).transpose(2, 1, 0))
            spread[:, action] = np.swapaxes(half, 1, 2) @ half
        return UpperConfidence(mean, (self.exploration * self.scale_[block.people])[:, None, None, None] ** 2 * spread)


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

    def _decide(self, block: _Block, x: NDArray[Any], fit: critics.CriticFit, penalty: NDArray[Any]) -> Boltzmann:
        z = policy_features(block.state * self._policy_sees)
        advantage = policy_features(block.state) @ np.swapaxes(effects(fit.coef, self.logs_.actions), 1, 2)
        count = block.usable.sum(axis=1)
        found = actors.optimise(z, advantage, fit.weights, count=count, penalty=self.actor_penalty, radius=self._radius)
        self._converged[block.people] &= found.converged
        return Boltzmann(found.coef)


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
        raise InputError(f"there is no method '{name}'{closest(name, METHODS)}; choose from {list(METHODS)}")
    kind, preset = METHODS[name]
    valid = [field.name for field in fields(kind)]
    for parameter in parameters:
        if parameter not in valid:
            raise InputError(f"{name} has no parameter '{parameter}'{closest(parameter, valid)}; it has {valid}")
    return kind(**{**preset, **parameters})


def _mask(chosen: tuple[str, ...] | None, names: tuple[str, ...], parameter: str) -> NDArray[np.float64]:
    """1.0 for the state variables that are seen, 0.0 for the others: a feature that is always zero gets coefficient zero."""
    for name in chosen or ():
        if name not in names:
            raise InputError(f"{parameter} names '{name}', which the logs do not have{closest(name, names)}", column=name)
    return np.array([1.0 if chosen is None or name in chosen else 0.0 for name in names])


def _warn_of(users: NDArray[Any], what: str) -> None:
    names = [repr(user.item()) for user in users]
    if names:
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        warnings.warn(f"user {', '.join(names[:10])}{more}: {what}", FitWarning, stacklevel=4)
