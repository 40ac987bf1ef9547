"""The audit of whole studies with known faults, and its result as line, text, page and tables."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from rich.console import Console

import surefoot as sf
from surefoot.atomic_files import json_text
from surefoot.audit import audit
from surefoot.audit.measures import Measures
from surefoot.inference.intervals import Interval
from surefoot.log_checks import find_worst
from surefoot.numerics import arrays
from surefoot.screening.screen import VERDICTS

HEARTSTEPS_V1 = Path(__file__).parents[3] / "shared" / "heartsteps_v1" / "suggestions.csv"


def simulated(kind=sf.simulators.HeartSteps, seed=0, people=50, points=210):
    return kind(participants=people).collect(sf.policies.coin(2), decision_points=points, seed=seed)


def unfine(found):
    return {check.name: check.verdict for check in found.checks if check.verdict != "fine"}


@pytest.mark.parametrize("pooling", ["person", "all"])
@pytest.mark.parametrize("seed", [0, 100])
def test_prompted_outliers_are_found_and_the_fit_is_fine(pooling, seed):
    made = sf.simulators.contaminate(simulated(seed=seed), mechanism="prompted", ratio=0.04, strength=5, seed=seed + 1)
    fitted = sf.method("ro-accb", pooling=pooling).fit(made.logs)
    found = audit(fitted)
    assert (fitted.weights_[made.touched] == 0).mean() > 0.8
    assert found.verdict == "fine", unfine(found)
    # It is not blind to where they are: nearly all of what stands apart follows a prompt, and it says so.
    action = found.check("depends on action")
    assert action.numbers["all"]["low"] > 0.05
    assert "read through the removed decision points once" in action.reason


@pytest.mark.parametrize("kind", [sf.simulators.HeartSteps, sf.simulators.ChainWalk])
@pytest.mark.parametrize("method", ["ro-accb", "ro-linucb", "accb"])
def test_clean_data_are_never_unsafe(kind, method):
    assert audit(sf.method(method).fit(simulated(kind, seed=3))).verdict != "unsafe"


def test_small_clean_studies_do_not_cry_wolf():
    for seed in range(20):
        found = audit(sf.method("ro-saccb").fit(simulated(seed=seed, people=15, points=60)))
        assert found.verdict != "unsafe"
        assert len(unfine(found)) <= 2, unfine(found)


def remade(outcome, seed=0):
    """HeartSteps states and actions of 30 people with another outcome, a function of (action, rng, shape)."""
    logs = simulated(seed=seed, people=30, points=120)
    rng = np.random.default_rng(seed)
    return logs.with_values(outcome=outcome(logs.action, rng, logs.outcome.shape))


def test_a_skewed_reward_being_cut_is_unsafe_and_its_logarithm_is_not():
    def steps(action, rng, shape):
        return np.exp(4 + 0.3 * action + 1.2 * rng.standard_normal(shape))

    raw = remade(steps)
    found = audit(sf.method("ro-accb").fit(raw))
    assert found.verdict == "unsafe"
    check = found.check("outcome removed")
    assert check.verdict == "unsafe"
    assert "of the total outcome, nearly all above the fit" in check.reason
    assert "try log(x + 0." in check.remedy
    after = audit(sf.method("ro-accb").fit(raw.with_values(outcome=np.log(raw.outcome))), raw_outcome=raw.outcome)
    assert after.verdict == "fine", unfine(after)


def test_heavy_but_symmetric_tails_are_not_unsafe():
    found = audit(sf.method("ro-accb").fit(remade(lambda action, rng, shape: action + rng.standard_t(3, shape))))
    assert found.verdict != "unsafe"


def test_removal_near_the_cap_that_depends_on_the_action_is_seen():
    """Sending makes the outcome more variable: ordinary responses to sending are cut more often."""
    found = audit(sf.method("ro-accb").fit(remade(lambda action, rng, shape: (1 + action) * rng.standard_normal(shape))))
    check = found.check("depends on action")
    assert check.verdict == "unsafe"
    assert check.numbers["near"]["low"] > 0.05
    assert "treatment effect itself" in check.remedy


def test_removal_that_depends_on_time_or_person_is_seen():
    logs = simulated(people=30, points=120)
    place, rng = logs.time / 120, np.random.default_rng(0)
    noise = rng.standard_normal(len(logs))
    late = audit(sf.method("ro-accb").fit(logs.with_values(outcome=(1 + 1.5 * (place > 0.7)) * noise)))
    assert late.check("depends on time").verdict == "unsafe"
    loud = audit(
        sf.method("ro-accb", pooling="all").fit(logs.with_values(outcome=(1 + 4 * (logs.participant_index == 7)) * noise))
    )
    check = loud.check("depends on participant")
    assert check.verdict == "look"
    assert "by participant 7" in check.reason


def test_an_effect_that_hangs_on_the_cap_is_seen():
    """Sending works by rare long walks: with the cap a little higher the effect is another."""

    def bouts(action, rng, shape):
        return rng.standard_normal(shape) + action * (rng.random(shape) < 0.15) * rng.uniform(1.5, 6, shape)

    assert audit(sf.method("ro-accb", pooling="all").fit(remade(bouts))).verdict in ("look", "unsafe")


def test_missing_values_are_counted_by_column_and_person():
    logs = simulated(people=10, points=40)
    state, outcome = logs.state.copy(), logs.outcome.copy()
    state[logs.participant_index == 3, 1] = np.nan
    outcome[(logs.participant_index == 4) & (logs.time < 10)] = np.nan
    with pytest.warns(sf.FitWarning):
        fitted = sf.method("ro-accb").fit(logs.with_values(state=state, outcome=outcome))
    found = audit(fitted, implausible={"engagement": np.eye(10, dtype=int)[3] * 40})
    assert found.check("missing values").verdict == "look"
    assert "1 of 10 people have no usable decision point" in found.check("missing values").reason
    table = found.people("pandas").set_index("participant")
    assert table["missing engagement"].tolist() == [0, 0, 0, 40, 0, 0, 0, 0, 0, 0]
    assert table["missing outcome"].tolist() == [0, 0, 0, 0, 10, 0, 0, 0, 0, 0]
    assert table["implausible engagement"][3] == 40
    assert table["used"].tolist() == [40, 40, 40, 0, 30, 40, 40, 40, 40, 40]
    assert (table["removed_above"] + table["removed_below"] == table["removed"]).all()
    assert found.totals()["removed"] == (fitted.weights_ == 0).sum() == len(found.removed())


def test_a_fit_without_a_cap_and_one_person_alone_can_be_audited():
    found = audit(sf.method("accb").fit(simulated(people=5, points=60)))
    assert "ridge has no limit" in found.check("depends on tau").reason
    alone = audit(sf.method("ro-accb").fit(simulated(people=1, points=60)))
    assert json.loads(json_text(alone.to_dict()))["verdict"] in VERDICTS
    pooled = audit(sf.method("ro-accb", pooling="all").fit(simulated(people=1, points=60)))
    assert json.loads(json_text(pooled.to_dict()))["sensitivity"][-1]["tau"] is None
    assert find_worst(["fine", "unsafe", "look"]) == "unsafe"


@pytest.mark.parametrize(
    ("name", "said", "unsaid"),
    [
        ("accb", "ridge has no limit: all 1,000 decision points count", ("the cap", "the fences", "removal", "raise tau")),
        ("ro-accb", "the cap removes", ("fences",)),
        ("hb-accb", "the fences remove", ("the cap removes", "the cap cuts", "without the cap", "by the cap")),
    ],
)
def test_every_critic_is_spoken_of_as_what_it_is(name, said, unsaid):
    """Only the paper's critic has a cap; ridge removes nothing, so nothing is said about what was removed."""
    found = audit(sf.method(name).fit(simulated(people=10, points=100)))
    everything = " ".join([found.summary(), found.to_html(), *(check.reason + check.remedy for check in found.checks)])
    assert said in " ".join(everything.split())
    for words in unsaid:
        assert words not in everything, words


