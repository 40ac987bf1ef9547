"""Methods: an optional filter, a critic, a pooling, a horizon and a decision rule, with scikit-learn's manners.

The constructor only assigns, `fit(logs)` returns the method itself, and everything learned ends in an underscore.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories, join_logs
from surefoot.errors import FitWarning, InputError, NotFittedError, did_you_mean
from surefoot.learning.baselines import BASELINES, Baseline, Linear
from surefoot.learning.batch import Batch, Learnable, choose_block_cells, discount_rows, find_troubles, gather_rows
from surefoot.learning.choice import CHOICES, Choice, CrossFitted
from surefoot.learning.critics import CRITICS, Critic, Ridge
from surefoot.learning.critics.regressor import make_critic
from surefoot.learning.filters import FILTERS, Filter, clean
from surefoot.learning.fitted import ChosenParts, CoefficientPart, Fitted, warn_of_troubles
from surefoot.learning.horizon import HORIZONS, Horizon, Immediate
from surefoot.learning.horizon.horizon import BatchOutlook, JointFit, Outlook
from surefoot.learning.horizon.transitions import HorizonTask
from surefoot.learning.object_files import load_objects, save_objects
from surefoot.learning.part import Part, check_types, make_part
from surefoot.learning.penalties import PENALTY_UNITS, FitScales, PenaltyUnits, StandardUnits
from surefoot.learning.pooling import POOLINGS, Block, Person, Pooling
from surefoot.learning.pooling.mixed_effects import Posterior
from surefoot.learning.rules import RULE_LEARNERS, Actor, CriticResult, RuleLearner
from surefoot.learning.shared_effects import TimeEffects
from surefoot.numerics.arrays import NUMPY, Array, Engine, find_engine, keep_freed_memory
from surefoot.numerics.parallel import map_threads
from surefoot.policies.features import critic_features
from surefoot.policies.policies import KnownTraining, Policies
from surefoot.policies.rules import DecisionRule
from surefoot.registry import Registry
from surefoot.reports.numbers import format_number
from surefoot.reports.signatures import spell_out_keywords
from surefoot.reports.summaries import Overview, Shown, Summary, lay_out_table

SLOTS: dict[str, Registry[Any]] = {
    "rule": RULE_LEARNERS,
    "critic": CRITICS,
    "pooling": POOLINGS,
    "horizon": HORIZONS,
    "filter": FILTERS,
    "penalty_units": PENALTY_UNITS,
    "choice": CHOICES,
    "baseline": BASELINES,
}
"""The parameters of a method that hold parts, and where these are registered."""
T = TypeVar("T")


def _make_part(slot: str, given: Any) -> Any:
    """The part that is meant by a name, by a mapping with `name` and parameters, or by itself."""
    if slot == "critic":
        return make_critic(given)
    return None if slot in ("filter", "choice") and given is None else make_part(SLOTS[slot], given)


class _Learned(Generic[T]):
    """An attribute of a fitted method: that of `Fitted` whose name has no underscore behind it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name.removesuffix("_")

    def __get__(self, fitted: "Method | None", owner: type) -> T:
        return getattr(self if fitted is None else fitted.fitted_, self.name)  # type: ignore[no-any-return]


