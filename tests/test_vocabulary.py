"""One word for one thing, in every text that a user meets: help of commands, templates of pages and messages."""

import re
from pathlib import Path

import typer

from surefoot.cli import app

SOURCE = Path(__file__).parents[1] / "src" / "surefoot"
OTHER_WORDS = {
    r"rewards?": "outcome",
    r"proximal[ _]outcomes?": "outcome",
    r"users?|subjects?|patients?|respondents?": "participant",
    r"tuples?|time ?steps?|decision times?": "decision point",
    r"nudges?|push(es)? notifications?": "prompt, or the study's own words",
    r"agents?|strateg(y|ies)": "policy",
}
PATTERN = re.compile(rf"\b({'|'.join(OTHER_WORDS)})\b", re.IGNORECASE)
CODE = re.compile(
    r"\{% block style %\}.*?\{% endblock %\}|\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|<code>.*?</code>|<style>.*?</style>|<[^>]*>|\w+://\S+|`[^`]*`|--\w+",
    re.DOTALL,
)
"""Names of variables, keys, options and classes are not prose."""


def find_other_words(text):
    return [match.group(0) for match in PATTERN.finditer(CODE.sub(" ", text))]


def list_commands(command, name="surefoot"):
    yield name, command
    for sub, child in getattr(command, "commands", {}).items():
        yield from list_commands(child, f"{name} {sub}")


def test_the_pattern_finds_prose_and_leaves_code():
    assert find_other_words("The Reward of `reward` in [outcome]; {{ row.reward }} and --reward of users") == [
        "Reward",
        "users",
    ]


def test_help_texts_use_the_words_of_the_glossary():
    found = {}
    for name, command in list_commands(typer.main.get_command(app)):
        texts = [command.help or "", command.epilog or "", *(getattr(option, "help", "") or "" for option in command.params)]
        if words := find_other_words(" ".join(texts)):
            found[name] = words
    assert found == {}


def test_templates_use_the_words_of_the_glossary():
    found = {}
    for path in sorted(SOURCE.rglob("templates/*")):
        # The paper's own report and the study file keep the words of the method.
        is_page = path.suffix in (".html", ".txt") and path.name != "reproduction.html"
        if is_page and (words := find_other_words(path.read_text(encoding="utf-8"))):
            found[str(path.relative_to(SOURCE))] = words
    assert found == {}


def test_the_glossary_has_the_words():
    glossary = (SOURCE.parents[1] / "docs" / "glossary.md").read_text(encoding="utf-8")
    for word in ("Outcome", "Participant", "Decision point", "Policy", "Prompt"):
        assert f"\n**{word}**\n:   " in glossary


def test_messages_speak_of_the_outcome():
    """The catalogue holds every message to the letter."""
    messages = (SOURCE.parents[1] / "docs" / "mistakes.md").read_text(encoding="utf-8")
    assert re.findall(r"\brewards?\b|proximal_outcome", messages, re.IGNORECASE) == []
