"""One large file, read in blocks and spread over parts, gives what reading it at once gives, to the last bit."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import surefoot as sf
from surefoot import fitting
from surefoot.data import log_files, log_formats, parquet_files, text_files
from surefoot.fitting import fit_study, partition
from tests.data.test_log_formats import STUDY, VARIANTS

pytestmark = pytest.mark.filterwarnings("ignore::surefoot.errors.FitWarning")
RESULTS = ("policies.parquet", "critic.parquet", "weights.parquet", "manifest.json", "policies.json", "study.toml")
TAIL = '[method]\nname = "ro-linucb"\n'
SCREEN = "[screen]\non = true\n"


@pytest.fixture
def in_blocks(monkeypatch):
    """Files of any size are read in blocks of a few rows."""

    def switch(on=True):
        monkeypatch.setattr(log_files, "SPLIT_BYTES", 0 if on else 2**40)
        monkeypatch.setattr(text_files, "BLOCK_BYTES", 700 if on else 2**24)
        monkeypatch.setattr(log_formats, "READ_BYTES", 97)
        monkeypatch.setattr(parquet_files, "BLOCK_ROWS", 17)
        monkeypatch.setattr(partition, "PART_ROWS", 30)

    return switch


def fit_twice(path, study, folder, in_blocks):
    """Read at once, and in blocks: the files of both fits."""
    found = []
    for name, on in (("whole", False), ("blocks", True)):
        in_blocks(on)
        fit_study(path, study, folder / name)
        found.append({file: (folder / name / file).read_bytes() for file in RESULTS})
    return found


def spread_lines(content, encoding="utf-8"):
    """Everybody's rows all over the file."""
    head, *lines = content.decode(encoding).splitlines(keepends=True)
    order = np.random.default_rng(1).permutation(len(lines))
    return (head + "".join(lines[place] for place in order)).encode(encoding)


@pytest.mark.parametrize("name", ["a German export", "UTF-16", "a packed .tsv", "percentages"])
def test_however_a_program_wrote_it(name, tmp_path, in_blocks):
    file, content, section = VARIANTS[name]
    encoding = next((one for one in ("utf-16", "cp1252") if one in section), "utf-8")
    packed = file.endswith(".gz")
    content = spread_lines(gzip.decompress(content) if packed else content, encoding)
    (tmp_path / file).write_bytes(gzip.compress(content) if packed else content)
    study = sf.Study.parse((f"[file]\n{section}" if section else "") + STUDY + TAIL)
    whole, blocks = fit_twice(tmp_path / file, study, tmp_path, in_blocks)
    assert blocks == whole
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".")]


ROWS = [["p", "t", "mood", "action", "reward"]] + [
    [str(who), str(t), f"{(7 * who + 3 * t) % 11}", str((who + t) % 2), f"{(5 * who + t) % 13}"]
    for t in range(20)
    for who in range(7)
]
PLAIN_STUDY = '[columns]\nparticipant = "p"\ntime = "t"\n[state.mood]\nmissing = [-9]\n'


