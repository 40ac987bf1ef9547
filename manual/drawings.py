"""Drawings of the repository, made from what they show: `python -m manual.drawings` writes them into docs/.

The house is drawn from the layers that import-linter holds, so it cannot show one that is not so.
"""

from __future__ import annotations

import textwrap
import tomllib
from dataclasses import dataclass
from html import escape
from pathlib import Path

from surefoot.reports.figures import DARK, LIGHT

ROOT = Path(__file__).parents[1]
WIDTH = 960
GAP = 10
STYLE = """text { font-family: system-ui, sans-serif; fill: var(--ink); } .middle { text-anchor: middle; }
.name { font-size: 15px; font-weight: 600; } .small { font-size: 12px; }
rect { fill: var(--paper); stroke: var(--blue); } .paper { stroke: none; } .question { stroke-width: 2; }
.result { stroke: var(--orange); } .done { stroke: var(--green); stroke-width: 2; }
.roof { fill: var(--paper); stroke: var(--blue); stroke-width: 2; }
.arrow { stroke: var(--ink); fill: none; stroke-width: 1.4; }"""
LETTER = 6.2
"""Pixels that a letter of the small print takes, at most on average."""
WORDS = {
    "cli": "one file per command; parses arguments, calls the library, prints",
    "service": "the decision service: api, dashboard, trial, updates, access, database, operations",
    "client": "what an app server asks the service with",
    "personalisation": "whether an algorithm learned about people, or chance looks like it",
    "rehearsal": "a whole trial on simulated people",
    "trial_rules": "who decides, what is drawn, which policy may go live: the same for service and rehearsal",
    "checklists": "what journals ask of a report",
    "linking": "raw files to decision points",
    "fitting": "policies from logs, resumable",
    "audit": "what a fit left out",
    "explain": "the policy card",
    "evaluation": "what a policy is worth",
    "effects": "did the prompt help",
    "sample_size": "how many people",
    "experiments": "the paper again, and further",
    "datasets": "public trials, and the demo's",
    "log_checks": "are the logs what they are said to be?",
    "inference": "intervals over people",
    "regression": "for scikit-learn",
    "study": "what the columns mean",
    "simulators": "known truth",
    "screening": "what cannot be trusted",
    "learning": "methods = filter + critic + pooling + horizon + decision rule, from registries",
    "policies": "features, decision rules, policies and their files",
    "numerics": "arrays, solvers, random streams",
    "data": "files and frames to Trajectories",
    "reports": "pages and figures",
    "registry": "parts by name",
    "atomic_files": "whole or not at all",
    "errors": "place and remedy",
    "version": "which one this is",
}


@dataclass(frozen=True)
class Exit:
    """Where a decision may end early: when, and what comes of it."""

    when: str
    result: str


STEPS: tuple[tuple[str, str, Exit | None], ...] = (
    ("An app server asks", "POST /decisions: participant, decision point, time, availability, context", None),
    ("May it ask?", "a key that is good; a participant who takes part; the right order; a clock that can be right",
     Exit("no", "refused with the reason; nothing is recorded")),
    ("Was it asked before?", "one draw per decision point, decided by a unique key of the database",
     Exit("yes", "the same answer again, byte for byte; another question is refused")),
    ("Is the participant available?", "as the app says; not paused; within the dose",
     Exit("no", "unavailable: nothing, with probability 1, and the reasons")),
    ("Can the state be read?", "nothing missing, implausible or unknown; derived states from our own records",
     Exit("no", "fallback, with the reasons")),
    ("Is a policy live?", "for this participant, after the warm-up", Exit("not yet", "warm-up, by its own probability")),
    ("Can it decide?", "it can be read, is not stale, and knows these variables and actions",
     Exit("no", "fallback, with the reason")),
    ("The policy decides", "policy: a probability for every action", None),
)  # fmt: skip
AFTER = (
    ("Limits", "the probability of sending anything is moved between the study's limits"),
    ("Draw", "a uniform number from the trial's secret and this decision point's random key"),
    (
        "Record",
        "context, state, reasons, probabilities, action, policy version and key: one row, one ledger entry, one commit",
    ),
    ("Answer", "only now; `surefoot replay` can make it again from the record"),
)


METHODS: tuple[tuple[str, str, Exit], ...] = (
    ("Does a prompt act later too?", "prompts that tire people, or become a habit", Exit("yes", "hb-ahead")),
    ("Will the policy decide in a trial?", "then it must randomise at every decision point", Exit("yes", "hb-ts")),
    ("Are only few values wrong?", "or do you want the paper's method?", Exit("yes", "ro-accb")),
    ("Otherwise", "up to a third of the values may be wrong: unworn devices, careless answers", Exit("", "hb-accb")),
)  # fmt: skip
"""Questions about a trial, and the method to take at the first yes."""