def describe_study(outcome=""):
    """The HeartSteps simulator's states, fatigue in units of 2 around 1."""
    return sf.Study.parse(
        '[columns]\nparticipant = "participant"\ntime = "time"\n[state.weather]\n[state.engagement]\n[state.fatigue]\n'
        f'scaling = {{ centre = 1.0, scale = 2.0 }}\n[outcome]\ncolumn = "steps"\n{outcome}\n'
    )


def test_columns_that_give_the_action_away_and_lonely_codes_are_seen():
    logs = simulated(people=10, points=60)
    assert audit(sf.method("ro-accb").fit(logs)).check("suspect columns").verdict == "fine"
    state = logs.state.copy()
    state[::7, 2] = -50.0  # −99 before it was scaled as (value − 1) / 2
    coded = audit(sf.method("ro-accb").fit(logs.with_values(state=state)), study=describe_study()).check("suspect columns")
    assert coded.verdict == "look"
    assert coded.reason == "state variable 'fatigue' holds -99 again and again, apart from all other values"
    assert "missing = [-99]" in coded.remedy
    outcomes = audit(sf.method("accb").fit(logs.with_values(outcome=np.where(logs.time % 9 == 0, -9999.0, logs.outcome))))
    assert "outcome 'outcome' holds -9999 again and again" in outcomes.check("suspect columns").reason
    leaked = logs.with_values(state=np.column_stack([logs.state[:, :2], logs.action + 0.01 * logs.state[:, 2]]))
    found = audit(sf.method("accb", pooling="all").fit(leaked))
    assert found.check("leaks").verdict == found.verdict == "unsafe"
    assert "'fatigue' says which action was taken" in found.check("leaks").reason


