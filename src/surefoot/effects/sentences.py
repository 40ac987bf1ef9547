"""An effect in one plain sentence, on the scale that readers know."""

from __future__ import annotations

import math
from dataclasses import dataclass

from surefoot.inference.intervals import Interval
from surefoot.reports.numbers import format_beside


@dataclass(frozen=True)
class Words:
    """How the sentence calls things.

    Attributes
    ----------
    treatment
        What is given.
    outcome
        What it may change.
    relative
        The effect is a difference of logarithms, so that e^effect is a ratio.
    chance
        The outcome is 0 or 1.
    """

    treatment: str = "prompt"
    outcome: str = "the outcome"
    relative: bool = False
    chance: bool = False


def describe_effect(words: Words, value: float, low: float, high: float, where: str = "") -> str:
    """One sentence, and whether no effect is within the interval.

    >>> describe_effect(Words("prompt", "steps in the next half hour", relative=True), 0.1312, -0.0058, 0.2682)
    'A prompt adds about 14 % steps in the next half hour (95 % −1 % to +31 %). No effect is within the interval.'
    >>> describe_effect(Words("prompt", "answering", relative=True, chance=True), -0.1, -0.15, -0.05, "on day 3")
    'On day 3 a prompt lowers the chance of answering by about 10 % (95 % −14 % to −5 %).'
    >>> describe_effect(Words("prompt", "minutes of sleep"), 3.214, 1.0, 5.4)
    'A prompt adds about 3.2 minutes of sleep (95 % 1.0 to 5.4).'
    """
    article = "an" if words.treatment[:1].lower() in "aeiou" else "a"
    subject = f"{where} {article} {words.treatment}".strip()
    subject = subject[:1].upper() + subject[1:]
    ends, amount = _interval_words(words, Interval(value, math.nan, low, high))
    if words.chance:
        verb = "raises" if value >= 0 else "lowers"
        text = f"{subject} {verb} the chance of {words.outcome} by about {amount} (95 % {ends})."
    else:
        verb = "adds" if value >= 0 else "takes away"
        text = f"{subject} {verb} about {amount} {words.outcome} (95 % {ends})."
    return text + (" No effect is within the interval." if low <= 0 <= high else "")


def _interval_words(words: Words, found: Interval) -> tuple[str, str]:
    """The interval's ends and the size of the effect, with the digits that the interval supports."""
    if words.relative:
        value, low, high = (100 * math.expm1(number) for number in (found.value, found.low, found.high))
        return f"{low:+.0f} % to {high:+.0f} %".replace("-", "−"), f"{abs(value):.0f} %"
    low_end, high_end, amount = (format_beside(number, found) for number in (found.low, found.high, abs(found.value)))
    return f"{low_end} to {high_end}", amount
