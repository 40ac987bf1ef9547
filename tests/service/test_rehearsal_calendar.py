"""The service, asked on a rehearsal's calendar with the same seed and secret, makes the same decisions to the last draw."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import sqlalchemy as sa
from pyarrow import csv

from surefoot.personalisation.resampling import find_certainty
from surefoot.rehearsal.plan import UPDATE_HOUR, Candidate, TrialDesign
from surefoot.rehearsal.trial_files import write_trial
from surefoot.rehearsal.trial_run import DECIDERS, run_trials
from surefoot.service.database import clock
from surefoot.service.database.schema import decisions, updates
from surefoot.service.operations.export import EXPORTS, write_policies_text
from surefoot.service.trial.api_models import DecisionRequest, Outcome
from surefoot.service.trial.decisions import decide_batch, record_outcomes
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.trial import open_trial
from surefoot.service.updates.updates import begin_update, run_update
from surefoot.simulators import HeartSteps
from surefoot.study import Study
from surefoot.study.trial_updates import read_policy_versions, read_trial_updates

BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
SEED = 3
STUDY = """\
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"

[state.weather]
range = [-2, 2]

[state.engagement]
scaling = { centre = 0.5, scale = 2.0 }

[state.fatigue]

[method]
name = "ro-saccb"
pooling = "POOLING"

[probability_limits]
minimum = 0.2
maximum = 0.8

[trial]
warm_up_decision_points = 6
fallback_probability = 0.3
day_boundary = 1
update_time = "never"
policy_days = 6
outcome_hours = 60