def read_layers() -> list[list[str]]:
    """The floors of the package, the highest first, as import-linter holds them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(one["layers"] for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    return [floor.replace("|", ":").replace(" ", "").split(":") for floor in layers]


def draw_house(layers: list[list[str]]) -> str:
    """Floors of boxes under a roof; nobody knows what stands above."""
    roof = 56
    parts = [f'<path class="roof" d="M {WIDTH / 2} 8 L {WIDTH - GAP} {roof} L {GAP} {roof} Z"/>']
    parts.append(_text("surefoot", WIDTH / 2, roof - 12, "name middle"))
    y = roof + GAP
    for floor in layers:
        rows = -(-len(floor) // 5)
        size = -(-len(floor) // rows)
        for start in range(0, len(floor), size):
            names = floor[start : start + size]
            wide = (WIDTH - GAP * (len(names) + 1)) / len(names)
            lines = [textwrap.wrap(WORDS[name], int((wide - 20) / LETTER)) for name in names]
            high = 34 + 15 * max(map(len, lines))
            for place, (name, words) in enumerate(zip(names, lines, strict=True)):
                parts += _box(GAP + place * (wide + GAP), y, wide, high, name, words)
            y += high + (4 if start + size < len(floor) else GAP)
    return _svg(parts, y, "The layers of the package, from cli above to errors below")


def draw_decision() -> str:
    """Questions from top to bottom; where one of them ends the matter, what comes of it stands to the right."""
    parts: list[str] = []
    left, wide, right, aside, y = GAP, 520, 600, WIDTH - 600 - GAP, GAP
    for title, words, way_out in STEPS:
        lines = textwrap.wrap(words, int((wide - 20) / LETTER))
        high = 34 + 15 * len(lines)
        parts += _box(left, y, wide, high, title, lines, "question" if way_out else "box")
        if way_out is not None:
            result = textwrap.wrap(way_out.result, int((aside - 20) / LETTER))
            parts += _box(right, y, aside, high, "", result, "result")
            parts += _arrow(left + wide, y + high / 2, right, y + high / 2)
            parts.append(_text(way_out.when, (left + wide + right) / 2, y + high / 2 - 6, "small middle"))
        parts += _arrow(left + wide / 2, y + high, left + wide / 2, y + high + 22)
        y += high + 22
    for place, (title, words) in enumerate(AFTER):
        lines = textwrap.wrap(words, int((WIDTH - 2 * GAP - 20) / LETTER))
        high = 34 + 15 * len(lines)
        parts += _box(left, y, WIDTH - 2 * GAP, high, title, lines, "done")
        if place < len(AFTER) - 1:
            parts += _arrow(left + wide / 2, y + high, left + wide / 2, y + high + 22)
        y += high + 22
    described = "The way of a decision: " + ", ".join(title for title, *_ in (*STEPS, *AFTER))
    note = "Fallback and warm-up are drawn, recorded and answered in the same way; unavailable is recorded and answered."
    parts.append(_text(note, GAP, y + 4, "small"))
    return _svg(parts, y + 14, described)


def draw_method_tree() -> str:
    """Questions from top to bottom; at the first yes the method stands to the right."""
    parts: list[str] = []
    wide, right, high, y = 520, 640, 54, GAP
    for position, (question, words, way_out) in enumerate(METHODS):
        parts += _box(GAP, y, wide, high, question, [words], "question")
        parts += _box(right, y, WIDTH - right - GAP, high, way_out.result, [], "done")
        parts += _arrow(GAP + wide, y + high / 2, right, y + high / 2)
        parts.append(_text(way_out.when, (GAP + wide + right) / 2, y + high / 2 - 6, "small middle"))
        if position < len(METHODS) - 1:
            parts += _arrow(GAP + wide / 2, y + high, GAP + wide / 2, y + high + 26)
            parts.append(_text("no", GAP + wide / 2 + 10, y + high + 16, "small"))
        y += high + 26
    described = "; ".join(f"{question} {way_out.when.capitalize()}: {way_out.result}" for question, _, way_out in METHODS)
    return _svg(parts, y - 26 + GAP, f"Which method? {described}")


def _box(x: float, y: float, wide: float, high: float, name: str, lines: list[str], kind: str = "box") -> list[str]:
    box = f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="6"/>'
    first = y + (40 if name else (high - 15 * len(lines)) / 2 + 12)
    title = [_text(name, x + 10, y + 22, "name")] if name else []
    return [box, *title, *(_text(line, x + 10, first + 15 * place, "small") for place, line in enumerate(lines))]


def _arrow(x1: float, y1: float, x2: float, y2: float) -> list[str]:
    across, down = (x2 > x1), (y2 > y1)
    tip = f"{x2 - 7 * across - 4 * down:g} {y2 - 4 * across - 7 * down:g} L {x2:g} {y2:g} L "
    tip += f"{x2 - 7 * across + 4 * down:g} {y2 + 4 * across - 7 * down:g}"
    return [f'<path class="arrow" d="M {x1:g} {y1:g} L {x2:g} {y2:g} M {tip}"/>']


def _text(words: str, x: float, y: float, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'


def _svg(parts: list[str], high: float, description: str) -> str:
    day, night = (" ".join(f"--{name}: {colour};" for name, colour in colours.items()) for colours in (LIGHT, DARK))
    style = f":root {{ {day} }} @media (prefers-color-scheme: dark) {{ :root {{ {night} }} }}\n{STYLE}"
    size = f'width="{WIDTH}" height="{high:g}" viewBox="0 0 {WIDTH} {high:g}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(description)}">'
    paper = '<rect class="paper" width="100%" height="100%"/>'
    return "\n".join([opening, f"<style>{style}</style>", paper, *parts, "</svg>"]) + "\n"


def make_drawings() -> dict[str, str]:
    """By file name in docs/."""
    return {
        "house.svg": draw_house(read_layers()),
        "decision.svg": draw_decision(),
        "which-method.svg": draw_method_tree(),
    }


if __name__ == "__main__":
    for name, text in make_drawings().items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
