import numpy as np
import pytest

from surefoot.screening.careless import Careless
from surefoot.screening.detectors import Questionnaire
from tests.screening.blocks import flagged, make_block, one

ITEMS = tuple(f"q{j}" for j in range(8))


def answers(seed, people=40, points=60):
    """Five-point answers that share a mood; the last two items ask the same."""
    rng = np.random.default_rng(seed)
    mood = rng.standard_normal((people, points))
    latent = 0.5 * mood + rng.standard_normal((8, people, points))
    latent[7] = latent[6] + 0.3 * rng.standard_normal((people, points))
    return np.clip(np.round(3 + 1.2 * latent), 1, 5), rng


def block(values, **more):
    columns = [one(name, "item") for name in ITEMS]
    if "seconds" in more:
        columns.append(one("took", "seconds"))
        values = np.concatenate([values, more.pop("seconds")[None]])
        more["seconds"] = "took"
    return make_block(columns, values, questionnaires=(Questionnaire("mood", ITEMS, **more),))


def test_the_same_answer_to_all_items_and_alternation():
    values, rng = answers(1)
    straight = rng.random(values.shape[1:]) < 0.1
    other = ~straight & (rng.random(straight.shape) < 0.05)
    values = np.where(straight, rng.integers(1, 6, straight.shape), values)
    values = np.where(other, np.where(np.arange(8)[:, None, None] % 2, 2.0, 4.0), values)
    found = flagged(Careless(), block(values))
    assert (found["q0", "same answer to all items"] == straight).mean() > 0.995
    assert (found["q3", "alternating answers"] == other).mean() > 0.995


def test_honest_answers_are_left_alone():
    values, _ = answers(2)
    assert sum(hit.mean() for (column, _), hit in flagged(Careless(), block(values)).items() if column == "q0") < 0.003
    symptoms = np.where(np.random.default_rng(3).random(values.shape) < 0.9, 0.0, values)
    assert not any("same" in reason for _, reason in flagged(Careless(), block(symptoms)))


def test_items_that_belong_together_but_disagree():
    values, rng = answers(4)
    wrong = rng.random(values.shape[1:]) < 0.05
    values[6][wrong], values[7][wrong] = 1.0, 5.0
    hit = flagged(Careless(), block(values))["q6", "inconsistent answers"]
    assert hit[wrong].mean() > 0.99
    assert hit[~wrong].mean() < 0.005


def test_answers_too_fast_to_read_and_scores_computed_from_them():
    values, rng = answers(5)
    seconds = np.where(rng.random(values.shape[1:]) < 0.1, 3.0, 40.0)
    found = flagged(Careless(), block(values, seconds=seconds, scores=("q0",)))
    np.testing.assert_array_equal(found["q5", "answered too fast"], seconds < 8)


@pytest.mark.parametrize("count", [2, 3])
def test_continuous_items_are_never_honestly_the_same(count):
    rng = np.random.default_rng(6)
    values = rng.standard_normal((8, 20, 30))
    values[:count, :, 5] = values[0, :, 5]
    layout = [one(name, "item") for name in ITEMS]
    made = make_block(layout, values, questionnaires=(Questionnaire("mood", ITEMS[:count]),))
    hit = flagged(Careless(), made)["q1", "same answer to all items"]
    assert hit[:, 5].all()
    assert hit.sum() == 20
