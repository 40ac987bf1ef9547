"""Errors and power of choosing moderators among 20 candidates, in simulated trials of 40 and 60 people.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.moderators

Ten minutes on one core. Finished trials are appended to benchmarks/moderators.jsonl; the same command continues after an
interruption and prints the table of docs/effects.md.

Three analyses: `halves` is `select_moderators`; `alone` tests each candidate as the only moderator, adjusted for 20
(Bonferroni); `naive` lets the lasso choose on all participants and then tests the chosen ones in the same participants.
"""

import json
import pathlib

import numpy as np
import pyarrow as pa

from surefoot.effects.analysis import Analysis, read_batch
from surefoot.effects.moderator_selection import PersonMoments, _fit_part, select_in_batch

LOG = pathlib.Path(__file__).with_suffix(".jsonl")
CANDIDATES = 20
TRUE = (1, 2, 4)
SCENES = [(people, effect, trials) for people in (40, 60) for effect, trials in ((0.0, 500), (0.2, 200), (0.4, 200))]
POINTS = 30


def make_trial(rng, people, effect):
    """Candidates of four kinds: constant in a participant, correlated, autocorrelated, binary. Three of them moderate."""
    shape = (people, POINTS)
    common = rng.normal(size=shape)
    candidates = []
    for j in range(CANDIDATES):
        noise = rng.normal(size=shape)
        if j % 4 == 0:
            values = np.repeat(rng.normal(size=(people, 1)), POINTS, axis=1)
        elif j % 4 == 1:
            values = 0.6 * common + 0.8 * noise
        elif j % 4 == 2:
            values = correlate(noise, 0.7)
        else:
            values = 2.0 * (noise + rng.normal(size=(people, 1)) > 0)
        candidates.append(values)
    z = np.stack(candidates)
    p = np.clip(0.5 + 0.1 * z[1], 0.2, 0.8)
    sent = (rng.random(shape) < p).astype(float)
    level, response = rng.normal(size=(2, people, 1))
    moderated = effect * z[list(TRUE)].sum(axis=0)
    noise = correlate(rng.normal(size=shape), 0.4)
    y = 0.7 * level + 0.5 * z[2] + 0.5 * z[5] + sent * (0.2 + 0.3 * response + moderated) + noise
    columns = {"person": np.repeat(np.arange(people), POINTS), "t": np.tile(np.arange(POINTS), people)}
    columns |= {"p": p.ravel(), "sent": sent.ravel(), "y": y.ravel()}
    return columns | {f"z{j}": z[j].ravel() for j in range(CANDIDATES)}


def correlate(noise, correlation):
    """Autocorrelated series with variance 1."""
    series = noise.copy()
    for t in range(1, noise.shape[1]):
        series[:, t] = correlation * series[:, t - 1] + np.sqrt(1 - correlation**2) * noise[:, t]
    return series


def run(people, effect, seed):
    """Whether intervals of every chosen coefficient miss its truth, and whether they exclude 0, by analysis."""
    rng = np.random.default_rng([seed, people, int(100 * effect)])
    frame = pa.table(make_trial(rng, people, effect))
    analysis = Analysis(
        participant="person", time="t", outcome="y", treatment="sent", probability="p", probability_of="sending",
        controls=["z2"], moderators=[f"z{j}" for j in range(CANDIDATES)],
    )  # fmt: skip
    batch = read_batch(frame, analysis)
    selection = select_in_batch(batch, seed=seed)
    everybody = np.ones(len(batch), dtype=bool)
    naive = PersonMoments.of(batch).choose(np.ones(people, dtype=bool))
    result = _fit_part(batch, everybody, naive, "wcls")
    rows = selection.rows
    chosen = [j for j, row in enumerate(rows) if row.chosen]
    record = {"people": people, "effect": effect, "seed": seed}
    record["halves"] = [
        judge(j, truth, (rows[j].low_each, rows[j].high_each), rows[j].together[2:])
        for j, truth in zip(chosen, find_truth(chosen, effect), strict=True)
    ]
    record["alone"] = []
    for j, row in enumerate(rows):
        single = _fit_part(batch, everybody, [j], "wcls").conf_int()[1]
        record["alone"].append(judge(j, find_truth([j], effect)[0], single, row.alone[2:]))
    record["naive"] = [
        judge(j, truth, result.conf_int()[order + 1], result.conf_int(0.05 / len(naive))[order + 1])
        for order, (j, truth) in enumerate(zip(naive, find_truth(naive, effect), strict=True))
    ]
    return record


def find_truth(chosen, effect):
    """Coefficients of the effect's best linear fit by the chosen candidates: their covariance is known."""
    covariance = np.eye(CANDIDATES)
    related = np.flatnonzero(np.arange(CANDIDATES) % 4 == 1)
    covariance[np.ix_(related, related)] += 0.36 * (1 - np.eye(len(related)))
    return np.linalg.solve(covariance[np.ix_(chosen, chosen)], effect * covariance[np.ix_(chosen, TRUE)].sum(axis=1))


def judge(position, truth, single, wide):
    """Candidate; single and simultaneous interval miss the truth; simultaneous one excludes 0; width of the single one."""
    misses = [int(not low <= truth <= high) for low, high in (single, wide)]
    low, high = map(float, wide)
    return [position, *misses, int(not low <= 0 <= high), float(single[1] - single[0])]


def report(records):
    """The table."""
    names = ["a 95 % interval misses", "any of them", "any simultaneous one", "true ones found", "mean width"]
    print(f"| people | moderation | analysis | coefficients | {' | '.join(names)} |\n|--:|--:|---{'|--:' * 6}|")
    for people, effect, _ in SCENES:
        scene = [record for record in records if (record["people"], record["effect"]) == (people, effect)]
        for name in ("halves", "alone", "naive"):
            trials = [record[name] for record in scene]
            rows = [row for trial in trials for row in trial]
            shares = [np.mean([row[1] for row in rows])]
            shares += [np.mean([any(row[column] for row in trial) for trial in trials]) for column in (1, 2)]
            cells = [f"{len(rows) / len(trials):.1f}", *(f"{100 * share:.1f} %" for share in shares)]
            power = sum(row[3] for row in rows if row[0] in TRUE) / len(TRUE) / len(trials)
            cells += [f"{100 * power:.0f} %" if effect else "–", f"{np.mean([row[4] for row in rows]):.2f}"]
            print(f"| {people} | {effect:g} | {name} | {' | '.join(cells)} |")


def main():
    lines = LOG.read_text().splitlines() if LOG.exists() else []
    records = [json.loads(line) for line in lines]
    finished = {(record["people"], record["effect"], record["seed"]) for record in records}
    with LOG.open("a") as log:
        for people, effect, trials in SCENES:
            for seed in range(trials):
                if (people, effect, seed) not in finished:
                    records.append(run(people, effect, seed))
                    log.write(json.dumps(records[-1]) + "\n")
                    log.flush()
    report(records)


if __name__ == "__main__":
    main()
