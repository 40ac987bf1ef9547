import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.learning.filters import Hampel, Kalman, clean


def literal_hampel(series, half=3, deviations=3.0):
    """One series, one window after the other; NaN is missing."""
    result = series.copy()
    for t, value in enumerate(series):
        window = series[max(0, t - half) : t + half + 1]
        window = window[~np.isnan(window)]
        if np.isnan(value):
            continue
        centre = np.median(window)
        if abs(value - centre) > deviations * 1.4826 * np.median(np.abs(window - centre)):
            result[t] = centre
    return result


def autoregressive(rng, people, points, phi=0.7):
    x = np.zeros((people, points))
    noise = rng.standard_normal((people, points))
    for t in range(1, points):
        x[:, t] = phi * x[:, t - 1] + noise[:, t]
    return x + 10


def test_hampel_is_the_literal_filter_also_with_gaps():
    rng = np.random.default_rng(0)
    values = np.where(rng.random((30, 50)) < 0.1, 40.0, rng.standard_normal((30, 50)))
    gaps = rng.random(values.shape) < 0.2
    found = Hampel().clean_series(np.where(gaps, 0.0, values), ~gaps)
    for row in range(30):
        expected = literal_hampel(np.where(gaps[row], np.nan, values[row]))
        assert_allclose(found[row][~gaps[row]], expected[~gaps[row]], rtol=1e-12)


@pytest.mark.parametrize("cleaner", [Hampel().clean_series, Kalman().clean_series])
def test_spikes_go_and_good_points_stay(cleaner):
    rng = np.random.default_rng(1)
    x = autoregressive(rng, 40, 200)
    spikes = rng.random(x.shape) < 0.04
    cleaned = cleaner(np.where(spikes, x + 25, x), np.ones(x.shape, dtype=bool))
    assert (np.abs(cleaned - x)[spikes] < 6).mean() > 0.97
    assert (cleaned == x)[~spikes].mean() > 0.85


def test_kalman_recovers_its_model_and_follows_the_prediction():
    rng = np.random.default_rng(2)
    x = autoregressive(rng, 1, 20_000)
    cleaned = Kalman().clean_series(x, np.ones(x.shape, dtype=bool))
    # Of normal innovations 0.27 % lie beyond three standard deviations.
    assert 0.001 < (cleaned != x).mean() < 0.006
    spiked = x.copy()
    spiked[0, 5000] += 100
    assert_allclose(
        Kalman().clean_series(spiked, np.ones(x.shape, dtype=bool))[0, 5000], 10 + 0.7 * (x[0, 4999] - 10), atol=0.2
    )


@pytest.mark.parametrize("cleaner", [Hampel().clean_series, Kalman().clean_series])
def test_a_spike_on_a_constant_series_goes(cleaner):
    x = np.full((1, 40), 5.0)
    x[0, 20] = 90.0
    assert_allclose(cleaner(x, np.ones(x.shape, dtype=bool)), 5.0)


@pytest.mark.parametrize("name", ["hampel", "kalman"])
def test_clean_works_person_by_participant_and_keeps_what_is_missing(name):
    rng = np.random.default_rng(3)
    state, outcome = rng.standard_normal((3, 40, 2)), rng.standard_normal((3, 40))
    outcome[0, 7], state[1, 3, 0], outcome[2, 11] = 99.0, np.nan, np.nan
    logs = sf.Trajectories.from_arrays(state, np.zeros((3, 40)), outcome, lengths=[40, 25, 40])
    cleaned = clean(logs, name)
    assert_array_equal(np.isnan(cleaned.state), np.isnan(logs.state))
    assert_array_equal(np.isnan(cleaned.outcome), np.isnan(logs.outcome))
    assert cleaned.outcome[7] < 5
    alone = clean(sf.Trajectories.from_arrays(state[1:2], np.zeros((1, 40)), outcome[1:2], lengths=[25]), name)
    assert_array_equal(alone.state, cleaned.state[cleaned.participant_index == 1])


def test_an_unknown_filter_is_named():
    logs = sf.Trajectories.from_arrays(np.zeros((1, 2, 1)), np.zeros((1, 2)), np.zeros((1, 2)))
    with pytest.raises(sf.InputError, match="did you mean 'hampel'"):
        clean(logs, "hample")


def test_kalman_keeps_what_is_usual_in_a_series_that_is_mostly_one_value():
    """Seven in ten are zero, so that the median absolute deviation is zero too; the ones are no artefacts, the 50 is."""
    x = np.tile([0.0] * 7 + [1.0] * 3, 6)[None]
    x[0, 31] = 50.0
    cleaned = Kalman().clean_series(x, np.ones(x.shape, dtype=bool))
    assert_array_equal(np.delete(cleaned, 31), np.delete(x, 31))
    assert cleaned[0, 31] < 2
