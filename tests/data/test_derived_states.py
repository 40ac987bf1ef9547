import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from surefoot.data.derived_states import DERIVED_STATES, DayInStudy, Dose, OutcomeMean, TimeSincePrompt, derive_states


def literal(kind, actions, outcomes, times, per_day):
    """The definitions, written out for one participant."""
    found = []
    for now in range(len(times)):
        past = range(now)
        if isinstance(kind, Dose):
            found.append(sum(kind.discount ** (now - 1 - t) for t in past if actions[t]))
        elif isinstance(kind, OutcomeMean):
            known = [(kind.discount ** (now - 1 - t), outcomes[t]) for t in past if not np.isnan(outcomes[t])]
            known += [] if np.isnan(kind.start) else [(kind.discount**now, kind.start)]
            weight = sum(w for w, _ in known)
            found.append(sum(w * y for w, y in known) / weight if weight else np.nan)
        elif isinstance(kind, TimeSincePrompt):
            prompts = [times[t] for t in past if actions[t]]
            found.append(times[now] - (prompts[-1] if prompts else times[0] - 1))
        else:
            found.append(times[now] // per_day - times[0] // per_day)
    return found


KINDS = {
    "dose": Dose(0.8),
    "mean": OutcomeMean(0.7),
    "begun": OutcomeMean(0.7, 5.0),
    "since": TimeSincePrompt(),
    "day": DayInStudy(),
}


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_they_are_their_definitions_for_people_of_any_length_in_any_order(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, size=4)
    person = np.repeat(np.arange(4), lengths)
    time = np.concatenate([np.sort(rng.choice(30, size, replace=False)) for size in lengths])
    action = rng.integers(0, 3, len(person)).astype(float)
    outcome = np.where(rng.random(len(person)) < 0.3, np.nan, rng.standard_normal(len(person)))
    shuffled = rng.permutation(len(person))
    found = derive_states(KINDS, *(part[shuffled] for part in (person, time, action, outcome)), 5)
    for name, kind in KINDS.items():
        expected = np.empty(len(person))
        for who in range(4):
            rows = np.flatnonzero(person == who)
            expected[rows] = literal(kind, action[rows], outcome[rows], time[rows], 5)
        assert_allclose(found[name], expected[shuffled], rtol=1e-12, atol=1e-12)


def test_plain_numbers_go_through_the_same_lines():
    """As a service would keep them: one participant, one decision point after the other."""
    rng = np.random.default_rng(1)
    action, outcome = rng.integers(0, 2, 12).astype(float), rng.standard_normal(12)
    arrays = derive_states(KINDS, np.zeros(12, dtype=np.int64), np.arange(12), action, outcome, 5)
    for name, kind in KINDS.items():
        memory = kind.begin(0.0)
        for t in range(12):
            assert_allclose(kind.value(memory, float(t), t // 5), arrays[name][t], rtol=1e-12)
            memory = kind.advance(memory, float(action[t] != 0), outcome[t], 1.0, float(t))


def test_what_happens_later_changes_nothing_before():
    action, outcome = np.array([1.0, 0.0, 1.0, 1.0]), np.arange(4.0)
    whole = derive_states(KINDS, np.zeros(4, dtype=np.int64), np.arange(4), action, outcome, 5)
    cut = derive_states(KINDS, np.zeros(3, dtype=np.int64), np.arange(3), action[:3], np.array([0.0, 1.0, 99.0]), 5)
    for name in KINDS:
        assert_array_equal(whole[name][:3], cut[name])


def test_timestamps_count_in_hours_and_days_begin_at_the_clock_time():
    time = np.array(["2026-01-01T22:00", "2026-01-02T01:00", "2026-01-02T09:30"], dtype="datetime64[us]")
    found = derive_states(
        {"since": TimeSincePrompt(), "day": DayInStudy()},
        np.zeros(3, dtype=np.int64),
        time,
        np.array([1.0, 0, 0]),
        np.zeros(3),
        "04:00",
    )
    assert_allclose(found["since"], [1.0, 3.0, 11.5])
    assert_array_equal(found["day"], [0, 0, 1])


def test_every_derived_state_is_found_by_name():
    assert list(DERIVED_STATES) == ["dose", "outcome mean", "time since prompt", "day in study"]
    with pytest.raises(ValueError, match=r"there is no derived state 'doze' \(did you mean 'dose'"):
        DERIVED_STATES.find("doze")
