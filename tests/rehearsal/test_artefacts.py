import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.rehearsal.artefacts import Constant, Drawn, Held, describe_values
from tests.rehearsal.pilots import STUDY, make_frame, read_frame, two_state

SCREENED = STUDY.replace("[state.mood]", '[state.mood]\ndevice = "watch"').replace(
    'column = "outcome"', 'column = "outcome"\ndevice = "watch"\n[screen]\n[screen.not_worn]'
)


def test_what_a_column_shows_is_recognised():
    values = np.arange(30.0).reshape(2, 15)
    flagged = np.full((2, 15), np.nan)
    flagged[0, 3:9] = 0.0
    assert describe_values(flagged, values) == Constant(0.0)
    flagged[0, 3:9], flagged[1, 4:8] = values[0, 2], values[1, 3]
    measured = np.where(np.isnan(flagged), values, np.nan)
    assert describe_values(flagged, measured) == Held()
    flagged[0, 3:9] = [5, 99, -3, 7, 55, 1000]
    drawn = describe_values(flagged, measured)
    assert isinstance(drawn, Drawn)
    assert set(drawn.pool) <= set(flagged[~np.isnan(flagged)])


def test_held_values_are_those_before_the_run():
    before, showing = np.array([1.0, 2.0]), np.array([7.0, 8.0])
    assert_array_equal(Held().show(before, showing, np.array([True, False]), np.zeros(2)), [1, 8])


def test_artefacts_come_as_often_and_last_as_long_as_the_screen_found():
    frame = make_frame(40, 120, seed=3, zeros=False)
    off = two_state(np.random.default_rng(1), 40, 120, 0.02, 0.1).ravel()
    frame["mood"] = np.where(off & ~np.isnan(frame["mood"]), 0.0, frame["mood"])
    frame["outcome"] = np.where(off & ~np.isnan(frame["outcome"]), 0.0, frame["outcome"])
    study = sf.Study.parse(SCREENED)
    logs = read_frame(frame, study)
    assert logs.screen.counts()["not worn"] > 500
    assert_array_equal(logs.screen.values[logs.screen.screener.reasons(logs.screen.flags) == "not worn"], 0.0)
    model = sf.rehearsal.fit_pilot(logs, study)
    assert [(part.device, part.reason) for part in model.anatomy.artefacts] == [("watch", "not worn")]
    assert model.choice.name != "hurdle"  # the zeros were not measured
    found = sf.rehearsal.check_pilot_model(model, logs, pilots=30)
    by_name = {one.name: one for one in found.checks}
    assert by_name["watch: not worn: share"].verdict == "fine"
    assert_allclose(
        by_name["watch: not worn: length of runs"].simulated, by_name["watch: not worn: length of runs"].observed, rtol=0.3
    )
    assert by_name["outcome: spread within people"].verdict == "fine"
    course = model.draw_people(40, seed=1).start(seed=1).advance(sf.policies.coin(2), 120)
    shown = course.reported[0] == 0
    assert_allclose(shown.mean(), by_name["watch: not worn: share"].observed, atol=0.08)
    assert (course.rewards > 0).all()
