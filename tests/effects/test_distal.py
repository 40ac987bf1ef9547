"""Distal and mediated effects against the golden values of R's MRTAnalysis, drawn with R's random numbers."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import surefoot as sf
from surefoot.effects import dcee, mcee
from surefoot.effects.distal import NuisanceModels
from tests.reference.mediated_effects import mediated_effects
from tests.reference.r_random import RRandom

TRIAL = Path(__file__).parents[3] / "shared" / "excursion" / "trial.csv"
ROLES = {"participant": "person", "time": "t", "outcome": "distal", "treatment": "sent", "probability": "p",
         "probability_of": "sending", "available": "available"}  # fmt: skip
DISTAL = {"participant": "id", "time": "dp", "outcome": "Y", "treatment": "A"}


def _draw_distal(people, coefficients, noise, *, seed, noise_seed=None):
    """The data of R's golden tests of `dcee`: four decision points, outcomes linear in means of X, A and AX."""
    r = RRandom(seed)
    size = 4 * people
    frame = pd.DataFrame({"id": np.repeat(np.arange(people), 4), "dp": np.tile(np.arange(4), people)})
    frame["X"] = r.normal(size)
    frame["Z"] = r.binomial([0.4] * size)
    frame["A"] = r.binomial([0.5] * size)
    frame["AX"] = frame["A"] * frame["X"]
    means = frame.groupby("id")[["X", "A", "AX"]].mean()
    errors = (r if noise_seed is None else RRandom(noise_seed)).normal(people) * noise
    outcome = coefficients[0] + means.to_numpy() @ coefficients[1:] + errors
    return frame.assign(Y=outcome[frame["id"]])


def _draw_mediated():
    """The data of R's golden tests of `mcee`, with their weights; treatment at unavailable rows as R draws it."""
    r = RRandom(1234)
    lengths = r.sample(range(5, 10), 40, replace=True)
    frame = pd.DataFrame(
        {"id": np.repeat(np.arange(40), lengths), "dp": np.concatenate([1 + np.arange(n) for n in lengths])}
    )
    frame["I"] = r.binomial([0.9] * len(frame))
    frame["A"] = r.binomial([0.6] * len(frame))
    time = (frame["dp"] - frame["dp"].mean()) / frame["dp"].std()
    frame["M"] = r.binomial(expit(-0.2 + 0.4 * frame["A"] + 0.1 * time))
    base = r.normal(40) * 0.3
    signal = (0.5 * frame["A"] + 0.6 * frame["M"] + 0.08 * time).groupby(frame["id"]).transform("mean")
    frame["Y"] = signal.to_numpy() + base[frame["id"]]
    raw = 0.3 + 0.7 * frame["dp"] / frame.groupby("id")["dp"].transform("max")
    return frame.assign(weight=raw / raw.groupby(frame["id"]).transform("sum"))


@pytest.mark.parametrize(
    ("moderators", "effect", "error"),
    [
        ([], [0.0580563073126], [0.0657496189214]),
        (["X"], [0.0632080918257, 0.1334112843198], [0.0646006154111, 0.0758280636588]),
    ],
)
def test_dcee_has_the_golden_values_of_r(moderators, effect, error):
    frame = _draw_distal(60, [0.3, 0.8, 0.5, 1.2], 0.15, seed=42).sample(frac=1, random_state=3)
    result = dcee(frame, probability=0.5, moderators=moderators, controls=["X"], **DISTAL)
    np.testing.assert_allclose(result.params, effect, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.bse, error, rtol=0, atol=1e-9)


def test_cross_fitted_dcee_has_the_golden_values_of_r(monkeypatch):
    frame = _draw_distal(40, [0.2, 0.7, 0.4, 0.9], 0.1, seed=123, noise_seed=124)
    folds = RRandom(60601).sample([1 + i % 5 for i in range(40)])[frame["id"]]
    monkeypatch.setattr("surefoot.effects.distal.divide", lambda batch, number: [folds])
    result = dcee(frame, probability=0.5, moderators=["Z"], controls=["X", "Z"], folds=5, **DISTAL)
    np.testing.assert_allclose(result.params, [0.158722864905109, -0.12200774399407], rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.bse, [0.0929529031676633, 0.120638079419361], rtol=0, atol=1e-9)
    from sklearn.linear_model import LinearRegression

    learned = dcee(frame, probability=0.5, moderators=["Z"], controls=["X", "Z"], learner=LinearRegression(), **DISTAL)
    np.testing.assert_allclose(learned.params, result.params, rtol=0, atol=1e-9)


