import json

import pytest

from surefoot.experiments.s7 import RunLength
from surefoot.experiments.s7_people import FITS, PeopleRow, run_people, summarise_people
from surefoot.experiments.s7_people_outputs import CAUTIOUS, compare_people, write_people


@pytest.fixture(scope="module")
def rows():
    return run_people(0, RunLength(200, 150, 5), spreads=(1.0,), points=(42,))


def make(spread, points, fit, error=1.0, difference=0.0, harmed=0.0):
    return PeopleRow(spread, points, fit, error, difference, harmed)


def test_a_replicate_has_every_fit(rows):
    assert [row.fit for row in rows] == list(FITS)
    errors = {row.fit: row.coefficient_error for row in rows}
    assert errors["partial"] == errors[CAUTIOUS] < errors["person"]
    assert all(0 <= row.harmed <= 1 for row in rows)


def test_the_same_replicate_again_is_the_same(rows):
    assert run_people(0, RunLength(200, 150, 5), spreads=(1.0,), points=(42,)) == rows


def test_means_over_replicates():
    (found,) = summarise_people([[make(1.0, 42, "all", 2.0, 1.0, 0.1)], [make(1.0, 42, "all", 4.0, 3.0, 0.3)]])
    assert found[3:] == pytest.approx((3.0, 2.0, 1.0, 0.2))


def test_limits():
    fits = {"person": 2.0, "all": 1.0, "partial": 0.8, CAUTIOUS: 0.8}
    table = [make(1.0, 210, fit, error, 30.0 if fit == CAUTIOUS else 5.0, 0.05) for fit, error in fits.items()]
    found = {row["what"]: row for row in compare_people(summarise_people([table]))}
    assert [row["value"] for row in found.values()] == pytest.approx([0.8, 25.0, 0.05])
    assert all(row["held"] for row in found.values())
    worse = [row._replace(coefficient_error=0.9, harmed=0.1) if row.fit != "all" else row for row in table]
    assert [row["held"] for row in compare_people(summarise_people([worse]))] == [False, True, False]


def test_what_is_written(rows, tmp_path):
    summary = write_people([rows, rows], {"replicates": 2}, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"s7-people.{end}" for end in ("json", "md", "parquet", "svg")}
    assert json.loads((tmp_path / "s7-people.json").read_text())["results"] == summary["results"]
    page = (tmp_path / "s7-people.md").read_text()
    assert "| 42 decision points | spread 1 |" in page
    assert "| steps more than never (harmed), partial, κ = 0.5 |" in page
