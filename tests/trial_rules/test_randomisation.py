import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from surefoot.trial_rules.randomisation import draw_action, draw_actions, draw_uniform, draw_uniforms, random_key

SECRET = bytes(range(32))
PEOPLE = 300
POINTS = 1000


def test_many_draws_are_uniform_and_uncorrelated():
    keys = (random_key(f"p{participant}", point) for participant in range(PEOPLE) for point in range(POINTS))
    numbers = draw_uniforms(SECRET, keys).reshape(PEOPLE, POINTS)
    assert numbers.min() >= 0 and numbers.max() < 1
    bins = np.bincount((numbers.ravel() * 1000).astype(int), minlength=1000)
    assert stats.chisquare(bins).pvalue > 1e-4
    for probabilities in ([0.5, 0.5], [0.9, 0.1], [0.2, 0.5, 0.3]):
        edges = np.cumsum(probabilities)[:-1]
        actions = (numbers.ravel()[:, None] >= edges).sum(axis=1)
        assert [draw_action(number, probabilities) for number in numbers[0]] == actions[:POINTS].tolist()
        counts = np.bincount(actions, minlength=len(probabilities))
        assert stats.chisquare(counts, np.array(probabilities) * numbers.size).pvalue > 1e-4
    centred = numbers - 0.5
    for products in (
        centred[:, :-1] * centred[:, 1:],  # neighbouring decision points
        centred[:-1] * centred[1:],  # neighbouring participants
        centred[:, :-7] * centred[:, 7:],
    ):
        z = products.mean() / (products.std() / np.sqrt(products.size))
        assert abs(z) < 4


def test_a_draw_is_the_published_construction():
    import hashlib
    import hmac

    digest = hmac.new(SECRET, b"draw-1:3:p01:7", hashlib.sha256).hexdigest()
    assert draw_uniform(SECRET, random_key("p01", 7)) == int(digest[:16], 16) // 2**11 / 2**53
    assert draw_uniform(bytes(32), random_key("p01", 7)) != draw_uniform(SECRET, random_key("p01", 7))


@given(st.tuples(st.text(), st.integers(0, 2**31)), st.tuples(st.text(), st.integers(0, 2**31)))
def test_no_two_decision_points_share_a_key(one, other):
    assert (random_key(*one) == random_key(*other)) == (one == other)


@given(
    st.floats(0, 1, exclude_max=True),
    st.lists(st.floats(0, 1), min_size=2, max_size=5).filter(lambda weights: sum(weights) > 0.01),
)
def test_an_impossible_action_is_never_drawn(number, weights):
    probabilities = (np.array(weights) / sum(weights)).tolist()
    action = draw_action(number, probabilities)
    assert probabilities[action] > 0
    assert sum(probabilities[:action]) <= number or number >= sum(probabilities) - 1e-9


@given(st.lists(st.text(max_size=100), max_size=5), st.integers(0, 10**6), st.binary(max_size=130))
@example(["p01"], 7, bytes(64))  # as long as a block of the hash, and longer
@example(["p01"], 7, bytes(65))
def test_many_draws_are_those_of_each(names, index, secret):
    keys = [random_key(name, index) for name in names]
    assert draw_uniforms(secret, keys).tolist() == [draw_uniform(secret, key) for key in keys]


@given(st.lists(st.floats(0, 1), min_size=2, max_size=4), st.floats(0, 1, exclude_max=True))
def test_actions_of_arrays_are_those_of_each(weights, number):
    probabilities = [weight / (sum(weights) or 1) for weight in weights]
    if sum(probabilities) > 0:
        found = draw_actions(np.array([number]), np.array([probabilities]))
        assert found.tolist() == [draw_action(number, probabilities)]
