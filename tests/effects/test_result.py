"""What must hold of excursion effects, and what is refused."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot import InputError
from surefoot.effects import analyse, dcee, emee, emee2, excursion_effect, wcls
from tests.effects.reference import corrected_wcls
from tests.effects.trials import COLUMNS, make_trial


@pytest.fixture(scope="module")
def trial():
    return make_trial()


@pytest.mark.parametrize("library", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_frames_of_every_library_give_the_same(trial, library):
    found = wcls(library(trial), moderators=["home"], controls=["x", "home"], **COLUMNS)
    again = wcls(trial, moderators="~ home", controls="~ x + home", **COLUMNS)
    np.testing.assert_array_equal(found.params, again.params)
    assert found.names == ("Intercept", "home") and found.nuisance_names == ("Intercept", "x", "home")


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_row_order_ids_and_scale_do_not_matter(seed):
    frame = make_trial(seed % 7)
    moved = frame.sample(frac=1, random_state=seed).assign(y=lambda f: 10 * f["y"], x=lambda f: 1000 + f["x"])
    first, second = (wcls(f, moderators=["home"], controls=["x", "home"], **COLUMNS) for f in (frame, moved))
    np.testing.assert_allclose(second.params, 10 * first.params, rtol=1e-8)
    np.testing.assert_allclose(second.bse, 10 * first.bse, rtol=1e-8)
    np.testing.assert_allclose(second.pvalues, first.pvalues, rtol=1e-6, atol=1e-15)


def test_the_correction_is_that_with_matrices_for_each_participant(trial):
    found = wcls(trial, moderators=["home"], controls=["x", "home"], **COLUMNS)
    rows = found.points.counted_only
    theta = np.concatenate([found.nuisance_params, found.params])
    centred = (rows.action - 0.5) * rows.moderators
    design = np.concatenate([rows.controls, centred]).T
    literal = corrected_wcls(design, rows.weight, rows.outcome - design @ theta, rows.person)
    np.testing.assert_allclose(found.cov_params(nuisance=True), literal, rtol=1e-9)


def test_blocks_change_nothing(trial, monkeypatch):
    asked = {"moderators": ["home"], "controls": ["x", "home"], **COLUMNS}
    whole = [wcls(trial, **asked), emee(trial, **(asked | {"outcome": "b"})), emee2(trial, **(asked | {"outcome": "b"}))]
    monkeypatch.setattr("surefoot.effects.estimators.BLOCK_ROWS", 7)
    parts = [wcls(trial, **asked), emee(trial, **(asked | {"outcome": "b"})), emee2(trial, **(asked | {"outcome": "b"}))]
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one.params, other.params, rtol=1e-12)
        np.testing.assert_allclose(one.cov_params(nuisance=True), other.cov_params(nuisance=True), rtol=1e-10, atol=1e-16)


def test_statsmodels_manners(trial):
    found = wcls(trial, moderators=["home", "day"], controls=["x", "home", "day"], **COLUMNS)
    at_home = found.t_test({"Intercept": 1, "home": 1, "day": 2})
    same = found.t_test([1, 1, 2])
    assert at_home.effect == same.effect and at_home.sd == same.sd
    np.testing.assert_allclose(at_home.sd**2, np.array([1, 1, 2]) @ found.cov_params() @ [1, 1, 2])
    assert found.effect_at({"home": 1, "day": 2}).effect == at_home.effect
    assert found.conf_int(0.5)[0, 0] > found.conf_int()[0, 0]
    np.testing.assert_allclose(found.tvalues, found.params / found.bse)
    single = found.joint_test(["home"])
    assert single.pvalue == pytest.approx(found.pvalues[1], rel=1e-9)
    whole, n, q, p = found.joint_test(), found.people, 4, 3
    squared = found.params @ np.linalg.solve(found.cov_params(), found.params)
    assert whole.fvalue == pytest.approx(squared * (n - q - p) / (p * (n - q - 1)))
    assert (whole.df_num, whole.df_denom) == (3, n - q - p)
    text = str(found.summary())
    assert "home" in text and "P>|t|" in text and "[0.025" in text


def test_outcomes_at_unavailable_rows_do_not_matter(trial):
    gone = trial.assign(y=trial["y"].where(trial["available"] == 1), b=trial["b"].where(trial["available"] == 1))
    odd = trial.assign(y=trial["y"].where(trial["available"] == 1, 1e6), b=trial["b"].where(trial["available"] == 1, 1))
    for estimator, outcome in (("wcls", "y"), ("emee", "b"), ("emee2", "b")):
        columns = COLUMNS | {"outcome": outcome, "controls": ["x"]}
        found = [excursion_effect(frame, estimator=estimator, **columns) for frame in (trial, gone, odd)]
        for other in found[1:]:
            np.testing.assert_array_equal(other.params, found[0].params)
            np.testing.assert_array_equal(other.bse, found[0].bse)


def test_missing_outcomes_are_complete_cases_unless_the_study_defined_them(trial):
    lost = trial.assign(y=trial["y"].where(trial["x"] < 1))
    rows = wcls(lost, controls=["x"], **COLUMNS).points
    assert rows.reasons["outcome missing"].sum() == ((trial["x"] >= 1) & (trial["available"] == 1)).sum()
    filled = wcls(lost, controls=["x"], missing_as=0, **COLUMNS)
    by_hand = wcls(lost.fillna({"y": 0.0}), controls=["x"], **COLUMNS)
    np.testing.assert_array_equal(filled.params, by_hand.params)
    report = analyse(trial.assign(y=trial["y"].where(trial["y"] > 0)), controls=["x"], missing_as=-5, **COLUMNS)
    assert report.other_missing and "complete rows" in report.other_missing[0].analysis
    assert not analyse(trial, controls=["x"], missing_as=0, **COLUMNS).other_missing


def test_several_actions_against_nothing_and_against_each_other():
    frame = make_trial(3, people=60, points=40, actions=3)
    columns = COLUMNS | {"probability": ["p", "p"], "actions": ["nothing", "walk", "rest"]}
    found = wcls(frame, controls=["x"], **columns)
    assert found.names == ("walk: Intercept", "rest: Intercept")
    actions = {"actions": ["nothing", "walk", "rest"]}
    taken = COLUMNS | actions | {"probability": "taken", "probability_of": "action taken"}
    np.testing.assert_allclose(wcls(frame, controls=["x"], **taken).params, found.params, rtol=1e-9)
    between = found.effect_at(action="rest", against="walk")
    assert between.effect[0] == pytest.approx(found.params[1] - found.params[0])
    truth = np.array([0.3 + 0.25, 0.6])
    assert (np.abs(found.params - truth) < 4 * found.bse).all()
    risks = emee(frame, controls=["x"], **(columns | {"outcome": "b"}))
    assert (np.abs(risks.params - 0.3) < 4 * risks.bse).all()
    for estimator in (emee2, dcee):
        with pytest.raises(InputError, match="one treatment with nothing"):
            estimator(
                frame.assign(z=frame.groupby("person").ngroup()),
                **(columns | {"outcome": "b" if estimator is emee2 else "z"}),
            )


def test_both_meanings_of_the_probability_give_the_same_effect(trial):
    sending = wcls(trial, controls=["x"], **COLUMNS)
    taken = wcls(trial, controls=["x"], **(COLUMNS | {"probability": "taken", "probability_of": "action taken"}))
    np.testing.assert_allclose(taken.params, sending.params, rtol=1e-12)
    np.testing.assert_allclose(taken.bse, sending.bse, rtol=1e-12)


def test_a_probability_that_never_changed_may_be_a_number(trial):
    even = trial.assign(p=0.5, sent=np.random.default_rng(0).integers(0, 2, len(trial)) * trial["available"])
    by_number = wcls(even, controls=["x"], **(COLUMNS | {"probability": 0.5}))
    np.testing.assert_array_equal(by_number.params, wcls(even, controls=["x"], **COLUMNS).params)
    _refused("the probability is 1 at an available row", even, probability=1.0)


def test_text_columns_become_levels(trial):
    place = np.where(trial["home"] == 1, "home", "elsewhere")
    found = wcls(trial.assign(place=place), moderators=["place"], controls=["x", "place"], **COLUMNS)
    assert found.names == ("Intercept", "place=home")
    np.testing.assert_allclose(found.params, wcls(trial, moderators=["home"], controls=["x", "home"], **COLUMNS).params)


def test_products_in_formulas(trial):
    found = wcls(trial, moderators="~ home + day + home:day", controls="~ x + home + day + home:day", **COLUMNS)
    by_hand = wcls(trial.assign(both=trial["home"] * trial["day"]), moderators=["home", "day", "both"],
                   controls=["x", "home", "day", "both"], **COLUMNS)  # fmt: skip
    np.testing.assert_allclose(found.params, by_hand.params, rtol=1e-10)


def _refused(message, frame, estimator="wcls", **changed):
    with pytest.raises(InputError, match=message) as caught:
        excursion_effect(frame, estimator=estimator, **(COLUMNS | {"controls": ["x"]} | changed))
    return caught.value


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_probability_of_0_or_1_at_an_available_row_is_refused(trial, value):
    row = int(np.flatnonzero(trial["available"] == 1)[5])
    frame = trial.assign(p=trial["p"].where(trial.index != row, value))
    found = _refused(f"row {row}, column 'p', participant 'P000': the probability is {value:g}", frame)
    assert (found.row, found.column) == (row, "p")
    away = int(np.flatnonzero(trial["available"] == 0)[0])
    wcls(trial.assign(p=trial["p"].where(trial.index != away, value)), **COLUMNS)


def test_a_moderator_known_only_afterwards_is_refused(trial):
    after = trial.assign(after=trial["y"] + 5 * trial["sent"])
    _refused(
        "'after' differs between rows with and without 'treatment' more than randomisation", after, moderators=["after"]
    )
    _refused("'y' is the outcome, which is known only after", trial, moderators=["y"])
    _refused("'sent' is the treatment", trial, moderators=["sent"])
    _refused("'after' differs", after, controls=["after"])


def test_a_numerator_that_depends_on_more_than_the_moderators_is_refused(trial):
    found = _refused("a numerator may depend on the moderators only", trial, moderators=["home"], numerator="p")
    assert found.row is not None and found.column == "p"
    by_home = trial.assign(pn=0.3 + 0.2 * trial["home"])
    _refused("same moderators", by_home, numerator="pn")
    wcls(by_home, moderators=["home"], controls=["x", "home"], numerator="pn", **COLUMNS)


def test_fewer_people_than_coefficients_are_refused(trial):
    few = trial[trial["person"] < "P004"]
    _refused("4 participants are too few for 5 coefficients", few, moderators=["home"], controls=["x", "home"])


def test_one_participant_and_many_levels_are_named_briefly(trial):
    _refused("1 participant is too few for 3 coefficients", trial[trial["person"] == "P001"])
    text = trial.assign(note=[f"text {i}" for i in range(len(trial))])
    with pytest.raises(InputError, match=r"30 participants are too few for 601 coefficients .*, …\); name fewer") as refusal:
        wcls(text, controls=["note"], **COLUMNS)
    assert len(str(refusal.value)) < 300


def test_a_column_of_numbers_and_text_is_named_in_one_sentence(trial):
    mixed = trial["y"].astype(object)
    mixed.iloc[3] = "four"
    _refused(r"column 'y' mixes types .[^(]*'four'[^(]*.; convert it", trial.assign(y=mixed))


def test_one_action_only_is_refused(trial):
    _refused("nothing to compare", trial.assign(sent=0))
    _refused("no row is available", trial.assign(available=0))
    untreated = trial.assign(y=trial["y"].where(trial["sent"] == 0))
    _refused("no row with .'treatment'. counts", untreated)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"sent": 2}, {}, "treatment 2 is not one of 0 to 1"),
        ({"sent": np.nan}, {}, "the treatment is missing"),
        ({"p": np.nan}, {}, "the probability is missing"),
        ({"available": 0.5}, {}, "0.5 is neither yes nor no"),
        ({"y": np.inf}, {}, "not finite"),
        ({"x": np.inf}, {"controls": ["x"]}, "column 'x'.* the value is not finite"),
        ({"t": 3}, {}, "a second decision point"),
        ({}, {"controls": ["z"]}, "there is no column 'z'"),
        ({}, {"controls": ["x", "x"]}, "given twice"),
        ({}, {"controls": "x"}, "neither a list nor a formula"),
        ({}, {"controls": "~ x +"}, "'~ x [+]' cannot be read"),
        ({}, {"controls": "~ x - 1"}, "no intercept"),
        ({}, {"controls": "~ x + C(hme)"}, r"term 'C.hme.': there is no column 'hme' .did you mean 'home'"),
        ({}, {"controls": "~ x + lgo(day)"}, r"term 'lgo.day.' calls 'lgo' .did you mean 'log'"),
        ({}, {"controls": "~ x + C(y)"}, "'y' is the outcome"),
        ({}, {"numerator": 1.0}, "strictly between 0 and 1"),
        ({}, {"numerator": [0.3, 0.3]}, "strictly between 0 and 1"),
        ({}, {"future": "never"}, "choose from"),
        ({}, {"lag": -1}, "whole number"),
        ({}, {"probability": None}, "give the probability: a column"),
        ({}, {"probability_of": None}, "nothing says what it is the probability of"),
        ({}, {"probability_of": "treatment"}, "write one of"),
        ({}, {"probability": 0.5, "probability_of": "action taken"}, "is the probability of sending"),
        ({}, {"estimator": "wlcs"}, "did you mean 'wcls'"),
        ({}, {"learner": "forest"}, "'wcls' learns nothing, so a learner changes nothing"),
        ({}, {"estimator": "emee2", "numerator": 0.6}, "'emee2' has no numerator"),
        ({}, {"estimator": "dcee", "numerator": 0.6}, "'dcee' has no numerator"),
        ({}, {"estimator": "emee"}, "the outcome is"),
        ({}, {"estimator": "dcee"}, "differs from the participant's first row"),
        ({}, {"transform": "log(x)"}, "has no log"),
        ({}, {"transform": "cube"}, "is unknown"),
        ({}, {"missing_as": {"z": 0}}, "missing_as names 'z'"),
        ({"home": 1}, {"controls": ["home"]}, "say the same|never varies"),
    ],
)
def test_what_cannot_be_right_is_refused(trial, change, options, message):
    frame = trial.copy()
    for column, value in change.items():
        if column == "home":
            frame[column] = value
        else:
            rows = (
                frame.index[(frame["available"] == 1) & (frame["person"] == "P001")][:1]
                if column != "t"
                else frame.index[4:5]
            )
            frame[column] = frame[column].astype(float)
            frame.loc[rows, column] = value
    _refused(message, frame, **options)


def test_a_coefficient_that_one_participant_decides_is_refused(trial):
    alone = trial.assign(odd=((trial["person"] == "P003") & (trial["t"] % 3 == 0)).astype(int))
    _refused("participant 'P003' alone decides", alone, controls=["odd"])


def test_contrasts_that_do_not_fit_are_refused(trial):
    found = wcls(trial, moderators=["home"], controls=["x", "home"], **COLUMNS)
    for ask, message in (
        (lambda: found.t_test([1, 2, 3]), "needs 2 numbers"),
        (lambda: found.t_test({"hom": 1}), "did you mean 'home'"),
        (lambda: found.effect_at({"hom": 1}), "did you mean 'home'"),
        (found.effect_at, "have no value"),
        (lambda: found.effect_at({"home": 1}, action="walk"), "not known"),
    ):
        with pytest.raises(InputError, match=message):
            ask()


def test_a_lag_with_no_further_treatment_weighs_the_rows_that_were_not_treated(trial):
    found = wcls(trial, lag=2, future="none", controls=["x"], **COLUMNS)
    points = found.points
    first = np.flatnonzero(trial["person"] == "P007")
    for row in range(len(first) - 2):
        expected = 1.0
        for step in (1, 2):
            later = trial.loc[first[row + step]]
            expected *= 1.0 if later["available"] == 0 else (later["sent"] == 0) / (1 - later["p"])
        assert points.future[first[row]] == pytest.approx(expected)
    assert np.isnan(points.outcome[first[-2:]]).all()


def test_distal_outcomes_are_one_for_each_participant(trial):
    end = trial.groupby("person")["y"].transform("sum")
    found = dcee(trial.assign(end=end), moderators=["home"], controls=["x", "home"], **(COLUMNS | {"outcome": "end"}))
    assert found.df_resid == 30 - 2
    lost = trial.assign(end=end.where(trial["person"] > "P004"))
    assert dcee(lost, controls=["x"], **(COLUMNS | {"outcome": "end"})).people == 25
