"""The form of *What if*: a field for every state variable, read from the address, so that an answer can be linked to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surefoot.data.column_kinds import Cell
from surefoot.service.trial.api_errors import ApiError
from surefoot.service.trial.what_if import Answer, Question
from surefoot.study import Study

PREFIX = "state."
"""Before the name of every state variable in the address; other names are the form's own."""
LONGEST = 200
COLUMNS = ("what", "action", "feature", "value", "weight", "result")


@dataclass(frozen=True)
class FormField:
    """One state variable."""

    name: str
    about: str
    """What it is, in words."""
    choices: tuple[str, ...]
    """What can be chosen; empty for a number, which is written."""
    derived: bool
    """Computed by the service, from the participant's records."""
    text: str


def make_fields(study: Study, given: Mapping[str, str]) -> list[FormField]:
    """A field for every state variable, filled with what the address says."""
    fields = []
    for name, variable in study.state.items():
        kind = variable.variable_kind
        text = given.get(PREFIX + name, "").strip()
        if len(text) > LONGEST:
            raise ApiError(422, "invalid", f"what is given for {name} is too long")
        about = f"computed: {variable.derived}" if variable.derived else kind.describe()
        fields.append(FormField(name, about, kind.choices, bool(variable.derived), text))
    return fields


def read_question(
    study: Study, fields: list[FormField], participant_id: str, version: int | None, available: bool
) -> Question:
    """What the fields ask; one left empty is missing."""
    context: dict[str, Cell] = {}
    derived: dict[str, float] = {}
    for field in (candidate for candidate in fields if candidate.text):
        value = study.state[field.name].variable_kind.from_text(field.text)
        if not field.derived:
            context[field.name] = value
        elif isinstance(value, float):
            derived[field.name] = value
        else:
            raise ApiError(422, "wrong_type", f"{field.name} is a number")
    return Question(context, derived, participant_id, version, available)


def list_cells(answer: Answer, actions: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Probabilities of the actions, before and after the limits, then the terms."""
    before = [] if answer.before_limits is None else zip(actions, answer.before_limits, strict=True)
    rows: list[tuple[Any, ...]] = [("before limits", action, None, None, None, value) for action, value in before]
    rows += [
        ("probability", action, None, None, None, value)
        for action, value in zip(actions, answer.choice.probabilities, strict=True)
    ]
    return rows + [("term", term.action, term.feature, term.value, term.weight, term.contribution) for term in answer.terms]
