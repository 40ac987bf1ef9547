import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.learning import methods
from tests.problems import three_actions
from tests.reference import literal


@pytest.fixture(scope="module")
def dirty():
    logs = sf.simulators.HeartSteps(participants=6).collect(sf.policies.coin(2), decision_points=90, seed=0)
    return sf.simulators.contaminate(logs, mechanism="prompted", ratio=0.05, strength=5, seed=1).logs


def literal_features(logs, participant):
    rows = logs.order[logs.starts[participant] : logs.starts[participant + 1]]
    x = np.array([literal.critic_features(logs.state[row], logs.action[row], logs.actions) for row in rows])
    return rows, x, logs.outcome[rows]


MYOPIC = [name for name in sf.METHODS if not name.endswith("ahead") and name != "recommended"]
"""Methods whose preset looks at the next outcome only, one policy for each participant."""


def test_the_papers_nine_names_and_those_of_other_critics_and_horizons():
    assert list(sf.METHODS) == [
        *("linucb", "accb", "saccb"),
        *("filter-linucb", "filter-accb", "filter-saccb"),
        *("ro-linucb", "ro-accb", "ro-saccb"),
        *("hb-linucb", "hb-accb", "hb-saccb"),
        *("ahead", "ro-ahead", "hb-ahead"),
        *("ts", "ro-ts", "hb-ts"),
        "recommended",
    ]
    assert sf.method("filter-saccb").rule == sf.rules.StochasticActor()
    assert sf.method("filter-saccb").filter == sf.filters.Hampel()
    assert sf.method("filter-accb", filter="kalman").filter == sf.filters.Kalman()


@pytest.mark.parametrize("make", [lambda: None, three_actions], ids=["two actions", "three actions"])
def test_ro_accb_is_the_literal_method(make, dirty):
    logs = make() or dirty
    fitted = sf.method("ro-accb", critic_penalty=1e-3, actor_penalty=1e-3, penalty_units="absolute").fit(logs)
    for participant in range(len(logs.participants)):
        rows, x, r = literal_features(logs, participant)
        w, kept, epsilon, fits = literal.capped_critic(x, r, 1e-3)
        assert_allclose(fitted.critic_coef_[participant], w, rtol=1e-8, atol=1e-8)
        assert_array_equal(fitted.weights_[rows], kept)
        assert_allclose(fitted.threshold_[participant], epsilon)
        assert fitted.n_iter_[participant] == fits
        z = np.column_stack([logs.state[rows], np.ones(len(rows))])
        expected = np.array(
            [[literal.critic_features(s, a, logs.actions) @ w for a in range(logs.actions)] for s in logs.state[rows]]
        )
        theirs = literal.slsqp_actor(z, expected, kept.astype(float), 1e-3)
        ours = literal.actor_objective(fitted.coef_[participant], z, expected, kept.astype(float), 1e-3)
        assert ours >= theirs.fun - 1e-9 * abs(theirs.fun)
        state = logs.state[rows[:5]]
        probabilities = [literal.probabilities(fitted.coef_[participant], s, logs.actions) for s in state]
        assert_allclose(
            fitted.policies_.probabilities([logs.participants[participant]] * 5, state), probabilities, rtol=1e-9
        )


@pytest.mark.parametrize("make", [lambda: None, three_actions], ids=["two actions", "three actions"])
@pytest.mark.parametrize("name", ["linucb", "ro-linucb"])
def test_linucb_scores_are_the_literal_ones(make, name, dirty):
    logs = make() or dirty
    fitted = sf.method(name, critic_penalty=0.5, exploration=2.0, penalty_units="absolute").fit(logs)
    states = np.random.default_rng(0).standard_normal((20, logs.state.shape[1]))
    for participant, participant in enumerate(logs.participants):
        _, x, r = literal_features(logs, participant)
        kept = np.ones(len(r), dtype=bool) if name == "linucb" else literal.capped_critic(x, r, 0.5)[1]
        w = literal.ridge(x[kept], r[kept], 0.5)
        inverse = np.linalg.inv(x[kept].T @ x[kept] + 0.5 * np.eye(x.shape[1]))
        scale = np.sqrt(np.mean((r - x @ w)[kept] ** 2))
        assert_allclose(fitted.scale_[participant], scale)
        for s in states:
            features = [literal.critic_features(s, a, logs.actions) for a in range(logs.actions)]
            scores = [f @ w + 2.0 * scale * np.sqrt(f @ inverse @ f) for f in features]
            rule, z = fitted.policies_[participant].rule, np.append(s, 1.0)
            assert_allclose(rule.mean @ z + np.sqrt(z @ rule.spread @ z), scores, rtol=1e-9)
            assert fitted.policies_[participant].probabilities([s])[0].argmax() == np.argmax(scores)