def test_a_log_reward_has_its_effect_in_percent_too():
    logs = simulated(people=20, points=60)
    log = logs.with_values(outcome=np.random.default_rng(0).normal(0.06 * logs.action, 0.05))
    found = audit(sf.method("accb", pooling="all").fit(log), study=describe_study('transform = "log(x + 0.5)"'))
    low, value, high = (100 * (np.exp(part) - 1) for part in (found.effect.low, found.effect.value, found.effect.high))
    assert found.check("depends on tau").reason.endswith(f"about +{value:.1f} % steps (+{low:.1f} % to +{high:.1f} %)")
    plain = audit(sf.method("accb", pooling="all").fit(log), study=describe_study())
    assert "% steps" not in plain.check("depends on tau").reason


def test_removed_decision_points_are_named_as_logged_and_as_fitted():
    logs = simulated(people=5, points=60)
    steps = np.exp(logs.outcome / 500)
    log = logs.with_values(outcome=np.log(steps + 0.5))
    found = audit(sf.method("ro-accb").fit(log), raw_outcome=steps, study=describe_study('transform = "log(x + 0.5)"'))
    table = found.removed("pandas")
    assert list(table.columns)[2:5] == ["action", "steps", "log(steps + 0.5)"]
    assert set(table["action"]) <= {"nothing", "send"}
    np.testing.assert_allclose(np.log(table["steps"] + 0.5), table["log(steps + 0.5)"])
    np.testing.assert_allclose(table["expected"] + table["residual"], table["log(steps + 0.5)"])


def test_a_result_shows_itself_on_a_screen_and_in_a_notebook(tmp_path):
    found = audit(sf.method("ro-accb").fit(simulated(people=10, points=100)))
    assert repr(found).startswith("Audit of a fit: fine\ncounts       10 people")
    summary = found.summary()
    assert repr(summary) == str(summary)
    assert summary.splitlines()[-1] == "Verdict: fine"
    assert max(map(len, summary.splitlines())) <= 80
    page = found.to_html(tmp_path / "audit.html", title="Mine")
    assert (tmp_path / "audit.html").read_text() == page
    assert "<h1>Mine</h1>" in page
    assert found._repr_html_().startswith("<div><b>Audit of a fit: fine</b>")
    assert dir(sf.audit) == ["Audit", "Check", "Sensitivity", "audit"]


def test_a_pooled_fit_that_rests_on_one_of_two_people_can_be_audited():
    logs = simulated(people=2, points=60)
    alone = logs.with_values(outcome=np.where(logs.participant_index == 1, np.nan, logs.outcome))
    found = audit(sf.method("ro-accb", pooling="all").fit(alone))
    assert "1 of 2 people have no usable decision point" in found.check("missing values").reason


def test_what_does_not_fit_the_logs_is_refused():
    fitted = sf.method("ro-accb").fit(simulated(people=5, points=60))
    with pytest.raises(sf.InputError, match=r"raw_outcome has shape \(3,\); the logs have 300 rows"):
        audit(fitted, raw_outcome=np.ones(3))
    with pytest.raises(sf.InputError, match=r"implausible\['x'\] has shape"):
        audit(fitted, implausible={"x": np.zeros(4, dtype=int)})
    empty = simulated(people=3, points=20)
    with pytest.warns(sf.FitWarning):
        nothing = sf.method("ro-accb").fit_some(empty.with_values(outcome=np.full(len(empty), np.nan)))
    with pytest.raises(sf.InputError, match="no fit to audit"):
        audit(nothing)