[trial.dose]
prompts_per_week = 5
"""


class Forgetful(HeartSteps):
    """HeartSteps whose participants are sometimes not available, lose states and report no outcome; the weather also leaves
    its range."""

    def visible(self, state):
        seen = np.array(state[:3])
        seen[2] = np.where(state[0] > 1.2, np.nan, seen[2])
        return seen

    def available(self, state):
        return state[1] > -1.2

    def report(self, state, outcome):
        return np.where(state[0] < -1.2, np.nan, outcome)


class Calendar:
    """Simulated people who ask the service on the days of a rehearsal."""

    def __init__(self, trial, design, record, simulator, write_clock):
        self.trial, self.design, self.record, self.set_clock = trial, design, record, write_clock
        self.course = simulator.start(seed=[SEED])
        self.names = record.logs.participants.tolist()
        self.due = []
        for name in self.names:
            register_participant(trial.database, name)

    def run(self):
        present = np.zeros((self.design.calendar_days, len(self.names)), dtype=bool)
        present[self.record.day, self.record.logs.participant_index] = True
        states = []
        for day in range(self.design.calendar_days):
            self.live_through(day, present[day])
            if self.design.updates_after(day) and day + 1 < self.design.calendar_days:
                self.set_clock(BEGIN + timedelta(days=day, hours=UPDATE_HOUR))
                states.append(run_update(self.trial, begin_update(self.trial, "test")))
        return states

    def live_through(self, day, present):
        moment = BEGIN + self.design.clock_time(day, 0)
        self.set_clock(moment)
        self.send_outcomes(day, moment)
        now, time = self.course.look(), self.course.time[0]
        asked = [
            self.ask(place, moment, now.state[0, place], now.available[0, place], time[place])
            for place in np.flatnonzero(present)
        ]
        answers = [json.loads(answer) for answer in decide_batch(self.trial, asked)]
        actions = np.zeros((1, len(self.names)), dtype=np.int64)
        actions[0, present] = [answer["action"] for answer in answers]
        self.course.step(actions, np.ones(actions.shape), active=present[None])
        for place, answer in zip(np.flatnonzero(present), answers, strict=True):
            left = self.record.left[place]
            if not time[place] + self.design.outcome_delay > left:
                reported = self.course.reported[0, place, time[place]]
                self.due.append((day + self.design.outcome_delay, answer["decision_id"], reported))

    def send_outcomes(self, day, moment):
        known = [(name, value) for due, name, value in self.due if due == day and not np.isnan(value)]
        given = [Outcome(decision_id=name, outcome=float(value), timestamp=moment) for name, value in known]
        if given:
            record_outcomes(self.trial, given)

    def ask(self, place, moment, state, available, index):
        centred = (state[0], 2.0 * state[1] + 0.5, state[2])
        names = ("weather", "engagement", "fatigue")
        return DecisionRequest(
            participant_id=self.names[place],
            decision_idx=int(index),
            timestamp=moment,
            availability=bool(available),
            reasons=[] if available else ["asleep"],
            context={name: None if np.isnan(value) else float(value) for name, value in zip(names, centred, strict=True)},
        )


@pytest.fixture
def write_clock(tmp_path, monkeypatch):
    file = tmp_path / "now"
    monkeypatch.setenv(clock.VARIABLE, str(file))

    def write(moment):
        file.write_text(moment.isoformat(), encoding="utf-8")

    write(BEGIN)
    return write


@pytest.mark.parametrize("pooling", ["person", "all"])
def test_the_service_repeats_a_rehearsal_to_the_last_draw(tmp_path, write_clock, pooling):
    study = Study.parse(STUDY.replace("POOLING", pooling))
    design = TrialDesign(
        participants=20, days=26, per_day=1, entry_days=4, cohort=5, outcome_delay=1, drop_out=0.3, drop_out_burden=0.1
    )
    trial = open_trial(study, f"sqlite:///{tmp_path}/trial.db")
    simulator = Forgetful(20)
    (record,) = run_trials(simulator, Candidate.with_method(study, "ro-saccb"), design, seeds=[SEED], secrets=[trial.secret])
    states = Calendar(trial, design, record, simulator, write_clock).run()
    assert states == [update.state for update in record.updates] and "done" in states
    with trial.database.autocommit() as connection:
        rows = connection.execute(sa.select(decisions).order_by(decisions.c.participant_id, decisions.c.decision_idx)).all()
        messages = list(connection.scalars(sa.select(updates.c.message).order_by(updates.c.id)))
    assert messages == [update.message for update in record.updates]
    logs = record.logs
    assert [(row.participant_id, row.decision_idx) for row in rows] == list(
        zip(logs.participant.tolist(), logs.time.tolist(), strict=True)
    )
    assert [row.source for row in rows] == [DECIDERS[source] for source in record.source]
    assert [row.available for row in rows] == logs.available.tolist()
    assert [row.action for row in rows] == logs.action.tolist()
    np.testing.assert_allclose([row.probability for row in rows], logs.probability, rtol=1e-9)
    states = np.array([json.loads(row.state) for row in rows], dtype=np.float64)  # None becomes NaN
    np.testing.assert_allclose(states, logs.state, rtol=1e-12)
    reasons = " ".join(row.fallback_reasons for row in rows)
    assert all(word in reasons for word in ("stale policy", "missing: fatigue", "implausible: weather", "dose: 5 prompts"))
    assert len({row.source for row in rows}) == 4 and np.isfinite(record.left).any()
    compare_files(trial, study, record, tmp_path)
    trial.close()


def compare_files(trial, study, record, folder):
    """What the service exports about its updates is what the rehearsal writes."""
    for name, path in (
        ("learned", "decisions.learned.csv"),
        ("decisions", "decisions.csv"),
        ("updates", "decisions.updates.csv"),
    ):
        EXPORTS[name](trial, folder / path, "csv")
    (folder / "decisions.policies.json").write_text(write_policies_text(trial))
    simulated = write_trial(record, study, folder / "simulated")
    exported = read_trial_updates(study, folder, study.read(folder))
    written = read_trial_updates(study, simulated, study.read(simulated))
    certainty = [
        find_certainty(study.read(path).logs, updates.policy, read_policy_versions(path))
        for path, updates in ((folder, exported), (simulated, written))
    ]
    np.testing.assert_allclose(*certainty, rtol=1e-9)
    assert np.isfinite(certainty[0]).any()
    made_by = np.array([0, *(exported.made_by[version] for version in sorted(exported.made_by))])  # policies count from 1
    np.testing.assert_array_equal(made_by[exported.policy], written.policy)
    np.testing.assert_array_equal(exported.before, written.before)
    assert list(exported.made_by.values()) == list(written.made_by) and len(made_by) > 2
    for name, values in exported.spans.items():
        np.testing.assert_allclose(values, written.spans[name], rtol=1e-12)
    assert (exported.policy > 0).any() and exported.count_erased(max(exported.made_by)) == 0
    updates, simulated_updates = (
        csv.read_csv(path).select(["update_id", "state", "learned_from", "refused_by", "message"]).to_pylist()
        for path in (folder / "decisions.updates.csv", simulated.parent / "decisions.updates.csv")
    )
    assert updates == simulated_updates
