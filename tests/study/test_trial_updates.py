"""What updates knew, against the sets that they were given; files that do not go together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot import InputError, Study
from surefoot.study.trial_updates import LearnedSpans, parse_ranges, read_trial_updates, write_ranges

STUDY = Study.parse("""[columns]
participant = "who"
time = "t"
available = "available"
probability = "p"
[state.x]
[outcome]
transform = "sqrt"
""")
DECISIONS = "who,t,available,p,action,outcome,x,decision_idx,policy_id,updates_before\n" + "".join(
    f"{who},{t},1,0.5,{t % 2},{t},0.1,{t},{'' if t < 2 else 1},{int(t > 1)}\n" for who in ("7", "12") for t in range(4)
)
UPDATES = "update_id,state,read_at,finished_at,policy_id,learned_from,refused_by,message\n"
UPDATES += "1,done,,,1,3,,\n2,refused,,,,3,limits,no\n"
LEARNED = "participant,decision_idx,outcome,first_update,last_update\n7,0,9,1,1\n7,0,4,2,2\n12,1,1,1,2\n"


@given(st.sets(st.integers(0, 40)))
def test_ranges_come_back(numbers):
    assert parse_ranges(write_ranges(sorted(numbers))) == sorted(numbers)


@given(st.lists(st.lists(st.sampled_from([None, 1.0, 2.0, np.nan]), min_size=3, max_size=3), min_size=1, max_size=6))
def test_spans_hold_what_every_update_knew(history):
    """None: not known. NaN: known, and erased since."""
    spans = LearnedSpans(3)
    for update, values in enumerate(history, 1):
        known = np.array([value is not None for value in values])
        spans.add(update, known, np.array([np.nan if value is None else value for value in values]))
    columns = spans.finish()
    for update, values in enumerate(history, 1):
        inside = (columns["first_update"] <= update) & (update <= columns["last_update"])
        seen = dict(zip(columns["row"][inside].tolist(), columns["outcome"][inside].tolist(), strict=True))
        assert len(seen) == inside.sum()
        np.testing.assert_equal(seen, {row: value for row, value in enumerate(values) if value is not None})


def write(folder, learned=LEARNED, updates=UPDATES):
    (folder / "decisions.csv").write_text(DECISIONS)
    (folder / "decisions.updates.csv").write_text(updates)
    (folder / "decisions.learned.csv").write_text(learned)
    return read_trial_updates(STUDY, folder, STUDY.read(folder))


def test_files_next_to_the_decisions_are_read(tmp_path):
    """Participants are whole numbers here, and so sorted as numbers; outcomes are transformed as the study says."""
    updates = write(tmp_path)
    assert updates.made_by == {1: 1}
    np.testing.assert_array_equal(updates.policy, [0, 0, 1, 1] * 2)
    np.testing.assert_array_equal(updates.before, [0, 0, 1, 1] * 2)
    np.testing.assert_array_equal(updates.learn_outcomes(1), [3, *[np.nan] * 4, 1, np.nan, np.nan])
    np.testing.assert_array_equal(updates.learn_outcomes(2), [2, *[np.nan] * 4, 1, np.nan, np.nan])
    assert write(tmp_path, LEARNED + "12,0,,1,1\n").count_erased(1) == 1


@pytest.mark.parametrize("line", ["9,0,1,1,1", "12,4,1,1,1", "7,-1,1,1,1"])
def test_learned_outcomes_of_other_decisions_are_refused(tmp_path, line):
    participant = line.split(",")[0]
    with pytest.raises(InputError, match=f"of participant '{participant}', which is not among the decisions"):
        write(tmp_path, f"{LEARNED}{line}\n")


def test_missing_files_and_columns_are_named(tmp_path):
    with pytest.raises(InputError, match=r"decisions.updates.csv: has no column 'message'; export the trial again"):
        write(tmp_path, updates=UPDATES.replace(",message", ",remark"))
    (tmp_path / "decisions.updates.csv").unlink()
    with pytest.raises(InputError, match=r"decisions.updates.csv is not there.*surefoot export writes it"):
        read_trial_updates(STUDY, tmp_path, STUDY.read(tmp_path))
