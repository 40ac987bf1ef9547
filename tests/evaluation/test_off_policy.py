"""Values of policies against their formulas, against known truth, and at the limits of the warnings."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression

import surefoot as sf
from surefoot.evaluation import evaluate
from surefoot.evaluation.off_policy import assign_folds, expect_rewards
from surefoot.inference.intervals import Interval, difference_interval, ratio_interval
from surefoot.learning.critics import Ridge
from surefoot.learning.critics.regressor import make_critic
from surefoot.policies.features import critic_features
from surefoot.policies.rules import Boltzmann
from surefoot.study import CollectionSection
from tests.problems import fit_high_breakdown
from tests.studies import TREATED, many

TARGET = sf.policies.Policy(Boltzmann(np.array([[1.0, 1.0, -0.3, 0.5]])), ("nothing", "send"), None)


@pytest.fixture(scope="module")
def logs():
    return many(1, 12, 40, seed=3)[0][0]


def test_estimators_are_their_formulas(logs):
    found = evaluate(logs, {"target": TARGET})
    pi, rows = TARGET.probabilities(logs.state), np.arange(len(logs))
    ratio = pi[rows, logs.action] / np.where(logs.action == 1, TREATED, 1 - TREATED)
    fold = assign_folds(logs, "person", 5, 0)
    expected = expect_rewards(logs, fold, critic=Ridge(), pooling="all")
    direct = (pi * expected).sum(axis=1)
    value = {name: found.value("target", name).value.value for name in ("ips", "snips", "direct", "doubly robust")}
    assert_allclose(value["ips"], (ratio * logs.outcome).mean())
    assert_allclose(value["snips"], (ratio * logs.outcome).sum() / ratio.sum())
    assert_allclose(value["direct"], direct.mean())
    assert_allclose(value["doubly robust"], (direct + ratio * (logs.outcome - expected[rows, logs.action])).mean())
    assert_allclose(found.overlap[0].effective_sample_size, ratio.sum() ** 2 / (ratio**2).sum())
    assert_allclose(found.overlap[0].send_rate, pi[:, 1].mean())
    logged = found.value("as logged").value
    assert_allclose(logged.value, logs.outcome.mean())
    assert_allclose(found.value("target", "snips").difference.value, value["snips"] - logged.value)


def test_the_logging_policy_judged_by_its_own_logs_is_the_mean_of_the_logs(logs):
    found = evaluate(logs, {"same": sf.policies.fixed([1 - TREATED, TREATED])})
    for estimator in ("ips", "snips"):
        value = found.value("same", estimator)
        assert_allclose(value.value, found.value("as logged").value)
        assert value.difference.value == pytest.approx(0, abs=1e-9)
        assert (value.difference.low, value.difference.high) == (value.difference.value, value.difference.value)
    assert_allclose(found.overlap[0].effective_sample_size, len(logs))


def test_rewards_are_expected_by_those_who_did_not_see_them(logs):
    """With hardly any penalty the critic is scikit-learn's least squares on the other folds."""
    fold = assign_folds(logs, "person", 4, seed=1)
    found = expect_rewards(logs, fold, critic=Ridge(), pooling="all", penalty=1e-9)
    for part in range(4):
        other, own = fold != part, fold == part
        x = critic_features(logs.state, logs.action, 2)
        model = LinearRegression(fit_intercept=False).fit(x[other], logs.outcome[other])
        for action in range(2):
            x = critic_features(logs.state[own], np.full(own.sum(), action), 2)
            assert_allclose(found[own, action], model.predict(x), rtol=1e-6)


@pytest.mark.parametrize("pooling", ["person", "all"])
def test_an_honest_value_of_a_policy_learned_from_noise_is_not_flattered(pooling):
    """Where sending does nothing every policy earns the same; judged by its own logs a learned one seems to earn more."""
    gains, honest = [], []
    rng = np.random.default_rng(0)
    for _ in range(20):
        state, action = rng.standard_normal((20, 30, 3)), rng.integers(0, 2, size=(20, 30))
        noise = sf.Trajectories.from_arrays(state, action, rng.standard_normal((20, 30)), probability=np.full((20, 30), 0.5))
        method = sf.method("accb", pooling=pooling)
        # Policies that do not say what they were learned from cannot be refused.
        unknown = replace(method.fit(noise).policies_, training=None)
        gains.append(evaluate(noise, {"it": unknown}).value("it", "snips").difference.value)
        honest.append(evaluate(noise, {"it": sf.method("accb", pooling=pooling)}).value("it").difference.value)
    error = np.std(honest) / np.sqrt(20)
    assert abs(np.mean(honest)) < 3 * error
    assert np.mean(gains) > 4 * error


