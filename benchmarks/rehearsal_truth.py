"""Rehearsals against the truth: people whose effects are known, pilots drawn from them, and what a rehearsal says.

python -m benchmarks.rehearsal_truth truth             # the truth of every world
python -m benchmarks.rehearsal_truth run --pilots 20   # rehearse; finished pilots are kept, and the same command goes on
python -m benchmarks.rehearsal_truth table             # write benchmarks/rehearsal_truth.md

Six worlds, clean and dirty, with pilots of 10, 30 and 100 people for 28 days of five decision points under a coin. Each
pilot is rehearsed as a trial of 20 people for ten days with `ts`. Truth: the same trials on people of the world itself, and
the primary analysis of trials of the world itself under a coin, with its artefacts where it is dirty. A pilot takes about
10 seconds of one core.
"""

import argparse
import json
import tempfile
from concurrent.futures import ProcessPoolExecutor
from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import norm, poisson

import surefoot as sf
from surefoot.datasets.demo_trial import study_text
from surefoot.effects.study_effects import estimate_primary_effect, plan_primary_effect
from surefoot.rehearsal import Candidate, RehearsalPlan, run_trials
from surefoot.simulators import Simulator

HERE = Path(__file__).parent
RESULTS = HERE / "rehearsal_truth.jsonl"
TRUTH = HERE / "rehearsal_truth.json"
TABLE = HERE / "rehearsal_truth.md"
PEOPLE = (10, 30, 100)
DAYS = 28
PER_DAY = 5
AVAILABLE = 0.9
TRUTH_TRIALS = 400
MARGINS = (0.0, 0.005, 0.01)
"""Gains that differ by fewer standard deviations of the outcome are equally good."""
LEVEL = 0.05
CONTRASTS = ("never - coin", "always - never", "ts - coin")
PLAN = """
trials = 16
block = 16
environment = [{ pilot = true }]
[design]
participants = 20
days = 10
per_day = 5
update_every = 5
screen = false
"""


@dataclass(frozen=True)
class World:
    """The effects of a prompt on the logarithm of the steps (a count: on the logarithm of its mean)."""

    now: float = 0.083
    """At once, at an ordinary moment."""
    by_weather: float = 0.083
    by_engagement: float = 0.133
    on_engagement: float = 0.4
    """On the next engagement, which keeps 0.3 of itself."""
    on_fatigue: float = 0.6
    """On the next fatigue, which keeps 0.7 of itself."""
    fatigue: float = -0.167
    """Of fatigue on the outcome."""
    burden: float = 0.0
    """Of the dose on the outcome; no variable shows the dose."""
    response: float = 0.0
    """Share of the effect that a unit of dose takes away."""
    memory: float = 0.0
    """Share of the dose that is left at the next decision point."""
    differ: float = 0.05
    """Standard deviation of people's own effects at once."""
    count: bool = False
    """Whether the outcome is a count with zeros instead of steps."""

    @property
    def null(self):
        """The same people, whom prompts do nothing to."""
        return World(
            now=0.0, by_weather=0.0, by_engagement=0.0, on_engagement=0.0, on_fatigue=0.0, differ=0.0, count=self.count
        )


WORLDS = {
    "demo people": World(),
    "nothing delayed": World(on_engagement=0.0, on_fatigue=0.0),
    "positive carry-over": World(on_fatigue=-0.6),
    "slow tiring": World(on_engagement=0.0, on_fatigue=0.0, burden=-0.012, memory=0.97),
    "dose that recovers": World(now=0.25, on_engagement=0.0, on_fatigue=0.0, response=0.6, memory=0.6),
    "count with zeros": World(now=0.15, count=True),
}
ZERO = 0.25
"""Chance of a zero of the count, apart from those of its distribution."""
LEVEL_COUNT = 1.2
LEVEL_STEPS = 6.5


