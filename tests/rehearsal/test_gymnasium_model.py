"""Rehearsals on Gymnasium environments."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.rehearsal.gymnasium_model import EnvironmentModel
from surefoot.rehearsal.plan import Candidate, Environment, RehearsalPlan, TrialDesign
from tests.cli.typed import type_command

STAIRS = "tests.simulators.stairs:stairs/Stairs-v0"
STUDY = """
[columns]
participant = "participant"
time = "time"
[actions]
names = ["nothing", "walk", "run"]
[state.tired]
scaling = { centre = 1.0, scale = 2.0 }
[state.floors1]
[method]
name = "ts"
pooling = "all"
[probability_limits]
minimum = 0.1
maximum = 0.9
"""
PLAN = f"""
trials = 2
block = 2
[[environment]]
gymnasium = "{STAIRS}"
parameters = [{{ gain = 9.0, noise = 1.0 }}, {{ gain = 12.0, noise = 1.0 }}]
[design]
participants = 4
days = 4
per_day = 3
update_every = 2
"""
DESIGN = TrialDesign(participants=4, days=4, per_day=3)


def make_model(text=STUDY, **keys):
    return EnvironmentModel(sf.Study.parse(text), DESIGN, Environment(gymnasium=STAIRS, **keys))


def test_a_rehearsal_on_an_environment(tmp_path):
    rehearsal = sf.rehearsal.rehearse(None, sf.Study.parse(STUDY), RehearsalPlan.parse(PLAN), jobs=1)
    null, stairs = rehearsal.answers.values()
    assert list(rehearsal.answers) == ["no effect", STAIRS]
    for answers in null.values():
        assert (answers.values["over_never"] == 0).all()
    # Two in three decision points are available, and every prompt earns 12 − tiredness or more than twice nothing.
    assert stairs["always"].mean("sent").value == 1
    assert stairs["always"].mean("over_never").value > stairs["coin"].mean("over_never").value > 0
    assert rehearsal.effects is None
    assert "Gymnasium" in rehearsal.effect_sentences[0]


def test_the_same_from_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "rehearsal.toml").write_text(PLAN)
    result = type_command("rehearse", "--plan", "rehearsal.toml", "--jobs", "1", "--json")
    assert result.returncode == 0, result.stderr
    assert STAIRS in result.stdout


def test_logs_are_in_the_units_of_the_environment():
    model = make_model(parameters=({"gain": 2.0},))
    coin = Candidate.fixed(sf.Study.parse(STUDY), 0.5)
    (record,) = sf.rehearsal.run_trials(model, coin, DESIGN, seeds=[1])
    logs = record.reported.logs
    raw = logs.state * [2.0, 1.0] + [1.0, 0.0] if logs.state[:, 0].min() < 0 else logs.state
    np.testing.assert_array_equal(raw[:, 1], np.tile(np.arange(12) % 10, 4))
    action = logs.action
    with np.errstate(invalid="ignore"):
        expected = action * (2.0 - raw[:, 0])
    known = ~np.isnan(logs.outcome)
    np.testing.assert_allclose(logs.outcome[known], expected[known])
    np.testing.assert_array_equal(np.flatnonzero(~known) % 12, np.tile([4, 9], 4))


def test_outcomes_are_transformed_as_the_study_says():
    text = STUDY.replace("[method]", '[outcome]\ntransform = "log(x + 100)"\n[method]')
    plain = make_model(parameters=({"gain": 2.0},)).start(seed=1).advance(sf.policies.coin(3), 12)
    logged = make_model(text, parameters=({"gain": 2.0},)).start(seed=1).advance(sf.policies.coin(3), 12)
    np.testing.assert_allclose(logged.rewards, np.log(plain.rewards + 100))
    impossible = make_model(text.replace("100", "1"), parameters=({"gain": -2.0},))
    with pytest.raises(sf.InputError, match=r"reward -3 of .* has no log.*change"):
        impossible.start(seed=1).advance(sf.policies.always(3), 12)


def test_refusals_of_studies():
    with pytest.raises(sf.InputError, match="'dose' is derived"):
        make_model(STUDY.replace("[method]", '[state.dose]\nderived = "dose"\ndiscount = 0.9\n[method]'))
    with pytest.raises(sf.InputError, match="does not observe 'mood'"):
        make_model(STUDY.replace("state.tired", "state.mood"))
    carts = "[columns]\nparticipant = 'p'\ntime = 't'\n[state.a]\n[state.b]\n[state.c]\n[state.d]\n"
    model = EnvironmentModel(sf.Study.parse(carts), DESIGN, Environment(gymnasium="CartPole-v1", restart=True))
    with pytest.raises(sf.InputError, match="do not vary under a coin"):
        model.measure_spread(0)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[[environment]]", "[[environment]]\neffect = 0.2", "either effect"),
        ("[[environment]]", "[[environment]]\nhalf_life = 3", "half_life is for environments without gymnasium"),
        (
            "[design]",
            "[[environment]]\neffect = 0.2\nrestart = true\n[design]",
            "restart is for environments with gymnasium",
        ),
        ("[design]", "[[environment]]\neffect = 0.2\n[design]", "Gymnasium or others, not both"),
        ("[design]", "[people]\nmean = 1.0\n[design]", "leave out the pilot"),
    ],
)
def test_refusals_of_plans(before, after, message):
    with pytest.raises(sf.InputError, match=message):
        RehearsalPlan.parse(PLAN.replace(before, after, 1)).list_environments(has_pilot=False)


def test_a_pilot_and_an_environment_are_refused():
    with pytest.raises(sf.InputError, match="leave out the pilot"):
        RehearsalPlan.parse(PLAN).list_environments(has_pilot=True)
