import numpy as np
import pytest

from surefoot.screening.not_worn import NotWorn
from tests.screening.blocks import flagged, make_block, one
from tests.screening.test_two_state_chain import simulate


def walkers(seed, people=60, points=210, *, share=0.12, stay=0.9):
    """Steps before and after each decision point of people who sometimes sit still and sometimes leave the watch at home."""
    rng = np.random.default_rng(seed)
    leave = 1 - stay
    dead, _ = simulate(rng, people=people, points=points, enter=leave * share / (1 - share), leave=leave, rate=0.2)
    off = dead[:, 0].T
    still = rng.random((2, people, points)) < np.array([0.2, 0.3])[:, None, None]
    steps = np.where(still | off, 0.0, np.round(rng.lognormal(5, 1.2, (2, people, points))) + 1)
    return steps, off


WRIST = (one("before", device="wrist"), one("after", "outcome", "wrist"))


def test_unworn_devices_are_found_among_people_who_also_sit_still():
    """The threshold was not chosen on the one real file: the same default holds here."""
    for seed in (21, 22):
        steps, off = walkers(seed)
        found = flagged(NotWorn(), make_block(WRIST, steps))
        for column in ("before", "after"):
            hit = found[column, "not worn"]
            assert (hit & off).sum() > 0.9 * hit.sum()
            assert (hit & off).sum() > 0.7 * off.sum()
            assert (hit & ~off).sum() < 0.02 * (~off).sum()


def test_only_zeros_are_flagged_and_worn_devices_hardly_ever():
    steps, _ = walkers(3, share=1e-6)
    found = flagged(NotWorn(), make_block(WRIST, steps))
    assert sum(hit.sum() for hit in found.values()) < 0.003 * steps.size
    steps, _ = walkers(4)
    for (column, _), hit in flagged(NotWorn(), make_block(WRIST, steps)).items():
        assert (steps[0 if column == "before" else 1][hit] == 0).all()


def test_without_a_device_zeros_may_be_honest():
    steps, _ = walkers(5)
    assert flagged(NotWorn(), make_block((one("before"), one("after", "outcome")), steps)) == {}


def test_an_exact_zero_among_continuous_values_on_both_sides_is_never_honest():
    values = np.random.default_rng(6).standard_normal((1, 20, 50))
    values[0, :, 10:15] = 0.0
    found = flagged(NotWorn(), make_block((one(),), values))["x", "not worn"]
    assert found[:, 10:15].all()
    assert found.sum() == 100
    rounded = np.round(values)
    assert flagged(NotWorn(), make_block((one(),), rounded)) == {}


def test_a_night_counts_as_more_time_than_an_hour():
    """After a long gap the zeros before it say less about the zeros after it."""
    steps, _ = walkers(7, people=40)
    regular = NotWorn().learn(make_block(WRIST, steps))
    record = np.ones((2, 1, 12))
    record[:, 0, 4:9] = 0.0
    time = np.arange(12.0)
    late = time + np.where(time >= 8, 500.0, 0.0)
    found = [NotWorn(threshold=0.5).find(make_block(WRIST, record, time=[when]), regular) for when in (time, late)]
    soon, later = (np.nan_to_num(next(one).score[0, 8]) for one in found)
    assert soon > later + 0.1


def test_devices_are_judged_apart():
    steps, off = walkers(8)
    other, _ = walkers(9, share=1e-6)
    columns = (*WRIST, one("pulse before", device="chest"), one("pulse", device="chest"))
    found = flagged(NotWorn(), make_block(columns, np.concatenate([steps, other])))
    assert (found["after", "not worn"] & off).sum() > 0.7 * off.sum()
    assert sum(hit.sum() for (column, _), hit in found.items() if column.startswith("pulse")) < 0.01 * other.size


@pytest.mark.parametrize("steps", [np.zeros((2, 3, 5)), np.full((2, 3, 5), np.nan), np.ones((2, 1, 1))])
def test_records_without_anything_to_compare(steps):
    found = flagged(NotWorn(), make_block(WRIST, steps))
    assert all(np.isfinite(hit).all() for hit in found.values())
