import numpy as np

from surefoot.log_checks import check_logs
from tests.log_checks.logs import find_check, make_logs


def test_codes_for_missing_values_are_listed():
    logs = make_logs()
    coded = logs.with_values(reward=np.where(np.arange(len(logs)) % 11 == 0, -9999.0, logs.reward))
    check = find_check(check_logs(coded), "suspect columns")
    assert (check.verdict, check.numbers) == ("look", {"columns": ["reward 'reward'"]})
    assert "-9999" in check.reason
    assert "missing = [-9999]" in check.remedy
    honest = find_check(check_logs(logs), "suspect columns")
    assert (honest.verdict, honest.remedy, honest.numbers) == ("fine", "", {})
