import numpy as np
import pytest

from surefoot.experiments import s7_outputs
from surefoot.experiments.further import FURTHER, find_experiment
from surefoot.experiments.s7 import FAMILY, OWN, PAPER, RunLength, S7Setting, list_methods, run_replicate, summarise_rows

COURSE = RunLength(steps=60, keep=50, seed=3)
SMALL = (S7Setting("HeartSteps", 50, 42, "prompted", 0.1), S7Setting("chain walk", 50, 42))


@pytest.fixture(scope="module")
def rows():
    return run_replicate(0, SMALL, COURSE)


def test_every_method_is_compared_with_never_under_the_same_numbers(rows):
    for place in (0, 1):
        found = {row.method: row for row in rows if row.setting == place}
        assert set(found) == {"never", "always", "coin", "oracle-myopic", *FAMILY, OWN, *PAPER}
        assert found["never"].difference == found["never"].share_treated == 0
        assert found["always"].share_treated == 1
        assert all(row.difference == row.reward - found["never"].reward for row in found.values())


def test_the_same_seed_gives_the_same_rows_and_another_replicate_others(rows):
    again = run_replicate(0, SMALL[:1], COURSE)
    assert again == [row for row in rows if row.setting == 0]
    assert run_replicate(1, SMALL[:1], COURSE) != again


def test_summaries_are_means_over_replicates_with_the_worst_of_them():
    values = [[(0, "ahead", 10.0, difference, 0.1)] for difference in (1.0, 3.0, 8.0)]
    (found,) = summarise_rows(values)
    assert (found.difference, found.worst) == (4.0, 1.0)
    assert found.standard_error == pytest.approx(np.std([1, 3, 8], ddof=1) / 3**0.5)


def test_policies_for_each_are_left_out_where_more_people_show_nothing_new():
    assert list_methods(S7Setting("HeartSteps", 200, 210)) == FAMILY
    assert OWN in list_methods(S7Setting("HeartSteps", 50, 210))


def test_it_is_found_by_name_and_writes_table_figure_and_limits(rows, monkeypatch, tmp_path):
    assert "s7" in FURTHER
    monkeypatch.setattr(s7_outputs, "SETTINGS", SMALL)
    limit = s7_outputs.Limit("mean difference", "difference", 1e9, size="50 × 42")
    monkeypatch.setattr(s7_outputs, "LIMITS", (limit,))
    monkeypatch.setattr(s7_outputs, "SHOWN", ("HeartSteps", "50 × 42"))
    summary = s7_outputs._write([rows, rows], s7_outputs.S7Settings(replicates=2), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"s7.json", "s7.md", "s7.parquet", "s7.svg"}
    page = (tmp_path / "s7.md").read_text(encoding="utf-8")
    assert "| HeartSteps, 50 × 42 | prompted 10 % |" in page
    assert "(missed)" in page
    ((held, cells),) = find_experiment("s7").tabulate(summary).rows
    assert not held
    assert cells[1] == "prompted 10 %"
