"""What every detector has in common. Adding one is one file and one line in `registry`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from surefoot.screening.series import Block, Found


class Detector(ABC):
    """Finds one kind of value that cannot be trusted.

    A subclass is a frozen dataclass: its fields are the parameters that `[screen.NAME]` of a study sets. It sees a `Block`,
    which holds no action, and what it says about a decision point may use nothing that came after the state of the next
    one, except what `learn` says about everybody.
    """

    name: ClassVar[str]
    reasons: ClassVar[tuple[str, ...]]
    """What a flag can say."""
    reported: ClassVar[tuple[str, ...]] = ()
    """The reasons for which a value is reported and not marked missing."""
    reference: ClassVar[str]

    @abstractmethod
    def check(self) -> None:
        """Raise `InputError` for parameters that make no sense."""

    def learn(self, sample: Block) -> Any:
        """What is usual in the population, from a sample of participants."""
        return None

    @abstractmethod
    def find(self, block: Block, usual: Any) -> list[Found]:
        """What is flagged, given what is usual."""

    def learn_and_find(self, block: Block) -> tuple[Any, list[Found]]:
        """What is usual in a block, and what is flagged in it; a detector may do both in fewer steps."""
        usual = self.learn(block)
        return usual, self.find(block, usual)
