"""The study's model: sections and keys of `study.toml`, checked by pydantic."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator

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

OWN_KEYS = ("prior", "forgetting", "random_walk")
"""Parameters of a method that are keys of `[method]` itself, and with whose name what is wrong with them begins."""
SET_BY_STUDY = ("pooling", "critic_variables", "policy_variables", "horizon", "max_gap", "day_boundary", *OWN_KEYS)
"""Parameters of a method that other keys of the study decide."""
TYPE_WORDS = {float: "a number", int: "a whole number", bool: "true or false", str: "text"}


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
    pooling
        Unless given, the method's own: `person`, but `all` for the methods that look ahead.
    horizon
        Unless given, the method's own: `immediate`, but `long-run` for the methods that look ahead.
    parameters
        Parameters of the method by name.
    """

    name: str = "ro-accb"
    pooling: str | None = None
    horizon: str | None = None
    forgetting: float | None = None
    """A decision point that lies k before the participant's last one counts forgetting^k times."""
    random_walk: bool | int | float | str | None = None
    """With partial pooling: q of people whose coefficients move, or `estimate`."""
    parameters: dict[str, bool | int | float | str] = Field(default_factory=dict)
    prior: dict[str, CoefficientPrior] = Field(default_factory=dict)
    """Of coefficients by name, for a method that samples from the posterior."""

    @field_validator("pooling")
    @classmethod
    def _pooling_is_known(cls, pooling: str | None) -> str | None:
        from surefoot.learning.pooling import find_pooling

        return None if pooling is None else find_pooling(pooling).name

    @field_validator("horizon")
    @classmethod
    def _horizon_is_known(cls, horizon: str | None) -> str | None:
        from surefoot.learning.horizon import find_horizon

        return None if horizon is None else str(find_horizon(horizon).name)


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
        defaults = {f.name: f.default for f in fields(METHODS[choice.name][0]) if f.name not in SET_BY_STUDY}
        for name, value in choice.parameters.items():
            if name not in defaults:
                what = f"{choice.name} has no parameter '{name}'{did_you_mean(name, defaults)}; it has {list(defaults)}"
                raise ValueError(f"method.parameters.{name}: {what}")
            wanted = str if defaults[name] is None else type(defaults[name])
            if type(value) is not wanted and not (wanted is float and type(value) is int):
                raise ValueError(f"method.parameters.{name}: {value!r} is not {TYPE_WORDS[wanted]}")
        if choice.prior and "prior" not in {f.name for f in fields(METHODS[choice.name][0])}:
            raise ValueError(
                f"method.prior: {choice.name} has no prior; use one that samples from the posterior, such as 'ts'"
            )
        try:
            self.method().check_parameters()
            self.method().check_names(self.state_names, self.actions.names)
        except InputError as error:
            key = next((key for key in OWN_KEYS if str(error).startswith(key)), None)
            if key is not None:
                raise ValueError(f"method.{key}: {str(error).removeprefix('prior: ')}") from error
            about = next((f".{name}" for name in choice.parameters if name in str(error).split()), "")
            raise ValueError(f"method.parameters{about}: {error}") from error

    @property
    def method_name(self) -> str:
        return self.method_choice.name

    @property
    def pooling(self) -> str:
        return str(self.method().pooling)

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
            from surefoot.learning.methods import method

            choice = self.method_choice
            seen = {"critic_variables": self._columns_used_by("critic"), "policy_variables": self._columns_used_by("policy")}
            parts: dict[str, Any] = {"pooling": choice.pooling, "horizon": choice.horizon}
            parts |= {"forgetting": choice.forgetting, "random_walk": choice.random_walk}
            if self.trial is not None:
                parts |= {"day_boundary": self.trial.day_boundary, "max_gap": self.trial.max_gap}
            if choice.prior:
                parts["prior"] = {name: one.model_dump() for name, one in choice.prior.items()}
            given = {name: value for name, value in parts.items() if value is not None}
            self._method = method(choice.name, **given, **seen, **choice.parameters)
        return copy.copy(self._method)

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
