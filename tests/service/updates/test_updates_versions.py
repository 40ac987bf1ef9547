import json

import numpy as np
import pytest

from surefoot.errors import FitWarning, InputError
from surefoot.fitting import FittedStudy, fit_study
from surefoot.policies import policies
from surefoot.service.operations.export import export_decisions
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import replay
from surefoot.service.updates.updates import load_pilot_policies
from surefoot.study import Study
from tests.service.support.trials import STUDY, answer, fill, update

POOLED = STUDY.replace('pooling = "person"', 'pooling = "all"')


@pytest.fixture
def pilot(tmp_path):
    """A folder fitted to what an earlier trial exported."""
    trial = open_trial(Study.parse(POOLED), f"sqlite:///{tmp_path}/pilot.db")
    fill(trial, points=40)
    export_decisions(trial, tmp_path / "pilot.csv", "csv")
    trial.close()
    with pytest.warns(FitWarning, match="leaks: 'weather'"):  # Most of these made-up outcomes is the weather.
        fit_study(tmp_path / "pilot.csv", Study.parse(POOLED), tmp_path / "fitted")
    return tmp_path / "fitted"


def test_a_trial_starts_from_pilot_policies(pilot, url):
    trial = open_trial(Study.parse(POOLED), url)
    fill(trial, people=1, points=1)
    assert answer(trial)["source"] == "warm-up"
    policy_id, loaded = load_pilot_policies(trial, pilot, "test")
    assert (policy_id, trial.policies.live()[0], loaded.participants) == (1, 1, None)
    decided = answer(trial, index=1001)
    assert (decided["source"], decided["policy_id"]) == ("policy", 1)
    expected = FittedStudy.load(pilot).policies.probabilities(["p0"], np.array([[0.5, -1.0, 1.0]]))[0, 1]
    assert decided["action_prob"][1] == pytest.approx(np.clip(expected, 0.1, 0.9), abs=1e-12)
    assert replay(trial.database).differences == []
    with pytest.raises(InputError, match="has policy 1 already"):
        load_pilot_policies(trial, pilot, "test")
    fill(trial, points=40, first=1002)
    assert update(trial)[1]["policy_id"] == 2
    trial.close()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[state.engagement]\n", "[state.engagement]\nscaling = { centre = 1.0, scale = 2.0 }\n", "engagement' has scaling"),
        ('levels = ["other", "home"]', 'levels = ["home", "other"]', "place' has levels"),
        ("[state.engagement]\n", "", "no state variable 'engagement'"),
        ("[outcome]\n", '[actions]\nnames = ["nothing", "walk"]\n[outcome]\n', "its actions are"),
    ],
)
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_policies_that_read_states_otherwise_are_refused(pilot, url, old, new, words):
    trial = open_trial(Study.parse(POOLED.replace(old, new)), url)
    with pytest.raises(InputError, match=words):
        load_pilot_policies(trial, pilot, "test")
    assert trial.policies.live() is None
    trial.close()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_policies_without_their_study_are_refused_and_saved_ones_carry_it(pilot, url):
    kept = json.loads((pilot / "policies.json").read_text())["made_for"]
    assert kept["state"]["place"] == {"kind": "category", "levels": ["other", "home"], "settings": {}, "scaling": None}
    assert kept["probability_limits"] == [0.1, 0.9] and len(kept["study_sha256"]) == 64
    assert policies.load(pilot / "policies.parquet").made_for == policies.load(pilot / "policies.json").made_for == kept
    bare = policies.load(pilot / "policies.json")
    object.__setattr__(bare, "made_for", None)
    bare.save(pilot / "policies.parquet")
    trial = open_trial(Study.parse(POOLED), url)
    with pytest.raises(InputError, match="fit it again"):
        load_pilot_policies(trial, pilot, "test")
    trial.close()
