"""Candidates, folds dealt by hand, and expected outcomes as ridge without the fold would give them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.evaluation.off_policy import (
    NUISANCE_PENALTY,
    Candidate,
    assign_folds,
    choose_cross_fit,
    expect_rewards,
    fit_without_folds,
    list_candidates,
)
from surefoot.learning.critics import Ridge


def make_logs(people=4, points=20, scale=1.0, constant=False, seed=0):
    rng = np.random.default_rng(seed)
    state, action = 3 + scale * rng.standard_normal((people, points, 2)), rng.integers(0, 2, (people, points))
    if constant:
        state[..., 1] = 7.0
    outcome = 1 + state[..., 0] / scale + 0.5 * action + rng.standard_normal((people, points))
    outcome[0, 3] = np.nan
    return sf.Trajectories.from_arrays(state, action, outcome)


def literal_rewards(logs, fold, penalty, own):
    """Standardised states, a free intercept, and one decision point's worth of shrinkage for the rest."""
    usable = logs.usable
    state = logs.state[usable]
    spread = np.where(state.std(axis=0) > 0, state.std(axis=0), 1.0)
    z = np.column_stack([np.ones(len(logs)), (logs.state - state.mean(axis=0)) / spread])
    found = np.full((len(logs), 2), np.nan)
    for row in np.flatnonzero(usable):
        learned = usable & (fold != fold[row]) & ((logs.participant_index == logs.participant_index[row]) | (not own))
        x = np.column_stack([z, logs.action[:, None] * z])[learned]
        w = np.linalg.solve(x.T @ x + penalty * np.diag([0, 1, 1, 1, 1, 1]), x.T @ logs.outcome[learned])
        found[row] = [z[row] @ w[:3], z[row] @ (w[:3] + w[3:])]
    return found


@pytest.mark.parametrize(("cross_fit", "pooling"), [("person", "all"), ("time", "person")])
@pytest.mark.parametrize("constant", [False, True])
def test_expected_rewards_are_those_of_ridge_without_the_fold(cross_fit, pooling, constant):
    logs = make_logs(constant=constant)
    fold = assign_folds(logs, cross_fit, 3, 0)
    found = expect_rewards(logs, fold, critic=Ridge(), pooling=pooling)
    assert_allclose(found, literal_rewards(logs, fold, NUISANCE_PENALTY, pooling == "person"), rtol=1e-7, atol=1e-9)
    assert np.isnan(found).any(axis=1).sum() == 1
    assert_allclose(
        expect_rewards(logs, fold, critic=Ridge(), pooling=pooling, penalty=5.0),
        literal_rewards(logs, fold, 5.0, pooling == "person"),
        rtol=1e-7,
        atol=1e-9,
    )


def test_units_of_the_states_do_not_matter():
    small, large = make_logs(scale=1e-3), make_logs(scale=1e3)
    fold = assign_folds(small, "person", 2, 0)
    found = [expect_rewards(logs, fold, critic=Ridge(), pooling="all") for logs in (small, large)]
    # The outcomes differ by a constant, 3 / scale.
    assert_allclose(np.ptp((found[0] - found[1])[small.usable], axis=0), 0, atol=1e-6)


def test_time_is_cut_into_stretches_of_equally_many_usable_decision_points():
    logs = make_logs(people=2, points=9)
    outcome = logs.outcome.copy()
    outcome[logs.order[[4, 5]]] = np.nan  # As is that of row 3.
    fold = assign_folds(logs.with_values(outcome=outcome), "time", 3, 0)[logs.order]
    assert fold[:9].tolist() == [0, 0, 1, 1, 1, 1, 1, 2, 2]
    assert fold[9:].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    empty = assign_folds(logs.with_values(outcome=np.where(logs.participant_index == 1, np.nan, outcome)), "time", 3, 0)
    assert (empty[logs.participant_index == 1] == 0).all()


def test_people_are_dealt_evenly_and_at_random():
    logs = make_logs(people=7, points=4)
    fold = assign_folds(logs, "person", 3, 5)
    by_person = fold.reshape(7, 4)
    assert (by_person == by_person[:, :1]).all()
    assert sorted(np.bincount(by_person[:, 0]).tolist()) == [2, 2, 3]
    assert_array_equal(by_person[:, 0], np.random.default_rng(5).permutation(7) % 3)
    assert set(assign_folds(logs, "person", 99, 0)) == set(range(7))


def test_folds_that_cannot_be_dealt_are_refused():
    logs = make_logs()
    for folds in (1, 0):
        with pytest.raises(sf.InputError, match=f"folds is {folds}; cross-fitting needs at least 2"):
            assign_folds(logs, "time", folds, 0)
    assert set(assign_folds(logs, "time", 2, 0)) == {0, 1}
    with pytest.raises(sf.InputError, match="needs at least 2 people"):
        assign_folds(make_logs(people=1), "person", 2, 0)
    with pytest.raises(sf.InputError, match="there is no cross-fitting 'peple'"):
        assign_folds(logs, "peple", 2, 0)


