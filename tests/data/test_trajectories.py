import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import surefoot as sf
from surefoot import InputError, Trajectories
from surefoot.data.frames import find_positions
from surefoot.data.trajectories import join_logs

ROLES = {"participant": "participant", "time": "t", "state": ["s1", "s2"], "action": "a", "outcome": "r"}


def frame(**changes):
    """Two people, three and two decision points, rows interleaved."""
    data = {
        "participant": ["b", "a", "b", "a", "b"],
        "t": [2, 1, 1, 2, 3],
        "s1": [0.1, 0.2, 0.3, 0.4, 0.5],
        "s2": [1, 2, 3, 4, 5],
        "a": [0, 1, 1, 0, 1],
        "r": [10.0, 20.0, 30.0, 40.0, 50.0],
        "p": [0.4, 0.6, 0.6, 0.4, 0.6],
        "open": [True, True, True, True, True],
    }
    return pd.DataFrame({**data, **changes})


TAKEN = {"probability": "p", "probability_of": "action taken"}


def read(table, **roles):
    return Trajectories.from_frame(table, **{**ROLES, **roles})


@pytest.mark.parametrize("convert", [lambda f: f, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "arrow"])
def test_reads_every_kind_of_frame_and_gives_the_same_kind_back(convert):
    table = convert(frame())
    logs = read(table, probability="p", probability_of="action taken", available="open")
    assert logs.participants.tolist() == ["a", "b"]
    assert logs.participant_index.tolist() == [1, 0, 1, 0, 1]
    assert_array_equal(logs.state, [[0.1, 1], [0.2, 2], [0.3, 3], [0.4, 4], [0.5, 5]])
    assert logs.order.tolist() == [1, 3, 2, 0, 4]
    assert logs.starts.tolist() == [0, 2, 5]
    back = logs.to_frame()
    assert type(back) is type(table)
    again = read(back, probability="p", probability_of="action taken", available="open")
    for name in ("participants", "participant_index", "time", "state", "available", "action", "probability", "outcome"):
        assert_array_equal(getattr(again, name), getattr(logs, name))


def test_probabilities_of_sending_and_of_the_action_taken_are_the_same_logs():
    table = frame(sending=[0.6, 0.6, 0.6, 0.6, 0.6])
    taken = read(table, probability="p", probability_of="action taken")
    sending = read(table, probability="sending", probability_of="sending")
    assert_array_equal(sending.probability, taken.probability)
    assert_array_equal(sending.to_frame()["sending"], 0.6)
    with pytest.raises(InputError, match="something was sent although the probability of sending is 0"):
        read(frame(sending=[0.6, 0.6, 0.0, 0.6, 0.6]), probability="sending", probability_of="sending")


def test_what_a_probability_is_of_must_be_said_where_it_makes_a_difference():
    even = read(frame(p=[0.5, 0.7, 0.7, 0.5, 0.7]), probability="p")
    assert_array_equal(even.probability, [0.5, 0.7, 0.7, 0.5, 0.7])
    with pytest.raises(InputError, match="column 'p': nothing says what it is the probability of"):
        read(frame(), probability="p")
    with pytest.raises(InputError, match="with several treatments one column can be nothing else"):
        read(frame(), probability="p", actions=3)


