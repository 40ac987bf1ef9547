"""What `init` writes for files as platforms and people write them reads the same decision points as from a plain file."""

import numpy as np
import pytest
from typer.testing import CliRunner

import surefoot as sf
from surefoot.cli import app
from surefoot.study.draft import draft_study
from tests.messy_files import HEADER, ROWS, UNTREATED, assert_same, change, read, write


@pytest.fixture
def plain(tmp_path):
    return read(write(tmp_path / "plain.csv"))[2]


def run_commands(path, study):
    """What the commands print; each must work at once."""
    output = {}
    for command in ("fit", "screen", "effects", "audit"):
        out = ("--out", str(path.parent / "fitted")) if command == "fit" else ()
        result = CliRunner().invoke(app, [command, str(path), "--study", str(study), *out])
        assert result.exit_code == 0, result.output + str(result.exception)
        output[command] = result.output
    return output


def init(path, *arguments):
    study = path.parent / "study.toml"
    result = CliRunner().invoke(app, ["init", str(path), "--out", str(study), *arguments])
    assert result.exit_code == 0, result.output + str(result.exception)
    return study, result.output


@pytest.mark.parametrize(
    ("codes", "values", "reason"),
    [
        (("1", "2"), (1, 2), "column 'sent': 1 is taken for \"nothing\", because it is the smallest code; see [actions]"),
        (("0", "2"), (0, 2), "column 'sent': 0 is taken for \"nothing\", because 0 usually does; see [actions]"),
        (("-1", "1"), (-1, 1), "column 'sent': -1 is taken for \"nothing\", because it is the smallest code; see [actions]"),
        (
            ("1.0", "2.0"),
            (1, 2),
            "column 'sent': 1 is taken for \"nothing\", because it is the smallest code; see [actions]",
        ),
        (("2", "1"), (2, 1), "column 'sent': 2 is taken for nothing, because only so do the probabilities fit"),
        (("no", "yes"), None, None),
        (("FALSE", "TRUE"), None, None),
        (("wait", "walk"), None, "because of its name"),
        (("no_message", "message"), None, "because of its name"),
        (("B", "A"), None, "column 'sent': B is taken for nothing, because only so do the probabilities fit"),
        (("", "1"), ("", 1), f"column 'sent': an empty cell ({UNTREATED} rows) is taken for \"nothing\""),
        (("NA", "1"), ("NA", 1), f'column \'sent\': "NA" ({UNTREATED} rows) is taken for "nothing"'),
    ],
)
def test_codes_of_actions_are_found_and_named(codes, values, reason, plain, tmp_path):
    path = write(tmp_path / "logs.csv", change("sent", lambda text, _: codes[int(text)]))
    draft, study, logs = read(path)
    assert_same(logs, plain)
    assert study.actions.values == values
    doubts = [message for message in draft.warnings if message.startswith("column 'sent'")]
    assert (reason is None and not doubts) or (reason in doubts[0] and f"# Check: {doubts[0][15:-15]}" in draft.text)


def test_a_second_code_for_sending_becomes_a_second_action(tmp_path):
    path = write(tmp_path / "logs.csv", change("sent", lambda text, number: str(1 + int(text) * (1 + number % 2))))
    _, study, logs = read(path)
    assert study.actions.values == (1, 2, 3)
    assert study.actions.names == ("nothing", "send 2", "send 3")
    assert set(logs.action) == {0, 1, 2}


def test_many_texts_are_no_actions(tmp_path):
    path = write(tmp_path / "logs.csv", change("sent", lambda text, number: f"walk {number % 40}"))
    with pytest.raises(
        sf.InputError, match="column 'sent' holds 40 different values, too many for actions; say with --action"
    ):
        draft_study(path)
    path = write(tmp_path / "logs.csv", change("sent", lambda *_: "1"))
    with pytest.raises(sf.InputError, match="column 'sent' holds 1 only, so no two actions can be compared"):
        draft_study(path)


