from surefoot.fitting.part_fit import fit_part
from surefoot.service.updates import coefficient_intervals, trial_logs
from tests.service.support.trials import fill


def test_intervals_come_from_the_fit_and_are_never_worth_a_policy(study, trial, monkeypatch):
    fill(trial, points=40)
    with trial.database.snapshot() as connection:
        fitted = fit_part(study, trial_logs.make_study_logs(study, trial_logs.read_rows(connection))).method
    found = coefficient_intervals.coefficient_intervals(fitted)
    assert len(found["rows"]) == 4 and all(row["low"] <= row["value"] <= row["high"] for row in found["rows"])
    monkeypatch.setattr(coefficient_intervals, "estimate_coefficients", lambda *given, **more: 1 / 0)
    assert coefficient_intervals.coefficient_intervals(fitted) == {}
