"""A study, as `study.toml` describes it."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BaseModel, Field, PlainValidator, PrivateAttr, ValidationError, model_validator

from surefoot.data.derived_states import DayBoundary
from surefoot.data.file_formats import LOG_SUFFIXES
from surefoot.errors import InputError, did_you_mean
from surefoot.reports.numbers import OutcomeUnit
from surefoot.reports.summaries import Overview, Shown
from surefoot.study.log_description import LogDescription
from surefoot.study.log_reader import StudyLogs, read_logs
from surefoot.study.toml_file import Finite, KeyedError, Positive, Probability, Section, explain_error, parse_toml, read_text
from surefoot.study.trial_section import EffectsSection, MonitoringSection, TrialSection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from surefoot.learning.methods import Method
    from surefoot.policies.policies import Policies

OWN_KEYS = ("prior", "forgetting", "random_walk", "rule", "critic", "pooling", "horizon", "filter", "baseline")
"""Parameters of a method that are keys of `[method]` itself."""
SET_BY_STUDY = ("critic_variables", "policy_variables", "max_gap", "day_boundary", *OWN_KEYS)
"""Parameters of a method that other keys of the study decide."""
NOT_NOUNS = ("send", "sent", "yes", "true", "on", "treat", "treated", "act", "action", "active", "prompted", "delivered")
"""Names of actions with which a sentence cannot begin: "A sent raises …"."""
Scalar = bool | int | float | str


def _check_scalar(value: Any) -> Any:
    if not isinstance(value, Scalar):
        raise ValueError(f"must be a number, text, true or false; got {value!r}")
    return value


def _check_part(value: Any) -> Any:
    if not isinstance(value, str | dict):
        raise ValueError(f"must be a name in quotes, or a section with a name and parameters; got {value!r}")
    for name, parameter in value.items() if isinstance(value, dict) else ():
        if not isinstance(parameter, Scalar):
            raise ValueError(f"{name} must be a number, text, true or false; got {parameter!r}")
    return value


Parameter = Annotated[Scalar, PlainValidator(_check_scalar, json_schema_input_type=Scalar)]
PartChoice = Annotated[str | dict[str, Scalar], PlainValidator(_check_part, json_schema_input_type=str | dict[str, Scalar])]
"""A part by its name, or a section with its `name` and its parameters."""


class CoefficientPrior(Section):
    """The prior distribution N(mean, scale²) of a coefficient."""

    mean: Finite = 0.0
    """The prior mean, in the outcome's units."""
    scale: Positive
    """The prior standard deviation."""


class MethodChoice(Section):
    """The method, its parts and their parameters.

    Each part is a name, or a section such as `[method.critic]` with `name` and the part's parameters; by default it is the
    part that the method's name stands for.
    """

    name: str = "ro-accb"
    """One of `surefoot.METHODS`."""
    rule: PartChoice | None = None
    """The decision rule that is made of the critic's result."""
    critic: PartChoice | None = None
    """The model of the expected outcome."""
    pooling: PartChoice | None = None
    """The people who share a fit: `person`, but `all` for the methods that look ahead."""
    horizon: PartChoice | None = None
    """How far consequences count: `immediate`, but `long-run` for the methods that look ahead."""
    filter: PartChoice | None = None
    """The filter that cleans each participant's series first."""
    forgetting: float | None = None
    """A decision point that lies k before the participant's last one counts forgetting^k times."""
    random_walk: Parameter | None = None
    """With partial pooling: q of people whose coefficients move, or `estimate`."""
    baseline: PartChoice | None = None
    """The shape of the expected outcome without an action: `linear`, or `smooth`."""
    time_effects: str | None = None
    """With partial pooling: `smooth` where effects change over the study for everybody."""
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    """Parameters of the method and of its parts by name."""
    prior: dict[str, CoefficientPrior] = Field(default_factory=dict)
    """Of coefficients by name, for a method that samples from the posterior."""

    def list_given(self) -> list[tuple[tuple[str, ...], str, Any]]:
        """Every key after `name`, as (key, parameter of the method, value); parts come before their parameters."""
        given: list[tuple[tuple[str, ...], str, Any]] = []
        for slot in ("rule", "pooling", "horizon", "critic", "filter", "baseline"):
            choice = getattr(self, slot)
            if isinstance(choice, dict):
                keys = sorted(choice, key=lambda key: key != "name")
                given += [((slot, key), slot if key == "name" else f"{slot}__{key}", choice[key]) for key in keys]
            elif choice is not None:
                given.append(((slot,), slot, choice))
        names = sorted(self.parameters, key=lambda name: name not in OWN_KEYS)
        given += [(("parameters", name), name, self.parameters[name]) for name in names]
        for name, parameter in (("forgetting", "forgetting"), ("random_walk", "random_walk"), ("time_effects", "time")):
            if getattr(self, name) is not None:
                given.append(((name,), parameter, getattr(self, name)))
        if self.prior:
            given.append((("prior",), "prior", {name: prior.model_dump() for name, prior in self.prior.items()}))
        return given


