"""The study's model: sections and keys of `study.toml`, checked by pydantic."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError, field_validator, model_validator

from surefoot.errors import InputError, did_you_mean
from surefoot.study.toml_types import Finite, Probability, Range, Section, Words
from surefoot.study.trial_section import Alerts, GuardRails, Limits, TrialSection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from surefoot.learning.methods import Method
    from surefoot.study.log_reader import StudyLogs

LOGARITHM = re.compile(r"log\(\s*x\s*(?:([+-])\s*(\d+(?:\.\d*)?|\.\d+))?\s*\)")
SET_BY_STUDY = ("pooling", "critic_variables", "policy_variables")
"""Parameters of a method that other keys of the study decide."""


class Columns(Section):
    """Which columns say who and when, whether the participant could be treated, and with which probability."""

    participant: str
    time: str
    available: str | None = None
    probability: str | None = None
    """Of the action that was taken."""
    missing: Words = ()
    """Spellings of "missing" beside an empty cell, NA, NaN and null."""


class Scaling(Section):
    """(x − centre) / scale."""

    centre: Finite = 0.0
    scale: Annotated[Finite, Field(gt=0)] = 1.0


class StateVariable(Section):
    """One state variable; a category becomes a 0/1 column for every level but the first."""

    column: str = ""
    """The name of the variable unless given."""
    kind: Literal["number", "yes/no", "category"] = "number"
    levels: Words = ()
    range: Range | None = None
    """Values outside count as missing."""
    scaling: Annotated[Scaling | None, BeforeValidator(lambda value: None if value == "none" else value)] = None
    """`none`, or { centre = …, scale = … }."""
    use: Literal["critic", "policy", "both"] = "both"

    @model_validator(mode="after")
    def _kind_fits(self) -> StateVariable:
        if self.kind == "category" and (len(self.levels) < 2 or len(set(self.levels)) < len(self.levels)):
            raise ValueError("a category needs at least two different levels, for example levels = ['other', 'home']")
        if self.kind != "category" and self.levels:
            raise ValueError(f"levels belong to kind = 'category', not to '{self.kind}'")
        if self.kind != "number" and (self.range is not None or self.scaling is not None):
            raise ValueError(f"range and scaling belong to kind = 'number', not to '{self.kind}'")
        return self


class Actions(Section):
    """What can be sent; the first is "nothing"."""

    column: str = "action"
    names: Words = ("nothing", "send")
    values: tuple[str | int | float | bool, ...] | None = None
    """What stands for each action in the log, in the order of the names."""
    probabilities: tuple[Probability, ...] | None = None
    """The design's probability of each action at an available decision point, where the log holds none."""

    @model_validator(mode="after")
    def _lengths_fit(self) -> Actions:
        if len(self.names) < 2 or len(set(self.names)) < len(self.names):
            raise ValueError("names must be at least two different names, the first of which means 'nothing'")
        for name, given in (("values", self.values), ("probabilities", self.probabilities)):
            if given is not None and len(given) != len(self.names):
                raise ValueError(f"{name} has {len(given)} entries for {len(self.names)} actions; give one for each")
        if self.values is not None and len(set(self.texts or ())) < len(self.values):
            raise ValueError("values must differ from each other")
        if self.probabilities is not None and abs(sum(self.probabilities) - 1) > 1e-9:
            raise ValueError(f"probabilities sum to {sum(self.probabilities):g}; they must sum to 1")
        return self

    @property
    def texts(self) -> tuple[str, ...] | None:
        """`values` as they read in a CSV file."""
        if self.values is None:
            return None
        return tuple(
            str(v).lower() if isinstance(v, bool) else f"{v:.17g}" if isinstance(v, float) else str(v) for v in self.values
        )


class Reward(Section):
    """What is optimised."""

    column: str = "reward"
    range: Range | None = None
    """Values outside count as missing; looked at before anything else."""
    winsorise: Range | None = None
    """Values outside are moved to the limit; done before the transform."""
    transform: str = "none"
    """`none`, `sqrt`, `log(x)` or `log(x + c)`."""

    @field_validator("transform")
    @classmethod
    def _transform_is_known(cls, transform: str) -> str:
        if transform not in ("none", "sqrt") and _offset(transform) is None:
            raise ValueError(f"'{transform}' is no transform; write 'none', 'sqrt', or 'log(x + 0.5)' with your number")
        return transform

    @property
    def offset(self) -> float | None:
        """c of log(x + c); None for another transform."""
        return _offset(self.transform)


def _offset(transform: str) -> float | None:
    found = LOGARITHM.fullmatch(transform.strip())
    return None if found is None else float(f"{found[1] or '+'}{found[2] or '0'}")


class MethodChoice(Section):
    """Which of the nine methods, with which parameters, for each participant or for all together."""

    name: str = "ro-accb"
    pooling: Literal["person", "all"] = "person"
    parameters: dict[str, bool | int | float | str] = Field(default_factory=dict)


class ProbabilityLimits(Section):
    """Between which limits the probability of sending anything stays when a policy is put to use."""

    minimum: Probability = 0.0
    maximum: Probability = 1.0

    @model_validator(mode="after")
    def _ordered(self) -> ProbabilityLimits:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum:g} is above maximum {self.maximum:g}")
        return self