@pytest.mark.skipif(not HEARTSTEPS_V1.exists(), reason=f"needs the HeartSteps V1 data, {HEARTSTEPS_V1}")
@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
@pytest.mark.parametrize("pooling", ["person", "all"])
def test_on_heartsteps_v1_raw_steps_are_unsafe_and_their_logarithm_is_not(pooling):
    logs = sf.datasets.heartsteps_v1(HEARTSTEPS_V1).logs
    steps, method = logs.outcome, sf.method("ro-accb", pooling=pooling)
    raw = audit(method.fit(logs), raw_outcome=steps)
    assert raw.verdict == "unsafe"
    reasons = {check.name: check.reason for check in raw.checks if check.verdict == "unsafe"}
    assert set(reasons) >= {"skewness", "outcome removed"}
    assert "nearly all above the fit" in reasons["outcome removed"]
    assert raw.check("outcome removed").numbers["share"] > 0.5
    assert raw.check("outcome removed").remedy.startswith("the outcome is skewed; try log(x + 0.5)")
    log = audit(method.fit(logs.with_values(outcome=np.log(steps + 0.5))), raw_outcome=steps)
    assert log.verdict == "look"
    assert log.check("outcome removed").verdict == log.check("skewness").verdict == "fine"
    assert log.check("outcome removed").numbers["share"] < 0.2


def test_a_high_breakdown_fit_is_compared_with_the_papers_cap():
    made = sf.simulators.contaminate(simulated(), mechanism="prompted", ratio=0.04, strength=5, seed=1)
    fitted, capped = sf.method("hb-accb").fit(made.logs), sf.method("ro-accb").fit(made.logs)
    found = audit(fitted)
    assert found.verdict != "unsafe", unfine(found)
    beside = found.check("against the paper's cap").numbers
    assert beside["share"] == pytest.approx((fitted.weights_ == 0).mean())
    assert beside["share_of_the_cap"] == pytest.approx((capped.weights_ == 0).mean())
    assert beside["outcome_of_the_cap"] == pytest.approx(audit(capped).check("outcome removed").numbers["share"])
    assert len(found.sensitivity) > 3


@pytest.mark.skipif(not HEARTSTEPS_V1.exists(), reason=f"needs the HeartSteps V1 data, {HEARTSTEPS_V1}")
@pytest.mark.filterwarnings("ignore::surefoot.errors.FitWarning")
def test_on_heartsteps_v1_high_breakdown_keeps_the_steps_that_the_cap_throws_away():
    logs = sf.datasets.heartsteps_v1(HEARTSTEPS_V1).logs
    beside = audit(sf.method("hb-accb").fit(logs)).check("against the paper's cap").numbers
    assert beside["outcome"] < 0.05
    assert beside["outcome_of_the_cap"] > 0.4


STUDY = '[columns]\nparticipant = "participant"\ntime = "time"\n[state.s1]\n[outcome]\ntransform = "log(x + 1)"\n'


def make_logs(outcome=None, people=4, points=50):
    rng = np.random.default_rng(0)
    state, action = rng.standard_normal((people, points, 1)), rng.integers(0, 2, (people, points))
    if outcome is None:
        outcome = 1 + state[..., 0] + 0.5 * action + 0.2 * rng.standard_normal((people, points))
        outcome[0, :3] += 50
    return sf.Trajectories.from_arrays(state, action, outcome, probability=np.full((people, points), 0.5))


@pytest.fixture(scope="module")
def found():
    return audit(sf.method("ro-accb").fit(make_logs()))


def test_those_who_lost_most_and_what_lies_furthest_come_first(found):
    people = found.people("pyarrow").to_pylist()
    people.sort(key=lambda row: -row["removed"] / max(row["used"], 1))
    assert found.list_most_removed(3) == people[:3]
    removed = found.removed("pyarrow").to_pylist()
    removed.sort(key=lambda row: -abs(row["residual"]))
    assert found.removed("pyarrow", most=2).to_pylist() == removed[:2]


@pytest.mark.parametrize("pooling", ["person", "all"])
def test_blocks_of_rows_change_nothing(pooling, monkeypatch):
    fitted = sf.method("ro-accb", pooling=pooling).fit(make_logs(people=6))
    whole = Measures.of(fitted).sensitivity()
    monkeypatch.setattr(arrays, "BLOCK_ROWS", 7)
    for one, other in zip(Measures.of(fitted).sensitivity(), whole, strict=True):
        assert_allclose(
            [*one.effect, one.removed, one.send_rate], [*other.effect, other.removed, other.send_rate], rtol=1e-9
        )


