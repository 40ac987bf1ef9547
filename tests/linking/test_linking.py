"""`link` equals a literal double loop on random streams, and nothing after a decision reaches a state."""

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from surefoot.linking import LinkPlan, link
from surefoot.linking.exports import read_export
from surefoot.linking.streams import UNREADABLE_END
from tests.reference import linking as literal

ZONES = ("Europe/Zurich", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe")
STARTS = (datetime(2026, 3, 28, 12), datetime(2026, 10, 24, 12), datetime(2026, 3, 7, 12), datetime(2026, 4, 4, 1))
"""Shortly before clocks change in one of the zones."""
STATES = {
    "a": {"feature": "sum", "minutes": 60},
    "b": {"feature": "mean", "since": "previous decision", "at_least": 0.4},
    "c": {"feature": "last", "since": "02:30"},
    "d": {"feature": "sum", "clock": ["22:00", "03:00"], "partial": "scaled"},
    "e": {"feature": "minutes since", "minutes": 240},
    "f": {"feature": "share covered", "minutes": 90},
}
OUTCOMES = {
    "g": {"feature": "sum", "minutes": 30.5, "at_least": 0.5},
    "h": {"feature": "count", "until": "next decision"},
    "i": {"feature": "mean", "until": "02:15"},
    "j": {"feature": "sum", "clock": ["01:30", "04:00"]},
}


def write_plan(row_minutes, fold, repeats, streams, received):
    lines = ['[decisions]\nzone_column = "tz"\nfold = "first"']
    for name in streams:
        lines.append(f'[streams.{name}]\nzone_column = "tz"\nfold = "{fold}"\nrepeats = "{repeats}"\nworn = "worn"')
        lines += [f"row_minutes = {row_minutes}"] if row_minutes else []
        lines += ['received = "received"'] if received else []
    for section, features in (("states", STATES), ("outcomes", OUTCOMES)):
        for name, feature in features.items():
            if not row_minutes and (feature.keys() & {"at_least", "partial"} or feature["feature"] == "share covered"):
                continue
            lines.append(f'[{section}.{name}]\nstream = {list(streams)}\ncolumn = "steps"'.replace("'", '"'))
            lines += [f"{key} = {value!r}".replace("'", '"') for key, value in feature.items()]
    return LinkPlan.parse("\n".join(lines))


def draw_world(rng, row_minutes, streams, received):
    """Decisions and rows of two people: gaps, repeats, contradictions, jitter, unworn minutes, missing values, travel."""
    decisions, rows = [], {name: [] for name in streams}
    for person in ("1", "b"):
        zone = str(rng.choice(ZONES))
        start = STARTS[rng.integers(len(STARTS))]
        moment = literal.to_moments(start, zone)[0]
        for _ in range(rng.integers(1, 9)):
            moment += timedelta(seconds=int(rng.integers(600, 8 * 3600)))
            decisions.append((person, moment, zone if rng.random() < 0.9 else "UTC"))
        for name in streams:
            step = row_minutes or 7
            for number in range(0, 40 * 60 // step):
                if rng.random() < 0.3:
                    continue
                wall = start + timedelta(minutes=step * number - 600)
                if rng.random() < 0.03:
                    wall += timedelta(seconds=int(rng.integers(60 * step)))
                for _ in range(1 + (rng.random() < 0.05)):
                    value = None if rng.random() < 0.05 else float(rng.integers(0, 4))
                    arrived = None
                    if received:
                        base = literal.clock_moment(wall.date(), wall.strftime("%H:%M"), zone)
                        arrived = base + timedelta(minutes=int(rng.integers(0, 300)))
                    rows[name].append((person, wall, zone, value, bool(rng.random() < 0.8), arrived))
    order = rng.permutation(len(decisions))
    return [decisions[number] for number in order], {
        name: [rows[name][n] for n in rng.permutation(len(rows[name]))] for name in rows
    }


def make_tables(decisions, rows):
    points = pa.table(
        {
            "participant": [person for person, _, _ in decisions],
            "time": [moment.isoformat() for _, moment, _ in decisions],
            "tz": [zone for _, _, zone in decisions],
        }
    )
    streams = {}
    for name, records in rows.items():
        columns = list(zip(*records, strict=True)) or [()] * 6
        streams[name] = pa.table(
            {
                "participant": pa.array(columns[0], pa.string()),
                "time": pa.array([wall.isoformat() for wall in columns[1]], pa.string()),
                "tz": pa.array(columns[2], pa.string()),
                "steps": pa.array(columns[3], pa.float64()),
                "worn": pa.array(columns[4], pa.bool_()),
                "received": pa.array(columns[5], pa.timestamp("us", "UTC")),
            }
        )
    return points, streams


def compute_literally(plan, decisions, rows):
    minutes = plan.row_minutes_of(next(iter(plan.features.values())))
    length = timedelta(minutes=minutes or 0)
    usable = {}
    for person in {person for person, _, _ in decisions}:
        settled = []
        for stream, section in plan.streams.items():
            mine = [row[1:] for row in rows[stream] if row[0] == person]
            settled.append(literal.settle_rows(mine, length, section.fold, section.repeats))
        usable[person] = literal.complete(settled, length)
    columns = {name: [] for name in plan.features}
    for person, moment, zone in decisions:
        own = sorted(time for other, time, _ in decisions if other == person)
        for name in plan.features:
            feature = {**(STATES | OUTCOMES)[name], "is_state": name in STATES}
            window = literal.find_window(feature, own, own.index(moment), zone)
            columns[name].append(literal.compute_feature(feature, usable[person], window, moment, minutes))
    return columns


def is_close(values, expected):
    """Missing at the same decision points, and equal elsewhere."""
    numbers = [np.array([np.nan if value is None else value for value in column]) for column in (values, expected)]
    return np.allclose(*numbers, rtol=1e-12, atol=1e-12, equal_nan=True)


CASES = [
    (seed, row_minutes, fold, repeats, streams, received)
    for seed in range(3)
    for row_minutes, fold, repeats, streams, received in (
        (1, "missing", "missing", ("watch",), False),
        (5, "first", "largest", ("watch",), False),
        (15, "second", "mean", ("watch", "phone"), False),
        (None, "first", "missing", ("survey",), True),
    )
]


@pytest.mark.parametrize(("seed", "row_minutes", "fold", "repeats", "streams", "received"), CASES)
def test_it_equals_a_loop_over_all_rows(seed, row_minutes, fold, repeats, streams, received):
    rng = np.random.default_rng([seed, row_minutes or 0])
    plan = write_plan(row_minutes, fold, repeats, streams, received)
    decisions, rows = draw_world(rng, row_minutes, streams, received)
    points, tables = make_tables(decisions, rows)
    linked = link(points, tables, plan=plan)
    expected = compute_literally(plan, decisions, rows)
    for name, results in expected.items():
        assert is_close(linked.table[name].to_pylist(), [value for value, _, _ in results]), name
        suffix = "minutes" if row_minutes else "rows"
        assert is_close(linked.table[f"{name}_{suffix}"].to_pylist(), [minutes for *_, minutes in results]), name
        if row_minutes:
            assert is_close(linked.table[f"{name}_share"].to_pylist(), [share for _, share, _ in results]), name
    for counts in linked.streams:
        assert counts.rows == counts.used + sum(counts.left_out.values()) == len(rows[counts.name])
    in_blocks = link(points, tables, plan=plan, block_rows=1)
    for name in plan.features:
        assert is_close(in_blocks.table[name].to_pylist(), linked.table[name].to_pylist()), name
    assert in_blocks.to_dict() == linked.to_dict()


@pytest.mark.parametrize("seed", range(3))
def test_the_future_never_reaches_a_state(seed):
    """Rows that begin after a decision, and values of rows that end after it, may be anything."""
    rng = np.random.default_rng(seed)
    plan = write_plan(5, "first", "missing", ("watch", "phone"), False)
    decisions, rows = draw_world(rng, 5, ("watch", "phone"), False)
    points, tables = make_tables(decisions, rows)
    before = link(points, tables, plan=plan).table
    person, decision, _ = decisions[0]
    changed = {}
    for name, records in rows.items():
        changed[name] = []
        for who, wall, zone, value, worn, received in records:
            moment = (literal.to_moments(wall, zone) or [decision])[0]
            if who != person or moment + timedelta(minutes=5) <= decision:
                changed[name].append((who, wall, zone, value, worn, received))
            elif moment < decision:
                changed[name].append((who, wall, zone, 1e6, worn, received))
            elif rng.random() < 0.5:
                changed[name].append((who, wall, zone, 1e6, True, received))
    after = link(points, make_tables(decisions, changed)[1], plan=plan).table
    states = [column for column in before.column_names if column[0] in STATES and column != "participant"]
    assert before.select(states).slice(0, 1).equals(after.select(states).slice(0, 1))
    # The change was not in vain.
    assert not before.select(list(OUTCOMES)).slice(0, 1).equals(after.select(list(OUTCOMES)).slice(0, 1))


def link_steps(decisions, times, *, extra="", stream="row_minutes = 1", values=None, **columns):
    """One participant, `a`, with a sum over the hour before and the half hour after."""
    plan = f"""
[decisions]
{extra}
[streams.watch]
{stream}
[states.before]
stream = "watch"
column = "steps"
feature = "sum"
minutes = 60
[outcomes.after]
stream = "watch"
column = "steps"
feature = "sum"
minutes = 30
"""
    points = pa.table({"participant": ["a"] * len(decisions), "time": decisions})
    steps = values or [1] * len(times)
    rows = pa.table({"participant": ["a"] * len(times), "time": times, "steps": steps, **columns})
    return link(points, {"watch": rows}, plan=LinkPlan.parse(plan))


def test_a_minute_without_data_is_missing_and_not_zero():
    linked = link_steps(["2026-03-02T08:30:00Z"], ["2026-03-02T08:00:00Z", "2026-03-02T07:00:00Z"], values=[0, 5])
    (row,) = linked.table.to_pylist()
    assert (row["before"], row["before_minutes"], row["before_share"]) == (0, 1, pytest.approx(1 / 60))
    assert (row["after"], row["after_minutes"], row["after_share"]) == (None, 0, 0)


def test_a_minute_that_is_not_over_at_the_decision_is_no_state():
    linked = link_steps(["2026-03-02T08:30:20Z"], ["2026-03-02T08:29:00Z", "2026-03-02T08:30:00Z"], values=[3, 50])
    assert linked.table["before"].to_pylist() == [3]
    assert linked.table["after"].to_pylist() == [None]


def test_local_rows_take_the_zone_of_the_decisions_and_follow_a_traveller():
    plan = LinkPlan.parse(
        '[decisions]\nzone_column = "tz"\n[streams.s]\nrow_minutes = 1\n[states.x]\nstream = "s"\ncolumn = "v"\n'
        'feature = "sum"\nminutes = 10'
    )
    decisions = pa.table(
        {
            "participant": ["a", "a"],
            "time": ["2026-03-02T08:30:00", "2026-03-03T08:30:00"],
            "tz": ["Europe/Zurich", "America/New_York"],
        }
    )
    rows = {"participant": ["a", "a"], "time": ["2026-03-02T08:25:00", "2026-03-03T08:35:00"], "v": [4, 9]}
    # On the second day the traveller's rows are in New York's time from the decision on.
    assert link(decisions, {"s": pa.table(rows)}, plan=plan).table["x"].to_pylist() == [4, None]


def test_hours_that_clocks_skip_or_repeat_are_counted():
    times = ["2026-03-29T01:59:00", "2026-03-29T02:30:00", "2026-10-25T02:30:00"]
    zone = 'zone = "Europe/Zurich"'
    linked = link_steps(["2026-03-29T03:30:00"], times, extra=zone)
    (counts,) = linked.streams
    assert counts.used == 1
    assert sorted(counts.left_out.values()) == [1, 1]
    assert linked.table["before"].to_pylist() == [1]
    with pytest.raises(ValueError, match=r"shows? it twice|ambiguous.*fold"):
        link_steps(["2026-10-25T02:30:00"], times, extra=zone)


def test_a_row_over_the_decision_is_neither_state_nor_outcome():
    times = [
        "2026-03-02T09:10:00",
        "2026-03-02T09:25:00",
        "2026-03-02T09:30:00",
        "2026-03-02T09:00:00",
        "2026-03-02T09:05:00",
    ]
    until = ["2026-03-02T09:30:00", "2026-03-02T08:31:00Z", "2026-03-02T09:40:00", "", "2026-03-02T09:04:00"]
    zone = 'zone = "Europe/Zurich"'
    stream = 'ends = "until"'
    linked = link_steps(["2026-03-02T09:30:00"], times, extra=zone, stream=stream, until=until, values=[2, 30, 7, 100, 1000])
    (row,) = linked.table.to_pylist()
    assert (row["before"], row["after"]) == (2, 7)
    assert linked.streams[0].left_out == {UNREADABLE_END: 2}


def test_the_end_that_apple_writes_keeps_later_steps_out_of_a_state(tmp_path):
    path = tmp_path / "export.xml"
    record = (
        '<Record type="HKQuantityTypeIdentifierStepCount" startDate="2026-03-02 08:{}:00 +0000" endDate="{}" value="{}"/>'
    )
    lines = [
        record.format("10", "2026-03-02 08:20:00 +0000", 5),
        record.format("25", "2026-03-02 08:35:00 +0000", 900),
    ]
    path.write_text("<HealthData>" + "\n".join(lines) + "</HealthData>")
    plan = """
[streams.steps]
profile = "apple-health"
[states.before]
stream = "steps"
column = "value"
feature = "sum"
minutes = 60
"""
    points = pa.table({"participant": [read_export(path).streams["StepCount"]["participant"][0].as_py()]})
    points = points.append_column("time", pa.array(["2026-03-02T08:30:00Z"]))
    assert link(points, {"steps": path}, plan=LinkPlan.parse(plan)).table["before"].to_pylist() == [5]


def test_local_arrivals_are_in_the_zone_of_their_row():
    stream = 'row_minutes = 1\nreceived = "arrived"'
    times = ["2026-03-02T09:00:00", "2026-03-02T09:01:00"]
    arrived = ["2026-03-02T09:10:00", "2026-03-02T09:40:00"]
    zone = 'zone = "America/New_York"'
    linked = link_steps(["2026-03-02T09:30:00"], times, extra=zone, stream=stream, arrived=arrived, values=[2, 30])
    assert linked.table["before"].to_pylist() == [2]


def test_rows_that_came_late_are_no_state_and_are_counted():
    decisions = ["2026-03-02T08:30:00Z"]
    times = ["2026-03-02T08:00:00Z", "2026-03-02T08:01:00Z", "2026-03-02T08:31:00Z"]
    received = ["2026-03-02T08:10:00Z", "2026-03-02T09:00:00Z", "2026-03-02T09:00:00Z"]
    linked = link_steps(
        decisions, times, stream='row_minutes = 1\nreceived = "arrived"', arrived=received, values=[2, 30, 7]
    )
    (row,) = linked.table.to_pylist()
    assert (row["before"], row["before_minutes"], row["after"]) == (2, 1, 7)
    assert linked.features[0].late_rows == 1


def test_repeats_contradictions_and_overlaps_are_counted():
    times = [f"2026-03-02T08:{second}Z" for second in ("00:00", "00:00", "05:00", "05:00", "10:00", "10:30")]
    linked = link_steps(["2026-03-02T08:30:00Z"], times, values=[1, 1, 2, 3, 4, 5])
    assert linked.table["before"].to_pylist() == [5]
    assert linked.streams[0].left_out == {
        "repeats a row": 1,
        "contradicts another row about the same minutes": 2,
        "begins before the end of the row before it": 1,
    }


def test_expected_decision_points_without_a_record_are_listed():
    extra = 'zone = "Europe/Zurich"\nexpected = ["08:30", "20:30"]'
    decisions = ["2026-03-28T08:40:00", "2026-03-29T20:00:00", "2026-03-30T08:30:00", "2026-03-30T20:30:00"]
    linked = link_steps(decisions, ["2026-03-28T08:00:00"], extra=extra)
    assert [row["time"] for row in linked.unrecorded.to_pylist()] == ["2026-03-28 20:30", "2026-03-29 08:30"]


def test_mistakes_name_the_place_and_the_remedy(tmp_path):
    with pytest.raises(ValueError, match=r"row 1, column 'time': not a time"):
        link_steps(["2026-03-02T08:30:00Z", "soon"], [])
    with pytest.raises(ValueError, match="another decision point at this time"):
        link_steps(["2026-03-02T08:30:00Z", "2026-03-02T09:30:00+01:00"], [])
    with pytest.raises(ValueError, match="without a time zone; write zone"):
        link_steps(["2026-03-02T08:30:00"], [])
    with pytest.raises(ValueError, match="there is no column 'arrived'"):
        link_steps(["2026-03-02T08:30:00Z"], [], stream='row_minutes = 1\nreceived = "arrived"')
    broken = tmp_path / "steps.parquet"
    broken.write_bytes(b"PAR1 nothing")
    plan = LinkPlan.parse('[streams.s]\n[states.x]\nstream = "s"\nfeature = "count"\nminutes = 10')
    with pytest.raises(ValueError, match="cannot be read"):
        link(pa.table({"participant": ["a"], "time": ["2026-03-02T08:30:00Z"]}), {"s": broken}, plan=plan)


def test_text_and_unsorted_parquet_give_what_tables_give(tmp_path):
    """In several blocks, so that both are split by block first."""
    from pyarrow import csv, parquet

    rng = np.random.default_rng(5)
    plan = write_plan(5, "first", "missing", ("watch",), False)
    decisions, rows = draw_world(rng, 5, ("watch",), False)
    points, tables = make_tables(decisions, rows)
    expected = link(points, tables, plan=plan)
    csv.write_csv(tables["watch"], tmp_path / "watch.csv")
    parquet.write_table(tables["watch"], tmp_path / "watch.parquet", row_group_size=500)
    for name in ("watch.csv", "watch.parquet"):
        linked = link(points, {"watch": tmp_path / name}, plan=plan, block_rows=1)
        assert linked.to_dict() == expected.to_dict()
        for feature in plan.features:
            assert is_close(linked.table[feature].to_pylist(), expected.table[feature].to_pylist())