def test_reads_files(tmp_path):
    frame().to_csv(tmp_path / "logs.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame()), tmp_path / "logs.parquet")
    for logs in (
        Trajectories.from_file(tmp_path / "logs.csv", **ROLES),
        Trajectories.from_file(tmp_path / "logs.parquet", **ROLES),
    ):
        assert_array_equal(logs.outcome, [10, 20, 30, 40, 50])
        assert logs.participants.tolist() == ["a", "b"]
        assert np.isnan(logs.probability).all()


def test_missing_values_stay_missing_and_make_a_row_unusable():
    logs = read(
        frame(r=[1.0, None, 3.0, 4.0, 5.0], s2=[1, 2, None, 4, 5], open=[1, 1, 1, 0, 1], a=[0, 1, 1, None, 1]),
        available="open",
    )
    assert np.isnan(logs.outcome[1])
    assert np.isnan(logs.state[2, 1])
    assert logs.usable.tolist() == [True, False, False, False, True]
    assert (logs.action[3], logs.probability[3]) == (0, 1.0)
    assert "1 missing" in repr(logs)


def test_nothing_can_be_changed_not_even_through_the_source():
    source = frame()
    logs = read(source)
    source.loc[:, "r"] = -1.0
    assert logs.outcome[0] == 10
    for name in (
        "participants",
        "participant_index",
        "time",
        "state",
        "available",
        "action",
        "probability",
        "outcome",
        "order",
        "starts",
    ):
        with pytest.raises(ValueError, match="read-only"):
            getattr(logs, name)[0] = 0
    with pytest.raises(AttributeError):
        logs.outcome = np.zeros(5)


@pytest.mark.parametrize(
    ("changes", "roles", "place", "words"),
    [
        ({"t": [2, 1, 1, 2, 2]}, {}, ("row 4", "'t'", "'b'"), "second decision point at 2"),
        ({"a": [0, 1, 7, 0, 1]}, {}, ("row 2", "'a'", "'b'"), "action '7' was never declared"),
        ({"a": [0, -1, 1, 0, 1]}, {}, ("row 1", "'a'"), "action '-1' was never declared"),
        ({"a": [0, 0.5, 1, 0, 1]}, {}, ("row 1", "'a'", "'a'"), "action '0.5' was never declared"),
        ({"a": [0, None, 1, 0, 1]}, {}, ("row 1", "'a'"), "action is missing"),
        ({"a": ["no", "do", "no", "run", "no"]}, {"actions": ["no", "do"]}, ("row 3", "'a'"), "'run' was never declared"),
        ({"r": [10, np.inf, 1, 2, 3]}, {}, ("row 1", "'r'", "'a'"), "inf is not finite"),
        ({"s1": [1, 2, 3, -np.inf, 3]}, {}, ("row 3", "'s1'", "'a'"), "not finite"),
        ({"p": [0.4, 0.0, 0.6, 0.4, 0.6]}, TAKEN, ("row 1", "'p'", "'a'"), "probability 0 is outside"),
        ({"p": [0.4, 0.6, 1.5, 0.4, 0.6]}, {"probability": "p"}, ("row 2", "'p'", "'b'"), "probability 1.5 is outside"),
        ({"p": [0.4, 0.6, np.inf, 0.4, 0.6]}, {"probability": "p"}, ("row 2", "'p'"), "outside"),
        ({"participant": ["b", None, "b", "a", "b"]}, {}, ("row 1", "'participant'"), "missing"),
        ({"participant": ["b", "", "b", "a", "b"]}, {}, ("row 1", "'participant'"), "missing"),
        ({"participant": [1.0, 1.5, 2, 3, 4]}, {}, ("row 1", "'participant'"), "1.5 is not a participant's id"),
        ({"t": [2, None, 1, 2, 3]}, {}, ("row 1", "'t'"), "missing"),
        ({"t": ["soon", "later", "x", "y", "z"]}, {}, ("'t'",), "ISO 8601"),
        ({"r": ["10", "twenty", "1", "2", "3"]}, {}, ("row 1", "'r'"), "'twenty' is not a number"),
        ({"open": [1, 1, 2, 1, 1]}, {"available": "open"}, ("row 2", "'open'"), "2 is neither yes nor no"),
        ({"open": [1, None, 1, 1, 1]}, {"available": "open"}, ("row 1", "'open'"), "the availability is missing"),
        ({"open": [1, 0, 1, 1, 1]}, {"available": "open"}, ("row 1", "'a'"), "action 1 at a decision point where"),
        ({}, {"outcome": "rwd"}, ("'rwd'",), "did you mean 'r'"),
        ({}, {"state": ["s1", "s3"]}, ("'s3'",), "did you mean 's1'|did you mean 's2'"),
        ({}, {"state": []}, (), "at least one column"),
        ({}, {"state": "s1"}, (), "state=\\['s1'\\]"),
        ({}, {"outcome": "s1"}, ("'s1'",), "named twice"),
        ({}, {"actions": 1}, (), "at least 2"),
        ({}, {"actions": ["same", "same"]}, (), "different names"),
    ],
)  # fmt: skip
def test_refuses_with_the_place_and_the_reason(changes, roles, place, words):
    with pytest.raises(InputError, match=words) as refused:
        read(frame(**changes), **roles)
    for part in place:
        assert part in str(refused.value)


def test_says_how_many_more_rows_are_wrong():
    with pytest.raises(InputError, match=r"and 1 more row\)") as refused:
        read(frame(a=[0, 5, 5, 0, 1]))
    assert (refused.value.row, refused.value.column, refused.value.participant) == (1, "a", "a")


def test_errors_in_a_file_name_the_file_and_the_line(tmp_path):
    path = tmp_path / "logs.csv"
    path.write_text("participant,t,s1,s2,a,r\nx,1,0,0,0,5\nx,2,0,0,3,5\n")
    with pytest.raises(InputError, match=r"logs\.csv: line 3, column 'a', participant 'x': action '3' was never declared"):
        Trajectories.from_file(path, **ROLES)
    path.write_text("participant,t,s1,s2,a,r\n")
    with pytest.raises(InputError, match="no rows"):
        Trajectories.from_file(path, **ROLES)
    path.write_text("participant,t,s1,s2,a,r\nx,1,2,3\n")
    with pytest.raises(InputError, match=r"logs\.csv: line 2: 4 fields where the header has 6"):
        Trajectories.from_file(path, **ROLES)
    with pytest.raises(InputError, match="no such file"):
        Trajectories.from_file(tmp_path / "nothing.csv", **ROLES)
    (tmp_path / "fake.parquet").write_text("not parquet")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        Trajectories.from_file(tmp_path / "fake.parquet", **ROLES)


def test_refuses_an_empty_table_and_what_is_no_table():
    with pytest.raises(InputError, match="no rows"):
        read(frame().iloc[:0])
    with pytest.raises(InputError, match="expected a pandas"):
        read({"participant": [1]})
    with pytest.raises(InputError, match="lazy"):
        read(pl.from_pandas(frame()).lazy())


def test_times_may_be_numbers_dates_or_timestamps():
    stamps = [
        "2015-07-22T16:30:00",
        "2015-07-22T09:00:00",
        "2015-07-22T09:00:00",
        "2015-07-23T09:00:00",
        "2015-07-24T09:00:00",
    ]
    naive = pd.to_datetime(pd.Series(stamps))
    for values in (stamps, naive, naive.dt.tz_localize("UTC")):
        logs = read(frame(t=values))
        assert logs.time[0] == np.datetime64("2015-07-22T16:30:00")
        assert logs.order.tolist() == [1, 3, 2, 0, 4]
    zoned = naive.dt.tz_localize("Europe/Berlin")
    assert read(frame(t=zoned)).time[0] == np.datetime64("2015-07-22T14:30:00")


def test_actions_by_name_and_more_than_two():
    logs = read(frame(a=["no", "walk", "stretch", "no", "walk"]), actions=["no", "walk", "stretch"])
    assert logs.action.tolist() == [0, 1, 2, 0, 1]
    assert logs.actions == 3
    assert read(frame(a=[0, 1, 3, 0, 1]), actions=4).action_names == ("nothing", "send 1", "send 2", "send 3")


def test_categories_and_yes_no_states_are_read():
    table = frame(s2=[True, False, True, True, False])
    table["participant"] = table["participant"].astype("category")
    logs = read(table)
    assert logs.state[:, 1].tolist() == [1, 0, 1, 1, 0]
    assert logs.participants.tolist() == ["a", "b"]


def test_from_arrays_with_ragged_people():
    state = np.arange(12.0).reshape(2, 3, 2)
    logs = Trajectories.from_arrays(state, np.zeros((2, 3)), np.ones((2, 3)), lengths=[3, 1], participants=["z", "y"])
    assert len(logs) == 4
    assert logs.participants.tolist() == ["y", "z"]
    assert logs.participant_index.tolist() == [1, 1, 1, 0]
    assert logs.state_names == ("s1", "s2")
    for wrong in (
        lambda: Trajectories.from_arrays(state[0], np.zeros((2, 3)), np.ones((2, 3))),
        lambda: Trajectories.from_arrays(state, np.zeros((2, 2)), np.ones((2, 3))),
        lambda: Trajectories.from_arrays(state, np.zeros((2, 3)), np.ones((2, 3)), participants=["z", "z"]),
        lambda: Trajectories.from_arrays(state, np.zeros((2, 3)), np.ones((2, 3)), lengths=[0, 0]),
    ):
        with pytest.raises(InputError):
            wrong()


def test_what_stays_is_shared_and_what_is_given_is_not():
    logs = read(frame())
    outcome = logs.outcome * 2
    changed = logs.with_values(outcome=outcome)
    assert changed.state is logs.state and changed.time is logs.time
    outcome[:] = 0
    assert (changed.outcome == 2 * logs.outcome).all()
    view = np.broadcast_to(outcome, outcome.shape)
    assert not view.flags.writeable
    held = logs.with_values(outcome=view)
    outcome[:] = 1
    assert (held.outcome == 0).all()


def test_with_values_replaces_and_checks():
    logs = read(frame())
    changed = logs.with_values(outcome=logs.outcome * 2)
    assert_array_equal(changed.outcome, 2 * logs.outcome)
    assert_array_equal(changed.state, logs.state)
    with pytest.raises(InputError, match="finite"):
        logs.with_values(outcome=np.full(5, np.inf))
    with pytest.raises(InputError, match="shape"):
        logs.with_values(state=np.zeros((5, 1)))


def test_unknown_people_are_named():
    logs = read(frame())
    assert find_positions(logs.participants, ["b", "a"]).tolist() == [1, 0]
    with pytest.raises(InputError, match="unknown participant 'c'"):
        find_positions(logs.participants, ["c"])
    with pytest.raises(InputError, match="text"):
        find_positions(logs.participants, [1])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 70), min_size=1, max_size=12), st.integers(16, 400), st.integers(0, 2**32 - 1))
