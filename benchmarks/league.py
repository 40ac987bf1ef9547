"""The league: Surefoot's methods and published algorithms in simulators of the field.

    make league                                     # go on where it stopped, and write benchmarks/league.md
    python -m benchmarks.league --table             # write the tables only
    python -m benchmarks.league --cells "RoME*fade" --contestants "RoME*" --replicates 10

Each trial appends a line to benchmarks/league.jsonl, and trials that have one are not run again. Seeds are 1000 and above:
nothing was tuned on them. Cells and contestants are in benchmarks/league_cells.py.
"""

import argparse
import json
import time
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.league_cells import CELLS, CONTESTANTS, OURS, Cell

FIRST_SEED = 1000
REPLICATES = 50
FEW = 3
"""With fewer replicates nothing is called the best, or a loss."""
RESULTS = Path(__file__).with_name("league.jsonl")
PAGE = Path(__file__).with_name("league.md")
TABLES = {"RoME": True, "Other simulators": False}
"""The tables, and whether they hold the cells of RoME's simulator."""
FADE = "RoME, rectangular, fade"
MOST_COST = 1.3
"""The most that the smooth parts may cost where effects do not change."""
MOST_REGRET = {
    FADE: 12.3,
    "RoME, triangular, fade": 36.6,
    "RoME, rectangular, alike": MOST_COST * 0.7,
    "RoME, rectangular, differ": MOST_COST * 4.0,
    "RoME, triangular, alike": MOST_COST * 9.6,
    "RoME, triangular, differ": MOST_COST * 20.9,
}
"""The most regret that `ts, smooth` may have: RoME's as published, and 1.3 times that of `ts, partial` on other seeds."""
LEAST_STEPS = (1618.0, 2500.0)
"""The steps of always sending the fitting message in StepCountJITAI, and the aim."""
NEAR = 0.1
"""`recommended` may be worse than the best fixed choice by this share."""

Values = dict[int, float]
"""A contestant's value in a cell for every seed."""
Results = dict[tuple[str, str], Values]
"""The values of every cell and contestant."""


class Estimate(NamedTuple):
    """A mean, or a ratio of means, with its standard error and the number of replicates."""

    mean: float
    error: float
    count: int

    def write(self, digits: int) -> str:
        if self.count < 2:
            return f"{self.mean:,.{digits}f} (1)"
        return f"{self.mean:,.{digits}f} ± {self.error:,.{digits}f} ({self.count})"


def read_results(path: Path = RESULTS) -> Results:
    """All finished trials."""
    results: Results = {}
    for line in map(json.loads, read_whole_lines(path).splitlines()):
        results.setdefault((line["cell"], line["contestant"]), {})[line["seed"]] = line["value"]
    return results