class People(Simulator):
    """People of a world, drawn anew in every replicate.

    Rows of the state: weather, engagement, fatigue, stress, whether available, dose.
    """

    state_names = ("temperature", "motivated", "tired", "stressed")
    action_names = ("nothing", "suggestion")
    initial_numbers = 5
    step_numbers = 7
    critic_coef = np.zeros(10)

    def __init__(self, world, participants, seeds):
        super().__init__(participants)
        self.world = world
        self.people_differ_by_replicate = len(seeds)
        drawn = np.stack([np.random.default_rng([seed, 77]).standard_normal((2, participants)) for seed in seeds], axis=1)
        self._level = 0.1 * drawn[0]
        self._effect = world.differ * drawn[1]

    def of(self, people, engine):
        selected = copy(self)
        selected._level = self._level[..., people]
        selected._effect = self._effect[..., people]
        return selected

    def draw(self, rng, shape):
        return rng.standard_normal(shape)

    def begin(self, numbers):
        return np.stack([*numbers[:4], self._free(numbers[4]), np.zeros_like(numbers[0])])

    def _free(self, number):
        return (number < 1.2815515655446004).astype(float)  # P(z < 1.28…) = 0.9 = AVAILABLE

    def visible(self, state):
        weather, engagement, fatigue, stress = state[:4]
        sliders = 50 + 16 * engagement, 40 + 14 * fatigue, 45 + 18 * stress
        return np.stack([weather, *((np.clip(np.round(slider), 0, 100) - 50) / 20 for slider in sliders)])

    def available(self, state):
        return state[4] > 0

    def advance(self, state, action, numbers):
        world = self.world
        weather, engagement, fatigue, _, _, dose = state
        effect = world.now + world.by_weather * weather + world.by_engagement * engagement + self._effect
        effect = effect * (1 - world.response * np.minimum(dose, 1 / world.response)) if world.response else effect
        predictor = self._level + action * effect + 0.033 * weather + world.fatigue * fatigue + world.burden * dose
        reward = self._count(predictor, numbers) if world.count else LEVEL_STEPS + predictor + numbers[3]
        following = np.stack(
            [
                0.4 * weather + numbers[0],
                0.3 * engagement + world.on_engagement * action + numbers[1],
                0.7 * fatigue + 0.05 * fatigue * action + world.on_fatigue * action + numbers[2],
                numbers[4],
                self._free(numbers[5]),
                world.memory * (dose + action),
            ]
        )
        return following, reward

    def _count(self, predictor, numbers):
        positive = norm.cdf(numbers[6]) > ZERO
        return np.where(positive, poisson.ppf(norm.cdf(numbers[3]), np.exp(LEVEL_COUNT + predictor)), 0.0)


def make_study(world):
    """The study of the demo with `ts`, whose updates are not refitted without single rows: that takes a third of the time,
    and refused none of 120 updates."""
    text = study_text().replace('name = "ro-saccb"', 'name = "ts"') + "\n[trial.guard_rails]\nmax_influence = 1\n"
    if world.count:
        text = text.replace('transform = "log(x + 50)"', "").replace('device = "watch"', "")
    return text


def write_pilot(world, people, seed, dirty, path, days=DAYS):
    """The logs of a pilot as a CSV file, with artefacts like those of the demo where it is dirty."""
    points = days * PER_DAY
    simulation = People(world, people, [seed]).start(seed=[seed]).advance(sf.policies.coin(2), points)
    rng = np.random.default_rng([seed, 78])
    available = simulation.available[0]
    outcome = simulation.rewards[0]
    outcome = outcome if world.count else np.maximum(np.round(np.exp(outcome) - 50), 0)
    states = simulation.states[0]
    temperature = np.round(14 + 7 * states[..., 0], 1)
    sliders = 50 + 20 * states[..., 1:]
    if dirty:
        outcome = np.where(draw_runs(rng, outcome.shape, 0.12, 12), 0.0, outcome)
        outcome = np.where(rng.random(outcome.shape) < 0.01, 15 * outcome, outcome)
        outcome = np.where(rng.random(outcome.shape) < 0.03, np.nan, outcome)
        dead = draw_runs(rng, outcome.shape, 0.08, 15)
        latest = np.maximum.accumulate(np.where(dead, 0, np.arange(points)), axis=1)
        temperature = np.take_along_axis(temperature, latest, axis=1)
        careless = rng.random(outcome.shape) < 0.06
        sliders = np.where(careless[..., None], rng.integers(0, 101, outcome.shape)[..., None], sliders)
    dates = np.datetime64("2026-03-02") + np.arange(days)[:, None]
    times = (dates + np.array([8, 11, 14, 17, 20], dtype="timedelta64[h]") + np.timedelta64(30, "m")).ravel()
    frame = pl.DataFrame(
        {
            "participant": np.repeat([f"p{number:03d}" for number in range(people)], points),
            "time": np.tile(np.datetime_as_string(times), people),
            "available": available.ravel(),
            "sent": simulation.actions[0].ravel(),
            "probability": np.where(available, 0.5, 1.0).ravel(),
            "temperature": temperature.ravel(),
            **{name: sliders[..., column].ravel() for column, name in enumerate(People.state_names[1:])},
            "steps": outcome.ravel(),
        }
    )
    frame.with_columns(pl.col("steps").fill_nan(None)).write_csv(path)


