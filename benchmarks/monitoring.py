"""False alarms and power of a board's boundaries and of the test of draws, over whole trials with a look every night.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.monitoring 1000     # trials a row; writes monitoring.md

Trials have 20 people and 40 days of five decision points. People differ, noise lasts, and every night a policy learns from
everybody (`pooled`) or a coin decides. Outcomes are normal, like raw step counts (a fifth are zero, the others log-normal;
skewness 12) or zeros and ones; 15 % are missing. About five minutes of one core.
"""

import sys
from pathlib import Path

import numpy as np
from scipy.special import expit, ndtr

from surefoot.inference.confidence_sequences import BURN_IN, asymptotic_sequence, compare_draws, follow_contrast

PEOPLE = 20
DAYS = 40
PER_DAY = 5
POINTS = PEOPLE * DAYS * PER_DAY
WORLDS = ("normal", "steps", "zeros and ones")
LIMITS = (0.1, 0.9)
MISSING = 0.15
CONTRASTS = {"effect": "effect", "never": "policy − never", "coin": "policy − coin"}
THRESHOLD = 100
"""1 / `FALSE_ALARMS` of service/trial/boundaries.py."""


def simulate(rng, replicates, world, policy, effect=0.0):
    """Outcomes, actions and probabilities of sending, (replicates, decision points) in the order of the ledger."""
    size = (replicates, PEOPLE)
    level = rng.normal(size=size)
    noise = np.zeros(size)
    sums, counts, squares = np.zeros((3, 2, replicates))
    belief = np.full(replicates, 0.5)
    columns = []
    for t in range(DAYS * PER_DAY):
        state = rng.normal(size=size)
        sending = np.clip(belief[:, None] + 0.15 * np.tanh(state), *LIMITS) if policy == "pooled" else np.full(size, 0.5)
        action = (rng.random(size) < sending).astype(int)
        noise = 0.5 * noise + rng.normal(size=size)
        outcome = draw_outcomes(rng, world, 0.5 * level + 0.3 * state, noise, effect * action)
        columns.append((outcome, action, sending))
        for arm in (0, 1):
            counts[arm] += (action == arm).sum(axis=1)
            sums[arm] += np.where(action == arm, outcome, 0).sum(axis=1)
            squares[arm] += np.where(action == arm, outcome**2, 0).sum(axis=1)
        if t % PER_DAY == PER_DAY - 1:
            number = np.maximum(counts, 1)
            errors = np.maximum(squares / number - (sums / number) ** 2, 1e-9) / number
            z_score = (sums[1] / number[1] - sums[0] / number[0]) / np.sqrt(errors.sum(axis=0))
            belief = np.clip(ndtr(z_score), 0.2, 0.8)
    return [np.stack(column, axis=1).reshape(replicates, POINTS) for column in zip(*columns, strict=True)]


def draw_outcomes(rng, world, mean, noise, effect):
    if world == "normal":
        return mean + noise + effect
    if world == "steps":
        return np.where(rng.random(mean.shape) < 0.2, 0.0, np.exp(0.5 * mean + noise)) + effect
    return (rng.random(mean.shape) < np.clip(0.2 + 0.6 * expit(mean + 0.5 * noise) + effect, 0, 1)).astype(float)