def read_whole_lines(path: Path) -> str:
    """The lines of a file; a last line that was not written to its end is left out."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text[: text.rfind("\n") + 1]


def run(cells: str, contestants: str, replicates: int, *, path: Path = RESULTS, share: tuple[int, int] = (0, 1)) -> None:
    """Run the trials that are missing, one seed after the other, and append each to the results."""
    finished = read_results(path)
    path.write_text(read_whole_lines(path), encoding="utf-8")
    chosen_cells = [cell for cell in CELLS.values() if fnmatch(cell.name, cells)]
    chosen = {name: enter for name, enter in CONTESTANTS.items() if fnmatch(name, contestants)}
    for seed in range(FIRST_SEED + share[0], FIRST_SEED + replicates, share[1]):
        for cell in chosen_cells:
            for name, enter in chosen.items():
                simulator = cell.simulator()
                learner = None if seed in finished.get((cell.name, name), {}) else enter(cell, simulator, seed)
                if learner is None:
                    continue
                start = time.perf_counter()
                value = cell.play(simulator, learner, seed)
                seconds = round(time.perf_counter() - start, 1)
                line = {"cell": cell.name, "contestant": name, "seed": seed, "value": value, "seconds": seconds}
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")


def estimate_mean(values: Values) -> Estimate:
    numbers = np.array(list(values.values()))
    error = numbers.std(ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else np.nan
    return Estimate(float(numbers.mean()), float(error), len(numbers))


def estimate_difference(values: Values, others: Values) -> Estimate:
    """The mean of the paired differences on common seeds."""
    common = sorted(values.keys() & others.keys())
    return estimate_mean({seed: values[seed] - others[seed] for seed in common}) if common else Estimate(0.0, np.nan, 0)


def estimate_ratio(values: Values, others: Values) -> Estimate:
    """The ratio of the means on common seeds; its standard error from the paired residuals a − ratio · b."""
    common = sorted(values.keys() & others.keys())
    if not common:
        return Estimate(np.nan, np.nan, 0)
    numerator = np.array([values[seed] for seed in common])
    denominator = np.array([others[seed] for seed in common])
    ratio = numerator.mean() / denominator.mean()
    residuals = estimate_mean(dict(enumerate(numerator - ratio * denominator)))
    return Estimate(float(ratio), float(residuals.error / denominator.mean()), len(common))


def choose_best(results: Results, cell: Cell, contestants: Iterable[str]) -> str | None:
    """The contestant with the best mean, of those with enough replicates."""
    rivals = {name: estimate_mean(results.get((cell.name, name), {0: np.nan})) for name in contestants}
    means = {name: cell.sign * estimate.mean for name, estimate in rivals.items() if estimate.count >= FEW}
    return max(means, key=means.__getitem__, default=None)


def write_table(results: Results, cells: list[Cell]) -> list[str]:
    """A row for every contestant; **bold** where it is the best, or where ours loses by more than two standard errors."""
    rows = [f"| contestant | {' | '.join(cell.name for cell in cells)} |", "|---|" + "---:|" * len(cells)]
    for name in CONTESTANTS:
        entries = [write_entry(results, cell, name) for cell in cells]
        rows.append(f"| {name} | {' | '.join(entries)} |")
    return rows


def write_entry(results: Results, cell: Cell, name: str) -> str:
    values = results.get((cell.name, name))
    if values is None:
        return "–"
    estimate = estimate_mean(values)
    text = estimate.write(choose_digits(estimate.mean))
    best = choose_best(results, cell, CONTESTANTS)
    if best is None or estimate.count < FEW:
        return text
    if name == best:
        return f"**{text}**"
    behind = estimate_difference(results[cell.name, best], values)
    lost = behind.count >= FEW and cell.sign * behind.mean > 2 * behind.error
    return f"**{text}, loss**" if name in OURS and best not in OURS and lost else text


def choose_digits(value: float) -> int:
    """Decimals of an outcome, so that it has three digits."""
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def write_goals(results: Results) -> list[str]:
    """What must hold, what was measured, and whether it holds."""
    rows = ["| what must hold | measured | holds |", "|---|---:|---|"]
    for cell, most in MOST_REGRET.items():
        regret = estimate_mean(results.get((cell, "ts, smooth"), {0: np.nan}))
        wanted = f"{cell}: regret of `ts, smooth` at most {most:.3g}"
        rows.append(write_goal(wanted, regret, choose_digits(regret.mean), regret.mean <= most))
    for cell in MOST_REGRET:
        if not cell.endswith("fade"):
            ratio = estimate_ratio(results.get((cell, "ts, smooth"), {}), results.get((cell, "ts, partial"), {}))
            wanted = f"{cell}: regret of `ts, smooth` against `ts, partial`, a ratio of at most {MOST_COST}"
            rows.append(write_goal(wanted, ratio, 2, ratio.mean <= MOST_COST))
    dirty = f"{FADE}, artefacts"
    for name in ("hb-ts, smooth", "hb-ts, partial", "recommended"):
        ratio = estimate_ratio(results.get((dirty, name), {}), results.get((dirty, "RoME"), {}))
        rows.append(write_goal(f"{dirty}: regret of `{name}` below RoME's, as a ratio", ratio, 2, ratio.mean < 1))
    steps = estimate_mean(results.get(("StepCountJITAI", "recommended"), {0: np.nan}))
    for least in LEAST_STEPS:
        rows.append(write_goal(f"StepCountJITAI: steps of `recommended` above {least:,.0f}", steps, 0, steps.mean > least))
    fixed = [name for name in OURS if name != "recommended"]
    for cell in CELLS.values():
        best = choose_best(results, cell, fixed)
        if best is None or (cell.name, "recommended") not in results:
            continue
        ratio = estimate_ratio(results[cell.name, "recommended"], results[cell.name, best])
        near = cell.sign * ratio.mean >= cell.sign * (1 - cell.sign * NEAR)
        limit = "at least" if cell.sign > 0 else "at most"
        wanted = f"{cell.name}: `recommended` against `{best}`, a ratio of {limit} {1 - cell.sign * NEAR:.1f}"
        rows.append(write_goal(wanted, ratio, 2, near))
    return rows


def write_goal(wanted: str, measured: Estimate, digits: int, holds: bool) -> str:
    if not measured.count or np.isnan(measured.mean):
        return f"| {wanted} | – | not measured |"
    return f"| {wanted} | {measured.write(digits)} | {'yes' if holds else '**no**'} |"


def write_page(results: Results, path: Path = PAGE) -> None:
    """Put the tables between their markers."""
    text = path.read_text(encoding="utf-8")
    sections = {"goals": write_goals(results)}
    for title, of_rome in TABLES.items():
        cells = [cell for cell in CELLS.values() if cell.name.startswith("RoME") == of_rome]
        sections[title] = write_table(results, cells)
    for title, rows in sections.items():
        before, _, after = text.partition(f"<!-- {title} -->\n")
        _, _, after = after.partition(f"<!-- end of {title} -->")
        table = "\n".join(rows)
        text = f"{before}<!-- {title} -->\n{table}\n<!-- end of {title} -->{after}"
    path.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="*")
    parser.add_argument("--contestants", default="*")
    parser.add_argument("--replicates", type=int, default=REPLICATES)
    parser.add_argument("--share", default="0/1", help="which of how many processes this is, such as 0/2")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="run nothing")
    options = parser.parse_args()
    first, processes = map(int, options.share.split("/"))
    try:
        if not options.table:
            run(options.cells, options.contestants, options.replicates, path=options.results, share=(first, processes))
    except KeyboardInterrupt:
        print("Interrupted. Finished trials are kept; run the same command to continue.")
    if options.results == RESULTS:
        write_page(read_results())


if __name__ == "__main__":
    main()
