"""The same logs, however a program wrote them: separators, decimal signs, encodings, times, percentages, workbooks."""

import gzip
from datetime import datetime, timedelta

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.data.log_columns import FileSettings
from surefoot.study.draft import draft_study

STUDY = """
[columns]
participant = "participant"
time = "time"
probability = "p"
probability_of = "sending"
[state.mood]
[state.place]
kind = "category"
levels = ["café", "home"]
[actions]
column = "sent"
[outcome]
column = "steps"
"""
HEADER = ["participant", "time", "mood", "place", "sent", "p", "steps"]
FIRST = datetime(2024, 3, 28, 9, 30)


def rows(people=4, points=30):
    rng = np.random.default_rng(0)
    for who in range(people):
        for t in range(points):
            sent = int(rng.random() < 0.6)
            place = "café" if rng.random() < 0.5 else "home"
            yield (
                who,
                FIRST + timedelta(hours=5 * t),
                round(rng.normal(3, 1), 2),
                place,
                sent,
                0.6,
                int(rng.integers(0, 2000)),
            )


def text(separator=",", decimal=".", time="%Y-%m-%dT%H:%M:%S", p=str):
    def number(value):
        return str(value).replace(".", decimal)

    lines = [separator.join(HEADER)]
    for who, when, mood, place, sent, chance, steps in rows():
        cells = (str(who), when.strftime(time), number(mood), place, str(sent), number(p(chance)), str(steps))
        lines.append(separator.join(f'"{cell}"' if separator in cell else cell for cell in cells))
    return "\n".join(lines) + "\n"


@pytest.fixture
def expected(tmp_path):
    (tmp_path / "plain.csv").write_text(text(), encoding="utf-8")
    return sf.Study.parse(STUDY).read(tmp_path / "plain.csv").logs


def assert_same(logs, expected):
    assert logs.state_names == expected.state_names
    assert_array_equal(logs.participants, expected.participants)
    assert_array_equal(logs.time, expected.time)
    assert_allclose(logs.state, expected.state)
    assert_allclose(logs.probability, expected.probability)
    assert_array_equal(logs.outcome, expected.outcome)


