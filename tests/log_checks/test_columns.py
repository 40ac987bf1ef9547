"""Codes, units and leaks in columns are found, and honest columns are fine."""

from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot.audit import audit
from surefoot.inference.leaks import correlate_with_outcome
from surefoot.log_checks import check_logs, columns
from surefoot.log_checks.columns import UNITS_NAME, check_leaks, check_units
from surefoot.study import StudyLogs
from tests.log_checks.logs import find_check, make_logs


@pytest.mark.parametrize("code", ["-9999", "9999999", "-99999999", "99999.75"])
def test_codes_for_missing_values_are_listed(code):
    logs = make_logs()
    coded = logs.with_values(outcome=np.where(np.arange(len(logs)) % 11 == 0, float(code), logs.outcome))
    check = find_check(check_logs(coded), "suspect columns")
    assert (check.verdict, check.numbers) == ("look", {"columns": ["outcome 'outcome'"]})
    assert f"holds {code} again" in check.reason
    assert f"missing = [{code}]" in check.remedy
    honest = find_check(check_logs(logs), "suspect columns")
    assert (honest.verdict, honest.remedy, honest.numbers) == ("fine", "", {})


def test_codes_are_named_in_the_units_of_the_logs():
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, (10, 60))
    outcome = rng.exponential(50, (10, 60)).round()
    temperature = rng.normal(15, 5, (10, 60))
    temperature[:, 5] = -99
    state = np.stack([(temperature - 15) / 7, rng.normal(size=(10, 60))], axis=2)
    outcome[:, :3] = 999
    logs = sf.Trajectories.from_arrays(state, action, np.log(outcome + 0.5), state_names=["temperature", "mood"])
    study = sf.Study.parse(
        '[columns]\nparticipant = "participant"\ntime = "time"\n[state.mood]\n'
        "[state.temperature]\nscaling = { centre = 15, scale = 7 }\n"
    )
    read = StudyLogs(logs, outcome.ravel(), {}, np.arange(len(logs)))
    check = find_check(check_logs(read, study), "suspect columns")
    assert check.reason == (
        "state variable 'temperature' holds -99 again and again, apart from all other values; "
        "outcome 'outcome' holds 999 again and again, apart from all other values"
    )
    assert check.remedy == (
        "if it stands for missing, write missing = [-99] in its section; "
        "if it stands for missing, write missing = [999] in its section"
    )


def make_people(seed=0, people=30, points=60, spread=0.4):
    """Logs whose outcomes are distances in metres, of people who differ by a factor of two or so."""
    rng = np.random.default_rng(seed)
    level = 4 + spread * rng.standard_normal((people, 1))
    distance = np.exp(level + rng.standard_normal((people, points)))
    state = rng.normal(15, 8, (people, points, 1))
    return sf.Trajectories.from_arrays(state, rng.integers(0, 2, (people, points)), distance)


def convert(logs, people, factor):
    return logs.with_values(outcome=np.where(np.isin(logs.participant_index, people), logs.outcome * factor, logs.outcome))


@pytest.mark.parametrize("people", [[3], [1, 4, 9], list(range(13))], ids=["one", "three", "nearly half"])
@pytest.mark.parametrize("factor", [1 / 1000, 60])
def test_participants_in_another_unit_are_named(people, factor):
    check = find_check(check_logs(convert(make_people(), people, factor)), UNITS_NAME)
    assert [row["participant"] for row in check.numbers["participants"]] == people
    assert check.verdict == "unsafe"
    assert ("1/1000 of" if factor < 1 else "60 times") in check.reason
    assert ", ".join(f"'{person}'" for person in people[:10]) in check.reason


def test_an_effect_on_both_sides_of_zero_is_found_too_and_the_audit_follows():
    """The outcome of the simulator is negative at a sixth of the rows; a third of the people count thousands."""
    logs = convert(make_logs(decision_points=100), range(10), 1 / 1000)
    found = audit(sf.method("ro-accb", pooling="all").fit(logs))
    assert found.check(UNITS_NAME).verdict == "unsafe"
    advice = [check.remedy for check in found.checks if check.name in ("share removed", "skewness", "depends on tau")]
    assert any(remedy.startswith("settle 'units by participant' first") for remedy in advice)
    assert not any("raise tau" in remedy for remedy in advice)
    assert found.check("values by action").remedy == ""


