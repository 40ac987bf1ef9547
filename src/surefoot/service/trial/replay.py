"""Replay: recompute every draw from what is stored, and report what differs."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.service.database.databases import Database
from surefoot.service.database.decision_record import LISTS, make_reply
from surefoot.service.database.schema import decisions
from surefoot.service.trial.states import context_to_state, derive_now
from surefoot.service.trial.trial import PolicyVersions, load_stored_study, read_draw_secret
from surefoot.study import Study, TrialSection
from surefoot.trial_rules.choices import fixed_probabilities, policy_probabilities, unavailable_probabilities
from surefoot.trial_rules.randomisation import draw_action, draw_uniform, random_key

TOLERANCE = 1e-12
"""Another processor or library may round the last digit of a policy's probability differently."""


@dataclass(frozen=True)
class Difference:
    """One decision that does not come out as it was recorded."""

    decision_id: str
    participant_id: str
    decision_idx: int
    check: str


@dataclass(frozen=True)
class Replay:
    """How many decisions were recomputed, and which differ."""

    decisions: int
    differences: list[Difference]
    erased: int
    """Decisions whose state was erased: the draw is recomputed, what a policy made of the state cannot be."""


def replay(database: Database) -> Replay:
    """All decisions; the recorded probabilities decide the action, the recomputed ones must agree with them."""
    recomputer = _Recomputer(database)
    count = 0
    erased = 0
    differences = []
    with database.snapshot() as connection:
        ordered = sa.select(decisions).order_by(decisions.c.participant_id, decisions.c.decision_idx)
        for row in connection.execution_options(yield_per=1000).execute(ordered).mappings():
            count += 1
            erased += row["salt"] is None
            for difference in recomputer.differences(row):
                differences.append(Difference(row["id"], row["participant_id"], row["decision_idx"], difference))
    return Replay(count, differences, erased)


class _Recomputer:
    """Recomputes decisions from the study, the policy and the secret that they were made with."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._secret = read_draw_secret(database)
        self._policies = PolicyVersions(database)
        self._load_study = cache(partial(load_stored_study, database))
        with database.autocommit() as connection:
            emptied = sa.select(decisions.c.participant_id).where(decisions.c.salt.is_(None)).distinct()
            self._without_past = set(connection.scalars(emptied))

    def differences(self, row: Any) -> Iterator[str]:
        study = self._load_study(row["study_id"])
        # The state, or the past that it is derived from, was erased.
        no_state = row["salt"] is None or (study.derived_states and row["participant_id"] in self._without_past)
        recorded = json.loads(row["probabilities"])
        key = random_key(row["participant_id"], row["decision_idx"])
        checks: tuple[tuple[str, Callable[[], bool]], ...] = (
            ("random key", lambda: key == row["random_key"]),
            ("uniform number", lambda: draw_uniform(self._secret, key) == row["uniform"]),
            ("action", lambda: draw_action(row["uniform"], recorded) == row["action"]),
            ("probability of the action", lambda: recorded[row["action"]] == row["probability"]),
            ("state", lambda: bool(no_state) or _are_close(self._state(study, row), json.loads(row["state"]))),
            (
                "probabilities",
                lambda: (
                    (row["salt"] is None and row["source"] == "policy")
                    or _are_close(self._probabilities(study, row), recorded)
                ),
            ),
            ("limits", lambda: row["source"] == "unavailable" or _respects_limits(study, recorded)),
            ("reply", lambda: _recompute_reply(row, study) == row["reply"]),
        )
        for name, holds in checks:
            try:
                if not holds():
                    yield name
            except (InputError, LookupError, ValueError, TypeError):
                yield f"{name} cannot be recomputed"

    def _state(self, study: Study, row: Any) -> list[float | None]:
        derived: dict[str, float] = {}
        if study.derived_states:
            with self._database.autocommit() as connection:
                point = (row["participant_id"], row["decision_idx"])
                moments = {"decided_at": row["decided_at"], "known_at": row["received_at"]}
                derived = derive_now(study, connection, *point, **moments)
        return context_to_state(study, json.loads(row["context"]), derived).state

    def _probabilities(self, study: Study, row: Any) -> list[float]:
        settings = study.trial or TrialSection()
        if row["source"] == "unavailable":
            return unavailable_probabilities(study)
        if row["source"] in ("warm-up", "fallback"):
            send = settings.warm_up_probability if row["source"] == "warm-up" else settings.fallback_probability
            return fixed_probabilities(study, send)
        version = self._policies.get(row["policy_id"])
        if version is None:
            raise InputError("the policy cannot be read")
        return policy_probabilities(study, version, row["participant_id"], json.loads(row["state"]))


def _recompute_reply(row: Any, study: Study) -> str:
    values = {**row, **{name: json.loads(row[name]) for name in LISTS}}
    # Warnings are words, which decide nothing and may change from one release to the next: the ledger accounts for them.
    return make_reply(values, study.actions.names[row["action"]], json.loads(row["reply"])["warnings"])


def _are_close(left: Sequence[float | None], right: Sequence[float | None]) -> bool:
    if len(left) != len(right):
        return False
    return all(
        a is b is None or (a is not None and b is not None and math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE))
        for a, b in zip(left, right, strict=True)
    )


def _respects_limits(study: Study, probabilities: Sequence[float]) -> bool:
    send = 1 - probabilities[0]
    limits = study.probability_limits
    return limits.minimum - TOLERANCE <= send <= limits.maximum + TOLERANCE and abs(sum(probabilities) - 1) < 1e-9
