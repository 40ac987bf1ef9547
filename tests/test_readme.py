"""Numbers in README come from committed runs."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def section(name):
    found = re.search(
        rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    return found[1].strip()


def test_the_s1_tables_are_those_of_the_committed_run():
    written = (ROOT / "docs/reproduction/s1.md").read_text(encoding="utf-8")
    tables = written.split("\n**S1, ")
    assert section("s1") == "\n**S1, ".join(tables[:3]).strip()


def test_the_verdicts_are_those_of_the_committed_run():
    summary = json.loads((ROOT / "docs/reproduction/summary.json").read_text(encoding="utf-8"))
    rows = [f"| {claim['claim']} | {claim['paper']} | **{claim['verdict']}** |" for claim in summary["claims"]]
    assert section("claims").splitlines()[2:] == rows


def test_the_speeds_are_those_of_the_committed_benchmark():
    results = json.loads((ROOT / "benchmarks/results.json").read_text(encoding="utf-8"))
    ratios = {**results["fitting"]["ratios"], **results["deciding"]["ratios"], **results["simulating"]["ratios"]}
    rows = [f"| {what} | {value:,.0f} |" for what, value in ratios.items()]
    assert section("bench").splitlines()[2:] == rows


def test_what_readme_links_to_is_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / target).exists(), target
