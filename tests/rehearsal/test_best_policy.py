"""The planned policy against every possible sequence of actions."""

from itertools import product

import numpy as np
import pytest

import surefoot as sf
from surefoot.rehearsal.best_policy import can_plan, plan_best, run_best
from surefoot.rehearsal.environments import NO_EFFECT, Burden, Environment, Fading, standardised_effect
from surefoot.rehearsal.varying import Varying

POINTS = 9
STUDY = '[columns]\nparticipant = "participant"\ntime = "time"\n[state.mood]\nrange = [0, 10]\n[reward]\nrange = [0, 100]'


def total(environment, actions, days):
    """The sum of shifts over a sequence of actions, literally."""
    rows, found = environment.begin((1,)), 0.0
    for action, day in zip(actions, days, strict=True):
        found += float(np.squeeze(environment.shift(rows, np.full(1, float(action)), np.asarray(day))))
        rows = environment.advance(rows, np.full(1, float(action)))
    return found


def follow(environment, days):
    plan = plan_best(environment, (1,), days, 1.0)
    rows, actions = environment.begin((1,)), []
    for point in range(len(days)):
        memory = rows[0] if environment.rows else np.zeros(1)
        actions.append(int(plan.sends(point, memory)[0]))
        rows = environment.advance(rows, np.full(1, float(actions[-1])))
    return actions


@pytest.mark.parametrize(
    "environment",
    [
        standardised_effect(0.3, Burden(response=0.3, baseline=0.05, recovery=0.7)),
        standardised_effect(0.3, Burden(baseline=0.12, recovery=0.5)),
        standardised_effect(0.2, Fading(2.0), Burden(response=0.5, recovery=0.6)),
        standardised_effect(-0.1, Burden(baseline=0.01)),
    ],
)
def test_the_plan_is_as_good_as_the_best_of_all_sequences(environment):
    days = np.arange(POINTS) // 3
    best = max(total(environment, actions, days) for actions in product((0, 1), repeat=POINTS))
    assert total(environment, follow(environment, days), days) == pytest.approx(best, abs=0.02 * abs(best) + 1e-9)


def test_without_a_memory_the_best_is_the_best_immediate_action():
    days = np.arange(POINTS) // 3
    assert follow(standardised_effect(0.2, Fading(1.0)), days) == [1] * POINTS
    assert follow(standardised_effect(-0.2), days) == [0] * POINTS


def test_everybody_has_a_plan_of_their_own():
    effect = sf.rehearsal.PeopleDiffer(Varying.normal(np.ones(1), np.zeros(1)))
    own = Varying(np.array([[1.0, -1.0, 2.0]]), effect.own.models, effect.own.roots)
    environment = Environment("differ", (sf.rehearsal.Standardised(0.2), sf.rehearsal.PeopleDiffer(own)))
    plan = plan_best(environment, (3,), np.zeros(2), 1.0)
    assert plan.sends(0, np.zeros(3)).tolist() == [True, False, True]


def test_two_memories_are_not_planned():
    assert not can_plan(standardised_effect(0.2, Burden(), Burden()))
    assert can_plan(NO_EFFECT)


def test_the_planned_policy_earns_more_than_any_fixed_probability_where_prompts_cost_later():
    model = sf.rehearsal.from_study(sf.Study.parse(STUDY), participants=10, seed=1, per_day=5, availability=0.8)
    tiring = model.in_environment(standardised_effect(0.4, Burden(response=0.2, baseline=0.04)))
    seeds = list(range(4))
    people = tiring.draw_people(30, seed=seeds)
    planned = run_best(people, per_day=5, days=8, seeds=seeds).mean()
    fixed = [
        people.start(seed=seeds).advance(sf.policies.fixed([1 - send, send]), 40).rewards.mean()
        for send in (0, 0.2, 0.4, 0.6, 0.8, 1)
    ]
    assert planned > max(fixed)
