"""The `[screen]` and `[questionnaire.NAME]` sections of a study: which values are looked at, and how."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_type_hints

from pydantic import Field, create_model, model_validator

from surefoot.errors import InputError
from surefoot.screening.clock import Clock
from surefoot.screening.detectors import Detector
from surefoot.screening.screener import DETECTORS
from surefoot.study.toml_types import Section, Words


class QuestionnaireSection(Section):
    """Items that are answered in one go."""

    items: Words
    """Columns, in the order in which the items are asked."""
    scores: Words = ()
    """State variables computed from the items; they become missing with them."""
    seconds: Annotated[str, Field(min_length=1)] | None = None
    """The column that holds how long answering took."""

    @model_validator(mode="after")
    def _has_items(self) -> QuestionnaireSection:
        if len(self.items) < 2 or len(set(self.items)) < len(self.items):
            raise ValueError(f"items needs at least two different columns; got {list(self.items)}")
        return self


class DetectorSection(Section):
    """One detector: `on = false` leaves it out, the other keys are its parameters."""

    on: bool = True
    detector: ClassVar[type[Detector]]

    @model_validator(mode="after")
    def _makes_sense(self) -> DetectorSection:
        try:
            self.make().check()
        except InputError as error:
            raise ValueError(str(error)) from error
        return self

    def make(self) -> Detector:
        """The detector with these parameters."""
        return self.detector(**{name: getattr(self, name) for name in type(self).model_fields if name != "on"})


def _section_of(detector: type[Detector]) -> type[DetectorSection]:
    """A section whose keys are the fields of the detector."""
    hints = get_type_hints(detector)
    keys: dict[str, Any] = {field.name: (hints[field.name], field.default) for field in fields(detector)}  # type: ignore[arg-type]
    section = create_model(f"{detector.__name__}Section", __base__=DetectorSection, **keys)
    section.detector = detector
    return section


DETECTOR_SECTIONS = {name: _section_of(detector) for name, detector in DETECTORS.items()}
# A study that goes to another process is unpickled there, which looks its classes up in this module.
globals().update({section.__name__: section for section in DETECTOR_SECTIONS.values()})


class ScreenKeys(Section):
    """`[screen]` itself; without the section only the service's updates screen."""

    on: bool = True
    columns: Words = ()
    """State columns and the reward column that are looked at; all that hold numbers unless given."""
    outcome: bool = True
    """Whether flagged outcomes become missing; otherwise they are reported, and stay."""
    devices: Words = ()
    """Devices that `not_worn` judges; all that columns name unless given."""

    def detectors(self) -> tuple[Detector, ...]:
        """Those that are on, in the order in which they look."""
        sections = (getattr(self, name) for name in DETECTORS)
        return tuple(section.make() for section in sections if section.on)

    @property
    def enrolment(self) -> str | None:
        """The column with the moment of enrolment, where there is one."""
        clock: Any = getattr(self, Clock.name)
        return clock.enrolment if clock.on else None


if TYPE_CHECKING:

    class ScreenSection(ScreenKeys):
        """`[screen]` with a section for every detector."""
else:
    _keys = {name: (section, section()) for name, section in DETECTOR_SECTIONS.items()}
    ScreenSection = create_model("ScreenSection", __base__=ScreenKeys, __doc__=ScreenKeys.__doc__, **_keys)
SCREEN_SECTIONS: dict[str, type[Section]] = {
    "screen": ScreenSection,
    **{f"screen.{name}": section for name, section in DETECTOR_SECTIONS.items()},
}
"""By their names in the file."""
