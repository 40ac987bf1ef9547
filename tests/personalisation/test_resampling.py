"""Reruns of recorded trials: the same schedule, the same rules, and nothing left of the effects."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.errors import InputError
from surefoot.numerics.random_streams import streams
from surefoot.personalisation import check_personalisation
from surefoot.personalisation.resampling import (
    Block,
    RecordedAttendance,
    _prepare,
    average_certainty,
    find_certainty,
    run_block,
)
from surefoot.rehearsal import Candidate, Environment, TrialDesign, from_study, run_trials, write_trial
from surefoot.study.trial_updates import read_policy_versions, read_trial_updates

pytestmark = pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
TEXT = """
[columns]
participant = "person"
time = "point"
available = "available"
probability = "probability"
[actions]
column = "sent"
[state.mood]
range = [-5, 5]
[state.dose]
derived = "dose"
[outcome]
column = "outcome"
range = [-20, 20]
[method]
name = "ts"
pooling = "person"
[screen]
on = false
[trial]
day_boundary = 4
warm_up_decision_points = 6
[trial.guard_rails]
max_influence = 1
max_send_rate_change = 1
"""
STUDY = sf.Study.parse(TEXT)
DESIGN = TrialDesign(participants=6, days=6, per_day=4, update_every=2, entry_days=3, outcome_delay=1, drop_out=0.3)


def make_people(study=STUDY, effect=0.0, people=6):
    model = from_study(study, participants=people, seed=3, mean=0.0, sd=1.0, availability=0.9, missing=0.1, points=24)
    return model.in_environment(Environment(effect=effect))


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """A trial with late outcomes, staggered entry and drop-out: its record and its file."""
    (record,) = run_trials(make_people(), Candidate("ts", STUDY), DESIGN, seeds=[5])
    return record, write_trial(record, STUDY, tmp_path_factory.mktemp("trial"))


def prepare(path, study=STUDY):
    read = study.read(path)
    return _prepare(study, read, read_trial_updates(study, path, read), seed=0, per_day=None)


def test_a_rerun_with_the_same_people_and_draws_is_the_recorded_trial(trial):
    """Entry, drop-out, updates and late outcomes are those of the record: every decision is equal to the last bit."""
    record, path = trial
    stage = prepare(path)
    (secret,) = [next(streams(5, "draws", ["secret"])).bytes(32)]
    attendance = RecordedAttendance(stage, [5])
    (rerun,) = run_trials(make_people(), stage.candidate, stage.design, seeds=[5], secrets=[secret], attendance=attendance)
    assert len(set(np.diff(record.logs.starts))) > 1, "people have different numbers of decision points"
    assert (record.version > 1).any()
    assert_array_equal(rerun.logs.action, record.logs.action)
    assert_array_equal(rerun.logs.probability, record.logs.probability)
    assert_array_equal(rerun.logs.state, record.logs.state)
    assert_array_equal(rerun.version > 0, record.version > 0)


def test_the_score_of_files_is_that_of_the_record(trial):
    record, path = trial
    read = STUDY.read(path)
    from_files = find_certainty(read.logs, read_trial_updates(STUDY, path, read).policy, read_policy_versions(path))
    policies = {number: update.policies for number, update in enumerate(record.updates, 1)}
    assert_allclose(from_files, find_certainty(record.logs, record.version, policies), rtol=1e-12)
    assert_array_equal(np.isnan(from_files), record.version == 0)


def test_the_certainty_is_the_probability_of_sending_within_no_limits(trial):
    """Without probability limits `ts` sends with the posterior probability of a positive effect."""
    record, _ = trial
    policies = {number: update.policies for number, update in enumerate(record.updates, 1)}
    certainty = find_certainty(record.logs, record.version, policies)
    decided = (record.version > 0) & (np.abs(certainty - 0.5) < 0.3)
    sent = np.where(record.logs.action == 1, record.logs.probability, 1 - record.logs.probability)
    assert decided.any()
    assert_allclose(sent[decided], certainty[decided], rtol=1e-9)


def test_resampled_people_repeat_their_decision_points_without_effects():
    """With a large effect of prompts, resampled outcomes do not depend on prompts."""
    effect = 5.0
    design = DESIGN.model_copy(update={"drop_out": 0.0, "participants": 12})
    (record,) = run_trials(make_people(effect=effect, people=12), Candidate("ts", STUDY), design, seeds=[5])
    people = sf.rehearsal.fit_pilot(record.logs, STUDY, per_day=4, draws=2)

    def difference(logs):
        known = logs.available & ~np.isnan(logs.outcome)
        return logs.outcome[known & (logs.action > 0)].mean() - logs.outcome[known & (logs.action == 0)].mean()

    spread = people.effects.spread
    again = people.start(seed=1).advance(sf.policies.coin(2), 24).logs()
    assert difference(record.logs) > 1.0 * spread
    assert abs(difference(again)) < 0.3 * spread
    assert_array_equal(again.available, record.logs.available)
    assert_array_equal(np.isnan(again.outcome), np.isnan(record.logs.outcome))


def test_blocks_do_not_depend_on_their_size(trial):
    stage = prepare(trial[1])
    together = run_block(Block(0, 3), stage)["scores"]
    apart = [run_block(Block(number, 1), stage)["scores"][0] for number in range(3)]
    assert_allclose(together, apart, rtol=1e-9)
    assert len({tuple(scores) for scores in together}) == 3, "every resample is another trial"


def test_an_interrupted_analysis_goes_on(trial, tmp_path, monkeypatch):
    from surefoot.personalisation import resampling

    plain = check_personalisation(STUDY, trial[1], resamples=20, jobs=1)
    finished = []

    def stop(block, stage):
        if finished:
            raise KeyboardInterrupt
        finished.append(block)
        return run_block(block, stage)

    with monkeypatch.context() as patched:
        patched.setattr(resampling, "run_block", stop)
        with pytest.raises(KeyboardInterrupt):
            check_personalisation(STUDY, trial[1], resamples=20, jobs=1, folder=tmp_path)
    again = check_personalisation(STUDY, trial[1], resamples=20, jobs=1, folder=tmp_path)
    assert len(list(tmp_path.rglob("*.json"))) == 0, "finished blocks are removed at the end"
    assert_array_equal(again.resampled, plain.resampled)
    assert again.p_value == plain.p_value


def test_average_certainty():
    paths = np.array([[np.nan, 0.2, 0.6], [np.nan, np.nan, np.nan]])
    assert_allclose(average_certainty(paths), [0.4, 0.5])


def test_rows_become_people_by_decision_points():
    logs = sf.Trajectories.from_arrays(np.zeros((2, 3, 1)), np.zeros((2, 3)), np.zeros((2, 3)), lengths=[3, 2])
    assert_array_equal(logs.pad_rows(np.arange(5), -1), [[0, 1, 2], [3, 4, -1]])


def test_methods_without_a_posterior_count_signs(tmp_path):
    study = sf.Study.parse(TEXT.replace('"ts"', '"accb"'))
    short = TrialDesign(participants=6, days=3, per_day=4, update_every=2)
    (record,) = run_trials(make_people(study), Candidate("accb", study), short, seeds=[5])
    result = check_personalisation(study, write_trial(record, study, tmp_path), resamples=19, jobs=1)
    assert set(np.unique(result.certainty[~np.isnan(result.certainty)])) <= {0.0, 1.0}
    assert_allclose(result.scores[result.judged], result.shares[result.judged])
    assert "accb has no posterior" in result.notes[0]


def test_what_cannot_be_rerun_is_refused(trial, tmp_path):
    record, path = trial
    with pytest.raises(InputError, match="resamples is 5; with fewer than 19"):
        check_personalisation(STUDY, path, resamples=5)
    nothing = replace(record, version=np.zeros_like(record.version))
    with pytest.raises(InputError, match="no decision point was decided by a policy that the trial learned"):
        check_personalisation(STUDY, write_trial(nothing, STUDY, tmp_path / "nothing"))
    written = write_trial(record, STUDY, tmp_path / "versions")
    policies = written.parent / "decisions.policies.json"
    versions = json.loads(policies.read_text())
    policies.write_text(json.dumps(versions[1:]))
    with pytest.raises(InputError, match="policy version 1 decided and is not among the policies"):
        check_personalisation(STUDY, written)
    policies.write_text("[1]")
    with pytest.raises(InputError, match=r"decisions\.policies\.json: not the policies of a trial"):
        check_personalisation(STUDY, written)
    policies.unlink()
    with pytest.raises(InputError, match=r"decisions\.policies\.json is not there"):
        check_personalisation(STUDY, written)
    updates = written.parent / "decisions.updates.csv"
    rows = updates.read_text().splitlines()
    write_trial(record, STUDY, written.parent)
    updates.write_text("\n".join([rows[0], *rows[2:]]) + "\n")
    with pytest.raises(InputError, match="policy version 1 decided and was not learned in the trial"):
        check_personalisation(STUDY, written)


def test_people_whose_last_day_is_incomplete_repeat_it_too(trial):
    logs = trial[0].logs
    cut = logs[np.setdiff1d(np.arange(len(logs)), logs.starts[1:] - 1)]  # without everybody's last decision point
    points = np.diff(cut.starts)
    assert (points % 4 > 0).any()
    people = sf.rehearsal.fit_pilot(cut, STUDY, per_day=4, draws=2)
    again = people.start(seed=1).advance(sf.policies.coin(2), int(points.max())).logs()
    rows = np.concatenate([first + np.arange(count) for first, count in zip(again.starts[:-1], points, strict=True)])
    # Prompts are taken to have moved the mood a little.
    assert_allclose(again.state[rows, 0], cut.state[cut.order, 0], atol=0.5)
    assert_array_equal(again.available[rows], cut.available[cut.order])
