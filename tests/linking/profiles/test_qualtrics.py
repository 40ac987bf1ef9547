from datetime import datetime

import pytest

from surefoot.linking.exports import find_profile, read_export
from tests.linking.example_exports import QUALTRICS


def read(tmp_path, text):
    path = tmp_path / "survey.csv"
    path.write_text(text)
    return read_export(path)


def test_header_rows_are_no_answers_and_dates_have_the_zone_of_the_survey(tmp_path):
    export = read(tmp_path, QUALTRICS)
    survey = export.streams["survey"]
    assert survey["participant"].to_pylist() == ["p01", "p01", "p02"]
    assert survey["time"].to_pylist()[0] == datetime(2026, 3, 1, 8, 2, 10)
    assert set(survey["zone"].to_pylist()) == {"America/Denver"}
    assert survey["Q1"].to_pylist() == [4, None, 2]
    assert survey["Q2"].to_pylist() == ["home, alone", None, "work"]
    assert survey["StartDate"].to_pylist()[0] == datetime(2026, 3, 1, 8)
    assert "rows 2 and 3 hold the questions and ImportIds" in export.reason
    assert export.reason.endswith("participants are taken from ExternalReference")


def drop_rows(text, *rows):
    """Without header rows; the second one has two lines."""
    names, second, more, third, *answers = text.splitlines(keepends=True)
    return "".join([names, *([second + more] if 2 not in rows else []), *([third] if 3 not in rows else []), *answers])


@pytest.mark.parametrize("dropped", [(3,), (2, 3), (2,)])
def test_header_rows_that_somebody_deleted(dropped, tmp_path):
    whole = read(tmp_path, QUALTRICS).streams["survey"]
    export = read(tmp_path, drop_rows(QUALTRICS, *dropped))
    assert export.streams["survey"].drop(["zone"]) == whole.drop(["zone"])
    if 3 in dropped:
        assert "the file does not name the time zone of its dates" in export.reason
        assert set(export.streams["survey"]["zone"].to_pylist()) == {None}


def test_participants_without_a_reference(tmp_path):
    named = QUALTRICS.replace("ExternalReference", "participant_id")
    assert read(tmp_path, named).streams["survey"]["participant"].to_pylist() == ["p01", "p01", "p02"]
    anonymous = QUALTRICS.replace(",p01,", ",,").replace(",p02,", ",,")
    export = read(tmp_path, anonymous)
    assert export.streams["survey"]["participant"].to_pylist() == ["R_1a", "R_1b", "R_2a", "R_3a"]
    assert "participants are taken from ResponseId" in export.reason


def test_tab_separated_exports(tmp_path):
    path = tmp_path / "survey.tsv"
    path.write_bytes("StartDate\tEndDate\tResponseId\n2026-03-01 08:00:00\t2026-03-01 08:01:00\tR_1\n".encode("utf-16"))
    assert find_profile(path).profile == "qualtrics"
    assert read_export(path).rows_out == 1
