"""Evidence: which rows are accounted for, what of each is hashed, and which part of it may later be erased.

A row may have two digests. The first is over what must always stay: who, when, which draw. The second is over what a
participant may have erased, with a random salt that is erased with it: nobody can try values until one fits the digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from surefoot.service.database import schema
from surefoot.service.database.schema import to_microseconds

SALT_BYTES = 16


@dataclass(frozen=True)
class Evidence:
    """One kind of entry in the ledger: a row of a table is recorded as it exactly once."""

    kind: str
    table: sa.Table
    key: tuple[str, ...]
    """Columns that name the row; the first is the table's primary key."""
    columns: tuple[str, ...]
    """What is hashed besides the key. Never changed: a later schema version that hashes more does so under a new kind."""
    moment: str
    """The column that says when the row came to be."""
    content: Mapping[str, str | None] = field(default_factory=dict)
    """What may be erased, and what is there afterwards ({id}: of the row); hashed apart, with the row's salt."""
    only_if: str | None = None
    """A column: the row is this kind of evidence once it is filled."""
    forms: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """How a column is written before it is hashed, where not as it is."""

    def identify(self, row: Mapping[Any, Any]) -> list[Any]:
        """What the ledger calls a row."""
        return [row[name] for name in self.key]

    def digest(self, row: Mapping[Any, Any]) -> str:
        """Of what stays."""
        values = [self.forms.get(name, _plain)(row[name]) for name in (*self.key, *self.columns)]
        return _hash([self.kind, *values])

    def digest_content(self, row: Mapping[Any, Any]) -> str:
        """Of what may be erased."""
        return _hash([self.kind, row["salt"].hex(), *(_plain(row[name]) for name in self.content)])

    def blanks(self, row_id: Any) -> dict[str, str | None]:
        """What an erased row holds."""
        return {name: blank and blank.replace("{id}", str(row_id)) for name, blank in self.content.items()}

    def names(self) -> list[str]:
        """Every column that is looked at."""
        return list(dict.fromkeys((*self.key, *self.columns, *self.content, *(("salt",) if self.content else ()))))

    def select(self) -> sa.Select[Any]:
        """The rows that are evidence of this kind."""
        query = sa.select(*(self.table.c[name] for name in self.names()))
        return query if self.only_if is None else query.where(self.table.c[self.only_if].is_not(None))

    def describe(self, key: list[Any]) -> str:
        """A row in words.

        >>> EVIDENCE["decision"].describe(["5f0c", "p-017", 3])
        'decision 5f0c (participant_id p-017, decision_idx 3)'
        """
        details = ", ".join(f"{name} {value}" for name, value in zip(self.key[1:], key[1:], strict=False))
        return f"{self.kind} {key[0]}" + (f" ({details})" if details else "")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return to_microseconds(value)
    return bytes(value).hex() if isinstance(value, bytes | memoryview) else value


def _hash(values: list[Any]) -> str:
    return hashlib.sha256(json.dumps(values, separators=(",", ":"), allow_nan=False).encode()).hexdigest()


COPIED_VALUES = ("reward", "expected", "value")
"""Keys of an update's result that repeat, or follow from, what one participant sent: erased with it, and so not hashed. The
decision and the outcome that they come from are."""


def without_copies(result: str) -> str:
    """An update's result without values of single decision points.

    >>> without_copies('{"used": 2, "removed_rows": [{"decision_idx": 1, "reward": 30.5}]}')
    '{"removed_rows": [{"decision_idx": 1}], "used": 2}'
    """
    content = json.loads(result)
    for name in ("removed_rows", "implausible_rows"):
        if name in content:
            content[name] = [{key: row[key] for key in row if key not in COPIED_VALUES} for row in content[name]]
    return json.dumps(content, sort_keys=True)


_KINDS = (
    Evidence("study", schema.studies, ("id",), ("text", "first_used"), "first_used"),
    Evidence("secret", schema.secrets, ("name",), ("value",), ""),
    Evidence("key", schema.keys, ("prefix",), ("digest", "role", "label", "created_at", "expires_at"), "created_at"),
    Evidence("key revoked", schema.keys, ("prefix",), ("revoked_at",), "revoked_at", only_if="revoked_at"),
    Evidence("participant", schema.participants, ("id",), ("registered_at",), "registered_at"),
    Evidence(
        "participant event",
        schema.participant_events,
        ("id", "participant_id", "kind"),
        ("reason", "happened_at", "done_by"),
        "happened_at",
    ),
    Evidence("update", schema.updates, ("id",), ("started_by", "created_at"), "created_at"),
    Evidence(
        "update ended",
        schema.updates,
        ("id",),
        ("state", "finished_at", "findings", "result", "message"),
        "finished_at",
        only_if="finished_at",
        forms={"result": without_copies},
    ),
    Evidence(
        "policy", schema.policies, ("id",), ("update_id", "study_id", "created_at", "accepted", "content"), "created_at"
    ),
    Evidence("activation", schema.activations, ("id", "policy_id"), ("activated_at", "activated_by"), "activated_at"),
    Evidence(
        "decision",
        schema.decisions,
        ("id", "participant_id", "decision_idx"),
        (
            *("decided_at", "received_at", "study_id", "available", "source", "fallback_reasons", "policy_id"),
            *("probabilities", "random_key", "uniform", "action", "probability", "reply"),
        ),
        "received_at",
        content={"availability_reasons": "[]", "context": "{}", "state": "[]"},
    ),
    Evidence(
        "outcome",
        schema.outcomes,
        ("id", "decision_id"),
        ("observed_at", "received_at", "late"),
        "received_at",
        content={"fingerprint": "erased {id}", "proximal_outcome": None, "echoed_probability": None},
    ),
    Evidence("alert", schema.alerts, ("id", "occasion"), ("kind", "message", "raised_at"), "raised_at"),
    Evidence("alert closed", schema.alerts, ("id", "occasion"), ("closed_at",), "closed_at", only_if="closed_at"),
    Evidence(
        "staff action",
        schema.staff_actions,
        ("id", "action"),
        ("done_at", "done_by", "subject", "detail"),
        "done_at",
    ),
    Evidence(
        "erasure",
        schema.erasures,
        ("id", "participant_id"),
        ("received_before", "reason", "erased_at", "done_by", "decisions", "outcomes"),
        "erased_at",
    ),
)
EVIDENCE = {evidence.kind: evidence for evidence in _KINDS}
