"""Formulas of moderators and controls: what they mean, and what they refuse."""

import subprocess
import sys

import numpy as np
import pytest

from surefoot.effects import wcls
from surefoot.effects.formulas import list_variables, make_design, read_formula
from surefoot.errors import InputError
from tests.effects.trials import COLUMNS, make_trial


@pytest.fixture(scope="module")
def trial():
    frame = make_trial(3)
    frame["place"] = np.array(["elsewhere", "home", "work"])[(frame["home"] + 2 * (frame["x"] > 1)).clip(upper=2)]
    return frame


def test_a_category_of_a_formula_is_that_of_a_list(trial):
    formula = wcls(trial, moderators="~ C(place)", controls="~ x + C(place)", **COLUMNS)
    listed = wcls(trial, moderators=["place"], controls=["x", "place"], **COLUMNS)
    assert formula.names == ("Intercept", "C(place)=home", "C(place)=work")
    np.testing.assert_allclose(formula.params, listed.params, rtol=1e-9)
    np.testing.assert_allclose(formula.bse, listed.bse, rtol=1e-9)


def test_effects_at_values_of_columns_are_those_of_dummies_by_hand(trial):
    formula = wcls(trial, moderators="~ place * day", controls="~ x + place * day", **COLUMNS)
    by_hand = trial.assign(work=(trial["place"] == "work") * 1.0, at_home=(trial["place"] == "home") * 1.0)
    by_hand["work_day"] = by_hand["work"] * by_hand["day"]
    by_hand["home_day"] = by_hand["at_home"] * by_hand["day"]
    terms = ["at_home", "work", "day", "home_day", "work_day"]
    listed = wcls(by_hand, moderators=terms, controls=["x", *terms], **COLUMNS)
    at_work = listed.t_test([1, 0, 1, 2, 0, 2])
    contrast = formula.effect_at({"place": "work", "day": 2})
    assert contrast.names == ("day = 2, place = work",)
    np.testing.assert_allclose([*contrast.effect, *contrast.sd], [*at_work.effect, *at_work.sd], rtol=1e-8)
    with pytest.raises(InputError, match=r"'place'. have no value"):
        formula.effect_at({"day": 2})


def test_a_missing_category_is_not_the_first_level():
    place = np.array(["home", None, "work", "home"], dtype=object)
    day = np.array([0.0, 1.0, np.nan, 3.0])
    design = make_design(["C(place)", "day"], {"place": place, "day": day}, 4)
    np.testing.assert_array_equal(design.values, [[1, 1, 1, 1], [0, np.nan, 1, 0], [0, 1, np.nan, 3]])


def test_terms_with_the_treatment_moderate_its_effect():
    formula = read_formula("steps ~ sent * home + log(`steps before` + 1) + sent:bs(day, df=4)", ["prompt", "sent"])
    assert formula == ("steps", ("home", "bs(day, df=4)"), ("home", "log(`steps before` + 1)"))
    assert list_variables(formula.moderators + formula.controls, ["home", "day", "steps before"]) == (
        "home", "day", "steps before")  # fmt: skip
    for wrong, message in (
        ("~ prompt * home", "needs one outcome"),
        ("steps ~ home", "no term 'prompt'"),
        ("steps ~ prompt | home", "several parts"),
    ):
        with pytest.raises(InputError, match=message):
            read_formula(wrong, ["prompt"])


@pytest.mark.parametrize("code", ["I(__import__('os').getcwd())", "C.mro()", "I([day for day in day])", "log(day.T)"])
def test_formulas_run_no_other_code(code):
    with pytest.raises(InputError, match="a formula may call C, I"):
        list_variables([code], ["day"])


def test_a_function_that_fails_is_an_input_error():
    with pytest.raises(InputError, match="cannot be computed"):
        make_design(["bs(day, df=1)"], {"day": np.arange(5.0)}, 5)


def test_formulaic_is_imported_only_for_formulas():
    code = "import sys, surefoot, surefoot.effects, surefoot.cli; sys.exit(bool({'formulaic', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603