def follow(rng, outcome, action, sending, contrast, bounds):
    """The confidence sequence of a trial, after the last decision point of every day; missing outcomes are left out."""
    known = np.flatnonzero(rng.random(POINTS) > MISSING)
    person = np.tile(np.arange(PEOPLE), POINTS // PEOPLE)[known]
    probabilities = np.column_stack([1 - sending, sending])[known]
    sequence = follow_contrast(outcome[known], action[known], probabilities, person, contrast, bounds, LIMITS)
    day = known // (PEOPLE * PER_DAY)
    last = np.flatnonzero(np.diff(day, append=-1))
    return sequence.low[last], sequence.high[last], known[last], known


def find_crossing(beyond):
    """The first day on which an interval lies beyond; as many days as there are if it never does."""
    return int(beyond.argmax()) if beyond.any() else DAYS


def measure_contrasts(replicates, world, policy, effect, seed):
    """By contrast and range: shares of trials whose interval ever lies below, and above, the true mean contrast."""
    rng = np.random.default_rng(seed)
    kinds = [(contrast, None) for contrast in ("effect", "never", "coin")]
    kinds += [("effect", (0, 1)), ("never", (0, 1))] if world == "zeros and ones" else []
    missed = {kind: np.zeros(2) for kind in kinds}
    for outcome, action, sending in zip(*simulate(rng, replicates, world, policy, effect), strict=True):
        for contrast, bounds in kinds:
            low, high, ends, known = follow(rng, outcome, action, sending, contrast, bounds)
            share = {"effect": np.ones(POINTS), "never": sending, "coin": sending - 0.5}[contrast][known]
            truth = effect * np.cumsum(share[BURN_IN:]) / np.arange(1, len(known) - BURN_IN + 1)
            truth = truth[np.searchsorted(known, ends) - BURN_IN]
            missed[contrast, bounds] += ((high < truth).any(), (low > truth).any())
    return {kind: counts / replicates for kind, counts in missed.items()}


def measure_power(replicates, world, effect, bounded, seed):
    """Share of trials in which harm (limit 0) is found, and the median of the decision points that it takes."""
    rng = np.random.default_rng(seed)
    days = []
    for trial in zip(*simulate(rng, replicates, world, "coin", effect), strict=True):
        _, high, _, _ = follow(rng, *trial, "never", (0, 1) if bounded else None)
        days.append(find_crossing(high < 0) + 1)
    return np.mean(np.array(days) <= DAYS), np.median(days) * PEOPLE * PER_DAY


def measure_burden(replicates, policy, seed):
    """Shares of trials whose interval for prompts a day ever lies below, and above, the mean of their probabilities."""
    rng = np.random.default_rng(seed)
    _, action, sending = simulate(rng, replicates, "normal", policy)
    ends = np.arange(PEOPLE, PEOPLE * DAYS + 1, PEOPLE) - 1
    below, above = 0, 0
    for drawn, stated in zip(action, sending, strict=True):
        prompts, expected = (
            values.reshape(DAYS, PER_DAY, PEOPLE).sum(axis=1).ravel().astype(float) for values in (drawn, stated)
        )
        sequence = asymptotic_sequence(prompts)
        truth = np.cumsum(expected) / np.arange(1, PEOPLE * DAYS + 1)
        below += (sequence.high < truth)[ends].any()
        above += (sequence.low > truth)[ends].any()
    return below / replicates, above / replicates


def make_families(rng):
    """Strata of the draws of a trial: a policy version every day, and eight hours of the day."""
    version = np.repeat(np.arange(DAYS), PEOPLE * PER_DAY)
    return version, rng.integers(9, 17, POINTS)


def measure_draws(replicates, policy, seed):
    """Share of sound trials that are ever accused."""
    rng = np.random.default_rng(seed)
    _, action, sending = simulate(rng, replicates, "normal", policy)
    accused = 0
    for drawn, stated in zip(action, sending, strict=True):
        version, hour = make_families(rng)
        families = {"all": (np.zeros(POINTS), 1), "policy version": (version, None), "hour": (hour, 24)}
        accused += compare_draws(drawn, np.column_stack([1 - stated, stated]), families).evidence >= THRESHOLD
    return accused / replicates


def measure_wrong_draws(replicates, wrong, shift, seed):
    """Median and 90 % quantile of the draws of the wrong stratum that it takes to find it, and the share named rightly."""
    rng = np.random.default_rng(seed)
    needed, named = [], 0
    for _ in range(replicates):
        version, hour = make_families(rng)
        chosen = {"all": version >= 0, "policy version": version >= 10, "hour": hour == 12}[wrong]
        if wrong == "policy version":
            version = np.minimum(version, 10)
        drawn = (rng.random(POINTS) < 0.5 + shift * chosen).astype(int)
        low, high = 0, POINTS + 1
        while high - low > 1:
            middle = (low + high) // 2
            families = {
                "all": (np.zeros(middle), 1),
                "policy version": (version[:middle], None),
                "hour": (hour[:middle], 24),
            }
            test = compare_draws(drawn[:middle], np.full((middle, 2), 0.5), families)
            if test.evidence >= THRESHOLD:
                high = middle
                first = test.strata[0].family
            else:
                low = middle
        needed.append(chosen[:high].sum() if high <= POINTS else np.inf)
        named += high <= POINTS and first == wrong
    return *np.quantile(needed, (0.5, 0.9), method="higher"), named / replicates


INTRODUCTION = """# Boundaries and draws: false alarms and power

`python -m benchmarks.monitoring {replicates}`: {replicates:,} simulated trials a row (power: {fewer}, wrong draws: {least})
of 20 people × 40 days × 5 decision points, 15 % of the outcomes missing, a look every night.

## Intervals that ever miss

Share of trials in which the 95 % confidence sequence lies, on any night, wholly below or wholly above the true mean contrast
of the decision points so far. A boundary that lies exactly at the truth is crossed by one of the two.

| outcome | policy | contrast | effect | sequence | below | above |
|---|---|---|--:|---|--:|--:|
"""
POWER = """
## Harm that is found

`harm = 0` against never, with a coin. Standard deviations of the outcome: about 1.3 (normal) and 0.5 (zeros and ones).

| outcome | effect | sequence | found | median decision points |
|---|--:|---|--:|--:|
"""
SOUND = """
## Draws

At most 1 % of sound trials may be accused, all strata together (40 policy versions, 8 hours of the day).

| policy | sound trials accused |
|---|--:|
"""
WRONG = """
Draws with another probability than the stated 0.5, and how many draws of the wrong stratum it takes to notice:

| wrong | drawn with | median | 90 % of trials | right stratum named |
|---|--:|--:|--:|--:|
"""


def write_percent(share):
    return f"{100 * share:.1f} %"


def write_count(number, most=POINTS):
    return f"{number:,.0f}" if number <= most else "not in time"


def write_row(*cells):
    print(*cells, sep=" | ", flush=True)
    return f"| {' | '.join(cells)} |\n"


def list_misses(replicates, seed):
    rows = [(world, policy, 0.0) for world in WORLDS for policy in ("coin", "pooled")]
    for world, policy, effect in (*rows, ("normal", "pooled", 0.3), ("steps", "pooled", 0.3)):
        for (contrast, bounds), shares in measure_contrasts(replicates, world, policy, effect, seed).items():
            kind = "bounded" if bounds else "asymptotic"
            yield write_row(world, policy, CONTRASTS[contrast], f"{effect:g}", kind, *map(write_percent, shares))
    for policy in ("coin", "pooled"):
        shares = measure_burden(replicates, policy, seed)
        yield write_row("prompts a day", policy, "none", "", "asymptotic", *map(write_percent, shares))


def list_power(replicates, seed):
    rows = [("normal", effect, False) for effect in (-0.2, -0.4, -0.8)]
    rows += [("zeros and ones", effect, bounded) for effect in (-0.1, -0.2) for bounded in (False, True)]
    for world, effect, bounded in rows:
        share, median = measure_power(replicates, world, effect, bounded, seed)
        kind = "bounded" if bounded else "asymptotic"
        yield write_row(world, f"{effect:g}".replace("-", "−"), kind, write_percent(share), write_count(median))


def list_wrong_draws(replicates, seed):
    for wrong, shift in (("all", 0.1), ("all", 0.2), ("policy version", 0.1), ("hour", 0.1), ("hour", 0.2)):
        median, most, named = measure_wrong_draws(replicates, wrong, shift, seed)
        yield write_row(wrong, f"{0.5 + shift:g}", write_count(median), write_count(most), write_percent(named))


def main(replicates=1000, seed=28):
    fewer = max(20, replicates // 5)
    least = max(20, replicates // 10)
    text = INTRODUCTION.format(replicates=replicates, fewer=fewer, least=least) + "".join(list_misses(replicates, seed))
    text += POWER + "".join(list_power(fewer, seed))
    text += SOUND
    for policy in ("coin", "pooled"):
        text += write_row(policy, write_percent(measure_draws(replicates, policy, seed)))
    text += WRONG + "".join(list_wrong_draws(least, seed))
    (Path(__file__).parent / "monitoring.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