def test_saccb_meets_the_stochasticity_constraint(dirty):
    fitted = sf.method("saccb", critic="capped", minimum_probability=0.2, violation=0.3).fit(dirty)
    limit = 0.3 * np.log(0.2 / 0.8) ** 2
    for participant in range(6):
        rows, _, _ = literal_features(dirty, participant)
        g = np.column_stack([dirty.state[rows], np.ones(len(rows))])[fitted.weights_[rows] > 0]
        assert_allclose(np.mean((g @ fitted.coef_[participant]) ** 2), limit, rtol=1e-6)


def test_a_filter_method_is_the_plain_one_on_cleaned_logs(dirty):
    for name in ("hampel", "kalman"):
        together = sf.method("filter-accb", filter=name).fit(dirty)
        apart = sf.method("accb").fit(sf.filters.clean(dirty, name))
        assert_array_equal(together.coef_, apart.coef_)


def test_row_order_and_company_change_nothing(dirty):
    """Shuffled rows and more people: everybody's numbers stay the same to the last bit, whatever the processor."""
    fitted = {name: sf.method(name).fit(dirty) for name in MYOPIC}
    table = dirty.to_frame("pandas")
    shuffled = table.sample(frac=1.0, random_state=0)
    alone = table[table["participant"] == 3]
    extra = table[table["participant"].isin([1, 2])].head(150).assign(participant=lambda t: t["participant"] + 100)
    roles = {
        "participant": "participant",
        "time": "time",
        "state": list(dirty.state_names),
        "action": "action",
        "outcome": "outcome",
    }
    for name, expected in fitted.items():
        again = sf.method(name).fit(sf.Trajectories.from_frame(shuffled, **roles))
        assert_array_equal(again.critic_coef_, expected.critic_coef_)
        assert_array_equal(again.weights_, expected.weights_[shuffled.index])
        more = sf.method(name).fit(sf.Trajectories.from_frame(pd.concat([extra, table]), **roles))
        one = sf.method(name).fit(sf.Trajectories.from_frame(alone, **roles))
        for part, values in expected.policies_.rule.arrays().items():
            assert_array_equal(again.policies_.rule.arrays()[part], values)
            assert_array_equal(more.policies_.rule.arrays()[part][:6], values)
            assert_array_equal(one.policies_.rule.arrays()[part][0], values[3])


@pytest.mark.parametrize("name", ["ro-linucb", "ro-accb", "ro-saccb", "hb-saccb"])
def test_block_size_and_threads_change_nothing(dirty, monkeypatch, name):
    expected = sf.method(name).fit(dirty)
    for cells, threads in ((200, 1), (200, 3), (700, 2), (10**6, 1)):
        monkeypatch.setattr("surefoot.learning.methods.choose_block_cells", lambda rows, cells=cells: cells)
        monkeypatch.setenv("SUREFOOT_THREADS", str(threads))
        again = sf.method(name).fit(dirty)
        for part, values in expected.policies_.rule.arrays().items():
            assert_array_equal(again.policies_.rule.arrays()[part], values)
        assert_array_equal(again.weights_, expected.weights_)
        assert_array_equal(again.residuals_, expected.residuals_)


def test_every_thread_gets_a_block_and_none_a_huge_one(monkeypatch):
    from surefoot.learning.batch import choose_block_cells

    class Logs:
        actions = 2

        def __init__(self, rows, variables):
            self.rows, self.state_names = rows, ["s"] * variables

        def __len__(self):
            return self.rows

    for threads, rows, variables, cells in (
        (1, 10**3, 3, 2**17),
        (2, 10**7, 5, 2**17),
        (4, 10**7, 3, 2**18),
        (8, 2**20, 3, 2**17),
        (64, 10**8, 3, 2**18),
        (2, 10**7, 23, 2**16),  # Twice the features, half the decision points: the same memory.
    ):
        monkeypatch.setenv("SUREFOOT_THREADS", str(threads))
        assert choose_block_cells(Logs(rows, variables)) == cells


