"""Numbers in README come from committed runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from manual.code_blocks import list_blocks

ROOT = Path(__file__).parents[1]


def test_the_python_block_runs_after_a_plain_install(tmp_path):
    (block,) = [
        block for block in list_blocks((ROOT / "README.md").read_text(encoding="utf-8")) if block.language == "python"
    ]
    refused = "try:\n    fitted.coefficients('polars')\nexcept sf.InputError as error:\n    print(error)\n"
    (tmp_path / "block.py").write_text(block.code + refused, encoding="utf-8")
    command = [sys.executable, str(ROOT / "tests/core_only.py"), "block.py"]
    options = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 120, "check": False}
    done = subprocess.run(command, **options)  # noqa: S603, PLW1510 - our own words
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "frames of 'polars' need polars; install it with: pip install polars, or ask for 'pyarrow'\n"


def section(name, page="README.md"):
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    return found[1].strip()


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


def test_the_s1_tables_are_those_of_the_committed_run():
    written = (ROOT / "docs/reproduction/s1.md").read_text(encoding="utf-8")
    tables = written.split("\n**S1, ")
    assert section("s1", "docs/results.md") == "\n**S1, ".join(tables[:3]).strip()


def test_the_verdicts_are_those_of_the_committed_run():
    summary = json.loads((ROOT / "docs/reproduction/summary.json").read_text(encoding="utf-8"))
    rows = [f"| {claim['claim']} | {claim['paper']} | **{claim['verdict']}** |" for claim in summary["claims"]]
    assert section("claims", "docs/results.md").splitlines()[2:] == rows


def s7_table():
    """What README shows of S7: HeartSteps, 50 × 210, a tenth of the rewards after prompts artefacts."""
    results = json.loads((ROOT / "docs/reproduction/s7.json").read_text(encoding="utf-8"))["results"]
    found = {row["method"]: row for row in results if row["design"] == "HeartSteps, 50 × 210, prompted 10 %"}
    rows = ["| policy | long-run steps | compared with never | prompts sent |", "|---|---:|---:|---:|"]
    labels = {"oracle-myopic": "best immediate policy (knows the truth)", "hb-ahead": "**hb-ahead**"}
    for name in ("never", "coin", "always", "oracle-myopic", "accb", "ro-accb", "hb-ahead"):
        row = found[name]
        change = "–" if name == "never" else f"{row['difference']:+,.1f} ± {row['standard_error']:.1f}".replace("-", "−")
        rows.append(f"| {labels.get(name, name)} | {row['reward']:,.0f} | {change} | {100 * row['share_treated']:.0f} % |")
    return "\n".join(rows)


def test_what_looking_ahead_earns_is_that_of_the_committed_run():
    assert section("s7") == s7_table()


def read_benchmark(name):
    return json.loads((ROOT / f"benchmarks/{name}.json").read_text(encoding="utf-8"))


def long_run_table():
    """What docs/off-policy.md shows of the long-run value."""
    found = read_benchmark("long_run_values")["long_run_value"]
    rows = ["| policy | truth | bias | covers | covers the difference from never | the immediate value is off by |"]
    rows.append("|---|---:|---:|---:|---:|---:|")
    for row in found:
        bias = f"{row['bias']:+.1f} ± {row['standard_error_of_bias']:.1f}".replace("-", "−")
        shares = " | ".join(f"{100 * row[name]:.0f} %" for name in ("coverage", "coverage_of_difference"))
        off = f"{row['immediate_value_off_by']:+.0f}".replace("-", "−") if "immediate_value_off_by" in row else "–"
        rows.append(f"| {row['policy']} | {row['truth']:,.0f} | {bias} | {shares} | {off} |")
    return "\n".join(rows)


def differing_people_table(estimates):
    """Of every cell the lowest and the highest coverage, in percent, of the three values and the two differences."""
    cells = read_benchmark("long_run_values")["people_who_differ"]
    sizes = sorted({(cell["people"], cell["decision_points"]) for cell in cells})
    words = {"DifferentReactions": "how they react", "DifferentLevels": "their level"}
    rows = {(words[cell["people_differ_in"]] if cell["spread"] else "nothing", cell["spread"]): {} for cell in cells}
    for cell in cells:
        shares = [row["coverage"] for row in cell[estimates]] + [
            row["coverage_of_difference"] for row in cell[estimates][1:]
        ]
        row = rows[words[cell["people_differ_in"]] if cell["spread"] else "nothing", cell["spread"]]
        row[cell["people"], cell["decision_points"]] = f"{100 * min(shares):.0f}–{100 * max(shares):.0f}"
    lines = ["| people differ in | spread | " + " | ".join(f"{people} × {points}" for people, points in sizes) + " |"]
    lines.append("|---|---:|" + "---:|" * len(sizes))
    for (kind, spread), row in rows.items():
        lines.append(f"| {kind} | {spread:g} | " + " | ".join(row[size] for size in sizes) + " |")
    return "\n".join(lines)


def test_the_long_run_values_are_those_of_the_committed_benchmark():
    page = (ROOT / "docs/off-policy.md").read_text(encoding="utf-8")
    assert long_run_table() in page
    for estimates in ("policies", "with_one_intercept"):
        assert differing_people_table(estimates) in page


def test_what_the_page_says_about_coverage_is_that_of_the_committed_benchmark():
    cells = read_benchmark("long_run_values")["people_who_differ"]
    coverages = [row["coverage"] for cell in cells for row in cell["policies"]]
    coverages += [row["coverage_of_difference"] for cell in cells for row in cell["policies"][1:]]
    counts = (len(coverages), sum(value >= 0.92 for value in coverages), sum(value < 0.9 for value in coverages))
    alike = [cell for cell in cells if not cell["spread"]]
    longer = [
        100 * (row["standard_deviation"] / before["standard_deviation"] - 1)
        for cell in alike
        for row, before in zip(cell["policies"], cell["with_one_intercept"], strict=True)
    ]
    page = " ".join((ROOT / "docs/off-policy.md").read_text(encoding="utf-8").split())
    assert "Of the {} coverages {} are 92 % or more and {} below 90 %".format(*counts) in page
    assert f"{sum(longer) / len(longer):.0f} % larger on average and {max(longer):.0f} % at most" in page


def centred_actions_table():
    """What docs/method.md shows of centred actions."""
    lines = ["| pooling | setting | probability limits | plain | centred | difference |", "|---|---|---|---:|---:|---:|"]
    for row in read_benchmark("centred_actions"):
        change = f"{row['centred'] - row['plain']:+.2f} ± {row['standard_error_of_difference']:.2f}".replace("-", "−")
        numbers = f"{row['plain']:.2f} | {row['centred']:.2f} | {change}"
        lines.append(f"| {row['pooling']} | {row['setting']} | {row['limits']} | {numbers} |")
    return "\n".join(lines)


def test_what_centred_actions_cost_is_that_of_the_committed_benchmark():
    assert centred_actions_table() in (ROOT / "docs/method.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def measured():
    return json.loads((ROOT / "benchmarks/results.json").read_text(encoding="utf-8"))


def test_the_speeds_are_those_of_the_committed_benchmark(measured):
    ratios = {**measured["fitting"]["ratios"], **measured["deciding"]["ratios"], **measured["simulating"]["ratios"]}
    rows = [f"| {what} | {value:,.3g} |" for what, value in ratios.items()]
    assert section("bench", "docs/results.md").splitlines()[2:] == rows
    assert set(section("bench").splitlines()[2:]) < set(rows)


def test_what_was_measured_elsewhere_is_collected(measured):
    for name in ("gpu", "insight", "million", "processes", "service", "threads"):
        assert measured[name] == json.loads((ROOT / f"benchmarks/{name}.json").read_text(encoding="utf-8"))


def test_figures_in_sentences_are_measured_ones(measured):
    """In sentences and tables of README and docs, with line breaks as spaces."""

    def text(path):
        return " ".join((ROOT / path).read_text(encoding="utf-8").split())

    def middle(values):
        return sorted(values)[len(values) // 2]

    fitting, exponents = measured["fitting"]["microseconds_per_person"], measured["scaling"]["exponents"]
    actor, ucb, high = (fitting[f"surefoot {name}, 1,000 people"] for name in ("ro-accb", "ro-linucb", "hb-accb"))
    one, million, gpu = measured["deciding"]["microseconds"], measured["million"], measured["gpu"]
    everyone, tenth = million["everyone"], million["tenth"]
    results, scaling, robustness = text("docs/results.md"), text("docs/scaling.md"), text("docs/robustness.md")
    assert f"{actor:.0f} µs per participant with `ro-accb`, {ucb:.0f} with `ro-linucb`" in results
    assert f"one decision {one['surefoot ro-accb, one state']:.1f} µs" in results
    people, points = exponents["people"], exponents["decision points"]
    assert f"people to the power {people:.2f} and with decision points to the power {points:.2f}" in results
    assert f"take {everyone['seconds']:.0f} s and {everyone['peak_memory_mib']} MiB" in results
    assert f"the fit alone takes {middle(gpu['ro-accb_seconds']):.2f} s" in results
    assert f"{everyone['seconds']:.0f} s in all, peak memory {everyone['peak_memory_mib']} MiB" in scaling
    assert f"(100,000 people: {tenth['seconds']:.0f} s and {tenth['peak_memory_mib']} MiB)" in scaling
    for name in ("ro-linucb_seconds", "ro-accb_seconds", "ro-saccb_seconds"):
        assert f"| {middle(gpu[name]):.2f} |" in scaling
    for counts in measured["threads"]["seconds_by_threads"].values():
        assert " | ".join(f"{seconds:.2f}" for seconds in counts.values()) in scaling
    assert f"`hb-accb` {high:.0f} µs a participant against {actor:.0f} for `ro-accb`, {high / actor:.1f} times" in robustness
    for name, clients in measured["service"]["databases"].items():
        for baseline, label in (("sqlalchemy", "SQLAlchemy"), ("driver", "plain driver")):
            rows = (clients[number][baseline] for number in ("1", "8", "32"))
            shares = " | ".join(f"{row['ratio']:.2f} ({row['processor_ratio']:.2f})" for row in rows)
            workers = name.replace("1 worker(s)", "1 worker").replace("(s)", "s")
            assert f"| {workers}, {label} | {shares} |" in text("docs/service.md")


def test_the_peer_that_wins_is_named(measured):
    earned = {
        row["name"]: row["mean"]
        for row in measured["quality"]["rows"]
        if (row["scene"], row["ratio"], row["measure"]) == ("HeartSteps, prompted", 0.2, "long_run_average_reward")
    }
    assert earned["scikit-learn RANSACRegressor"] > max(earned["surefoot ro-accb"], earned["surefoot hb-accb"])
    assert "RANSAC earns more steps" in (ROOT / "docs/results.md").read_text(encoding="utf-8")


def test_what_readme_links_to_is_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / target).exists(), target


def test_what_is_said_about_the_screen_was_measured():
    found = json.loads((ROOT / "benchmarks/screening.json").read_text(encoding="utf-8"))
    whole, others = (found["heartsteps_v1"][name]["0.9"] for name in ("whole file", "other people"))
    page = (ROOT / "docs/heartsteps-v1.md").read_text(encoding="utf-8")
    for name, row in (("the screen, threshold 0.9", whole), ("the same, learned from other people", others)):
        numbers = f"{row['precision']:.2f} | {row['recall']:.2f} | {100 * row['recorded values flagged']:.1f} %"
        assert f"| {name} | {numbers} |" in page
    results = " ".join((ROOT / "docs/results.md").read_text(encoding="utf-8").split())
    assert f"precision {whole['precision']:.2f} and recall {whole['recall']:.2f}" in results
    screening = (ROOT / "docs/screening.md").read_text(encoding="utf-8")
    for seconds in list(found["times"].values())[1:]:
        assert f"| {seconds:.2f} |" in screening
    assert f"{found['many people'][1]['peak_memory_mib']} MiB" in screening
    assert whole["precision"] >= 0.90
    assert whole["recall"] >= 0.70
    assert found["times"]["clean, share of it"] <= 2


def test_the_limits_of_s6_hold_in_the_committed_run():
    summary = json.loads((ROOT / "docs/reproduction/s6.json").read_text(encoding="utf-8"))
    assert all(row["held"] for row in summary["limits"])
    assert {"clean", "reward × 10 (unit)", "reward 0 after nothing only"} <= {row["data"] for row in summary["limits"]}
