"""Which standard errors a report uses, by what the study says and what the trial recorded."""

import numpy as np
import pytest

import surefoot as sf
from surefoot import InputError
from surefoot.effects.standard_errors import choose_errors, read_history
from surefoot.rehearsal import Candidate, TrialDesign, run_trials, write_trial

TEXT = """[columns]
participant = "p"
time = "t"
available = "available"
probability = "probability"
[state.weather]
[state.engagement]
[state.fatigue]
[probability_limits]
minimum = 0.2
maximum = 0.8
[effects]
controls = ["engagement"]
moderators = ["weather"]
[trial]
warm_up_decision_points = 10
"""
METHOD = '[method]\nname = "{}"\npooling = "{}"\n'
WITHOUT_CHECKS = "[trial.guard_rails]\nmax_coefficient_change = 1000\nmax_influence = 1\nmax_send_rate_change = 1\n"


def make_study(name="ts", pooling="all", more=""):
    return sf.Study.parse(TEXT + WITHOUT_CHECKS + METHOD.format(name, pooling) + more)


def write(folder, study):
    design = TrialDesign(participants=12, days=6, per_day=5, entry_days=2, cohort=6, update_every=2, screen=False)
    candidate = Candidate.with_method(study, study.method_choice)
    (record,) = run_trials(sf.simulators.HeartSteps(12), candidate, design, seeds=[4])
    assert len(np.unique(record.version)) > 2
    return write_trial(record, study, folder)


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    return write(tmp_path_factory.mktemp("trial"), make_study())


def copy_decisions(trial, folder):
    (folder / "decisions.csv").write_bytes(trial.read_bytes())
    return folder / "decisions.csv"


def test_a_pooled_trial_gets_adaptive_errors_next_to_the_usual_ones(trial):
    study = make_study()
    report = sf.effects.analyse_study(study, trial)
    assert report.errors == "adaptive"
    assert [row.label for row in report.compared] == [*(row.label for row in report.table), "mean outcome"]
    for row in report.compared:
        assert row.standard_error == row.adaptive_error
    usual = sf.effects.analyse_study(study, trial, section=study.effects.model_copy(update={"errors": "usual"}))
    assert [row.standard_error for row in usual.table] == [row.usual_error for row in report.table]
    assert [row.ratio for row in usual.compared] == [row.ratio for row in report.compared]
    assert [row.estimate for row in usual.table] == [row.estimate for row in report.table]
    assert any("replication" in sentence for sentence in report.error_sentences)
    data = report.to_dict()
    assert data["errors"]["used"] == "adaptive"
    assert data["errors"]["ratios"]["average"] == report.table[0].ratio
    assert "adaptive / usual" in report.render_page(title="Effects", source="")
    assert "This report uses the adaptive ones." in report.summary()


@pytest.mark.parametrize("pooling", ["all", "partial"])
@pytest.mark.parametrize("name", ["ts", "ro-saccb"])
def test_policies_are_learned_again_as_they_decided(tmp_path, name, pooling):
    study = make_study(name, pooling)
    path = write(tmp_path, study)
    assert read_history(study, path, study.read(path)) is not None


def test_another_method_than_the_trial_had_is_noticed(trial):
    study = make_study(more="parameters = { critic_penalty = 5.0 }\n")
    choice = choose_errors(study, trial, study.read(trial))
    assert choice.used == "usual"
    assert "learned again, gives probability" in choice.warning
    with pytest.raises(InputError, match="give the study of the trial"):
        choose_errors(study, trial, study.read(trial), "adaptive")


def test_the_collection_decides_without_the_files_of_a_trial(trial, tmp_path):
    path = copy_decisions(trial, tmp_path)
    for policy in ("fixed", "own"):
        study = make_study(more=f'[collection]\npolicy = "{policy}"\n')
        choice = choose_errors(study, path, study.read(path))
        assert (choice.used, choice.warning) == ("usual", "")
    for policy in ("pooled", "unknown"):
        study = make_study(more=f'[collection]\npolicy = "{policy}"\n')
        report = sf.effects.analyse_study(study, path)
        assert report.errors == "usual"
        # First on the page where the usual errors are known to be wrong.
        assert bool(report.error_warning) == (policy == "pooled")
        for text in (" ".join(report.summary().split()), report.render_page(title="Effects", source="")):
            assert "cannot be computed: the files of a trial" in text
        with pytest.raises(InputError, match="surefoot export"):
            choose_errors(study, path, study.read(path), "adaptive")


def test_policies_of_single_participants_leave_the_usual_errors(tmp_path):
    study = make_study(pooling="person")
    path = write(tmp_path, study)
    choice = choose_errors(study, path, study.read(path))
    assert (choice.used, choice.warning) == ("usual", "")
    with pytest.raises(InputError, match="independent"):
        choose_errors(study, path, study.read(path), "adaptive")


def test_methods_without_a_formula_are_named(trial):
    """The trial's own method decides; here another stands in the study."""
    study = make_study("linucb")
    choice = choose_errors(study, trial, study.read(trial))
    assert choice.used == "usual"
    assert "jumps from one action to another" in choice.warning


def test_a_fixed_trial_needs_no_adaptive_errors(tmp_path):
    study = make_study()
    design = TrialDesign(participants=6, days=3, screen=False)
    (record,) = run_trials(sf.simulators.HeartSteps(6), Candidate.fixed(study, 0.4), design, seeds=[1])
    path = write_trial(record, study, tmp_path)
    choice = choose_errors(study, path, study.read(path))
    assert choice.history is None
    assert choice.used == "usual"
    with pytest.raises(InputError, match="decided anything"):
        choose_errors(study, path, study.read(path), "adaptive")


def test_the_screen_of_the_analysis_does_not_change_what_updates_knew(trial):
    """Values that only the screen of the whole trial flags were known to the updates."""
    study = make_study(more="[screen]\noutcome = true\n")
    read = study.read(trial)
    assert read.screen is not None
    assert choose_errors(study, trial, read).used == "adaptive"
