"""An update is a fit to the joined logs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf


@pytest.fixture(scope="module")
def logs():
    return sf.simulators.HeartSteps(participants=8).collect(sf.policies.coin(2), decision_points=60, seed=9)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("ts", {"pooling": "person"}),
        ("ts", {"pooling": "all"}),
        ("ts", {"pooling": "partial"}),
        ("linucb", {}),
        ("hb-accb", {}),
        ("hb-ahead", {}),
    ],
)
def test_it_equals_a_fit_to_all(logs, name, more):
    """The later logs hold more of some people and all of another."""
    early = (logs.time < 45) & (logs.participant != 5)
    found = sf.method(name, **more).fit(logs[early]).update(logs[~early])
    whole = sf.method(name, **more).fit(logs)
    assert_allclose(found.critic_coef_, whole.critic_coef_, rtol=1e-9, atol=1e-9)
    assert_allclose(
        found.policies_.probabilities(logs.participant, logs.state),
        whole.policies_.probabilities(logs.participant, logs.state),
        rtol=1e-9,
        atol=1e-9,
    )


def test_an_outcome_that_comes_late_counts_once(logs):
    """Some outcomes of the first logs are missing and come with the later ones."""
    early = logs.time < 30
    late = early & (logs.time % 7 == 3)
    first = logs.with_values(outcome=np.where(late, np.nan, logs.outcome))[early]
    updated = sf.method("accb").fit(first).update(logs[late]).update(logs[~early])
    assert_allclose(updated.coef_, sf.method("accb").fit(logs).coef_, rtol=1e-9, atol=1e-9)
    with pytest.raises(sf.InputError, match="were learned from already"):
        updated.update(logs[late])


def test_what_it_cannot_do_is_refused(logs):
    fitted = sf.method("ts").fit(logs)
    with pytest.raises(sf.InputError, match="20 of the later decision points were learned from already"):
        fitted.update(logs[(logs.participant == 1) & (logs.time < 20)])
    with pytest.raises(sf.InputError, match="looks at a participant's whole series"):
        sf.method("filter-accb").fit(logs).update(logs)
    with pytest.raises(sf.NotFittedError):
        sf.method("ts").update(logs)
