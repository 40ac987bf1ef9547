"""One reader for columns: kinds of state variables."""

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

import surefoot as sf
from surefoot.data.column_kinds import Category, Number, YesNo
from surefoot.data.log_columns import LogColumn

HEADER = "participant,time,hour,rain,place,action,outcome\n"


def logs_text(rows=40):
    cells = [
        f"{who},{t},{(5 * t) % 24},{('yes', 'no')[t * t % 7 % 2]},{('home', 'out')[t % 2]},{t * t % 5 % 2},{t * 7 % 11}\n"
        for who in ("007", "12")
        for t in range(rows)
    ]
    return HEADER + "".join(cells)


@pytest.fixture
def logs(tmp_path):
    (tmp_path / "logs.csv").write_text(logs_text())
    return tmp_path / "logs.csv"


def test_a_study_and_trajectories_read_a_file_alike(logs):
    """`007` is text and `yes` is 1, whoever reads."""
    roles = {"participant": "participant", "time": "time", "action": "action", "outcome": "outcome"}
    study = sf.Study.parse(
        '[columns]\nparticipant = "participant"\ntime = "time"\n[state.hour]\n[state.rain]\nkind = "yes/no"\n'
        '[state.place]\nkind = "category"\nlevels = ["out", "home"]\n'
    )
    read = study.read(logs).logs
    kinds = {"hour": Number(), "rain": YesNo(), "place": Category(levels=("out", "home"))}
    direct = sf.Trajectories.from_file(logs, state=kinds, **roles)
    assert direct.participants.tolist() == read.participants.tolist() == ["007", "12"]
    assert direct.state_names == read.state_names == ("hour", "rain", "place=home")
    for name in ("participant_index", "time", "state", "available", "action", "outcome", "order", "starts"):
        assert_array_equal(getattr(direct, name), getattr(read, name))
    plain = sf.Trajectories.from_file(logs, state=["hour", "rain"], **roles)
    assert_array_equal(plain.state, read.state[:, :2])
    with pytest.raises(
        sf.InputError, match=r"column 'place' holds text \('home', 'out', …\); write state={'place': 'category'"
    ):
        sf.Trajectories.from_file(logs, state=["place"], **roles)
    named = sf.Trajectories.from_file(logs, state={"hour": "number", "rain": "yes/no", "place": "category"}, **roles)
    assert named.state_names == ("hour", "rain", "place=out")
    assert_array_equal(named.state[:, :2], read.state[:, :2])
    assert_array_equal(named.state[:, 2], 1 - read.state[:, 2])
    with pytest.raises(sf.InputError, match="column 'hour' holds 24 different values where a category has 2 to 12"):
        sf.Trajectories.from_file(logs, state={"hour": "category"}, **roles)


@pytest.mark.parametrize(
    ("kind", "value", "cell"),
    [
        (Number(), 3, 3.0), (Number(), True, None), (Number(), "3", None), (Number(), None, None),
        (YesNo(), True, 1.0), (YesNo(), 0, 0.0), (YesNo(), 2, None), (YesNo(), "yes", None),
        (Category(levels=("a", "b")), "b", "b"), (Category(levels=("a", "b")), "c", None),
        (Category(levels=("a", "b")), 1, None),
    ],
)  # fmt: skip
def test_json_values_of_another_kind_are_none(kind, value, cell):
    assert kind.from_json(value) == cell
    assert type(kind.from_json(value)) is type(cell)
    if cell is not None:
        column = LogColumn("x", pa.array([cell]))
        assert kind.read(column).values.shape == (1, len(kind.state_columns("x")))
        column.problems.raise_any()


@pytest.mark.parametrize(
    "kind", [Number(range=(0, 5), centre=1, scale=2), Number(), YesNo(), Category(levels=("a", "b", "c"))]
)
def test_cells_of_json_and_columns_of_logs_are_read_alike(kind):
    cells = [kind.from_json(value) for value in (0, 1, 2.5, 7, None, "a", "c", True)]
    quick, column = kind.read_cells(cells), kind.read(LogColumn("x", pa.array(cells)))
    np.testing.assert_array_equal(quick.values, column.values)
    np.testing.assert_array_equal(quick.implausible, column.implausible)


def test_kinds_describe_themselves():
    assert Number().describe() == "number"
    assert Number(range=(0, 50), centre=20, scale=10).describe() == (
        "number, plausible from 0 to 50, scaled as (value − 20) / 10"
    )
    assert YesNo().describe() == "yes/no"
    assert Category(levels=("other", "home")).describe() == "category, compared with other"


def test_an_unknown_kind_names_the_nearest():
    with pytest.raises(
        sf.InputError, match=r"line 5, key 'state.x.kind': there is no kind 'nubmer' \(did you mean 'number'"
    ):
        sf.Study.parse('[columns]\nparticipant = "p"\ntime = "t"\n[state.x]\nkind = "nubmer"\n')
