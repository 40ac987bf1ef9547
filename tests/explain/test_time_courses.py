import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.explain import explain, page
from tests.studies import many

LIMITS = """
[columns]
participant = "participant"
time = "time"
[state.weather]
[state.engagement]
[state.fatigue]
[probability_limits]
minimum = 0.45
maximum = 0.55
"""


def test_courses_count_people_and_probabilities_keep_within_limits():
    logs = many(1, 10, 60, seed=4, unit=500)[0][0]
    found = explain(sf.method("ro-saccb").fit(logs), draws=5, study=sf.Study.parse(LIMITS))
    course = found.courses[0]
    assert (course.people == 10).all()
    assert_allclose(course.place[:2], [2, 5])  # 60 decision points in 20 bins of 3
    assert_allclose(course.logged, logs.action.reshape(10, 20, 3).mean(axis=(0, 2)))
    assert ((course.treated >= 0.45) & (course.treated <= 0.55)).all()
    for curve in found.curves:
        assert ((curve.probability >= 0.45) & (curve.probability <= 0.55)).all()


@pytest.fixture(scope="module")
def by_hour():
    """Two people with decision points at 1, 5, 9, 13, 17 and 21 o'clock."""
    rng = np.random.default_rng(0)
    times = pd.date_range("2026-01-05 09:00", periods=60, freq="4h")
    frame = pd.DataFrame({"who": np.repeat(["a", "b"], 60), "when": list(times) * 2, "s": rng.standard_normal(120),
                          "a": rng.integers(0, 2, 120), "r": rng.standard_normal(120)})  # fmt: skip
    logs = sf.Trajectories.from_frame(frame, participant="who", time="when", state=["s"], action="a", reward="r")
    return explain(sf.method("accb").fit(logs), draws=5)


def test_hours_without_data_stay_gaps(by_hour, monkeypatch):
    course = by_hour.courses[1]
    assert course.label.startswith("hour of the day")
    assert course.place.tolist() == list(range(24))
    there = np.isin(np.arange(24), [1, 5, 9, 13, 17, 21])
    assert_array_equal(course.people, 2 * there)
    assert_array_equal(np.isnan(course.treated), ~there)
    assert_array_equal(np.isnan(course.logged), ~there)
    drawn = []
    monkeypatch.setattr(page, "inline_svg", lambda figure, description: drawn.append(figure))
    page._draw_course(course)
    for line in drawn[0].axes[0].get_lines():  # A line through an hour without data would say that there were some.
        assert_array_equal(np.isnan(line.get_ydata()), ~there)