def test_tidy_results_have_names_people_and_times(dirty):
    fitted = sf.method("ro-accb").fit(dirty)
    table = fitted.coefficients(backend="pandas")
    assert list(table.columns) == ["participant", "part", "action", "feature", "value"]
    assert len(table) == 6 * (8 + 4)
    found = table.query("participant == 2 and part == 'policy' and action == 'send' and feature == 'engagement'")[
        "value"
    ].item()
    assert found == fitted.coef_[2, 1]
    found = table.query("participant == 2 and part == 'critic' and action == 'send' and feature == 'intercept'")[
        "value"
    ].item()
    assert found == fitted.critic_coef_[2, 4]
    out = fitted.outliers(backend="pandas")
    assert len(out) == (fitted.weights_ == 0).sum() > 0
    assert list(out.columns) == ["participant", "time", "action", "outcome", "expected", "residual", "limit"]
    assert_allclose(out["outcome"] - out["expected"], out["residual"], rtol=1e-12)
    assert (out["residual"].abs() >= out["limit"]).all()
    assert len(sf.method("accb").fit(dirty).outliers()) == 0
    assert set(sf.method("linucb").fit(dirty).coefficients("pandas")["part"]) == {"critic"}


def test_unusable_rows_have_no_weight_and_no_influence(dirty):
    outcome, state = dirty.outcome.copy(), dirty.state.copy()
    outcome[::7] = np.nan
    state[3::11, 1] = np.nan
    holes = dirty.with_values(outcome=outcome, state=state)
    fitted = sf.method("ro-accb").fit(holes)
    assert_array_equal(np.isnan(fitted.weights_), ~holes.usable)
    table = holes.to_frame("pandas")[holes.usable]
    roles = {
        "participant": "participant",
        "time": "time",
        "state": list(dirty.state_names),
        "action": "action",
        "outcome": "outcome",
    }
    without = sf.method("ro-accb").fit(sf.Trajectories.from_frame(table, **roles))
    assert_allclose(fitted.critic_coef_, without.critic_coef_, rtol=1e-9)
    assert_allclose(fitted.coef_, without.coef_, rtol=1e-6)


def test_a_free_intercept_is_not_shrunk():
    rng = np.random.default_rng(0)
    state, action = rng.standard_normal((1, 200, 1)), rng.integers(0, 2, (1, 200))
    logs = sf.Trajectories.from_arrays(state, action, 1000 + rng.standard_normal((1, 200)))
    shrunk = sf.method("accb", critic_penalty=100, penalty_units="absolute").fit(logs)
    free = sf.method("accb", critic_penalty=100, penalize_intercept=False, penalty_units="absolute").fit(logs)
    assert_allclose(free.critic_coef_[0, 0], 1000, atol=1)
    assert abs(free.critic_coef_[0, 2]) < 0.5  # there is no effect …
    assert shrunk.critic_coef_[0, 2] > 100  # … but a shrunk intercept makes the action pay for it


def test_refresh_threshold_reaches_the_critic(dirty):
    once, again = sf.method("ro-accb").fit(dirty), sf.method("ro-accb", refresh_threshold=True).fit(dirty)
    assert (again.threshold_ < once.threshold_).mean() > 0.5


def troubled():
    """Everybody has 40 decision points; each trouble is one participant's, and "fine" has none."""
    rng = np.random.default_rng(1)
    people = ["constant", "empty", "few", "fine", "one action"]
    state, action = rng.standard_normal((5, 40, 2)), rng.integers(0, 2, (5, 40))
    outcome = 5 + action * (1 + state[..., 0]) + rng.standard_normal((5, 40))
    state[0, :, 1] = 4.0
    outcome[1] = np.nan
    outcome[2, 4:] = np.nan
    action[2, :4] = [0, 1, 0, 1]
    action[4] = 0
    return sf.Trajectories.from_arrays(state, action, outcome, participants=people), people


