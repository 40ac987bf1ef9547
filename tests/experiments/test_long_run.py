import numpy as np
import pytest

from surefoot.experiments import long_run
from surefoot.experiments.long_run import (
    CAUTIOUS,
    FAMILY,
    FITS,
    ONE_EACH,
    PAPER,
    StudyDesign,
    judge_people,
    report_designs,
    report_people,
    run_designs,
    run_people,
    summarise_earned,
    summarise_people,
)

PARAMETERS = {"replicates": 2, "steps": 60, "keep": 50, "seed": 3}
PEOPLE_PARAMETERS = {"replicates": 2, "steps": 200, "keep": 150, "seed": 5}
SMALL = (StudyDesign("HeartSteps", 50, 42, "prompted", 0.1), StudyDesign("chain walk", 50, 42))


@pytest.fixture(scope="module")
def rows():
    return run_designs(0, PARAMETERS, SMALL)


def repeat(rows):
    """The rows of two equal replicates."""
    return [{"replicate": number, **row} for number in range(2) for row in rows]


def test_every_method_is_compared_with_never_under_the_same_numbers(rows):
    for design in SMALL:
        earned = {row["method"]: row for row in rows if row["simulator"] == design.simulator}
        assert set(earned) == {"never", "always", "coin", "oracle-myopic", *FAMILY, ONE_EACH, *PAPER}
        assert earned["never"]["difference"] == earned["never"]["share_treated"] == 0
        assert earned["always"]["share_treated"] == 1
        assert all(row["difference"] == row["reward"] - earned["never"]["reward"] for row in earned.values())


def test_the_same_seed_gives_the_same_rows_and_another_replicate_others(rows):
    again = run_designs(0, PARAMETERS, SMALL[:1])
    assert again == [row for row in rows if row["simulator"] == "HeartSteps"]
    assert run_designs(1, PARAMETERS, SMALL[:1]) != again


def test_summaries_are_means_over_replicates_with_the_worst_of_them():
    row = {**SMALL[0]._asdict(), "method": "ahead", "reward": 10.0, "share_treated": 0.1}
    table = summarise_earned([{**row, "difference": difference} for difference in (1.0, 3.0, 8.0)])
    summary = table[SMALL[0], "ahead"]
    assert (summary["difference"], summary["worst"]) == (4.0, 1.0)
    assert summary["standard_error"] == pytest.approx(np.std([1, 3, 8], ddof=1) / 3**0.5)


def test_policies_for_each_are_left_out_where_more_people_show_nothing_new():
    assert StudyDesign("HeartSteps", 200, 210).methods == FAMILY
    assert ONE_EACH in StudyDesign("HeartSteps", 50, 210).methods


def test_the_report_has_tables_a_figure_and_limits(rows, monkeypatch):
    study = "HeartSteps, 50 × 42"
    monkeypatch.setattr(long_run, "EARNED_LIMITS", (("mean difference", "difference", 1e9, study, "hb-ahead"),))
    monkeypatch.setattr(long_run, "SHOWN", study)
    report = report_designs(repeat(rows), PARAMETERS)
    assert f"| {study} | prompted 10 % |" in report.page
    (missed,) = report.limits
    assert not missed.held
    assert missed.data == "prompted 10 %"


@pytest.fixture(scope="module")
def people():
    return run_people(0, PEOPLE_PARAMETERS, spreads=(1.0,), points=(42,))


def make(spread, points, fit, error=1.0, difference=0.0, harmed=0.0):
    measures = {"coefficient_error": error, "difference": difference, "harmed": harmed}
    return {"spread": spread, "decision_points": points, "fit": fit, **measures}


def test_a_replicate_has_every_fit(people):
    assert [row["fit"] for row in people] == list(FITS)
    errors = {row["fit"]: row["coefficient_error"] for row in people}
    assert errors["partial"] == errors[CAUTIOUS] < errors["person"]
    assert all(0 <= row["harmed"] <= 1 for row in people)


def test_the_same_replicate_again_is_the_same(people):
    assert run_people(0, PEOPLE_PARAMETERS, spreads=(1.0,), points=(42,)) == people


def test_means_of_people_over_replicates():
    (summary,) = summarise_people([make(1.0, 42, "all", 2.0, 1.0, 0.1), make(1.0, 42, "all", 4.0, 3.0, 0.3)]).values()
    expected = {"coefficient_error": 3.0, "difference": 2.0, "harmed": 0.2, "standard_error": 1.0}
    assert summary == pytest.approx(expected)


def test_limits_of_partial_pooling():
    fits = {"person": 2.0, "all": 1.0, "partial": 0.8, CAUTIOUS: 0.8}
    table = [make(1.0, 210, fit, error, 30.0 if fit == CAUTIOUS else 5.0, 0.05) for fit, error in fits.items()]
    limits = judge_people(summarise_people(table))
    assert [limit.value for limit in limits] == pytest.approx([0.8, 25.0, 0.05])
    assert all(limit.held for limit in limits)
    worse = [row | {"coefficient_error": 0.9, "harmed": 0.1} if row["fit"] != "all" else row for row in table]
    assert [limit.held for limit in judge_people(summarise_people(worse))] == [False, True, False]


def test_the_report_of_people_has_a_table_for_each_size(people):
    report = report_people(repeat(people), PEOPLE_PARAMETERS)
    assert "| 42 decision points | spread 1 |" in report.page
    assert any(line.startswith("| steps more than never (harmed), partial, κ = 0.5 |") for line in report.page.splitlines())
    assert len(report.results["results"]) == len(FITS)
