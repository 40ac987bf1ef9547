import json
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.policies.policies import Policies
from surefoot.policies.rules import Boltzmann


@pytest.fixture(scope="module", params=["ro-accb", "linucb"])
def fitted(request):
    sim = sf.simulators.HeartSteps(participants=4)
    return sf.method(request.param).fit(sim.collect(sf.policies.coin(2), decision_points=60, seed=3))


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_a_saved_policy_decides_the_same_in_another_process(fitted, ending, tmp_path):
    path = tmp_path / f"policies.{ending}"
    fitted.policies_.save(path)
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    participants, states = np.array([3, 0, 1]), np.random.default_rng(0).standard_normal((3, 3))
    program = (
        "import sys, json, surefoot as sf; p = sf.policies.load(sys.argv[1]); who, states = json.loads(sys.argv[2]);"
        "print([x.hex() for a in p.rule.arrays().values() for x in a.ravel().tolist()]);"
        "print([x.hex() for x in p.probabilities(who, states).ravel().tolist()])"
    )
    asked = json.dumps([participants.tolist(), states.tolist()])
    there = subprocess.run([sys.executable, "-c", program, str(path), asked], capture_output=True, text=True, check=True)  # noqa: S603
    numbers = [x.hex() for a in fitted.policies_.rule.arrays().values() for x in a.ravel().tolist()]
    decided = [x.hex() for x in fitted.policies_.probabilities(participants, states).ravel().tolist()]
    assert there.stdout.splitlines() == [str(numbers), str(decided)]


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_text_ids_names_and_more_actions_survive(ending, tmp_path):
    policies = sf.policies.Policies(
        np.array(["Zoë", "a b"]), Boltzmann(np.arange(12.0).reshape(2, 2, 3) / 7), ("no", "walk", "stretch"), ("x", "y")
    )
    policies.save(tmp_path / f"p.{ending}")
    back = sf.policies.load(tmp_path / f"p.{ending}")
    assert back.participants.tolist() == ["Zoë", "a b"]
    assert (back.action_names, back.state_names) == (policies.action_names, policies.state_names)
    assert_array_equal(back.rule.arrays()["coef"], policies.rule.arrays()["coef"])


def test_broken_files_are_refused(tmp_path, fitted):
    path = tmp_path / "p.json"
    fitted.policies_.save(path)
    whole = path.read_text()
    for broken in (
        "",
        "[]",
        "{}",
        whole[:-40],
        whole.replace("surefoot-policies-1", "other"),
        whole.replace('"participants": [', '"participants": [9, '),
    ):
        path.write_text(broken)
        with pytest.raises(sf.InputError, match=r"p\.json: not a file of policies"):
            sf.policies.load(path)
    (tmp_path / "p.parquet").write_bytes(b"nothing")
    with pytest.raises(sf.InputError, match="not a file of policies"):
        sf.policies.load(tmp_path / "p.parquet")
    with pytest.raises(sf.InputError, match="no such file"):
        sf.policies.load(tmp_path / "none.json")
    for call in (lambda: fitted.policies_.save(tmp_path / "p.pickle"), lambda: sf.policies.load(tmp_path / "p.pickle")):
        with pytest.raises(sf.InputError, match=r"\.json or \.parquet"):
            call()


def test_who_is_not_available_gets_nothing_with_certainty(fitted):
    states = np.full((2, 3), np.nan)
    states[0] = 0.5
    found = fitted.policies_.probabilities([0, 1], states, available=[True, False])
    assert_array_equal(found[1], [1, 0])
    assert_allclose(found.sum(axis=1), 1)


def test_wrong_calls_are_refused(fitted):
    policies = fitted.policies_
    with pytest.raises(sf.InputError, match="row 1, state 'fatigue': nan"):
        policies.probabilities([0, 1], [[0, 0, 0], [0, 0, np.nan]])
    with pytest.raises(sf.InputError, match="unknown participant 77"):
        policies.probabilities([77], [[0, 0, 0]])
    with pytest.raises(sf.InputError, match="weather, engagement, fatigue"):
        policies.probabilities([0], [[0, 0]])
    with pytest.raises(sf.InputError, match="2 participants but 1 states"):
        policies.probabilities([0, 1], [[0, 0, 0]])
    with pytest.raises(sf.InputError, match="yes or no"):
        policies.probabilities([0], [[0, 0, 0]], available=[3])
    with pytest.raises(sf.InputError, match="sum to 1"):
        sf.policies.fixed([0.5, 0.6])


