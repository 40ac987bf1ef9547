"""Every figure that has a goal: where it stands among the results, the goal, and whether it holds.

A figure that is missing has not been measured here: some need another machine, or hours.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Results = dict[str, Any]


@dataclass(frozen=True)
class Goal:
    """A figure, and what it must not exceed (or fall below)."""

    part: str
    figure: str
    limit: float
    find: Callable[[Results], float]
    at_least: bool = True

    def measure(self, results: Results) -> float | None:
        """The figure; None where it was not measured."""
        try:
            return float(self.find(results))
        except KeyError:
            return None

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def change(self, before: float, now: float) -> float:
        """By what share it became worse; negative where it became better."""
        return before / now - 1 if self.at_least else now / before - 1


def ratio(part: str, name: str, limit: float, *, at_least: bool = True) -> Goal:
    return Goal(part, name, limit, lambda results: results[part]["ratios"][name], at_least)


def _service(database: str, clients: int, key: str, limit: float, *, at_least: bool = True) -> Goal:
    label = {"ratio": "decisions per second", "p99_ratio": "99th percentile"}[key]
    name = f"{database}, {clients} clients: {label} / plain driver"
    return Goal(
        "service",
        name,
        limit,
        lambda results: results["service"]["databases"][database][str(clients)]["driver"][key],
        at_least,
    )


def _exponent(what: str) -> Goal:
    return Goal(
        "scaling", f"exponent over {what}", 1.05, lambda results: results["scaling"]["exponents"][what], at_least=False
    )


def _insight(command: str, limit: float) -> Goal:
    def slowest(results: Results) -> float:
        found = results["insight"]["seconds"]
        return max(found[f"{command}, pooling = {pooling}"]["wall"] for pooling in ("person", "all"))

    return Goal("insight", f"{command}, 5,000 people × 60, seconds", limit, slowest, at_least=False)


METHODS = ("", ", partial", ", ahead", ", screen")
DATABASES = ("SQLite, 1 worker(s)", "PostgreSQL, 1 worker(s)")
GOALS = (
    ratio("fitting", "literal / surefoot ro-accb", 100),
    ratio("fitting", "MABWiser LinUCB / surefoot ro-accb", 4),
    ratio("fitting", "MABWiser LinUCB / surefoot ro-linucb", 10),
    ratio("fitting", "MABWiser LinUCB / surefoot hb-accb", 3),
    ratio("fitting", "surefoot hb-accb / ro-accb", 2.5, at_least=False),
    ratio("deciding", "MABWiser predict / surefoot decide, one state", 10),
    ratio("simulating", "stepping surefoot/HeartSteps-v0 / surefoot HeartSteps.run", 200),
    ratio("simulating", "stepping surefoot/ChainWalk-v0 / surefoot ChainWalk.run", 200),
    *(_exponent(f"{what}{method}") for method in METHODS for what in ("people", "decision points", "variables")),
    Goal(
        "starting",
        "import surefoot, seconds",
        0.2,
        lambda found: found["starting"]["seconds"]["import surefoot"],
        at_least=False,
    ),
    Goal(
        "starting",
        "surefoot --help, seconds",
        0.2,
        lambda found: found["starting"]["seconds"]["surefoot --help"],
        at_least=False,
    ),
    *(
        _service(database, clients, "ratio", limit)
        for database in DATABASES
        for clients, limit in ((1, 0.5), (8, 1), (32, 1.5))
    ),
    *(_service(database, 1, "p99_ratio", 2, at_least=False) for database in DATABASES),
    _insight("audit", 5),
    _insight("explain", 15),
    _insight("evaluate", 5),
    Goal(
        "million",
        "a million people, peak memory, MiB",
        2048,
        lambda found: found["million"]["everyone"]["peak_memory_mib"],
        at_least=False,
    ),
    Goal("processes", "a million people, 16 cores / one", 10, lambda found: found["processes"]["times_one_core"]["16"]),
    Goal(
        "processes",
        "processor time of the process that asks, µs per participant",
        3,
        lambda found: found["processes"]["processor_microseconds_per_participant_of_the_asking_process"]["16"],
        at_least=False,
    ),
    Goal("cluster", "Dask, 4 workers / one", 3, lambda found: found["cluster"]["times_one_worker"]["4"]),
    Goal(
        "cluster",
        "Dask, 4 workers: processor time of the process that asks, µs per participant",
        3,
        lambda found: found["cluster"]["processor_microseconds_per_participant_of_the_asking_process"]["4"],
        at_least=False,
    ),
    Goal(
        "gpu",
        "ro-accb, a million people on an H200, seconds",
        2,
        lambda found: min(found["gpu"]["ro-accb_seconds"]),
        at_least=False,
    ),
)
SLOWER = 0.15
"""A figure that became worse by more is named by `--check`."""


def list_goals(results: Results) -> list[str]:
    """The page: every figure with its goal, as Markdown."""
    lines = ["## Goals", "", "| part | figure | measured | goal | |", "|---|---|---:|---:|---|"]
    for goal in GOALS:
        value = goal.measure(results)
        shown, verdict = (
            ("–", "not measured")
            if value is None
            else (f"{value:,.3g}", "holds" if goal.holds(value) else "**does not hold**")
        )
        lines.append(
            f"| {goal.part} | {goal.figure} | {shown} | {'≥' if goal.at_least else '≤'} {goal.limit:g} | {verdict} |"
        )
    return [*lines, ""]


def find_slower(before: Results, now: Results) -> list[str]:
    """What became worse by more than `SLOWER` since `before`, in words."""
    found = []
    for goal in GOALS:
        old, new = goal.measure(before), goal.measure(now)
        if old is not None and new is not None and goal.change(old, new) > SLOWER:
            found.append(
                f"{goal.part}: {goal.figure} was {old:.3g}, is {new:.3g} ({100 * goal.change(old, new):.0f} % worse)"
            )
    return found