@dataclass(kw_only=True, eq=False, repr=False)
class Method(Shown):
    """A method that learns policies from logs; it is composed of parts, and `method` makes one by name.

    Parameters
    ----------
    rule
        What makes a decision rule of the critic's result: `Actor`, `StochasticActor`, `LinUCB`, `Pessimist` or
        `PosteriorSampler` of `surefoot.rules`, or a `RuleLearner` of your own.
    critic
        The model of the expected reward: `Ridge`, `Capped`, `HighBreakdown` or a regressor of `surefoot.critics`, or a
        `Critic` of your own.
    pooling
        Who shares a fit: `Person`, `Everyone` or `Partial` of `surefoot.pooling`.
    horizon
        How far consequences count: `Immediate` or `LongRun` of `surefoot.horizons`.
    filter
        `Hampel` or `Kalman` of `surefoot.filters` cleans each participant's series first; None leaves them as they are.
    choice
        `CrossFitted` of `surefoot.choices` chooses parts from the logs before each fit; None keeps the parts.
    baseline
        The shape of the expected outcome without an action: `Linear`, or `Smooth` of `surefoot.learning.baselines`.
    critic_penalty
        ζ_c.
    penalty_units
        `standard`: penalties are counted in the reward's spread and the states' widths, so that units change nothing.
        `absolute`: as in the paper, in whatever units they come in.
    penalize_intercept
        In absolute units the paper penalises the critic's intercept too; with a real penalty that biases the effect.
    forgetting
        A decision point that lies k before the participant's last one counts forgetting^k times: for people who change.
    centre_actions
        The critic regresses on 1{a} − p instead of 1{a}, p the logged probability of sending: a wrong model of what happens
        without an action then does not bias the effect. It costs precision, because a decision point counts p (1 − p) for
        the effect, next to nothing where p is near 0 or 1: use it where the outcome without an action is not linear in the
        state or changes with time; limits of the probabilities keep the cost small. For two actions and an immediate
        horizon.
    critic_variables
        The state variables that the critic sees; None means all.
    policy_variables
        The state variables that an actor's policy sees; None means all. LinUCB decides by what its critic sees.

    Attributes
    ----------
    policies_
        What was learned, to decide with.
    coef_
        θ of an actor, (fits, k·m); None for other rules.
    critic_coef_, weights_, threshold_, residuals_, n_iter_, scale_
        w, u, ε, r − xᵀw, the critic's iterations, and the weighted residual scale σ.
    fitted_
        Everything that was learned.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=3).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> fitted = sf.method("accb", critic=sf.critics.Capped(tau=2.0)).fit(logs)
    >>> fitted.coef_.shape, fitted.get_params()["critic__tau"]
    ((3, 4), 2.0)
    """

    rule: RuleLearner = field(default_factory=Actor)
    critic: Critic = field(default_factory=Ridge)
    pooling: Pooling = field(default_factory=Person)
    horizon: Horizon = field(default_factory=Immediate)
    filter: Filter | None = None
    choice: Choice | None = None
    baseline: Baseline = field(default_factory=Linear)
    critic_penalty: float = 1e-3
    penalty_units: PenaltyUnits = field(default_factory=StandardUnits)
    penalize_intercept: bool = True
    forgetting: float = 1.0
    centre_actions: bool = False
    critic_variables: tuple[str, ...] | None = None
    policy_variables: tuple[str, ...] | None = None

    machinery = Shown.machinery | {
        *("check_names", "check_parameters", "fit_batch", "fit_critic", "fit_some", "list_centres", "list_seen", "parts"),
        *("list_settings", "make_batch", "make_horizon_task", "prior_mean", "coefficient_parts_", "critic_sees_", "joint_"),
        *("policy_sees_", "rule_sees_", "scaling_", "unit_", "is_fitted", "hold", "settled"),
    }

    def __dir__(self) -> list[str]:
        """Parameters and verbs and, after a fit, what was learned."""
        return [name for name in super().__dir__() if self.is_fitted or name not in NEEDS_FIT]

    @property
    def topic(self) -> str:
        return "Fitted method" if self.is_fitted else "Method"

    def _overview(self) -> Overview:
        parts = self.settled.parts if self.is_fitted else self.parts
        unsaid = {"penalty_units"} if self.baseline.curved else {"penalty_units", "baseline"}
        facts = {slot: repr(part) for slot, part in parts.items() if slot not in unsaid}
        for parameter in fields(self):
            value = getattr(self, parameter.name)
            if parameter.name not in SLOTS and value != parameter.default:
                facts[parameter.name] = repr(value)
        if not self.is_fitted:
            return Overview("Method, not fitted", facts)
        people = f"{len(self.logs_.participants):,} people"
        facts["fits"] = f"{len(self.participants_):,} for {people}, {int(self.converged_.sum()):,} converged"
        if self.chosen_ is not None:
            facts["chosen"] = " ".join(self.chosen_.reasons)
        facts["used"] = f"{int(self.used_.sum()):,} of {len(self.logs_):,} decision points"
        facts["removed"] = f"{int(self.removed_.sum()):,} decision points, as outliers"
        return Overview(f"Fitted method: {self.rule.title}", facts)

    # Parameters, as scikit-learn treats them.

    @property
    def parts(self) -> dict[str, Part]:
        """The parts by the parameter that holds them."""
        return {slot: part for slot in SLOTS if (part := getattr(self, slot)) is not None}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the constructor was given; with `deep` also the parameters of the parts (`critic__tau`)."""
        parameters = {parameter.name: getattr(self, parameter.name) for parameter in fields(self)}
        if deep:
            for slot, part in self.parts.items():
                parameters |= {f"{slot}__{name}": value for name, value in part.get_params().items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters, also those of parts: `critic="capped"`, `critic__tau=2.0`, or `tau=2.0` where only one part has
        such a parameter. What was learned stays until the next fit."""
        fields_of_method = self.get_params(deep=False)
        for name in sorted(parameters, key=lambda name: name not in fields_of_method):
            value = parameters[name]
            if name in fields_of_method:
                setattr(self, name, _make_part(name, value) if name in SLOTS else value)
                continue
            slot, separator, parameter = name.partition("__")
            if not separator:
                parameter = name
                slot = self._find_owner(name)
            elif slot not in SLOTS:
                raise InputError(f"there is no part '{slot}'{did_you_mean(slot, SLOTS)}; choose from {list(SLOTS)}")
            elif slot not in self.parts:
                raise InputError(f"{name}: {slot} is None, which has no parameters; set {slot} first")
            setattr(self, slot, self.parts[slot].with_params({parameter: value}))
        return self

    def _find_owner(self, parameter: str) -> str:
        """The one part that has this parameter."""
        owners = [slot for slot, part in self.parts.items() if parameter in part.get_params()]
        if len(owners) == 1:
            return owners[0]
        if owners:
            written = " or ".join(f"{slot}__{parameter}" for slot in owners)
            raise InputError(f"'{parameter}' is a parameter of {' and of '.join(owners)}; write {written}")
        for slot, registry in SLOTS.items():
            having = [name for name in registry if parameter in registry.find(name)().get_params()]
            if having:
                choices = " or ".join(repr(name) for name in having)
                current = repr(self.parts[slot].name) if slot in self.parts else "none"
                raise InputError(
                    f"'{parameter}' is a parameter of {slot} = {choices}, and here {slot} = {current}; choose that {slot} "
                    f"or leave {parameter} out"
                )
        valid = self.list_parameters()
        raise InputError(f"there is no parameter '{parameter}'{did_you_mean(parameter, valid)}; there are {valid}")

    def list_parameters(self) -> list[str]:
        """The names that `method` and `set_params` take: the method's own, then those of its parts."""
        return [
            *(field.name for field in fields(self)),
            *(name for part in self.parts.values() for name in part.get_params()),
        ]

    def list_settings(self) -> dict[str, Any]:
        """All parameters as plain values: parts by their names, and their parameters after them."""
        settings = self.get_params(deep=False)
        for slot, part in self.parts.items():
            settings[slot] = part.name
            settings |= part.get_params(deep=False)
        return settings

    def check_parameters(self) -> None:
        """Refuse numbers that cannot be, and parts that do not go together."""
        check_types(self)
        for part in self.parts.values():
            part.check_parameters()
        if not self.critic_penalty >= 0:
            raise InputError(f"critic_penalty is {self.critic_penalty}; it must be a finite number of at least 0")
        if not 0 < self.forgetting <= 1:
            raise InputError(
                f"forgetting is {self.forgetting}; it is above 0 and at most 1: with 0.99 the decision point 100 before the "
                "participant's last one counts 0.37 times, with 1 all count alike"
            )
        self.rule.check_company(self.horizon, self.pooling)
        for needed_by, needs in (
            (self.rule.title, self.rule.needs_coefficients),
            (f"pooling = '{self.pooling.name}'", self.pooling.needs_coefficients),
            ("centre_actions = true", self.centre_actions),
            (f"horizon = '{self.horizon.name}'", self.horizon.looks_ahead),
            (f"baseline = '{self.baseline.name}'", self.baseline.curved),
        ):
            if needs:
                self.critic.require_coefficients(needed_by)
        if self.horizon.looks_ahead and self.centre_actions:
            raise InputError(
                "centre_actions leaves out what happens without the action, which a look ahead needs; use horizon = "
                "'immediate' or leave centre_actions out"
            )
        if self.forgetting < 1:
            self._check_forgetting()
        if self.baseline.curved:
            self.baseline.check_company(self.pooling)

    def _check_forgetting(self) -> None:
        if not self.critic.has_coefficients:
            raise InputError(
                f"forgetting weighs decision points, which {self.critic.title} does not; take critic = 'capped', 'ridge' or "
                "'high-breakdown', or leave forgetting out"
            )
        if self.pooling.walk_step is not None:
            raise InputError("random_walk forgets by itself, as fast as people change; leave forgetting out")
        if self.pooling.changes_together:
            raise InputError("time = 'smooth' follows effects by itself, as fast as they change; leave forgetting out")

    def check_names(self, state: Sequence[str], actions: Sequence[str]) -> None:
        """Refuse parameters that name state variables or actions that do not exist."""
        self.list_seen(state)
        self.rule.place_prior(state, actions)
        if self.centre_actions and len(actions) > 2:
            raise InputError(
                f"centre_actions is for two actions, and there are {len(actions)}: a log holds the probability of the "
                "action taken, not those of all others; leave centre_actions out"
            )

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags(allow_nan=True))

    # Learning.

    def fit(self, logs: Trajectories, y: None = None, *, engine: str = "numpy") -> Self:
        """Learn one policy per participant, or one for all, with arrays of NumPy, of PyTorch (`torch`) or on a GPU
        (`gpu`)."""
        self.check_parameters()
        if not isinstance(logs, Trajectories):
            raise InputError(f"fit takes Trajectories, not {type(logs).__name__}; make them with Trajectories.from_frame")
        self._check_logs(logs)
        return self.fit_some(logs, engine=engine)

    def _check_logs(self, logs: Trajectories) -> None:
        """Refuse logs from which nothing can be learned, and probabilities that cannot be."""
        Learnable.of_logs(logs).require(logs.names.outcome)
        problem = logs.find_weight_problem()
        if problem is not None and self.centre_actions:
            raise InputError(problem, column=logs.names.probability)
        if problem is not None:
            warnings.warn(f"{problem}. This fit does not use them", FitWarning, stacklevel=3)

    def update(self, logs: Trajectories, *, engine: str = "numpy") -> Self:
        """Fit again to the logs of the last fit and to further decision points, of the same or of other people.

        With partial pooling the search for the variances begins at those of the last fit.

        A decision point that was learned from already is refused, unless it waited for its outcome.
        """
        if self.filter is not None:
            raise InputError(
                f"filter = '{self.filter.name}' looks at a participant's whole series, of which only the cleaned values are "
                "left; fit all logs anew"
            )
        joined = join_logs(self.logs_, logs)
        self.check_parameters()
        self._check_logs(joined)
        learned = None if self.choice is not None or self.joint_ is None else self.joint_.ratios
        return self.fit_some(joined, engine=engine, ratios=learned)

    def fit_some(
        self,
        logs: Trajectories,
        *,
        engine: str = "numpy",
        discount: NDArray[np.float64] | None = None,
        start: NDArray[np.float64] | None = None,
        ratios: NDArray[np.float64] | None = None,
    ) -> Self:
        """Learn from a part of larger logs, such as some of the people, in which no reward may be known, or only one.

        `discount` says how much every row counts, where the rows themselves do not tell when they were. `start` is `coef_`
        of a fit to similar decision points: an actor with many starts then climbs from there instead. `ratios` are those of
        its `joint_`, where the search for variances begins.
        """
        self.check_names(logs.state_names, logs.action_names)
        if self.choice is not None:
            chosen = self._choose_parts(self.choice, logs, engine)
            settled = replace(self, choice=None).set_params(**chosen.parameters)
            fitted = settled.fit_some(logs, engine=engine, discount=discount, start=start).fitted_
            return self.hold(replace(fitted, chosen=chosen))
        device = find_engine(engine)
        cleaned = logs if self.filter is None else clean(logs, self.filter)
        discount = discount_rows(cleaned, self.forgetting) if discount is None else discount
        centre = self.list_centres(cleaned)
        critic_sees, policy_sees = self.list_seen(logs.state_names)
        features = int((critic_sees.sum() + 1) * logs.actions)
        participants = self.pooling.list_participants(cleaned)
        sharing = len(cleaned.participants) if self.pooling.needs_everybody else 1
        if sharing < (1 - self.forgetting) * features:
            text = (
                f"forgetting = {self.forgetting:g} leaves what about {sharing / (1 - self.forgetting):.2g} decision points "
                f"hold, fewer than the critic's {features} features, so the penalty decides the rest; take a rate nearer to "
                "1, or pool people"
            )
            warnings.warn(text, FitWarning, stacklevel=3)
        keep_freed_memory()
        joint = None
        if self.horizon.looks_ahead or self.pooling.borrows or self.baseline.curved:
            joint = self.horizon.look(replace(self.make_horizon_task(cleaned, discount, device), start=ratios))
        # Row −1, which stands for padding, is the last: one more than there are, and left out at the end.
        weights = np.full(len(cleaned) + 1, np.nan)
        residuals = np.full_like(weights, np.nan)

        def fit_block(block: Block) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]], DecisionRule]:
            fits, rows = block
            batch = self.make_batch(cleaned, rows, discount, centre, device)
            near = None if start is None else device.to_device(start[fits].reshape(len(fits), logs.actions - 1, -1))
            outlook = None if joint is None else joint.restrict(fits, rows, device)
            result, rule, converged = self.fit_batch(batch, outlook, near)
            used = device.to_numpy(batch.weights) > 0
            weights[rows] = np.where(used, device.to_numpy(result.fit.weights), np.nan)
            residuals[rows] = np.where(used, device.to_numpy(result.residuals), np.nan)
            learned = {
                "critic_coef": result.fit.coef,
                "threshold": result.fit.threshold,
                "n_iter": result.fit.n_iter,
                "scale": result.scale,
                "converged": converged,
                "penalty": result.penalty,
                **vars(result.scaling),
                "troubles": find_troubles(batch, result.fit.weights, features),
            }
            return fits, {name: device.to_numpy(values) for name, values in learned.items()}, rule.map(device.to_numpy)

        blocks = list(map_threads(fit_block, self.pooling.list_blocks(cleaned, choose_block_cells(cleaned))))
        order = np.argsort(np.concatenate([fits for fits, _, _ in blocks]))

        def join(arrays: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
            return {name: np.concatenate(list(map(itemgetter(name), arrays)))[order] for name in arrays[0]}

        learned = join([arrays for _, arrays, _ in blocks])
        rule = type(blocks[0][2])(**join([rule.arrays() for _, _, rule in blocks]))
        policies = Policies(
            None if self.pooling.shared else participants,
            rule,
            logs.action_names,
            logs.state_names,
            training=KnownTraining(logs.participants, logs.participant_index, logs.time, logs.order),
        )
        if joint is not None:
            policies = self._serve_anybody(policies, joint, cleaned, discount, centre, device)
        fitted = Fitted(
            logs=cleaned,
            critic=self.critic,
            pooling=self.pooling,
            horizon=self.horizon,
            participants=participants,
            unit=self.pooling.assign_rows(cleaned),
            critic_sees=critic_sees,
            policy_sees=policy_sees,
            critic_coef=learned["critic_coef"],
            threshold=learned["threshold"],
            scale=learned["scale"],
            n_iter=learned["n_iter"],
            converged=learned["converged"],
            weights=weights[:-1],
            residuals=residuals[:-1],
            scaling=FitScales(learned["centre"], learned["width"], learned["reward"]),
            penalty=learned["penalty"],
            policies=policies,
            joint=joint,
        )
        self.hold(fitted)
        troubles = np.column_stack([learned["troubles"], ~learned["converged"]])
        if troubles.any():
            warn_of_troubles(participants, troubles, logs, features, self.pooling)
        return self

    def _serve_anybody(
        self,
        policies: Policies,
        joint: JointFit,
        logs: Trajectories,
        discount: NDArray[np.float64],
        centre: NDArray[np.float64] | None,
        device: Engine,
    ) -> Policies:
        """The policies with one for anybody else, and others for people with fewer usable decision points than features."""
        if joint.anybody is None:
            return policies
        ((_, rows),) = logs.one_block()
        batch = self.make_batch(logs, rows, discount, centre, device)
        features = (self.list_seen(logs.state_names)[0].sum() + 1) * logs.actions
        few = np.bincount(logs.participant_index[logs.usable], minlength=len(logs.participants)) < features

        def learn_rule(fit: JointFit, position: int) -> DecisionRule:
            return self.fit_batch(batch, fit.restrict(np.array([position]), rows, device))[1].map(device.to_numpy)

        anybody = learn_rule(joint.anybody, 0)[0]
        if not self.pooling.changes_together:
            return policies.with_anybody(anybody, instead_of=few)
        # Who has begun is further in the study than somebody new, and effects have changed since.
        begun = few & (np.diff(logs.starts) > 0)
        rules = [policies.rule, *(learn_rule(joint, position) for position in np.flatnonzero(begun).tolist())]
        positions = np.arange(len(few))
        positions[begun] = len(few) + np.arange(begun.sum())
        of_people = replace(policies, rule=policies.rule.join(rules, np.concatenate)[positions])
        return of_people.with_anybody(anybody, instead_of=few & ~begun)

    def _choose_parts(self, choice: Choice, logs: Trajectories, engine: str) -> ChosenParts:
        def fit_parts(parameters: Mapping[str, Any], chosen_logs: Trajectories) -> Fitted:
            candidate = replace(self, choice=None).set_params(**parameters)
            candidate.check_parameters()
            return candidate.fit_some(chosen_logs, engine=engine).fitted_

        return choice.choose(logs, self.critic, fit_parts)

    def fit_batch(
        self, batch: Batch, outlook: BatchOutlook | None = None, start: Array | None = None
    ) -> tuple[CriticResult, DecisionRule, Array]:
        """Critic, then decision rule, for all people of a block at once, and for whom both converged.

        With an `outlook` (a long-run horizon, or partial pooling) the critic has judged already, and the rule acts on the
        advantages that it holds.
        """
        result = replace(self.fit_critic(batch, outlook), start=start)
        rule, converged = self.rule.learn(result)
        return result, rule, result.fit.converged & converged

    def fit_critic(self, batch: Batch, outlook: BatchOutlook | None = None) -> CriticResult:
        """The critic alone, for all people of a block at once."""
        scaling = self.penalty_units.measure(batch.state, batch.reward, batch.usable)
        penalty = self.penalty_units.penalise_critic(
            scaling, self.critic_penalty, actions=batch.actions, intercept=self.penalize_intercept
        )
        if outlook is not None:
            judged = batch if outlook.offset is None else replace(batch, reward=batch.reward - outlook.offset)
            result = CriticResult.of_fit(judged, outlook.critic, scaling, penalty, self.critic_penalty)
            return replace(result, ahead=outlook.advantage)
        fit, penalty = self.rule.regress(self.critic, replace(batch, penalty=penalty), scaling, self.critic_penalty)
        return CriticResult.of_fit(batch, fit, scaling, penalty, self.critic_penalty)

    def make_batch(
        self,
        logs: Trajectories,
        rows: NDArray[np.int64],
        discount: NDArray[np.float64],
        centre: NDArray[np.float64] | None,
        engine: Engine = NUMPY,
    ) -> Batch:
        """Rows of the logs, −1 where padded, as this method sees them."""
        critic_sees, policy_sees = map(engine.to_device, self.list_seen(logs.state_names))
        known = (rows >= 0) & logs.usable[rows]
        state = engine.to_device(gather_rows(logs.state, rows, known))
        action = engine.to_device(np.where(known, logs.action.take(rows), 0))
        actions = logs.actions
        probabilities = None if centre is None else engine.to_device(gather_rows(centre, rows, known))
        return Batch(
            features=critic_features(state * critic_sees, action, actions, probabilities),
            state=state,
            action=action,
            reward=engine.to_device(np.where(known, logs.outcome.take(rows), 0.0)),
            weights=engine.to_device(np.where(known, discount[rows], 0.0)),
            actions=actions,
            critic_sees=critic_sees,
            policy_sees=policy_sees,
            names=(logs.state_names, logs.action_names),
            centre=probabilities,
        )

    def make_horizon_task(self, logs: Trajectories, discount: NDArray[np.float64], engine: Engine) -> HorizonTask:
        """What a horizon learns from these filtered logs."""
        critic_sees, policy_sees = self.list_seen(logs.state_names)
        return HorizonTask(
            logs=logs,
            critic=self.critic,
            pooling=self.pooling,
            critic_sees=critic_sees,
            policy_sees=policy_sees,
            units=self.penalty_units,
            critic_penalty=self.critic_penalty,
            penalize_intercept=self.penalize_intercept,
            discount=discount,
            centre=self.list_centres(logs),
            engine=engine,
            prior=self.rule.place_prior(logs.state_names, logs.action_names),
            baseline=self.baseline,
        )

    def list_seen(self, state_names: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """1.0 for the state variables that the critic and that the policy see, 0.0 for the others: a feature that is always
        zero gets coefficient zero."""
        seen = []
        for parameter in ("critic_variables", "policy_variables"):
            chosen = getattr(self, parameter)
            for name in chosen or ():
                if name not in state_names:
                    near = did_you_mean(name, state_names)
                    raise InputError(f"{parameter} names '{name}', which the logs do not have{near}", column=name)
            seen.append(np.ones(len(state_names)) if chosen is None else np.isin(state_names, chosen).astype(np.float64))
        return seen[0], seen[1]

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

    def prior_mean(self, logs: Trajectories) -> NDArray[np.float64]:
        """What the critic's coefficients are shrunk towards, (features,)."""
        prior = self.rule.place_prior(logs.state_names, logs.action_names)
        return np.zeros((len(logs.state_names) + 1) * logs.actions) if prior is None else prior.mean

    # Results.

    def summary(self) -> Summary:
        """The coefficients of critic and policy: their mean over the fits, and how far fits differ.

        They have no intervals here: `surefoot.explain.explain` estimates these.
        """
        several = len(self.participants_) > 1
        rows = []
        for part in self.coefficient_parts_:
            for names, values in zip(part.names, part.values.T, strict=True):
                numbers = [values.mean(), *([values.std(ddof=1), values.min(), values.max()] if several else [])]
                rows.append([part.part, *names, *(format_number(float(number)) for number in numbers)])
        measures = ("mean", "sd over fits", "min", "max") if several else ("value",)
        table = lay_out_table(rows, ("part", "action", "feature", *measures))
        note = "Coefficients per unit of a feature. sf.explain.explain(fitted) gives their intervals."
        return Summary(f"{self._overview()}\n{table}\n{note}")

    def save(self, path: str | Path) -> None:
        """Write parameters and everything learned, with the logs, to one `.npz` file; `Method.load` reads it.

        The file holds the participants' data. `policies_.save` writes the policies alone.
        """
        save_objects(path, {"parameters": self.get_params(deep=False), "fitted": self.fitted_})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote: the same parameters, coefficients and probabilities."""
        objects = load_objects(path)
        return cls(**objects["parameters"]).hold(objects["fitted"])

    def predict_proba(self, states: Any, participant: ArrayLike | None = None) -> NDArray[np.float64]:
        """Probabilities of the actions, (n, actions), by the policies learned.

        Parameters
        ----------
        states
            An array (n, variables), a data frame, whose columns are matched by name, or Trajectories, which know whose
            states they are and who was available.
        participant
            Whose states they are: one for all, or one for each. Not needed where one policy serves anybody.

        Returns
        -------
        ndarray of shape (n, actions)
        """
        policies = self.policies_
        if isinstance(states, Trajectories):
            filled = np.where(states.available[:, None], states.state, 0.0)
            return policies.probabilities(states.participant, filled, states.available)
        if participant is None and policies.participants is not None:
            raise InputError("everybody has a policy of their own; say whose it is: predict_proba(states, participant=...)")
        participants = np.broadcast_to(np.asarray(0 if participant is None else participant), (len(states),))
        return policies.probabilities(participants, states)

    def coefficients(self, backend: str | None = None) -> Any:
        """One row per participant and coefficient: participant, part (critic or policy), action, feature, value.

        A policy coefficient above zero makes its action more likely as the feature grows.
        """
        parts = self.coefficient_parts_
        names = [(part.part, *name) for part in parts for name in part.names] * len(self.participants_)
        kinds, actions, features = zip(*names, strict=True)
        data = {
            self.logs_.names.participant: np.repeat(self.participants_, len(names) // len(self.participants_)),
            "part": kinds,
            "action": actions,
            "feature": features,
            "value": np.concatenate([part.values for part in parts], axis=1).ravel(),
        }
        return make_frame(data, backend or self.logs_.backend)

    def outliers(self, backend: str | None = None) -> Any:
        """One row per decision point that the critic left out: who, when, what came back and what was expected."""
        logs = self.logs_
        out = logs.order[self.removed_[logs.order]]
        data = {
            logs.names.participant: logs.participant[out],
            logs.names.time: logs.time[out],
            logs.names.action: logs.action[out],
            logs.names.outcome: logs.outcome[out],
            "expected": logs.outcome[out] - self.residuals_[out],
            "residual": self.residuals_[out],
            "limit": np.sqrt(self.threshold_[self.unit_[out]]),
        }
        return make_frame(data, backend or logs.backend)

    def hold(self, fitted: Fitted) -> Self:
        """Keep what was learned, by a fit or before it was saved."""
        self._fitted = fitted
        return self

    @property
    def settled(self) -> "Method":
        """The same method with the parts that were chosen at the last fit, so that a fit to other logs has them too."""
        if self.choice is None:
            return self
        return replace(self, choice=None).set_params(**self.fitted_.chosen_parameters)

    @property
    def is_fitted(self) -> bool:
        return "_fitted" in vars(self)

    @property
    def fitted_(self) -> Fitted:
        """Everything that was learned; the names with an underscore below are its attributes, described there."""
        fitted: Fitted | None = vars(self).get("_fitted")
        if fitted is None:
            raise NotFittedError("this method has learned nothing yet; call fit(logs) first")
        return fitted

    policies_ = _Learned[Policies]()
    coef_ = _Learned[NDArray[np.float64] | None]()
    logs_ = _Learned[Trajectories]()
    participants_ = _Learned[NDArray[Any]]()
    critic_ = _Learned[Critic]()
    pooling_ = _Learned[Pooling]()
    horizon_ = _Learned[Horizon]()
    critic_coef_ = _Learned[NDArray[np.float64]]()
    weights_ = _Learned[NDArray[np.float64]]()
    threshold_ = _Learned[NDArray[np.float64]]()
    residuals_ = _Learned[NDArray[np.float64]]()
    scale_ = _Learned[NDArray[np.float64]]()
    n_iter_ = _Learned[NDArray[np.int64]]()
    converged_ = _Learned[NDArray[np.bool_]]()
    scaling_ = _Learned[FitScales]()
    penalty_ = _Learned[NDArray[np.float64]]()
    unit_ = _Learned[NDArray[np.int64]]()
    used_ = _Learned[NDArray[np.bool_]]()
    removed_ = _Learned[NDArray[np.bool_]]()
    pooled_ = _Learned[bool]()
    critic_sees_ = _Learned[NDArray[np.float64]]()
    policy_sees_ = _Learned[NDArray[np.float64]]()
    rule_sees_ = _Learned[NDArray[np.float64]]()
    coefficient_parts_ = _Learned[list[CoefficientPart]]()
    joint_ = _Learned[JointFit | None]()
    outlook_ = _Learned[Outlook | None]()
    posterior_ = _Learned[Posterior | None]()
    time_effects_ = _Learned[TimeEffects | None]()
    chosen_ = _Learned[ChosenParts | None]()


NEEDS_FIT = frozenset(
    {*(name for name, value in vars(Method).items() if isinstance(value, _Learned)), "coefficients", "fitted_", "outliers"}
    | {"predict_proba", "save", "summary", "update"}
)
"""Names of a method that only a fitted one has."""
AHEAD = {"rule": "pessimist", "pooling": "all", "horizon": "long-run"}
METHODS: dict[str, dict[str, str]] = {
    f"{prefix}{name}": {"rule": rule, **parts}
    for prefix, parts in (
        ("", {}),
        ("filter-", {"filter": "hampel"}),
        ("ro-", {"critic": "capped"}),
        ("hb-", {"critic": "high-breakdown"}),
    )
    for name, rule in (("linucb", "linucb"), ("accb", "actor"), ("saccb", "stochastic-actor"))
} | {
    "ahead": AHEAD,
    "ro-ahead": {**AHEAD, "critic": "capped"},
    "hb-ahead": {**AHEAD, "critic": "high-breakdown"},
    "ts": {"rule": "posterior-sampling"},
    "ro-ts": {"rule": "posterior-sampling", "critic": "capped"},
    "hb-ts": {"rule": "posterior-sampling", "critic": "high-breakdown"},
    "recommended": {
        "rule": "posterior-sampling",
        "critic": "high-breakdown",
        **CrossFitted.default,
        "choice": "cross-fitted",
    },
}
"""The parts of the paper's nine methods by name, then of three with the high-breakdown critic, three that look ahead, for
everybody together, three that sample from the posterior, and one that chooses its parts from the logs."""


@spell_out_keywords(Method, *(registry.find(name) for registry in SLOTS.values() for name in registry))
def method(name: str, **parameters: Any) -> Method:
    """Make a method by its name, not yet fitted.

    Parameters
    ----------
    name
        One of `METHODS`.
    **parameters
        Of `Method`. A part may be given by its name (`critic="capped"`), as an object (`critic=sf.critics.Capped(tau=2.0)`)
        or as a mapping; its parameters also as `critic__tau=2.0`, or `tau=2.0` where only one part has such a parameter.

    Returns
    -------
    Method

    Examples
    --------
    >>> method("ro-accb", tau=2.0).critic
    Capped(tau=2.0, refresh_threshold=False)
    """
    if name not in METHODS:
        raise InputError(f"there is no method '{name}'{did_you_mean(name, METHODS)}; choose from {list(METHODS)}")
    made = Method(**{slot: _make_part(slot, part) for slot, part in METHODS[name].items()})
    for slot in SLOTS.keys() & parameters.keys():
        given = parameters[slot]
        if isinstance(given, Mapping) and "name" not in given:
            # A mapping without a name changes the parameters of the method's own part.
            parameters[slot] = made.parts[slot].with_params(given)
    chosen = {} if made.choice is None else {slot: made.parts[slot] for slot in made.choice.default}
    made.set_params(**parameters)
    for slot, default in chosen.items():
        if slot in parameters or made.parts[slot] != default:
            raise InputError(
                f"'{name}' chooses {slot} from the logs; leave out {slot} and its parameters, or take another method, such "
                "as 'hb-ts'"
            )
    made.check_parameters()
    return made
