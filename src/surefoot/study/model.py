"""The study's model: sections and keys of `study.toml`, checked by pydantic."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from surefoot.data.derived_states import DayBoundary
from surefoot.data.file_formats import LOG_SUFFIXES
from surefoot.errors import InputError, did_you_mean
from surefoot.study.log_description import LogDescription
from surefoot.study.log_reader import StudyLogs, read_logs
from surefoot.study.toml_file import Finite, KeyedError, Probability, Section, explain_error, parse_toml, read_text
from surefoot.study.trial_section import EffectsSection, TrialSection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from surefoot.learning.methods import Method

OWN_KEYS = ("prior", "forgetting", "random_walk", "rule", "critic", "pooling", "horizon", "filter")
"""Parameters of a method that are keys of `[method]` itself."""
SET_BY_STUDY = ("critic_variables", "policy_variables", "max_gap", "day_boundary", *OWN_KEYS)
"""Parameters of a method that other keys of the study decide."""
Parameter = bool | int | float | str
PartChoice = str | dict[str, Parameter]
"""A part by its name, or a section with its `name` and its parameters."""


class CoefficientPrior(Section):
    """What is believed of a coefficient before the first decision point: N(mean, scale²)."""

    mean: Finite = 0.0
    """What is expected of it, in the reward's units."""
    scale: Annotated[Finite, Field(gt=0)]
    """The standard deviation of that expectation."""


class MethodChoice(Section):
    """Which method, with which parameters, for each participant or for all together.

    Attributes
    ----------
    name
        One of `surefoot.METHODS`.
    rule
        What makes a decision rule of the critic's result. Each part is a name, or a section such as `[method.critic]` with
        `name` and the part's parameters; unless given, it is the one that the method's name stands for.
    critic
        The model of the expected reward.
    pooling
        Who shares a fit: `person`, but `all` for the methods that look ahead.
    horizon
        How far consequences count: `immediate`, but `long-run` for the methods that look ahead.
    filter
        What cleans each participant's series first.
    parameters
        Parameters of the method and of its parts by name.
    """

    name: str = "ro-accb"
    rule: PartChoice | None = None
    critic: PartChoice | None = None
    pooling: PartChoice | None = None
    horizon: PartChoice | None = None
    filter: PartChoice | None = None
    forgetting: float | None = None
    """A decision point that lies k before the participant's last one counts forgetting^k times."""
    random_walk: bool | int | float | str | None = None
    """With partial pooling: q of people whose coefficients move, or `estimate`."""
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    prior: dict[str, CoefficientPrior] = Field(default_factory=dict)
    """Of coefficients by name, for a method that samples from the posterior."""

    def list_given(self) -> list[tuple[str, str, Any]]:
        """Every key after `name`, as (key, parameter of the method, value); parts come before their parameters."""
        given: list[tuple[str, str, Any]] = []
        for slot in ("rule", "pooling", "horizon", "critic", "filter"):
            part = getattr(self, slot)
            if isinstance(part, dict):
                keys = sorted(part, key=lambda key: key != "name")
                given += [(f"{slot}.{key}", slot if key == "name" else f"{slot}__{key}", part[key]) for key in keys]
            elif part is not None:
                given.append((slot, slot, part))
        names = sorted(self.parameters, key=lambda name: name not in OWN_KEYS)
        given += [(f"parameters.{name}", name, self.parameters[name]) for name in names]
        for name in ("forgetting", "random_walk"):
            if getattr(self, name) is not None:
                given.append((name, name, getattr(self, name)))
        if self.prior:
            prior = {name: coefficient.model_dump() for name, coefficient in self.prior.items()}
            given.append(("prior", "prior", prior))
        return given


class ProbabilityLimits(Section):
    """Between which limits the probability of sending anything stays when a policy is put to use.

    Attributes
    ----------
    minimum
        The least.
    maximum
        The greatest.
    """

    minimum: Probability = 0.0
    maximum: Probability = 1.0

    @model_validator(mode="after")
    def _limits_are_ordered(self) -> ProbabilityLimits:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum:g} is above maximum {self.maximum:g}")
        return self


