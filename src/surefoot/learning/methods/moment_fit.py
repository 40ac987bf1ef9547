"""A method's fit from everybody's moments, without their decision points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.learning.batch import Batch, BatchFit, CompressedBatch
from surefoot.learning.critics import Critic, CriticFit
from surefoot.learning.diagnostics import NOT_CONVERGED, describe_troubles, find_moment_troubles, warn_of_troubles
from surefoot.learning.fitted import Fitted
from surefoot.learning.horizon import BatchOutlook, JointFit, find_horizon, pool_partially
from surefoot.learning.horizon.judgement import Judgement
from surefoot.learning.moment_roots import MomentRoots
from surefoot.learning.penalty_units import find_penalty_units
from surefoot.learning.pooling import find_pooling
from surefoot.learning.priors import PlacedPrior
from surefoot.numerics.engines import find_engine
from surefoot.policies.features import critic_features
from surefoot.policies.policies import Policies
from surefoot.policies.training import Training

Names = tuple[tuple[str, ...], tuple[str, ...]]
"""Of the state variables, and of the actions."""


class MomentMethod(Protocol):
    """What is asked of a method here; `surefoot.learning.methods.Method` has it all."""

    pooling: str
    penalty_units: str
    critic_penalty: float
    penalize_intercept: bool
    correlated_differences: bool
    centre_actions: bool
    horizon: str

    def list_seen(self, state_names: Sequence[str]) -> dict[str, Any]: ...
    def list_centres(self, logs: Trajectories) -> NDArray[np.float64] | None: ...
    def make_critic(self) -> Critic: ...
    def place_prior(self, state: Sequence[str], actions: Sequence[str]) -> PlacedPrior | None: ...
    def check_parameters(self) -> None: ...
    def check_names(self, state: Sequence[str], actions: Sequence[str]) -> None: ...
    def fit_batch(self, batch: Batch, outlook: BatchOutlook | None = None) -> BatchFit: ...


@dataclass(frozen=True, eq=False)
class MomentFit:
    """What a method learned from moments."""

    method: MomentMethod
    roots: MomentRoots
    """Of everybody."""
    participants: NDArray[Any]
    """Whose fits there are: the people, or `everyone`."""
    learned: BatchFit
    policies: Policies
    joint: JointFit | None
    counts: ClassVar[dict[str, int]] = {}
    """What `describe_rows` does not tell: moments count what was used, and nothing was removed."""

    def without_moments(self) -> MomentFit:
        """What `describe_rows` needs: of many people, their moments and posteriors are much larger than that."""
        critic, nothing = self.learned.critic, np.zeros((len(self.participants), 0, 0))
        learned = replace(self.learned, critic=replace(critic, gram=nothing, weights=nothing), residuals=nothing)
        return replace(self, roots=replace(self.roots, root=nothing), learned=learned, joint=None)

    def describe_rows(self, logs: Trajectories) -> Fitted:
        """The fit with the weights and residuals of some decision points, all of them or the later ones."""
        method, learned = self.method, self.learned
        pooling, sees = find_pooling(method.pooling), method.list_seen(logs.state_names)
        place = np.searchsorted(self.participants, logs.participants) if not pooling.shared else np.zeros(1, dtype=np.int64)
        unit = place[logs.participant_index] if not pooling.shared else np.zeros(len(logs), dtype=np.int64)
        state = np.nan_to_num(logs.state) * sees["critic_sees"]
        x = critic_features(state, logs.action, logs.actions, method.list_centres(logs))
        expected = np.einsum("ij,ij->i", x, np.asarray(learned.critic.coef)[unit])
        known = np.asarray(~np.isnan(logs.state).any(axis=1))
        kept = Judgement.of_everything(len(self.participants), np.where(logs.usable, 1.0, np.nan), known)
        joint = None if self.joint is None else replace(self.joint, judgement=kept)
        fit = learned.critic
        return Fitted(
            *(logs, method.make_critic(), pooling, self.participants, unit),
            **sees,
            critic_coef=fit.coef,
            threshold=fit.threshold,
            scale=learned.scale,
            n_iter=fit.n_iter,
            converged=learned.converged,
            weights=kept.kept,
            residuals=np.where(logs.usable, logs.reward - expected, np.nan),
            scaling=learned.scaling,
            penalty=learned.penalty,
            policies=self.policies,
            horizon=find_horizon(method.horizon),
            joint=joint,
            roots=self.roots,
        )


def fit_moments(method: MomentMethod, roots: MomentRoots, names: Names, training: Training | None = None) -> MomentFit:
    """Fit a method that follows from moments (`why_rows` is None) to those of everybody.

    Warnings are those of a fit to the decision points.
    """
    states, actions = names
    method.check_parameters()
    method.check_names(states, actions)
    pooling = find_pooling(method.pooling)
    fits = roots.total() if pooling.shared else roots
    features = int((method.list_seen(states)["critic_sees"].sum() + 1) * len(actions))
    joint = _pool_partially(method, roots, names) if pooling.borrows else None
    learned = _fit_units(method, fits, names, joint)
    policies = Policies(None if pooling.shared else roots.participants, learned.rule, actions, states, training=training)
    if joint is not None and joint.anybody is not None:
        rule = _fit_units(method, roots.total(), names, joint.anybody).rule.to_numpy(find_engine("numpy"))[0]
        policies = policies.with_anybody(rule, instead_of=roots.used < features)
    troubles = np.column_stack([find_moment_troubles(fits, features), ~learned.converged])
    warn_of_troubles(fits.participants, troubles, [*describe_troubles(states, actions, features, pooling), NOT_CONVERGED])
    return MomentFit(method, roots, fits.participants, learned, policies, joint)


def _pool_partially(method: MomentMethod, roots: MomentRoots, names: Names) -> JointFit:
    """As `ImmediateHorizon` does, with the units of everybody together."""
    actions = len(names[1])
    x, reward, weight = roots.total().compress()
    values = np.concatenate([x[..., 1 : x.shape[-1] // actions], reward[..., None]], axis=-1)
    units = find_penalty_units(method.penalty_units)
    scaling = units.measure_deviations(x[..., 0], values, weight)
    kept = (scaling, method.critic_penalty)
    penalty = units.penalise_critic(*kept, actions=actions, intercept=method.penalize_intercept)[0]
    judgement = Judgement.of_everything(len(roots.participants), np.zeros(0), np.zeros(0, dtype=bool))
    return pool_partially(
        *(roots.moments, penalty, judgement, roots.participants),
        actions=actions,
        correlated=method.correlated_differences,
        prior=method.place_prior(*names),
    )


def _fit_units(method: MomentMethod, units: MomentRoots, names: Names, joint: JointFit | None) -> BatchFit:
    """Critic and decision rule of each unit, from rows with the same moments."""
    x, reward, weight = units.compress()
    states, actions = len(names[0]), len(names[1])
    batch = CompressedBatch(
        state=np.zeros((*reward.shape, states)),
        action=np.zeros(reward.shape, dtype=np.int64),
        reward=reward,
        usable=weight,
        weights=weight,
        actions=actions,
        **method.list_seen(names[0]),
        names=names,
        centre=np.zeros((*reward.shape, actions - 1)) if method.centre_actions else None,
        compressed=x,
    )
    if joint is None:
        return method.fit_batch(batch)
    judged = joint.judgement
    fit = CriticFit(joint.coef, joint.gram, weight, judged.threshold, judged.n_iter, judged.converged)
    return method.fit_batch(batch, BatchOutlook(fit, joint.advantage))
