import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.audit import audit, page
from surefoot.inference.intervals import ratio_interval


@pytest.fixture(scope="module")
def found():
    logs = sf.simulators.HeartSteps(participants=12).collect(sf.policies.coin(2), decision_points=60, seed=0)
    return audit(sf.method("ro-accb").fit(logs))


def test_bars_over_time_are_the_intervals_of_the_audit(found):
    """Not ± 1.96 standard errors: with few people the intervals are longer, and lopsided."""
    measures, logs = found.measures, found.measures.fitted.logs_
    axes = page.draw_time(measures)[0]
    sent = next(bars for bars in axes.containers if bars.get_label() == "sent")
    segments = np.array([segment[:, 1] for segment in sent.lines[2][0].get_segments()])
    for tenth in (0, 4, 9):
        rows = measures.used & (logs.action == 1) & (logs.time // 6 == tenth)
        expected = ratio_interval(measures.total(rows & measures.removed), measures.total(rows))
        assert_allclose(segments[tenth], 100 * np.array([expected.low, expected.high]))
        assert expected.high - expected.value != pytest.approx(1.96 * expected.standard_error, rel=0.01)
