"""A small trial, and ways to write its file as platforms and people do."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.study.draft import draft_study

PEOPLE, POINTS = 8, 30
HEADER = ("participant", "t", "stress", "home", "temp", "sent", "p", "steps")


def make_rows():
    rng = np.random.default_rng(4)
    for number in range(PEOPLE):
        for t in range(POINTS):
            sent = int(rng.random() < 0.7)
            stress, home = int(rng.integers(1, 8)), int(rng.random() < 0.5)
            steps = max(0, round(400 + 120 * sent - 20 * stress + rng.normal(0, 150)))
            yield [
                f"P{number:02d}",
                str(t),
                str(stress),
                str(home),
                f"{rng.normal(15, 5):.1f}",
                str(sent),
                "0.7",
                str(steps),
            ]


ROWS = list(make_rows())
UNTREATED = sum(row[5] == "0" for row in ROWS)


def write(path, rows=ROWS, header=HEADER, separator=",", above=()):
    lines = [separator.join(header), *above, *(separator.join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def change(column, function, header=HEADER):
    """The rows with another text in a column."""
    position = header.index(column)
    return [[*row[:position], function(row[position], number), *row[position + 1 :]] for number, row in enumerate(ROWS)]


def read(path, **roles):
    """The draft for a file, and what its study reads there."""
    draft = draft_study(path, **roles)
    return draft, sf.Study.parse(draft.text), sf.Study.parse(draft.text).read(path).logs


def assert_same(logs, plain, missing=None):
    """The same decision points, apart from missing states and outcomes."""
    assert_array_equal(logs.participant, plain.participant)
    assert_array_equal(logs.action, plain.action)
    assert_allclose(logs.probability, plain.probability)
    gone = np.zeros(len(plain), dtype=bool) if missing is None else missing
    assert_array_equal(logs.outcome, np.where(gone, np.nan, plain.outcome))