class Study(Section):
    """What is observed, what can be sent, what is optimised.

    >>> study = Study.parse('[columns]\\nparticipant = "participant"\\ntime = "t"\\n[state.weather]\\n')
    >>> study.method_name, study.state_names, study.actions.names
    ('ro-accb', ('weather',), ('nothing', 'send'))
    """

    columns: Columns
    state: Annotated[dict[str, StateVariable], Field(min_length=1)]
    actions: Actions = Actions()
    reward: Reward = Reward()
    method_choice: Annotated[MethodChoice, Field(alias="method")] = MethodChoice()
    probability_limits: ProbabilityLimits = ProbabilityLimits()
    trial: TrialSection | None = None
    """Only for studies that `surefoot serve` runs."""

    _text: str | None = PrivateAttr(default=None)
    sections: ClassVar[dict[str, type[Section]]] = {
        "columns": Columns,
        "actions": Actions,
        "reward": Reward,
        "method": MethodChoice,
        "probability_limits": ProbabilityLimits,
        "trial": TrialSection,
        "trial.guard_rails": GuardRails,
        "trial.alerts": Alerts,
        "trial.limits": Limits,
    }

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read a `study.toml`."""
        path = Path(path)
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, name: str = "study.toml") -> Study:
        """A study from the text of its file; `name` is what messages call it."""
        from surefoot.study.validation_errors import explained

        try:
            study = cls.model_validate(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{name}: not TOML: {error}") from error
        except ValidationError as error:
            raise explained(error, text, name) from error
        study._text = text
        return study

    @model_validator(mode="after")
    def _sections_agree(self) -> Study:
        named = (self.columns.participant, self.columns.time, self.columns.available, self.columns.probability)
        roles = [column for column in (*named, self.actions.column, self.reward.column) if column is not None]
        twice = [column for column in roles if roles.count(column) > 1]
        if twice:
            raise ValueError(f"column '{twice[0]}' is named twice; every role needs a column of its own")
        for name in self.state_names:
            if name in roles:
                raise ValueError(
                    f"state variable '{name}' has the name of another role's column; call it otherwise and set its column"
                )
        if len(set(self.state_names)) < len(self.state_names):
            raise ValueError("two state variables have the same name")
        if self.columns.probability is not None and self.actions.probabilities is not None:
            raise ValueError("columns.probability and actions.probabilities both say the probability; keep one")
        for use in ("critic", "policy"):
            if not self._used_by(use):
                raise ValueError(f"no state variable is used by the {use}; set use = '{use}' or 'both' for one")
        self._check_method()
        if self.trial is not None:
            self._check_trial(self.trial)
        return self

    def _check_trial(self, trial: TrialSection) -> None:
        for role in ("available", "probability"):
            if getattr(self.columns, role) is None:
                # What the service exports must be read back as what happened.
                raise ValueError(f"columns.{role}: a study with a [trial] names this column; write {role} = '{role}'")
        limits = self.probability_limits
        for name in ("warm_up_probability", "fallback_probability"):
            if not limits.minimum <= getattr(trial, name) <= limits.maximum:
                bounds = f"{limits.minimum:g} to {limits.maximum:g}"
                raise ValueError(f"trial.{name}: {getattr(trial, name):g} is outside the probability limits {bounds}")

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
                raise ValueError(f"method.parameters.{name}: {value!r} is not of type {wanted.__name__}")
        try:
            self.method()._check_parameters()
        except InputError as error:
            about = next((f".{name}" for name in choice.parameters if name in str(error).split()), "")
            raise ValueError(f"method.parameters{about}: {error}") from error

    @property
    def method_name(self) -> str:
        return self.method_choice.name

    @property
    def pooling(self) -> str:
        return self.method_choice.pooling

    @property
    def state_names(self) -> tuple[str, ...]:
        """The state's columns after categories became 0/1 columns, `location=home` and so on."""
        return tuple(name for variable in self.state for name in self.columns_of(variable))

    def columns_of(self, variable: str) -> tuple[str, ...]:
        """The state's columns that one state variable becomes."""
        levels = self.state[variable].levels
        return tuple(f"{variable}={level}" for level in levels[1:]) if levels else (variable,)

    def _used_by(self, part: str) -> tuple[str, ...]:
        chosen = [name for name, variable in self.state.items() if variable.use in (part, "both")]
        return tuple(column for name in chosen for column in self.columns_of(name))

    def method(self) -> Method:
        """The study's method, not yet fitted."""
        from surefoot.learning.methods import method

        choice = self.method_choice
        seen = {"critic_variables": self._used_by("critic"), "policy_variables": self._used_by("policy")}
        return method(choice.name, pooling=choice.pooling, **seen, **choice.parameters)

    def read(self, path: str | Path) -> StudyLogs:
        """The logs in a CSV file, a Parquet file or a folder of Parquet files, as the study describes them."""
        from surefoot.study.log_reader import read

        return read(self, path)

    def limited(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities (n, actions) of available people with that of sending anything moved into the limits."""
        import numpy as np

        # Summed, not 1 − p₀: with two actions the share is then exactly 1, and rounding cannot leave the limits.
        send = probabilities[:, 1:].sum(axis=1)
        kept = np.clip(send, self.probability_limits.minimum, self.probability_limits.maximum)
        others = probabilities.shape[1] - 1
        share = np.where(send[:, None] > 0, probabilities[:, 1:] / np.where(send > 0, send, 1)[:, None], 1 / others)
        return np.column_stack([1 - kept, kept[:, None] * share])

    @property
    def text(self) -> str:
        """The file it was read from; for a study made in Python the same content as JSON."""
        return self._text if self._text is not None else self.model_dump_json(by_alias=True)
