"""Long-run values against known truth, against the equations written out, and at the limits of the logs."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from typer.testing import CliRunner

import surefoot as sf
from surefoot.evaluation import evaluate
from surefoot.evaluation.off_policy import PEOPLE_DIFFER, value_long_run
from surefoot.learning.critics import Capped, Ridge
from surefoot.learning.horizon.long_run_value import PAIRS_PER_COEFFICIENT, LongRunLogs
from tests.reference.long_run import correct_for_people, jackknife_halves

SIM = sf.simulators.HeartSteps(participants=50)


TRUTH = {"never": 1500.0, "always": 1138.3, "coin": 1317.9, "oracle-myopic": 1284.2}


"""Closed forms, but the last, which is simulated."""


def collect(seed):
    return SIM.collect(sf.policies.coin(2), decision_points=210, seed=seed)


@pytest.fixture(scope="module")
def found():
    policies = {"hb-ahead": sf.method("hb-ahead"), "coin": sf.policies.coin(2), "oracle-myopic": SIM.oracle_myopic()}
    return evaluate(collect(3), policies, long_run=True)


def test_long_run_values_are_right_where_immediate_ones_are_not(found):
    for row in found.long_run:
        if row.policy in TRUTH:
            assert row.value.low < TRUTH[row.policy] < row.value.high
            assert row.value.standard_error < 50
    assert found.value("always").value.value - TRUTH["always"] > 200
    assert found.value("never").value.value - TRUTH["never"] < -200


def test_a_disagreement_is_said(found):
    rows = {row.policy: row for row in found.long_run}
    for name in ("coin", "always", "oracle-myopic"):
        assert rows[name].disagreement == "its prompts pay now and cost later"
        assert any(name in text and "pay now and cost later" in text for text in found.describe_long_run())
    assert rows["never"].disagreement == rows["hb-ahead"].disagreement == ""
    assert rows["never"].difference.value == 0
    page = found.to_html(title="t")
    assert "In the long run" in page
    assert found.to_dict()["long_run"][1]["disagreement"]


def test_the_learned_policy_is_close_to_never_with_a_short_paired_interval(found):
    row = next(row for row in found.long_run if row.policy == "hb-ahead")
    assert row.difference.standard_error < 8 < row.value.standard_error
    assert -10 < row.difference.value < 25


def write_out(logs, people, points, send):
    """φ, u, r, whose row it is and whether it is early, for a policy that sends with one probability."""
    rows = logs.order.reshape(people, points)
    state = logs.state[rows]
    z = np.concatenate([np.ones((people, points, 1)), state], axis=-1)
    features = np.concatenate([state, logs.action[rows][..., None] * z], axis=-1)[:, :-1]
    difference = features - np.concatenate([state, send * z], axis=-1)[:, 1:]
    person, point = np.indices((people, points - 1))
    flat = (features.reshape(-1, 7), difference.reshape(-1, 7), logs.outcome[rows][:, :-1].ravel(), person.ravel())
    return *flat, point.ravel() < (points - 1) / 2


def solve_fixed(data, send):
    return data.solve(np.tile([1 - send, send], (len(data.rows), 1)))


def test_the_estimate_solves_the_equations_written_out():
    logs = sf.simulators.HeartSteps(participants=12, spread=1.0).collect(sf.policies.coin(2), decision_points=30, seed=1)
    solution = solve_fixed(LongRunLogs.of_logs(logs, Ridge()), 0.3)
    *rows, early = write_out(logs, 12, 30, 0.3)
    value = jackknife_halves(*rows, early)
    assert_allclose(solution.value, value, rtol=1e-8)
    assert_allclose(solution.value - solution.corrected_value, correct_for_people(*rows, early), rtol=1e-6)
    # The influence is how η moves when a participant counts a little more.
    for participant in (0, 7):
        weights = 1 + 1e-6 * (rows[-1] == participant)
        moved = (jackknife_halves(*rows, early, weights) - value) / 1e-6
        assert_allclose(solution.influence[participant], moved, rtol=1e-3, atol=0.1)


def differ_in_level(people, points, rng):
    """Logs of people with a usual state and a usual outcome of their own, which go together.

    s′ = c + 0.6 s + 0.5 a + noise and r = b − 0.4 s + 0.3 a + noise: never earns E(b − c), always 0.2 less.
    """
    usual = rng.standard_normal(people)
    level = 2 * usual + 0.5 * rng.standard_normal(people)
    state, action, reward = np.zeros((people, points)), rng.integers(0, 2, (people, points)), np.zeros((people, points))
    now = 2.5 * usual + 1.5 * rng.standard_normal(people)
    for point in range(points):
        state[:, point] = now
        reward[:, point] = level - 0.4 * now + 0.3 * action[:, point] + rng.standard_normal(people)
        now = usual + 0.6 * now + 0.5 * action[:, point] + rng.standard_normal(people)
    half = np.full((people, points), 0.5)
    return sf.Trajectories.from_arrays(state[..., None], action, reward, probability=half, state_names=["mood"])


@pytest.mark.parametrize(("people", "points"), [(100, 42), (30, 60)])
def test_values_are_right_where_people_differ_in_level(people, points):
    """With one intercept for all, always seems 1.6 better than never, where it is 0.2 worse, and no interval covers."""
    rng = np.random.default_rng(people)
    differences, covers = [], 0
    for _ in range(40):
        logs = differ_in_level(people, points, rng)
        data = LongRunLogs.of_logs(logs, Ridge())
        decisions = {
            name: np.tile([1 - send, send], (len(data.rows), 1)) for name, send in (("never", 0.0), ("always", 1.0))
        }
        values, _ = value_long_run(data, decisions, {"never": 0.0, "always": 0.3})
        change = values[1].difference
        differences.append(change.value)
        covers += change.low < -0.2 < change.high
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    assert abs(np.mean(differences) + 0.2) < 3.5 * error + 0.01
    assert covers >= 34


def value_baselines(simulator, points, seed):
    logs = simulator.collect(sf.policies.coin(2), decision_points=points, seed=seed)
    data = LongRunLogs.of_logs(logs, Ridge())
    decisions = {name: np.tile([1 - send, send], (len(data.rows), 1)) for name, send in (("never", 0.0), ("always", 1.0))}
    return value_long_run(data, decisions, {"never": 0.0, "always": 0.0})


def test_values_are_right_where_people_react_differently_and_the_report_says_so():
    """With one intercept for all the error of always is −330 ± 39, with intercepts alone that of never is −64 ± 10."""
    errors, noted = [], 0
    for seed in range(12):
        simulator = sf.simulators.HeartSteps(participants=150, spread=2.0, seed=seed)
        values, notes = value_baselines(simulator, 70, seed)
        truth = [settle(simulator, send) for send in (0.0, 1.0)]
        errors.append([value.value.value - right for value, right in zip(values, truth, strict=True)])
        noted += any("people differ in how they react" in note for note in notes)
    error = np.std(errors, axis=0, ddof=1) / np.sqrt(len(errors))
    assert (np.abs(np.mean(errors, axis=0)) < 3 * error).all() and (error < 40).all()
    assert noted >= 11


def settle(simulator, send):
    """What people earn on average, in closed form, when the same share of decision points is sent to for ever."""
    transition, worth = simulator.transition_coef, simulator.critic_coef
    mean = transition[:, :4] + send * transition[:, 4:]
    state = np.linalg.solve(np.eye(3) - np.swapaxes(mean[:, 1:], 1, 2), mean[:, 0, :, None])[..., 0]
    z = np.column_stack([np.ones(len(state)), state])
    return float((z * (worth[:, :4] + send * worth[:, 4:])).sum(axis=1).mean())


def test_people_who_are_alike_are_seldom_said_to_differ():
    simulator = sf.simulators.HeartSteps(participants=40)
    said = [value_baselines(simulator, 42, seed)[1] for seed in range(40)]
    assert sum(bool(notes) for notes in said) <= 6


def test_short_series_are_said_to_be_too_short():
    simulator = sf.simulators.HeartSteps(participants=60)
    (note,) = value_baselines(simulator, 20, 1)[1]
    assert note.startswith(
        "the median participant has 19 consecutive decision points, fewer than 30: the long-run values are"
    )
    assert not value_baselines(simulator, 31, 1)[1]


def test_differences_in_short_series_are_said_to_need_longer_ones():
    simulator = sf.simulators.HeartSteps(participants=100, spread=2.0)
    said = "people differ and the median participant has 44 consecutive decision points, fewer than 60: the intervals"
    assert value_baselines(simulator, 45, 1)[1][1].startswith(said)
    assert len(value_baselines(simulator, 61, 1)[1]) == 1


def test_halves_that_cannot_be_solved_are_said():
    """In the second half nothing was sent any more."""
    logs = SIM.collect(sf.policies.coin(2), decision_points=60, seed=1)
    state, action, reward = (values[logs.order].reshape(50, 60, -1) for values in (logs.state, logs.action, logs.outcome))
    action[:, 30:] = 0
    stopped = sf.Trajectories.from_arrays(
        state, action[..., 0], reward[..., 0], probability=np.where(np.arange(60) < 30, 0.5, np.ones((50, 60)))
    )
    found = evaluate(stopped, {}, long_run=True)
    said = "one half of the decision points alone does not determine the long-run value"
    assert any(note.startswith(said) for note in found.notes)
    assert said in " ".join(found.summary().split()) and said in found.to_html()


def test_a_variable_that_never_changes_within_people_is_no_obstacle():
    logs = collect(0)
    age = np.repeat(np.random.default_rng(0).normal(40, 10, 50), 210)
    wide = sf.Trajectories.from_arrays(
        np.column_stack([logs.state[logs.order], age]).reshape(50, 210, 4),
        *(values[logs.order].reshape(50, 210) for values in (logs.action, logs.outcome)),
    )
    solution = solve_fixed(LongRunLogs.of_logs(wide, Ridge()), 0.0)
    alone = solve_fixed(LongRunLogs.of_logs(logs, Ridge()), 0.0)
    assert_allclose(solution.value, alone.value, rtol=0.03)


def test_nights_unavailability_and_constant_states_do_no_harm():
    logs = SIM.collect(sf.policies.coin(2), decision_points=60, seed=2)
    available = np.random.default_rng(0).random(len(logs)) < 0.9
    table = logs.to_frame("pandas").assign(available=available, constant=1.0)
    table.loc[~available, ["action", "probability", "outcome"]] = np.nan
    roles = {"participant": "participant", "time": "time", "action": "action", "outcome": "outcome"}
    roles |= {"available": "available", "probability": "probability"}
    holed = sf.Trajectories.from_frame(table, state=[*logs.state_names, "constant"], **roles)
    found = evaluate(holed, {}, long_run=True, day_boundary=5)
    rows = {row.policy: row for row in found.long_run}
    assert rows["never"].value.low < 1500 < rows["never"].value.high
    assert rows["always"].difference.high < 0


def test_what_cannot_be_told_is_refused():
    never = SIM.collect(sf.policies.never(2), decision_points=40, seed=0)
    with pytest.raises(sf.InputError, match="action 'send' is never followed"):
        evaluate(never, {}, long_run=True)
    logs = SIM.collect(sf.policies.coin(2), decision_points=40, seed=0)
    few = logs.with_values(outcome=np.where((logs.time < 2) & (logs.participant_index < 4), logs.outcome, np.nan))
    with pytest.raises(sf.InputError, match="too few for a long-run value"):
        LongRunLogs.of_logs(few, Ridge())
    doubled = np.column_stack([logs.state[:, 0], logs.state[:, 0]])
    same = sf.Trajectories.from_arrays(
        doubled[logs.order].reshape(50, 40, 2), *(v[logs.order].reshape(50, 40) for v in (logs.action, logs.outcome))
    )
    with pytest.raises(sf.InputError, match="a state is a combination of others"):
        LongRunLogs.of_logs(same, Ridge()).solve(np.tile([0.5, 0.5], (50 * 39, 1)))


def test_the_command_prints_it(tmp_path):
    from surefoot.cli import app

    logs = sf.simulators.HeartSteps(participants=12).collect(sf.policies.coin(2), decision_points=40, seed=0)
    logs.to_frame("pandas").to_csv(tmp_path / "logs.csv", index=False)
    (tmp_path / "study.toml").write_text(
        '[columns]\nparticipant = "participant"\ntime = "time"\nprobability = "probability"\n'
        + "".join(f"[state.{name}]\n" for name in logs.state_names)
        + '[method]\nname = "ahead"\n',
        encoding="utf-8",
    )
    command = ["evaluate", str(tmp_path / "logs.csv"), "--study", str(tmp_path / "study.toml"), "--long-run"]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.output
    assert "In the long run ahead is worth" in said.output
    numbers = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert {row["policy"] for row in numbers["long_run"]} == {"ahead", "never", "always"}


def test_long_run_intervals_are_students_over_people():
    logs = sf.simulators.HeartSteps(participants=12).collect(sf.policies.coin(2), decision_points=60, seed=1)
    data = LongRunLogs.of_logs(logs, Ridge())
    decisions = {name: np.tile(row, (len(data.rows), 1)) for name, row in (("never", [1.0, 0]), ("half", [0.5, 0.5]))}
    (never, half), notes = value_long_run(data, decisions, {"never": 10.0, "half": 14.0})
    differ = data.solve(decisions["never"]).p_value < PEOPLE_DIFFER
    assert any("people differ in how they react" in note for note in notes) == differ
    value, own = data.solve(decisions["half"]).correct(differ)
    nothing, own_nothing = data.solve(decisions["never"]).correct(differ)
    assert (never.difference.value, never.immediate_difference, half.immediate_difference) == (0, 0, 4)
    for found, middle, pull in ((half.value, value, own), (half.difference, value - nothing, own - own_nothing)):
        error = np.sqrt((pull**2).sum() * 12 / 11)
        assert_allclose(found, (middle, error, *stats.t.interval(0.95, 11, middle, error)))


def make_logs(people=4, points=30, *, gap=1, variables=2, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    state = rng.standard_normal((people, points, variables))
    action = np.resize([0, 1], (people, points))
    reward = 1 + state[..., 0] + 0.5 * action + 0.1 * rng.standard_normal((people, points))
    time = np.tile(gap * np.arange(points), (people, 1))
    return sf.Trajectories.from_arrays(scale * state, action, reward, time=time, probability=np.full((people, points), 0.5))


def test_decision_points_further_apart_than_the_gap_do_not_follow_each_other():
    logs = make_logs(gap=3)
    for gap in (1, 2):
        with pytest.raises(sf.InputError, match="is never followed by a decision point with a known state"):
            LongRunLogs.of_logs(logs, Ridge(), max_gap=gap)
    found = LongRunLogs.of_logs(logs, Ridge(), max_gap=3)
    assert len(found.rows) == 4 * 29
    assert (logs.time[found.following] - logs.time[found.rows] == 3).all()
    values = evaluate(logs, {}, long_run=True, max_gap=3).long_run
    assert [row.policy for row in values] == ["never", "always"]
    with pytest.raises(sf.InputError, match="never followed"):
        evaluate(logs, {}, long_run=True)


def test_nights_are_known_where_the_day_is():
    logs = make_logs(points=40)
    assert LongRunLogs.of_logs(logs, Ridge()).nuisances.shape[1] == 0
    night = LongRunLogs.of_logs(logs, Ridge(), day_boundary=5).nuisances
    assert night.shape == (160, 1) and night.sum() == 4 * 7
    assert [row.value.value for row in evaluate(logs, {}, long_run=True, day_boundary=5).long_run] != [
        row.value.value for row in evaluate(logs, {}, long_run=True).long_run
    ]


def test_so_many_pairs_and_two_people_are_enough():
    """Two state variables and two actions have six coefficients: thirty pairs."""
    assert PAIRS_PER_COEFFICIENT == 5
    assert len(LongRunLogs.of_logs(make_logs(2, 16), Ridge()).rows) == 30
    with pytest.raises(sf.InputError, match=r"28 consecutive decision points with outcomes are too few.*at least 30 are"):
        LongRunLogs.of_logs(make_logs(2, 15), Ridge())
    with pytest.raises(sf.InputError, match="of 2 people or more"):
        LongRunLogs.of_logs(make_logs(1, 60), Ridge())


def test_an_action_that_nothing_follows_is_named():
    logs = make_logs()
    never = sf.Trajectories.from_arrays(
        logs.state.reshape(4, 30, 2), np.zeros((4, 30)), logs.outcome.reshape(4, 30), probability=np.ones((4, 30))
    )
    with pytest.raises(sf.InputError, match="action 'send' is never followed by a decision point"):
        LongRunLogs.of_logs(never, Ridge())


def test_values_do_not_depend_on_the_units_of_states_and_constant_ones_are_left_out():
    small, large = (LongRunLogs.of_logs(make_logs(scale=scale), Ridge()) for scale in (1e-3, 1e3))
    assert small.varying.tolist() == [True, True]
    chances = np.tile([0.4, 0.6], (len(small.rows), 1))
    assert_allclose(small.solve(chances).value, large.solve(chances).value, rtol=1e-9)
    logs = make_logs()
    constant = np.column_stack([logs.state, np.full(len(logs), 7.0)]).reshape(4, 30, 3)
    wide = sf.Trajectories.from_arrays(constant, logs.action.reshape(4, 30), logs.outcome.reshape(4, 30))
    found = LongRunLogs.of_logs(wide, Ridge())
    assert found.varying.tolist() == [True, True, False]
    assert_allclose(found.solve(chances).value, LongRunLogs.of_logs(logs, Ridge()).solve(chances).value, rtol=1e-9)


def test_a_state_that_repeats_another_is_refused():
    logs = make_logs()
    twice = np.column_stack([logs.state, logs.state[:, 0]]).reshape(4, 30, 3)
    wide = sf.Trajectories.from_arrays(twice, logs.action.reshape(4, 30), logs.outcome.reshape(4, 30))
    found = LongRunLogs.of_logs(wide, Ridge())
    with pytest.raises(sf.InputError, match="a state is a combination of others"):
        found.solve(np.tile([0.5, 0.5], (len(found.rows), 1)))


def test_rows_without_an_outcome_or_a_known_next_state_are_left_out():
    logs = make_logs()
    reward, state = logs.outcome.copy(), logs.state.copy()
    reward[logs.order[3]], state[logs.order[10], 0] = np.nan, np.nan
    found = LongRunLogs.of_logs(logs.with_values(outcome=reward, state=state), Ridge())
    gone = set(range(29)) - {int(np.flatnonzero(logs.order == row)[0]) for row in found.rows}
    assert gone == {3, 9, 10}


def test_what_the_critic_removes_is_left_out():
    logs = make_logs()
    reward = logs.outcome.copy()
    reward[logs.order[5]] = 1e4
    found = LongRunLogs.of_logs(logs.with_values(outcome=reward), Capped())
    assert logs.order[5] not in found.rows and logs.order[5] in LongRunLogs.of_logs(logs, Ridge()).rows
    assert len(found.rows) > 0.8 * 4 * 29