def test_blocks_hold_every_row_once_in_time_order(lengths, cells, seed):
    participant = np.repeat(np.arange(len(lengths)), lengths)
    time = np.concatenate([np.arange(length) for length in lengths])
    shuffled = np.random.default_rng(seed).permutation(len(participant))
    table = pa.table(
        {
            "participant": participant[shuffled],
            "t": time[shuffled],
            "s": np.zeros(len(participant)),
            "a": 0 * participant,
            "r": 1.0 * participant,
        }
    )
    logs = Trajectories.from_frame(table, participant="participant", time="t", state=["s"], action="a", outcome="r")
    seen = []
    for people, rows in logs.blocks(cells):
        assert rows.shape[0] == len(people)
        assert rows.shape[1] % 16 == 0
        assert rows.size <= max(cells, rows.shape[1])
        for participant, own in zip(people, rows, strict=True):
            inside = own[own >= 0]
            assert (own[: len(inside)] >= 0).all()
            assert (logs.participant_index[inside] == participant).all()
            assert_array_equal(logs.time[inside], np.arange(lengths[participant]))
            seen += inside.tolist()
    assert sorted(seen) == list(range(len(logs)))


@pytest.fixture(scope="module")
def collected():
    return sf.simulators.HeartSteps(participants=6).collect(sf.policies.coin(2), decision_points=40, seed=5)


