"""The result: p-values of exchangeable trials are uniform, and what is there is found."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from surefoot.errors import InputError
from surefoot.personalisation import Personalisation
from surefoot.personalisation.result import rank
from surefoot.reports.figures import new_page_figure

POINTS = 3


def make_result(scores, resampled, *, pooled=False, participants=None):
    """People whose path is constant; NaN for people without a policy."""
    scores = np.asarray(scores, dtype=np.float64)
    path = np.repeat(scores[:, None], POINTS, axis=1)
    return Personalisation(
        participants=np.array([f"p{person}" for person in range(len(scores))] if participants is None else participants),
        certainty=path,
        resampled=np.asarray(resampled, dtype=np.float64),
        paths=np.repeat(np.asarray(resampled)[:2, :, None], POINTS, axis=2),
        pooled=pooled,
    )


def draw_scores(rng, trials, people, lean=0.15, spread=0.2):
    """Scores by chance, some of which everybody shares."""
    return 0.5 + lean * rng.standard_normal((trials, 1)) + spread * rng.standard_normal((trials, people))


@pytest.mark.parametrize("pooled", [False, True])
def test_p_values_are_uniform_without_an_advantage(pooled):
    rng = np.random.default_rng(1)
    trials = 2000
    p_values = []
    for _ in range(trials):
        scores = draw_scores(rng, 40, 8)
        result = make_result(scores[0], scores[1:], pooled=pooled)
        p_values.append((result.p_value, result.spread_p_value, result.lean_p_value, *result.p_values))
    rates = (np.array(p_values) <= 0.05).mean(axis=0)
    assert_allclose(rates, 0.05, atol=4 * np.sqrt(0.05 * 0.95 / trials))


def test_opposite_effects_are_found_between_people_and_not_over_all():
    rng = np.random.default_rng(2)
    resampled = draw_scores(rng, 199, 10)
    result = make_result(np.tile([0.02, 0.98], 5), resampled)
    assert result.spread_p_value == result.p_value * 0.5 == 1 / 200
    assert result.lean_p_value > 0.5


def test_an_effect_for_everybody_is_found_over_all_and_not_between_people():
    rng = np.random.default_rng(2)
    resampled = draw_scores(rng, 199, 10)
    result = make_result(np.full(10, 0.97), resampled)
    assert result.lean_p_value == 1 / 200
    assert result.spread_p_value > 0.5
    assert make_result(np.full(10, 0.97), resampled, pooled=True).p_value == 1 / 200


def test_participants_by_hand():
    """Benjamini and Hochberg: p₍ᵢ₎ · n / i, made monotone; people without a policy are not judged."""
    resampled = np.column_stack([np.linspace(0.4, 0.6, 99)] * 3)
    result = make_result([0.99, 0.5, np.nan], resampled)
    assert_allclose(result.p_values, [0.01, 1.0, np.nan])
    assert_allclose(result.adjusted, [0.02, 1.0, np.nan])
    assert_array_equal(result.personal, [True, False, False])
    assert_array_equal(result.order, [0, 1])
    assert_array_equal(result.judged, [True, True, False])
    frame = result.to_frame("pyarrow")
    assert frame["participant"].to_pylist() == ["p0", "p1"]
    assert result.to_dict()["personal"] == ["p0"]


def test_shares_count_signs():
    result = make_result([0.9, 0.1, 0.5], np.full((20, 3), 0.5))
    assert_allclose(result.shares, [1.0, 0.0, 0.5])


def test_ties_count_against_a_finding():
    result = make_result([0.5, 0.5], np.full((39, 2), 0.5))
    assert result.p_value == 1.0
    assert_array_equal(result.p_values, [1.0, 1.0])


def test_rank_of_columns():
    values = np.array([[3.0, 1.0], [1.0, 1.0], [2.0, 0.0]])
    assert_allclose(rank(values), [[1 / 3, 2 / 3], [1.0, 2 / 3], [2 / 3, 1.0]])


def test_words_page_and_pictures():
    rng = np.random.default_rng(2)
    result = make_result(np.tile([0.02, 0.98], 6), draw_scores(rng, 39, 12), participants=["<b>", *"abcdefghijk"])
    assert repr(result).startswith("Did the algorithm personalise? 12 people, 39 resampled trials\n")
    text = " ".join(result.summary().split())
    assert "learned more about people than chance explains: p = 0.050 (39 resampled trials" in text
    assert "People's scores differ more than by chance" in text
    assert "39 resamples cannot single out one of 12 participants: that takes 239." in text
    assert "2 more participants" in text
    page = result.to_html()
    assert "&lt;b&gt;" in page and "<td><b>" not in page
    assert page.count("<svg") == 7
    assert result._repr_html_().startswith("<div><b>Did the algorithm personalise?")
    assert "Participant c" in result.plot("c", ax=new_page_figure()).get_title(loc="left")
    with pytest.raises(InputError, match="no learned policy decided for a participant 'z'"):
        result.plot("z")


def test_a_pooled_policy_is_not_said_to_single_out_people():
    rng = np.random.default_rng(2)
    result = make_result(np.full(4, 0.6), draw_scores(rng, 39, 4), pooled=True)
    assert "Everybody had the same policy" in result.summary()
    assert "differ" not in result.sentences()[1]
