"""Detects questionnaires that were answered without reading."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.reports.numbers import format_percent
from surefoot.screening.detectors import Detection, Detector, Floats, Questionnaire, ScreenBatch

BELONG_TOGETHER = 0.6
"""Items whose correlation is at least this large in the sample belong together."""
FIRST_LOOK = 0.3
"""The least correlation in the first look, while careless answers still weaken correlations."""
AGREE = 6.0
"""After the first look, answers with a larger disagreement than this are left out."""


class AnswerPatterns(NamedTuple):
    """Patterns of honest answers to one questionnaire."""

    same: Floats
    """Rate at which an item repeats the previous item's answer, among answers that are not all the same, (items − 1,)."""
    alternate: Floats
    """Rate at which an item repeats the answer two items earlier but not the previous one, (items − 2,)."""
    mean: Floats
    deviation: Floats
    pairs: NDArray[np.int64]
    """Items that belong together, (pairs, 2)."""
    correlation: Floats


@dataclass(frozen=True)
class Careless(Detector):
    """Same answer to all items, alternating answers, contradictory answers to related items, and answers given too fast.

    The first two are flagged when honest answers show the pattern less often than `chance`. This probability comes from how
    often neighbouring items have the same answer in the sample: where most items are usually 0, honest answers are often
    all 0. Disagreement is the mean of (z₁ ∓ z₂)² / (2 (1 − |r|)) over pairs of items with a correlation of at least 0.6.
    Honest answers exceed `disagreement` once in thousands of times.
    """

    name: ClassVar[str] = "careless"
    reasons: ClassVar[tuple[str, ...]] = (
        "same answer to all items",
        "alternating answers",
        "inconsistent answers",
        "answered too fast",
    )
    reference: ClassVar[str] = (
        "Meade AW, Craig SB (2012), Identifying careless responses in survey data, Psychological Methods 17(3):437-455; "
        "Curran PG (2016), Methods for the detection of carelessly invalid responses, Journal of Experimental Social "
        "Psychology 66:4-19."
    )
    chance: float = 0.01
    """A pattern that honest answers show less often than this is flagged."""
    disagreement: float = 16.0
    """Answers with a larger mean squared disagreement than this are inconsistent."""
    seconds_per_item: float = 1.0
    """Answers that took fewer seconds per item are flagged, if the questionnaire names the column of its duration."""

    def describe(self) -> str:
        return (
            "Questionnaires that were answered without reading: the same answer to all items, alternating answers or "
            f"contradictory answers. Fewer than {format_percent(self.chance, 0)} of honest answers look like this. If the "
            f"duration is known, also answers given in less than {self.seconds_per_item:g} s per item."
        )

    def check(self) -> None:
        if not (0 < self.chance < 1 and self.disagreement > 0 and self.seconds_per_item >= 0):
            raise InputError(f"careless needs 0 < chance < 1, disagreement > 0 and seconds_per_item >= 0; got {self}")

    def learn(self, sample: ScreenBatch) -> dict[str, AnswerPatterns]:
        return {
            questionnaire.name: _learn_patterns(_answers(sample, questionnaire))
            for questionnaire in sample.layout.questionnaires
        }

    def find(self, batch: ScreenBatch, usual: Any) -> Iterator[Detection]:
        for questionnaire in batch.layout.questionnaires:
            patterns: AnswerPatterns = usual[questionnaire.name]
            answers = _answers(batch, questionnaire)
            complete = ~np.isnan(answers).any(axis=0)
            straight = float(np.prod(patterns.same))
            alternating = float(np.prod(patterns.alternate))
            reasons = {}
            if straight < self.chance:
                same = complete & (answers[1:] == answers[:-1]).all(axis=0)
                reasons["same answer to all items"] = np.where(same, 1 - straight, np.nan)
            if len(answers) >= 4 and alternating < self.chance:
                again = complete & (answers[2:] == answers[:-2]).all(axis=0) & (answers[0] != answers[1])
                reasons["alternating answers"] = np.where(again, 1 - alternating, np.nan)
            if len(patterns.pairs):
                off = _disagreement(answers, patterns)
                reasons["inconsistent answers"] = np.where(complete & (off > self.disagreement), off, np.nan)
            if questionnaire.seconds is not None:
                seconds = batch.column(questionnaire.seconds)
                least = self.seconds_per_item * len(questionnaire.items)
                reasons["answered too fast"] = np.where(seconds < least, 1 - seconds / least if least else 0.0, np.nan)
            taken = np.zeros(batch.time.shape, dtype=bool)
            for reason, score in reasons.items():
                # The items, and the scores computed from them.
                for name in dict.fromkeys((*questionnaire.items, *questionnaire.scores)):
                    yield Detection(name, reason, np.where(taken | np.isnan(batch.column(name)), np.nan, score))
                taken |= ~np.isnan(score)


def _answers(batch: ScreenBatch, questionnaire: Questionnaire) -> Floats:
    """(items, participants, decision points)."""
    return batch.values[[batch.layout.position(item) for item in questionnaire.items]]


def _learn_patterns(answers: Floats) -> AnswerPatterns:
    flat = answers.reshape(len(answers), -1)
    flat = flat[:, ~np.isnan(flat).any(axis=0)]
    same = flat[1:] == flat[:-1]
    varied = ~same.all(axis=0)
    rate = (same[:, varied].sum(axis=1) + 0.5) / (varied.sum() + 1.0)
    back = (flat[2:] == flat[:-2]) & ~same[1:]
    alternating = back.all(axis=0) if len(back) else np.zeros(flat.shape[1], dtype=bool)
    other = varied & ~alternating
    alternate = (back[:, other].sum(axis=1) + 0.5) / (other.sum() + 1.0)
    usual = AnswerPatterns(rate, alternate, *_find_pairs(flat[:, other], FIRST_LOOK))
    # Careless answers weaken correlations, so correlations are computed again without inconsistent answers.
    agree = other.copy()
    agree[other] = ~(_disagreement(flat[:, other], usual) > AGREE)
    return AnswerPatterns(rate, alternate, *_find_pairs(flat[:, agree], BELONG_TOGETHER))


def _find_pairs(answers: Floats, least: float) -> tuple[Floats, Floats, NDArray[np.int64], Floats]:
    """Mean and deviation of every item of (items, answers), and the pairs of items with at least the `least` correlation."""
    if answers.shape[1] < 3:
        return np.zeros(len(answers)), np.ones(len(answers)), np.empty((0, 2), dtype=np.int64), np.empty(0)
    mean = answers.mean(axis=1)
    deviation = answers.std(axis=1)
    deviation = np.where(deviation > 0, deviation, 1.0)
    scaled = (answers - mean[:, None]) / deviation[:, None]
    correlation = scaled @ scaled.T / answers.shape[1]
    first, second = np.nonzero(np.triu(np.abs(correlation) >= least, 1))
    return mean, deviation, np.stack([first, second], axis=1), np.clip(correlation[first, second], -0.99, 0.99)


def _disagreement(answers: Floats, usual: AnswerPatterns) -> Floats:
    """Mean squared disagreement of the pairs that belong together; `answers` (items, …)."""
    z = ((answers.T - usual.mean) / usual.deviation).T
    total = np.zeros(answers.shape[1:])
    for (first, second), r in zip(usual.pairs, usual.correlation, strict=True):
        total += (z[first] - np.sign(r) * z[second]) ** 2 / (2 * (1 - abs(r)))
    return total / max(len(usual.pairs), 1)
