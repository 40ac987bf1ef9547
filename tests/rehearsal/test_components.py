import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.rehearsal.components import Artefact, Moment, find_shown_values
from surefoot.rehearsal.pooled_regression import Varying
from tests.rehearsal.pilots import STUDY, make_frame, read_frame, two_state

SCREENED = STUDY.replace("[state.mood]", '[state.mood]\ndevice = "watch"').replace(
    'column = "outcome"', 'column = "outcome"\ndevice = "watch"\n[screen]\n[screen.not_worn]'
)


def test_what_a_column_shows_is_recognised():
    values = np.arange(30.0).reshape(2, 15)
    flagged = np.full((2, 15), np.nan)
    flagged[0, 3:9] = 0.0
    assert_array_equal(find_shown_values(flagged, values), [0.0])
    flagged[0, 3:9], flagged[1, 4:8] = values[0, 2], values[1, 3]
    measured = np.where(np.isnan(flagged), values, np.nan)
    assert find_shown_values(flagged, measured) is None
    flagged[0, 3:9] = [5, 99, -3, 7, 55, 1000]
    assert set(find_shown_values(flagged, measured)) <= set(flagged[~np.isnan(flagged)])


def test_held_values_are_those_before_the_run():
    certain = Varying.constant(np.array([30.0, 0.0]), 2)
    zero = np.zeros(2)
    moment = Moment(zero, zero, [], [zero, zero], [], zero, zero, zero, {"mood": np.array([1.0, 2.0])})
    shown = Artefact("watch", "held", certain, {"mood": None}).advance(
        np.array([[0.0, 1.0], [7.0, 8.0]]), moment, np.full((2, 2), 0.5)
    )
    assert_array_equal(shown, [[1, 1], [1, 8]])


def test_artefacts_come_as_often_and_last_as_long_as_the_screen_found():
    frame = make_frame(40, 120, seed=3, zeros=False)
    off = two_state(np.random.default_rng(1), 40, 120, 0.02, 0.1).ravel()
    frame["mood"] = np.where(off & ~np.isnan(frame["mood"]), 0.0, frame["mood"])
    frame["outcome"] = np.where(off & ~np.isnan(frame["outcome"]), 0.0, frame["outcome"])
    study = sf.Study.parse(SCREENED)
    logs = read_frame(frame, study)
    assert logs.screen.counts()["not worn"] > 500
    assert_array_equal(logs.screen.values[logs.screen.flags.reason == "not worn"], 0.0)
    model = sf.rehearsal.fit_pilot(logs, study)
    assert [(part.device, part.reason) for part in model.artefacts] == [("watch", "not worn")]
    assert model.choice.name != "hurdle"  # the zeros were not measured
    found = sf.rehearsal.check_pilot_model(model, logs, pilots=30)
    by_name = {one.name: one for one in found.checks}
    assert by_name["watch: not worn: share"].verdict == "fine"
    assert_allclose(
        by_name["watch: not worn: length of runs"].simulated, by_name["watch: not worn: length of runs"].observed, rtol=0.3
    )
    assert by_name["outcome: spread within people"].verdict == "fine"
    simulation = model.draw_people(40, seed=1).start(seed=1).advance(sf.policies.coin(2), 120)
    shown = simulation.reported[0] == 0
    assert_allclose(shown.mean(), by_name["watch: not worn: share"].observed, atol=0.08)
    assert (simulation.rewards > 0).all()
