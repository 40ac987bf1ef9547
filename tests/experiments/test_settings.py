import pytest

from surefoot import InputError
from surefoot.experiments.settings import EXPERIMENTS, RATIOS, SCENES, STRENGTHS, SWEPT_TAUS, Settings


def test_the_experiments_are_those_of_the_paper():
    cells = list(Settings().cells("heartsteps"))
    counts = {name: sum(experiment == name for experiment, _ in cells) for name in EXPERIMENTS}
    assert counts == {"s1": 6 + 6, "s2": 10 * 6, "s3": 11 * 6, "s4": 1 + len(SWEPT_TAUS["heartsteps"])}
    assert (RATIOS[0], RATIOS[-1], STRENGTHS[0], STRENGTHS[-1]) == (0.0, 0.09, 0.0, 10.0)
    assert (SWEPT_TAUS["heartsteps"][0], SWEPT_TAUS["heartsteps"][-1]) == (0.1, 8.0)
    assert (SWEPT_TAUS["chain-walk"][0], SWEPT_TAUS["chain-walk"][-1]) == (0.2, 4.0)
    assert {cell.filter for experiment, cell in cells if experiment == "s1"} == {"", "hampel", "kalman"}
    assert SCENES[0] == ("heartsteps", "prompted")
    assert len(Settings().units()) == len(set(Settings().units())) == 3 * 20


def test_the_fingerprint_follows_every_setting():
    default = Settings().fingerprint()
    for change in (
        {"seed": 1},
        {"participants": 51},
        {"steps": 4999},
        {"experiments": ("s1",)},
        {"ratio": 0.05},
        {"keep": 3},
    ):
        assert Settings(**change).fingerprint() != default
    assert Settings().fingerprint() == default


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"participants": 0}, "participants is 0; it must be at least 1"),
        ({"decision_points": 7}, "8 features"),
        ({"ratio": 1.5}, "between 0 and 1"),
        ({"strength": float("nan")}, "strength"),
        ({"experiments": ("s1", "s9")}, "no experiment 's9'"),
        ({"experiments": ()}, "at least one"),
        ({"replicates": 1}, "at least 2"),
        ({"keep": 6000}, "keep is 6000 of 5000"),
        ({"seed": -1}, "seed"),
    ],
)
def test_what_cannot_be_run_is_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        Settings(**wrong).check()


def test_few_replicates_are_owned_up_to():
    assert "3 replicates are few" in Settings(replicates=3).caution
    assert Settings().caution == Settings(replicates=10).caution == ""
