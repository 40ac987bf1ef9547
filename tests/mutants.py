"""`make mutants`: break the code on purpose, one small change at a time, and count the changes that no test notices.

mutmut makes the changes (`[tool.mutmut]` in pyproject.toml says where) and finds the tests that reach each of them. A sample
is drawn at random, from every module in proportion to its changes. Each change meets quick tests first, those of its own
module before others, then slower ones, up to `--seconds` of tests, and the first failure ends it. The summary,
tests/mutants.md, has the share that was noticed by module and over all with its 95 % interval, and every survivor with the
reason why it may live; reasons stand in tests/mutants.toml, by a part of the changed line. Fewer than 90 % noticed is a
failure.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import sys
import tomllib
from collections import Counter, defaultdict
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
LEAST = 0.9
QUICK = 0.5
NO_TESTS = 5


class Verdict(NamedTuple):
    """What became of a mutant: noticed or not, and the line before and after."""

    name: str
    noticed: bool
    before: str
    after: str

    @property
    def module(self) -> str:
        return self.name.split(".x")[0]


def prepare():
    """Write the mutants, and run every test once to see which of them it reaches and how long it takes."""
    from mutmut import __main__ as mutmut
    from mutmut.configuration import config

    mutmut.set_mutant_under_test("mutant_generation")
    Path("mutants").mkdir(exist_ok=True)
    mutmut.copy_src_dir()
    mutmut.copy_also_copy_files()
    mutmut.setup_source_paths()
    mutmut.store_lines_covered_by_tests()
    mutmut.create_mutants(1)
    mutmut.collect_or_load_stats(mutmut.get_mutant_runner(1))
    names = [name for _, name, _ in mutmut.collect_source_file_mutation_data(mutant_names=())[0]]
    os.chdir("mutants")
    return names, mutmut.state(), config()


def draw_sample(names, size, seed):
    """So many of the mutants, of every module in proportion."""
    rng, by_module = random.Random(seed), defaultdict(list)  # noqa: S311
    for name in sorted(names):
        by_module[name.split(".x")[0]].append(name)
    share = min(1.0, size / len(names))
    return [name for own in by_module.values() for name in rng.sample(own, min(len(own), round(share * len(own) + 0.499)))]


def order_tests(name, tests, durations, seconds):
    """Quick tests first, those of the mutant's own module, then of its folder, then others; up to so many seconds."""
    *folders, module = name.split(".x")[0].split(".")[1:]
    own, folder = "/".join(["tests", *folders, f"test_{module}"]), "/".join(["tests", *folders])

    def place(test):
        return durations[test] > QUICK, not test.startswith(own), not test.startswith(folder), durations[test]

    chosen, spent = [], 0.0
    for test in sorted(tests, key=place):
        if not chosen or spent + durations[test] <= seconds:
            chosen.append(test)
            spent += durations[test]
    return chosen


def try_mutant(name, tests, arguments, seconds):
    """Whether a test fails on it; a mutant that runs for too long, or ends the process, is noticed too."""
    import pytest
    from mutmut.mutation.trampoline import set_mutant_under_test

    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (int(3 * seconds + 20), int(3 * seconds + 25)))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        set_mutant_under_test(name)
        os._exit(int(pytest.main(["--rootdir=.", "-x", "-q", "--tb=no", *tests, *arguments])))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code > NO_TESTS:
        raise RuntimeError(f"pytest ended with {code} for {name}")
    return code not in (0, NO_TESTS)


def show_change(name):
    """The line before and after."""
    from mutmut import __main__ as mutmut

    os.chdir(HERE.parent)
    lines = mutmut.get_diff_for_mutant(name, path=mutmut.find_mutant(name).path).splitlines()
    os.chdir("mutants")
    before = [line[1:].strip() for line in lines if re.match(r"-(?!--)", line)]
    after = [line[1:].strip() for line in lines if re.match(r"\+(?!\+\+)", line)]
    return " ".join(before), " ".join(after)