VARIANTS = {
    "semicolons and decimal commas": ("logs.csv", text(";", ",").encode(), 'separator = ";"\ndecimal = ","\n'),
    "tabs": ("logs.tsv", text("\t").encode(), ""),
    "tabs in .csv": ("logs.csv", text("\t").encode(), 'separator = "\\t"\n'),
    "bars in .txt": ("logs.txt", text("|").encode(), 'separator = "|"\n'),
    "Windows-1252": ("logs.csv", text().encode("cp1252"), 'encoding = "cp1252"\n'),
    "UTF-16": ("logs.csv", text().encode("utf-16"), 'encoding = "utf-16"\n'),
    "a packed file": ("logs.csv.gz", gzip.compress(text().encode()), ""),
    "a packed .tsv": ("logs.tsv.gz", gzip.compress(text("\t").encode()), ""),
    "German times": ("logs.csv", text(time="%d.%m.%Y %H:%M").encode(), 'time_format = "%d.%m.%Y %H:%M"\n'),
    "American times": ("logs.csv", text(time="%m/%d/%Y %I:%M %p").encode(), 'time_format = "%m/%d/%Y %I:%M %p"\n'),
    "percentages": ("logs.csv", text(p=lambda chance: f"{100 * chance:g} %").encode(), 'percent = ["p"]\n'),
    "a German export": (
        "logs.csv",
        text(";", ",", "%d.%m.%Y %H:%M:%S", lambda chance: f"{100 * chance:.1f}%").encode("cp1252"),
        'separator = ";"\ndecimal = ","\nencoding = "cp1252"\npercent = ["p"]\ntime_format = "%d.%m.%Y %H:%M:%S"\n',
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_study_reads_it_and_init_finds_out_how(name, expected, tmp_path):
    file, content, section = VARIANTS[name]
    path = tmp_path / file
    path.write_bytes(content)
    head = f"[file]\n{section}" if section else ""
    assert_same(sf.Study.parse(head + STUDY).read(path).logs, expected)
    drafted = draft_study(path).text
    assert ("[file]" in drafted) == bool(section)
    for line in section.splitlines():
        assert line in drafted.splitlines()
    study = sf.Study.parse(drafted)
    assert study.columns.probability_of == "sending"
    assert_same(study.model_copy(update={"state": sf.Study.parse(STUDY).state}).read(path).logs, expected)


def test_a_workbook_is_read_with_the_types_of_its_cells(expected, tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="Excel is optional: pip install 'surefoot[excel]' to run this")
    book = openpyxl.Workbook()
    book.active.title = "notes"
    book.active.append(["not this sheet"])
    sheet = book.create_sheet("logs")
    sheet.append(HEADER)
    for row in rows():
        sheet.append(list(row))
    book.save(tmp_path / "logs.xlsx")
    study = sf.Study.parse('[file]\nsheet = "logs"\n' + STUDY)
    assert_same(study.read(tmp_path / "logs.xlsx").logs, expected)
    sheet["C5"] = "fine"
    book.save(tmp_path / "logs.xlsx")
    with pytest.raises(sf.InputError, match=r"logs\.xlsx: row 5, column 'mood', participant 0: 'fine' is not a number"):
        study.read(tmp_path / "logs.xlsx")
    with pytest.raises(sf.InputError, match=r"there is no sheet 'log' \(did you mean 'logs'\?\); the workbook has"):
        sf.Study.parse('[file]\nsheet = "log"\n' + STUDY).read(tmp_path / "logs.xlsx")
    book.remove(book["notes"])
    book.save(tmp_path / "logs.xlsx")
    assert sf.Study.parse(draft_study(tmp_path / "logs.xlsx").text).outcome.column == "steps"
    (tmp_path / "logs.xlsx").write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(sf.InputError, match="cannot be read as an Excel workbook"):
        study.read(tmp_path / "logs.xlsx")


def test_thousands_and_decimals_in_european_numbers(tmp_path):
    study = sf.Study.parse('[file]\nseparator = ";"\ndecimal = ","\n[columns]\nparticipant = "u"\ntime = "t"\n[state.s]\n')
    path = tmp_path / "logs.csv"
    path.write_text("u;t;s;action;outcome\n1;1;1.234,5;0;12\n1;2;-0,5;1;1.000.000\n1;3;,5;1;3e2\n1;4;7;0;\n")
    logs = study.read(path).logs
    assert logs.state[:, 0].tolist() == [1234.5, -0.5, 0.5, 7]
    assert logs.outcome[:3].tolist() == [12, 1_000_000, 300]
    path.write_text("u;t;s;action;outcome\n1;1;1,5;0;12\n1;2;2.5;1;3\n")
    with pytest.raises(
        sf.InputError, match=r"line 3, column 's', participant 1: '2\.5' is not a number with a decimal comma"
    ):
        study.read(path)


def test_trajectories_take_the_same_settings(expected, tmp_path):
    path = tmp_path / "logs.csv"
    path.write_text(text(";", ","), encoding="utf-8")
    roles = {"participant": "participant", "time": "time", "state": ["mood"], "action": "sent", "outcome": "steps"}
    logs = sf.Trajectories.from_file(path, file=FileSettings(separator=";", decimal=","), **roles)
    assert_allclose(logs.state[:, 0], expected.state[:, 0])


def test_a_day_that_could_be_a_month_is_said(tmp_path):
    lines = [f"{who},{day:02d}/0{1 + day % 9}/2024,{day},{day % 2},1" for who in (1, 2) for day in range(1, 13)]
    (tmp_path / "logs.csv").write_text("participant,time,mood,action,outcome\n" + "\n".join(lines))
    drafted = draft_study(tmp_path / "logs.csv").text
    assert '# Check: the times also fit "%m/%d/%Y".' in drafted
    assert 'time_format = "%d/%m/%Y"' in drafted
