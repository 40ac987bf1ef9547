"""Probabilities that were not used are refused or named wherever they are used, in files and in Python."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

import surefoot as sf
from surefoot import InputError
from surefoot.cli import app
from surefoot.log_checks import check_logs
from tests.log_checks.logs import find_check, make_logs

STUDY = """
[columns]
participant = "participant"
time = "time"
{probability}
[state.x]
[state.home]
kind = "yes/no"
[actions]
column = "sent"
{design}
[outcome]
column = "y"
[effects]
controls = ["x"]
[method]
name = "ts"
"""
ROLES = {"participant": "participant", "time": "time", "treatment": "sent", "outcome": "y"}
LOGS = {"participant": "participant", "time": "time", "state": ["x", "home"], "action": "sent", "outcome": "y"}


def make_table(people=20, points=40, seed=1, effect=20.0):
    """Sent with probability 0.8 at home and 0.3 elsewhere, where outcomes are lower by 100; the effect is 20 everywhere."""
    rng = np.random.default_rng(seed)
    size = people * points
    home = rng.integers(0, 2, size)
    p = np.where(home == 1, 0.8, 0.3)
    sent = (rng.random(size) < p).astype(int)
    return pa.table(
        {"participant": np.repeat(np.arange(people), points), "time": np.tile(np.arange(points), people),
         "x": rng.normal(size=size), "home": home, "sent": sent, "p_sent": p, "p_taken": np.where(sent == 1, p, 1 - p),
         "y": 300 + 200 * home + effect * sent + 50 * rng.normal(size=size)}
    )  # fmt: skip


def write(folder, column, probability_of, design=""):
    pyarrow.csv.write_csv(make_table(), folder / "logs.csv")
    probability = f'probability = "{column}"\nprobability_of = "{probability_of}"' if column else ""
    (folder / "study.toml").write_text(STUDY.format(probability=probability, design=design))


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return " ".join(result.output.split())


WRONG = [("p_sent", "action taken", "sending"), ("p_taken", "sending", "action taken")]
COMMANDS = {
    "effects": ("effects", "logs.csv"),
    "size": ("size", "--days", "5", "--per-day", "5", "--effect", "10", "--pilot", "logs.csv"),
    "rehearse": ("rehearse", "logs.csv"),
    "prior": ("prior", "logs.csv"),
    "evaluate": ("evaluate", "logs.csv"),
}


@pytest.mark.parametrize(("column", "stated", "meant"), WRONG)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_commands_that_use_probabilities_refuse_another_meaning(tmp_path, monkeypatch, command, column, stated, meant):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, column, stated)
    with pytest.raises(InputError, match="where it must be 1") as refused:
        run(*command)
    assert f'write columns.probability_of = "{meant}"' in str(refused.value)


@pytest.mark.parametrize(("column", "stated", "meant"), WRONG)
def test_audit_calls_another_meaning_unsafe_and_fit_warns(tmp_path, monkeypatch, column, stated, meant):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, column, stated)
    words = run("audit", "logs.csv")
    assert "unsafe probabilities" in words
    assert f'write columns.probability_of = "{meant}"' in words
    assert words.endswith("Verdict: unsafe")
    assert "where it must be 1" in run("fit", "logs.csv", "--out", "fitted")


def test_fit_of_a_method_that_centres_actions_refuses_at_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "p_sent", "action taken")
    text = (tmp_path / "study.toml").read_text() + "[method.parameters]\ncentre_actions = true\n"
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(InputError, match="where it must be 1"):
        run("fit", "logs.csv", "--out", "fitted")


def test_effects_of_the_right_meaning_hold_the_truth(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for column, meaning in (("p_sent", "sending"), ("p_taken", "action taken")):
        write(tmp_path, column, meaning)
        report = sf.effects.analyse_study(sf.Study.load("study.toml"), "logs.csv")
        assert report.table[0].low < 20 < report.table[0].high
        assert {check.verdict for check in report.checks} == {"fine"}


@pytest.mark.parametrize(("column", "stated", "meant"), WRONG)
def test_frames_refuse_another_meaning(column, stated, meant):
    for estimate in (sf.effects.wcls, sf.effects.analyse):
        with pytest.raises(InputError, match=f'they look like those of .*probability_of = "{meant}"'):
            estimate(make_table(), probability=column, probability_of=stated, **ROLES)
    logs = sf.Trajectories.from_frame(make_table(), probability=column, probability_of=stated, **LOGS)
    with pytest.warns(sf.FitWarning, match="where it must be 1; they look like those of .* This fit does not use them"):
        sf.method("accb").fit(logs)
    with pytest.raises(InputError, match="where it must be 1"):
        sf.method("accb", centre_actions=True).fit(logs)
    assert find_check(check_logs(logs), "probabilities").verdict == "unsafe"


def test_an_update_warns_too():
    logs = sf.Trajectories.from_frame(make_table(), probability="p_sent", probability_of="action taken", **LOGS)
    early = logs.participant == 0
    method = sf.method("linucb").fit(logs[early])
    with pytest.warns(sf.FitWarning, match="where it must be 1"):
        method.update(logs[~early])


def test_a_number_or_a_column_for_each_treatment_is_checked():
    with pytest.raises(InputError, match="mean weight of 'treatment' is"):
        sf.effects.wcls(make_table(), probability=0.3, **ROLES)
    three = make_table()
    sent = np.random.default_rng(0).integers(0, 3, len(three))
    three = three.set_column(three.column_names.index("sent"), "sent", pa.array(sent))
    third = three.append_column("p1", pa.array(np.full(len(three), 1 / 3))).append_column(
        "p2", pa.array(np.full(len(three), 1 / 3))
    )
    assert len(sf.effects.wcls(third, probability=["p1", "p2"], **ROLES).params) == 2
    wrong = third.set_column(third.column_names.index("p2"), "p2", pa.array(np.full(len(three), 0.6)))
    with pytest.raises(InputError, match="column 'p1', 'p2': the probabilities cannot be those of sending"):
        sf.effects.wcls(wrong, probability=["p1", "p2"], **ROLES)


def test_a_design_that_was_not_followed_comes_first_with_the_variable_and_its_shares(tmp_path, monkeypatch):
    """Stated as a coin, sent by home: today 120 and more, where 20 is right, and home is no control."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, None, "", "probabilities = [0.45, 0.55]")
    for words in (run("effects", "logs.csv"), run("audit", "logs.csv")):
        assert "actions follow 'home' beyond their stated probabilities" in words
        assert "(stated: 55 %) and at" in words
        assert "either the stated probabilities are not those that were used (log those)" in words
    assert run("effects", "logs.csv").startswith("unsafe: balance: actions follow 'home'")
    report = sf.effects.analyse_study(sf.Study.load("study.toml"), "logs.csv")
    check = find_check(report.checks, "balance")
    assert check.verdict == "unsafe"
    assert check.numbers["send"]["home"]["slope"] == pytest.approx(0.25, abs=0.05)
    assert report.table[0].low > 100


