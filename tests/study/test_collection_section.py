"""How the logs were made: said by the study, never guessed from the method it is about to fit."""

import re
from pathlib import Path

import numpy as np
import pytest

import surefoot as sf
from surefoot import InputError, Study
from surefoot.study.collection_section import CONSEQUENCES, DOUBT, CollectionSection

STUDY = '[columns]\nparticipant = "participant"\ntime = "time"\nprobability = "probability"\n[state.home]\n'
TWO_STATES = np.tile([0.0, 1.0], 5)


def make_logs(sending, home=TWO_STATES, time=None, people=4, seed=0):
    """Everybody has the same states and probabilities of sending."""
    shape = (people, len(home))
    sending = np.broadcast_to(sending, shape)
    action = (np.random.default_rng(seed).random(shape) < sending).astype(int)
    return sf.Trajectories.from_arrays(
        np.broadcast_to(home, shape)[..., None], action, np.zeros(shape), state_names=["home"],
        time=None if time is None else np.broadcast_to(time, shape),
        probability=np.where(action == 1, sending, 1 - sending),
    )  # fmt: skip


def test_what_is_not_said_is_unknown_and_the_words_say_so():
    assert Study.parse(STUDY + '[method]\npooling = "all"\n').collection.policy == "unknown"
    logs = make_logs(0.3 + 0.4 * TWO_STATES)
    for policy, words in CONSEQUENCES.items():
        assert CollectionSection(policy=policy).describe(logs) == [words]
    assert "does not say how actions were chosen" in CONSEQUENCES["unknown"]
    assert "participants are not independent" in CONSEQUENCES["pooled"]
    assert "also those of effects" in CONSEQUENCES["pooled"]


def test_the_public_data_sets_say_how_they_were_collected():
    for name in ("demo_trial.toml", "heartsteps_v1.toml"):
        text = (Path(sf.__file__).parent / "datasets" / name).read_text(encoding="utf-8")
        assert Study.parse(text).collection.policy == "fixed"


def test_a_coin_needs_no_words():
    for policy in CONSEQUENCES:
        assert CollectionSection(policy=policy).describe(make_logs(0.6)) == []
    three = sf.Trajectories.from_arrays(
        np.zeros((2, 3, 1)), [[0, 1, 2]] * 2, np.zeros((2, 3)), actions=3, probability=[[0.5, 0.2, 0.3]] * 2
    )
    assert CollectionSection().describe(three) == []


def test_a_fixed_policy_that_changed_is_contradicted_by_two_decision_points():
    changed = np.where(np.arange(10) < 6, 0.3, 0.6)
    words = CollectionSection(policy="fixed").describe(make_logs(changed))
    pair = r"0.3 \(participant \d, time [0-5]\) and 0.6 \(participant \d, time [6-9]\)"
    assert re.search(f"but in the same state the probability of sending was {pair}", words[0])
    assert words[1] == DOUBT
    assert CollectionSection(policy="unknown").describe(make_logs(changed)) == [CONSEQUENCES["unknown"]]


def test_between_updates_a_policy_stays_the_same():
    changed = np.where(np.arange(10) < 6, 0.3, 0.6)
    assert len(CollectionSection(policy="pooled", updates=(6,)).describe(make_logs(changed))) == 1
    late = CollectionSection(policy="pooled", updates=(8,)).describe(make_logs(changed))
    assert "in the same state between the same updates" in late[0]
    by_person = np.array([[0.2], [0.4], [0.6], [0.8]])
    assert len(CollectionSection(policy="own", updates=(6,)).describe(make_logs(by_person))) == 1
    assert len(CollectionSection(policy="pooled", updates=(6,)).describe(make_logs(by_person))) == 2


def test_updates_are_times_as_the_logs_have_them():
    days = np.array("2026-03-01T12:00", dtype="datetime64[us]") + np.arange(10) * np.timedelta64(1, "D")
    logs = make_logs(np.where(np.arange(10) < 6, 0.3, 0.6), time=days)
    text = STUDY + '[collection]\npolicy = "pooled"\nupdates = ["2026-03-07T06:00:00+02:00", 2026-03-09T06:00:00Z]\n'
    section = Study.parse(text).collection
    assert len(section.describe(logs)) == 1
    assert CollectionSection.model_validate_json(section.model_dump_json()) == section
    with pytest.raises(
        InputError, match=r"collection.updates: column 'time' holds dates; write the updates in the same way"
    ):
        CollectionSection(policy="pooled", updates=(6,)).describe(logs)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('policy = "bandit"', "key 'collection.policy': must be 'fixed', 'own', 'pooled' or 'unknown'; got 'bandit'"),
        ('policy = "fixed"\nupdates = [3]', "key 'collection': a fixed policy has no updates"),
        ('updates = ["monday"]', r"key 'collection.updates': \['monday'\] is not a list of times"),
        ("updates = [3, true]", r"key 'collection.updates': \[3, True\] is not a list of times"),
        ('updates = ["2026-03-01", "2026-03-02T00:00:00Z"]', "give all times a zone, or none"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(lines, message):
    with pytest.raises(InputError, match=f"study.toml: line [67], {message}|{message}"):
        Study.parse(STUDY + f"[collection]\n{lines}\n")
