import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from scipy.stats import nbinom

import surefoot as sf
from surefoot.rehearsal.outcome_families import FAMILIES, choose_family, find_family, find_step

PEOPLE, POINTS = 30, 80


def make_outcomes(name, seed=0):
    rng = np.random.default_rng(seed)
    x = np.stack([np.ones((PEOPLE, POINTS)), rng.standard_normal((PEOPLE, POINTS))], axis=-1)
    own = 0.5 * rng.standard_normal((PEOPLE, 1))
    noise = rng.standard_normal((PEOPLE, POINTS))
    line = own + 0.6 * x[..., 1]
    some = rng.random((PEOPLE, POINTS)) < expit(0.5 + line)
    mean = np.exp(1.5 + 0.5 * line)
    made = {
        "normal": 5 + line + noise,
        "log-normal": np.exp(1 + line + 0.7 * noise),
        "hurdle": np.where(some, np.exp(2 + line + 0.8 * noise), 0.0),
        "zero-inflated count": np.where(some, nbinom.rvs(3.0, 3.0 / (3.0 + mean), random_state=rng), 0).astype(float),
        "binary": some.astype(float),
        "ordinal": np.digitize(line + noise, (-1.0, 0.0, 1.5)) + 1.0,
    }
    return rng, x, made[name]


@pytest.mark.parametrize("name", list(FAMILIES))
def test_the_family_that_made_the_outcomes_is_chosen_and_makes_the_like(name):
    rng, x, y = make_outcomes(name)
    weight = np.ones(y.shape)
    day = np.broadcast_to(np.arange(POINTS) // 4, y.shape)
    choice = choose_family(x, y, weight, day, None, rng)
    assert choice.name == name
    fitted = find_family(name).fit(x, y, weight, rng)
    features = [x[..., j].T for j in range(2)]
    drawn = fitted.invert(rng.random(y.T.shape), features).T
    assert_allclose(drawn.mean(), y.mean(), atol=0.15 * y.std())
    assert_allclose(drawn.std(), y.std(), rtol=0.2)
    assert abs((drawn == 0).mean() - (y == 0).mean()) < 0.03
    assert_allclose(drawn.mean(axis=1).std(), y.mean(axis=1).std(), rtol=0.35)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_the_inverse_inverts(name):
    rng, x, y = make_outcomes(name, seed=1)
    fitted = find_family(name).fit(x, y, np.ones(y.shape), rng)
    features = [x[:, :3, j].T for j in range(2)]
    uniform = np.broadcast_to(((np.arange(400) + 0.5) / 400)[:, None, None], (400, 3, PEOPLE))
    values = np.stack([fitted.invert(one, features) for one in uniform])
    assert (np.diff(values, axis=0) >= 0).all()
    for limit in np.quantile(values, (0.1, 0.4, 0.6, 0.9)):
        # In simulations residuals have the pilot's shape, which here is the normal one but for chance.
        assert_allclose((values <= limit).mean(axis=0), fitted.cumulate(np.full((3, PEOPLE), limit), features), atol=0.05)
    assert (fitted.cumulate(values[0] + 1e9, features) > 0.999).all()


def test_a_family_that_cannot_be_is_refused():
    rng, x, y = make_outcomes("normal")
    with pytest.raises(sf.InputError, match="cannot be 'binary'; choose from"):
        choose_family(x, y, np.ones(y.shape), np.zeros(y.shape), "binary", rng)
    with pytest.raises(sf.InputError, match="no outcome family 'nromal'"):
        choose_family(x, y, np.ones(y.shape), np.zeros(y.shape), "nromal", rng)


def test_steps_of_recording():
    assert find_step(np.array([0.0, 10.0, 30.0])) == 10
    assert find_step(np.array([1.0, 2.0, 3.0])) == 1
    assert find_step(np.random.default_rng(0).random(500)) == 0