@pytest.mark.parametrize("name", MYOPIC)
@pytest.mark.parametrize("penalty", [1e-3, 0.0])
def test_troubled_people_get_a_result_and_a_warning_and_leave_the_others_alone(name, penalty):
    logs, people = troubled()
    with pytest.warns(sf.FitWarning) as caught:
        fitted = sf.method(name, critic_penalty=penalty).fit(logs)
    messages = [str(warning.message) for warning in caught]
    for participant, words in {
        "constant": "state 's2' never changes",
        "empty": "no usable decision point",
        "few": "fewer usable decision points than",
        "one action": "action 'send' never occurs",
    }.items():
        assert any(f"'{participant}'" in message and words in message for message in messages), (participant, messages)
    assert not any("'fine'" in message for message in messages)
    assert all(warning.filename == __file__ for warning in caught)
    for values in (fitted.critic_coef_, *fitted.policies_.rule.arrays().values()):
        assert np.isfinite(values).all()
    assert not np.isnan(fitted.threshold_).any()
    state = np.zeros((5, 2))
    assert_allclose(fitted.policies_.probabilities(people, state).sum(axis=1), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = logs.participant == "fine"
        alone = sf.Trajectories.from_arrays(
            logs.state[rows][None], logs.action[rows][None], logs.outcome[rows][None], participants=["fine"]
        )
        expected = sf.method(name, critic_penalty=penalty).fit(alone)
    for part, values in expected.policies_.rule.arrays().items():
        assert_array_equal(fitted.policies_.rule.arrays()[part][3], values[0])


def test_an_empty_person_treats_all_actions_alike():
    logs, _ = troubled()
    with pytest.warns(sf.FitWarning):
        fitted = sf.method("ro-accb").fit(logs)
    assert_array_equal(fitted.policies_.probabilities(["empty"], [[1.0, 1.0]]), [[0.5, 0.5]])


def test_wrong_names_and_values_are_refused(dirty):
    for call, words in (
        (lambda: sf.method("ro-acb"), "did you mean 'ro-accb'"),
        (lambda: sf.method("ro-accb", taw=1), "did you mean 'tau'"),
        (lambda: sf.method("accb", critic="caped"), "did you mean 'capped'"),
        (lambda: sf.method("accb", filter="medain"), "no filter 'medain'"),
        (lambda: sf.Method(critic=sf.critics.Capped(tau=0.0)).fit(dirty), "tau is 0.0"),
        (lambda: sf.Method(critic_penalty=-1).fit(dirty), "critic_penalty is -1"),
        (lambda: sf.method("accb", actor_penalty=np.nan), "actor_penalty is nan"),
        (lambda: sf.method("saccb", minimum_probability=0.6), "below 0.5"),
        (lambda: sf.Method().fit(dirty.to_frame()), "fit takes Trajectories"),
    ):
        with pytest.raises(sf.InputError, match=words):
            call()


def test_results_before_fitting_are_refused_kindly():
    with pytest.raises(sf.NotFittedError, match=r"call fit\(logs\) first"):
        _ = sf.method("ro-accb").coef_
    with pytest.raises(AttributeError, match="no attribute 'coeff'"):
        _ = sf.method("ro-accb").coeff


@pytest.mark.parametrize("name", MYOPIC)
def test_pooling_learns_one_policy_for_anybody(name, dirty):
    pooled = sf.method(name, pooling="all").fit(dirty)
    as_one = sf.filters.clean(dirty, pooled.filter) if pooled.filter else dirty
    one = sf.Trajectories.from_arrays(
        as_one.state[as_one.order][None],
        as_one.action[as_one.order][None],
        as_one.outcome[as_one.order][None],
        participants=["x"],
    )
    alone = sf.method(name, filter=None).fit(one)
    assert_allclose(pooled.critic_coef_, alone.critic_coef_, rtol=1e-9)
    assert_array_equal(pooled.weights_[dirty.order], alone.weights_)
    states = np.random.default_rng(0).standard_normal((4, 3))
    expected = alone.policies_.probabilities(["x"] * 4, states)
    assert_allclose(pooled.policies_.probabilities(["never", "seen", "before", "!"], states), expected, rtol=1e-6)
    assert_allclose(pooled.policies_[77].probabilities(states), expected, rtol=1e-6)
    assert pooled.coefficients("pandas")["participant"].unique().tolist() == ["everyone"]
    assert len(pooled.outliers()) == (pooled.weights_ == 0).sum()
    assert len(pooled.policies_) == 1


def test_memory_of_a_pooled_fit(monkeypatch):
    """docs/scaling.md states the bytes per decision point; the logs themselves are 9 columns of 8 bytes."""
    monkeypatch.setattr(methods, "keep_freed_memory", lambda: None)  # It takes 32 MiB that it never touches.
    logs = sf.simulators.HeartSteps(participants=400).collect(sf.policies.coin(2), decision_points=150, seed=0)
    tracemalloc.start()
    sf.method("ro-accb", pooling="all").fit(logs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 45 * 8 * len(logs)


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_a_pooled_policy_survives_its_file(ending, dirty, tmp_path):
    policies = sf.method("ro-accb", pooling="all").fit(dirty).policies_
    policies.save(tmp_path / f"p.{ending}")
    back = sf.policies.load(tmp_path / f"p.{ending}")
    assert back.participants is None
    assert_array_equal(back.probabilities([123], [[1.0, 2, 3]]), policies.probabilities([123], [[1.0, 2, 3]]))


@pytest.mark.parametrize("name", ["ro-accb", "saccb", "linucb", "ro-linucb"])
def test_variables_that_are_not_seen_have_no_influence(name, dirty):
    seeing = ("weather", "fatigue")
    fitted = sf.method(name, critic_variables=seeing, policy_variables=seeing).fit(dirty)
    fewer = sf.Trajectories.from_frame(
        dirty.to_frame(),
        participant="participant",
        time="time",
        state=["weather", "fatigue"],
        action="action",
        outcome="outcome",
    )
    expected = sf.method(name).fit(fewer)
    seen = [0, 1, 3, 4, 5, 7]
    assert_allclose(fitted.critic_coef_[:, seen], expected.critic_coef_, rtol=1e-9)
    assert_array_equal(fitted.critic_coef_[:, [2, 6]], 0)
    state = np.random.default_rng(0).standard_normal((6, 3))
    found = fitted.policies_.probabilities(dirty.participants, state)
    assert_allclose(found, expected.policies_.probabilities(dirty.participants, state[:, [0, 2]]), atol=1e-7)


def test_a_policy_may_see_less_than_the_critic(dirty):
    fitted = sf.method("ro-accb", policy_variables=("engagement",)).fit(dirty)
    assert_array_equal(fitted.coef_[:, [0, 2]], 0)
    assert (fitted.coef_[:, [1, 3]] != 0).all()
    full = sf.method("ro-accb").fit(dirty)
    assert_array_equal(fitted.critic_coef_, full.critic_coef_)
    with pytest.raises(sf.InputError, match="did you mean 'engagement'"):
        sf.method("accb", policy_variables=("engagment",)).fit(dirty)
    with pytest.raises(sf.InputError, match="pooling"):
        sf.method("accb", pooling="none").fit(dirty)


def test_a_reward_that_never_changes_is_refused(dirty):
    """Once 82.6 % of it was "removed as outliers"."""
    constant = dirty.with_values(outcome=np.full(len(dirty), 7.25))
    for name in ("accb", "ro-accb", "hb-linucb"):
        with pytest.raises(sf.InputError, match=r"column 'outcome': the outcome is 7.25 at all 540 usable"):
            sf.method(name).fit(constant)
    own = dirty.outcome.copy()
    own[dirty.participant_index == 2] = 3.0
    with pytest.warns(sf.FitWarning, match="participant 2: the outcome never changes"):
        sf.method("accb").fit(dirty.with_values(outcome=own))


def test_logs_without_a_usable_decision_point_are_refused(dirty):
    """Once a fit to outcomes that are all missing gave coin flips."""
    with pytest.raises(sf.InputError, match="used: of 540 available ones column 'outcome' is always missing"):
        sf.method("ro-accb").fit(dirty.with_values(outcome=np.full(len(dirty), np.nan)))
    state = dirty.state.copy()
    state[:, 1] = np.nan
    with pytest.raises(sf.InputError, match="column 'engagement' is always missing"):
        sf.method("ro-accb").fit(dirty.with_values(state=state))
    half = np.arange(len(dirty)) % 2 == 0
    with pytest.raises(sf.InputError, match="each lacks the outcome or a state variable"):
        sf.method("ro-accb").fit(
            dirty.with_values(
                state=np.where(half[:, None], np.nan, dirty.state), outcome=np.where(half, dirty.outcome, np.nan)
            )
        )
    nobody = sf.Trajectories.from_arrays(
        np.zeros((2, 3, 1)), np.zeros((2, 3)), np.ones((2, 3)), available=np.zeros((2, 3), dtype=bool)
    )
    with pytest.raises(sf.InputError, match="no decision point can be used: nobody is ever available"):
        sf.method("ro-accb").fit(nobody)