class ProbabilityLimits(Section):
    """Limits of the probability of sending anything when a policy is put to use."""

    minimum: Probability = 0.0
    """The smallest probability."""
    maximum: Probability = 1.0
    """The largest probability."""

    @model_validator(mode="after")
    def _limits_are_ordered(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum:g} is above maximum {self.maximum:g}")
        return self


class Study(Shown, LogDescription):
    """A study: its variables, its actions, its outcome, and how they are analysed and used.

    Examples
    --------
    >>> study = Study.parse('[columns]\\nparticipant = "participant"\\ntime = "t"\\n[state.weather]\\n')
    >>> study.method_name, study.state_names, study.actions.names
    ('ro-accb', ('weather',), ('nothing', 'send'))
    """

    method_choice: Annotated[MethodChoice, Field(alias="method")] = MethodChoice()
    """`[method]`: the method and its parameters."""
    probability_limits: ProbabilityLimits = ProbabilityLimits()
    """`[probability_limits]`: limits of the probability of sending anything."""
    effects: EffectsSection = EffectsSection()
    """`[effects]`: the primary analysis of the treatment's effects."""
    monitoring: MonitoringSection | None = None
    """`[monitoring]`: boundaries for the board of a trial."""
    trial: TrialSection | None = None
    """`[trial]`: only for studies that `surefoot serve` runs."""
    groups: dict[str, str] = Field(default_factory=dict)
    """`[groups]`: groups that `surefoot effects` describes one by one, each with the column, or state variable, that holds
    its levels."""

    machinery: ClassVar[frozenset[str]] = Shown.machinery | {
        *(name for name in dir(BaseModel) if name[0] != "_"),
        *("check_policies", "clip_probabilities", "clip_row", "clip_slopes", "derived_states", "list_steps"),
        *("describe_reading", "extra_columns", "has_clock_days", "read_names", "restore", "state_columns", "state_kinds"),
        *("a_treatment", "method_choice", "noun", "variable_kinds", "with_method", "with_screen", "with_trial_columns"),
    }

    def _overview(self) -> Overview:
        design = self.actions.probabilities
        logged = "not logged" if self.columns.probability is None else f"column {self.columns.probability}"
        facts = {
            "participant": f"column {self.columns.participant}; time in {self.columns.time}",
            "state": ", ".join(self.state_names),
            "actions": f"{', '.join(self.actions.names)} in column {self.actions.column}",
            "probability": logged if design is None else f"{', '.join(f'{share:g}' for share in design)} by design",
            "screen": "on" if self.screen is not None and self.screen.on else "off",
            "trial": "none: only for surefoot serve" if self.trial is None else "described",
        }
        return Overview(f"Study: {self.method_name} for {self.outcome_unit}", facts)

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
        """A study from the text of its file; `name` is the file's name in messages."""
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
    def _sections_agree(self) -> Self:
        for name, state in self.derived_states.items():
            if state.needs_days and self.days is None:
                words = f"'{state.name}' counts days; write [trial] day_boundary = 5 with your number"
                raise KeyedError(("state", name), words)
        for use in ("critic", "policy"):
            if not self._columns_used_by(use):
                raise ValueError(f"no state variable is used by the {use}; set use = '{use}' or 'both' for one")
        self._check_method()
        # Moderators and controls must be known before the decision: state variables are.
        known = [*self.state, *self.state_names]
        day = () if self.effects.day is None else (self.effects.day,)
        for key, names in (("moderators", self.effects.moderators), ("controls", self.effects.controls), ("day", day)):
            for name in (name for term in names for name in ([term] if term in known else term.split(":"))):
                if name not in known:
                    problem = f"'{name}' is not a state variable{did_you_mean(name, known)}"
                    remedy = f"what is known before the decision stands in a section [state.{name}]"
                    raise KeyedError(("effects", key), f"{problem}; {remedy}; there are {list(self.state)}")
        self._check_groups()
        if self.trial is not None:
            self._check_trial(self.trial)
        return self

    @model_validator(mode="after")
    def _can_be_monitored(self) -> Self:
        if self.monitoring is not None:
            if self.trial is None:
                raise KeyedError(("monitoring",), "only a trial is monitored; add a section [trial]")
            if self.monitoring.sequence == "bounded" and self.outcome.limits is None:
                words = "a bounded sequence needs the range of the outcome; write [outcome] range = [lowest, highest]"
                raise KeyedError(("monitoring", "sequence"), words)
        return self

    def _check_groups(self) -> None:
        outcomes = {self.outcome.column: "the outcome", self.actions.column: "the action"}
        for name, column in self.groups.items():
            if column in outcomes:
                words = f"'{column}' is {outcomes[column]}, which is known only after the decision; name another column"
                raise KeyedError(("groups", name), words)
            if column in self.derived_states:
                raise KeyedError(("groups", name), f"'{column}' is derived and has no column in the logs; name one that has")

    def _check_trial(self, trial: TrialSection) -> None:
        for role in ("available", "probability"):
            if getattr(self.columns, role) is None:
                # An export of the service must be readable as logs of the study.
                remedy = f"write {role} = '{role}'"
                if role == "probability" and self.actions.probabilities is not None:
                    remedy += " and remove actions.probabilities"
                raise KeyedError(("columns", role), f"a study with a [trial] names this column; {remedy}")
        if self.columns.probability_of != "action taken":
            words = "a trial logs the probability of the action taken; leave this key out"
            raise KeyedError(("columns", "probability_of"), words)
        for column in self.extra_columns():
            # The service can screen only values that the app sends with a decision.
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
            words = f"there is no method '{choice.name}'{near}; choose from {list(METHODS)}"
            raise KeyedError(("method", "name"), words)
        try:
            self.method().check_names(self.state_names, self.actions.names)
        except InputError as error:
            # The first key with which the method cannot be made.
            parameters: dict[str, Any] = {}
            wrong: tuple[str, ...] = ("name",)
            for key, parameter, value in choice.list_given():
                parameters[parameter] = value
                try:
                    self._make_method(parameters).check_names(self.state_names, self.actions.names)
                except InputError:
                    wrong = key
                    break
            raise KeyedError(("method", *wrong), str(error).removeprefix("prior: ")) from error

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

    def _columns_used_by(self, user: str) -> tuple[str, ...]:
        chosen = [name for name, variable in self.state.items() if variable.use in (user, "both")]
        columns = [column for name in chosen for column in self.state_columns[name]]
        return tuple(columns)

    def method(self) -> Method:
        """The study's method, not yet fitted."""
        if self._method is None:
            given = self.method_choice.list_given()
            self._method = self._make_method({parameter: value for _, parameter, value in given})
        return copy.copy(self._method)

    def _make_method(self, parameters: dict[str, Any]) -> Method:
        """The method with these parameters, the variables of critic and policy, and the days of the trial."""
        from surefoot.learning.methods import method

        seen = {"critic_variables": self._columns_used_by("critic"), "policy_variables": self._columns_used_by("policy")}
        for name in seen.keys() & parameters.keys():
            raise InputError(f"{name}: write use = 'critic', 'policy' or 'both' in the sections of the state instead")
        made = method(self.method_choice.name, **parameters, **seen)
        if self.trial is not None:
            days = {"day_boundary": self.trial.day_boundary, "max_gap": self.trial.max_gap}
            for slot in {"horizon", "choice"} & made.parts.keys():
                known = made.parts[slot].get_params()
                made.set_params(**{f"{slot}__{name}": value for name, value in days.items() if name in known})
                made.parts[slot].check_parameters()
        return made

    def list_steps(self) -> dict[str, Any]:
        """`max_gap` and `day_boundary` of the trial or of the horizon, which define consecutive decision points."""
        given = self.method().horizon.get_params() if self.trial is None else vars(self.trial)
        return {name: given[name] for name in ("max_gap", "day_boundary") if given.get(name) is not None}

    def with_trial_columns(self) -> Study:
        """The same study for the logs of a trial, which hold availability and the probability of the action taken."""
        columns = {
            "available": self.columns.available or "available",
            "probability": self.columns.probability or "probability",
        }
        logged = self.columns.model_copy(update={**columns, "probability_of": "action taken"})
        actions = self.actions.model_copy(update={"probabilities": None})
        return self.model_copy(update={"columns": logged, "actions": actions})

    def with_method(self, choice: MethodChoice) -> Study:
        """The same study with another method, checked like that of the file."""
        given = {**self.model_dump(by_alias=True), "method": choice.model_dump()}
        try:
            return Study.model_validate(given)
        except ValidationError as error:
            raise explain_error(error, "", f"method '{choice.name}'", Study) from error

    def read(self, path: str | Path) -> StudyLogs:
        """The logs in a CSV file, a Parquet file or a folder of Parquet files, as the study describes them."""
        return read_logs(self, path)

    @property
    def outcome_unit(self) -> OutcomeUnit:
        """The unit of the fitted outcome, with the study's words for the outcome."""
        section = self.effects
        is_proximal = section.outcome in (None, self.outcome.column)
        return replace(super().outcome_unit, words=(section.outcome_words or "") if is_proximal else "")

    @property
    def treatment_words(self) -> str:
        """The noun for what is sent, in sentences: the study's own, the action's name, or "prompt"."""
        name = self.actions.names[1]
        is_noun = name.isalpha() and name.lower() not in NOT_NOUNS and len(self.actions.names) == 2
        return self.effects.treatment_words or (name if is_noun else "prompt")

    @property
    def a_treatment(self) -> str:
        """The same with its article: "a walk"."""
        return f"{'an' if self.treatment_words[:1].lower() in 'aeiou' else 'a'} {self.treatment_words}"

    def clip_probabilities(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities (n, actions) of available people with that of sending anything moved into the limits."""
        import numpy as np

        # Summed, not 1 − p₀: with two actions the share is then exactly 1, and rounding cannot leave the limits.
        send = probabilities[:, 1:].sum(axis=1)
        clipped = np.clip(send, self.probability_limits.minimum, self.probability_limits.maximum)
        others = probabilities.shape[1] - 1
        share = np.where(send[:, None] > 0, probabilities[:, 1:] / np.where(send > 0, send, 1)[:, None], 1 / others)
        return np.column_stack([1 - clipped, clipped[:, None] * share])

    def clip_slopes(self, probabilities: NDArray[np.float64], slopes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Derivatives (n, actions, parameters) of `clip_probabilities`, from those of the probabilities (n, actions)."""
        import numpy as np

        limits = self.probability_limits
        send = probabilities[:, 1:].sum(axis=1)[:, None]
        inside = (send > limits.minimum) & (send < limits.maximum)
        clipped = np.clip(send, limits.minimum, limits.maximum)
        safe = np.where(send > 0, send, 1.0)
        by_send = slopes[:, 1:].sum(axis=1, keepdims=True)
        share = probabilities[:, 1:] / safe
        by_share = (slopes[:, 1:] - share[:, :, None] * by_send) / safe[:, :, None]
        by_clipped = inside[:, :, None] * by_send
        moved = share[:, :, None] * by_clipped + clipped[:, :, None] * by_share
        return np.concatenate([-by_clipped, moved], axis=1)

    def clip_row(self, probabilities: Sequence[float]) -> list[float]:
        """`clip_probabilities` for one row, quickly."""
        others = probabilities[1:]
        send = sum(others)
        clipped = min(max(send, self.probability_limits.minimum), self.probability_limits.maximum)
        shares = (probability / send if send > 0 else 1 / len(others) for probability in others)
        return [1 - clipped, *(clipped * share for share in shares)]

    @property
    def text(self) -> str:
        """The text of its file; for a study made in Python the same content as JSON."""
        return self._text if self._text is not None else self.model_dump_json(by_alias=True)

    def describe_reading(self) -> dict[str, Any]:
        """The study's SHA-256, its limits, and how every state variable is read, for policy files."""
        limits = self.probability_limits
        return {
            "study_sha256": hashlib.sha256(self.text.encode()).hexdigest(),
            "probability_limits": [limits.minimum, limits.maximum],
            "state": {
                name: {
                    "kind": variable.kind,
                    "levels": list(variable.levels),
                    "settings": variable.settings,
                    "scaling": [variable.scaling.centre, variable.scaling.scale] if variable.scaling else None,
                }
                for name, variable in self.state.items()
            },
        }

    def check_policies(self, policies: Policies, source: str, *, from_fit: bool = False) -> None:
        """Refuse policies with other actions or state variables, or that read them in another way; policies saved from
        Python have names only."""
        if from_fit and policies.made_for is None:
            raise InputError(f"{source}: does not say how its states are to be read; fit it again with surefoot fit")
        if policies.made_for is not None:
            fitted = policies.made_for["state"]
            ours = self.describe_reading()["state"]
            for name in dict.fromkeys((*ours, *fitted)):
                if name not in ours or name not in fitted:
                    owner = "the study has" if name not in ours else "the policies have"
                    remedy = "use the study that they were fitted with"
                    raise InputError(f"{source}: {owner} no state variable '{name}'; {remedy}")
                for key in ("kind", "levels", "settings", "scaling"):
                    if ours[name][key] != fitted[name][key]:
                        values = f"{fitted[name][key]} in the policies, {ours[name][key]} in the study"
                        remedy = "use the study that the policies were fitted with"
                        raise InputError(f"{source}: state variable '{name}' has {key} {values}; {remedy}")
        actions = list(self.actions.names)
        if list(policies.action_names) != actions:
            raise InputError(f"{source}: its actions are {list(policies.action_names)}, the study's {actions}")
        if policies.state_names != self.state_names:
            variables = f"its variables are {list(policies.state_names)}, the study's {list(self.state_names)}"
            raise InputError(f"{source}: {variables}")
