"""`[screen]`, `device` and `[questionnaire.NAME]`: what they mean, and what is refused."""

import pickle
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from numpy.testing import assert_array_equal

import surefoot as sf
from surefoot.fitting import parts as fitting_parts
from surefoot.simulators import contaminate

STUDY = """\
[columns]
participant = "participant"
time = "time"
[state.weather]
device = "wrist"
scaling = { centre = 1, scale = 2 }
[state.engagement]
[state.mood]
kind = "yes/no"
column = "fatigue"
[outcome]
device = "wrist"
"""


@pytest.mark.parametrize(
    ("added", "line", "key", "words"),
    [
        ('[screen]\ncolumns = ["wether"]', 14, "screen.columns", "did you mean 'weather'"),
        ('[screen]\ndevices = ["chest"]', 14, "screen.devices", "no column comes from device 'chest'"),
        ("[screen]\nof = false", 14, "screen.of", "did you mean 'on'"),
        ("[screen.stick]", 13, "screen.stick", "did you mean 'stuck'"),
        ("[screen.stuck]\nthreshold = 3", 13, "screen.stuck", "0.5 <= threshold < 1"),
        ("[screen.stuck]\ntreshold = 0.9", 14, "screen.stuck.treshold", "did you mean 'threshold'"),
        ("[screen.units]\nfactors = [1]", 13, "screen.units", "other than 1"),
        ('[questionnaire.mood]\nitems = ["q1"]', 13, "questionnaire.mood", "at least two different columns"),
        ('[questionnaire.mood]\nitem = ["q1", "q2"]', 14, "questionnaire.mood.item", "did you mean 'items'"),
        ('[questionnaire.m]\nitems = ["a", "b"]\nscores = ["modo"]', 15, "questionnaire.m.scores", "did you mean 'mood'"),
        ('device = ""', 13, "outcome.device", "at least 1 character"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_a_remedy(added, line, key, words):
    text = STUDY.replace('device = "wrist"\n[', "[") if added.startswith("device") else STUDY
    text = text.removesuffix('device = "wrist"\n') + "\n" if added.startswith("device") else text
    with pytest.raises(sf.InputError, match=re.escape(words)) as refused:
        sf.Study.parse(text + added + "\n", "trial.toml")
    assert f"key '{key}'" in str(refused.value)
    assert added.startswith("device") or f"line {line}," in str(refused.value)


def test_a_device_with_nothing_in_it_is_refused():
    text = STUDY.replace('kind = "yes/no"', 'kind = "yes/no"\ndevice = "phone"') + "[screen]\n"
    with pytest.raises(sf.InputError, match=r"line 10, key .state\.mood\.device.: device .phone. has nothing to judge"):
        sf.Study.parse(text)


def test_a_trial_screens_its_state_only():
    trial = STUDY.replace('time = "time"', 'time = "time"\navailable = "a"\nprobability = "p"')
    trial += '[trial]\n[screen]\n[questionnaire.q]\nitems = ["weather", "calm"]\n'
    with pytest.raises(sf.InputError, match="make 'calm' a state variable"):
        sf.Study.parse(trial)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Logs of 130 people with unworn devices, as one file and as three."""
    folder = tmp_path_factory.mktemp("screen")
    clean = sf.simulators.HeartSteps(participants=130).collect(sf.policies.coin(2), decision_points=40, seed=0)
    dirty = contaminate(clean, mechanism="nonwear", ratio=0.2, run_length=10, seed=1).logs
    frame = dirty.to_frame("pyarrow")
    pyarrow.csv.write_csv(frame, folder / "logs.csv")
    return folder, frame


TEXT = STUDY.replace('kind = "yes/no"\n', "")


def test_values_are_screened_as_measured_before_scaling(files):
    folder, frame = files
    plain = sf.Study.parse(TEXT).read(folder / "logs.csv")
    read = sf.Study.parse(TEXT + "[screen]\n").read(folder / "logs.csv")
    assert plain.screen is None
    assert read.screen is not None
    gone = np.isnan(read.logs.outcome)
    assert_array_equal(gone, frame["outcome"].to_numpy() == 0)
    assert_array_equal(np.isnan(read.logs.state[:, 0]), frame["weather"].to_numpy() == 0)
    assert_array_equal(read.logs.state[~gone, 0], plain.logs.state[~gone, 0])
    assert_array_equal(np.isnan(read.raw_outcome), gone)
    flagged = read.screen.to_frame("pandas")
    assert set(flagged["column"]) == {"weather", "engagement", "fatigue", "outcome"}
    off = sf.Study.parse(TEXT + "[screen]\non = false\n").read(folder / "logs.csv")
    assert off.screen is None


def test_a_code_does_not_stop_the_logarithm(tmp_path):
    rng = np.random.default_rng(2)
    steps = rng.lognormal(5, 1, 400)
    steps[::9] = -99.0
    data = {"who": np.repeat(np.arange(4), 100), "t": np.tile(np.arange(100), 4), "x": rng.standard_normal(400)}
    data |= {"action": rng.integers(0, 2, 400), "steps": steps}
    pyarrow.csv.write_csv(pa.table(data), tmp_path / "logs.csv")
    text = '[columns]\nparticipant = "who"\ntime = "t"\n[state.x]\n[outcome]\ncolumn = "steps"\ntransform = "log(x + 0.5)"\n'
    with pytest.raises(sf.InputError, match="-99 has no log"):
        sf.Study.parse(text).read(tmp_path / "logs.csv")
    read = sf.Study.parse(text + "[screen]\n").read(tmp_path / "logs.csv")
    assert_array_equal(np.isnan(read.logs.outcome), steps == -99)


def test_parts_are_screened_like_the_whole(files, monkeypatch):
    """More people than the sample that tells what is usual."""
    folder, _ = files
    study = sf.Study.parse(TEXT + "[screen]\n")
    whole = study.read(folder / "logs.csv")
    monkeypatch.setattr(fitting_parts, "PART_ROWS", 900)
    plan = fitting_parts.LogGroups.scan(study, folder / "logs.csv")
    assert len(plan.groups) > 3
    parts = map(plan.read, range(len(plan.groups)))
    rows = np.concatenate([part.row[np.isnan(part.logs.outcome)] for part in parts])
    assert_array_equal(np.sort(rows), np.flatnonzero(np.isnan(whole.logs.outcome)))
    assert_array_equal(plan.select([1]).read(0).logs.outcome, plan.read(1).logs.outcome)


def test_a_fit_counts_what_was_flagged_and_warns_when_it_depends_on_the_action(files, tmp_path):
    folder, frame = files
    with pytest.warns(sf.FitWarning, match="the screen marked values of 20.0 %"):
        fitted = sf.fit_study(folder / "logs.csv", sf.Study.parse(TEXT + "[screen]\n"))
    assert fitted.manifest["flagged"] == {"not worn": 4 * int((frame["outcome"].to_numpy() == 0).sum())}
    outcome = np.where(
        (frame["action"].to_numpy() == 0) & (frame["time"].to_numpy() % 3 == 0), 0.0, frame["outcome"].to_numpy()
    )
    place = frame.column_names.index("outcome")
    pyarrow.csv.write_csv(frame.set_column(place, "outcome", pa.array(outcome)), tmp_path / "logs.csv")
    with pytest.warns(sf.FitWarning) as caught:
        sf.fit_study(tmp_path / "logs.csv", sf.Study.parse(TEXT + "[screen]\n"))
    assert any("effect of the prompt, not dirt" in str(warning.message) for warning in caught)


def test_items_outside_the_state_and_enrolment_are_read(tmp_path):
    rng = np.random.default_rng(3)
    count = 240
    items = rng.integers(1, 8, (8, count)).astype(float)
    items[:, ::20] = 4.0
    start = np.datetime64("2026-01-01T08:00", "s")
    data = {"who": np.repeat(np.arange(8), 30), "t": np.tile(start + np.arange(30) * np.timedelta64(3, "h"), 8)}
    data |= {f"q{j}": items[j] for j in range(8)} | {"mood": items.mean(axis=0), "x": rng.standard_normal(count)}
    data |= {"action": rng.integers(0, 2, count), "outcome": rng.standard_normal(count)}
    data["enrolled"] = np.full(count, "2026-01-01T09:00:00")
    pyarrow.csv.write_csv(pa.table(data), tmp_path / "logs.csv")
    text = '[columns]\nparticipant = "who"\ntime = "t"\n[state.mood]\n[state.x]\n[screen.clock]\nenrolment = "enrolled"\n'
    text += f'[questionnaire.m]\nitems = {[f"q{j}" for j in range(8)]}\nscores = ["mood"]\n'
    read = sf.Study.parse(text).read(tmp_path / "logs.csv")
    assert_array_equal(np.flatnonzero(np.isnan(read.logs.state[:, 0])), np.arange(0, count, 20))
    assert not np.isnan(read.logs.state[:, 1]).any()
    assert read.screen.counts()["before enrolment"] == 8


def test_a_study_with_a_screen_goes_to_another_process():
    study = sf.Study.parse(STUDY + "[screen]\n[screen.stuck]\nthreshold = 0.8\n")
    again = pickle.loads(pickle.dumps(study))  # noqa: S301 - our own
    assert again.model_dump() == study.model_dump()


def test_every_detector_has_a_section():
    screen = sf.Study.parse(STUDY + "[screen]\n").screen
    assert [detector.name for detector in screen.detectors()] == list(sf.screening.DETECTORS)
    assert all(isinstance(getattr(screen, name), detector) for name, detector in sf.screening.DETECTORS.items())