def test_one_persons_policy_is_that_of_the_family(fitted):
    states = np.random.default_rng(1).standard_normal((5, 3))
    assert_array_equal(fitted.policies_[2].probabilities(states), fitted.policies_.probabilities([2] * 5, states))


def test_one_decision(fitted):
    policy, state = fitted.policies_[2], [0.1, -0.4, 2.0]
    assert_allclose(policy.decide(state), policy.probabilities([state])[0], rtol=1e-12)
    for wrong, words in (
        ([0.1, np.nan, 1.0], "row 0, state 'engagement': nan"),
        ([0.1, 0.2], "weather, engagement, fatigue"),
    ):
        with pytest.raises(sf.InputError, match=words):
            policy.decide(wrong)


def test_samples_follow_the_probabilities_and_carry_them():
    policies = sf.policies.Policies(np.array([0]), Boltzmann(np.array([[[1.0, 0.2], [-0.5, 0.1]]])), ("a", "b", "c"), ("s",))
    states = np.full((60_000, 1), 0.7)
    actions, probability = policies.sample(np.zeros(60_000, dtype=int), states, rng=np.random.default_rng(0))
    expected = policies[0].probabilities(states[:1])[0]
    assert_allclose(np.bincount(actions) / 60_000, expected, atol=0.01)
    assert_array_equal(probability, expected[actions])
    again, _ = policies[0].sample(states, rng=np.random.default_rng(0))
    assert_array_equal(again, actions)


def test_reference_policies():
    assert_array_equal(sf.policies.coin(4).probabilities([[0.0]]), [[0.25] * 4])
    assert_array_equal(sf.policies.never(3).probabilities([[0.0]]), [[1, 0, 0]])
    assert_array_equal(sf.policies.always(3).probabilities([[0.0]]), [[0, 0.5, 0.5]])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_columns_of_a_frame_are_matched_by_name(make):
    """With the columns of a frame reversed the answer was once that of another state."""
    policies = Policies(
        np.array(["ann", "bo"]), Boltzmann(np.array([[[2.0, -1, 0]], [[0.0, 3, 1]]])), ("no", "yes"), ("x", "y")
    )
    columns = {"y": [0.5, -0.5], "x": [1.0, 2.0]}
    expected = policies.probabilities(["bo", "ann"], [[1.0, 0.5], [2.0, -0.5]])
    assert_array_equal(policies.probabilities(["bo", "ann"], make(columns)), expected)
    assert_array_equal(policies["bo"].probabilities(make(columns))[0], expected[0])
    with pytest.raises(sf.InputError, match=r"there is no column 'y' \(did you mean 'yy'\?\); the table has \['yy', 'x'\]"):
        policies.probabilities(["bo", "ann"], make({"yy": columns["y"], "x": columns["x"]}))
    with pytest.raises(sf.InputError, match=r"column 'z' is not a state variable; give the columns \['x', 'y'\] only"):
        policies.probabilities(["bo", "ann"], make({**columns, "z": [0.0, 0.0]}))


@pytest.mark.parametrize("make", [pd.Series, pl.Series, pa.array], ids=["pandas", "polars", "arrow"])
@pytest.mark.parametrize("ids", [["ann", "bo"], [7, 12]], ids=["text", "numbers"])
def test_ids_may_be_a_series(make, ids):
    policies = Policies(np.array(ids), Boltzmann(np.array([[[2.0, 0]], [[0.0, 1]]])), ("no", "yes"), ("x",))
    wanted = [ids[1], ids[0], ids[1]]
    assert_array_equal(
        policies.probabilities(make(wanted), [[1.0], [2.0], [3.0]]), policies.probabilities(wanted, [[1.0], [2.0], [3.0]])
    )