@pytest.mark.parametrize("word", [".", "-", "–", "None", "n/a", "missing", "#NULL!", "?", "refused", "watch off", "inf"])
def test_words_for_missing_are_found_and_named(word, plain, tmp_path):
    gone = np.arange(len(ROWS)) % 13 == 3
    path = write(tmp_path / "logs.csv", change("steps", lambda text, number: word if gone[number] else text))
    draft, study, logs = read(path)
    assert study.columns.missing == (word,)
    assert f"'{word}' counts as missing (missing in [columns]); take out what is a value" in draft.warnings
    assert_same(logs, plain, missing=gone)


def test_a_word_may_be_a_level_where_no_number_stands(tmp_path):
    rows = change("home", lambda text, number: ("none", "home", ".")[int(text) if number % 9 else 2])
    draft, study, _ = read(write(tmp_path / "logs.csv", rows))
    assert set(study.state["home"].levels) == {"none", "home"}
    assert study.columns.missing == (".",)
    assert '# Check: "none" counts as a level; write missing = ["none"] if it does not.' in draft.text
    # Unless numbers are missing by that word.
    column = HEADER.index("stress")
    rows = [
        [*row[:column], "none" if number % 7 == 0 else row[column], *row[column + 1 :]] for number, row in enumerate(rows)
    ]
    _, study, _ = read(write(tmp_path / "logs.csv", rows))
    assert study.columns.missing == (".", "none")
    assert "home" not in study.state


@pytest.mark.parametrize(("name", "text"), [("p", "70 %"), ("rand_prob", "70%"), ("probability", "70"), ("design", "70 %")])
def test_a_constant_percentage_is_the_probability(name, text, plain, tmp_path):
    header = [name if column == "p" else column for column in HEADER]
    draft, study, logs = read(write(tmp_path / "logs.csv", change("p", lambda *_: text), header))
    assert study.columns.probability == name
    assert study.file.percent == (name,)
    assert_same(logs, plain)
    guessed = f"column '{name}' is taken for the probability of sending, which it fits; check it"
    assert (guessed in draft.warnings) == (name == "design")


def test_a_constant_that_does_not_fit_is_no_probability(tmp_path):
    header = ["dose" if column == "p" else column for column in HEADER]
    draft, study, _ = read(write(tmp_path / "logs.csv", change("p", lambda *_: "0.05"), header))
    assert study.columns.probability is None
    assert draft.warnings[0].startswith(
        "no column looks like the randomisation probability, which effects and evaluate need"
    )


@pytest.mark.parametrize("separator", [",", ";"])
def test_rows_that_end_early_are_read_and_named(separator, plain, tmp_path):
    rows = [row[:-1] if number in (4, 39, 76, 80) else row for number, row in enumerate(ROWS)]
    rows[10] = [*rows[10], "", ""]
    path = write(tmp_path / "logs.csv", rows, separator=separator)
    draft, study, logs = read(path)
    problem = "5 rows have fewer or more fields than the header (line 6, 12, 41, …); left out fields count as missing"
    assert f"{problem} (ragged in [file])" in draft.warnings
    assert study.file.ragged
    assert_same(logs, plain, missing=np.isin(np.arange(len(ROWS)), (4, 39, 76, 80)))
    rows[20] = [*rows[20], "and, so on"]
    with pytest.raises(sf.InputError, match=r"line 22: (9|10) fields where the header has 8; "):
        study.read(write(path, rows, separator=separator))
    with pytest.raises(sf.InputError, match=r"line 22: (9|10) fields where the header has 8; "):
        draft_study(path)


QUALTRICS = (
    ",".join([f'"What is your {name},\nplease?"' for name in HEADER]),
    ",".join([f'"{{""ImportId"":""{name}""}}"' for name in HEADER]),
)


