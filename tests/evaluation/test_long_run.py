import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

import surefoot as sf
from surefoot.evaluation import evaluate
from surefoot.evaluation.headlines import describe_long_run
from surefoot.evaluation.long_run import LongRunLogs
from surefoot.evaluation.page import render_page
from surefoot.reports.reward_units import RewardUnit

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
        assert "pay now and cost later" in describe_long_run(rows[name], RewardUnit("steps"))
    assert rows["never"].disagreement == rows["hb-ahead"].disagreement == ""
    assert rows["never"].difference.value == 0
    page = render_page(found, title="t")
    assert "In the long run" in page
    assert found.to_dict()["long_run"][1]["disagreement"]


def test_the_learned_policy_is_close_to_never_with_a_short_paired_interval(found):
    row = next(row for row in found.long_run if row.policy == "hb-ahead")
    assert row.difference.standard_error < 8 < row.value.standard_error
    assert -10 < row.difference.value < 25


def test_the_estimate_solves_the_equations_written_out():
    logs = SIM.collect(sf.policies.coin(2), decision_points=30, seed=1)
    data = LongRunLogs.of_logs(logs, sf.method("ahead").make_critic())
    send = np.full(len(data.rows), 0.3)
    value, influence = data.solve(np.column_stack([1 - send, send]))
    rows = logs.order.reshape(50, 30)
    z = np.concatenate([np.ones((50, 30, 1)), logs.state[rows]], axis=-1)
    x = np.concatenate([z, logs.action[rows][..., None] * z], axis=-1)[:, :-1]
    difference = x - np.concatenate([z, 0.3 * z], axis=-1)[:, 1:]
    difference[..., 0] = 1
    system = np.einsum("nti,ntj->ij", x, difference)
    w = np.linalg.solve(system, np.einsum("nti,nt->i", x, logs.reward[rows][:, :-1]))
    assert_allclose(value, w[0], rtol=1e-8)
    error = logs.reward[rows][:, :-1] - difference @ w
    assert_allclose(influence, np.einsum("nti,nt->ni", x, error) @ np.linalg.inv(system)[0], rtol=1e-6, atol=1e-9)


def test_nights_unavailability_and_constant_states_do_no_harm():
    logs = SIM.collect(sf.policies.coin(2), decision_points=60, seed=2)
    available = np.random.default_rng(0).random(len(logs)) < 0.9
    table = logs.to_frame("pandas").assign(available=available, constant=1.0)
    table.loc[~available, ["action", "probability", "reward"]] = np.nan
    roles = {"participant": "participant", "time": "time", "action": "action", "reward": "reward"}
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
    few = logs.with_values(reward=np.where((logs.time < 2) & (logs.participant_index < 4), logs.reward, np.nan))
    with pytest.raises(sf.InputError, match="too few for a long-run value"):
        LongRunLogs.of_logs(few, sf.method("ahead").make_critic())
    doubled = np.column_stack([logs.state[:, 0], logs.state[:, 0]])
    same = sf.Trajectories.from_arrays(
        doubled[logs.order].reshape(50, 40, 2), *(v[logs.order].reshape(50, 40) for v in (logs.action, logs.reward))
    )
    with pytest.raises(sf.InputError, match="a state is a combination of others"):
        LongRunLogs.of_logs(same, sf.method("ahead").make_critic()).solve(np.tile([0.5, 0.5], (50 * 39, 1)))


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
