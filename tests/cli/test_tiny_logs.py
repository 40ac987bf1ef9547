"""Commands on logs of 1 to 5 participants with 1 to 5 decision points: a result, or a refusal that names what is missing.

Never another exception, a warning of a library, or a number that is none printed as a finding.
"""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from surefoot.cli import app
from surefoot.errors import InputError

STUDY = """\
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "p"
[state.mood]
device = "watch"
[state.pulse]
[actions]
column = "sent"
[outcome]
column = "steps"
device = "watch"
[method]
name = "METHOD"
[screen]
outcome = true
"""
PLAN = """\
[design]
participants = 3
days = 3
per_day = 2
[[environment]]
effect = 0.2
[[candidate]]
name = "linucb"
"""

FILLINGS = {
    "all different": lambda row: 1.5 + 1.37 * row,
    "constant": lambda row: 7.0,
    "zeros": lambda row: 0.0,
    "two values": lambda row: row // 2 % 2,
    "three values": lambda row: row % 3 - 1,
    "a code": lambda row: -99 if row % 3 == 2 else 1 + row,
    "half missing": lambda row: "" if row % 2 else 3 + row,
    "missing": lambda row: "",
}
CASES = [
    # participants, decision points, mood, pulse, steps, who is available, what was sent
    (1, 1, "all different", "three values", "all different", "everybody", "every other"),
    (1, 3, "all different", "three values", "all different", "everybody", "every other"),
    (1, 5, "a code", "all different", "a code", "everybody", "nothing"),
    (2, 1, "constant", "two values", "all different", "everybody", "every other"),
    (2, 2, "all different", "three values", "all different", "everybody", "every other"),
    (3, 1, "three values", "zeros", "two values", "all but one", "every other"),
    (3, 3, "all different", "all different", "constant", "everybody", "every other"),
    (3, 3, "all different", "a code", "all different", "nobody", "every other"),
    (3, 4, "half missing", "missing", "half missing", "everybody", "every other"),
    (4, 4, "all different", "all different", "missing", "everybody", "every other"),
    (5, 2, "three values", "zeros", "two values", "all but one", "every other"),
    (5, 5, "a code", "all different", "a code", "everybody", "nothing"),
    (5, 5, "all different", "two values", "three values", "everybody", "something"),
    (5, 5, "constant", "two values", "all different", "everybody", "every other"),
    (5, 5, "zeros", "zeros", "zeros", "everybody", "every other"),
]
DRAWN = (CASES[2], CASES[10], CASES[13])
"""Cases of which pages are made, too: drawing takes most of the time."""
COMMANDS = {
    "screen": ("screen", "logs.csv"),
    "fit": ("fit", "logs.csv", "--engine", "numpy"),
    "audit": ("audit", "logs.csv"),
    "explain": ("explain", "logs.csv"),
    "evaluate": ("evaluate", "logs.csv"),
    "effects": ("effects", "logs.csv"),
    "size": ("size", "--days=10", "--per-day=2", "--effect=0.5", "--pilot=logs.csv", "--study=study.toml"),
    "rehearse": ("rehearse", "logs.csv", "--plan=plan.toml", "--trials=2", "--jobs=1"),
    "prior": ("prior", "logs.csv"),
}
METHODS = {"prior": ("ts",), "fit": ("ro-accb", "hb-saccb", "linucb", "filter-accb", "ahead", "ts")}
"""Of which a command is tried with another method than ro-accb."""
NOT_A_NUMBER = re.compile(r"\b(nan|inf)\b", re.IGNORECASE)


def write_logs(participants, points, mood, pulse, steps, available, sent):
    lines = ["participant,time,mood,pulse,available,sent,p,steps"]
    for row in range(participants * points):
        participant, point = divmod(row, points)
        free = available == "everybody" or (available == "all but one" and participant < participants - 1)
        action = {"every other": row % 2, "nothing": 0, "something": 1}[sent] if free else 0
        cells = [FILLINGS[filling](row) for filling in (mood, pulse)]
        moment = f"2026-01-{1 + point:02d}T08:00:00"
        lines.append(f"p{participant},{moment},{cells[0]},{cells[1]},{int(free)},{action},0.5,{FILLINGS[steps](row)}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command on tiny logs; its output, or None where it was refused."""

    def run_command(case, method, *arguments):
        (tmp_path / "logs.csv").write_text(write_logs(*case), encoding="utf-8")
        (tmp_path / "study.toml").write_text(STUDY.replace("METHOD", method), encoding="utf-8")
        (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
        result = CliRunner().invoke(app, list(arguments))
        if isinstance(result.exception, InputError):
            assert len(str(result.exception)) > 20
            assert not NOT_A_NUMBER.search(str(result.exception))
            return None
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.stdout

    monkeypatch.chdir(tmp_path)
    return run_command


def read_page(text):
    """What a reader sees of a page, apart from figures."""
    return re.sub(r"<[^>]*>", " ", re.sub(r"<(svg|style)\b.*?</\1>", "", text, flags=re.DOTALL))


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case)))
@pytest.mark.parametrize("command", COMMANDS)
def test_a_result_or_a_refusal(run, command, case, tmp_path):
    options = ["--html", "page.html"] if case in DRAWN and command not in ("fit", "prior") else []
    for method in METHODS.get(command, ("ro-accb",)):
        out = ["--out", f"out-{method}"] if command in ("fit", "rehearse") else []
        output = run(case, method, *COMMANDS[command], *options, *out)
        if output is None:
            assert not (tmp_path / "page.html").exists()
        else:
            pages = [read_page(path.read_text(encoding="utf-8")) for path in tmp_path.glob("page.html")]
            assert len(pages) == bool(options)
            assert not any(NOT_A_NUMBER.search(text) for text in (output, *pages))


@pytest.mark.parametrize("command", ["screen", "audit", "explain", "evaluate", "effects", "size"])
def test_json_is_json(run, command):
    """NaN and Infinity are no JSON."""

    def refuse(constant):
        raise AssertionError(f"{constant} in JSON")

    for case in (CASES[1], CASES[12], CASES[13]):
        output = run(case, "ro-accb", *COMMANDS[command], "--json")
        if output is not None:
            json.loads(output, parse_constant=refuse)


def test_the_fillings_are_what_they_are_called():
    cells = {name: {filling(row) for row in range(24)} for name, filling in FILLINGS.items()}
    assert {name: len(values) for name, values in cells.items() if len(values) < 4} == {
        "constant": 1,
        "zeros": 1,
        "two values": 2,
        "three values": 3,
        "missing": 1,
    }
    assert np.isin(-99, list(cells["a code"]))
