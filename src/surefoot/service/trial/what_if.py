"""What a policy would do in some state: by the code that decides, without a draw, and with nothing recorded."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from surefoot.data.column_kinds import Cell
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.decisions import Standing, find_live, find_standings, read_points
from surefoot.service.trial.states import Observation, check_types, context_to_state, derive_now
from surefoot.service.trial.trial import Trial
from surefoot.trial_rules.choices import Choice, Clocks, PolicyVersion, choose


@dataclass(frozen=True)
class Term:
    """What one column of the state adds to the preference for an action over doing nothing."""

    action: str
    feature: str
    value: float
    weight: float

    @property
    def contribution(self) -> float:
        return self.value * self.weight

    @property
    def magnitude(self) -> float:
        """How much it weighs, whichever way."""
        return abs(self.contribution)


@dataclass(frozen=True)
class Answer:
    """What would be decided, and why."""

    choice: Choice
    state: list[float | None]
    before_limits: list[float] | None
    """What the policy says before the study's limits; None where no policy decides."""
    terms: list[Term]
    how: str
    """How the policy turns preferences into probabilities, as a sentence."""
    stop: str | None
    """What would make the decision point unavailable at this moment, whatever the policy says."""

    @property
    def is_limited(self) -> bool:
        """Whether the study's limits changed what the policy says."""
        return self.before_limits is not None and not np.allclose(
            self.before_limits, self.choice.probabilities, rtol=0, atol=1e-9
        )


def answer_question(
    trial: Trial,
    context: Mapping[str, Cell],
    derived: Mapping[str, float],
    at: datetime,
    *,
    participant_id: str = "",
    policy_id: int | None = None,
    available: bool = True,
) -> Answer:
    """What `POST /decisions` would choose from, now.

    Derived states that are not given come from the participant's records; an empty `participant_id` is somebody new, and
    without a `policy_id` the live policy answers.
    """
    study = trial.study
    check_types(study, context)
    with trial.database.snapshot() as connection:
        known = read_points(connection, [(participant_id, 0)])
        standings = find_standings(trial.settings, connection, known)
        if participant_id and participant_id not in standings:
            raise ApiError(404, "unknown_participant", "there is no such participant")
        standing = standings.get(participant_id, Standing())
        recorded = dict.fromkeys(study.derived_states, float("nan"))
        if participant_id:
            index = 0 if standing.last_idx is None else standing.last_idx + 1
            recorded |= derive_now(study, connection, participant_id, index, at)
    observation = context_to_state(study, context, {**recorded, **derived})
    policy = trial.read_live(find_live(known) if policy_id is None else (policy_id, at))
    if policy_id is not None and (policy is None or policy.version is None):
        raise ApiError(404, "unknown_policy", "there is no such policy, or it cannot be read")
    choice = choose(study, participant_id, observation.state, available, observation.reasons, None, live=policy, at=at)
    version = None if choice.policy_id is None else trial.policies.get(choice.policy_id)
    return Answer(
        choice,
        observation.state,
        None if version is None else version.probabilities(participant_id, observation.state),
        [] if version is None else _list_terms(version, participant_id, observation),
        "" if version is None else version.policies.rule.how,
        "the participant has withdrawn" if standing.withdrawn else standing.find_stop(trial.settings, Clocks(at, at)),
    )


def _list_terms(version: PolicyVersion, participant_id: str, observation: Observation) -> list[Term]:
    """Preferences are linear in [s, 1]: each of its terms, action by action."""
    policy = version.policies[participant_id]
    weights = policy.rule.preferences()
    values = [*(value or 0.0 for value in observation.state), 1.0]
    features = (*version.policies.state_names, "intercept")
    if weights.shape != (len(policy.action_names) - 1, len(values)):
        return []  # a rule that does not look at the state
    return [
        Term(action, feature, value, float(weight))
        for action, row in zip(policy.action_names[1:], weights, strict=True)
        for feature, value, weight in zip(features, values, row, strict=True)
    ]