@pytest.mark.parametrize("people", [6, 12, 40])
def test_people_who_differ_are_not_in_another_unit(people):
    logs = [make_people(seed, people, spread=0.7) for seed in range(100)]
    verdicts = [check_logs(trial, checks=[check_units])[0].verdict for trial in logs]
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
    assert find_check(check_logs(logs), UNITS_NAME).numbers["participants"] == []


def test_people_with_the_same_values_have_the_same_unit():
    """An app that repeats one series for everybody has no gap between people to look at."""
    series = np.random.default_rng(1).normal(10, 3, 60)
    outcomes = np.tile(series, (20, 1))
    action = np.random.default_rng(2).integers(0, 2, (20, 60))
    logs = sf.Trajectories.from_arrays(np.zeros((20, 60, 1)), action, outcomes)
    assert find_check(check_logs(logs), UNITS_NAME).numbers["participants"] == []


def test_states_are_compared_in_their_own_unit():
    rng = np.random.default_rng(2)
    weight = rng.normal(75, 10, (20, 1)) + rng.normal(0, 3, (20, 50))
    weight[4] *= 1000
    logs = sf.Trajectories.from_arrays(
        ((weight - 75) / 10)[..., None], rng.integers(0, 2, (20, 50)), rng.normal(size=(20, 50)), state_names=["weight"]
    )
    text = '[columns]\nparticipant = "participant"\ntime = "time"\n[state.weight]\nscaling = { centre = 75, scale = 10 }\n'
    check = find_check(check_logs(logs, sf.Study.parse(text)), UNITS_NAME)
    assert check.verdict == "unsafe" and "'weight' of participant ('4') is about 1000 times" in check.reason


@pytest.mark.parametrize(("people", "points"), [(1, 1), (2, 5), (4, 3), (7, 8)])
def test_few_people_and_few_rows_are_judged_without_complaint(people, points):
    assert find_check(check_logs(make_people(people=people, points=points)), UNITS_NAME).verdict in ("fine", "look")


def find_leaks(logs):
    return find_check(check_logs(logs), "leaks")


def with_column(logs, values, name="extra"):
    return replace(logs, state=np.column_stack([logs.state, values]), state_names=(*logs.state_names, name))


@pytest.mark.parametrize("seed", range(6))
def test_honest_logs_are_fine(seed):
    people = sf.simulators.HeartSteps(participants=20, seed=seed)
    logs = people.collect(sf.policies.coin(2), decision_points=60, seed=seed + 100)
    verdict = find_leaks(logs)
    assert (verdict.verdict, verdict.remedy) == ("fine", "")
    assert verdict.reason == "no state variable says which action was taken or what the outcome was"
    assert max(verdict.numbers["outcome"].values()) < 0.9


@pytest.mark.parametrize(("noise", "verdict", "words"), [(0.05, "unsafe", "says"), (0.3, "look", "nearly says")])
def test_a_variable_that_holds_the_outcome_is_named(noise, verdict, words):
    logs = make_logs()
    rng = np.random.default_rng(0)
    leak = logs.outcome + noise * logs.outcome.std() * rng.standard_normal(len(logs))
    answer = find_leaks(with_column(logs, leak, "steps after"))
    assert answer.verdict == verdict
    assert answer.reason.startswith(f"'steps after' {words} what the outcome was: correlation 0.9")
    assert "hides the effect of the action" in answer.remedy
    assert answer.numbers["outcome"]["steps after"] > 0.9


def test_the_effect_that_a_leak_hides_comes_with_the_verdict_first():
    """A correlation of 0.997 used to pass, and the effect was gone."""
    logs = make_logs(decision_points=100)
    rng = np.random.default_rng(1)
    leak = logs.outcome + 0.077 * logs.outcome.std() * rng.standard_normal(len(logs))
    assert np.corrcoef(leak, logs.outcome)[0, 1] > 0.996
    assert find_leaks(with_column(logs, leak)).verdict == "unsafe"


def test_a_total_that_holds_the_outcome_is_named_with_its_parts():
    logs = make_logs()
    rng = np.random.default_rng(2)
    elsewhere = 5 * logs.outcome.std() * rng.standard_normal(len(logs))
    answer = find_leaks(with_column(with_column(logs, elsewhere, "elsewhere"), logs.outcome + elsewhere, "total"))
    assert answer.verdict == "unsafe"
    assert "'total', together with the others, says what the outcome was" in answer.reason


