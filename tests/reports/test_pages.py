"""The pages of audit, explain and evaluate in a real browser, at desktop and telephone width."""

import pytest

import surefoot as sf
from surefoot import audit, evaluation, explain
from surefoot.audit import page as audit_report
from surefoot.evaluation import page as off_policy_report
from surefoot.explain import page as explain_report
from surefoot.explain.policy_card import make_card
from tests.browser import CHROMIUM, WHY_NOT, Browser

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)
NASTY = "<script>console.error('x')</script> & \"friends\""


def pages():
    """Every kind of page, with a name that would run if it were not escaped."""
    logs = sf.simulators.HeartSteps(participants=12).collect(sf.policies.coin(2), decision_points=80, seed=0)
    pooled = explain.explain(sf.method("ro-saccb", pooling="all").fit(logs))
    linear = explain.explain(sf.method("linucb").fit(logs), draws=20)
    found = evaluation.evaluate(logs, {NASTY: sf.policies.fixed([0.3, 0.7])})
    return {
        "audit": audit_report.render_page(audit.audit(sf.method("ro-accb").fit(logs)), title=NASTY, source=NASTY),
        "audit-ridge": audit_report.render_page(audit.audit(sf.method("accb").fit(logs)), title=NASTY),
        "explain": explain_report.render_page(pooled, make_card(pooled, title=NASTY, method=NASTY)),
        "explain-linucb": explain_report.render_page(linear, make_card(linear)),
        "evaluate": off_policy_report.render_page(found, title=NASTY, unit=NASTY),
    }


CHARTS = {"audit": 5, "audit-ridge": 3, "explain": 7, "explain-linucb": 6, "evaluate": 3}
SIZES = """[...document.querySelectorAll('figure svg')].map(svg => {
  const box = svg.getBoundingClientRect(); return [box.width, box.height, svg.querySelectorAll('path').length] })"""


@needs_chromium
def test_pages_ask_for_nothing_say_nothing_and_show_their_charts(tmp_path):
    with Browser() as browser:
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


@needs_chromium
def test_the_browser_would_notice(tmp_path):
    """What the test above rests on: a request and an error on a page are seen."""
    path = tmp_path / "bad.html"
    path.write_text("<img src='http://127.0.0.1:9/x.png'><script>console.error('no'); null.x</script>", encoding="utf-8")
    with Browser() as browser:
        asked, said = browser.visit(path)
    assert "http://127.0.0.1:9/x.png" in asked
    assert {event["method"] for event in said} >= {"Runtime.consoleAPICalled", "Runtime.exceptionThrown"}


def test_a_page_is_the_same_bytes_again_and_names_no_other_host():
    logs = sf.simulators.HeartSteps(participants=5).collect(sf.policies.coin(2), decision_points=40, seed=0)
    first, second = (evaluation.evaluate(logs, {"coin": sf.policies.coin(2)}) for _ in range(2))
    pages = [off_policy_report.render_page(found, title="Value", unit="steps") for found in (first, second)]
    assert pages[0] == pages[1]
    assert "<script" not in pages[0]
    assert "http" not in pages[0].replace("http://www.w3.org/", "")
