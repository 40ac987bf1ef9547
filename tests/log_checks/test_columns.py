import numpy as np

import surefoot as sf
from surefoot.log_checks import check_logs
from surefoot.study import StudyLogs
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


def test_codes_are_named_in_the_units_of_the_logs():
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, (10, 60))
    reward = rng.exponential(50, (10, 60)).round()
    temperature = rng.normal(15, 5, (10, 60))
    temperature[:, 5] = -99
    state = np.stack([(temperature - 15) / 7, rng.normal(size=(10, 60))], axis=2)
    reward[:, :3] = 999
    logs = sf.Trajectories.from_arrays(state, action, np.log(reward + 0.5), state_names=["temperature", "mood"])
    study = sf.Study.parse(
        '[columns]\nparticipant = "participant"\ntime = "time"\n[state.mood]\n'
        "[state.temperature]\nscaling = { centre = 15, scale = 7 }\n"
    )
    read = StudyLogs(logs, reward.ravel(), {}, np.arange(len(logs)))
    check = find_check(check_logs(read, study), "suspect columns")
    assert check.reason == (
        "state variable 'temperature' holds -99 again and again, apart from all other values; "
        "reward 'reward' holds 999 again and again, apart from all other values"
    )
    assert check.remedy == (
        "if it stands for missing, write missing = [-99] in its section; "
        "if it stands for missing, write missing = [999] in its section"
    )
