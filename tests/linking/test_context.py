"""What a model was trained on is what it gets when it decides: `link`, the service's context and derived states agree."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

import surefoot as sf
from surefoot.linking import LinkPlan, compute_context, link
from surefoot.service.trial.states import context_to_state

PLAN = LinkPlan.parse(
    """
[decisions]
zone = "Europe/Zurich"
[streams.watch]
row_minutes = 1
worn = "worn"
[states.steps_before]
stream = "watch"
column = "steps"
feature = "sum"
minutes = 60
at_least = 0.5
[states.steps_since]
stream = "watch"
column = "steps"
feature = "mean"
since = "previous decision"
[states.steps_today]
stream = "watch"
column = "steps"
feature = "sum"
since = "00:00"
[outcomes.steps_after]
stream = "watch"
column = "steps"
feature = "sum"
minutes = 30
"""
)
STUDY = """
[columns]
participant = "participant"
time = "time"
[state.steps_before]
scaling = { centre = 100, scale = 50 }
[state.steps_since]
[state.steps_today]
[state.dose]
derived = "dose"
[actions]
column = "sent"
names = ["nothing", "suggestion"]
[outcome]
column = "steps_after"
"""
START = datetime(2026, 3, 28, 6, tzinfo=UTC)


def test_the_context_at_a_decision_is_the_state_in_the_linked_logs(tmp_path):
    rng = np.random.default_rng(0)
    moments = [START + timedelta(minutes=minute) for minute in range(2 * 1440) if rng.random() < 0.8]
    stream = pa.table(
        {
            "participant": ["a"] * len(moments),
            "time": moments,
            "steps": rng.integers(0, 9, len(moments)),
            "worn": rng.random(len(moments)) < 0.9,
        }
    )
    decisions = [START + timedelta(minutes=int(minute)) for minute in (200, 500, 900, 1600, 2300)]
    table = pa.table(
        {"participant": ["a"] * 5, "time": [moment.isoformat() for moment in decisions], "sent": [1, 0, 1, 1, 0]}
    )
    linked = link(table, {"watch": stream}, plan=PLAN)
    study = sf.Study.parse(STUDY)
    linked.write(tmp_path / "logs.parquet")
    logs = study.read(tmp_path / "logs.parquet").logs
    assert any(value is not None for value in linked.table["steps_before"].to_pylist())
    for number, decision in enumerate(decisions):
        so_far = stream.filter(pa.compute.less(stream["time"], pa.scalar(decision)))
        context = compute_context(PLAN, {"watch": so_far}, participant="a", time=decision, earlier=decisions[:number])
        assert context == linked.table.select(list(PLAN.states)).to_pylist()[number]
        # The dose is derived by the service from its records, by the code that reads logs.
        dose = logs.state[number, study.state_names.index("dose")]
        observed = context_to_state(study, context, {"dose": float(dose)})
        expected = [None if np.isnan(value) else value for value in logs.state[number]]
        assert observed.state == expected
