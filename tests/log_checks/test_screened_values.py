import numpy as np
import pytest

import surefoot as sf
from surefoot.audit import audit
from surefoot.log_checks import check_logs
from surefoot.screening import screen
from surefoot.simulators import contaminate
from surefoot.study import StudyLogs
from tests.log_checks.logs import find_check, make_logs


def check_screen(found):
    read = StudyLogs(found.logs, found.logs.reward, {}, np.arange(len(found.logs)), found)
    return find_check(check_logs(read), "screen")


def study(seed, people=30):
    return make_logs(participants=people, decision_points=210, seed=seed)


def test_unworn_when_not_prompted_is_unsafe_in_every_study():
    for seed in range(10):
        logs = contaminate(study(seed), mechanism="nonwear", values="reward", ratio=0.2, after="nothing", seed=seed).logs
        found = check_screen(screen(logs))
        assert found.verdict == "unsafe"
        assert "effect of the prompt, not dirt" in found.remedy


def test_what_the_screen_marked_is_told():
    found = screen(contaminate(study(1), mechanism="nonwear", ratio=0.2, run_length=20, seed=2).logs)
    check = audit(sf.method("accb").fit(found.logs), screen=found).check("screen")
    assert check.verdict == "look"
    assert "20.0 %" in check.reason
    assert check_screen(screen(study(2))).verdict == "fine"


def test_numbers_of_the_screen_are_handed_on():
    found = screen(contaminate(study(1), mechanism="nonwear", ratio=0.2, run_length=20, seed=2).logs)
    check = check_screen(found)
    marked = np.zeros(len(found.logs), dtype=bool)
    marked[found.flags.row[found.marks]] = True
    assert check.numbers == {
        "share": pytest.approx(marked.mean()),
        "counts": found.counts(),
        "treatment": [difference.to_dict() for difference in found.treatment],
    }
    assert "('engagement' not worn 1,260 (nothing 6" in check.reason
    clean = check_screen(screen(study(2)))
    assert clean.numbers["counts"] == {} and "(nothing)" in clean.reason and clean.remedy == ""


def test_logs_without_a_screen_say_so():
    check = find_check(check_logs(study(1, people=5)), "screen")
    assert (check.verdict, check.reason) == ("fine", "the logs are not screened")
