"""Every mistake of the catalogue gives its message, to the letter, and the page shows what the tests hold."""

import pytest

from surefoot import InputError
from tests.mistakes import catalogue

ALL = [(section, mistake) for section, found in catalogue.mistakes().items() for mistake in found]


@pytest.mark.parametrize("mistake", [mistake for _, mistake in ALL], ids=[f"{section}: {one.what}" for section, one in ALL])
def test_the_message_is_as_the_catalogue_has_it(mistake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        said = mistake.make()
    except InputError as refused:
        said = str(refused)
    assert said == mistake.message


def test_no_mistake_is_listed_twice():
    names = [mistake.what for _, mistake in ALL]
    assert len(set(names)) == len(names)
    assert len(names) >= 120


def test_the_page_is_up_to_date():
    assert catalogue.PAGE.read_text(encoding="utf-8") == catalogue.page(), "run python -m tests.mistakes.catalogue"
