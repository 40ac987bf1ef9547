"""What a method is: an optional filter, a critic, a pooling, a horizon and a decision rule, with scikit-learn's manners.

The constructor only assigns, `fit(logs)` returns the method itself, and everything learned ends in an underscore.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from surefoot.data.mean_weights import find_weight_problem
from surefoot.data.trajectories import Trajectories, join_logs
from surefoot.errors import FitWarning, InputError, NotFittedError, did_you_mean
from surefoot.learning.batch import Batch, BatchFit, choose_block_cells
from surefoot.learning.critics import Critic, CriticBatch, CriticFit, make_critic
from surefoot.learning.diagnostics import NOT_CONVERGED, Learnable, describe_troubles, find_troubles, warn_of_troubles
from surefoot.learning.filters import find_filter
from surefoot.learning.fitted import FitArrays, join_rules
from surefoot.learning.forgetting import check_forgetting, discount_rows, warn_of_oblivion
from surefoot.learning.horizon import BatchOutlook, HorizonTask, JointFit, find_horizon
from surefoot.learning.methods.critic_result import CriticResult
from surefoot.learning.methods.estimator import EstimatorInterface
from surefoot.learning.penalty_units import FitScales, find_penalty_units
from surefoot.learning.pooling import Block, check_random_walk, find_pooling
from surefoot.learning.priors import PlacedPrior
from surefoot.numerics.arrays import Array, Engine, array_namespace, find_engine, keep_freed_memory
from surefoot.numerics.parallel import map_threads
from surefoot.policies.policies import Policies
from surefoot.policies.rules import DecisionRule
from surefoot.policies.training import KnownTraining

UNKNOWN = object()
"""What a fit leaves under a name that it does not have."""


@dataclass(kw_only=True, eq=False)
class Method(EstimatorInterface, ABC):
    """What all types of method share: the filter, the critic, who shares a fit, and how far it looks."""

    critic: Any = "ridge"
    """`ridge`, `capped` for the paper's robust critic, `high-breakdown`, a regressor (`random-forest`, `gradient-boosting`,
    the same with `capped-` before it, or any object with `fit` and `predict`), or a `Critic` of your own."""
    filter: str | None = None
    """`hampel` or `kalman` to clean each participant's series first."""
    critic_penalty: float = 1e-3
    """ζ_c."""
    penalty_units: str = "standard"
    """`standard`: penalties are counted in the reward's spread and the states' widths, so that units change nothing.
    `absolute`: as in the paper, in whatever units they come in."""
    penalize_intercept: bool = True
    """In absolute units the paper penalises the critic's intercept too; with a real penalty that biases the effect."""
    tau: float = 1.0
    """Multiplies the threshold of squared residuals of a robust critic."""
    refresh_threshold: bool = False
    """Compute the threshold anew from the residuals of every fit, not only of the first."""
    pooling: str = "person"
    """`person`: one policy for each. `all`: one policy, learned from everybody's decision points, for anybody. `partial`:
    one for each, drawn towards everybody's as far as people are alike, and one for anybody else."""
    correlated_differences: bool = False
    """With partial pooling: whether people's coefficients may differ together; of few people that cannot be told."""
    forgetting: float = 1.0
    """A decision point that lies k before the participant's last one counts forgetting^k times: for people who change."""
    random_walk: float | str | None = None
    """With partial pooling: by which share of the variance between people a participant's coefficients vary from one
    decision point to the next, or `estimate`. The policy is then of their last ones."""
    horizon: str = "immediate"
    """`immediate`: only the next outcome counts. `long-run`: what an action changes in all later ones counts too."""
    max_gap: int = 1
    """With a long-run horizon: decision points this far apart still count as consecutive."""
    day_boundary: int | str | None = None
    """With a long-run horizon: decision points a day, or the clock time at which a day begins (`04:00`); the transition over
    night then has an intercept of its own."""
    critic_variables: tuple[str, ...] | None = None
    """The state variables that the critic sees; None means all."""
    centre_actions: bool = False
    """The critic regresses on 1{a} − p instead of 1{a}, p the logged probability of sending: a wrong model of what happens
    without an action then does not bias the effect. It costs precision, because a decision point counts p (1 − p) for the
    effect, next to nothing where p is near 0 or 1: use it where the outcome without an action is not linear in the state or
    changes with time; limits of the probabilities keep the cost small. For two actions and an immediate horizon."""
    policy_variables: tuple[str, ...] | None = None
    """The state variables that an actor's policy sees; None means all. LinUCB decides by what its critic sees."""

    needs_coefficients: ClassVar[bool] = True
    """Whether the decision rule is made of the critic's coefficients, and not only of what it expects."""
    _non_negative: ClassVar[tuple[str, ...]] = ("critic_penalty",)
    _positive: ClassVar[tuple[str, ...]] = ("tau",)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not name.endswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
        # Once: what is asked for may be computed.
        value = getattr(vars(self).get("fitted_"), name[:-1], UNKNOWN)
        if value is UNKNOWN:
            raise NotFittedError(
                f"{type(self).__name__} has no '{name}' yet; call fit(logs) first, or see its documentation"
            )
        return value

    def fit(self, logs: Trajectories, y: None = None, *, engine: str = "numpy") -> Self:
        """Learn one policy per participant, or one for all, with arrays of NumPy, of PyTorch (`torch`) or on a GPU
        (`gpu`)."""
        self.check_parameters()
        if not isinstance(logs, Trajectories):
            raise InputError(f"fit takes Trajectories, not {type(logs).__name__}; make them with Trajectories.from_frame")
        Learnable.of_logs(logs).require(logs.names.reward)
        self._check_probabilities(logs)
        return self.fit_some(logs, engine=engine)

    def _check_probabilities(self, logs: Trajectories) -> None:
        """Refuse probabilities that cannot be right where the fit uses them; warn of them elsewhere."""
        problem = find_weight_problem(logs)
        if problem is not None and self.centre_actions:
            raise InputError(problem, column=logs.names.probability)
        if problem is not None:
            warnings.warn(f"{problem}. This fit does not use them", FitWarning, stacklevel=3)

    def update(self, logs: Trajectories, *, engine: str = "numpy") -> Self:
        """Fit again to the logs of the last fit and to further decision points, of the same or of other people.

        A decision point that was learned from already is refused, unless it waited for its outcome.
        """
        if self.filter is not None:
            raise InputError(
                f"filter = '{self.filter}' looks at a participant's whole series, of which only the cleaned values are "
                "left; fit all logs anew"
            )
        return self.fit(join_logs(self.logs_, logs), engine=engine)

    def fit_some(
        self,
        logs: Trajectories,
        *,
        engine: str = "numpy",
        discount: NDArray[np.float64] | None = None,
        start: NDArray[np.float64] | None = None,
    ) -> Self:
        """Learn from a part of larger logs, such as some of the people, in which no reward may be known, or only one.

        `discount` says how much every row counts, where the rows themselves do not tell when they were. `start` is `coef_`
        of a fit to similar decision points: an actor with many starts then climbs from there instead.
        """
        self.check_names(logs.state_names, logs.action_names)
        where = find_engine(engine)
        sees = self.list_seen(logs.state_names)
        cleaned = logs if self.filter is None else find_filter(self.filter).clean(logs)
        pooling = find_pooling(self.pooling)
        discount = discount_rows(cleaned, self.forgetting) if discount is None else discount
        participants = pooling.list_participants(cleaned)
        features = int((sees["critic_sees"].sum() + 1) * logs.actions)
        texts = describe_troubles(logs.state_names, logs.action_names, features, pooling)
        warn_of_oblivion(self.forgetting, features, len(cleaned.participants) if pooling.needs_everybody else 1)
        keep_freed_memory()
        horizon = find_horizon(self.horizon)
        joint = horizon.look(self.make_horizon_task(cleaned, discount, where))
        arrays, troubles, rule = self.fit_units(cleaned, joint, discount, where, start)
        names = (logs.action_names, logs.state_names)
        training = KnownTraining.of_logs(logs)
        policies = Policies(None if pooling.shared else participants, rule, *names, training=training)
        if joint is not None and joint.anybody is not None:
            few = np.bincount(cleaned.participant_index[cleaned.usable], minlength=len(participants)) < features
            policies = policies.with_anybody(self._fit_anybody(cleaned, joint.anybody, discount, where), instead_of=few)
        self.fitted_ = arrays.finish(
            logs=cleaned,
            critic=self.make_critic(),
            pooling=pooling,
            participants=participants,
            critic_sees=sees["critic_sees"],
            policy_sees=sees["policy_sees"],
            policies=policies,
            horizon=horizon,
            joint=joint,
        )
        warn_of_troubles(participants, np.column_stack([troubles, ~self.fitted_.converged]), [*texts, NOT_CONVERGED])
        return self

    def _fit_anybody(
        self, logs: Trajectories, joint: JointFit, discount: NDArray[np.float64], engine: Engine
    ) -> DecisionRule:
        """The decision rule for people who are not in the logs, which partial pooling gives."""
        ((fits, rows),) = logs.one_block()
        sees = self.list_seen(logs.state_names)
        batch = Batch.from_rows(logs, logs.usable, rows, engine, discount, self.list_centres(logs), **sees)
        return self.fit_batch(batch, joint.restrict(fits, rows, engine)).rule.to_numpy(engine)[0]

    def fit_units(
        self,
        logs: Trajectories,
        joint: JointFit | None,
        discount: NDArray[np.float64],
        engine: Engine,
        start: NDArray[np.float64] | None = None,
    ) -> tuple[FitArrays, NDArray[np.bool_], DecisionRule]:
        """Critic and decision rule of every fit to some people's filtered logs, and its troubles, (fits, troubles); `joint`
        is what was learned of everybody before."""
        pooling = find_pooling(self.pooling)
        can_use = logs.usable
        centre = self.list_centres(logs)
        sees = self.list_seen(logs.state_names)
        features = int((sees["critic_sees"].sum() + 1) * logs.actions)
        arrays = FitArrays(len(pooling.list_participants(logs)), logs)

        def fit_block(block: Block) -> tuple[NDArray[np.int64], DecisionRule, NDArray[np.bool_]]:
            fits, rows = block
            batch = Batch.from_rows(logs, can_use, rows, engine, discount, centre, **sees)
            near = None if start is None else engine.to_device(start[fits].reshape(len(fits), logs.actions - 1, -1))
            learned = self.fit_batch(batch, None if joint is None else joint.restrict(fits, rows, engine), near)
            arrays.record(fits, rows, engine.to_numpy(batch.usable) > 0, learned, engine)
            data = (batch.state, batch.action, batch.reward, batch.usable, learned.critic.weights)
            troubles = find_troubles(*data, actions=batch.actions, features=features)
            return fits, learned.rule.to_numpy(engine), engine.to_numpy(troubles)

        blocks = pooling.list_blocks(logs, choose_block_cells(logs))
        fitted, rules, troubles = zip(*map_threads(fit_block, blocks), strict=True)
        back = np.argsort(np.concatenate(fitted))
        return arrays, np.concatenate(troubles)[back], join_rules(fitted, rules)

    def list_seen(self, state_names: Sequence[str]) -> dict[str, Any]:
        """Which state variables critic and policy see."""
        chosen = {"critic_sees": self.critic_variables, "policy_sees": self.policy_variables}
        return {
            name: _mask_variables(variables, tuple(state_names), name.replace("sees", "variables"))
            for name, variables in chosen.items()
        }

    def make_horizon_task(self, logs: Trajectories, discount: NDArray[np.float64], engine: Engine) -> HorizonTask:
        """What a horizon learns from these filtered logs."""
        return HorizonTask(
            logs=logs,
            critic=self.make_critic(),
            pooling=find_pooling(self.pooling),
            **self.list_seen(logs.state_names),
            units=find_penalty_units(self.penalty_units),
            critic_penalty=self.critic_penalty,
            penalize_intercept=self.penalize_intercept,
            max_gap=self.max_gap,
            day_boundary=self.day_boundary,
            correlated_differences=self.correlated_differences,
            discount=discount,
            random_walk=self.random_walk,
            centre=self.list_centres(logs),
            engine=engine,
            prior=self.place_prior(logs.state_names, logs.action_names),
        )

    def fit_batch(self, batch: Batch, outlook: BatchOutlook | None = None, start: Array | None = None) -> BatchFit:
        """The method on arrays: critic, then decision rule, for all people of a block at once.

        With an `outlook` (a long-run horizon, or partial pooling) the critic has judged already, and the rule acts on the
        advantages that it holds.
        """
        result = replace(self.fit_critic(batch, outlook), start=start)
        rule, converged = self.learn_rule(result)
        converged = result.fit.converged & converged
        return BatchFit(result.fit, result.residuals, result.scale, rule, converged, result.scaling, result.penalty)

    def fit_critic(self, batch: Batch, outlook: BatchOutlook | None = None) -> CriticResult:
        """The critic alone, for all people of a block at once."""
        xp = array_namespace(batch.state)
        x = batch.features
        units = find_penalty_units(self.penalty_units)
        scaling = units.measure(batch.state, batch.reward, batch.usable)
        penalty = units.penalise_critic(
            scaling, self.critic_penalty, actions=batch.actions, intercept=self.penalize_intercept
        )
        seen = xp.maximum(batch.critic_sees, batch.policy_sees)
        data = CriticBatch(x, batch.reward, batch.weights, batch.state, batch.action, penalty, batch.arms, seen)
        fit, penalty = self.regress(batch, data, scaling) if outlook is None else (outlook.critic, penalty)
        ahead = None if outlook is None else outlook.advantage
        return CriticResult.of_fit(batch, x, fit, scaling, penalty, ahead)

    def regress(self, batch: Batch, data: CriticBatch, scaling: FitScales) -> tuple[CriticFit, Array]:
        """The model of the expected reward, and ζ of every feature that it was fitted with."""
        return self.make_critic().fit(data), data.penalty

    def list_centres(self, logs: Trajectories) -> NDArray[np.float64] | None:
        """The probability of sending at every row, (rows, 1); None when actions are not centred."""
        if not self.centre_actions:
            return None
        unknown = np.flatnonzero(logs.usable & np.isnan(logs.probability))
        if unknown.size:
            column = logs.names.probability
            row = int(unknown[0])
            raise InputError(
                f"centre_actions needs the probability of the action taken, and column '{column}' has none at "
                f"{unknown.size} usable decision points, the first of participant '{logs.participant[row]}' at time "
                f"{logs.time[row]}; name its column, give the design's probabilities, or leave centre_actions out",
                column=column,
            )
        return np.nan_to_num(np.where(logs.action == 0, 1 - logs.probability, logs.probability))[:, None]

    def place_prior(self, state: Sequence[str], actions: Sequence[str]) -> PlacedPrior | None:
        """What is believed of the critic's coefficients beforehand; None: nothing but the penalty."""
        return None

    def prior_mean(self, logs: Trajectories) -> NDArray[np.float64]:
        """What the critic's coefficients are shrunk towards, (features,)."""
        prior = self.place_prior(logs.state_names, logs.action_names)
        return np.zeros((len(logs.state_names) + 1) * logs.actions) if prior is None else prior.mean

    def check_names(self, state: Sequence[str], actions: Sequence[str]) -> None:
        """Refuse parameters that name state variables or actions that there are not."""
        for parameter in ("critic_variables", "policy_variables"):
            _mask_variables(getattr(self, parameter), tuple(state), parameter)
        if self.centre_actions and len(actions) > 2:
            raise InputError(
                f"centre_actions is for two actions, and there are {len(actions)}: a log holds the probability of the "
                "action taken, not those of all others; leave centre_actions out"
            )

    @abstractmethod
    def learn_rule(self, result: CriticResult) -> tuple[DecisionRule, Array]:
        """The decision rules of the block's people, and for whom the search for them converged."""

    def make_critic(self) -> Critic:
        """The critic with this method's parameters."""
        return make_critic(self.critic, self.get_params(deep=False))

    def check_parameters(self) -> None:
        """Refuse parts that do not exist and numbers that cannot be."""
        for field in fields(self):
            value = getattr(self, field.name)
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if isinstance(field.default, float) and not number:
                raise InputError(f"{field.name} is {value!r}; it must be a number")
        critic = self.make_critic()
        critic.check_parameters()
        if self.filter is not None:
            find_filter(self.filter)
        for part, needs in (
            (type(self).__name__, self.needs_coefficients),
            (f"pooling = '{self.pooling}'", find_pooling(self.pooling).needs_coefficients),
            ("centre_actions = true", self.centre_actions),
            (f"horizon = '{self.horizon}'", find_horizon(self.horizon).looks_ahead),
        ):
            if needs:
                critic.require_coefficients(part)
        if find_horizon(self.horizon).looks_ahead and self.centre_actions:
            raise InputError(
                "centre_actions leaves out what happens without the action, which a look ahead needs; use horizon = "
                "'immediate' or leave centre_actions out"
            )
        find_penalty_units(self.penalty_units)
        self._check_change(critic)
        if isinstance(self.max_gap, bool) or not isinstance(self.max_gap, int) or self.max_gap < 1:
            raise InputError(f"max_gap is {self.max_gap!r}; it is a whole number of decision points, at least 1")
        for name in (*self._non_negative, *self._positive):
            value = getattr(self, name)
            if not np.isfinite(value) or value < 0 or (value == 0 and name in self._positive):
                least = "above 0" if name in self._positive else "of at least 0"
                raise InputError(f"{name} is {value}; it must be a finite number {least}")

    def _check_change(self, critic: Critic) -> None:
        """Refuse ways for people to change that cannot be, or do not go together."""
        check_forgetting(self.forgetting)
        check_random_walk(self.random_walk)
        if self.forgetting < 1 and not critic.has_coefficients:
            raise InputError(
                f"forgetting weighs decision points, which {critic.title} does not; take critic = 'capped', 'ridge' or "
                "'high-breakdown', or leave forgetting out"
            )
        if self.random_walk is None:
            return
        if not find_pooling(self.pooling).borrows:
            raise InputError(
                f"random_walk is of how people differ from the population, which pooling = '{self.pooling}' does not "
                "estimate; write pooling = 'partial', or forgetting = 0.99 instead of a random walk"
            )
        if self.correlated_differences:
            raise InputError("random_walk is of differences that are independent; leave correlated_differences out")
        if self.forgetting < 1:
            raise InputError("random_walk forgets by itself, as fast as people change; leave forgetting out")

    def coefficients(self, backend: str | None = None) -> Any:
        """One row per participant and coefficient: participant, part (critic or policy), action, feature, value.

        A policy coefficient above zero makes its action more likely as the feature grows.
        """
        return self.fitted_.tabulate_coefficients(backend)

    def outliers(self, backend: str | None = None) -> Any:
        """One row per decision point that the critic left out: who, when, what came back and what was expected."""
        return self.fitted_.tabulate_removed(backend)


def _mask_variables(chosen: tuple[str, ...] | None, names: tuple[str, ...], parameter: str) -> NDArray[np.float64]:
    """1.0 for the state variables that are seen, 0.0 for the others: a feature that is always zero gets coefficient zero."""
    for name in chosen or ():
        if name not in names:
            raise InputError(
                f"{parameter} names '{name}', which the logs do not have{did_you_mean(name, names)}", column=name
            )
    return np.array([1.0 if chosen is None or name in chosen else 0.0 for name in names])
