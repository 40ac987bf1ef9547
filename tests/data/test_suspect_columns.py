"""Columns that are not what they seem are found, and honest ones are left in peace."""

import numpy as np
import pytest

from surefoot.data.suspect_columns import find_alike_ids, find_codes, gives_away_action

RNG = np.random.default_rng(0)
N = 300


def with_code(values, code, times=12):
    values = np.array(values, dtype=float)
    values[RNG.choice(len(values), times, replace=False)] = code
    return values


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        (with_code(RNG.normal(20, 5, N), -99), [-99]),
        (with_code(RNG.normal(20, 5, N), -1024), [-1024]),
        (with_code(RNG.integers(1, 8, N), 9), [9]),
        (with_code(RNG.integers(1, 6, N), 999), [999]),
        (with_code(RNG.poisson(800, N), -1), [-1]),
        (with_code(RNG.uniform(0, 12, N), -1), [-1]),
        (with_code(with_code(RNG.integers(0, 11, N), 99), -9), [-9, 99]),
        (np.append(with_code(RNG.poisson(800, N), -99), [-3.0]), [-99]),
        (np.append(with_code(RNG.poisson(800, N), -99), [-140.0, -3.0]), [-99]),
        (with_code(RNG.normal(0, 200, N), -99), [-99]),
        (np.round(RNG.normal(-2, 6, N)), []),
        (RNG.normal(0, 1, N), []),
        (RNG.integers(-1, 2, N).astype(float), []),
        (RNG.integers(0, 2, N).astype(float), []),
        (RNG.integers(0, 101, N).astype(float), []),
        (np.floor(RNG.normal(8, 4, N)), []),
        (RNG.exponential(100, N).round(), []),
        (np.where(RNG.random(N) < 0.5, 0, RNG.exponential(300, N).round()), []),
        (np.append(RNG.normal(20, 5, N), [300.0]), []),
        (np.array([1.0, 2, 3, 999, 999, 999]), []),
    ],
)  # fmt: skip
def test_codes_that_lie_apart_and_come_again(values, codes):
    assert sorted(find_codes(values)) == codes


def test_what_gives_the_action_away():
    action = RNG.integers(0, 2, N)
    noise = RNG.normal(size=N)
    assert gives_away_action(action.astype(float), action)
    assert gives_away_action(1.0 - action, action)
    # A dose that is above zero only where something was sent; a message's number; an answer that only a prompt can have.
    assert gives_away_action(np.where(action == 1, RNG.uniform(1, 5, N), 0.0), action)
    assert gives_away_action(np.where(action == 1, RNG.integers(1, 4, N), 0).astype(float), action)
    assert gives_away_action(np.where(action == 1, noise, np.nan), action)
    assert gives_away_action(noise + 20 * action, action)
    for honest in (noise, noise + action, RNG.integers(0, 3, N).astype(float), np.arange(N, dtype=float)):
        assert not gives_away_action(honest, action)
    # A policy within limits follows the state, and the state is honest.
    follows = (RNG.random(N) < np.where(noise > 0, 0.9, 0.1)).astype(int)
    assert not gives_away_action(noise, follows)
    assert not gives_away_action(action[:20].astype(float), action[:20])


def test_ids_that_differ_in_case_blanks_or_leading_zeros_are_alike():
    assert find_alike_ids(["P01", "p01", "P 01", "P1", "Ｐ01"]) == [
        ("P01", other) for other in ("p01", "P 01", "P1", "Ｐ01")
    ]
    assert find_alike_ids(["1-11", "11-1", "a.05", "a.5", "10", "100", "ann", "anne", "P1", "P10"]) == []
    assert find_alike_ids(np.arange(5).tolist()) == []


def test_values_of_any_size_are_compared():
    assert find_codes(np.array([-1.7e308, 1.7e308, 1e300, 0.0] * 10 + [-99.0] * 5)) == []
