"""The pages of audit, explain and evaluate in a real browser, at desktop and telephone width."""

import functools
from dataclasses import replace

import pytest

import surefoot as sf
from surefoot import audit, evaluation, explain
from surefoot.reports.numbers import OutcomeUnit
from tests.browser import CHROMIUM, WHY_NOT, Browser

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)
NASTY = "<script>console.error('x')</script> & \"friends\""


@pytest.fixture(scope="module")
def browser():
    with Browser() as one:
        yield one


@functools.cache
def pages():
    """Every kind of page, with a name that would run if it were not escaped."""
    logs = sf.simulators.HeartSteps(participants=12).collect(sf.policies.coin(2), decision_points=80, seed=0)
    pooled = explain.explain(sf.method("ro-saccb", pooling="all").fit(logs))
    linear = explain.explain(sf.method("linucb").fit(logs), draws=20)
    found = evaluation.evaluate(logs, {NASTY: sf.policies.fixed([0.3, 0.7])})
    return {
        "audit": audit.audit(sf.method("ro-accb").fit(logs)).to_html(title=NASTY, source=NASTY),
        "audit-ridge": audit.audit(sf.method("accb").fit(logs)).to_html(title=NASTY),
        "explain": pooled.to_html(title=NASTY, source=NASTY),
        "explain-linucb": linear.to_html(),
        "evaluate": replace(found, unit=OutcomeUnit(NASTY)).to_html(title=NASTY),
    }


CHARTS = {"audit": 5, "audit-ridge": 1, "explain": 7, "explain-linucb": 6, "evaluate": 3}
SIZES = """[...document.querySelectorAll('figure svg')].map(svg => {
  const box = svg.getBoundingClientRect(); return [box.width, box.height, svg.querySelectorAll('path').length] })"""


@needs_chromium
def test_pages_ask_for_nothing_say_nothing_and_show_their_charts(browser, tmp_path):
    for name, text in pages().items():
        path = tmp_path / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        assert "<script" not in text
        for width in (1100, 390):
            asked, said = browser.visit(path, width=width)
            assert {url for url in asked if not url.startswith("data:")} == {path.as_uri()}, name
            assert said == [], name
            sizes = browser.evaluate(SIZES)
            assert len(sizes) == CHARTS[name], name
            for wide, high, paths in sizes:
                assert 250 < wide <= width, (name, wide)
                assert high > 80
                assert paths > 10
            # Wide tables scroll inside themselves; the page itself never scrolls sideways.
            assert browser.evaluate("document.documentElement.scrollWidth") <= width, name


LUMINANCE = """(colour => { const [r, g, b] = colour.match(/[\\d.]+/g).map(part => {
  part /= 255; return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4 });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b })"""
COLOURS = f"""(() => {{
  const light = {LUMINANCE}, paper = light(getComputedStyle(document.body).backgroundColor);
  const contrast = colour => {{ const other = light(colour);
    return (Math.max(paper, other) + 0.05) / (Math.min(paper, other) + 0.05) }};
  const words = [...document.querySelectorAll('p, li, th, td, dd, figcaption, caption, .verdict')];
  const marks = [...document.querySelectorAll('figure svg g[id^=text] g, figure svg use')];
  return [paper, Math.min(...words.map(one => contrast(getComputedStyle(one).color))),
    Math.min(...marks.map(one => {{ const drawn = getComputedStyle(one);
      return Math.max(...[drawn.fill, drawn.stroke].filter(colour => colour.startsWith('rgb')).map(contrast)) }}))] }})()"""


@needs_chromium
def test_pages_and_their_figures_can_be_read_by_night(browser, tmp_path):
    """Text has a contrast of at least 4.5 to 1 with the paper, what figures draw at least 3 to 1 (WCAG 2.2, AA)."""
    for name, text in pages().items():
        path = tmp_path / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        for dark in (False, True):
            browser.visit(path, dark=dark)
            paper, words, marks = browser.evaluate(COLOURS)
            assert (paper < 0.05) == dark, name
            assert words >= 4.5, (name, dark)
            assert marks >= 3, (name, dark)


HINTS = """[...document.querySelectorAll('details')].forEach(one => one.open = true),
[...document.querySelectorAll('.wide')].map(one => [
  one.scrollWidth > one.clientWidth, getComputedStyle(one, '::before').content !== 'none', one.tabIndex])"""


@needs_chromium
def test_tables_that_scroll_on_a_telephone_say_so(browser, tmp_path):
    for name, text in pages().items():
        path = tmp_path / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        browser.visit(path, width=390)
        tables = browser.evaluate(HINTS)
        assert tables, name
        for scrolls, hint, tab_index in tables:
            assert hint or not scrolls, name
            assert tab_index == 0  # The keyboard can scroll it too.
        browser.visit(path, width=1100)
        assert not any(hint for _, hint, _ in browser.evaluate(HINTS)), name


@needs_chromium
def test_the_browser_would_notice(browser, tmp_path):
    """What the test above rests on: a request and an error on a page are seen."""
    path = tmp_path / "bad.html"
    path.write_text("<img src='http://127.0.0.1:9/x.png'><script>console.error('no'); null.x</script>", encoding="utf-8")
    asked, said = browser.visit(path)
    assert "http://127.0.0.1:9/x.png" in asked
    assert {event["method"] for event in said} >= {"Runtime.consoleAPICalled", "Runtime.exceptionThrown"}


def test_a_page_is_the_same_bytes_again_and_names_no_other_host():
    logs = sf.simulators.HeartSteps(participants=5).collect(sf.policies.coin(2), decision_points=40, seed=0)
    first, second = (evaluation.evaluate(logs, {"coin": sf.policies.coin(2)}) for _ in range(2))
    pages = [found.to_html(title="Value") for found in (first, second)]
    assert pages[0] == pages[1]
    assert "<script" not in pages[0]
    assert "http" not in pages[0].replace("http://www.w3.org/", "")


def test_pages_and_commands_say_that_few_people_are_rough():
    logs = sf.simulators.HeartSteps(participants=9).collect(sf.policies.coin(2), decision_points=40, seed=0)
    fitted = sf.method("accb", pooling="all").fit(logs)
    found = sf.evaluation.evaluate(logs, {"mostly": sf.policies.fixed([0.2, 0.8])})
    assert "9 people: rough" in found.to_html(title="Value")
    assert "9 people: rough" in audit.audit(fitted).to_html(title="Audit")
    assert "9 people: rough" in explain.explain(fitted, draws=20).coefficients.how