def test_an_overview_says_what_to_look_at(found):
    lines = repr(found).splitlines()
    assert lines[0] == f"Audit of a fit: {found.verdict}"
    removed = int((found.measures.fitted.weights_ == 0).sum())
    assert removed >= 3 and f"{removed} removed" in " ".join(lines)
    for check in found.checks:
        assert any(re.match(rf"{check.name} +{check.verdict} ", line) for line in lines) == (check.verdict != "fine")


def test_nothing_to_look_at_is_said():
    clean = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=100, seed=0)
    assert "verdict  reason" not in repr(audit(sf.method("accb").fit(clean)))


def test_the_summary_is_what_a_console_prints(found):
    console = Console(file=io.StringIO(), width=80, color_system=None)
    found.print_summary(console)
    printed = "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())
    assert str(found.summary()) == printed
    for check in found.checks:
        assert check.name in printed


def test_checks_are_a_table_too(found):
    table = found.to_frame("pyarrow").to_pydict()
    assert table["name"] == [check.name for check in found.checks]
    assert table["verdict"] == [check.verdict for check in found.checks]


def test_the_page_has_title_and_source(found, tmp_path):
    page = found.to_html(tmp_path / "audit.html", title="My audit", source="from the pilot")
    assert "<title>My audit" in page and "from the pilot" in page
    assert (tmp_path / "audit.html").read_text(encoding="utf-8") == page
    assert "<title>Audit" in found.to_html()


def test_totals_count_over_people(found):
    totals, rows = found.totals(), found.people("pyarrow").to_pylist()
    assert totals["people"] == 4
    for name in ("decision_points", "available", "used", "removed", "removed_above", "removed_below", "missing s1"):
        assert totals[name] == sum(row[name] for row in rows), name
    assert totals["removed_above"] + totals["removed_below"] == totals["removed"]
    assert totals["removed_above"] >= 3
    assert set(totals) == {*(name for name in rows[0] if name not in ("participant", "mean_removed_residual")), "people"}
    fitted = found.measures.fitted
    own = (fitted.weights_ == 0) & (fitted.logs_.participant_index == 0)
    assert_allclose(rows[0]["mean_removed_residual"], np.abs(fitted.residuals_[own]).mean())


def test_removed_decision_points_come_with_what_was_expected(found):
    fitted, logs = found.measures.fitted, found.measures.fitted.logs_
    table = found.removed("pyarrow").to_pydict()
    out = [row for row in logs.order if fitted.weights_[row] == 0]
    assert list(table) == ["participant", "time", "action", "outcome", "expected", "residual", "limit"]
    assert table["action"] == [logs.action_names[logs.action[row]] for row in out]
    assert_allclose(table["outcome"], logs.outcome[out])
    assert_allclose(np.add(table["expected"], table["residual"]), logs.outcome[out])
    assert_allclose(table["limit"], np.sqrt(fitted.threshold_[logs.participant_index[out]]))
    assert table["participant"] == logs.participant[out].tolist() and table["time"] == logs.time[out].tolist()


def test_everything_goes_into_json(found):
    plain = found.to_dict()
    assert list(plain) == ["verdict", "left_out", "totals", "checks", "sensitivity", "people"]
    assert plain["checks"][0] == {
        "name": found.checks[0].name,
        "verdict": found.checks[0].verdict,
        "reason": found.checks[0].reason,
        "remedy": found.checks[0].remedy,
        "numbers": found.checks[0].numbers,
    }
    assert plain["sensitivity"][0]["effect"] == found.sensitivity[0].effect._asdict()
    assert plain["sensitivity"][0]["tau"] == found.sensitivity[0].tau


@pytest.mark.parametrize(
    ("study", "told"),
    [
        (None, "mean effect of sending 0.20 (95 % interval 0.10 to 0.30)"),
        (STUDY, "mean effect of sending 0.20 (95 % interval 0.10 to 0.30), about +22 % outcome (+11 % to +35 %)"),
    ],
)
def test_an_effect_is_also_said_in_percent_where_the_reward_is_a_logarithm(study, told):
    fitted = sf.method("accb").fit(make_logs(np.abs(make_logs().outcome.reshape(4, 50))))
    measures = Measures.of(fitted, study=None if study is None else sf.Study.parse(study))
    assert measures.describe_effect(Interval(0.2, 0.05, 0.1, 0.3)) == told
