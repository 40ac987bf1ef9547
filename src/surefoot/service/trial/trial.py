"""A trial: the study, its database, its secret, its policy versions."""

import hashlib
import os
import secrets as random_source
import tempfile
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.policies import policies
from surefoot.policies.features import policy_feature_names
from surefoot.policies.policies import Policies
from surefoot.service.database import databases, schema
from surefoot.service.database.clock import ClockWatch, now
from surefoot.service.database.databases import Database
from surefoot.service.database.ledger import insert_new_recorded
from surefoot.service.database.schema import activations
from surefoot.study import Study, TrialSection
from surefoot.trial_rules.choices import LivePolicy, PolicyVersion

SANDBOX = "SUREFOOT_SANDBOX"
"""Set by `surefoot serve --sandbox`: the trial is forgotten when it stops, and sends no message to the team."""
VERSIONS_IN_MEMORY = 4
LIVE = sa.select(activations.c.policy_id, activations.c.activated_at).order_by(activations.c.id.desc()).limit(1)
"""The live policy and when it was activated."""


class PolicyVersions:
    """Reads versions from the database and remembers the last few; a version never changes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[int, PolicyVersion | None] = {}
        """Replaced, never changed: threads read it without a lock."""

    def live(self) -> tuple[int, datetime] | None:
        """The live version's id and when it was activated; read from the database every time."""
        with self._database.autocommit() as connection:
            row = connection.execute(LIVE).first()
        return None if row is None else (row.policy_id, row.activated_at)

    def get(self, version: int, within: sa.Connection | None = None) -> PolicyVersion | None:
        """A version, or None when what is stored cannot be read."""
        known = self._known
        if version in known:
            return known[version]
        loaded = self.read(version, within)
        self._known = dict([*known.items(), (version, loaded)][-VERSIONS_IN_MEMORY:])
        return loaded

    def read(self, version: int, within: sa.Connection | None = None) -> PolicyVersion | None:
        """The same without remembering it, so that reading many versions does not push out the live one."""
        with self._database.autocommit(within) as connection:
            row = connection.execute(sa.select(schema.policies).where(schema.policies.c.id == version)).first()
        if row is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "policies.json"
            path.write_text(row.content, encoding="utf-8")
            try:
                return PolicyVersion(version, row.study_id, policies.load(path))
            except ValueError:
                return None


@dataclass(frozen=True, eq=False)
class Trial:
    """Everything that a request needs; nothing in it can be out of date."""

    database: Database
    study: Study
    study_id: str
    secret: bytes = field(repr=False)
    policies: PolicyVersions
    watch: ClockWatch = field(default_factory=ClockWatch, repr=False)
    """Of this process."""

    @property
    def settings(self) -> TrialSection:
        return self.study.trial or TrialSection()

    def read_live(self, live: tuple[int, datetime] | None, within: sa.Connection | None = None) -> LivePolicy | None:
        """The live policy, from its id and when it was activated."""
        if live is None:
            return None
        version = self.policies.get(live[0], within)
        return LivePolicy(*live, version, version is not None and self.can_use(version, within))

    def can_use(self, version: PolicyVersion, within: sa.Connection | None = None) -> bool:
        """Whether a policy was made for the study's states and actions: names, kinds, levels and scaling."""
        if version.study_id == self.study_id:
            return True
        learned_from = load_stored_study(self.database, version.study_id, within)
        return _list_policy_inputs(learned_from) == _list_policy_inputs(self.study)

    def close(self) -> None:
        self.database.close()


def _list_policy_inputs(study: Study) -> object:
    names = ("kind", "levels", "scaling", "use", "derived", "discount", "start")
    states = [(name, *(getattr(variable, key) for key in names)) for name, variable in study.state.items()]
    return states, study.actions.names


def open_trial(study: Study, url: str | None = None) -> Trial:
    """Open the trial's database, make its tables and its secret if it is new, and remember the study's text."""
    if study.trial is None:
        raise InputError("the study has no [trial] section; add one (it may be empty) to run it as a trial")
    database = databases.connect(url)
    try:
        databases.prepare(database)
        study_id = hashlib.sha256(study.text.encode()).hexdigest()
        with database.transaction() as connection:
            text = {"id": study_id, "text": study.text, "first_used": now()}
            insert_new_recorded(connection, "study", [text], "id")
            secret = {"name": "draws", "value": random_source.token_bytes(32)}
            insert_new_recorded(connection, "secret", [secret], "name")
        return Trial(database, study, study_id, read_draw_secret(database), PolicyVersions(database))
    except BaseException:
        database.close()
        raise


def is_sandbox() -> bool:
    """Whether this is a place to try an app, not a trial."""
    return bool(os.environ.get(SANDBOX))


def check_servable(study: Study) -> None:
    """Refuse a study whose limits would let a policy send for certain, or never: such decisions teach nothing."""
    limits = study.probability_limits
    if not 0 < limits.minimum <= limits.maximum < 1:
        raise InputError(
            f"probability_limits are {limits.minimum:g} to {limits.maximum:g}: a trial needs limits above 0 and below 1, "
            "so that every action stays possible; write [probability_limits] with minimum = 0.1 and maximum = 0.9"
        )


def read_draw_secret(database: Database) -> bytes:
    """The key of the random draws."""
    with database.autocommit() as connection:
        value = connection.scalar(sa.select(schema.secrets.c.value).where(schema.secrets.c.name == "draws"))
    if value is None:
        raise InputError("the database holds no trial yet; start it with surefoot serve")
    return bytes(value)


def read_newest_settings(connection: sa.Connection) -> TrialSection:
    """The `[trial]` section of the study that was served last."""
    text = connection.scalar(sa.select(schema.studies.c.text).order_by(schema.studies.c.first_used.desc()).limit(1))
    return TrialSection() if text is None else _parse_study(text).trial or TrialSection()


def load_stored_study(database: Database, study_id: str, within: sa.Connection | None = None) -> Study:
    """A study as it was when decisions were made under it."""
    with database.autocommit(within) as connection:
        text = connection.scalar(sa.select(schema.studies.c.text).where(schema.studies.c.id == study_id))
    if text is None:
        raise InputError(f"the database holds no study {study_id[:12]}")
    return _parse_study(text)


@lru_cache(maxsize=16)
def _parse_study(text: str) -> Study:
    return Study.restore(text)


def policies_to_text(fitted: Policies) -> str:
    """Policies in their own JSON format."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policies.json"
        fitted.save(path)
        return path.read_text(encoding="utf-8")


def list_coefficients(fitted: Policies) -> list[dict[str, Any]]:
    """One entry per participant, action and feature; above zero means that the action becomes more likely."""
    participants = ["everyone"] if fitted.participants is None else fitted.participants.tolist()
    names = policy_feature_names(fitted.state_names, fitted.action_names)
    coef = fitted.rule.coefficients()
    if coef is None:
        return []
    return [
        {"participant_id": participant, "action": action, "feature": feature, "value": float(value)}
        for participant, row in zip(participants, coef.reshape(len(participants), -1), strict=True)
        for (action, feature), value in zip(names, row, strict=True)
    ]