@pytest.mark.parametrize("above", [QUALTRICS, ("Who,When,1-7 points,at home,degrees,sent,chance,per hour",)])
def test_further_rows_of_a_header_are_not_read(above, plain, tmp_path):
    path = write(tmp_path / "logs.csv", above=above)
    draft, study, logs = read(path)
    assert study.file.header_rows == 1 + len(above)
    rows = "row 2 belongs to the header and is" if len(above) == 1 else "rows 2 to 3 belong to the header and are"
    assert f"{rows} not read (header_rows in [file])" in draft.warnings
    assert_same(logs, plain)
    # Lines are named as they stand in the file.
    rows = change("steps", lambda text, number: "many" if number == 2 else text)
    line = 5 + sum(row.count("\n") + 1 for row in above) - 1
    with pytest.raises(sf.InputError, match=f"line {line}, column 'steps', participant 'P00': 'many' is not a number"):
        study.read(write(path, rows, above=above))


def test_questions_are_no_level_where_somebody_deleted_the_import_ids(plain, tmp_path):
    header = ["StartDate", "ResponseId", *HEADER]
    rows = [["2026-03-01 08:00:00", f"R_{number}", *row] for number, row in enumerate(ROWS)]
    labels = ",".join(["Start Date", "Response ID", *(f"Your {name}?" for name in HEADER)])
    _, study, logs = read(write(tmp_path / "logs.csv", rows, header, above=(labels,)))
    assert study.file.header_rows == 2
    assert_same(logs, plain)


def test_a_workbook_of_qualtrics(plain, tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="Excel is optional: pip install 'surefoot[excel]' to run this")
    book = openpyxl.Workbook()
    for row in (HEADER, [f"Your {name}?" for name in HEADER], [f'{{"ImportId":"{name}"}}' for name in HEADER]):
        book.active.append(list(row))
    for row in ROWS:
        book.active.append([row[0], *map(float, row[1:])])
    book.save(tmp_path / "logs.xlsx")
    _, study, logs = read(tmp_path / "logs.xlsx")
    assert study.file.header_rows == 3
    assert_same(logs, plain)


def test_columns_of_redcap_are_no_states(plain, tmp_path):
    header = [
        "record_id",
        "redcap_event_name",
        "redcap_repeat_instrument",
        "redcap_repeat_instance",
        *HEADER[2:],
        "ema_complete",
    ]
    rows = [
        [row[0], f"week_{int(row[1]) // 10}_arm_1", "ema", str(int(row[1]) + 1), *row[2:], "2" if int(row[1]) % 7 else "0"]
        for row in ROWS
    ]
    draft, study, logs = read(write(tmp_path / "logs.csv", rows, header))
    assert set(study.state) == {"stress", "home", "temp"}
    assert (study.columns.participant, study.columns.time) == ("record_id", "redcap_repeat_instance")
    names = '"redcap_event_name", "redcap_repeat_instrument", "ema_complete"'
    assert f"# Left out: {names}, which REDCap writes to say which form or survey a row comes from" in draft.text
    assert_same(logs, plain)
    baseline = ["P00", "baseline_arm_1", "", "", *[""] * len(HEADER[2:]), "2"]
    draft = draft_study(write(tmp_path / "logs.csv", [baseline, *rows], header))
    assert any(
        "column 'redcap_repeat_instrument' is empty in 1 rows, which are of another form" in warning
        for warning in draft.warnings
    )
    assert draft.warnings[-1].startswith("the logs cannot be read yet:\n")
    assert "line 2, column 'redcap_repeat_instance', participant 'P00': missing" in draft.warnings[-1]


def test_a_time_is_preferred_to_a_counter_and_boxes_are_named(tmp_path):
    header = ["record_id", "redcap_repeat_instance", "ema_time", "Trigger_counter", *HEADER[2:], "place___1", "place___2"]
    rows = [
        [row[0], str(int(row[1]) + 1), f"2024-05-{1 + int(row[1]):02d} 08:30", row[1], *row[2:], "1" * (number % 2), ""]
        for number, row in enumerate(ROWS)
    ]
    draft, study, logs = read(write(tmp_path / "logs.csv", rows, header))
    assert study.columns.time == "ema_time"
    assert logs.time.dtype.kind == "M"
    assert '# Left out: "place___1", which holds 1 or nothing: write 0 where an empty cell means no.' in draft.text
    counted = [[*row[:2], row[3], *row[4:]] for row in rows]
    _, study, _ = read(write(tmp_path / "logs.csv", counted, [*header[:2], header[3], *header[4:]]))
    assert study.columns.time == "Trigger_counter"