GOLDEN = {
    (): ([0.06625261791, 0.006380160272], [0.06027190583, 0.01900838516]),
    ("dp",): (
        [0.030017337767, 0.007850867826, 0.041327376655, -0.007571791237],
        [0.12801738044, 0.02227183982, 0.038186545710, 0.005928110977],
    ),
}


def _evaluate_literally(frame, moderators):
    basis = [np.ones(len(frame)), *(frame[name] for name in moderators)]
    arguments = (frame[name].to_numpy() for name in ("id", "I", "A"))
    return mediated_effects(
        *arguments, np.full(len(frame), 0.6), frame["M"], frame["Y"], [frame["dp"]], basis, frame["weight"]
    )


@pytest.mark.parametrize("moderators", GOLDEN)
def test_the_literal_form_of_mcee_has_the_golden_values_of_r(moderators):
    estimate, covariance = _evaluate_literally(_draw_mediated(), moderators)
    np.testing.assert_allclose(estimate, GOLDEN[moderators][0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.sqrt(np.diagonal(covariance)), GOLDEN[moderators][1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("moderators", GOLDEN)
def test_mcee_is_its_literal_form_with_nobody_treated_where_unavailable(moderators):
    frame = _draw_mediated()
    frame["A"] *= frame["I"]
    estimate, covariance = _evaluate_literally(frame, moderators)
    asked = DISTAL | {"available": "I", "probability": 0.6, "mediator": "M", "point_weight": "weight", "controls": ["dp"]}
    result = mcee(frame.sample(frac=1, random_state=2), moderators=list(moderators), **asked)
    np.testing.assert_allclose(result.params, estimate, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.cov_params(), covariance, rtol=0, atol=1e-10)
    assert result.df_resid == 40 - 2 * (1 + len(moderators))


@pytest.mark.parametrize(
    ("mediator", "moderators", "controls", "estimate", "first"),
    [
        ("y", [], ["x"], [-0.0743124763893445, 0.1626900599209963], [2.67440594675045e-03, -9.05645230320296e-05]),
        (
            *("y", ["t"], ["x", "home"]),
            [-0.081587108973471129, 0.000341789941841357, 0.219145730964304508, -0.003921509658435161],
            [1.09936158029240e-02, -5.44334757885586e-04, 1.09782961395690e-03, -3.14164646517478e-05],
        ),
        (
            *("b", ["t"], ["x"]),
            [0.134050994508685462, -0.004639526811097726, 0.011478219334869005, 0.000792973222395984],
            [1.45151085060876e-02, -6.64268241795493e-04, 7.86462165486399e-04, -3.52471766571414e-05],
        ),
    ],
)
def test_mcee_as_r_computes_it_on_the_reference_trial(mediator, moderators, controls, estimate, first):
    if not TRIAL.is_file():
        pytest.skip("needs the reference trial (excursion/trial.csv), which is not part of the repository")
    frame = pd.read_csv(TRIAL).sample(frac=1, random_state=5)
    result = mcee(frame, mediator=mediator, moderators=moderators, controls=controls, **ROLES)
    np.testing.assert_allclose(result.params, estimate, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.cov_params()[0], first, rtol=0, atol=1e-10)


def _make_mediated_trial(seed, people=150, points=10, curved=False):
    """A direct effect of 0.5 and an indirect one of 2 · 0.4 on the sum over decision points."""
    rng = np.random.default_rng(seed)
    shape = (people, points)
    x = rng.normal(size=shape)
    free = rng.random(shape) < 0.9
    p = expit(0.5 * x)
    sent = (rng.random(shape) < p) & free
    steps = 0.4 * sent + 0.5 * (x**2 if curved else x) + rng.normal(size=shape)
    y = (0.5 * sent + 2 * steps + (x**2 if curved else x)).sum(axis=1) + rng.normal(size=people)
    columns = {"x": x, "available": free.astype(int), "p": p, "sent": sent.astype(int), "steps": steps}
    frame = pd.DataFrame({name: values.ravel() for name, values in columns.items()})
    return frame.assign(
        person=np.repeat(np.arange(people), points), t=np.tile(np.arange(points), people), distal=np.repeat(y, points)
    )


def test_intervals_of_direct_and_indirect_effects_hold_the_truth():
    """The average over all decision points: 0.9 of the effect where somebody is available."""
    covered = np.zeros(3)
    for seed in range(60):
        result = mcee(_make_mediated_trial(seed), mediator="steps", controls=["x"], **ROLES)
        total = result.effect_at(action="total")
        ends = np.vstack([result.conf_int(), total.conf_int()])
        truth = 0.9 * np.array([0.5, 0.8, 1.3])
        covered += (ends[:, 0] < truth) & (truth < ends[:, 1])
        assert total.effect[0] == pytest.approx(result.params.sum())
    assert (covered >= 52).all()


def test_the_total_of_linear_models_is_close_to_dcee():
    frame = _make_mediated_trial(1, people=300)
    total = mcee(frame, mediator="steps", controls=["x"], **ROLES).effect_at(action="total")
    whole = dcee(frame, controls=["x"], **ROLES)
    assert total.effect[0] == pytest.approx(whole.params[0], abs=0.2 * whole.bse[0])


def test_a_learner_explains_what_a_line_cannot():
    from sklearn.tree import DecisionTreeRegressor

    frame = _make_mediated_trial(4, people=300, points=2, curved=True)
    tree = DecisionTreeRegressor(min_samples_leaf=40, random_state=0)
    linear, learned = (dcee(frame, controls=["x"], learner=name, **ROLES) for name in ("linear", tree))
    assert learned.bse[0] < linear.bse[0]
    assert abs(learned.params[0] - 0.9 * 1.3) < 4 * learned.bse[0]
    assert not learned.nuisance_names
    mediated = mcee(frame, mediator="steps", controls=["x"], learner=tree, **ROLES)
    assert (np.abs(mediated.params - 0.9 * np.array([0.5, 0.8])) < 4 * mediated.bse).all()


@pytest.mark.parametrize("missing", ["weighted", "imputed"])
def test_missing_outcomes_of_a_mediated_effect(missing):
    frame = _make_mediated_trial(7, people=80)
    lost = frame["person"].isin([3, 14, 15, 40])
    result = mcee(
        frame.assign(distal=frame["distal"].mask(lost)), mediator="steps", controls=["x"], missing=missing, **ROLES
    )
    complete = mcee(frame, mediator="steps", controls=["x"], **ROLES)
    assert (np.abs(result.params - complete.params) < complete.bse).all() and np.isfinite(result.bse).all()


def test_predictions_never_come_from_the_own_participant():
    frame = _make_mediated_trial(0, people=20)
    points = dcee(frame, controls=["x"], folds=4, **ROLES).points
    models = NuisanceModels.of(points)
    seen = []
    models.average(lambda training: (seen.append(training) or np.zeros(len(points)),))
    for training in seen:
        inside = np.unique(points.person[~training])
        assert not np.isin(points.person[training], inside).any()
    assert len(seen) == 5 * 4


def test_the_report_names_the_ways_of_a_mediated_effect():
    frame = _make_mediated_trial(2)
    report = sf.effects.analyse(frame, estimator="mcee", mediator="steps", controls=["x"], **ROLES)
    assert [row.effect for row in report.table] == ["direct: average", "indirect: average", "total: average"]
    assert any("hrough steps, a treatment raises distal" in sentence for sentence in report.sentences)
    assert any("common cause" in note for note in report.notes)
    assert "indirect: average" in report.to_html() and "indirect" in str(report.summary())


@pytest.mark.parametrize(
    ("estimate", "options", "words"),
    [
        (mcee, {}, "needs a mediator"),
        (dcee, {"mediator": "steps"}, "has no mediator"),
        (mcee, {"mediator": "distal"}, "is the outcome or the treatment"),
        (mcee, {"mediator": "steps", "controls": ["steps"]}, "is the mediator, which is known only after"),
        (mcee, {"mediator": "sign"}, "tell treated from untreated rows apart"),
        (dcee, {"folds": 1}, "folds is 1"),
        (dcee, {"point_weight": "negative"}, "the weight is -1"),
        (sf.effects.wcls, {"folds": 3, "outcome": "steps"}, "belong to 'dcee' and 'mcee'"),
    ],
)
def test_refusals_name_the_remedy(estimate, options, words):
    frame = _make_mediated_trial(3, people=30)
    frame = frame.assign(sign=np.where(frame["sent"] == 1, 1.0, -1.0) + 0 * frame["x"], negative=-1.0)
    with pytest.raises(sf.InputError, match=words):
        estimate(frame, **(ROLES | options))


def test_a_constant_mediator_is_refused():
    frame = _draw_mediated().assign(M=1.0)
    with pytest.raises(sf.InputError, match="the mediator 'M' is the same in every row that counts"):
        mcee(frame, mediator="M", available="I", probability=0.6, **DISTAL)


def test_the_chance_of_a_regressor_stays_away_from_0_and_1():
    from sklearn.tree import DecisionTreeRegressor

    models = NuisanceModels(DecisionTreeRegressor(), np.arange(4), [])
    treated = np.array([False, False, True, True])
    columns = np.stack([np.ones(4), treated.astype(float)])
    chance = models.predict_chance(columns, treated, np.ones(4, dtype=bool))
    np.testing.assert_allclose(chance, [0.01, 0.01, 0.99, 0.99])
