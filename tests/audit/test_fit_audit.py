"""How an audit shows itself: in a line, in a terminal, on a page; and what it hands on."""

import io

import numpy as np
import pytest
from numpy.testing import assert_allclose
from rich.console import Console

import surefoot as sf
from surefoot.audit import audit
from surefoot.audit.checks import describe_effect
from surefoot.audit.measures import Measures, Sensitivity
from surefoot.audit.summary import print_audit
from surefoot.inference.intervals import Interval
from surefoot.numerics import arrays

STUDY = '[columns]\nparticipant = "participant"\ntime = "time"\n[state.s1]\n[reward]\ntransform = "log(x + 1)"\n'


def make_logs(reward=None, people=4, points=50):
    rng = np.random.default_rng(0)
    state, action = rng.standard_normal((people, points, 1)), rng.integers(0, 2, (people, points))
    if reward is None:
        reward = 1 + state[..., 0] + 0.5 * action + 0.2 * rng.standard_normal((people, points))
        reward[0, :3] += 50
    return sf.Trajectories.from_arrays(state, action, reward, probability=np.full((people, points), 0.5))


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


def test_a_line_says_what_to_look_at(found):
    unfine = [f"{check.name} ({check.verdict})" for check in found.checks if check.verdict != "fine"]
    removed = int((found.measures.fitted.weights_ == 0).sum())
    assert repr(found) == (
        f"<Audit: {found.verdict}; 4 people, 200 decision points used, {removed} removed; "
        f"{', '.join(unfine) or 'nothing to look at'}>"
    )
    assert removed >= 3


def test_nothing_to_look_at_is_said():
    clean = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=100, seed=0)
    assert repr(audit(sf.method("accb").fit(clean))).endswith("; nothing to look at>")


def test_the_summary_is_what_a_console_prints(found):
    console = Console(file=io.StringIO(), width=80, color_system=None)
    print_audit(found, console)
    printed = "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())
    assert str(found.summary()) == printed
    own = Console(file=io.StringIO(), width=80, color_system=None)
    found.print_summary(own)
    assert own.file.getvalue() == console.file.getvalue()
    for check in found.checks:
        assert check.name in printed


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
    assert list(table) == ["participant", "time", "action", "reward", "expected", "residual", "limit"]
    assert table["action"] == [logs.action_names[logs.action[row]] for row in out]
    assert_allclose(table["reward"], logs.reward[out])
    assert_allclose(np.add(table["expected"], table["residual"]), logs.reward[out])
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
        (STUDY, "mean effect of sending 0.20 (95 % interval 0.10 to 0.30), about +22 % reward (+11 % to +35 %)"),
    ],
)
def test_an_effect_is_also_said_in_percent_where_the_reward_is_a_logarithm(study, told):
    fitted = sf.method("accb").fit(make_logs(np.abs(make_logs().reward.reshape(4, 50))))
    measures = Measures.of(fitted, study=None if study is None else sf.Study.parse(study))
    assert describe_effect(measures, Sensitivity(1.0, 0.0, Interval(0.2, 0.05, 0.1, 0.3), 0.5)) == told