class Study(LogDescription):
    """What is observed, what can be sent, what is optimised.

    Attributes
    ----------
    method_choice
        `[method]`: which method, with which parameters.
    probability_limits
        `[probability_limits]`: limits of the probability of sending anything.
    effects
        `[effects]`: the analysis of the treatment's effects that the study asks for.
    trial
        Only for studies that `surefoot serve` runs.

    Examples
    --------
    >>> study = Study.parse('[columns]\\nparticipant = "participant"\\ntime = "t"\\n[state.weather]\\n')
    >>> study.method_name, study.state_names, study.actions.names
    ('ro-accb', ('weather',), ('nothing', 'send'))
    """

    method_choice: Annotated[MethodChoice, Field(alias="method")] = MethodChoice()
    probability_limits: ProbabilityLimits = ProbabilityLimits()
    effects: EffectsSection = EffectsSection()
    trial: TrialSection | None = None

    _text: str | None = PrivateAttr(default=None)
    _method: Method | None = PrivateAttr(default=None)

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read a `study.toml`."""
        path = Path(path)
        if path.name.lower().endswith(LOG_SUFFIXES) or path.is_dir():
            raise InputError(f"{path}: holds logs, not a study; write surefoot fit {path} --study study.toml")
        text = read_text(path, remedy=f"surefoot init LOGS --out {path} writes a first one")
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, name: str = "study.toml") -> Study:
        """A study from the text of its file; `name` is what messages call it."""
        study = parse_toml(cls, text, name)
        study._text = text
        return study

    @classmethod
    def restore(cls, text: str) -> Study:
        """The study that has this `text`."""
        if not text.lstrip().startswith("{"):  # A study made in Python has its content as JSON.
            return cls.parse(text, "the stored study")
        study = cls.model_validate_json(text)
        study._text = text
        return study

    @model_validator(mode="after")
    def _sections_agree(self) -> Study:
        for name, state in self.derived_states.items():
            if state.needs_days and self.days is None:
                words = f"'{state.name}' counts days; write [trial] day_boundary = 5 with your number"
                raise KeyedError(("state", name), words)
        for use in ("critic", "policy"):
            if not self._columns_used_by(use):
                raise ValueError(f"no state variable is used by the {use}; set use = '{use}' or 'both' for one")
        self._check_method()
        self._check_effects()
        if self.trial is not None:
            self._check_trial(self.trial)
        return self

    def _check_effects(self) -> None:
        """Moderators and controls must be known before the decision: state variables are."""
        known = [*self.state, *self.state_names]
        day = () if self.effects.day is None else (self.effects.day,)
        for key, names in (("moderators", self.effects.moderators), ("controls", self.effects.controls), ("day", day)):
            for name in (part for term in names for part in ([term] if term in known else term.split(":"))):
                if name not in known:
                    problem = f"'{name}' is not a state variable{did_you_mean(name, known)}"
                    remedy = f"what is known before the decision stands in a section [state.{name}]"
                    raise KeyedError(("effects", key), f"{problem}; {remedy}; there are {list(self.state)}")

    def _check_trial(self, trial: TrialSection) -> None:
        for role in ("available", "probability"):
            if getattr(self.columns, role) is None:
                # What the service exports must be read back as what happened.
                remedy = f"write {role} = '{role}'"
                if role == "probability" and self.actions.probabilities is not None:
                    remedy += " and remove actions.probabilities"
                raise KeyedError(("columns", role), f"a study with a [trial] names this column; {remedy}")
        if self.columns.probability_of != "action taken":
            words = "a trial logs the probability of the action taken; leave this key out"
            raise KeyedError(("columns", "probability_of"), words)
        for column in self.extra_columns():
            # What the app does not send with a decision, the service cannot screen.
            words = f"a study with a [trial] screens its state only; make '{column}' a state variable"
            raise KeyedError(("screen",), words)
        limits = self.probability_limits
        for name in ("warm_up_probability", "fallback_probability"):
            if not limits.minimum <= getattr(trial, name) <= limits.maximum:
                bounds = f"{limits.minimum:g} to {limits.maximum:g}"
                words = f"{getattr(trial, name):g} is outside the probability limits {bounds}"
                raise KeyedError(("trial", name), words)

    def _check_method(self) -> None:
        from surefoot.learning.methods import METHODS

        choice = self.method_choice
        if choice.name not in METHODS:
            near = did_you_mean(choice.name, METHODS)
            raise ValueError(f"method.name: there is no method '{choice.name}'{near}; choose from {list(METHODS)}")
        try:
            self.method().check_names(self.state_names, self.actions.names)
        except InputError as error:
            raise ValueError(f"method.{self._find_wrong_key()}: {str(error).removeprefix('prior: ')}") from error

    def _find_wrong_key(self) -> str:
        """The first key of `[method]` with which the method cannot be made."""
        parameters: dict[str, Any] = {}
        for key, parameter, value in self.method_choice.list_given():
            parameters[parameter] = value
            try:
                self._make_method(parameters).check_names(self.state_names, self.actions.names)
            except InputError:
                return key
        return "name"

    @property
    def method_name(self) -> str:
        return self.method_choice.name

    @property
    def pooling(self) -> str:
        return self.method().pooling.name

    @property
    def days(self) -> DayBoundary:
        return None if self.trial is None else self.trial.day_boundary

    @property
    def has_clock_days(self) -> bool:
        """Whether a day begins at a clock time: the time column holds timestamps then, in logs and in a trial."""
        return isinstance(self.days, str)

    def _columns_used_by(self, part: str) -> tuple[str, ...]:
        chosen = [name for name, variable in self.state.items() if variable.use in (part, "both")]
        return tuple(column for name in chosen for column in self.columns_of(name))

    def method(self) -> Method:
        """The study's method, not yet fitted."""
        if self._method is None:
            given = self.method_choice.list_given()
            self._method = self._make_method({parameter: value for _, parameter, value in given})
        return copy.copy(self._method)

    def _make_method(self, parameters: dict[str, Any]) -> Method:
        """The method with these parameters, with the variables that it sees and, looking ahead, with the trial's days."""
        from surefoot.learning.methods import method

        seen = {"critic_variables": self._columns_used_by("critic"), "policy_variables": self._columns_used_by("policy")}
        for name in seen.keys() & parameters.keys():
            raise InputError(f"{name}: write use = 'critic', 'policy' or 'both' in the sections of the state instead")
        made = method(self.method_choice.name, **parameters, **seen)
        if self.trial is not None:
            days = {"day_boundary": self.trial.day_boundary, "max_gap": self.trial.max_gap}
            known = made.horizon.get_params()
            made.horizon = made.horizon.with_params(**{name: value for name, value in days.items() if name in known})
            made.horizon.check_parameters()
        return made

    def list_steps(self) -> dict[str, Any]:
        """`max_gap` and `day_boundary`, as far as the trial or the horizon says which decision points follow each other."""
        given = self.method().horizon.get_params() if self.trial is None else vars(self.trial)
        return {name: given[name] for name in ("max_gap", "day_boundary") if given.get(name) is not None}

    def with_trial_columns(self) -> Study:
        """The same study for logs that a trial leaves: every decision with the probability of the action taken, whatever the
        design of the logs that the study was written for."""
        columns = {
            "available": self.columns.available or "available",
            "probability": self.columns.probability or "probability",
        }
        logged = self.columns.model_copy(update={**columns, "probability_of": "action taken"})
        actions = self.actions.model_copy(update={"probabilities": None})
        return self.model_copy(update={"columns": logged, "actions": actions})

    def with_method(self, choice: MethodChoice) -> Study:
        """The same study with another method, checked as the file's own is."""
        given = {**self.model_dump(by_alias=True), "method": choice.model_dump()}
        try:
            return Study.model_validate(given)
        except ValidationError as error:
            raise explain_error(error, "", f"method '{choice.name}'", Study) from error

    def read(self, path: str | Path) -> StudyLogs:
        """The logs in a CSV file, a Parquet file or a folder of Parquet files, as the study describes them."""
        return read_logs(self, path)

    def clip_probabilities(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities (n, actions) of available people with that of sending anything moved into the limits."""
        import numpy as np

        # Summed, not 1 − p₀: with two actions the share is then exactly 1, and rounding cannot leave the limits.
        send = probabilities[:, 1:].sum(axis=1)
        kept = np.clip(send, self.probability_limits.minimum, self.probability_limits.maximum)
        others = probabilities.shape[1] - 1
        share = np.where(send[:, None] > 0, probabilities[:, 1:] / np.where(send > 0, send, 1)[:, None], 1 / others)
        return np.column_stack([1 - kept, kept[:, None] * share])

    def clip_row(self, probabilities: Sequence[float]) -> list[float]:
        """What `clip_probabilities` makes of one row, quickly."""
        others = probabilities[1:]
        send = sum(others)
        kept = min(max(send, self.probability_limits.minimum), self.probability_limits.maximum)
        return [1 - kept, *(kept * (one / send if send > 0 else 1 / len(others)) for one in others)]

    @property
    def text(self) -> str:
        """The file it was read from; for a study made in Python the same content as JSON."""
        return self._text if self._text is not None else self.model_dump_json(by_alias=True)
