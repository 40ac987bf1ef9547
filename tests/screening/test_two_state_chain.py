"""The chain against all its paths, counted one by one, and against chains whose parameters are known."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm, logm

from surefoot.screening.two_state_chain import Chain, learn_chain, look_ahead, relative_gaps, run_filter

FIXED = 1e12
"""A weight with which nobody's own record counts."""


def every_path(event, enter, leave, rate, last):
    """P(not live at each step | events up to step `last`) by summing over all paths."""
    steps = len(event)
    total, dead = 0.0, np.zeros(steps)
    for path in product((0, 1), repeat=steps):
        chance = 1.0
        for step, hidden in enumerate(path):
            if step == 0:
                share = enter[0] / (enter[0] + leave[0])
                chance *= share if hidden else 1 - share
            else:
                away = (enter if path[step - 1] == 0 else leave)[step]
                chance *= away if hidden != path[step - 1] else 1 - away
            if step <= last:
                happens = 1.0 if hidden else rate
                chance *= happens if event[step] else 1 - happens
        total += chance
        dead += chance * np.array(path)
    return dead / total


@pytest.mark.parametrize("events", list(product((0, 1), repeat=5))[::3])
def test_filter_and_look_ahead_are_sums_over_all_paths(events):
    chain = Chain(np.array([[0.1]]), np.array([[0.3]]), np.array([[0.4]]))
    gaps = np.array([1.0, 1.0, 3.0, 0.5, 2.0])[:, None]
    event = np.array(events, dtype=bool).reshape(5, 1, 1)
    seen = np.ones_like(event)
    # With gaps the matrix of one typical gap is raised to a power that need not be whole.
    one_gap = logm(np.array([[0.9, 0.1], [0.3, 0.7]]))
    powers = [expm(one_gap * gap) for gap in gaps[:, 0]]
    moves = chain.moves(gaps)
    assert_allclose(moves[0][:, 0, 0], [power[0, 1] for power in powers], rtol=1e-9)
    assert_allclose(moves[1][:, 0, 0], [power[1, 0] for power in powers], rtol=1e-9)
    filtered = run_filter(event, seen, chain, moves, FIXED, np.zeros(1))
    for depth in (0, 1, 2):
        found = look_ahead(event, seen, filtered, moves, np.array([[depth]]))[:, 0, 0]
        enter, leave = moves[0][:, 0, 0], moves[1][:, 0, 0]
        for step in range(5):
            assert_allclose(found[step], every_path(events, enter, leave, 0.4, step + depth)[step], rtol=1e-6, atol=1e-9)


def test_a_step_that_was_not_seen_says_nothing():
    chain = Chain(np.array([[0.1]]), np.array([[0.3]]), np.array([[0.4]]))
    event, seen = np.array([1, 0, 1], bool).reshape(3, 1, 1), np.array([1, 0, 1], bool).reshape(3, 1, 1)
    moves = chain.moves(np.ones((3, 1)))
    found = run_filter(event, seen, chain, moves, FIXED, np.zeros(1)).not_live[:, 0, 0]
    assert_allclose(found[1], found[0] * 0.7 + (1 - found[0]) * 0.1, rtol=1e-9)


def simulate(rng, *, people, points, enter, leave, rate):
    """Hidden states and events (decision points, 1, people); everybody has a rate of their own."""
    own = rng.beta(rate * 30, (1 - rate) * 30, people)
    dead = np.zeros((points, people), dtype=bool)
    dead[0] = rng.random(people) < enter / (enter + leave)
    for t in range(1, points):
        change = rng.random(people)
        dead[t] = np.where(dead[t - 1], change >= leave, change < enter)
    return dead[:, None, :], (dead | (rng.random((points, people)) < own))[:, None, :]


def test_parameters_of_a_known_chain_are_learned():
    rng = np.random.default_rng(5)
    _, event = simulate(rng, people=100, points=200, enter=0.02, leave=0.1, rate=0.25)
    guess = Chain.first_guess(np.array([[0.4]]))
    learned = learn_chain(
        event, np.ones_like(event), np.ones((200, 100)), guess, weight=20, rounds=25, most_enter=0.5, floor=np.zeros(1)
    )
    assert_allclose(learned.enter, 0.02, rtol=0.25)
    assert_allclose(learned.leave, 0.1, rtol=0.25)
    assert_allclose(learned.rate, 0.25, rtol=0.1)


def test_own_rates_follow_the_participant():
    """Two people with the same run of zeros: for the one who often has zeros it says little."""
    often, seldom = np.tile([1, 0], 40), np.tile([0, 0], 40)
    run = np.ones(6)
    event = np.stack([np.append(often, run), np.append(seldom, run)], axis=1).astype(bool)[:, None, :]
    chain = Chain(np.array([[0.02]]), np.array([[0.15]]), np.array([[0.25]]))
    moves = chain.moves(np.ones((86, 2)))
    found = run_filter(event, np.ones_like(event), chain, moves, 20.0, np.zeros(1)).not_live[-1, 0]
    assert found[1] > 0.95
    assert found[0] < 0.7


def test_gaps_are_in_typical_ones():
    assert_allclose(relative_gaps(np.array([[np.nan, 2.0, 4.0]]), 2.0), [[1.0], [1.0], [2.0]])
