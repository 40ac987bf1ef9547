"""Files as people write them: `init` reads the same decision points, or says by name what stands in the way."""

from datetime import datetime, timedelta

import pytest

import surefoot as sf
from surefoot.study.draft import draft_study
from tests.messy_files import HEADER, ROWS, assert_same, change, read, write

FIRST = datetime(2024, 3, 30, 8, 30)


def text_of(rows=ROWS, header=HEADER, separator=","):
    return "\n".join([separator.join(header), *(separator.join(row) for row in rows)]) + "\n"


def time_as(layout):
    return change("t", lambda text, _: (FIRST + timedelta(hours=5 * int(text))).strftime(layout))


PLAIN = text_of()
LINES = PLAIN.splitlines()
GERMAN = [[cell.replace(".", ",") for cell in row] for row in ROWS]
ALIKE = {
    "a byte order mark": "\ufeff" + PLAIN,
    "CRLF": PLAIN.replace("\n", "\r\n"),
    "CR": PLAIN.replace("\n", "\r"),
    "quotes around everything": "\n".join(",".join(f'"{cell}"' for cell in line.split(",")) for line in LINES),
    "blanks around everything": "\n".join(" , ".join(line.split(",")) for line in LINES),
    "empty lines": "\n\n".join(LINES),
    "semicolons and decimal commas": text_of(GERMAN, separator=";"),
    "decimal commas in quotes": text_of([[f'"{cell}"' for cell in row] for row in GERMAN]),
    "tildes": text_of(separator="~"),
    "spaces": text_of(separator=" "),
    "empty columns at the end": "\n".join(line + ",,," for line in LINES),
    "separators at the end of rows": "\n".join([LINES[0], *(line + "," for line in LINES[1:])]),
    "a column without a name that counts rows": text_of(
        [[str(number), *row] for number, row in enumerate(ROWS)], ["", *HEADER]
    ),
    "lists of answers": text_of([[*row, f'"{row[2]},{row[3]}"'] for row in ROWS], [*HEADER, "emotions"]),
    "remarks over several lines": text_of([[*row, '"not now,\nlater"'] for row in ROWS], [*HEADER, "remark"]),
    "Python's True and False": text_of(change("sent", lambda text, _: str(text == "1"))),
    "epoch milliseconds": text_of(change("t", lambda text, _: str(1_700_000_000_000 + int(text) * 18_000_000))),
    "serial dates of Excel": text_of(change("t", lambda text, _: f"{45000 + int(text) * 5 / 24:.6f}")),
    "names of months": text_of(time_as("%d-%b-%Y %H:%M:%S")),
    "American times": text_of(time_as("%m/%d/%Y %I:%M:%S %p")),
    "two time zones": text_of(
        change("t", lambda text, _: f"2024-05-{1 + int(text):02d}T08:00:00+0{1 + (int(text) > 9)}:00")
    ),
}


@pytest.mark.parametrize("name", ALIKE)
def test_the_same_decision_points_are_read(name, tmp_path):
    plain = read(write(tmp_path / "plain.csv"))[2]
    (tmp_path / "logs.csv").write_bytes(ALIKE[name].encode())
    draft, _, logs = read(tmp_path / "logs.csv")
    assert_same(logs, plain)
    assert [warning for warning in draft.warnings if "ragged" not in warning] == []
    if logs.time.dtype.kind in "iM" and "zones" not in name:
        assert logs.order.tolist() == plain.order.tolist()


@pytest.mark.parametrize(
    ("written", "thousands", "decimal", "sure"),
    [
        ("{:,}", ",", ".", True),
        ("{: }", " ", ".", True),
        ("{:n}", " ", ".", True),
        ("{:'}", "'", ".", True),
        ("{:.}", None, ",", False),
    ],
)
def test_thousands_are_joined(written, thousands, decimal, sure, tmp_path):
    between = {",": ",", " ": " ", "n": "\u202f", "'": "’", ".": "."}[written[2]]
    rows = change("steps", lambda text, _: f"{20 * int(text):,}".replace(",", between))
    if between == ",":
        rows = [[*row[:-1], f'"{row[-1]}"'] for row in rows]
    if not sure:  # Nothing else in the file says what a point means.
        rows = [[*row[:4], "7", row[5], "60 %", row[7]] for row in rows]
    draft, study, logs = read(write(tmp_path / "logs.csv", rows))
    assert (study.file.thousands, study.file.decimal) == (thousands, decimal)
    assert logs.outcome.tolist() == [20 * int(row[-1]) for row in ROWS]
    assert any("is read as" in warning for warning in draft.warnings) != sure


