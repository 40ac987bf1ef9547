"""Replay: recompute every draw from what is stored, and report what differs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.service.database.databases import Database
from surefoot.service.database.schema import decisions
from surefoot.service.trial.context import observed
from surefoot.service.trial.decisions import fixed_probabilities, policy_probabilities, reply_of, unavailable_probabilities
from surefoot.service.trial.policy_versions import PolicyVersions
from surefoot.service.trial.randomisation import drawn, random_key, uniform
from surefoot.service.trial.trial import draw_secret, stored_study
from surefoot.study import Study, Trial

CLOSE = 1e-12
"""Another processor or library may round the last digit of a policy's probability differently."""


@dataclass(frozen=True)
class Difference:
    """One decision that does not come out as it was recorded."""

    decision_id: str
    participant_id: str
    decision_idx: int
    what: str


@dataclass(frozen=True)
class Replay:
    """How many decisions were looked at, and which differ."""

    decisions: int
    differences: list[Difference]


def replay(database: Database) -> Replay:
    """All decisions; the recorded probabilities decide the action, the recomputed ones must agree with them."""
    again = _Again(database)
    count, differences = 0, []
    with database.reading() as connection:
        ordered = sa.select(decisions).order_by(decisions.c.participant_id, decisions.c.decision_idx)
        for row in connection.execution_options(yield_per=1000).execute(ordered).mappings():
            count += 1
            for what in again.differences(row):
                differences.append(Difference(row["id"], row["participant_id"], row["decision_idx"], what))
    return Replay(count, differences)


class _Again:
    """Makes decisions again from the study, the policy and the secret that they were made with."""

    def __init__(self, database: Database) -> None:
        self._database, self._secret, self._policies = database, draw_secret(database), PolicyVersions(database)
        self._studies: dict[str, Study] = {}

    def differences(self, row: Any) -> Iterator[str]:
        study = self._study(row["study_id"])
        recorded = json.loads(row["probabilities"])
        key = random_key(row["participant_id"], row["decision_idx"])
        checks: tuple[tuple[str, Callable[[], bool]], ...] = (
            ("random key", lambda: key == row["random_key"]),
            ("uniform number", lambda: uniform(self._secret, key) == row["uniform"]),
            ("action", lambda: drawn(row["uniform"], recorded) == row["action"]),
            ("probability of the action", lambda: recorded[row["action"]] == row["probability"]),
            ("state", lambda: _same(observed(study, json.loads(row["context"])).state, json.loads(row["state"]))),
            ("probabilities", lambda: _same(self._probabilities(study, row), recorded)),
            ("limits", lambda: row["source"] == "unavailable" or _within(study, recorded)),
            ("reply", lambda: reply_of(row, study.actions.names) == row["reply"]),
        )
        for what, holds in checks:
            try:
                if not holds():
                    yield what
            except (InputError, LookupError, ValueError, TypeError):
                yield f"{what} cannot be recomputed"

    def _study(self, study_id: str) -> Study:
        if study_id not in self._studies:
            self._studies[study_id] = stored_study(self._database, study_id)
        return self._studies[study_id]

    def _probabilities(self, study: Study, row: Any) -> list[float]:
        trial = study.trial or Trial()
        if row["source"] == "unavailable":
            return unavailable_probabilities(study)
        if row["source"] in ("warm-up", "fallback"):
            send = trial.warm_up_probability if row["source"] == "warm-up" else trial.fallback_probability
            return fixed_probabilities(study, send)
        version = self._policies.get(row["policy_id"])
        if version is None:
            raise InputError("the policy cannot be read")
        return policy_probabilities(study, version, row["participant_id"], json.loads(row["state"]))


def _same(left: Sequence[float | None], right: Sequence[float | None]) -> bool:
    if len(left) != len(right):
        return False
    return all(
        a is b is None or (a is not None and b is not None and math.isclose(a, b, rel_tol=CLOSE, abs_tol=CLOSE))
        for a, b in zip(left, right, strict=True)
    )


def _within(study: Study, probabilities: Sequence[float]) -> bool:
    send, limits = 1 - probabilities[0], study.probability_limits
    return limits.minimum - CLOSE <= send <= limits.maximum + CLOSE and abs(sum(probabilities) - 1) < 1e-9
