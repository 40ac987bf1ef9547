"""What all commands share."""

import re

import typer

from surefoot.cli import app
from surefoot.cli.application import PANELS
from tests.cli.typed import run


def test_every_command_stands_in_one_panel():
    names = [name for panel in PANELS.values() for name in panel]
    assert sorted(names) == sorted(typer.main.get_command(app).commands)


def test_help_lists_the_panels_in_the_order_of_a_trial():
    text = run("--help")
    panels = re.findall(r"^╭─ ([\w ]+?) ─", text, re.MULTILINE)
    assert panels == ["Options", *PANELS]
    assert re.search(r"Learn ─.*\n│ fit .*(\n│.*)*\n│ prior ", text)
    assert "--install-completion" in text
