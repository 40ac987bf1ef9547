import numpy as np

import surefoot as sf
from surefoot.log_checks import check_logs
from tests.log_checks.logs import find_check, make_logs


def test_suspect_columns_are_listed():
    rng = np.random.default_rng(1)
    state = rng.standard_normal((4, 100, 1))
    action = rng.integers(0, 2, (4, 100))
    check = find_check(check_logs(sf.Trajectories.from_arrays(state, action, 3 * state[..., 0])), "suspect columns")
    assert (check.verdict, check.numbers) == ("unsafe", {"columns": ["state variable 's1'"]})
    assert check.reason.startswith("state variable 's1' ")
    assert check.remedy
    honest = find_check(check_logs(make_logs()), "suspect columns")
    assert (honest.verdict, honest.remedy, honest.numbers) == ("fine", "", {})
