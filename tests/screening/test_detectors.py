"""Columns with 1 to 5 values, constant, few-valued and missing, pass every detector without an error or a warning."""

from itertools import product

import numpy as np
import pytest

import surefoot as sf
from surefoot.screening import Questionnaire, screen
from surefoot.screening.detectors import Column
from surefoot.screening.screen import DETECTORS
from tests.screening.blocks import make_block

ITEMS = ("q1", "q2", "q3", "q4")
COLUMNS = (
    Column("steps", device="watch"),
    Column("pulse", device="watch"),
    *(Column(name) for name in ITEMS),
    Column("took", "seconds"),
    Column("joined", "enrolment"),
    Column("outcome", "outcome", "watch"),
)
FILLINGS = {
    "all different": lambda shape: 1.0 + np.arange(np.prod(shape)).reshape(shape),
    "both signs": lambda shape: np.arange(np.prod(shape)).reshape(shape) - np.prod(shape) // 2.0,
    "constant": lambda shape: np.full(shape, 7.0),
    "zeros": np.zeros,
    "a code": lambda shape: np.full(shape, -99.0),
    "two values": lambda shape: np.arange(np.prod(shape)).reshape(shape) % 2.0,
    "three values": lambda shape: np.arange(np.prod(shape)).reshape(shape) % 3 - 1.0,
    "half missing": lambda shape: np.where(np.arange(shape[-1]) % 2, np.nan, 3.0) * np.ones(shape),
    "missing": lambda shape: np.full(shape, np.nan),
    "huge": lambda shape: 10.0 ** (40 * (np.arange(np.prod(shape)).reshape(shape) % 4)),
}
SIZES = list(product(range(1, 6), range(1, 6)))


@pytest.mark.parametrize("filling", FILLINGS.values(), ids=FILLINGS)
@pytest.mark.parametrize("detector", DETECTORS.values(), ids=DETECTORS)
def test_every_detector_takes_one_to_five_values(detector, filling):
    made = detector()
    for participants, points in SIZES:
        others = list(FILLINGS.values())
        every = [filling if place % 2 else others[place % len(others)] for place in range(len(COLUMNS))]
        values = np.stack([fill((participants, points)) for fill in every])
        for clock in (False, True):
            questionnaires = (Questionnaire("mood", ITEMS, seconds="took"), Questionnaire("short", ITEMS[:1]))
            block = make_block(COLUMNS, values, clock=clock, questionnaires=questionnaires)
            for flag in made.find(block, made.learn(block)):
                assert flag.reason in made.reasons
                assert flag.score.shape == (participants, points)
                assert np.isfinite(flag.score[flag.flagged]).all()


@pytest.mark.parametrize("filling", FILLINGS.values(), ids=FILLINGS)
def test_the_screen_takes_one_to_five_values(filling):
    for participants, points in SIZES:
        state = np.stack([filling((participants, points)), np.ones((participants, points))], axis=2)
        action = np.arange(participants * points).reshape(participants, points) % 2
        logs = sf.Trajectories.from_arrays(state, action, filling((participants, points)))
        screened = screen(logs, devices={"s1": "watch", "outcome": "watch"})
        assert len(screened.logs) == participants * points
        assert len(screened.to_frame("pyarrow")) == len(screened.flags.row)
        for difference in screened.treatment:
            assert "nan" not in difference.describe()
