"""Checklists as data: items of the guidelines, topics that exist, and pages that keep text as it is."""

import re
import tomllib
from pathlib import Path

import pytest

from surefoot.checklists import CHECKLISTS, Checklist, Fact, checklist, load_checklist
from surefoot.errors import InputError

TEXTS = Path(checklist.__file__).parent
ITEM = checklist.Item("1", "Name", "A name.", ("title", "harms"), "Who?")


def fill(facts):
    return Checklist("x", "X", "Note.", ("Somebody 2020.",), (ITEM, ITEM)).fill(facts, study="S", records="R")


def test_the_extension_of_consort_has_its_14_items():
    numbers = [item.number for item in load_checklist("consort-ai").items if item.extension]
    assert numbers == [
        *("1a, 1b (i)", "1a, 1b (ii)", "2a (i)", "4a (i)", "4a (ii)", "4b"),
        *("5 (i)", "5 (ii)", "5 (iii)", "5 (iv)", "5 (v)", "5 (vi)", "19 (i)", "25 (i)"),
    ]


def test_tidier_has_12_items_and_the_components_of_an_adaptive_intervention():
    items = load_checklist("tidier-jitai").items
    assert [item.number for item in items] == [*map(str, range(1, 13)), *(f"J{number}" for number in range(1, 8))]


@pytest.mark.parametrize("name", CHECKLISTS)
def test_every_item_is_answered_by_topics_or_asks_a_person(name):
    items = load_checklist(name).items
    assert all(item.topics or item.person.endswith(("?", ".")) for item in items)
    assert {topic for item in items for topic in item.topics} <= checklist.read_topics().keys()
    assert len({item.number for item in items}) == len(items)


def test_no_topic_is_unused():
    used = {topic for name in CHECKLISTS for item in load_checklist(name).items for topic in item.topics}
    assert used == checklist.read_topics().keys()


def test_sentences_are_short():
    for path in TEXTS.glob("*.toml"):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        texts = [item.get(key, "") for item in content.get("items", ()) for key in ("asks", "person")] + [
            content.get("note", "")
        ]
        texts += [topic["missing"] for topic in content.values() if isinstance(topic, dict)]
        for sentence in (sentence for text in texts for sentence in re.split(r"(?<=[.?]) ", str(text))):
            assert len(sentence.split()) <= 30, sentence


def test_an_item_says_what_is_there_what_is_missing_and_what_a_person_must_answer():
    filled = fill({"title": [Fact("A <b> *trial*", "study.toml [trial]")]})
    first, second = filled.items
    assert (first.status, second.shown_in) == ("answered in part", {"Title": "1"})
    page = filled.to_html()
    assert "A &lt;b&gt; *trial*" in page and page.count("study.toml [trial]") == 1
    assert "<strong>Not in these records:</strong> adverse events." in page and "<strong>For a person:</strong> Who?" in page
    text = filled.to_markdown()
    assert r"- A \<b\> \*trial\* (study.toml \[trial\])" in text and "Title: see item 1." in text
    assert filled.to_dict()["items"][0]["facts"]["Title"][0]["source"] == "study.toml [trial]"


def test_a_status_never_hides_a_question():
    both = {"title": [Fact("T", "f")], "harms": [Fact("H", "f")]}
    assert [fill(facts).items[0].status for facts in ({}, both)] == ["not in these records", "answered in part"]
    alone = checklist.FilledItem(checklist.Item("1", "", "", ("title",)), {"Title": both["title"]}, [], {})
    person = checklist.FilledItem(checklist.Item("1", "", "", (), "Who?"), {}, [], {})
    assert (alone.status, person.status) == ("answered", "question for a person")
    assert fill({}).count_statuses() == {"not in these records": 2}


def test_an_unknown_checklist_is_refused_with_the_nearest_name():
    with pytest.raises(InputError, match="did you mean 'consort-ai'"):
        load_checklist("consort-a")