def test_unavailable_and_unusable_rows_do_not_count(logs):
    free = np.ones((12, 40), dtype=bool)
    free[:, ::7] = False
    arrays = {name: getattr(logs, name)[logs.order].reshape(12, 40, *getattr(logs, name).shape[1:]) for name in
              ("state", "action", "outcome", "probability")}  # fmt: skip
    outcome = np.where(free, arrays["outcome"], 1e9)
    outcome[:, 3] = np.nan
    part = sf.Trajectories.from_arrays(
        arrays["state"],
        np.where(free, arrays["action"], 0),
        outcome,
        probability=np.where(free, arrays["probability"], np.nan),
        available=free,
    )
    assert evaluate(part, {"target": TARGET}).decision_points == part.usable.sum()
    assert evaluate(part, {"target": TARGET}).value("as logged").value.value == pytest.approx(
        outcome[free & ~np.isnan(outcome)].mean()
    )


def test_three_actions_and_a_capped_critic():
    rng = np.random.default_rng(0)
    state, action = rng.standard_normal((15, 40, 1)), rng.integers(0, 3, size=(15, 40))
    logs = sf.Trajectories.from_arrays(
        state, action, action + 0.1 * state[..., 0], probability=np.full((15, 40), 1 / 3), actions=3
    )
    found = evaluate(logs, {"second": sf.policies.fixed([0, 0, 1])}, critic="capped")
    assert_allclose(found.value("second").value.value, 2 + 0.1 * state.mean(), atol=1e-2)
    assert_allclose(found.value("always send 1", "direct").value.value, 1 + 0.1 * state.mean(), atol=3e-2)
    assert_allclose(found.value("always send 2", "direct").value.value, 2 + 0.1 * state.mean(), atol=3e-2)


def test_poor_overlap_is_said(logs):
    rare = sf.Trajectories.from_arrays(
        logs.state[logs.order].reshape(12, 40, 3),
        np.tile(np.arange(40) == 7, (12, 1)),
        logs.outcome[logs.order].reshape(12, 40),
        probability=np.where(np.tile(np.arange(40) == 7, (12, 1)), 0.025, 0.975),
    )
    found = {row.policy: row for row in evaluate(rare, {}).overlap}
    assert found["always"].effective_sample_size == pytest.approx(12)
    assert "12 decision points would (of 480)" in found["always"].warning
    assert not found["never"].warning


def test_one_decision_point_that_carries_the_weight_is_said():
    """600 decision points, one of which was sent with probability 1/40."""
    rng = np.random.default_rng(0)
    action, probability = np.ones((20, 30), dtype=int), np.ones((20, 30))
    probability[3, 4] = 1 / 40
    logs = sf.Trajectories.from_arrays(
        rng.standard_normal((20, 30, 1)), action, rng.standard_normal((20, 30)), probability=probability
    )
    found = next(row for row in evaluate(logs, {}).overlap if row.policy == "always")
    assert found.largest_ratio == pytest.approx(40)
    assert found.effective_sample_size == pytest.approx(639**2 / (599 + 1600))
    assert found.warning == "one decision point carries 6 % of the weight: a probability near 0 was logged"


def test_a_constant_added_to_every_reward_is_added_to_every_value(logs):
    """The intercept of the critic that judges is free; where it shrinks, the direct method is off by thousands."""
    raised = logs.with_values(outcome=logs.outcome + 1e6)
    before, after = (evaluate(one, {"target": TARGET}, cross_fit="time") for one in (logs, raised))
    for estimator in ("snips", "direct", "doubly robust"):
        for policy in ("target", "never", "always"):
            shift = after.value(policy, estimator).value.value - before.value(policy, estimator).value.value
            assert shift == pytest.approx(1e6, abs=0.01), (policy, estimator)


def test_limits_hold_for_the_policies_and_not_for_what_they_are_compared_with(logs):
    found = evaluate(logs, {"it": sf.policies.fixed([0.0, 1.0])}, clip_probabilities=lambda p: 0.25 + p / 2)
    sends = {row.policy: row.send_rate for row in found.overlap}
    assert sends == {"it": 0.75, "never": 0.0, "always": 1.0}