def test_joined_logs_hold_the_decision_points_of_both(collected):
    later_rows = (collected.time >= 25) | (collected.participant == 2)
    joined = join_logs(collected[~later_rows], collected[later_rows])
    assert_array_equal(joined.participants, collected.participants)
    assert len(joined) == len(collected)
    for name in ("time", "state", "action", "probability", "outcome", "participant"):
        assert_array_equal(getattr(joined, name)[joined.order], getattr(collected, name)[collected.order])


def test_a_later_decision_point_replaces_one_that_waits_for_its_outcome(collected):
    waiting = (collected.participant == 3) & (collected.time == 39)
    earlier = collected.with_values(outcome=np.where(waiting, np.nan, collected.outcome))
    joined = join_logs(earlier, collected[waiting])
    assert_array_equal(joined.outcome[joined.order], collected.outcome[collected.order])


def test_decision_points_that_were_learned_from_already_are_named(collected):
    again = collected[(collected.participant == 3) & (collected.time >= 38)]
    with pytest.raises(sf.InputError, match=r"2 of the later decision points .* already: participant '3' at 38, '3' at 39;"):
        join_logs(collected, again)


def test_later_logs_with_other_columns_are_refused(collected):
    other = sf.simulators.ChainWalk(2).collect(sf.policies.coin(2), decision_points=5, seed=0)
    with pytest.raises(sf.InputError, match="the later logs have other state variables"):
        join_logs(collected, other)
    named = sf.Trajectories.from_arrays(
        np.zeros((1, 2, 3)), np.zeros((1, 2)), np.zeros((1, 2)), participants=["ann"], state_names=collected.state_names
    )
    with pytest.raises(sf.InputError, match="the later logs have other participants"):
        join_logs(collected, named)


def test_participants_are_selected_by_their_ids(collected):
    selected = collected.select(participants=[4, 1])
    assert selected.participants.tolist() == [1, 4]
    assert_array_equal(selected.outcome, collected[np.isin(collected.participant, (1, 4))].outcome)
    with pytest.raises(InputError, match="unknown participant 9"):
        collected.select(participants=[1, 9])
