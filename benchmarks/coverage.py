"""Coverage of 95 % intervals after policies that learned from all participants.

The usual sandwich takes the policies of the trial as given; the adaptive one asks what a replication would find. So the
truth is the mean of the estimates over all trials of a row. Two kinds of trials:

- `python -m benchmarks.coverage 400`: a pooled least-squares learner of [1, x, a, a·x] with probability
  expit(steepness · (β₃ + β₄x)) between 0.1 and 0.9, kept there by a smooth curve or by clipping; 40 decision points, updates
  every 5, five cohorts that enter 5 decision points apart.
- `python -m benchmarks.coverage own 200`: the package's own learners, updated every night: 30 people, 14 days with 6
  decision points, entry over a week.

Finished trials are kept in coverage.jsonl, so that a command continues where it stopped. `table` writes coverage.md from
them; `speed` measures the time of one large trial.

Doses are prompts so far, of which 0.8 remain at every decision point. Outcomes have noise of standard deviation 1 and levels
that differ between people by 0.5.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa

import surefoot as sf
from surefoot.data.trajectories import Trajectories
from surefoot.effects.adaptive_errors import adapt_errors
from surefoot.effects.analysis import Analysis
from surefoot.effects.estimators import ESTIMATORS, make_mean, solve
from surefoot.effects.result import fit_analysis
from surefoot.errors import FitWarning
from surefoot.inference.adaptive_sandwich import PolicyUpdate, UpdateHistory
from surefoot.inference.intervals import t_quantile
from surefoot.inference.learned_updates import RecordedUpdate, differentiate_update, learn_update

FILE = Path(__file__).with_suffix(".jsonl")
SEED = 1
FIRST = 40
"""The number of the first trial of every row: earlier ones, and other seeds, were used to choose the estimator."""
EFFECTS = {
    "none": lambda dose: 0 * dose,
    "constant": lambda dose: 0.3 + 0 * dose,
    "grows with dose": lambda dose: 0.15 * dose - 0.2,
    "works better": lambda dose: 0.1 * dose,
    "shrinks with dose": lambda dose: 0.4 - 0.15 * dose,
    "burden": lambda dose: 0.4 - 0.1 * dose,
}
BASELINES = {"burden": -0.05}
"""What a dose of 1 changes without a prompt."""
LEARNER_ROWS = [
    ("none", 3, "hard", 100),
    ("grows with dose", 1, "smooth", 100),
    ("grows with dose", 3, "smooth", 100),
    ("grows with dose", 3, "hard", 100),
    ("grows with dose", 3, "smooth", 300),
    ("shrinks with dose", 3, "smooth", 100),
]
METHODS = [("ts", "all"), ("ro-saccb", "all"), ("ts", "partial"), ("ro-saccb", "partial")]
WORLDS = ["none", "constant", "works better", "burden"]
OWN_ROWS = [(world, name, pooling, 30) for name, pooling in METHODS for world in WORLDS]
ANALYSIS = Analysis(
    participant="person", time="t", outcome="y", treatment="a", probability="p", probability_of="sending", controls=["x"]
)
STUDY = sf.Study.parse(
    '[columns]\nparticipant = "person"\ntime = "t"\n[state.x]\n[probability_limits]\nminimum = 0.1\nmaximum = 0.9\n'
)


def draw_people(rng, people, points):
    """What no policy changes, (people, points)."""
    return {
        "x": rng.standard_normal((people, points)),
        "noise": rng.standard_normal((people, points)) + 0.5 * rng.standard_normal((people, 1)),
        "uniform": rng.random((people, points)),
        "a": np.zeros((people, points), dtype=np.int64),
        "p": np.full((people, points), 0.5),
        "y": np.full((people, points), np.nan),
        "dose": np.zeros(people),
    }


def act(trial, world, now, points):
    """Draw the actions of people `now` at their decision points and let them respond."""
    action = (trial["uniform"][now, points] < trial["p"][now, points]).astype(np.int64)
    dose = trial["dose"][now]
    outcome = 0.3 * trial["x"][now, points] + BASELINES.get(world, 0.0) * dose + trial["noise"][now, points]
    trial["y"][now, points] = outcome + action * EFFECTS[world](dose)
    trial["a"][now, points] = action
    trial["dose"][now] = 0.8 * dose + action


def run_learner(rng, world, steepness, limits, people, points=40, every=5, cohorts=5):
    """A trial with the pooled least-squares learner, and its updates with analytic derivatives."""
    trial = draw_people(rng, people, points)
    slope = np.zeros((people, points))
    entry = np.arange(people) * cohorts // people * every
    calendar = entry[:, None] + np.arange(points)
    version = calendar // every
    betas = {}
    for moment in range(calendar.max() + 1):
        now = np.flatnonzero((entry <= moment) & (moment < entry + points))
        own = moment - entry[now]
        number = moment // every
        if number:
            if number not in betas:
                known = calendar < moment
                x = trial["x"][known]
                design = np.column_stack([np.ones_like(x), x, trial["a"][known], trial["a"][known] * x])
                gram = design.T @ design
                betas[number] = np.linalg.solve(gram, design.T @ trial["y"][known]), known, design, gram
            beta = betas[number][0]
            chance = 1 / (1 + np.exp(-steepness * (beta[2] + beta[3] * trial["x"][now, own])))
            inside = (chance > 0.1) & (chance < 0.9)
            trial["p"][now, own] = 0.1 + 0.8 * chance if limits == "smooth" else np.clip(chance, 0.1, 0.9)
            slope[now, own] = steepness * chance * (1 - chance) * (0.8 if limits == "smooth" else inside)
        act(trial, world, now, own)
    updates = []
    for number, (beta, known, design, gram) in betas.items():
        influence = np.zeros((people * points, 4))
        residual = trial["y"][known] - design @ beta
        influence[known.ravel()] = people * np.linalg.solve(gram, (design * residual[:, None]).T).T
        decided = np.flatnonzero(version.ravel() == number)
        send = trial["p"].ravel()[decided]
        by_send = slope.ravel()[decided]
        by_beta = np.column_stack([0 * send, 0 * send, by_send, by_send * trial["x"].ravel()[decided]])
        updates.append(
            PolicyUpdate(
                influence=influence,
                before=known.ravel(),
                decided=decided,
                action=trial["a"].ravel()[decided],
                probabilities=np.column_stack([1 - send, send]),
                slopes=np.stack([-by_beta, by_beta], axis=1),
            )
        )
    return trial, updates


def make_logs(trial, rows, outcomes):
    """Rows (people, points) as logs; others are not there."""
    person, t = np.nonzero(rows)
    entered, index = np.unique(person, return_inverse=True)
    send = trial["p"][rows]
    action = trial["a"][rows]
    return Trajectories(
        participants=entered,
        participant_index=index,
        time=t,
        state=trial["x"][rows][:, None],
        available=np.ones(len(person), dtype=bool),
        action=action,
        probability=np.where(action == 1, send, 1 - send),
        outcome=outcomes[rows],
        state_names=("x",),
        action_names=("nothing", "send"),
    )


def limit(probabilities, slopes):
    return STUDY.clip_probabilities(probabilities), STUDY.clip_slopes(probabilities, slopes)


def run_own(rng, world, name, pooling, people, days=14, per_day=6, entry_days=7, cohorts=5):
    """A trial with one of the package's methods, updated every night after two days, and its updates."""
    points = days * per_day
    trial = draw_people(rng, people, points)
    entry = np.round(np.arange(people) * cohorts // people * entry_days / (cohorts - 1)).astype(int)
    day_of = entry[:, None] + np.arange(points) // per_day
    fits = {}
    for day in range(day_of.max() + 1):
        now = np.flatnonzero((entry <= day) & (day < entry + days))
        if day >= 2:
            known = day_of < day
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FitWarning)
                fitted = sf.method(name, pooling=pooling).fit_some(make_logs(trial, known, trial["y"]))
            fits[day] = fitted, known
        today = day_of == day
        if day in fits:
            chances = fits[day][0].policies_.probabilities(np.nonzero(today)[0], trial["x"][today][:, None])
            trial["p"][today] = STUDY.clip_probabilities(chances)[:, 1]
        for slot in range(per_day):
            act(trial, world, now, (day - entry[now]) * per_day + slot)
    logs = make_logs(trial, np.ones_like(day_of, dtype=bool), trial["y"])
    updates = []
    for day, (fitted, known) in fits.items():
        before = known.ravel()
        outcomes = np.where(before, logs.outcome, np.nan)
        recorded = RecordedUpdate(outcomes, before, np.flatnonzero(day_of.ravel() == day))
        updates.append(differentiate_update(fitted, logs, recorded, limit))
    return trial, updates