@pytest.mark.parametrize("cross_fit", ["person", "time"])
def test_every_critic_judges_by_its_own_fit(cross_fit):
    """`high-breakdown` once computed ridge and said high-breakdown."""
    logs = many(1, 12, 60, seed=3)[0][0]
    logs = sf.simulators.contaminate(logs, mechanism="prompted", ratio=0.1, strength=5, seed=1).logs
    fold = assign_folds(logs, cross_fit, 3, 0)
    pooling = {"person": "all", "time": "person"}[cross_fit]
    state = (logs.state - logs.state.mean(axis=0)) / logs.state.std(axis=0)
    units = [np.arange(len(logs))] if pooling == "all" else [logs.participant_index == k for k in range(12)]
    found = {
        name: expect_rewards(logs, fold, critic=make_critic(name), pooling=pooling) for name in ("ridge", "high-breakdown")
    }
    assert not np.allclose(found["ridge"], found["high-breakdown"])
    penalty = np.array([0.0, *[1.0] * 7])
    for part, unit in itertools.product(range(3), units):
        own = np.flatnonzero(np.isin(np.arange(len(logs)), np.arange(len(logs))[unit]))
        s, a, r = (values[own][None] for values in (state, logs.action, logs.outcome))
        weights = (fold[own] != part).astype(float)[None]
        fit = fit_high_breakdown(critic_features(s, a, 2), r, weights, state=s, action=a, penalty=penalty)
        held_out = own[fold[own] == part]
        for action in range(2):
            x = critic_features(state[held_out], np.full(len(held_out), action), 2)
            assert_allclose(found["high-breakdown"][held_out, action], x @ fit.coef[0], rtol=1e-9)


def test_what_cannot_be_judged_is_refused(logs):
    unknown = sf.Trajectories.from_arrays(np.zeros((2, 3, 1)), np.ones((2, 3)), np.arange(6.0).reshape(2, 3))
    with pytest.raises(
        sf.InputError, match=r"row 0, column 'probability', participant 0: .* is missing \(6 of 6 .*study.toml"
    ):
        evaluate(unknown, {})
    with pytest.raises(sf.InputError, match="no decision point can be used"):
        evaluate(sf.Trajectories.from_arrays(np.zeros((2, 3, 1)), np.ones((2, 3)), np.full((2, 3), np.nan)), {})
    with pytest.raises(sf.InputError, match=r"'mine' learns a policy per participant.*pooling = 'all'"):
        evaluate(logs, {"mine": sf.method("accb")}, cross_fit="person")
    with pytest.raises(sf.InputError, match="no cross-fitting 'week'"):
        evaluate(logs, {}, cross_fit="week")
    with pytest.raises(sf.InputError, match="3 actions cannot be judged by logs with 2"):
        evaluate(logs, {"three": sf.policies.coin(3)})
    with pytest.raises(sf.InputError, match="there is no critic 'lasso'"):
        evaluate(logs, {}, critic="lasso")
    with pytest.raises(sf.InputError, match="folds is 1"):
        evaluate(logs, {}, folds=1)