def draw_runs(rng, shape, share, length):
    """Runs of some length on average that cover this share of each row."""
    begin = share / (1 - share) / length
    marks = np.zeros(shape, dtype=bool)
    current = rng.random(shape[0]) < share
    for point in range(shape[1]):
        marks[:, point] = current
        chance = rng.random(shape[0])
        current = np.where(current, chance > 1 / length, chance < begin)
    return marks


def find_truth(name, trials=TRUTH_TRIALS):
    """Mean outcomes of every candidate in trials of the world's own people, with the power of the primary analysis."""
    world = WORLDS[name]
    study = sf.Study.parse(make_study(world))
    plan = RehearsalPlan.parse(PLAN)
    seeds = list(range(10_000, 10_000 + trials))
    people = People(world, plan.design.participants, seeds)
    candidates = [Candidate.fixed(study, 0.5, "coin"), Candidate.fixed(study, 0.0, "never")]
    candidates += [Candidate.fixed(study, 1.0, "always"), Candidate.with_method(study, "ts")]
    means = {}
    for candidate in candidates:
        records = run_trials(people, candidate, plan.design, seeds=seeds)
        means[candidate.name] = np.array([record.outcome.mean() for record in records])
    coin = means["coin"]
    gains = {key: values - coin for key, values in means.items() if key != "coin"}
    return {
        "never - coin": describe(means["never"] - coin),
        "always - never": describe(means["always"] - means["never"]),
        "gains": {key: describe(values) for key, values in gains.items()},
        "sd": float(np.std(people.start(seed=seeds).advance(sf.policies.never(2), 50).rewards)),
    }


def read_study(world, dirty):
    """The study of a world; only dirty logs are screened."""
    text = make_study(world)
    return sf.Study.parse(text if dirty else text.replace("[screen]", "[screen]\non = false"))


def count_rejections(world, dirty, first_seed, trials=TRUTH_TRIALS):
    """How often the primary analysis finds an effect in trials of the world itself under a coin."""
    study = read_study(world, dirty)
    design = RehearsalPlan.parse(PLAN).design
    analysis, estimator, _ = plan_primary_effect(study)
    rejected = np.zeros(trials)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trial.csv"
        for trial in range(trials):
            write_pilot(world, design.participants, first_seed + trial, dirty, path, design.days)
            result = estimate_primary_effect(study, study.read(path).logs, analysis, estimator)
            rejected[trial] = result.joint_test().pvalue < LEVEL
    return describe(rejected)


def find_rejections():
    """Power and type I error of the primary analysis in every world, clean and dirty. Worlds whose people are the same where
    prompts do nothing share their type I error."""
    nulls = list(dict.fromkeys(world.null for world in WORLDS.values()))
    shares = {}
    for number, world in enumerate((*nulls, *WORLDS.values())):
        for dirty in (False, True):
            shares[world, dirty] = count_rejections(world, dirty, 20_000_000 + 1_000_000 * number + 500_000 * dirty)
    return {
        name: {
            "power": {"dirty" if dirty else "clean": shares[world, dirty] for dirty in (False, True)},
            "type I error": {"dirty" if dirty else "clean": shares[world.null, dirty] for dirty in (False, True)},
        }
        for name, world in WORLDS.items()
    }


def describe(values):
    return {"value": float(values.mean()), "error": float(values.std(ddof=1) / np.sqrt(len(values)))}


def rehearse_pilot(task):
    """One pilot of one cell: the rehearsal's contrasts with their intervals, and its recommendation."""
    name, dirty, people, number = task
    world = WORLDS[name]
    seed = 1_000 * list(WORLDS).index(name) + number + (500_000 if dirty else 0) + 10_000_000 * people
    with tempfile.TemporaryDirectory() as folder:
        write_pilot(world, people, seed, dirty, Path(folder) / "pilot.csv")
        study = read_study(world, dirty)
        plan = RehearsalPlan.parse(PLAN).model_copy(update={"methods": ("ts",), "seed": number})
        rehearsal = sf.rehearsal.rehearse(Path(folder) / "pilot.csv", study, plan, jobs=1)
    return {"world": name, "dirty": dirty, "people": people, "pilot": number, **read_answers(rehearsal)}