def analyse(trial, updates):
    """Estimates with usual and adaptive standard errors, and degrees of freedom: of the effect, and of the mean outcome."""
    people, points = trial["y"].shape
    columns = {name: trial[name].ravel() for name in ("x", "a", "p", "y")}
    table = pa.table({"person": np.repeat(np.arange(people), points), "t": np.tile(np.arange(points), people), **columns})
    effect = fit_analysis(table, ANALYSIS, check_draws=False)
    history = UpdateHistory(effect.points.person, updates)
    results = {}
    for part, estimate, make in (
        ("effect", effect.estimate, ESTIMATORS["wcls"].make),
        ("mean", solve(make_mean(effect.points)), make_mean),
    ):
        adapted = adapt_errors(estimate, effect.points, make, history)
        errors = [float(np.sqrt(value.corrected[-1, -1])) for value in (estimate, adapted)]
        results[part] = [float(estimate.theta[-1]), *errors, people - len(estimate.theta)]
    return results


def read_trials():
    """Finished trials by row."""
    finished = {}
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    for trial in map(json.loads, lines):
        finished.setdefault(tuple(trial["row"]), {})[trial["seed"]] = trial
    return finished


def run(trials, rows):
    """Trials of all rows in turn, until each has as many."""
    finished = read_trials()
    for number in range(FIRST, FIRST + trials):
        for row in rows:
            if number in finished.get(row, {}):
                continue
            rng = np.random.default_rng([SEED, number, *str(row).encode()])
            simulate = run_learner if row in LEARNER_ROWS else run_own
            results = analyse(*simulate(rng, *row))
            with FILE.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"row": row, "seed": number, **results}) + "\n")