def test_a_yes_no_outcome_is_one_and_zero(tmp_path):
    rows = change("steps", lambda text, _: "Yes" if int(text) > 380 else "no")
    _, study, logs = read(write(tmp_path / "logs.csv", rows))
    assert logs.outcome.tolist() == [float(int(row[-1]) > 380) for row in ROWS]
    assert study.effects.estimator == "emee"


def test_signs_of_mathematics_are_minus_signs(tmp_path):
    rows = change("temp", lambda text, _: f"{float(text) - 15:.1f}".replace("-", "\u2212"))
    _, _, logs = read(write(tmp_path / "logs.csv", rows))
    assert logs.state_names[-1] == "temp"
    assert (logs.state[:, -1] < 0).sum() > 50


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n".join([*LINES[:50], LINES[0], *LINES[50:]]), "line 51: a second header; delete that line"),
        (
            "Heart study\nof 2024\n" + PLAIN,
            "line 1: one field ('Heart study') where line 3 has 8; delete the lines above the header",
        ),
        ("sep=;\n" + PLAIN.replace(",", ";"), "line 1: 'sep=;' is a hint for Excel, not the header; delete that line"),
        ("\n".join(LINES[1:]), "line 1: two columns are called '0'; write a line with the names of the columns above it"),
        (PLAIN[:-7], "line 241: the file ends in the middle of this row; get the whole file, or delete the row"),
        (
            text_of(
                [[row[0], str(int(row[1]) // 5), str(int(row[1]) % 5), *row[2:]] for row in ROWS],
                ["participant", "day", "slot", *HEADER[2:]],
            ),
            "--time NAME, or put 'day' and 'slot' into one column, such as 100 * day + slot",
        ),
    ],
)
def test_a_file_that_cannot_be_drafted_is_refused_by_name(text, message, tmp_path):
    (tmp_path / "logs.csv").write_text(text, encoding="utf-8")
    with pytest.raises(sf.InputError) as refused:
        draft_study(tmp_path / "logs.csv")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            change("stress", lambda text, number: f"{text} (sure)" if number % 50 == 1 else text),
            "column 'stress' holds text among its numbers (5 rows, such as",
        ),
        (change("steps", lambda *_: "5"), "column 'steps' holds no two different outcomes"),
        (
            change("p", lambda *_: "3/5"),
            "no column looks like the randomisation probability ('p' holds no numbers from 0 to 1)",
        ),
        (
            change("sent", lambda text, number: "9" if number % 40 == 0 else text),
            "9 (6 rows) may stand for missing: then empty these cells",
        ),
        (
            change("steps", lambda text, _: f"{text} steps"),
            f"'{ROWS[0][-1]} steps' is not a number (and 239 more rows); write the number alone, without a unit or a remark",
        ),
        (
            change("steps", lambda text, _: f"${text}"),
            f"'${ROWS[0][-1]}' is not a number (and 239 more rows); write the number alone, without a sign before it",
        ),
        (
            time_as("%H:%M"),
            "'08:30' is a time of day without a day (and 239 more rows); write both in one column (2015-07-22T16:30:00)",
        ),
        (
            time_as("%a %b %d %H:%M:%S GMT %Y"),
            "'Sat Mar 30 08:30:00 GMT 2024' is not a time in ISO 8601 (and 239 more rows)",
        ),
        (
            change("t", lambda text, _: str(int(text) // 5)),
            "a second decision point at 0 (and 191 more rows); name a column that tells a participant's decision points",
        ),
        (
            [*ROWS, ["Total", *[""] * 6, "98000"]],
            "line 242, column 't', participant 'Total': missing; every decision point needs one (fill it in or",
        ),
    ],
)
def test_what_is_left_open_is_said_by_name(rows, message, tmp_path):
    warnings = draft_study(write(tmp_path / "logs.csv", rows)).warnings
    assert any(message in warning for warning in warnings), warnings


@pytest.mark.parametrize("name", ["is_avail_now", "userEligible", "unavailable", "not_available"])
def test_availability_is_found_and_its_opposite_named(name, tmp_path):
    opposite = name.startswith(("un", "not"))
    unsent = change("sent", lambda text, number: text if number % 10 else "0")
    rows = [[*row, str(int((number % 10 != 0) != opposite))] for number, row in enumerate(unsent)]
    draft, study, logs = read(write(tmp_path / "logs.csv", rows, [*HEADER, name]))
    assert study.columns.available == (None if opposite else name)
    assert logs.available.sum() == (240 if opposite else 216)
    assert (f"column '{name}' seems to say when nothing could be sent" in " ".join(draft.warnings)) == opposite
