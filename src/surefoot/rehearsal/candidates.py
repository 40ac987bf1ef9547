"""Candidates: the ways of deciding that a rehearsal compares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from surefoot.errors import InputError
from surefoot.study import Study
from surefoot.study.model import MethodChoice

REFERENCES = COIN, NEVER, ALWAYS, BEST_FIXED = "coin", "never", "always", "best fixed"
"""What stands beside the candidates; the best fixed probability is known only to who knows the environment."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way of deciding: a method that learns during the trial, or a fixed probability of sending.

    Attributes
    ----------
    name
        What tables call it.
    study
        The study with this candidate's method in place.
    send
        The probability of sending anything at available decision points, from the first to the last; None where the
        study's method learns.

    Examples
    --------
    >>> study = Study.parse('[columns]\\nparticipant = "participant"\\ntime = "t"\\n[state.weather]\\n')
    >>> Candidate.with_method(study, "hb-ahead").study.method_name, Candidate.fixed(study, 0.3).name
    ('hb-ahead', 'fixed 0.3')
    """

    name: str
    study: Study
    send: float | None = None

    @classmethod
    def with_method(cls, study: Study, choice: MethodChoice | str, name: str | None = None) -> Candidate:
        """A method: a name, with the study's pooling (and parameters where it is the study's own), or a whole choice."""
        if isinstance(choice, str):
            own_pooling = MethodChoice(name=choice, pooling=study.method_choice.pooling)
            choice = study.method_choice if choice == study.method_name else own_pooling
        own = choice == study.method_choice
        return cls(name or choice.name, study if own else study.with_method(choice))

    @classmethod
    def fixed(cls, study: Study, send: float, name: str | None = None) -> Candidate:
        """The same probability of sending throughout."""
        if not 0 <= send <= 1:
            raise InputError(f"send is {send}; it is a probability, from 0 to 1")
        return cls(name or f"fixed {send:g}", study, float(send))

    @property
    def learns(self) -> bool:
        return self.send is None


def list_references(study: Study) -> list[Candidate]:
    """What every rehearsal has beside its methods: a coin, never and always."""
    chances = {COIN: 1 - 1 / len(study.actions.names), NEVER: 0.0, ALWAYS: 1.0}
    return [Candidate.fixed(study, send, name) for name, send in chances.items()]


def check_names(candidates: Iterable[Candidate]) -> None:
    """Refuse two candidates of one name."""
    seen: set[str] = set()
    for one in candidates:
        if one.name in seen:
            raise InputError(f"two candidates are called '{one.name}'; give one of them another name")
        seen.add(one.name)