def judge(trials, part):
    """Shares of usual and adaptive intervals that hold the mean of all estimates, and quantiles of the ratio of widths."""
    numbers = np.array([trial[part] for trial in trials])
    away = np.abs(numbers[:, 0] - numbers[:, 0].mean())
    half = t_quantile(int(numbers[0, 3])) * numbers[:, 1:3]
    return (away[:, None] <= half).mean(axis=0), np.quantile(numbers[:, 2] / numbers[:, 1], [0.5, 0.9])


def write_table():
    """coverage.md from the finished trials."""
    finished = read_trials()
    lines = [
        "# Coverage after a bandit",
        "",
        "Shares of 95 % intervals that hold what replications find on average, by `python -m benchmarks.coverage`.",
        "*Usual*: the sandwich that takes the policies as given. *Adaptive*: that of `surefoot effects` after policies",
        "that learned from all participants, ± its Monte Carlo standard error. *Wider*: median of adaptive / usual",
        "(90th percentile).",
        "",
    ]
    titles = {
        "A pooled least-squares learner": (LEARNER_ROWS, "effect | steepness, limits | people"),
        "The package's own learners, updated every night": (OWN_ROWS, "world | method, pooling | people"),
    }
    for title, (rows, heads) in titles.items():
        head = f"| {heads} | trials | effect: usual | adaptive | wider | mean outcome: usual | adaptive | wider |"
        lines += [f"## {title}", "", head, "|---" * 3 + "|---:" * 7 + "|"]
        for row in rows:
            trials = list(finished.get(row, {}).values())
            if len(trials) > 1:
                cells = [row[0], f"{row[1]}, {row[2]}", str(row[3]), str(len(trials))]
                for part in ("effect", "mean"):
                    (usual, adaptive), wider = judge(trials, part)
                    error = 100 * np.sqrt(adaptive * (1 - adaptive) / len(trials))
                    cells += [
                        f"{100 * usual:.1f} %",
                        f"{100 * adaptive:.1f} ± {error:.1f} %",
                        f"{wider[0]:.2f} ({wider[1]:.2f})",
                    ]
                lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    FILE.with_suffix(".md").write_text("\n".join(lines), encoding="utf-8")


def measure_speed(people=1000, points=200, updates=60):
    """Processor seconds of the adaptive errors of an effect and a mean after so many updates of a pooled `ts`."""
    rng = np.random.default_rng(0)
    trial = draw_people(rng, people, points)
    own = np.arange(people)
    for point in range(points):
        act(trial, "constant", own, np.full(people, point))
    logs = make_logs(trial, np.ones((people, points), dtype=bool), trial["y"])
    edges = np.linspace(points // updates, points, updates, endpoint=False).astype(int)
    started = time.process_time()
    learned = []
    for number, edge in enumerate(edges):
        before = logs.time < edge
        end = edges[number + 1] if number + 1 < updates else points
        recorded = RecordedUpdate(
            np.where(before, logs.outcome, np.nan), before, np.flatnonzero((logs.time >= edge) & (logs.time < end))
        )
        learned.append(learn_update(sf.method("ts", pooling="all"), logs, recorded, limit))
    fitted = time.process_time() - started
    analyse(trial, learned)
    print(f"{updates} updates learned again in {fitted:.1f} s, with both analyses {time.process_time() - started:.1f} s")


def main():
    """`[TRIALS]`, `own [TRIALS]`, `table` or `speed`."""
    words = sys.argv[1:]
    if words == ["speed"]:
        measure_speed()
        return
    count = [int(word) for word in words if word.isdigit()]
    if words != ["table"]:
        run(*(count or [200 if "own" in words else 400]), OWN_ROWS if "own" in words else LEARNER_ROWS)
    write_table()


if __name__ == "__main__":
    main()
