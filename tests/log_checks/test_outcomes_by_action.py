"""Outcomes that depend on the action by being missing, shared or screened are found."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.audit import audit
from surefoot.log_checks import check_logs
from surefoot.log_checks.outcomes_by_action import MISSING_NAME, PILES_NAME, check_missing_outcomes, check_pile_values
from surefoot.screening import screen
from surefoot.simulators import contaminate
from surefoot.study import StudyLogs
from tests.log_checks.logs import find_check, make_logs


def lose(logs, share_after_nothing, share_after_prompt, seed=1):
    """The same logs with outcomes lost at random, at rates that depend on the action."""
    rng = np.random.default_rng(seed)
    rate = np.where(logs.action == 0, share_after_nothing, share_after_prompt)
    return logs.with_values(outcome=np.where(rng.random(len(logs)) < rate, np.nan, logs.outcome))


def test_outcomes_that_are_all_there_are_fine():
    check = find_check(check_logs(make_logs()), MISSING_NAME)
    assert (check.verdict, check.reason) == ("fine", "no outcome is missing")


def test_half_missing_after_nothing_alone_is_unsafe():
    check = find_check(check_logs(lose(make_logs(), 0.49, 0.0)), MISSING_NAME)
    assert check.verdict == "unsafe"
    assert "after 'nothing', 0.0 % after 'send'" in check.reason
    assert "make recording independent of the prompt" in check.remedy
    difference = check.numbers["differences"]["send"]
    assert difference["low"] < -0.49 < difference["high"]


def test_losses_that_ignore_the_action_are_fine_or_looked_at_rarely():
    logs = make_logs(participants=20, decision_points=40)
    trials = [lose(logs, 0.3, 0.3, seed) for seed in range(100, 200)]
    verdicts = [check_logs(trial, checks=[check_missing_outcomes])[0].verdict for trial in trials]
    assert verdicts.count("unsafe") <= 1
    assert verdicts.count("look") <= 12


@pytest.mark.parametrize(("participants", "decision_points"), [(1, 200), (2, 100)])
def test_one_or_two_people_are_judged_by_their_rows(participants, decision_points):
    logs = make_logs(participants=participants, decision_points=decision_points)
    assert find_check(check_logs(lose(logs, 0.49, 0.0)), MISSING_NAME).verdict == "unsafe"
    assert find_check(check_logs(lose(logs, 0.3, 0.3)), MISSING_NAME).verdict != "unsafe"


@pytest.mark.parametrize("decision_points", range(1, 6))
def test_a_handful_of_rows_is_judged_without_complaint(decision_points):
    logs = make_logs(participants=1, decision_points=decision_points)
    find_check(check_logs(lose(logs, 1.0, 0.0)), MISSING_NAME)


def test_an_outcome_defined_where_it_is_missing_is_looked_at():
    study = sf.Study.parse(
        '[columns]\nparticipant = "participant"\ntime = "time"\n[state.weather]\n[effects]\nmissing_as = 0\n'
    )
    check = find_check(check_logs(lose(make_logs(), 0.49, 0.0), study), MISSING_NAME)
    assert check.verdict == "look"
    assert "missing_as" in check.reason


def test_each_of_several_actions_is_compared_with_nothing():
    rng = np.random.default_rng(3)
    shape = (20, 60)
    action = rng.integers(0, 3, shape)
    outcome = np.where((action == 2) & (rng.random(shape) < 0.4), np.nan, rng.normal(size=shape))
    logs = sf.Trajectories.from_arrays(rng.normal(size=(*shape, 1)), action, outcome, actions=["nothing", "walk", "rest"])
    check = find_check(check_logs(logs), MISSING_NAME)
    assert check.verdict == "unsafe"
    assert abs(check.numbers["differences"]["rest"]["value"] - 0.4) < 0.06
    assert check.numbers["shares"]["walk"] == 0


STUDY = '[columns]\nparticipant = "participant"\ntime = "time"\n[state.weather]\n[outcome]\n'


def make_steps(logs):
    """Steps: whole numbers with honest zeros, about a seventh of them."""
    return logs.with_values(outcome=np.maximum(np.round(logs.outcome / 10), 0.0))


def zero_after_nothing(logs, seed=1):
    return contaminate(logs, mechanism="nonwear", values="outcome", ratio=0.2, after="nothing", seed=seed).logs


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("honest", [lambda logs: logs, make_steps], ids=["no honest zeros", "steps"])
def test_zeros_after_nothing_are_unsafe_in_every_study(seed, honest):
    logs = zero_after_nothing(honest(make_logs(seed=seed, decision_points=100)), seed)
    (check,) = check_logs(logs, checks=[check_pile_values])
    assert check.verdict == "unsafe"
    assert "'outcome' is 0 in " in check.reason and "after 'nothing' and " in check.reason
    assert 'write zero = "real" in [outcome]' in check.remedy and "write missing = [0] there" in check.remedy
    (pile,) = check.numbers["piles"]
    shares = {name: (logs.outcome[logs.action == code] == 0).mean() for code, name in enumerate(("nothing", "send"))}
    assert pile["shares"] == pytest.approx(shares)


def test_a_long_value_is_named_with_all_its_digits():
    logs = zero_after_nothing(make_logs(decision_points=100))
    (check,) = check_logs(logs.with_values(outcome=logs.outcome + 12345678), checks=[check_pile_values])
    assert "'outcome' is 12345678 in " in check.reason
    assert "real_values = [12345678]" in check.remedy and "missing = [12345678]" in check.remedy


def test_zeros_that_the_screen_flagged_count_too():
    logs = zero_after_nothing(make_logs(decision_points=100))
    found = screen(logs)
    assert np.isnan(found.logs.outcome).sum() > 0.19 * len(logs)
    read = StudyLogs(found.logs, found.logs.outcome, {}, np.arange(len(logs)), found)
    assert find_check(check_logs(read), PILES_NAME).numbers == find_check(check_logs(logs), PILES_NAME).numbers


def test_a_study_may_say_that_the_value_is_real():
    logs = zero_after_nothing(make_steps(make_logs()))
    real = find_check(check_logs(logs, sf.Study.parse(STUDY + 'zero = "real"\n')), PILES_NAME)
    assert real.verdict == "fine"
    assert real.reason.startswith("the study says that these values are real: 'outcome' is 0 in ")
    floor = logs.with_values(outcome=np.log(logs.outcome + 0.5))
    assert find_check(check_logs(floor, sf.Study.parse(STUDY + 'zero = "real"\n')), PILES_NAME).verdict == "unsafe"
    check = find_check(check_logs(floor), PILES_NAME)
    assert "write real_values = [-0.6931471805599453] in [outcome]" in check.remedy
    study = sf.Study.parse(STUDY + "real_values = [-0.6931471805599453]\n")
    assert find_check(check_logs(floor, study), PILES_NAME).verdict == "fine"


@pytest.mark.parametrize("value", [-99.0, 3000.0, 7.25], ids=["code", "ceiling", "any value"])
def test_any_value_that_piles_up_is_compared(value):
    logs = make_logs()
    rng = np.random.default_rng(2)
    often = rng.random(len(logs)) < np.where(logs.action == 1, 0.15, 0.03)
    check = find_check(
        check_logs(logs.with_values(outcome=np.where(often, value, np.minimum(logs.outcome, 3500)))), PILES_NAME
    )
    assert check.verdict == "unsafe"
    assert f"'outcome' is {value:g} in" in check.reason


def test_outcomes_of_few_values_or_without_piles_have_nothing_to_compare():
    """A prompt that works changes the shares of every answer: that is the effect."""
    logs = make_logs()
    rng = np.random.default_rng(3)
    answers = np.clip(np.round(rng.normal(3, 1.5, len(logs)) + logs.action), 0, 10)
    minutes = np.round(rng.exponential(np.where(logs.action == 1, 14, 9)))
    for outcome in (answers, (answers > 3).astype(float), minutes):
        check = find_check(check_logs(logs.with_values(outcome=outcome)), PILES_NAME)
        assert check.verdict == "fine" and check.numbers["piles"] == []


def make_clean_trial(seed, people, points):
    """Spells of zeros, few or many of a participant, a ceiling, and a policy that sends to those who are likely to walk."""
    rng = np.random.default_rng(seed)
    shape = (people, points)
    rate = rng.beta(1.2, 2.8, (people, 1))
    mood = rng.standard_normal(shape)
    still = rng.random(shape) < 1 / (1 + np.exp(-(np.log(rate / (1 - rate)) - mood)))
    stays = rng.random(shape) < 0.7
    for point in range(1, points):
        still[:, point] = np.where(stays[:, point], still[:, point - 1], still[:, point])
    steps = np.where(still, 0.0, np.minimum(np.round(rng.lognormal(5, 1.2, shape)), 1500.0))
    send = 0.2 + 0.6 / (1 + np.exp(-2 * mood))
    action = (rng.random(shape) < send).astype(int)
    return sf.Trajectories.from_arrays(mood[..., None], action, steps, probability=np.where(action == 1, send, 1 - send))


@pytest.mark.parametrize(("people", "points"), [(1, 100), (8, 40), (30, 60)])
def test_clean_logs_raise_no_alarm(people, points):
    trials = [make_clean_trial(seed, people, points) for seed in range(1000, 1200)]
    verdicts = [check_logs(logs, checks=[check_pile_values])[0].verdict for logs in trials]
    assert verdicts.count("unsafe") <= 1, "expected in one of a thousand"
    assert verdicts.count("look") <= 7


def test_several_actions_are_compared_with_nothing_by_their_probabilities():
    rng = np.random.default_rng(4)
    shape = (30, 80)
    walks = rng.random(shape) < 0.5
    chances = np.where(walks[..., None], [0.2, 0.6, 0.2], [0.6, 0.2, 0.2])
    action = (rng.random(shape)[..., None] > chances.cumsum(axis=-1)).sum(axis=-1)
    taken = np.take_along_axis(chances, action[..., None], axis=-1)[..., 0]
    still = rng.random(shape) < np.where(walks, 0.1, 0.5)

    def check(zeros):
        steps = np.where(zeros, 0.0, rng.lognormal(5, 1, shape))
        logs = sf.Trajectories.from_arrays(
            rng.normal(size=(*shape, 1)), action, steps, probability=taken, actions=["nothing", "walk", "rest"]
        )
        return find_check(check_logs(logs), PILES_NAME)

    fair = check(still)
    assert fair.verdict != "unsafe"
    shares = fair.numbers["piles"][0]["shares"]
    assert shares["nothing"] - shares["walk"] > 0.1, "the policy sends walks to those who walk anyway"
    assert check(still & (action != 2)).verdict == "unsafe"


def test_the_audit_says_that_a_robust_critic_is_no_remedy():
    logs = zero_after_nothing(make_logs(decision_points=100))
    found = audit(sf.method("ro-accb").fit(logs))
    assert "A robust critic is no remedy" in found.check(PILES_NAME).remedy
    followers = [check for check in found.checks if check.remedy.startswith("settle 'values by action' first")]
    assert followers
    assert not any("raise tau" in check.remedy for check in found.checks)
    assert "robust critic" not in audit(sf.method("ro-accb").fit(make_logs())).check(PILES_NAME).remedy


def check_screen(found):
    read = StudyLogs(found.logs, found.logs.outcome, {}, np.arange(len(found.logs)), found)
    return find_check(check_logs(read), "screen")


def screen_people(seed, people=30):
    return make_logs(participants=people, decision_points=210, seed=seed)


def test_unworn_when_not_prompted_is_unsafe_in_every_study():
    for seed in range(10):
        logs = contaminate(
            screen_people(seed), mechanism="nonwear", values="outcome", ratio=0.2, after="nothing", seed=seed
        ).logs
        found = check_screen(screen(logs))
        assert found.verdict == "unsafe"
        assert "effect of the prompt, not dirt" in found.remedy


def test_what_the_screen_marked_is_told():
    found = screen(contaminate(screen_people(1), mechanism="nonwear", ratio=0.2, run_length=20, seed=2).logs)
    check = audit(sf.method("accb").fit(found.logs), screen=found).check("screen")
    assert check.verdict == "look"
    assert "20.0 %" in check.reason
    assert check_screen(screen(screen_people(2))).verdict == "fine"


def test_numbers_of_the_screen_are_handed_on():
    found = screen(contaminate(screen_people(1), mechanism="nonwear", ratio=0.2, run_length=20, seed=2).logs)
    check = check_screen(found)
    marked = np.zeros(len(found.logs), dtype=bool)
    marked[found.flags.row[found.marks]] = True
    assert check.numbers == {
        "share": pytest.approx(marked.mean()),
        "counts": found.counts(),
        "treatment": [difference.to_dict() for difference in found.treatment],
    }
    assert "By column: engagement, fatigue, outcome, weather (not worn, 1,260 each)" in check.reason
    clean = check_screen(screen(screen_people(2)))
    assert clean.numbers["counts"] == {} and "By column" not in clean.reason and clean.remedy == ""


def test_logs_without_a_screen_say_so():
    check = find_check(check_logs(screen_people(1, people=5)), "screen")
    assert (check.verdict, check.reason) == ("fine", "the logs are not screened")