def test_methods_are_learned_without_the_fold():
    logs = make_logs()
    fold = assign_folds(logs, "time", 2, 0)
    found = dict(fit_without_folds(sf.method("ro-accb", tau=2.0), logs, fold))
    assert list(found) == [0, 1]
    for part, policies in found.items():
        hidden = logs.with_values(outcome=np.where(fold == part, np.nan, logs.outcome))
        expected = sf.method("ro-accb", tau=2.0).fit(hidden).policies_
        assert_array_equal(policies.rule.coef, expected.rule.coef)


@pytest.fixture(scope="module")
def logs():
    return sf.simulators.HeartSteps(participants=6).collect(sf.policies.coin(2), decision_points=30, seed=0)


def test_candidates_are_described(logs):
    given = {
        "anew": sf.method("accb"),
        "fixed": sf.policies.fixed([0.2, 0.8]),
        "function": lambda state: np.full(len(state), 0.5),
        "array": np.full(len(logs), 0.3),
        "both": lambda state: np.full((len(state), 2), 0.5),
    }
    found = {candidate.name: candidate for candidate in list_candidates(given, logs)[0]}
    assert [one.description for one in found.values()] == [
        "learned anew without the decision points that judge it",
        "the same probabilities in every state",
        "as given",
        "as given",
        "as given",
        "nothing at every decision point",
        "send at every decision point",
    ]
    assert [one.is_baseline for one in found.values()] == [False] * 5 + [True] * 2
    rows, fold = np.arange(0, len(logs), 7), np.zeros(len(logs), dtype=int)
    assert (found["array"].decide(logs, rows, fold) == [0.7, 0.3]).all()
    assert (found["function"].decide(logs, rows, fold) == 0.5).all()
    assert (found["always"].decide(logs, rows, fold) == [0, 1]).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.full(7, 0.5), r"gives probabilities of shape \(7,\); give one row for each of 180"),
        (np.full((180, 2, 2), 0.5), "gives probabilities of shape"),
        (np.full((180, 3), 1 / 3), "a policy over 3 actions cannot be judged by logs with 2"),
        (np.tile([0.5, 0.5 + 1.1e-6], (180, 1)), "give probabilities, which sum to 1"),
        (np.tile([1.2, -0.2], (180, 1)), "give probabilities, which sum to 1"),
        ("text", "give policies, a method, a function of states, or an array"),
    ],
)
def test_what_is_not_a_policy_is_refused(logs, given, message):
    one = Candidate("mine", given, "as given")
    with pytest.raises(sf.InputError, match=f"'mine'.*{message}|{message}"):
        one.decide(logs, np.arange(180), np.zeros(180, dtype=int))


def test_rounding_of_probabilities_is_forgiven(logs):
    given = np.tile([0.5, 0.5 + 0.9e-6], (180, 1))
    assert Candidate("mine", given, "").decide(logs, np.arange(3), np.zeros(180, dtype=int)).shape == (3, 2)


def test_names_of_the_baselines_are_taken(logs):
    for name in ("never", "always", "as logged"):
        with pytest.raises(sf.InputError, match=f"'{name}' is the name of a policy that every evaluation shows"):
            list_candidates({name: sf.policies.coin(2)}, logs)
    with pytest.raises(sf.InputError, match=r"given by name, as .*, not as a list"):
        list_candidates([sf.policies.coin(2)], logs)


def test_policies_learned_from_the_same_people_are_noted(logs):
    other = sf.simulators.HeartSteps(participants=6).collect(sf.policies.coin(2), decision_points=30, seed=1)
    pooled = sf.method("accb", pooling="all").fit(logs).policies_
    with pytest.raises(sf.InputError, match="'mine' was learned from 180 of these 180 decision points"):
        list_candidates({"mine": pooled}, logs)
    moved = sf.Trajectories.from_arrays(
        other.state.reshape(6, 30, 3),
        other.action.reshape(6, 30),
        other.outcome.reshape(6, 30),
        time=np.tile(np.arange(30) + 100, (6, 1)),
        state_names=other.state_names,
    )
    _, notes = list_candidates({"mine": pooled, "coin": sf.policies.coin(2)}, moved)
    assert notes == ["mine was learned from 6 of these 6 people, at other times: it may be worth less for new people"]
    assert list_candidates({"mine": sf.method("accb").fit(logs).policies_}, moved)[1] == []


def test_how_methods_are_cross_fitted():
    own, shared = sf.method("accb"), sf.method("accb", pooling="all")
    assert choose_cross_fit({"a": shared}, None) == choose_cross_fit({}, None) == "person"
    assert choose_cross_fit({"a": shared, "b": own}, None) == "time"
    assert choose_cross_fit({"a": shared}, "time") == "time"
    with pytest.raises(sf.InputError, match="'b' learns a policy per participant"):
        choose_cross_fit({"a": shared, "b": own}, "person")
