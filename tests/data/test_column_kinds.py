"""One reader for columns: kinds of state variables, and what adding one takes."""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

import surefoot as sf
from surefoot.cli import app
from surefoot.data import column_kinds
from surefoot.data.column_kinds import Category, Number, StateValues, VariableKind, YesNo
from surefoot.data.log_columns import LogColumn
from surefoot.service.trial.states import context_to_state
from surefoot.study.draft import draft_study

HEADER = "participant,time,hour,rain,place,action,reward\n"


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
    roles = {"participant": "participant", "time": "time", "action": "action", "reward": "reward"}
    study = sf.Study.parse(
        '[columns]\nparticipant = "participant"\ntime = "time"\n[state.hour]\n[state.rain]\nkind = "yes/no"\n'
        '[state.place]\nkind = "category"\nlevels = ["out", "home"]\n'
    )
    read = study.read(logs).logs
    kinds = {"hour": Number(), "rain": YesNo(), "place": Category(levels=("out", "home"))}
    direct = sf.Trajectories.from_csv(logs, state=kinds, **roles)
    assert direct.participants.tolist() == read.participants.tolist() == ["007", "12"]
    assert direct.state_names == read.state_names == ("hour", "rain", "place=home")
    for name in ("participant_index", "time", "state", "available", "action", "reward", "order", "starts"):
        assert_array_equal(getattr(direct, name), getattr(read, name))
    plain = sf.Trajectories.from_csv(logs, state=["hour", "rain"], **roles)
    assert_array_equal(plain.state, read.state[:, :2])
    with pytest.raises(
        sf.InputError, match=r"column 'place' holds text \('home', 'out', …\); write state={'place': 'category'"
    ):
        sf.Trajectories.from_csv(logs, state=["place"], **roles)
    named = sf.Trajectories.from_csv(logs, state={"hour": "number", "rain": "yes/no", "place": "category"}, **roles)
    assert named.state_names == ("hour", "rain", "place=out")
    assert_array_equal(named.state[:, :2], read.state[:, :2])
    assert_array_equal(named.state[:, 2], 1 - read.state[:, 2])
    with pytest.raises(sf.InputError, match="column 'hour' holds 24 different values where a category has 2 to 12"):
        sf.Trajectories.from_csv(logs, state={"hour": "category"}, **roles)


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
        column = LogColumn("x", pa.array([cell], kind.arrow_type()))
        assert kind.read(column).values.shape == (1, len(kind.state_columns("x")))
        column.problems.raise_any()


@pytest.mark.parametrize(
    "kind", [Number(range=(0, 5), centre=1, scale=2), Number(), YesNo(), Category(levels=("a", "b", "c"))]
)
def test_cells_of_json_and_columns_of_logs_are_read_alike(kind):
    cells = [kind.from_json(value) for value in (0, 1, 2.5, 7, None, "a", "c", True)]
    quick, column = kind.read_cells(cells), kind.read(LogColumn("x", pa.array(cells, kind.arrow_type())))
    np.testing.assert_array_equal(quick.values, column.values)
    np.testing.assert_array_equal(quick.implausible, column.implausible)


def test_kinds_describe_themselves():
    assert Number().describe() == "number"
    assert Number(range=(0, 50), centre=20, scale=10).describe() == (
        "number, plausible from 0 to 50, scaled as (value − 20) / 10"
    )
    assert YesNo().describe() == "yes/no"
    assert Category(levels=("other", "home")).describe() == "category, compared with other"


@dataclass(frozen=True)
class Hour(VariableKind):
    """An hour of the day on a circle."""

    name: ClassVar[str] = "hour"
    json_type: ClassVar[str] = "an hour from 0 to 24"

    def state_columns(self, variable):
        return (f"{variable}: sine", f"{variable}: cosine")

    def read(self, column):
        angle = 2 * np.pi * column.numbers() / 24
        return StateValues(np.column_stack([np.sin(angle), np.cos(angle)]))

    def from_json(self, value):
        return float(value) if isinstance(value, int | float) and 0 <= value <= 24 else None

    @classmethod
    def recognize(cls, summary):
        return cls() if "hour" in summary.name and summary.numbers is not None else None


def test_a_new_kind_is_one_class_and_one_line(logs, tmp_path, monkeypatch):
    """It is drafted by init, read from the study file, fitted, described, and read from a context of the service."""
    monkeypatch.setitem(column_kinds.KINDS, "hour", Hour)
    study_file = tmp_path / "study.toml"
    study_file.write_text(draft_study(logs).text)
    study = sf.Study.load(study_file)
    assert study.state["hour"].kind == "hour"
    assert study.state_names[:2] == ("hour: sine", "hour: cosine")
    assert study.descriptions["hour: sine"] == "hour"
    result = CliRunner().invoke(
        app, ["fit", str(logs), "--study", str(study_file), "--out", str(tmp_path / "out"), "--json"]
    )
    assert json.loads(result.stdout)["missing"]["hour"] == 0
    policies = sf.policies.load(tmp_path / "out" / "policies.json")
    assert policies.state_names[:2] == ("hour: sine", "hour: cosine")
    seen = context_to_state(study, {"hour": 6, "rain": True, "place": "home"}, {})
    assert_allclose(seen.state[:2], [1, 0], atol=1e-12)
    assert context_to_state(study, {"hour": 25, "rain": True, "place": "home"}, {}).reasons == ["implausible: hour"]
    with pytest.raises(sf.InputError, match="'levels' belongs to kind = 'category', not to 'hour'"):
        sf.Study.parse(study_file.read_text().replace('kind = "hour"', 'kind = "hour"\nlevels = ["a", "b"]'))


def test_an_unknown_kind_names_the_nearest():
    with pytest.raises(
        sf.InputError, match=r"line 5, key 'state.x.kind': there is no kind 'nubmer' \(did you mean 'number'"
    ):
        sf.Study.parse('[columns]\nparticipant = "p"\ntime = "t"\n[state.x]\nkind = "nubmer"\n')
