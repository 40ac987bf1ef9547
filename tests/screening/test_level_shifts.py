import numpy as np

from surefoot.screening.level_shifts import LevelShifts
from tests.screening.blocks import flagged, make_block, one


def test_a_change_of_level_or_scale_is_reported_where_it_happens():
    rng = np.random.default_rng(2)
    series = rng.standard_normal((2, 60, 200))
    series[0, :30, 120:] += 3.0
    series[1, :30, 80:] *= 4.0
    found = flagged(LevelShifts(), make_block((one(), one("y", "outcome")), series))
    level, scale = found["x", "level shift"], found["y", "scale shift"]
    assert level[:30].any(axis=1).all()
    assert np.abs(np.argwhere(level[:30])[:, 1] - 120).max() <= 10
    assert scale[:30].any(axis=1).mean() > 0.8
    assert not level[30:].any()
    assert not scale[30:].any()


def test_correlated_and_time_varying_values_are_not_a_change():
    rng = np.random.default_rng(3)
    series = np.zeros((1, 200, 210))
    for t in range(1, 210):
        series[..., t] = 0.75 * series[..., t - 1] + rng.standard_normal((1, 200))
    assert sum(hit.any(axis=1).mean() for hit in flagged(LevelShifts(), make_block((one(),), series)).values()) < 0.03
    assert LevelShifts.reported == LevelShifts.reasons
