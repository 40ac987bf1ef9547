"""What `surefoot demo` does, command by command, and what each found, in words."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from surefoot.cli.application import app

Found = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """A command, what it is for, the page that it writes, and how its numbers are told."""

    title: str
    question: str
    command: str
    report: str
    tell: Callable[[Found], list[str]]

    def run(self, folder: Path) -> list[str]:
        """Run the command in the folder, as if it were typed there, and give what it found, sentence by sentence."""
        import json

        printed = StringIO()
        arguments = [*shlex.split(self.command)[1:], "--json"]
        with chdir(folder), redirect_stdout(printed), redirect_stderr(StringIO()):
            app(arguments, standalone_mode=False)
        return self.tell(json.loads(printed.getvalue()))


def _tell_screen(found: Found) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for row in found["counts"]:
        by_reason.setdefault(row["reason"], []).append(f"{row['values']:,} of {row['column']}")
    blind = "as often after a suggestion as after nothing, so taking them out makes no effect and hides none"
    unsafe = "more often after one action than after the other: that is an effect of the prompt, not dirt"
    return [
        f"{found['flagged_values']:,} values cannot be trusted and count as missing from here on.",
        *(f"{reason.capitalize()}: {', '.join(columns)}." for reason, columns in by_reason.items()),
        f"They come {blind if found['blind_to_treatment'] else unsafe}.",
    ]


def _tell_fit(found: Found) -> list[str]:
    used = found["used"]
    removed = found["removed"]
    return [
        f"{found['method']['name']} learned from {used:,} complete decision points of {found['people']} people.",
        f"Its critic left out {removed:,} of them ({100 * removed / used:.1f} %) that lie too far from the rest.",
    ]


def _tell_audit(found: Found) -> list[str]:
    looks = [check for check in found["checks"] if check["verdict"] != "fine"]
    checks = len(found["checks"])
    fine = f"{checks - len(looks)} of {checks} checks are fine; the verdict is “{found['verdict']}”."
    return [fine, *(f"{check['name'].capitalize()}: {check['reason']}." for check in looks)]


def _tell_explain(found: Found) -> list[str]:
    return list(found["card"]["What it does"])


def _tell_rehearsal(found: Found) -> list[str]:
    sentences = [
        f"{recommendation['environment'].capitalize()}: {recommendation['text']}."
        for recommendation in found["by_environment"]
    ]
    first = f"From {found['trials']} simulated trials of each kind, for a first look: {found['recommendation']['text']}."
    return [first, *sentences]


def _tell_sentences(found: Found) -> list[str]:
    return list(found["sentences"])


STEPS = (
    Step(
        "Screen",
        "Which values should nobody trust?",
        "surefoot screen logs.csv --html screen.html",
        "screen.html",
        _tell_screen,
    ),
    Step(
        "Fit",
        "When should a suggestion be sent?",
        "surefoot fit logs.csv --out fitted --force",
        "fitted/manifest.json",
        _tell_fit,
    ),
    Step(
        "Audit",
        "What did the fit throw away, and was that safe?",
        "surefoot audit logs.csv --html audit.html",
        "audit.html",
        _tell_audit,
    ),
    Step(
        "Explain",
        "What does the policy do, and from what?",
        "surefoot explain logs.csv --html explain.html",
        "explain.html",
        _tell_explain,
    ),
    Step(
        "Evaluate",
        "What would the policy be worth, judged from logs of a coin?",
        "surefoot evaluate logs.csv --html evaluate.html",
        "evaluate.html",
        _tell_sentences,
    ),
    Step(
        "Effect",
        "Did the suggestions help, and for whom?",
        "surefoot effects logs.csv --html effects.html",
        "effects.html",
        _tell_sentences,
    ),
    Step(
        "Rehearse",
        "What would the next trial do, before its first participant?",
        "surefoot rehearse logs.csv --plan rehearsal.toml --jobs 1 --html rehearsal.html",
        "rehearsal.html",
        _tell_rehearsal,
    ),
)
NEXT = (
    ("How many people does the next trial need?",
     "surefoot size --days 28 --per-day 5 --effect 0.1 --pilot logs.csv --html size.html"),
    ("With logs of your own: look at the file and write a first study.toml to edit.",
     "surefoot init logs.csv --out first.toml --force"),
    ("Everything else.", "surefoot --help"),
)  # fmt: skip
"""What one may type afterwards."""
