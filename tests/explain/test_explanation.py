import json

import numpy as np
import pytest

import surefoot as sf
from surefoot.atomic_files import json_text
from surefoot.audit import audit
from surefoot.explain import explain
from surefoot.explain.response import find_disagreements
from tests.studies import many


@pytest.fixture(scope="module")
def opposed():
    """The effect of sending is about 1 and falls with s, but s lies around 8: the penalised policy puts that 1 on s.

    In absolute units; in standard ones the penalty looks at s from its middle.
    """
    rng = np.random.default_rng(0)
    state, action = rng.normal(8, 1, (20, 80, 1)), rng.integers(0, 2, (20, 80))
    outcome = action * (1 - 0.09 * (state[..., 0] - 8)) + rng.normal(0, 0.3, (20, 80))
    method = sf.method("accb", pooling="all", actor_penalty=0.3, penalty_units="absolute")
    return method.fit(sf.Trajectories.from_arrays(state, action, outcome))


def test_opposite_signs_of_effect_and_policy_are_said(opposed):
    found = explain(opposed)
    effect, policy = (found.coefficients.of(part, "s1", "send").interval for part in ("critic", "policy"))
    assert effect.high < 0 < policy.value
    (disagreement,) = found.disagreements
    assert (disagreement.action, disagreement.feature, disagreement.effect) == ("send", "s1", effect)
    curve = found.curves[0].probability[:, 1]
    assert (disagreement.before, disagreement.after) == (curve[0], curve[-1])
    text = found.card().markdown()
    assert "## Where policy and effect disagree" in text
    assert f"s1: one unit more of it changes the effect of send by −{-effect.value:.3f}" in text
    assert f"more likely (probability {100 * curve[0]:.0f} % → {100 * curve[-1]:.0f} %)" in text


def test_agreement_and_effects_that_may_be_zero_are_not_called_disagreement(opposed, mixed, study):
    found = explain(sf.method("saccb", pooling="all").fit(mixed), study=study)
    assert found.disagreements == ()
    assert "disagree" not in found.card().markdown()
    rows = [row for row in explain(opposed).coefficients.rows if row.part == "policy"]
    unsure = explain(opposed).coefficients.of("critic", "s1", "send")
    blurred = type(unsure)(**{**vars(unsure), "interval": unsure.interval._replace(high=0.1)})
    coefficients = type(found.coefficients)((*rows, blurred), "", {})
    assert find_disagreements(coefficients, explain(opposed).curves, ("nothing", "send")) == ()


def test_a_policy_without_coefficients_is_judged_by_what_it_does(opposed):
    """LinUCB sends always here, whatever s: nothing moves, so nothing disagrees."""
    found = explain(sf.method("linucb", pooling="all").fit(opposed.logs_))
    assert found.curves[0].probability[:, 1].min() == 1
    assert found.disagreements == ()


def test_the_card_leads_with_what_the_policy_does(mixed, study):
    fitted = sf.method("saccb", pooling="all").fit(mixed)
    found = explain(fitted, study=study)
    headings = [heading for heading, _ in found.card().sections]
    assert headings[:2] == ["What it decides", "What it does"]
    assert headings[-1] == "The coefficients behind it"
    does = dict(found.card().sections)["What it does"]
    moved = {curve.variable: 100 * curve.probability[:, 1] for curve in found.curves}
    biggest = max(moved, key=lambda name: np.ptp(moved[name]))
    assert does[2].startswith(biggest)
    location = next(sentence for sentence in does if sentence.startswith("location: "))
    other, home, work = moved["location"]
    assert location.startswith(
        f"location: probability of send other {other:.0f} %, home {home:.0f} % (+{round(home) - round(other)} points, 95 %"
    )
    assert f"work {work:.0f} % (−{round(other) - round(work)} points" in location
    assert any(sentence.startswith("temperature from 2 to 18: probability of send ") for sentence in does)
    assert "logit" not in " ".join(does)
    assert "τ" not in found.card().markdown()  # Ridge has no limit whose height could be said.


def test_yes_and_no_and_levels_are_called_so(mixed, study):
    text = explain(sf.method("saccb", pooling="all").fit(mixed), study=study).card().markdown()
    assert "weekend: yes/no; yes at 52 % of decision points" in text
    assert "location: category, compared with other; other 32 %, home 34 %, work 35 % of decision points" in text
    assert "temperature: number, scaled as (value − 10) / 5; 90 % of logged values lie from 1.598 to 18.28" in text
    assert "weekend (yes rather than no) makes send" in text
    assert "location (home rather than other) makes send" in text
    assert "5 more of temperature makes send less likely" in text


def test_the_audit_stands_on_top_and_effects_have_percent(mixed, study):
    fitted = sf.method("ro-saccb", pooling="all").fit(mixed)
    found = explain(fitted, study=study, audit=audit(fitted, study=study))
    text = found.card("Mine").markdown()
    assert text.startswith(f"# Mine\n\n**Audit of the fit: {found.audit.verdict}**\n")
    for check in found.audit.checks:
        assert (f"- {check.name}: " in text) == (check.verdict != "fine")
    effect = found.audit.effect
    assert f"about +{100 * np.expm1(effect.value):.0f} % steps (+{100 * np.expm1(effect.low):.0f} % to" in text
    page = found.to_html()
    assert page.index("The audit of the fit says") < page.index("<h2>What it decides</h2>")


@pytest.mark.parametrize(("name", "pooling"), [("ro-saccb", "all"), ("ro-accb", "person"), ("linucb", "person")])
def test_the_card_says_what_goes_into_a_protocol(name, pooling):
    logs = many(1, 10, 60, seed=4, unit=500)[0][0]
    study = sf.Study.parse(
        '[columns]\nparticipant = "participant"\ntime = "time"\n[state.weather]\nscaling = { centre = 0, scale = 5 }\n'
        "[state.engagement]\n[state.fatigue]\n[probability_limits]\nminimum = 0.1\nmaximum = 0.9\n"
        f'[method]\nname = "{name}"\npooling = "{pooling}"\n[outcome]\ntransform = "sqrt"\n'
    )
    found = explain(sf.method(name, pooling=pooling).fit(logs), draws=20, study=study)
    text = found.card("Card_1").markdown()
    assert text.startswith("# Card_1\n")
    for part in ("one of nothing, send", "kept between 0.1 and 0.9", f"Method {name}", "10 people, 600 of 600", "as sqrt"):
        assert part in text
    if name != "linucb":
        assert found.coefficients.of("policy", "engagement", "send").interval.value > 0
        assert "1 more of engagement makes send more likely" in text
        assert "5 more of weather makes send" in text
    else:
        assert "does not randomise" in text
    assert json.loads(json_text(found.to_dict()))["send_rate"] == found.send_rate


def test_an_explanation_shows_itself_on_a_screen_and_in_a_notebook(mixed, study, tmp_path):
    found = explain(sf.method("saccb", pooling="all").fit(mixed), study=study)
    assert repr(found).startswith("Explanation of saccb: 30 people\nsends at  ")
    summary = found.summary()
    assert repr(summary) == str(summary)
    assert max(map(len, summary.splitlines())) <= 80
    assert "All coefficients" in summary
    page = found.to_html(tmp_path / "card.html", title="Mine")
    assert (tmp_path / "card.html").read_text() == page
    assert found._repr_html_().startswith("<div><b>Explanation of saccb: 30 people</b>")
    assert "Explanation" in dir(sf.explain)
    assert not {"np", "dataclass", "Any", "Method"} & set(dir(sf.explain))