def test_a_design_that_is_wrong_on_average_is_refused_with_the_variable_that_was_followed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, None, "", "probabilities = [0.7, 0.3]")
    with pytest.raises(InputError, match=r"where it must be 1; actions follow 'home' beyond .*; log the probability"):
        run("effects", "logs.csv")
    words = run("audit", "logs.csv")
    assert "unsafe probabilities" in words and "unsafe balance" in words


def test_shares_are_named_in_the_unit_of_the_file(tmp_path):
    rng = np.random.default_rng(5)
    size = 900
    warm = rng.normal(20, 5, size)
    sent = (rng.random(size) < np.where(warm > 20, 0.7, 0.3)).astype(int)
    table = {"participant": np.repeat(np.arange(15), 60), "time": np.tile(np.arange(60), 15), "warm": warm, "sent": sent,
             "p": np.full(size, 0.5), "y": rng.normal(size=size)}  # fmt: skip
    pyarrow.csv.write_csv(pa.table(table), tmp_path / "logs.csv")
    study = sf.Study.parse(
        '[columns]\nparticipant = "participant"\ntime = "time"\nprobability = "p"\n[state.warm]\n'
        'scaling = { centre = 20, scale = 5 }\n[actions]\ncolumn = "sent"\n[outcome]\ncolumn = "y"\n'
    )
    check = find_check(check_logs(study.read(tmp_path / "logs.csv"), study), "balance")
    middle = f"{np.median(warm):.3g}"
    assert f"of decision points where it is above {middle} (stated: 50 %)" in check.reason


def test_rounding_of_a_constant_probability_is_no_imbalance():
    """1 − 0.7 is not 0.3 in binary numbers, and so differs between the actions."""
    rng = np.random.default_rng(3)
    sent = (rng.random((15, 60)) < 0.3).astype(int)
    state = rng.normal(size=(15, 60, 1))
    logs = sf.Trajectories.from_arrays(state, sent, state[..., 0], probability=np.where(sent == 1, 0.3, 0.7))
    assert find_check(check_logs(logs), "balance").verdict == "fine"


@pytest.mark.parametrize("seed", range(100, 110))
def test_sound_logs_are_fine(seed):
    checks = check_logs(make_logs(participants=12, decision_points=40, seed=seed))
    assert find_check(checks, "balance").verdict == "fine"
    assert find_check(checks, "probabilities").verdict == "fine"


def test_an_outcome_measured_after_the_next_decision_is_looked_at_not_refused():
    """The outcome of a whole day follows every action of that day."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, (25, 60))
    later = np.concatenate([action[:, 1:], np.zeros((25, 1))], axis=1)
    logs = sf.Trajectories.from_arrays(
        rng.normal(size=(25, 60, 1)),
        action,
        action + later + 0.3 * rng.normal(size=(25, 60)),
        probability=np.full((25, 60), 0.5),
    )
    check = find_check(check_logs(logs), "balance")
    assert check.verdict == "look"
    assert "the outcome before" in check.reason


def test_several_actions_with_the_probability_of_the_one_taken_cannot_be_compared():
    rng = np.random.default_rng(0)
    each = rng.dirichlet([4, 4, 4], (20, 40))
    action = (rng.random((20, 40))[..., None] > each.cumsum(axis=-1)).sum(axis=-1)
    taken = np.take_along_axis(each, action[..., None], axis=-1)[..., 0]
    logs = sf.Trajectories.from_arrays(each[..., :2], action, rng.normal(size=(20, 40)), actions=3, probability=taken)
    assert "known only where it was taken" in find_check(check_logs(logs), "balance").reason