def test_a_variable_that_says_the_action_is_unsafe():
    logs = make_logs()
    answer = find_leaks(with_column(logs, logs.action * 3.0, "dose"))
    assert (answer.verdict, answer.numbers["action"]) == ("unsafe", ["dose"])
    assert answer.reason == "'dose' says which action was taken"
    assert answer.remedy == "leave it out unless it was known before the decision"


def test_the_same_code_in_state_and_outcome_is_no_leak():
    logs = make_logs()
    rng = np.random.default_rng(3)
    failed = rng.random(len(logs)) < 0.1
    measured = np.where(failed, -9999.0, rng.normal(70, 10, len(logs)))
    read = StudyLogs(with_column(logs, measured), np.where(failed, -9999.0, logs.outcome), {}, np.arange(len(logs)))
    assert check_leaks(read, None).verdict == "fine"


def test_of_many_people_some_are_looked_at_with_all_their_rows(monkeypatch):
    logs = make_logs(participants=60, decision_points=20)
    examined = []

    def correlate(values, outcome, action, person):
        examined.extend(np.unique(person, return_counts=True)[1])
        return correlate_with_outcome(values, outcome, action, person)

    monkeypatch.setattr(columns, "MOST_ROWS", 400)
    monkeypatch.setattr(columns, "correlate_with_outcome", correlate)
    assert find_leaks(with_column(logs, logs.outcome)).verdict == "unsafe"
    assert examined == [20] * 20


def test_too_few_decision_points_are_said_to_be_too_few():
    answer = find_leaks(make_logs(participants=3, decision_points=8))
    assert answer.verdict == "fine"
    assert "cannot be told from fewer than 30 decision points within people" in answer.reason


def make_leak_logs(columns, outcome, seed=0):
    """Logs of (people, points) arrays under a coin."""
    action = np.random.default_rng(seed).integers(0, 2, outcome.shape)
    return sf.Trajectories.from_arrays(
        np.stack(columns, axis=-1), action, outcome, state_names=[f"x{j}" for j in range(len(columns))]
    )


def walk(correlation, people=20, points=100, seed=1):
    rng = np.random.default_rng(seed)
    values = np.zeros((people, points))
    for t in range(1, points):
        values[:, t] = correlation * values[:, t - 1] + rng.normal(size=people)
    return values


@pytest.mark.parametrize(("noise", "verdict"), [(0.078, "unsafe"), (0.4, "look"), (1.5, "fine")])
def test_a_state_measured_after_the_decision_is_judged_by_how_much_it_says(noise, verdict):
    rng = np.random.default_rng(2)
    outcome = rng.normal(size=(20, 60))
    logs = make_leak_logs([rng.normal(size=(20, 60)), outcome + noise * rng.normal(size=(20, 60))], outcome)
    answer = find_leaks(logs)
    assert answer.verdict == verdict
    assert ("'x1'" in answer.reason) == (verdict != "fine")
    assert "'x0'" not in answer.reason


def test_two_copies_of_the_outcome_do_not_hide_each_other():
    rng = np.random.default_rng(4)
    outcome = rng.normal(size=(20, 60))
    copies = [outcome + 0.05 * rng.normal(size=outcome.shape) for _ in range(2)]
    assert find_leaks(make_leak_logs(copies, outcome)).verdict == "unsafe"


def test_the_outcome_before_is_an_honest_state():
    outcome = walk(0.95)
    lagged = np.concatenate([np.zeros((20, 1)), outcome[:, :-1]], axis=1)
    assert find_leaks(make_leak_logs([lagged], outcome)).verdict == "fine"


def test_a_yes_no_outcome_and_its_copy():
    rng = np.random.default_rng(6)
    outcome = (rng.random((20, 60)) < 0.4).astype(float)
    flipped = np.where(rng.random(outcome.shape) < 0.01, 1 - outcome, outcome)
    assert find_leaks(make_leak_logs([flipped], outcome)).verdict != "fine"
    assert find_leaks(make_leak_logs([rng.random((20, 60))], outcome)).verdict == "fine"


@pytest.mark.parametrize("points", range(1, 6))
def test_a_handful_of_rows_says_nothing(points):
    outcome = np.random.default_rng(7).normal(size=(1, points))
    assert find_leaks(make_leak_logs([outcome], outcome)).verdict == "fine"


def test_many_variables_and_few_rows_raise_no_alarm():
    rng = np.random.default_rng(8)
    columns = [rng.normal(size=(5, 20)) for _ in range(40)]
    assert find_leaks(make_leak_logs(columns, rng.normal(size=(5, 20)))).verdict == "fine"
