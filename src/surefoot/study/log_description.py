"""What the columns of the logs mean, as the sections of `study.toml` say it together."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from surefoot.data.column_kinds import Number, VariableKind
from surefoot.data.decision_times import DayBoundary
from surefoot.data.derived_states import DerivedState
from surefoot.errors import did_you_mean
from surefoot.reports.reward_units import RewardUnit
from surefoot.screening.detectors import Role
from surefoot.study.collection_section import CollectionSection
from surefoot.study.log_sections import Actions, Columns, FileSection, Reward, StateVariable
from surefoot.study.screen_section import QuestionnaireSection, ScreenSection
from surefoot.study.toml_types import Section


class LogDescription(Section):
    """What the columns of the logs mean."""

    file: FileSection = FileSection()
    columns: Columns
    state: Annotated[dict[str, StateVariable], Field(min_length=1)]
    actions: Actions = Actions()
    reward: Reward = Reward()
    collection: CollectionSection = CollectionSection()
    """How the actions in the logs were chosen."""
    screen: ScreenSection | None = None
    """Which values are marked missing before anything is fitted; none without the section."""
    questionnaire: dict[str, QuestionnaireSection] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _columns_agree(self) -> Self:
        named = (self.columns.participant, self.columns.time, self.columns.available, self.columns.probability)
        roles = [column for column in (*named, self.actions.column, self.reward.column) if column is not None]
        twice = [column for column in roles if roles.count(column) > 1]
        if twice:
            raise ValueError(f"column '{twice[0]}' is named twice; every role needs a column of its own")
        for name, variable in self.state.items():
            if (variable.column or name) in (self.reward.column, self.actions.column):
                what = "reward" if (variable.column or name) == self.reward.column else "action"
                raise ValueError(
                    f"state.{name}: its column is the {what}, which is known only after the decision; "
                    "a state holds what was known before it, so leave this variable out"
                )
        for name in self.state_names:
            if name in roles:
                raise ValueError(f"state variable '{name}' has the name of another role's column; give it another name")
        if len(set(self.state_names)) < len(self.state_names):
            raise ValueError("two state variables have the same name")
        if self.columns.probability is not None and self.actions.probabilities is not None:
            raise ValueError("columns.probability and actions.probabilities both say the probability; keep one")
        if self.columns.probability_of == "sending" and len(self.actions.names) > 2:
            raise ValueError(
                "columns.probability_of: 'sending' says nothing about which of several actions was sent; "
                "log the probability of the action taken"
            )
        return self

    @model_validator(mode="after")
    def _screen_agrees(self) -> Self:
        for name, one in self.questionnaire.items():
            for score in one.scores:
                if score not in self.state or self.state[score].kind != Number.name:
                    near = did_you_mean(score, self.state)
                    raise ValueError(f"questionnaire.{name}.scores: there is no number state variable '{score}'{near}")
        if self.screen is not None:
            self._check_screen(self.screen)
        return self

    def _check_screen(self, screen: ScreenSection) -> None:
        numbers = {one.column or name: one for name, one in self.state.items() if one.kind == Number.name}
        known = [*numbers, self.reward.column]
        for column in screen.columns:
            if column not in known:
                near = did_you_mean(column, known)
                raise ValueError(f"screen.columns: there is no number column '{column}'{near} in the study; it has {known}")
        named = [*(variable.device for variable in numbers.values()), self.reward.device]
        devices = [device for device in named if device is not None]
        for device in screen.devices:
            if device not in devices:
                near = did_you_mean(device, devices)
                remedy = f"write device = '{device}' where a number column or the reward comes from it, or leave it out"
                raise ValueError(f"screen.devices: no column comes from device '{device}'{near}; {remedy}")
        for name, variable in self.state.items():
            if variable.device is not None and variable.device not in devices:
                what = f"device '{variable.device}' has nothing to judge: '{name}' is {variable.kind}"
                raise ValueError(f"state.{name}.device: {what}; name the device of a number column, or leave it out")

    def extra_columns(self) -> dict[str, Role]:
        """Columns that only the screen needs, and what they are: items outside the state, answering times, enrolment."""
        if self.screen is None or not self.screen.on:
            return {}
        known = {variable.column or name for name, variable in self.state.items()} | {self.reward.column}
        wanted: dict[str, Role] = {}
        for questionnaire in self.questionnaire.values():
            wanted |= {item: "item" for item in questionnaire.items if item not in known}
            if questionnaire.seconds is not None:
                wanted[questionnaire.seconds] = "seconds"
        enrolment = self.screen.enrolment
        return wanted if enrolment is None else {**wanted, enrolment: "enrolment"}

    def with_screen(self) -> Self:
        """The same study, screened: as it says, or by every detector where it says nothing."""
        chosen = (self.screen or ScreenSection()).model_copy(update={"on": True})
        return self.model_copy(update={"screen": chosen})

    @property
    def state_kinds(self) -> dict[str, tuple[str, VariableKind]]:
        """For every state variable that is read its column in the log and its kind."""
        return {
            name: (variable.column or name, variable.variable_kind)
            for name, variable in self.state.items()
            if not variable.derived
        }

    @property
    def derived_states(self) -> dict[str, DerivedState]:
        """The state variables that are computed from the past."""
        return {name: variable.derived_state for name, variable in self.state.items() if variable.derived}

    @property
    def days(self) -> DayBoundary:
        """Where a day of the logs ends; None where the study does not say."""
        return None

    @property
    def read_names(self) -> tuple[str, ...]:
        """The state's columns that are read from the log."""
        return tuple(column for name in self.state_kinds for column in self.columns_of(name))

    @property
    def state_names(self) -> tuple[str, ...]:
        """The state's columns after categories became 0/1 columns, `location=home` and so on."""
        return tuple(name for variable in self.state for name in self.columns_of(variable))

    def columns_of(self, variable: str) -> tuple[str, ...]:
        """The state's columns that one state variable becomes."""
        return self.state[variable].variable_kind.state_columns(variable)

    @property
    def variable_kinds(self) -> dict[str, VariableKind]:
        """The kind of every state variable, read or derived."""
        return {name: variable.variable_kind for name, variable in self.state.items()}

    @property
    def reward_unit(self) -> RewardUnit:
        """What the fitted reward is counted in."""
        return RewardUnit(self.reward.column, self.reward.transform)

    @property
    def scaling(self) -> dict[str, tuple[float, float]]:
        """For every column of the state with a scaling its centre and its scale."""
        return {
            column: (variable.scaling.centre, variable.scaling.scale)
            for name, variable in self.state.items()
            if variable.scaling is not None
            for column in self.columns_of(name)
        }

    @property
    def descriptions(self) -> dict[str, str]:
        """What every column of the state is, in words."""
        return {
            column: f"derived: {variable.derived}" if variable.derived else variable.variable_kind.describe()
            for name, variable in self.state.items()
            for column in self.columns_of(name)
        }
