"""Checklists as data, and a checklist filled with facts, as a page and as Markdown."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from surefoot.errors import InputError, did_you_mean
from surefoot.reports.render import render

CHECKLISTS = ("consort-ai", "tidier-jitai")
MARKUP = re.compile(r"([\\`*_\[\]<>#|])")
"""Characters that Markdown would take for its own."""


class Fact(NamedTuple):
    """A statement, and the file, table or command that it comes from."""

    statement: str
    source: str


Facts = dict[str, list[Fact]]
"""Facts by topic."""


def merge_facts(*collections: Mapping[str, list[Fact]]) -> Facts:
    """All facts of a topic in the order of their collections.

    >>> merge_facts({"title": [Fact("A", "x")]}, {"title": [Fact("B", "y")]})["title"][1].statement
    'B'
    """
    topics = dict.fromkeys(topic for facts in collections for topic in facts)
    return {topic: [fact for facts in collections for fact in facts.get(topic, ())] for topic in topics}


@dataclass(frozen=True)
class Topic:
    """What facts are about."""

    title: str
    missing: str
    """Which record would answer it, for records that do not."""


@dataclass(frozen=True)
class Item:
    """One item of a checklist."""

    number: str
    title: str
    asks: str
    """What a report should state."""
    topics: tuple[str, ...] = ()
    person: str = ""
    """The question that no record answers; empty where records answer the whole item."""
    extension: bool = False
    """Whether it belongs to the extension of the guideline, not to the guideline itself."""


@dataclass(frozen=True)
class Checklist:
    """The items of a guideline, in its order and in our words."""

    name: str
    title: str
    note: str
    citations: tuple[str, ...]
    items: tuple[Item, ...]

    def fill(self, facts: Mapping[str, list[Fact]], *, study: str, records: str) -> "FilledChecklist":
        """The checklist with what the records say; `study` and `records` name them on the page."""
        topics = read_topics()
        shown: dict[str, str] = {}
        filled = []
        for item in self.items:
            answers = {topics[name].title: facts[name] for name in item.topics if facts.get(name)}
            missing = [topics[name] for name in item.topics if not facts.get(name)]
            filled.append(FilledItem(item, answers, missing, {title: shown[title] for title in answers if title in shown}))
            shown = dict.fromkeys(answers, item.number) | shown
        return FilledChecklist(self, tuple(filled), study, records)


@dataclass(frozen=True)
class FilledItem:
    """An item with the facts that answer it, by the title of their topic."""

    item: Item
    answers: dict[str, list[Fact]]
    missing: list[Topic]
    """Topics about which the records say nothing."""
    shown_in: dict[str, str]
    """Answers that an earlier item shows in full, with its number."""

    @property
    def status(self) -> str:
        """`answered`, `answered in part`, `question for a person` or `not in these records`."""
        if self.answers:
            return "answered in part" if self.missing or self.item.person else "answered"
        return "not in these records" if self.missing else "question for a person"


@dataclass(frozen=True)
class FilledChecklist:
    """A protocol and results appendix, with `to_html`, `to_markdown` and `to_dict`."""

    checklist: Checklist
    items: tuple[FilledItem, ...]
    study: str
    records: str

    def count_statuses(self) -> dict[str, int]:
        """The number of items by status."""
        statuses = [filled.status for filled in self.items]
        return {status: statuses.count(status) for status in dict.fromkeys(statuses)}

    def to_dict(self) -> dict[str, Any]:
        """Plain values: for every item its facts, the missing topics and the question for a person."""
        items = [
            {
                "number": filled.item.number,
                "title": filled.item.title,
                "status": filled.status,
                "facts": {title: [fact._asdict() for fact in facts] for title, facts in filled.answers.items()},
                "missing": [topic.missing for topic in filled.missing],
                "question": filled.item.person,
            }
            for filled in self.items
        ]
        return {"checklist": self.checklist.name, "study": self.study, "records": self.records, "items": items}

    def to_html(self) -> str:
        """A self-contained page."""
        return render("checklist.html", title=self.checklist.title, filled=self)

    def to_markdown(self) -> str:
        """The same for a manuscript's appendix."""
        return render("checklist.md", filled=self, escape=lambda text: MARKUP.sub(r"\\\1", text))


def _read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads(files("surefoot.checklists").joinpath(f"{name}.toml").read_text(encoding="utf-8"))


@cache
def read_topics() -> dict[str, Topic]:
    """The topics that items name."""
    return {name: Topic(**words) for name, words in _read_toml("topics").items()}


def load_checklist(name: str) -> Checklist:
    """A checklist of this package by its name.

    >>> sum(item.extension for item in load_checklist("consort-ai").items)
    14
    """
    if name not in CHECKLISTS:
        raise InputError(f"there is no checklist '{name}'{did_you_mean(name, CHECKLISTS)}; choose from {list(CHECKLISTS)}")
    content = _read_toml(name)
    items = tuple(_read_items(content["items"]))
    return Checklist(name, content["title"], content["note"], tuple(content["citations"]), items)


def _read_items(tables: list[dict[str, Any]]) -> Iterator[Item]:
    for table in tables:
        yield Item(**{**table, "topics": tuple(table.get("topics", ()))})
