"""The effects of a pilot, against the truth of simulators, and refits against literal least squares."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.effects.study_effects import estimate_primary_effect, plan_primary_effect
from surefoot.rehearsal.pilot_effects import WithinRegression, weigh_slab
from surefoot.simulators.heartsteps import BETA, HeartSteps
from tests.rehearsal.pilots import HEARTSTEPS

study = sf.Study.parse(HEARTSTEPS)
POLICIES = {"never": sf.policies.never(2), "coin": sf.policies.coin(2), "always": sf.policies.always(2)}
TIRING = "tiring"
"""HeartSteps as it is: prompts tire people, which costs steps later."""


class Lasting(HeartSteps):
    """HeartSteps whose state does not respond to prompts; each adds `slope` to later outcomes, decaying by `memory`."""

    def __init__(self, participants, slope=0.0, memory=0.9):
        super().__init__(participants)
        self._transition[2] = self._transition[4] = self._transition[5] = 0.0
        self._slope, self._memory = slope, memory

    def begin(self, numbers):
        return np.concatenate([numbers, np.zeros((1, *numbers.shape[1:]))])

    def visible(self, state):
        return state[:3]

    def advance(self, state, action, numbers):
        following, outcome = super().advance(state[:3], action, numbers)
        dose = self._memory * state[3] + action
        return np.concatenate([following, dose[None]]), outcome + self._slope * state[3]


WORLDS = {
    TIRING: HeartSteps,
    "nothing later": Lasting,
    "slow burden": lambda people: Lasting(people, slope=-30.0, memory=0.95),
    "slow gain": lambda people: Lasting(people, slope=40.0, memory=0.9),
}


def compare(simulator, points, seed):
    """never − coin and always − never."""
    means = {
        name: simulator.collect(policy, decision_points=points, seed=seed).outcome.mean()
        for name, policy in POLICIES.items()
    }
    return means["never"] - means["coin"], means["always"] - means["never"]


@pytest.mark.parametrize("world", WORLDS)
def test_simulated_policies_differ_as_in_truth(world):
    """The mean of four pilots of 100 people; the standard deviation of the outcome is about 1,550 steps."""
    truth = compare(WORLDS[world](4000), 60, 1)
    estimates = []
    for seed in range(21, 25):
        pilot = WORLDS[world](100).collect(sf.policies.coin(2), decision_points=120, seed=seed)
        model = sf.rehearsal.fit_pilot(pilot, study, per_day=5, seed=seed).in_environment(sf.rehearsal.PILOT_EFFECT)
        estimates.append(compare(model.draw_people(200, seed=3), 60, 4))
    error = np.abs(np.mean(estimates, axis=0) - truth)
    assert error[0] < 75
    assert error[1] < 150


@pytest.mark.slow
@pytest.mark.parametrize("world", [TIRING, "nothing later", "slow burden"])
def test_intervals_of_later_effects_hold_the_truth_in_most_pilots(world):
    simulator = WORLDS[world](4000)
    outcomes = {name: simulator.collect(policy, decision_points=150, seed=2).outcome for name, policy in POLICIES.items()}
    coin = outcomes["coin"].reshape(4000, 150).mean() - outcomes["never"].reshape(4000, 150).mean()
    now = 0.5 * BETA[12] * (BETA[7] + (BETA[9] * 0.5 * BETA[2] / (1 - BETA[1]) if world == TIRING else 0.0))
    inside = []
    for seed in range(40):
        pilot = WORLDS[world](30).collect(sf.policies.coin(2), decision_points=150, seed=100 + seed)
        later = sf.rehearsal.fit_pilot(pilot, study, per_day=5).effects.later
        inside.append(later.low < coin - now < later.high)
    assert np.mean(inside) >= 0.85


def test_a_prompt_now_is_estimated_with_its_standard_error():
    pilot = Lasting(60).collect(sf.policies.coin(2), decision_points=100, seed=5)
    now = sf.rehearsal.fit_pilot(pilot, study, per_day=5).effects.now
    assert abs(now.value - 125) < 3 * now.standard_error
    assert now.standard_error == pytest.approx(1500 / (0.5 * np.sqrt(6000)), rel=0.3)


def test_nine_people_leave_much_open_and_the_page_would_say_so():
    pilot = HeartSteps(9).collect(sf.policies.coin(2), decision_points=70, seed=6)
    effects = sf.rehearsal.fit_pilot(pilot, study, per_day=5).effects
    many = sf.rehearsal.fit_pilot(HeartSteps(300).collect(sf.policies.coin(2), decision_points=70, seed=6), study, per_day=5)
    assert effects.later.standard_error > 2 * many.effects.later.standard_error
    assert effects.later_is_unclear
    assert many.effects.later.high < 0 and not many.effects.later_is_unclear


def test_a_refit_is_least_squares_with_everybodys_own_level_repeated_as_often_as_they_were_drawn():
    rng = np.random.default_rng(1)
    x, z, y = rng.normal(size=(3, 5, 12))
    weight = (rng.random((5, 12)) < 0.8).astype(float)
    counts = np.array([2.0, 0, 1, 1, 1])
    (found,) = WithinRegression.of_rows([x, z], y, weight).solve(counts[None], np.zeros(2))
    rows, targets = [], []
    for person, count in enumerate(counts.astype(int)):
        known = weight[person] > 0
        level = np.eye(5)[np.full(known.sum(), person)]
        for _ in range(count):
            rows.append(np.column_stack([x[person, known], z[person, known], level]))
            targets.append(y[person, known])
    expected = np.linalg.lstsq(np.concatenate(rows), np.concatenate(targets), rcond=None)[0][:2]
    assert_allclose(found, expected, rtol=1e-5)


def test_a_clear_effect_keeps_its_size_and_a_doubtful_one_does_not_count():
    log_factor, share = weigh_slab(1.0, 0.01, 0.5)
    assert log_factor > 10 and share > 0.95
    log_factor, share = weigh_slab(0.02, 0.01, 0.5)
    assert log_factor < -1
    assert weigh_slab(0.0, 1.0, 0.1)[1] < 0.02


def test_chances_and_counts_move_by_as_much_as_the_effect():
    """A binary and a zero-heavy outcome with a known effect of a prompt, and none later."""
    rng = np.random.default_rng(7)
    shape = (60, 120)
    sent = rng.random(shape) < 0.5
    binary = (rng.random(shape) < 0.3 + 0.15 * sent).astype(float)
    counts = np.where(rng.random(shape) < 0.6 + 0.1 * sent, rng.poisson(3 + sent) + 1.0, 0.0)
    plain = sf.Study.parse('[columns]\nparticipant = "participant"\ntime = "time"\n[state.s1]\n')
    for outcome, family in ((binary, "binary"), (counts, "zeros")):
        truth = outcome[sent].mean() - outcome[~sent].mean()
        pilot = sf.Trajectories.from_arrays(
            rng.normal(size=(*shape, 1)), sent.astype(int), outcome, probability=np.full(shape, 0.5), state_names=("s1",)
        )
        model = sf.rehearsal.fit_pilot(pilot, plain, per_day=5)
        assert model.outcome.family == family
        # Without what earlier prompts do, whose estimate is noise here.
        people = model.in_environment(sf.rehearsal.Environment(pilot=True, carry_over="none")).draw_people(400, seed=1)
        _, gain = compare(people, 60, 2)
        assert_allclose(gain, truth, atol=0.25 * truth)
        assert_allclose(
            np.mean(people.collect(POLICIES["coin"], decision_points=60, seed=2).outcome == 0),
            np.mean(outcome == 0),
            atol=0.03,
        )


def test_earlier_prompts_that_lower_the_effect_of_a_prompt_count_once():
    """A prompt adds 0.5, after another prompt only 0.1; a coin gains 0.15 over never, and always 0.1."""
    rng = np.random.default_rng(8)
    sent = rng.random((100, 60)) < 0.5
    before = np.pad(sent, ((0, 0), (1, 0)))[:, :-1]
    outcome = 3 + sent * (0.5 - 0.4 * before) + 0.1 * rng.standard_normal(sent.shape)
    plain = sf.Study.parse('[columns]\nparticipant = "participant"\ntime = "time"\n[state.s1]\n')
    pilot = sf.Trajectories.from_arrays(
        rng.normal(size=(*sent.shape, 1)),
        sent.astype(int),
        outcome,
        probability=np.full(sent.shape, 0.5),
        state_names=("s1",),
    )
    people = sf.rehearsal.fit_pilot(pilot, plain, per_day=5).in_environment(sf.rehearsal.PILOT_EFFECT)
    assert_allclose(compare(people.draw_people(100, seed=1), 60, 2), (-0.15, 0.1), atol=0.03)


def test_nine_people_under_a_bandit_leave_wide_intervals_around_the_effect_of_the_analysis():
    """Seconds of brushing: none at two of five decision points, else skewed, within 0 and 180; probabilities that drift."""
    rng = np.random.default_rng(9)
    shape = (9, 75)
    chance = (0.45 + 0.02 * rng.standard_normal(shape).cumsum(axis=1)).clip(0.2, 0.8)
    sent = rng.random(shape) < chance
    brushed = rng.random(shape) < rng.uniform(0.3, 0.9, (9, 1))
    seconds = np.where(brushed, np.floor(180 - 180 * rng.random(shape) ** 2.5), 0.0)
    text = '[columns]\nparticipant = "participant"\ntime = "time"\n[state.evening]\nkind = "yes/no"\n'
    evening = np.broadcast_to((np.arange(75) % 2)[:, None], (*shape, 1)).astype(float)
    pilot = sf.Trajectories.from_arrays(
        evening, sent.astype(int), seconds, probability=np.where(sent, chance, 1 - chance), state_names=("evening",)
    )
    study = sf.Study.parse(text + "[outcome]\nrange = [0, 180]")
    analysis, estimator, _ = plan_primary_effect(study)
    effect = float(estimate_primary_effect(study, pilot, analysis, estimator).params[0])
    model = sf.rehearsal.fit_pilot(pilot, study, per_day=2)
    assert model.effects.now.low < effect < model.effects.now.high
    seeds = list(range(20))
    gains = []
    for draws in (None, [1 + seed for seed in seeds]):
        people = model.in_environment(sf.rehearsal.PILOT_EFFECT).draw_people(9, seed=seeds, draws=draws)
        means = [
            people.start(seed=seeds).advance(POLICIES[name], 70).rewards.mean(axis=(1, 2)) for name in ("always", "never")
        ]
        gains.append(means[0] - means[1])
    error = (gains[1] - gains[0]).std(ddof=1)
    assert abs(gains[0].mean() - effect) < 2.3 * error
    assert error > 8


def test_the_first_draws_are_the_same_however_many_there_are():
    rng = np.random.default_rng(10)
    sent = rng.random((6, 20)) < 0.5
    outcome = np.where(rng.random(sent.shape) < 0.5, rng.poisson(3, sent.shape) + 1.0, 0.0)
    plain = sf.Study.parse('[columns]\nparticipant = "participant"\ntime = "time"\n[state.s1]\n')
    pilot = sf.Trajectories.from_arrays(
        rng.normal(size=(*sent.shape, 1)),
        sent.astype(int),
        outcome,
        probability=np.full(sent.shape, 0.5),
        state_names=("s1",),
    )
    few, many = (sf.rehearsal.fit_pilot(pilot, plain, per_day=5, draws=draws).effects for draws in (3, 6))
    for part, longer in zip(few.parts, many.parts, strict=True):
        assert_allclose(part.lasting, longer.lasting[:4], rtol=1e-9)
        assert_allclose(part.moderation, longer.moderation[:4], rtol=1e-9)
    assert len(few.parts) == 2
