"""`surefoot demo`: whole or not at all, and every command on its page does what it says."""

import html
import json
import math
import re
import shlex
import webbrowser
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from surefoot.cli import app
from surefoot.cli import demo as demo_steps
from surefoot.datasets import demo_trial
from surefoot.errors import InputError
from tests.browser import CHROMIUM, WHY_NOT, Browser
from tests.sentences import find_long_sentences, read_page


@pytest.fixture(scope="module")
def typed():
    """The commands that the demo gave to the command line."""
    return []


@pytest.fixture(scope="module")
def made(typed, tmp_path_factory):
    """The demo of a shorter trial: its folder, what it printed, and what it said on the way."""

    def record(arguments, **more):
        typed.append(arguments)
        app(arguments, **more)

    folder = tmp_path_factory.mktemp("newcomer") / "surefoot-demo"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_trial, "PEOPLE", 12)
        patch.setattr(demo_trial, "DAYS", 10)
        plan = demo_trial.plan_text().replace("trials = 3", "trials = 2").replace("days = 10", "days = 3")
        patch.setattr(demo_trial, "plan_text", lambda: plan)
        patch.setattr(demo_steps, "app", record)
        result = run("demo", "--folder", folder, "--json", "--seed", 4)
    return folder, result.stdout, result.stderr


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def no_steps(monkeypatch):
    monkeypatch.setattr(demo_steps, "STEPS", ())


def test_it_tells_what_every_command_found(made):
    folder, printed, said = made
    found = json.loads(printed)
    assert found["page"] == str(folder / "index.html")
    assert [step["title"] for step in found["steps"]] == [step.title for step in demo_steps.STEPS]
    assert all(step["found"] for step in found["steps"])
    assert f"{len(demo_steps.STEPS) + 1} of {len(demo_steps.STEPS) + 1}: " in said
    words = {step["title"]: " ".join(step["found"]) for step in found["steps"]}
    assert "of steps" in words["Screen"]
    assert "learned from" in words["Fit"]
    assert "checks are fine" in words["Audit"]
    assert "it would send at" in words["Explain"]
    assert "is worth" in words["Evaluate"]
    assert "A suggestion" in words["Effect"]
    assert "No effect: no candidate is safely better than a coin" in words["Rehearse"]


def test_the_front_page_draws_the_answers_side_by_side(made):
    folder, printed, _ = made
    answers = json.loads(printed)["answers"]
    questions = [(answer["question"], answer["title"]) for answer in answers]
    assert questions == [
        ("One suggestion instead of nothing", "Effect"),
        ("Always instead of never", "Evaluate"),
        ("Always instead of never", "Rehearse"),
        ("The policy instead of the coin", "Evaluate"),
        ("The policy instead of the coin", "Rehearse"),
    ]
    assert all(answer["change"]["low"] <= answer["change"]["value"] <= answer["change"]["high"] for answer in answers)
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert page.count("<figure>") == 1
    # The number of the table is that of the effects' own page, in per cent.
    effect = 100 * math.expm1(answers[0]["change"]["value"])
    shown = re.search(r"<td>([+−][\d.]+)\u00a0%</td>", page)[1].replace("−", "-")
    assert float(shown) == pytest.approx(effect, abs=0.5)


def list_commands(folder):
    page = (folder / "index.html").read_text(encoding="utf-8")
    return [html.unescape(found) for found in re.findall(r'<pre class="copy"><code>(.*?)</code></pre>', page, re.DOTALL)]


def test_every_command_of_the_page_works_in_its_folder(made, typed, monkeypatch):
    folder = made[0]
    first, *commands = list_commands(folder)
    assert first == f"cd {folder.name}"
    steps, further = commands[: len(demo_steps.STEPS)], commands[len(demo_steps.STEPS) :]
    # Those of the reports were given to the command line in the folder, word for word, when the page was made.
    assert [[*shlex.split(command), "--json"] for command in steps] == [["surefoot", *arguments] for arguments in typed]
    assert len(further) == len(demo_steps.NEXT)
    monkeypatch.chdir(folder)
    before = (folder / "screen.html").read_bytes()
    for command in (*steps[:2], *further):
        program, *arguments = shlex.split(command)
        assert program == "surefoot"
        assert run(*arguments).exit_code == 0, command
    demo_steps.link_pages(folder)
    assert (folder / "screen.html").read_bytes() == before


def test_the_page_links_every_report_and_nothing_else_on_earth(made):
    folder = made[0]
    page = (folder / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'href="([^"]+)"', page)
    assert {step.report for step in demo_steps.STEPS} <= set(links)
    assert "12\N{NO-BREAK SPACE}% of the decision points the watch was not worn" in page
    assert all((folder / link).is_file() for link in links if link != "data:," and not link.startswith("#"))
    assert "http" not in page.replace("http://www.w3.org/", "")
    assert "<script" not in page


@pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)
def test_the_page_fits_on_a_desktop_and_a_telephone(made):
    path = made[0] / "index.html"
    with Browser() as browser:
        for width in (1200, 390):
            asked, said = browser.visit(path, width=width, dark=width == 390)
            assert {url for url in asked if not url.startswith("data:")} == {path.as_uri()}
            assert said == []
            assert browser.evaluate("document.documentElement.scrollWidth") <= width


MOST_WORDS_OF_A_SENTENCE = 30
MOST_WORDS_OF_A_PARAGRAPH = 70
MOST_SENTENCES_OF_A_PARAGRAPH = 4


class Prose(HTMLParser):
    """The paragraphs, list items and captions of a page; tables, figures and commands are no prose."""

    def __init__(self):
        super().__init__()
        self.paragraphs = []
        self.skipped = 0

    def handle_starttag(self, tag, attributes):
        self.skipped += tag in ("style", "svg", "pre", "table")
        if tag in ("p", "li", "dd", "figcaption", "br"):
            self.paragraphs.append("")

    def handle_endtag(self, tag):
        self.skipped -= tag in ("style", "svg", "pre", "table")
        if tag in ("p", "li", "dd", "figcaption"):
            self.paragraphs.append("")

    def handle_data(self, text):
        if self.paragraphs and not self.skipped:
            self.paragraphs[-1] += text


def split_sentences(text):
    return re.split(r"(?<=[.?!])\s+", " ".join(text.split()))


def find_long_prose(page):
    prose = Prose()
    prose.feed(page)
    for text in prose.paragraphs:
        sentences = split_sentences(text)
        yield from (sentence for sentence in sentences if len(sentence.split()) > MOST_WORDS_OF_A_SENTENCE)
        if len(sentences) > MOST_SENTENCES_OF_A_PARAGRAPH or len(text.split()) > MOST_WORDS_OF_A_PARAGRAPH:
            yield text


def test_pages_have_short_sentences_and_paragraphs(made):
    assert list(find_long_prose(f"<p>{'word ' * 31}.</p><p>One. Two. Three. Four. Five.</p><td>{'word ' * 31}</td>"))
    pages = [made[0] / name for name in ("index.html", *(step.report for step in demo_steps.STEPS)) if name.endswith("html")]
    assert len(pages) == 7
    found = {page.name: list(find_long_prose(page.read_text(encoding="utf-8"))) for page in pages}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_pages_show_no_python_and_no_p_of_zero(made):
    for page in made[0].glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"\b[A-Z]\w+\(\w+=", text), page.name  # Stuck(threshold=0.9, …)
        assert "p = 0.000" not in text, page.name


def test_an_earlier_demo_is_replaced_and_nothing_else_is(tmp_path, no_steps):
    folder = tmp_path / "demo"
    run("demo", "--folder", folder)
    run("demo", "--folder", folder, "--seed", 1)
    assert json.loads((folder / "demo.json").read_text())["seed"] == 1
    (folder / "study.toml").write_text("mine")
    with pytest.raises(InputError, match=r"study\.toml: was changed since .*choose another with --folder"):
        run("demo", "--folder", folder)
    assert (folder / "study.toml").read_text() == "mine"
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"is not a demo, so it stays as it is; choose another with --folder"):
        run("demo", "--folder", other)
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo", "other"]


def test_a_demo_that_fails_leaves_nothing(tmp_path, monkeypatch):
    broken = demo_steps.Step("Break", "", "surefoot screen nothing.csv", list)
    monkeypatch.setattr(demo_steps, "STEPS", (broken,))
    with pytest.raises(InputError, match=r"nothing\.csv"):
        run("demo", "--folder", tmp_path / "demo")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("display", "arguments", "opens"),
    [("", (), False), (":0", (), True), (":0", ("--no-open",), False), ("", ("--open",), True), (":0", ("--json",), False)],
)
def test_the_page_opens_where_there_is_a_screen(tmp_path, monkeypatch, no_steps, display, arguments, opens):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    result = run("demo", "--folder", tmp_path / "demo", *arguments)
    page = tmp_path / "demo" / "index.html"
    assert opened == ([page.as_uri()] if opens else [])
    assert str(page) in result.stdout


def test_its_pages_have_short_sentences(made):
    pages = ["index.html", *(step.report for step in demo_steps.STEPS if step.report.endswith(".html"))]
    found = {page: find_long_sentences(read_page((made[0] / page).read_text(encoding="utf-8"))) for page in pages}
    assert {page: sentences for page, sentences in found.items() if sentences} == {}


def test_its_pages_link_each_other(made):
    folder, _, _ = made
    text = (folder / "evaluate.html").read_text(encoding="utf-8")
    assert '<a href="effects.html"><code>surefoot effects</code></a>' in text
    for target in re.findall(r'<a href="(\w+\.html)"><code>', text):
        assert (folder / target).is_file()