def read_answers(rehearsal):
    """What a rehearsal says of the pilot's own environment."""
    environment = next(name for name in rehearsal.answers if name != "no effect")
    answers = rehearsal.answers[environment]
    contrasts = {
        "never - coin": answers["never"].minus(answers["coin"]),
        "always - never": answers["always"].minus(answers["never"]),
        **{f"ts - {other}": answers["ts"].minus(answers[other]) for other in ("coin", "never")},
    }
    null = rehearsal.answers["no effect"]
    return {
        "contrasts": {name: [interval.value, interval.low, interval.high] for name, interval in contrasts.items()},
        "type I error": {method: null[method].rejections.value for method in ("coin", "ts")},
        "power": {method: answers[method].rejections._asdict() for method in ("coin", "ts")},
        "recommended": rehearsal.overall.candidate,
        "reason": rehearsal.overall.reason,
        "in the pilot's environment": rehearsal.by_environment[1].reason,
    }


def list_tasks(options):
    """Every cell's first pilot, then every cell's second, so that an interrupted run is balanced."""
    cells = [(name, dirty, people) for people in options.people for name in WORLDS for dirty in (False, True)]
    return [(*cell, number) for number in range(options.pilots) for cell in cells]


def run_pilots(options):
    done = {(row["world"], row["dirty"], row["people"], row["pilot"]) for row in read_results()}
    tasks = [task for task in list_tasks(options) if task not in done]
    with ProcessPoolExecutor(options.jobs) as workers, RESULTS.open("a") as file:
        for number, row in enumerate(workers.map(rehearse_pilot, tasks), start=len(done) + 1):
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(f"{number} of {len(done) + len(tasks)}: {row['world']}, {row['people']} people", flush=True)


def read_results():
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def find_truths(options):
    rejections = find_rejections()
    truths = {name: find_truth(name) | rejections[name] for name in WORLDS}
    TRUTH.write_text(
        json.dumps({"worlds": {name: asdict(world) for name, world in WORLDS.items()}, **truths}, indent=1) + "\n"
    )
    for name, truth in truths.items():
        print(name, {key: round(truth[key]["value"], 3) for key in ("never - coin", "always - never")}, truth["gains"])


def find_advantage(truth):
    """The true gain of `ts` over the better of coin and never, in standard deviations of the outcome."""
    gains = truth["gains"]
    return (gains["ts"]["value"] - max(0.0, gains["never"]["value"])) / truth["sd"]


def list_right(truth, margin):
    """The right recommendations: `ts` where it is truly better than a coin and never, None where not, both in a tie."""
    advantage = find_advantage(truth)
    right = {None} if advantage < margin else set()
    return right | {"ts"} if advantage > -margin else right


def judge(row, truths):
    """One pilot against its world: for every contrast the error and whether the interval holds the truth; power and type I
    error as rehearsed and in truth; and for every margin whether the recommendation is right, or wrong."""
    truth = truths[row["world"]]
    judged = {"people": row["people"], "dirty": row["dirty"], "cell": (row["world"], row["dirty"], row["people"])}
    for name in CONTRASTS:
        true = truth["gains"]["ts"]["value"] if name == "ts - coin" else truth[name]["value"]
        value, low, high = row["contrasts"][name]
        judged[name] = (true, value - true, low <= true <= high)
    data = "dirty" if row["dirty"] else "clean"
    power = row["power"]["coin"]
    true_power = truth["power"][data]["value"]
    judged["type I error"] = row["type I error"]["coin"]
    judged["true type I error"] = truth["type I error"][data]["value"]
    judged["power"] = power["value"]
    judged["true power"] = true_power
    judged["coverage of power"] = power["low"] <= true_power <= power["high"]
    for margin in MARGINS:
        right = list_right(truth, margin)
        judged["right", margin] = row["recommended"] in right
        judged["wrong", margin] = row["recommended"] not in {*right, None}
    return judged


def show_mean(rows, name):
    return f"{np.mean([row[name] for row in rows]):.1%}"


def list_lines(heads, rows):
    """A table in Markdown; columns of numbers stand to the right."""
    marks = ["---" if head in ("world", "data") else "---:" for head in heads]
    return [f"| {' | '.join(map(str, cells))} |" for cells in (heads, marks, *rows)]


