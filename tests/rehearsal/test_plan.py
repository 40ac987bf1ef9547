"""`rehearsal.toml`."""

from pathlib import Path

import pytest

import surefoot as sf
from surefoot.rehearsal.plan import RehearsalPlan
from surefoot.rehearsal.rehearsal import make_manifest

STUDY = sf.Study.parse(
    '[columns]\nparticipant = "participant"\ntime = "time"\n[state.mood]\n[method]\nname = "saccb"\npooling = "all"\n'
    "[method.parameters]\nactor_penalty = 0.1"
)


def test_without_a_plan_there_are_defaults():
    plan = RehearsalPlan()
    assert [one.name for one in plan.list_candidates(STUDY)] == ["coin", "never", "always", "saccb"]
    assert titles(plan.list_environments(has_pilot=False)) == ["no effect", "effect 0.2", "effect 0.2, costs later"]
    assert titles(plan.list_environments(has_pilot=True)) == ["no effect", "the pilot's effect"]


def test_where_the_pilot_cannot_tell_the_range_is_rehearsed():
    names = titles(RehearsalPlan().list_environments(has_pilot=True, is_unclear=True))
    later = ("", ", nothing later", ", least later", ", most later")
    assert names == ["no effect", *(f"the pilot's effect{words}" for words in later)]


def titles(environments):
    return [environment.title for environment in environments]


def test_candidates_are_methods_with_the_studys_pooling_or_as_they_are_written():
    plan = RehearsalPlan.parse(
        'methods = ["saccb", "ro-accb"]\nprobabilities = [0.3]\n'
        '[[candidate]]\nlabel = "mine"\nname = "ts"\npooling = "person"'
    )
    found = {one.name: one for one in plan.list_candidates(STUDY)}
    assert list(found) == ["coin", "never", "always", "fixed 0.3", "saccb", "ro-accb", "mine"]
    assert found["saccb"].study is STUDY
    assert found["ro-accb"].study.pooling == "all"
    assert (found["mine"].study.method_name, found["mine"].study.pooling) == ("ts", "person")
    assert found["fixed 0.3"].send == 0.3


def test_the_plan_of_the_docs_is_one():
    page = (Path(__file__).parents[2] / "docs" / "rehearsal.md").read_text(encoding="utf-8")
    plan = RehearsalPlan.parse(page.split('title="rehearsal.toml"\n')[1].split("```")[0])
    assert [one.name for one in plan.list_candidates(STUDY)][3:] == ["fixed 0.3", "saccb", "hb-ahead", "generous"]
    assert len(plan.list_environments(has_pilot=True)) == 3
    written = {name for name in RehearsalPlan.model_fields if name in plan.model_fields_set}
    assert written == set(RehearsalPlan.model_fields)


def test_effects_combine():
    plan = RehearsalPlan.parse(
        "[[environment]]\neffect = 0.3\npeople_differ = 0.5\nhalf_life = 14\nburden = { baseline = 0.05 }\n"
        '[[environment]]\nname = "as in the pilot"\npilot = true\nhalf_life = 7'
    )
    null, made, pilot = plan.list_environments(has_pilot=True)
    assert (null.is_null, made.is_null, pilot.is_null) == (True, False, False)
    assert made.title == "effect 0.3, people differ, fading, burden"
    assert made.burden.baseline == 0.05
    assert (pilot.title, pilot.half_life) == ("as in the pilot", 7)
    assert (pilot.is_drawn, made.is_drawn) == (True, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "trails = 20",
            "rehearsal.toml: line 1, key 'trails': unknown key (did you mean 'trials'?); valid here are trials, ",
        ),
        ("[design]\nday = 3", "line 2, key 'design.day': unknown key (did you mean 'days'?)"),
        ("[[environment]]\nefect = 0.3", "key 'environment.efect': unknown key (did you mean 'effect'?)"),
        ("trials = 1", "line 1, key 'trials': must be greater than or equal to 2; got 1"),
        ("[[environment]]\nhalf_life = 3", "an environment has either effect = 0.2 (standard deviations), pilot = true or"),
        ("trials = ten", 'line 1: text needs quotes; write trials = "ten"'),
    ],
)
def test_mistakes_name_the_line_and_the_key(text, message):
    with pytest.raises(sf.InputError) as error:
        RehearsalPlan.parse(text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('methods = ["sacb"]', "there is no method 'sacb' (did you mean 'saccb'?)"),
        ('methods = ["saccb", "saccb"]', "two candidates are called 'saccb'"),
        ('[[candidate]]\nname = "saccb"\nparameters = { tua = 1.0 }', "there is no parameter 'tua'"),
    ],
)
def test_wrong_candidates_are_refused(text, message):
    with pytest.raises(sf.InputError) as error:
        RehearsalPlan.parse(text).list_candidates(STUDY)
    assert message in str(error.value)


def test_a_pilots_effect_needs_a_pilot():
    with pytest.raises(sf.InputError, match="needs a pilot; write effect"):
        RehearsalPlan.parse("[[environment]]\npilot = true").list_environments(has_pilot=False)
    with pytest.raises(sf.InputError, match=r"two environments are called 'effect 0\.2'"):
        RehearsalPlan.parse("[[environment]]\neffect = 0.2\n[[environment]]\neffect = 0.2").list_environments(
            has_pilot=False
        )


def test_the_key_depends_on_all_but_the_number_of_trials():
    plan = RehearsalPlan()
    key = make_manifest(STUDY, plan, [])["key"]
    assert make_manifest(STUDY, plan.with_trials(7), [])["key"] == key
    assert make_manifest(STUDY, plan.model_copy(update={"seed": 3}), [])["key"] != key
    assert make_manifest(STUDY, plan, [{"name": "pilot.csv"}])["key"] != key


def test_a_method_that_chooses_its_pooling_does_not_take_the_studys():
    plan = RehearsalPlan(methods=("recommended", "ro-accb"))
    candidates = {candidate.name: candidate.study.method() for candidate in plan.list_candidates(STUDY) if candidate.learns}
    assert candidates["recommended"].choice is not None
    assert candidates["ro-accb"].pooling.name == "all"
