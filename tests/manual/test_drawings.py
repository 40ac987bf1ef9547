"""Drawings show what is so, and the gallery every figure with what made it."""

import re
import xml.etree.ElementTree as ET

import pytest

from manual import drawings, gallery
from surefoot.cli.demo import STEPS
from surefoot.datasets import demo_trial
from surefoot.learning.methods import METHODS
from surefoot.service.dashboard.trial_pages import SOURCES


@pytest.mark.parametrize("name", ["house.svg", "decision.svg", "which-method.svg"])
def test_committed_drawings_are_those_of_the_code(name):
    text = drawings.make_drawings()[name]
    message = "draw it again: python -m manual.drawings"
    assert (drawings.ROOT / "docs" / name).read_text(encoding="utf-8") == text, message
    ET.fromstring(text)  # noqa: S314 - our own
    assert "prefers-color-scheme: dark" in text


def test_the_house_has_every_folder_of_the_package_on_its_floor():
    layers = drawings.read_layers()
    there = {
        path.stem
        for path in (drawings.ROOT / "src" / "surefoot").iterdir()
        if path.name[0] != "_" and (path.suffix == ".py" or (path / "__init__.py").exists())
    }
    assert {name for floor in layers for name in floor} == there == drawings.WORDS.keys()
    drawn = re.findall(r'<text class="name" x="[\d.]+" y="([\d.]+)">(\w+)</text>', drawings.draw_house(layers))
    place = {name: float(height) for height, name in drawn}
    assert place["cli"] < place["trial_rules"] < place["learning"] < place["errors"]


def test_a_decision_ends_in_every_source_that_there_is():
    text = drawings.draw_decision()
    assert all(f">{source}" in text for source in SOURCES)


def test_the_tree_ends_in_methods_that_exist_and_its_page_names_them():
    page = (drawings.ROOT / "docs/which-method.md").read_text(encoding="utf-8")
    for _, _, way_out in drawings.METHODS:
        assert way_out.result in METHODS and f"`{way_out.result}`" in page


def test_the_gallery_shows_the_figures_under_their_commands(monkeypatch):
    monkeypatch.setattr(demo_trial, "PEOPLE", 12)
    monkeypatch.setattr(demo_trial, "DAYS", 7)
    commands = gallery.list_commands()
    assert {step.command for step in STEPS if step.report.endswith(".html")} < set(commands)
    chosen = [command for command in commands if command.split()[1] in ("screen", "effects")]
    page = gallery.write_page(chosen)
    for command in chosen:
        assert f'```sh\n{command}\n```\n\n<div class="gallery">\n<figure' in page
    assert page.count("<figure") == 5
    assert "var(--blue)" in page
    assert all((drawings.ROOT / "docs" / file).exists() for file in re.findall(r"!\[.*?\]\((.*?)\)", page))