def write(path, rows):
    path.write_text("".join(",".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def change(row, column, text):
    rows = [list(one) for one in ROWS]
    rows[row][column] = text
    return rows


@pytest.mark.parametrize(
    ("row", "column", "text"),
    [
        (100, 0, "007"),  # Ids are text, all of them.
        (100, 0, "1.0"),  # And this is a whole number.
        (100, 1, "2.5"),  # Times are float64, all of them.
        (100, 2, "-9.0"),
        (100, 2, " NaN "),
        (100, 4, '"3"'),
        (3, 2, ""),
    ],
)
def test_types_and_missing_cells_are_those_of_the_whole_file(row, column, text, tmp_path, in_blocks):
    path = write(tmp_path / "logs.csv", change(row, column, text))
    whole, blocks = fit_twice(path, sf.Study.parse(PLAIN_STUDY + TAIL), tmp_path, in_blocks)
    assert blocks == whole


def test_quoted_newlines_and_empty_lines(tmp_path, in_blocks):
    rows = [[*row, f'"a\n\nnote, {number}"'] for number, row in enumerate(ROWS)]
    rows[0][-1] = "note"
    rows[60].append("\n\n")
    rows[60][-2:] = [rows[60][-2] + "\n\n"]
    path = write(tmp_path / "logs.csv", rows)
    whole, blocks = fit_twice(path, sf.Study.parse(PLAIN_STUDY + TAIL), tmp_path, in_blocks)
    assert blocks == whole
    rows[90][2] = "fine"
    write(path, rows)
    line = sum("".join(",".join(row) + "\n" for row in rows[:90]).count(sign) for sign in "\n") + 1
    with pytest.raises(
        sf.InputError, match=rf"logs.csv: line {line}, column 'mood', participant .*: 'fine' is not a number"
    ):
        fit_study(path, sf.Study.parse(PLAIN_STUDY + TAIL), tmp_path / "wrong")


@pytest.mark.parametrize(
    ("method", "screen"),
    [
        ('name = "ro-accb"', SCREEN),
        ('name = "ro-accb"\npooling = "all"', ""),
        ('name = "ts"\npooling = "all"', SCREEN),
        ('name = "ts"\npooling = "partial"', ""),
    ],
)
def test_poolings_and_the_screen(method, screen, tmp_path, in_blocks):
    path = write(tmp_path / "logs.csv", ROWS)
    study = sf.Study.parse(f"{PLAIN_STUDY}[method]\n{method}\n{screen}")
    whole, blocks = fit_twice(path, study, tmp_path, in_blocks)
    assert blocks == whole


@pytest.mark.parametrize("kind", [pa.int32(), pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.float64()])
def test_a_parquet_file_of_one_row_group(kind, tmp_path, in_blocks):
    columns = dict(zip(ROWS[0], zip(*ROWS[1:], strict=True), strict=True))
    ids = pa.array(columns["p"]).cast(pa.int64() if not pa.types.is_dictionary(kind) else kind).cast(kind)
    numbers = {name: pa.array(columns[name]).cast(pa.float64()) for name in ROWS[0][1:]}
    pq.write_table(pa.table({"p": ids, **numbers}), tmp_path / "logs.parquet")
    whole, blocks = fit_twice(tmp_path / "logs.parquet", sf.Study.parse(PLAIN_STUDY + TAIL), tmp_path, in_blocks)
    assert blocks == whole


WRONG = {
    "no number": change(111, 4, "many"),
    "an id is missing": change(111, 0, "NA"),
    "a time is missing": change(111, 1, ""),
    "a field too many": change(111, 4, "1,2"),
    "no such column": [row[:4] for row in ROWS],
    "twice": change(111, 1, ROWS[104][1]),
    "a time zone": [ROWS[0]] + [[p, f"2024-01-{int(t) + 1:02d}T10:00{'Z' * (t == '9')}", *rest] for p, t, *rest in ROWS[1:]],
    "no rows": ROWS[:1],
}


@pytest.mark.parametrize("name", WRONG)
def test_the_same_refusal_with_the_line_of_the_file(name, tmp_path, in_blocks):
    path = write(tmp_path / "logs.csv", WRONG[name])
    check_refusals(path, tmp_path, in_blocks)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("logs.csv", lambda text: text[:2000] + b"\xff" + text[2000:]),
        ("logs.csv", lambda text: text[:2000] + b"\0" + text[2000:]),
        ("logs.csv", lambda text: text[:2000] + b'"' + text[2000:]),
        ("logs.csv", lambda text: text.decode().encode("utf-16")),
        ("logs.csv", lambda text: b" \n"),
        ("logs.csv", gzip.compress),
        ("logs.csv.gz", lambda text: gzip.compress(text)[:-20]),
        ("logs.csv.gz", lambda text: text),
        ("logs.csv", lambda text: text.replace(b",", b";")),
    ],
)
def test_a_damaged_file_is_refused_in_the_same_words(name, change, tmp_path, in_blocks):
    text = write(tmp_path / name, ROWS).read_bytes()
    (tmp_path / name).write_bytes(change(text))
    check_refusals(tmp_path / name, tmp_path, in_blocks)


def check_refusals(path, folder, in_blocks):
    told = []
    for on in (False, True):
        in_blocks(on)
        with pytest.raises(sf.InputError) as refused:
            fit_study(path, sf.Study.parse(PLAIN_STUDY + TAIL), folder / "fitted")
        told.append(str(refused.value))
    assert told[0] == told[1]
    assert [one.name for one in folder.iterdir()] == [path.name]


@pytest.mark.parametrize("way", [KeyboardInterrupt, MemoryError])
def test_nothing_stays_behind_but_the_parts_that_are_done(way, tmp_path, in_blocks, monkeypatch):
    """Also of an earlier run that was killed."""
    path, study = write(tmp_path / "logs.csv", ROWS), sf.Study.parse(PLAIN_STUDY + TAIL)
    (whole, blocks) = fit_twice(path, study, tmp_path, in_blocks)
    old = tmp_path / ".fitted.scratch-killed"
    old.mkdir()
    (old / "lock").touch()
    fit_parts = fitting.fit_parts

    def stop_in_between(*given):
        yield next(fit_parts(*given))
        assert list(tmp_path.glob(".fitted.scratch-*/*.arrows"))
        raise way

    monkeypatch.setattr(fitting, "fit_parts", stop_in_between)
    with pytest.raises(way):
        fit_study(path, study, tmp_path / "fitted")
    hidden = [one.name for one in tmp_path.iterdir() if one.name.startswith(".")]
    assert len(hidden) == 1 and hidden[0].startswith(".fitted.partial-")
    monkeypatch.setattr(fitting, "fit_parts", fit_parts)
    fit_study(path, study, tmp_path / "fitted")
    assert {file: (tmp_path / "fitted" / file).read_bytes() for file in RESULTS} == whole == blocks
