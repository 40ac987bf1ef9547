"""`surefoot demo --raw`, `link init` and `link`: from raw files to an effect that is known."""

import json

import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import surefoot as sf
from surefoot.cli import app
from surefoot.datasets import demo_raw
from surefoot.linking import LinkPlan
from surefoot.linking.draft import draft_plan


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("team") / "raw"
    run("demo", "--raw", "--seed", 1, "--folder", folder)
    files = [folder / name for name in ("decisions.csv", "steps.csv", "survey.csv")]
    run("link", "init", files[0], "--stream", files[1], "--stream", files[2], "--out", folder / "link.toml")
    return folder


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def test_the_plan_recognises_columns_minutes_and_the_platform(raw):
    plan = LinkPlan.load(raw / "link.toml")
    assert plan.decisions.zone_column == "zone"
    assert (plan.streams["steps"].row_minutes, plan.streams["steps"].worn) == (1, "worn")
    assert (plan.streams["survey"].row_minutes, plan.streams["survey"].profile) == (None, "qualtrics")
    assert list(plan.features) == ["steps_before", "mood_last", "steps_after"]


def test_intervals_are_recognised_by_their_ends_though_they_begin_regularly(tmp_path):
    (tmp_path / "decisions.csv").write_text("participant,time\na,2026-03-02T08:30:00Z\n")
    rows = [f"a,2026-03-02T08:{minute}:00Z,2026-03-02T08:{minute + 9}:00Z,{minute}" for minute in (10, 20, 25, 40)]
    (tmp_path / "walks.csv").write_text("\n".join(["participant;start_time;end_time;steps", *rows]).replace(",", ";"))
    plan = draft_plan(tmp_path / "decisions.csv", [tmp_path / "walks.csv"]).text
    section = LinkPlan.parse(plan).streams["walks"]
    assert (section.ends, section.row_minutes) == ("end_time", None)
    table = sf.linking.link(tmp_path / "decisions.csv", plan=LinkPlan.parse(plan)).table
    assert table.select(["steps_before", "steps_after"]).to_pylist() == [{"steps_before": 30.0, "steps_after": 40.0}]


def test_raw_files_give_the_effect_that_was_simulated(raw):
    logs = raw / "logs.parquet"
    study = raw / "study.toml"
    arguments = ("--plan", raw / "link.toml", "--out", logs, "--study", study, "--html", raw / "link.html", "--json")
    printed = json.loads(run("link", raw / "decisions.csv", *arguments).stdout)
    steps = next(stream for stream in printed["streams"] if stream["name"] == "steps")
    assert steps["rows"] == steps["used"] + sum(steps["left_out"].values())
    assert steps["left_out"].keys() == {"repeats a row"}
    text = study.read_text(encoding="utf-8")
    # Nothing about windows after the decision is proposed as a state.
    assert set(sf.Study.parse(text).state) == {"steps_before", "mood_last"}
    effects = json.loads(run("effects", logs, "--study", study, "--json").stdout)["effects"][0]
    table = parquet.read_table(logs)
    rows = zip(*(table[name].to_pylist() for name in ("available", "sent", "steps_after")), strict=True)
    untreated = [steps for available, sent, steps in rows if available and not sent and steps is not None]
    increase = (demo_raw.RATIO - 1) * sum(untreated) / len(untreated)
    assert effects["low"] < increase < effects["high"]
    assert effects["low"] > 0


def test_mistakes_leave_nothing_behind(raw, tmp_path):
    out = tmp_path / "logs.parquet"
    plan = tmp_path / "link.toml"
    text = (raw / "link.toml").read_text(encoding="utf-8")
    plan.write_text(text.replace('column = "mood"', 'column = "moood"'), encoding="utf-8")
    streams = ("--stream", raw / "steps.csv", "--stream", f"survey={raw / 'survey.csv'}")
    with pytest.raises(sf.InputError, match=r"no column 'moood' \(did you mean 'mood'\?\)"):
        run("link", raw / "decisions.csv", *streams, "--plan", plan, "--out", out)
    plan.write_text(text.replace("minutes = 60", "minutes = 60\nuntil = '20:00'"), encoding="utf-8")
    with pytest.raises(sf.InputError, match=r"line \d+, key 'states.steps_before.until': unknown key"):
        run("link", raw / "decisions.csv", *streams, "--plan", plan, "--out", out)
    assert not out.exists()
    with pytest.raises(sf.InputError, match="already there"):
        run("link", "init", raw / "decisions.csv", "--stream", raw / "steps.csv", "--out", plan)