def test_an_answer_in_words_is_no_outcome(tmp_path):
    header = [*HEADER[:-1], "response", "walked_later"]
    rows = [[*row[:-1], ("good", "bad", "")[number % 3], row[-1]] for number, row in enumerate(ROWS)]
    with pytest.raises(sf.InputError, match="no column looks like the outcome; say which with --outcome NAME"):
        draft_study(write(tmp_path / "logs.csv", rows, header))


def test_a_number_of_the_row_is_no_participant(plain, tmp_path):
    rows = [[str(number), *row] for number, row in enumerate(ROWS)]
    _, study, logs = read(write(tmp_path / "logs.csv", rows, ["id", *HEADER]))
    assert study.columns.participant == "participant"
    assert_same(logs, plain)
    alone = write(tmp_path / "logs.csv", [[row[0], *row[2:]] for row in rows], ["id", *HEADER[1:]])
    message = "column 'id' has another value in every row, so it seems to number the rows, not the participants"
    with pytest.raises(sf.InputError, match=f"{message}; say which column names the participants with --participant NAME"):
        draft_study(alone)


def test_day_and_time_of_day_in_two_columns(tmp_path):
    header = ["participant", "date", "time", *HEADER[2:]]
    rows = [[row[0], f"2024-05-{1 + int(row[1]) // 3:02d}", f"{8 + 4 * (int(row[1]) % 3):02d}:30", *row[2:]] for row in ROWS]
    draft = draft_study(write(tmp_path / "logs.csv", rows, header))
    assert (
        "column 'date' and 'time': day and time of day must stand in one column, such as 2024-05-31 08:30" in draft.warnings
    )


@pytest.mark.parametrize(
    ("outcome", "column", "words"),
    [
        (lambda text, _: text, "steps", "A message raises steps by about 92 (95 %"),
        (lambda text, _: str(int(text) / 100), "mood", "A message raises mood by about"),
        (lambda text, _: str(int(int(text) > 380)), "active", "A message raises the chance of active by about"),
    ],
)
def test_every_command_works_at_once_and_effects_are_sentences(outcome, column, words, tmp_path):
    header = ["message_sent" if name == "sent" else column if name == "steps" else name for name in HEADER]
    path = write(tmp_path / "logs.csv", change("steps", outcome), header)
    study, _ = init(path, "--outcome", column)
    assert words in run_commands(path, study)["effects"].splitlines()[0]


@pytest.mark.parametrize("shape", ["ragged", "codes", "words", "percent", "qualtrics"])
def test_every_command_works_at_once(shape, tmp_path):
    path = tmp_path / "logs.csv"
    if shape == "ragged":
        write(path, [row[:-1] if number % 50 == 4 else row for number, row in enumerate(ROWS)], separator=";")
    elif shape == "codes":
        write(path, change("sent", lambda text, _: str(1 + int(text))))
    elif shape == "words":
        write(path, change("steps", lambda text, number: "." if number % 13 == 3 else text))
    elif shape == "percent":
        write(path, change("p", lambda *_: "70 %"))
    else:
        write(path, above=QUALTRICS)
    study, output = init(path)
    assert ("warning" in output) == (shape != "percent")
    run_commands(path, study)


def test_rows_that_end_early_are_read_with_empty_fields(tmp_path):
    from surefoot.data.file_formats import read_text
    from surefoot.data.log_columns import FileSettings

    rows = [row[:-1] if number % 50 == 4 else row for number, row in enumerate(ROWS)]
    data = write(tmp_path / "logs.csv", rows, above=QUALTRICS).read_bytes()
    settings = FileSettings(",", header_rows=3, ragged=True)
    table = read_text(tmp_path / "logs.csv", data, settings, ["steps", "t"])
    assert table["steps"].to_pylist() == [row[7] if len(row) > 7 else "" for row in rows]
