import numpy as np
import pytest

import surefoot as sf
from surefoot.audit import audit
from surefoot.log_checks import check_logs
from tests.log_checks.logs import find_check, make_logs

NAME = "units by participant"


def make_people(seed=0, people=30, points=60, spread=0.4):
    """Logs whose outcomes are distances in metres, of people who differ by a factor of two or so."""
    rng = np.random.default_rng(seed)
    level = 4 + spread * rng.standard_normal((people, 1))
    distance = np.exp(level + rng.standard_normal((people, points)))
    state = rng.normal(15, 8, (people, points, 1))
    return sf.Trajectories.from_arrays(state, rng.integers(0, 2, (people, points)), distance)


def convert(logs, people, factor):
    return logs.with_values(reward=np.where(np.isin(logs.participant_index, people), logs.reward * factor, logs.reward))


@pytest.mark.parametrize("people", [[3], [1, 4, 9], list(range(13))], ids=["one", "three", "nearly half"])
@pytest.mark.parametrize("factor", [1 / 1000, 60])
def test_participants_in_another_unit_are_named(people, factor):
    check = find_check(check_logs(convert(make_people(), people, factor)), NAME)
    assert [row["participant"] for row in check.numbers["participants"]] == people
    assert check.verdict == "unsafe"
    assert ("1/1000 of" if factor < 1 else "60 times") in check.reason
    assert ", ".join(f"'{person}'" for person in people[:10]) in check.reason


def test_an_effect_on_both_sides_of_zero_is_found_too_and_the_audit_follows():
    """The outcome of the simulator is negative at a sixth of the rows; a third of the people count thousands."""
    logs = convert(make_logs(decision_points=100), range(10), 1 / 1000)
    found = audit(sf.method("ro-accb", pooling="all").fit(logs))
    assert found.check(NAME).verdict == "unsafe"
    advice = [check.remedy for check in found.checks if check.name in ("share removed", "skewness", "depends on tau")]
    assert any(remedy.startswith("settle 'units by participant' first") for remedy in advice)
    assert not any("raise tau" in remedy for remedy in advice)
    assert found.check("values by action").remedy == ""


@pytest.mark.parametrize("people", [6, 12, 40])
def test_people_who_differ_are_not_in_another_unit(people):
    logs = [make_people(seed, people, spread=0.7) for seed in range(100)]
    verdicts = [find_check(check_logs(one), NAME).verdict for one in logs]
    assert "unsafe" not in verdicts
    assert verdicts.count("look") <= 4


def test_level_without_spread_scales_of_answers_and_days_have_no_unit():
    """A participant in the cold, one who answers 1 or 2 of 7, one who left after a few days."""
    rng = np.random.default_rng(1)
    shape = (20, 60)
    temperature = rng.normal(20, 3, shape)
    temperature[0] -= 20
    answers = rng.integers(4, 8, shape).astype(float)
    answers[1] = rng.integers(1, 3, 60)
    days = np.tile(np.arange(60.0) // 5, (20, 1))
    days[2] = np.arange(60) // 40
    state = np.stack([temperature, answers, days], axis=-1)
    logs = sf.Trajectories.from_arrays(state, rng.integers(0, 2, shape), rng.normal(10, 1, shape))
    assert find_check(check_logs(logs), NAME).numbers["participants"] == []


def test_states_are_compared_in_their_own_unit():
    rng = np.random.default_rng(2)
    weight = rng.normal(75, 10, (20, 1)) + rng.normal(0, 3, (20, 50))
    weight[4] *= 1000
    logs = sf.Trajectories.from_arrays(
        ((weight - 75) / 10)[..., None], rng.integers(0, 2, (20, 50)), rng.normal(size=(20, 50)), state_names=["weight"]
    )
    text = '[columns]\nparticipant = "participant"\ntime = "time"\n[state.weight]\nscaling = { centre = 75, scale = 10 }\n'
    check = find_check(check_logs(logs, sf.Study.parse(text)), NAME)
    assert check.verdict == "unsafe" and "'weight' of participant ('4') is about 1000 times" in check.reason


@pytest.mark.parametrize(("people", "points"), [(1, 1), (2, 5), (4, 3), (7, 8)])
def test_few_people_and_few_rows_are_judged_without_complaint(people, points):
    assert find_check(check_logs(make_people(people=people, points=points)), NAME).verdict in ("fine", "look")
