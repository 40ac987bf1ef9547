"""The effect with the screen, without it, and with outcomes outside their range."""

import numpy as np
import pytest

from surefoot import Study
from surefoot.effects import analyse_study
from surefoot.reports.numbers import format_value
from tests.step_trials import STUDY, make_step_trial

STEPS = STUDY.replace('"logstep_30min"', '"steps"')


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """Steps with -99 in a tenth of the rows, twice as often after a suggestion, and the path of the file."""
    frame = make_step_trial(1)
    rng = np.random.default_rng(0)
    coded = rng.random(len(frame)) < np.where(frame["intervention"] == 1, 0.14, 0.07)
    frame["steps"] = np.where(coded, -99, frame["steps"])
    path = tmp_path_factory.mktemp("trial") / "logs.csv"
    frame.to_csv(path, index=False)
    return frame, path


@pytest.mark.parametrize("outcome", ["logstep_30min", "sat"])
@pytest.mark.parametrize("seed", [3, 4])
def test_spells_of_zeros_and_a_yes_no_outcome_keep_their_effect(outcome, seed, tmp_path):
    make_step_trial(seed).to_csv(tmp_path / "logs.csv", index=False)
    text = STUDY.replace('"logstep_30min"', f'"{outcome}"')
    plain = analyse_study(Study.parse(text), tmp_path / "logs.csv")
    screened = analyse_study(Study.parse(text + "[screen]\n"), tmp_path / "logs.csv")
    assert screened.table == plain.table
    assert plain.screened is None
    assert screened.screened.lines() == ["The screen marked no value as missing."]


def test_counts_and_both_estimates_come_with_the_first_lines(trial):
    frame, path = trial
    plain = analyse_study(Study.parse(STEPS), path)
    screened = analyse_study(Study.parse(STEPS + "[screen]\n"), path)
    coded = frame[frame["steps"] == -99]
    available = coded[coded["avail"] == 1]
    counts = {
        "nothing": (available["intervention"] == 0).sum(),
        "send": available["intervention"].sum(),
        "not available": (coded["avail"] == 0).sum(),
    }
    (flags,) = (row for row in screened.to_dict()["screen"]["flags"] if row["reason"] == "code")
    assert flags == {"column": "steps", "reason": "code", "values": len(coded), "missing": len(coded), "after": counts}
    assert screened.screened.without[0].estimate == plain.table[0].estimate
    assert screened.table[0].estimate != plain.table[0].estimate
    assert screened.quality.reasons["outcome flagged by the screen"] == len(available)
    text = screened.summary()
    words = f"flagged values of steps (code, {len(coded):,})"
    assert text.index("The screen") < text.index("Difference of means")
    assert words in " ".join(text.split())
    assert f"Without the screen it is {format_value(plain.table[0].interval)} (" in " ".join(text.split())
    assert "Without the screen" in screened.to_html()


def test_a_notable_difference_is_named(trial):
    """-99 in a tenth of the outcomes hides most of an effect on log steps."""
    _, path = trial
    assert "a quarter of a standard error" not in analyse_study(Study.parse(STUDY + "[screen]\n"), path).summary()
    text = STEPS + "[screen]\n[screen.units]\nfactors = [10]\n"
    text = text.replace('column = "steps"\n', 'column = "steps"\nwinsorise = [-99, 100]\n')
    report = analyse_study(Study.parse(text), path)
    assert report.screened.notable
    assert "differ by more than a quarter of a standard error" in " ".join(report.summary().split())


def test_flagged_outcomes_that_are_kept_are_reported_with_the_effect_without_them(trial):
    _, path = trial
    plain = analyse_study(Study.parse(STEPS), path)
    screened = analyse_study(Study.parse(STEPS + "[screen]\n"), path)
    kept = analyse_study(Study.parse(STEPS + "[screen]\noutcome = false\n"), path)
    assert kept.table == plain.table
    assert kept.screened.removed[0].estimate == screened.table[0].estimate
    assert "[screen] outcome = false" in kept.screened.lines()[1]


def test_logs_that_need_the_screen_say_why(trial):
    _, path = trial
    text = STEPS.replace('column = "steps"\n', 'column = "steps"\ntransform = "log(x + 0.5)"\n')
    report = analyse_study(Study.parse(text + "[screen]\n"), path)
    assert report.screened.without is None
    assert "-99 has no log(x + 0.5)" in report.screened.lines()[1]


@pytest.mark.parametrize(("limit", "verdict"), [(2000, "fine"), (150, "look"), (20, "unsafe")])
def test_outcomes_outside_their_range_are_implausible_and_not_missing(trial, limit, verdict):
    frame, path = trial
    text = STEPS.replace('column = "steps"\n', f'column = "steps"\nrange = [0, {limit}]\nmissing = [-99]\n')
    report = analyse_study(Study.parse(text), path)
    outside = (frame["steps"] > limit) & (frame["avail"] == 1)
    missing = (frame["steps"] == -99) & (frame["avail"] == 1)
    assert report.quality.reasons["outcome implausible (outside its range)"] == outside.sum()
    assert report.quality.reasons["outcome missing"] == missing.sum()
    (check,) = (check for check in report.checks if check.name == "plausible ranges")
    assert check.verdict == verdict
    share = (frame["steps"] > limit).sum() / (frame["steps"] != -99).sum()
    assert check.numbers["shares"] == {"steps": pytest.approx(share)}
    assert f"of 'steps' ({(frame['steps'] > limit).sum():,} values)" in check.reason