def test_with_three_actions_every_baseline_is_one_action_and_every_action_is_tabulated():
    """`always` was once an even mix of walk and stretch, and a switch from one to the other showed nowhere."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, 3, size=(10, 40))
    logs = sf.Trajectories.from_arrays(
        rng.standard_normal((10, 40, 1)),
        *(action, action + rng.standard_normal((10, 40))),
        probability=np.full((10, 40), 1 / 3),
        actions=["nothing", "walk", "stretch"],
    )
    found = evaluate(logs, {"switch": sf.policies.fixed([0.2, 0.0, 0.8])})
    rows = {row.policy: row for row in found.overlap}
    assert list(rows) == ["switch", "never", "always walk", "always stretch"]
    assert rows["switch"].action_rates == pytest.approx((0.2, 0.0, 0.8))
    assert rows["always walk"].action_rates == (0.0, 1.0, 0.0)
    assert [row.description for row in found.overlap][1:] == [
        f"{name} at every decision point" for name in logs.action_names
    ]
    assert [(row.policy, row.other) for row in found.contrasts] == [("always walk", "never"), ("always stretch", "never")]
    assert found.value("always stretch").value.value - found.value("never").value.value == pytest.approx(2, abs=0.4)
    printed, page = found.summary(), found.to_html()
    assert "nothing % walk % stretch % effective sample" in " ".join(printed.split())
    assert "always walk: walk at every decision point" in printed
    for action_name in logs.action_names:
        assert f"<th>{action_name}</th>" in page
    assert "stretch at every decision point" in page


def test_own_policies_may_be_functions_or_arrays(logs):
    expected = evaluate(logs, {"it": TARGET})
    probabilities = TARGET.probabilities(logs.state)
    for item in (
        TARGET.probabilities,
        lambda states: TARGET.probabilities(states)[:, 1],
        lambda states: TARGET.probabilities(states).tolist(),
        probabilities,
        probabilities[:, 1],
    ):
        found = evaluate(logs, {"it": item})
        assert_allclose(found.value("it").value, expected.value("it").value)
        assert_allclose(found.overlap[0].action_rates, expected.overlap[0].action_rates)
    for item, words in (
        (probabilities[:5], r"'it' gives probabilities of shape \(5, 2\); give one row for each of 480"),
        (lambda states: np.full((len(states), 2), 0.4), r"'it' gives \[0.4, 0.4\] at a decision point"),
        (lambda states: np.full(len(states), 1.5), r"'it' gives \[-0.5, 1.5\] at a decision point"),
        (np.full(len(logs), np.nan), "'it' gives .*nan"),
        (lambda states: np.full((len(states), 3), 1 / 3), "'it': a policy over 3 actions cannot be judged by logs with 2"),
    ):
        with pytest.raises(sf.InputError, match=words):
            evaluate(logs, {"it": item})


def test_policies_are_not_judged_by_what_they_were_learned_from(logs):
    for pooling in ("person", "all"):
        policies = sf.method("accb", pooling=pooling).fit(logs).policies_
        with pytest.raises(sf.InputError, match="'it' was learned from 480 of these 480 decision points"):
            evaluate(logs, {"it": policies})


def test_after_a_policy_that_learned_across_people_the_intervals_are_doubted(logs):
    rng = np.random.default_rng(0)
    send = rng.uniform(0.2, 0.8, len(logs))
    action = (rng.random(len(logs)) < send).astype(int)
    adaptive = replace(logs, action=action, probability=np.where(action == 1, send, 1 - send))
    pooled = CollectionSection(policy="pooled")
    found = evaluate(adaptive, {}, collection=pooled)
    assert "learned from several participants" in found.notes[0]
    assert "standard errors may be too small" in " ".join(found.summary().split())
    assert "standard errors may be too small" in found.to_html()
    assert "does not say how actions were chosen" in evaluate(adaptive, {}).notes[0]
    # As long as everybody was randomised alike nobody's outcome depends on another's.
    assert not evaluate(logs, {}, collection=pooled).notes


def test_results_show_themselves(logs, tmp_path):
    found = evaluate(logs, {"target": TARGET})
    assert repr(found).startswith("Values of policies: 12 people, 480 decision points\n")
    assert max(map(len, found.summary().splitlines())) <= 80
    assert "target is worth" in found.summary()
    assert found.to_html(tmp_path / "page.html", title="Mine") == (tmp_path / "page.html").read_text()
    assert "<h1>Mine</h1>" in found.to_html(title="Mine")
    assert found._repr_html_().startswith("<div><b>Values of policies")
    assert not [name for name in dir(sf.evaluation) if not name.startswith("_") and name not in sf.evaluation.__all__]


def test_as_frame_and_as_plain_numbers(logs):
    found = evaluate(logs, {"target": TARGET})
    table = found.to_frame("pandas")
    assert table.groupby("policy").size().to_dict() == {"target": 4, "never": 4, "always": 4, "as logged": 1}
    assert found.to_dict()["values"][0]["value"]["value"] == table["value"][0]


def coverage(studies, people, points, seed):
    logs, sim, state = many(studies, people, points, seed=seed)
    expected = sim.expected_reward(state)
    truth = (TARGET.probabilities(state) * expected).sum(axis=1).mean()
    logged = (expected @ [1 - TREATED, TREATED]).mean()
    hits, misses = {}, {}
    for k, one in enumerate(logs):
        found = evaluate(one, {"it": TARGET}, seed=k, checks=())
        for estimator in ("ips", "snips", "doubly robust"):
            value, difference = found.value("it", estimator).value, found.value("it", estimator).difference
            covered = (value.low <= truth <= value.high, difference.low <= truth - logged <= difference.high)
            hits.setdefault(estimator, []).append(covered)
            misses.setdefault(estimator, []).append(abs(value.value - truth))
    return {name: np.mean(rows, axis=0) for name, rows in hits.items()}, {
        name: np.mean(rows) for name, rows in misses.items()
    }


def test_intervals_cover_in_a_few_studies():
    hits, _ = coverage(60, 25, 30, seed=5)
    for estimator in ("snips", "doubly robust"):
        assert (hits[estimator] > 0.85).all()


@pytest.mark.slow
def test_intervals_cover_and_doubly_robust_is_closer():
    """500 studies of 30 people: value and difference to the logging policy within 92–98 %."""
    hits, misses = coverage(500, 30, 40, seed=11)
    for estimator in ("snips", "doubly robust"):
        assert ((hits[estimator] >= 0.92) & (hits[estimator] <= 0.98)).all(), hits
    assert misses["doubly robust"] < misses["ips"], misses


def send_always(people, points, probability, seed=0):
    """Everybody is always sent something, with the given probabilities."""
    rng = np.random.default_rng(seed)
    state, outcome = rng.standard_normal((people, points, 1)), rng.standard_normal((people, points))
    action = np.ones((people, points), dtype=int)
    return sf.Trajectories.from_arrays(state, action, outcome, probability=np.broadcast_to(probability, (people, points)))


def find_overlap(logs, policy="always"):
    return next(row for row in evaluate(logs, {}).overlap if row.policy == policy)


@pytest.mark.parametrize(("points", "warned"), [(10, False), (9, True)])
def test_a_hundred_decision_points_are_enough(points, warned):
    found = find_overlap(send_always(10, points, 1.0))
    assert (found.effective_sample_size, found.largest_ratio, found.send_rate) == (pytest.approx(10 * points), 1, 1)
    assert bool(found.warning) == warned


def test_a_policy_that_never_did_what_was_done_has_no_sample():
    found = find_overlap(send_always(10, 30, 1.0), "never")
    assert (found.effective_sample_size, found.largest_ratio, found.send_rate) == (0.0, 0.0, 0.0)
    assert "as much about this policy as 0 decision points would (of 300)" in found.warning


@pytest.mark.parametrize(("weight", "warning"), [(105, ""), (106, "one decision point carries 5 % of the weight")])
def test_one_decision_point_may_hold_a_twentieth_of_the_weight(weight, warning):
    """1,999 weights of 1 and one of w: w / (1999 + w) is a twentieth at w = 105.2."""
    probability = np.ones((20, 100))
    probability[3, 4] = 1 / weight
    found = find_overlap(send_always(20, 100, probability))
    assert_allclose(found.effective_sample_size, (1999 + weight) ** 2 / (1999 + weight**2))
    assert found.warning.split(":")[0] == warning


def test_values_are_paired_within_people():
    """Intervals are those of the totals of every participant; the direct method has none."""
    logs = sf.simulators.HeartSteps(participants=32).collect(sf.policies.coin(2), decision_points=10, seed=2)
    found = evaluate(logs, {"mostly": sf.policies.fixed([0.3, 0.7])}, seed=3)
    ratio = np.where(logs.action == 1, 0.7, 0.3) / 0.5
    index = logs.participant_index
    totals = [np.bincount(index, values) for values in (ratio * logs.outcome, ratio, logs.outcome, np.ones(len(logs)))]
    one = found.value("mostly", "snips")
    assert_allclose(one.value, ratio_interval(*totals[:2]))
    assert_allclose(one.difference, difference_interval(*totals))
    assert_allclose(found.value("mostly", "ips").value, ratio_interval(totals[0], totals[3]))
    assert_allclose(found.value("as logged").value, ratio_interval(*totals[2:]))
    assert found.value("as logged").difference == Interval(0.0, 0.0, 0.0, 0.0)
    direct = found.value("mostly", "direct")
    assert np.isnan(direct.value[1:]).all()
    assert np.isnan(direct.difference[1:]).all()
    assert_allclose(direct.difference.value, direct.value.value - logs.outcome.mean())
    assert (found.people, found.decision_points, found.cross_fit, found.critic) == (32, len(logs), "person", "ridge")
    (contrast,) = found.contrasts
    assert (contrast.policy, contrast.other) == ("always", "never")
    never, always = (found.value(name).value.value for name in ("never", "always"))
    assert_allclose(contrast.difference.value, always - never)
    assert contrast.difference.low < always - never < contrast.difference.high
    frame = found.to_frame("pyarrow").to_pydict()
    at = [place for place, name in enumerate(frame["policy"]) if name == "mostly"]
    assert [frame["estimator"][place] for place in at] == ["ips", "snips", "direct", "doubly robust"]
    for column, expected in (("value", one.value.value), ("low", one.value.low), ("standard_error", one.value[1])):
        assert frame[column][at[1]] == expected
    assert (frame["difference"][at[1]], frame["difference_low"][at[1]]) == (one.difference.value, one.difference.low)
    assert frame["difference_high"][at[1]] == one.difference.high
    plain = found.to_dict()
    assert plain["values"][at[1]]["difference"] == one.difference._asdict()
    assert plain["contrasts"][0]["difference"] == contrast.difference._asdict()
    assert plain["long_run"] == []
