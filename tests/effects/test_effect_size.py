"""Standardised effects over decision points: against R's lm and loess, a literal loop, and a known truth."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import surefoot as sf
from surefoot import InputError
from surefoot.effects.effect_size import weigh_neighbours
from tests.effects.trials import COLUMNS, make_trial
from tests.reference.r_random import RRandom

TRIAL = Path(__file__).parents[3] / "shared" / "excursion" / "trial.csv"

# R 4, for every value of t, r the available rows with an outcome and w = 1/p(A):
#   b[t] <- coef(lm(y ~ sent + <covariates>, r, weights = w))["sent"]
#   wvar <- function(y, w) { m <- sum(w*y)/sum(w); sum(w*(y-m)^2)/(sum(w)-sum(w^2)/sum(w)) }
#   s[t] <- sqrt(((n0-1)*wvar(y0, w0) + (n1-1)*wvar(y1, w1))/(n0+n1-2)); NA where n0 < 2 or n1 < 2
#   smooth <- predict(loess(v ~ t, span = <span>, degree = <degree>, control = loess.control(surface = "direct")), t)
# Columns: t, b, s, b smoothed, s smoothed, d.
TRIAL_SPAN_25 = """\
0   1.01595502831812 1.60842519027 0.8326091260131 1.71068223595 0.4867117390461
1   0.75727441771239 1.69679994251 0.6752791792687 1.71233184688 0.3943623314015
10 -0.04312933388471 1.96230538455 0.3265884774316 1.77637756913 0.1838508226555
20 -0.00259239543168 1.76066349887 0.3806517514350 1.71568016717 0.2218663820442
30 -0.71998683658950 1.20039775803 0.0252081541691 1.69778267658 0.0148476919437
37 -0.54343949917792 1.40931201867 0.8080288743211 1.46038003757 0.5533004105344
38  2.92359577712848 1.29421357741 1.1830339659918 1.37149571794 0.8625867004301"""
TRIAL_DEGREE_2 = """\
0  0.710506792031 1.60842519027 0.853891051011 1.69399761367 0.504068626849
10 0.344131954767 1.96230538455 0.520191394243 1.76403284721 0.294887589575
20 0.126426524197 1.76066349887 0.297599778253 1.72651910399 0.172369814829"""
# set.seed(7); n <- 480; d <- data.frame(person = rep(1:40, each = 12), t = rep(0:11, 40)); d$x <- rnorm(n)
# d$p <- plogis(0.5*d$x); d$sent <- rbinom(n, 1, d$p); d$y <- d$x + 0.3*d$sent + rnorm(n)
# d$available <- as.integer(d$t < 11 | d$person < 3); d$sent <- d$sent*d$available; d$y[seq_len(n) %% 11 == 0] <- NA
DRAWN = """\
0   0.5056827071174 1.25620451889 0.367278182724 1.39859344283 0.262605394446
1  -0.0302684206433 1.69111622804 0.357152511840 1.40320041423 0.254527085525
2   0.7554515539069 1.24586381129 0.323721989329 1.41875518142 0.228173256083
3   0.1246297323494 1.39908712369 0.360946403206 1.38206440737 0.261164676032
4   0.3201032943912 1.42992646873 0.368721888165 1.33077032018 0.277074024401
5   0.5240604812165 1.25052825385 0.428222012747 1.27517245450 0.335814980347
6   0.3489396492166 1.16169052599 0.598048730108 1.21958558102 0.490370449942
7   0.9370005944027 1.11621967811 0.714804529481 1.28084504361 0.558072604527
8   0.9118905843790 1.36096638162 0.753201445690 1.42423402548 0.528846686861
9   0.7004124775492 1.88360216486 0.631862156227 1.55018675860 0.407603892061
10  0.3663693144010 1.48049421629 0.480711468460 1.68247802753 0.285716342558"""


def _compare(curve, table):
    expected = np.array([line.split() for line in table.splitlines()], dtype=float)
    values = np.column_stack([curve.points, curve.effect, curve.sd, curve.smooth_effect, curve.smooth_sd, curve.size])
    np.testing.assert_allclose(values[np.isin(curve.points, expected[:, 0])], expected, rtol=1e-6, atol=1e-9)


def _draw():
    r = RRandom(7)
    frame = pd.DataFrame({"person": np.repeat(np.arange(1, 41), 12), "t": np.tile(np.arange(12), 40)})
    frame["x"] = r.normal(480)
    frame["p"] = expit(0.5 * frame["x"])
    frame["sent"] = r.binomial(frame["p"])
    frame["y"] = frame["x"] + 0.3 * frame["sent"] + r.normal(480)
    frame["available"] = ((frame["t"] < 11) | (frame["person"] < 3)).astype(int)
    frame["sent"] *= frame["available"]
    frame.loc[np.arange(1, 481) % 11 == 0, "y"] = np.nan
    return frame


@pytest.mark.skipif(not TRIAL.exists(), reason="the trial is not part of the repository")
def test_the_curves_are_those_of_r():
    frame = pd.read_csv(TRIAL).sample(frac=1, random_state=0)
    curve = sf.effects.effect_size(frame, **COLUMNS, covariates=["x", "home"], resamples=100)
    _compare(curve, TRIAL_SPAN_25)
    assert curve.missing.tolist() == [35, 39] and np.isnan(curve.conf_int()[[35, 39]]).all()
    _compare(sf.effects.effect_size(frame, **COLUMNS, span=0.6, degree=2, resamples=100), TRIAL_DEGREE_2)


def test_the_curves_of_a_drawn_trial_are_those_of_r():
    curve = sf.effects.effect_size(_draw(), **COLUMNS, covariates=["x"], span=0.6, resamples=100)
    _compare(curve, DRAWN)
    assert curve.missing.tolist() == [11] and np.isnan(curve.draws[:, 11]).all()
    assert "No estimate at 1 decision point (t 11)" in str(curve.summary())


def test_a_point_without_any_outcome_is_named():
    frame = _draw()
    frame.loc[frame["t"].isin([3, 11]), "y"] = np.nan
    curve = sf.effects.effect_size(frame, **COLUMNS, span=0.6, resamples=100)
    assert curve.missing.tolist() == [3, 11] and curve.treated[3] == curve.untreated[3] == 0
    without = sf.effects.effect_size(frame[~frame["t"].isin([3, 11])], **COLUMNS, span=0.6, resamples=100)
    np.testing.assert_allclose(curve.size[np.isfinite(curve.size)], without.size, rtol=1e-9)


def _estimate_literally(frame):
    """b and s at every point of a frame, by one loop; copies of a participant are rows like others."""
    effects = []
    deviations = []
    for _, point in frame.groupby("t"):
        rows = point[(point["available"] == 1) & point["y"].notna()]
        weight = np.where(rows["sent"] == 1, 1 / rows["p"], 1 / (1 - rows["p"]))
        design = np.column_stack([np.ones(len(rows)), rows["sent"], rows["x"]])
        root = np.sqrt(weight)
        squares = 0.0
        numbers = [(rows["sent"] == arm).sum() for arm in (0, 1)]
        if min(numbers) < 2:
            effects.append(np.nan)
            deviations.append(np.nan)
            continue
        for arm in (0, 1):
            w = weight[rows["sent"] == arm]
            y = rows["y"][rows["sent"] == arm].to_numpy()
            mean = (w * y).sum() / w.sum()
            squares += (numbers[arm] - 1) * (w * (y - mean) ** 2).sum() / (w.sum() - (w**2).sum() / w.sum())
        effects.append(np.linalg.lstsq(root[:, None] * design, root * rows["y"], rcond=None)[0][1])
        deviations.append(np.sqrt(squares / (sum(numbers) - 2)))
    return np.array(effects), np.array(deviations)


def _smooth_literally(points, values, span, degree):
    """LOESS at every point, from the points with a value."""
    present = np.isfinite(values)
    x = points[present]
    smoothed = []
    for point in points:
        distance = np.abs(x - point)
        radius = np.sort(distance)[int(len(x) * span) - 1]
        weight = np.where(distance < radius, (1 - (distance / radius) ** 3) ** 3, 0)
        smoothed.append(np.polyval(np.polyfit(x - point, values[present], degree, w=np.sqrt(weight)), 0))
    return np.array(smoothed)


def test_every_resample_is_a_literal_copy_of_its_participants():
    frame = _draw()
    frame = frame[(frame["t"] < 10) & ((frame["t"] != 4) | (frame["person"] < 9))]  # Point 4 is missing in some resamples.
    curve = sf.effects.effect_size(frame, **COLUMNS, covariates=["x"], span=0.6, resamples=100, seed=5)
    counts = np.random.default_rng(5).multinomial(40, np.full(40, 1 / 40), size=100)
    lacking = 0
    for number in range(25):
        copies = [frame[frame["person"] == person + 1] for person in np.repeat(np.arange(40), counts[number])]
        effects, deviations = _estimate_literally(pd.concat(copies))
        # A resample may have no row at point 4.
        present = np.isin(np.arange(10), np.unique(pd.concat(copies)["t"]))
        values = np.full((2, 10), np.nan)
        values[:, present] = effects, deviations
        lacking += np.isnan(values[0]).any()
        smooth_effect, smooth_sd = (_smooth_literally(np.arange(10.0), curve_values, 0.6, 1) for curve_values in values)
        np.testing.assert_allclose(curve.draws[number], smooth_effect / smooth_sd, rtol=1e-6)
    assert lacking
    ends = np.quantile(curve.draws, [0.05, 0.95], axis=0).T
    np.testing.assert_allclose(curve.conf_int(alpha=0.1), ends, rtol=1e-9)


def test_points_without_enough_resamples_have_no_interval():
    frame = _draw()
    frame = frame[(frame["t"] < 10) & ((frame["t"] != 4) | (frame["person"] < 9))]
    curve = sf.effects.effect_size(frame, **COLUMNS, smooth=False, resamples=200)
    np.testing.assert_array_equal(curve.size, curve.effect / curve.sd)
    assert np.isfinite(curve.size[4]) and np.isnan(curve.conf_int()[4]).all() and np.isfinite(curve.conf_int()[3]).all()
    assert "No interval at 1 decision point (t 4)" in str(curve.summary())


def test_the_smoother_reproduces_polynomials_and_names_few_neighbours():
    points = np.array([0.0, 1.0, 2.5, 3.0, 4.0, 6.0, 7.0])
    for degree in (0, 1, 2):
        values = np.polyval(np.arange(1, degree + 2), points)
        np.testing.assert_allclose(weigh_neighbours(points, points, 1.0, degree) @ values, values, rtol=1e-9)
    assert np.isnan(weigh_neighbours(points, points, 0.1, 0)).all()
    assert np.isnan(weigh_neighbours(points[:1], points[:1], 1.0, 1)).all()


def test_coverage_of_a_constant_effect():
    """d = 0.3 at every point; participants differ, the standard deviation within an arm is 1.

    Percentile intervals cover somewhat less than 95 %: docs/effects.md has the numbers.
    """
    covered = []
    means = []
    for seed in range(80):
        rng = np.random.default_rng([11, seed])
        frame = pd.DataFrame({"person": np.repeat(np.arange(50), 20), "t": np.tile(np.arange(20), 50)})
        frame["p"] = rng.choice([0.4, 0.6], 1000)
        frame["sent"] = (rng.random(1000) < frame["p"]).astype(int)
        noise = np.sqrt(0.3) * np.repeat(rng.normal(size=50), 20) + np.sqrt(0.7) * rng.normal(size=1000)
        frame["available"] = 1
        frame["y"] = 0.3 * frame["sent"] + noise
        curve = sf.effects.effect_size(frame, **COLUMNS, span=0.4, resamples=200, seed=seed)
        low, high = curve.conf_int().T
        covered.append(((low < 0.3) & (high > 0.3)).mean())
        means.append(curve.size.mean())
    assert abs(np.mean(means) - 0.3) < 0.03
    assert 0.88 < np.mean(covered) < 0.985


def test_covariates_that_predict_well_do_not_enlarge_the_effect():
    frame = make_trial(3, people=60, points=8)
    frame["y"] += 5 * frame["x"]
    plain = sf.effects.effect_size(frame, **COLUMNS, smooth=False, resamples=100)
    adjusted = sf.effects.effect_size(frame, **COLUMNS, covariates=["x"], smooth=False, resamples=100)
    np.testing.assert_allclose(adjusted.sd, plain.sd, rtol=1e-9)
    assert np.ptp(adjusted.effect) < np.ptp(plain.effect)


def test_refusals_name_the_remedy():
    frame = make_trial(1, people=20, points=10)
    cases = {
        "span is 0;": {"span": 0},
        "degree is 3": {"degree": 3},
        "at least 100": {"resamples": 10},
        r"span=0\.4 or more, or smooth=False": {"span": 0.25},
    }
    for message, options in cases.items():
        with pytest.raises(InputError, match=message):
            sf.effects.effect_size(frame, **COLUMNS, **options)
    with pytest.raises(InputError, match="numbers decision points alike"):
        sf.effects.effect_size(frame.assign(t=np.arange(len(frame))), **COLUMNS)
    dated = frame.assign(t=pd.Timestamp("2026-01-01") + pd.to_timedelta(frame["t"], unit="h"))
    with pytest.raises(InputError, match="holds timestamp"):
        sf.effects.effect_size(dated, **COLUMNS)
    with pytest.raises(InputError, match="write smooth=False"):
        sf.effects.effect_size(frame[frame["t"] < 2], **COLUMNS)
    assert len(sf.effects.effect_size(frame[frame["t"] < 2], **COLUMNS, smooth=False).size) == 2
    several = make_trial(1, people=20, points=10, actions=3)
    with pytest.raises(InputError, match="compare_actions"):
        sf.effects.effect_size(several.assign(q=several["p"]), **{**COLUMNS, "probability": ["p", "q"]})


def test_what_is_shown():
    curve = sf.effects.effect_size(_draw(), **COLUMNS, span=0.6, resamples=100)
    table = curve.to_frame("pandas")
    assert list(table.columns[:3]) == ["t", "untreated", "treated"] and len(table) == 12
    assert table["size"].isna().tolist() == [False] * 11 + [True]
    numbers = json.loads(json.dumps(curve.to_dict()))
    assert numbers["size"][11] is None and numbers["resamples"] == 100
    assert "alone" in str(curve.summary()) and "<table" in curve._repr_html_()
    assert curve.plot().get_xlabel() == "t"
