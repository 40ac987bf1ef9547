"""A field of a decision is a column of the table, part of the digest, of the export and of the reply."""

import json
from datetime import UTC, datetime

import pytest

from surefoot.service.database import schema
from surefoot.service.database.ledger import EVIDENCE
from surefoot.service.database.schema import EXPORTED, REPLIED, STORED, DecisionReply, decisions, make_reply

RECORD = {
    "id": "5f0c",
    "participant_id": "p1",
    "decision_idx": 3,
    "decided_at": datetime(2026, 3, 1, 9, tzinfo=UTC),
    "received_at": datetime(2026, 3, 1, 10, tzinfo=UTC),
    "study_id": "s",
    "available": True,
    "availability_reasons": ["driving", "asleep"],
    "context": {"weather": 1.5, "place": "home"},
    "state": [1.5, None],
    "action": 1,
    "probabilities": [0.25, 0.75],
    "source": "policy",
    "fallback_reasons": [],
    "policy_id": None,
    "random_key": "k",
    "uniform": 0.5,
    "probability": 0.75,
    "reply": "{}",
    "salt": b"salt",
}


def make_row(**changes):
    return schema.DecisionRecord(**{**RECORD, **changes}).to_row()


def test_fields_are_the_columns_of_the_table():
    assert list(STORED) == [column.name for column in decisions.c]
    row = make_row()
    assert row["context"] == '{"weather":1.5,"place":"home"}' and row["state"] == "[1.5,null]"


@pytest.mark.parametrize("name", [name for name in STORED if name != "salt"])
def test_every_field_is_hashed_and_erasable_ones_apart(name):
    evidence = EVIDENCE["decision"]
    changed = make_row(**{name: "other" if RECORD[name] is None or isinstance(RECORD[name], str) else [7]})
    if isinstance(RECORD[name], datetime):
        changed = make_row(**{name: RECORD[name].replace(year=2027)})
    erasable = STORED[name].erased is not None
    assert (evidence.digest(changed) == evidence.digest(make_row())) is erasable
    assert (evidence.digest_content(changed) == evidence.digest_content(make_row())) is not erasable


def test_a_column_that_a_later_schema_adds_leaves_earlier_digests_as_they_are():
    evidence = EVIDENCE["decision"]
    without = {name: value for name, value in make_row().items() if value is not None}
    assert evidence.digest({**without, "policy_id": None}) == evidence.digest(make_row())
    assert evidence.digest({**without, "policy_id": 1}) != evidence.digest(make_row())


def test_every_exported_field_has_a_type_that_files_know():
    for name in EXPORTED:
        assert decisions.c[name].type.python_type in (str, int, float, bool, datetime)


def test_the_reply_is_what_the_api_describes():
    reply = json.loads(make_reply(RECORD, "send", ["context.x is unknown"]))
    assert set(reply) == {*REPLIED.values(), "action_name", "warnings"} == set(DecisionReply.model_fields)
    assert DecisionReply.model_validate(reply).action_prob == [0.25, 0.75]
