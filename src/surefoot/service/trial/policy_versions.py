"""Policy versions: kept whole in the database, live from their activation on, the same for every worker."""

from __future__ import annotations

import tempfile
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from surefoot.policies import policies
from surefoot.policies.policies import Policies
from surefoot.service.database.databases import Database
from surefoot.service.database.schema import activations
from surefoot.service.database.schema import policies as versions
from surefoot.trial_rules.choices import PolicyVersion

KEPT = 4
"""Versions that a process keeps in memory."""

LIVE = sa.select(activations.c.policy_id, activations.c.activated_at).order_by(activations.c.id.desc()).limit(1)


class PolicyVersions:
    """Reads versions from the database and remembers the last few; a version never changes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._known: dict[int, PolicyVersion | None] = {}

    def live(self) -> tuple[int, datetime] | None:
        """The live version's id and when it went live; asked of the database every time."""
        with self._database.autocommit() as connection:
            row = connection.execute(LIVE).first()
        return None if row is None else (row.policy_id, row.activated_at)

    def get(self, version: int) -> PolicyVersion | None:
        """A version, or None when what is stored cannot be read."""
        with self._lock:
            if version in self._known:
                return self._known[version]
        loaded = self.read(version)
        with self._lock:
            while len(self._known) >= KEPT:
                self._known.pop(next(iter(self._known)))
            self._known[version] = loaded
        return loaded

    def read(self, version: int) -> PolicyVersion | None:
        """The same without remembering it: whoever looks at many versions does not push out the live one."""
        with self._database.autocommit() as connection:
            row = connection.execute(sa.select(versions).where(versions.c.id == version)).first()
        return None if row is None else _parse_version(version, row.study_id, row.content)


def _parse_version(version: int, study_id: str, content: str) -> PolicyVersion | None:
    try:
        return PolicyVersion(version, study_id, from_text(content))
    except ValueError:
        return None


def to_text(fitted: Policies) -> str:
    """Policies in their own JSON format."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policies.json"
        fitted.save(path)
        return path.read_text(encoding="utf-8")


def from_text(content: str) -> Policies:
    """What `to_text` gave, to the last bit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policies.json"
        path.write_text(content, encoding="utf-8")
        return policies.load(path)


def coefficients(fitted: Policies) -> list[dict[str, Any]]:
    """One entry per participant, action and feature; above zero means that the action becomes more likely."""
    participants = ["everyone"] if fitted.participants is None else fitted.participants.tolist()
    names = fitted.rule.name_coefficients(fitted.state_names, fitted.action_names)
    coef = fitted.rule.coefficients()
    if coef is None:
        return []
    values = coef.reshape(len(participants), -1)
    return [
        {"participant_id": participant, "action": action, "feature": feature, "value": float(value)}
        for participant, row in zip(participants, values, strict=True)
        for (action, feature), value in zip(names, row, strict=True)
    ]