def try_all(names, known, settings, seconds):
    import pytest
    from mutmut.utils.format_utils import mangled_name_from_mutant_name

    arguments = settings.pytest_add_cli_args
    # What is imported here need not be imported for every mutant.
    pytest.main(["--rootdir=.", "--collect-only", "-qqq", *settings.pytest_add_cli_args_test_selection, *arguments])
    for name in names:
        reached = known.tests_by_mangled_function_name.get(mangled_name_from_mutant_name(name), set())
        tests = order_tests(name, reached, known.duration_by_test, seconds)
        noticed = bool(tests) and try_mutant(name, tests, arguments, sum(known.duration_by_test[test] for test in tests))
        verdict = Verdict(name, noticed, *show_change(name))
        print(
            "noticed " if noticed else "SURVIVED", name, "" if noticed else f"{verdict.before} → {verdict.after}", flush=True
        )
        yield verdict


def estimate_interval(killed, tried):
    """Wilson's 95 % interval of a share."""
    z, share = 1.96, killed / tried
    centre, spread = share + z**2 / (2 * tried), z * (share * (1 - share) / tried + z**2 / (4 * tried**2)) ** 0.5
    return (centre - spread) / (1 + z**2 / tried), (centre + spread) / (1 + z**2 / tried)


def find_reason(verdict, reasons):
    return next((why for part, why in reasons.items() if part in verdict.before or part in verdict.after), "no reason")


def write_summary(verdicts, whole, seed, seconds, reasons):
    """Write tests/mutants.md and return the share noticed."""
    killed, tried = sum(verdict.noticed for verdict in verdicts), len(verdicts)
    low, high = estimate_interval(killed, tried)
    by_module = defaultdict(Counter)
    for verdict in verdicts:
        by_module[verdict.module][verdict.noticed] += 1
    survivors = [verdict for verdict in verdicts if not verdict.noticed]
    equivalent = sum(find_reason(verdict, reasons).startswith("equivalent") for verdict in survivors)
    lines = [
        "# Mutants",
        "",
        f"Of {whole:,} small changes to the code {tried:,} were drawn at random (seed {seed}, from every module in "
        f"proportion) and tried: {killed:,} were noticed by a test, **{100 * killed / tried:.1f} %** "
        f"(95 % interval {100 * low:.1f} to {100 * high:.1f} %). "
        f"Of the {len(survivors)} others, {equivalent} change nothing that can be observed.",
        "",
        f"`make mutants` does it again. Each change meets at most {seconds:g} s of the tests that reach it, slow ones left "
        "out. Sentences, pages and screen summaries are not mutated (`[tool.mutmut]` in pyproject.toml says which lines).",
        "",
        "| module | tried | noticed |",
        "|---|---:|---:|",
    ]
    for module, counts in sorted(by_module.items()):
        lines.append(f"| {module} | {counts.total()} | {100 * counts[True] / counts.total():.1f} % |")
    lines += ["", "## Survivors, and why they may live"]
    for module in dict.fromkeys(verdict.module for verdict in survivors):
        lines += ["", f"### {module}", ""]
        lines += [
            f"- `{verdict.before}` → `{verdict.after}`: {find_reason(verdict, reasons)}"
            for verdict in survivors
            if verdict.module == module
        ]
    (HERE / "mutants.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return killed / tried


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=420, help="how many mutants are tried")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=12.0, help="of tests for one mutant")
    parser.add_argument("--only", help="names of mutants, with *; no summary is written")
    given = parser.parse_args()
    os.chdir(HERE.parent)
    reasons = tomllib.loads((HERE / "mutants.toml").read_text(encoding="utf-8"))
    names, known, settings = prepare()
    wanted = [name for name in names if given.only is None or any(fnmatch(name, one) for one in given.only.split())]
    sample = draw_sample(wanted, given.sample, given.seed)
    verdicts = list(try_all(sample, known, settings, given.seconds))
    share = sum(verdict.noticed for verdict in verdicts) / len(verdicts)
    print(f"{100 * share:.1f} % of {len(verdicts)} mutants were noticed")
    if given.only is None:
        write_summary(verdicts, len(names), given.seed, given.seconds, reasons)
        sys.exit(share < LEAST)


if __name__ == "__main__":
    main()
