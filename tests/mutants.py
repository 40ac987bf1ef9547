"""`make mutants`: break the code on purpose, one small change at a time, and count how many changes no test notices.

mutmut makes the changes (`[tool.mutmut]` in pyproject.toml says where) and runs the tests that reach each of them. The
summary goes to tests/mutants.md: how many mutants of each file were tried and killed, and every survivor with the reason why
it may live. Reasons stand in tests/mutants.toml, by the line that was changed. Fewer than 90 % killed is a failure, and so
is a run that did not try them all.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
LEAST = 0.9
KILLED = ("killed", "timeout", "caught by type check", "segfault")
NOT_TRIED = "not checked"


def run_mutmut(*arguments: str) -> str:
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE.parent).stdout  # noqa: S603


def read_results() -> dict[str, str]:
    """The verdict on every mutant by its name."""
    found = re.findall(r"^\s*(\S+__mutmut_\d+): (.+)$", run_mutmut("results", "--all", "true"), re.MULTILINE)
    return {name: verdict.strip() for name, verdict in found}


def show_change(mutant: str) -> tuple[str, str]:
    """The line before and after."""
    lines = run_mutmut("show", mutant).splitlines()
    before = [line[1:].strip() for line in lines if re.match(r"-(?!--)", line)]
    after = [line[1:].strip() for line in lines if re.match(r"\+(?!\+\+)", line)]
    return " ".join(before), " ".join(after)


def write_summary(results: dict[str, str], reasons: dict[str, str]) -> float:
    """Write tests/mutants.md and return the share killed of those that were tried."""
    tried = {name: verdict for name, verdict in results.items() if verdict != NOT_TRIED}
    by_file: dict[str, Counter[bool]] = defaultdict(Counter)
    survivors: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, verdict in tried.items():
        module = name.split(".x")[0]
        by_file[module][verdict in KILLED] += 1
        if verdict not in KILLED:
            survivors[module].append(show_change(name))
    killed = sum(counts[True] for counts in by_file.values())
    share = killed / max(1, len(tried))
    lines = [
        "# Mutants",
        "",
        f"`make mutants`: {len(results):,} small changes to the code, {len(tried):,} of them tried, {killed:,} noticed by a "
        f"test ({100 * share:.1f} % of those tried).",
        "",
        "| module | tried | killed |",
        "|---|---:|---:|",
    ]
    for module, counts in sorted(by_file.items()):
        lines.append(f"| {module} | {counts.total()} | {100 * counts[True] / counts.total():.1f} % |")
    lines += ["", "## Survivors, and why they may live", ""]
    for module, changes in sorted(survivors.items()):
        lines += [f"### {module}", ""]
        for before, after in changes:
            reason = next((why for part, why in reasons.items() if part in before or part in after), "not yet judged")
            lines.append(f"- `{before}` → `{after}`: {reason}")
        lines.append("")
    (HERE / "mutants.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return share


def main() -> None:
    subprocess.run([sys.executable, "-m", "mutmut", "run", *sys.argv[1:]], check=False, cwd=HERE.parent)  # noqa: S603
    reasons = tomllib.loads((HERE / "mutants.toml").read_text(encoding="utf-8"))
    results = read_results()
    share = write_summary(results, reasons)
    print(f"{100 * share:.1f} % of the mutants tried were killed; see tests/mutants.md")
    sys.exit(share < LEAST or NOT_TRIED in results.values())


if __name__ == "__main__":
    main()