def list_overall(rows):
    """Coverage, power and type I error for every size of pilot, clean and dirty."""
    shares = ("power", "true power", "coverage of power", "type I error", "true type I error")
    heads = ["people", "data", "pilots", *(f"coverage of {name}" for name in CONTRASTS), *shares]
    lines = []
    for people in PEOPLE:
        for dirty in (False, True):
            chosen = [row for row in rows if (row["people"], row["dirty"]) == (people, dirty)]
            if chosen:
                covered = [f"{np.mean([row[name][2] for row in chosen]):.0%}" for name in CONTRASTS]
                cells = [people, "dirty" if dirty else "clean", len(chosen), *covered]
                lines.append(cells + [show_mean(chosen, name) for name in shares])
    return list_lines(heads, lines)


def list_recommendations(rows):
    """Right and wrong recommendations for every margin."""
    keys = [(verdict, margin) for margin in MARGINS for verdict in ("right", "wrong")]
    heads = ["people", "pilots", *(f"{verdict}, margin {margin:g}" for verdict, margin in keys)]
    lines = []
    for people in PEOPLE:
        chosen = [row for row in rows if row["people"] == people]
        if chosen:
            lines.append([people, len(chosen), *(show_mean(chosen, key) for key in keys)])
    return list_lines(heads, lines)


def list_worlds(rows):
    """Every cell: bias and coverage of the contrasts, power and type I error, recommendations."""
    shares = ("power", "true power", "type I error", "true type I error", ("right", MARGINS[1]), ("wrong", MARGINS[1]))
    heads = ["world", "data", "people", "pilots"]
    for name in CONTRASTS:
        heads += [f"{name}: truth", "bias (error)", "coverage"]
    heads += [name if isinstance(name, str) else name[0] for name in shares]
    lines = []
    for cell in sorted({row["cell"] for row in rows}, key=lambda cell: (list(WORLDS).index(cell[0]), *cell[1:])):
        chosen = [row for row in rows if row["cell"] == cell]
        cells = [cell[0], "dirty" if cell[1] else "clean", cell[2], len(chosen)]
        for name in CONTRASTS:
            true, errors, covered = zip(*(row[name] for row in chosen), strict=True)
            spread = f" ({np.std(errors, ddof=1) / np.sqrt(len(errors)):.3f})" if len(errors) > 1 else ""
            cells += [f"{true[0]:.3f}", f"{np.mean(errors):+.3f}{spread}", f"{np.mean(covered):.0%}"]
        lines.append(cells + [show_mean(chosen, name) for name in shares])
    return list_lines(heads, lines)


def write_table(options):
    truths = json.loads(TRUTH.read_text())
    rows = [judge(row, truths) for row in read_results()]
    trials = RehearsalPlan.parse(PLAN).trials
    lines = [
        "# Rehearsals against the truth",
        "",
        "`python -m benchmarks.rehearsal_truth truth`, `run` and `table`; the script describes the worlds. Coverage is of",
        "the 95 % intervals, bias the mean over pilots less the truth, with its standard error. Power and type I error are",
        f"those of the primary analysis after a coin: rehearsed, in {trials} trials of every pilot, and true, in",
        f"{TRUTH_TRIALS} trials of the world itself (standard error at most {0.5 / np.sqrt(TRUTH_TRIALS):.1%}), with its",
        "artefacts and the screen where it is dirty. A rehearsal is right where the two agree, not where it is 5 %: in",
        "dirty logs with few people and outliers the analysis itself rejects less often.",
        "The true contrasts are those of clean trials, for dirty pilots too: their rehearsed trials repeat the artefacts,",
        "so that `ts` learns a little less.",
        "",
        "## All worlds",
        "",
        *list_overall(rows),
        "",
        "## Recommendations",
        "",
        "Right: the recommendation is the candidate that is truly better than a coin and never, or none where there is",
        "none. Wrong: it is a candidate that is not. Where the candidate's true advantage is smaller than the margin (in",
        "standard deviations of the outcome), both answers are right. The true advantages of `ts` over the better of coin",
        "and never:",
        "",
        *(f"- {name}: {find_advantage(truths[name]):+.4f}" for name in WORLDS),
        "",
        *list_recommendations(rows),
        "",
        "## Every world",
        "",
        f"Right and wrong with a margin of {MARGINS[1]:g}.",
        "",
        *list_worlds(rows),
    ]
    TABLE.write_text("\n".join(lines) + "\n")
    print(TABLE.read_text())


COMMANDS = {"truth": find_truths, "run": run_pilots, "table": write_table}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--pilots", type=int, default=20)
    parser.add_argument("--people", type=int, nargs="+", choices=PEOPLE, default=PEOPLE)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    COMMANDS[options.command](options)


if __name__ == "__main__":
    main()
