"""A trial: the study, its database, its secret."""

from __future__ import annotations

import hashlib
import secrets as random_source
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.service.database import databases, schema
from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database
from surefoot.service.database.ledger import insert_new_recorded
from surefoot.service.trial.point_records import PointRecords
from surefoot.service.trial.policy_versions import PolicyVersions
from surefoot.study import Study, TrialSection
from surefoot.trial_rules.choices import LivePolicy, PolicyVersion


@dataclass(frozen=True, eq=False)
class Trial:
    """Everything that a request needs; what it remembers, the database has, and is asked whether it still holds."""

    database: Database
    study: Study
    study_id: str
    secret: bytes = field(repr=False)
    policies: PolicyVersions
    points: PointRecords

    @property
    def settings(self) -> TrialSection:
        if self.study.trial is None:
            raise InputError("the study has no [trial] section; add one to run it")
        return self.study.trial

    def read_live(self, live: tuple[int, datetime] | None) -> LivePolicy | None:
        """The live policy, from its id and when it went live."""
        if live is None:
            return None
        version = self.policies.get(live[0])
        return LivePolicy(*live, version, version is not None and self.can_use(version))

    def can_use(self, version: PolicyVersion) -> bool:
        """Whether a policy sees states and actions as the study has them now: names, kinds, levels and scaling."""
        if version.study_id == self.study_id:
            return True
        return _policy_inputs(load_stored_study(self.database, version.study_id)) == _policy_inputs(self.study)

    def close(self) -> None:
        self.database.close()


def _policy_inputs(study: Study) -> object:
    state = [
        (
            name,
            variable.kind,
            variable.levels,
            variable.scaling,
            variable.use,
            variable.derived,
            variable.discount,
            variable.start,
        )
        for name, variable in study.state.items()
    ]
    return state, study.actions.names


def open_trial(study: Study, url: str | None = None) -> Trial:
    """Open the trial's database, make its tables and its secret if it is new, and remember the study's text."""
    if study.trial is None:
        raise InputError("the study has no [trial] section; add one (it may be empty) to run it as a trial")
    database = databases.connect(url)
    databases.prepare(database)
    study_id = hashlib.sha256(study.text.encode()).hexdigest()
    with database.transaction() as connection:
        text = {"id": study_id, "text": study.text, "first_used": now()}
        insert_new_recorded(connection, "study", database.insert_new(schema.studies), [text], "id")
        secret = {"name": "draws", "value": random_source.token_bytes(32)}
        insert_new_recorded(connection, "secret", database.insert_new(schema.secrets), [secret], "name")
    return Trial(database, study, study_id, read_draw_secret(database), PolicyVersions(database), PointRecords(database))


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
    newest = sa.select(schema.studies.c.text).order_by(schema.studies.c.first_used.desc()).limit(1)
    text = connection.scalar(newest)
    return TrialSection() if text is None else _parse_study(text).trial or TrialSection()


def load_stored_study(database: Database, study_id: str) -> Study:
    """A study as it was when decisions were made under it."""
    return _parse_study(_read_study_text(database, study_id))


def _read_study_text(database: Database, study_id: str) -> str:
    with database.autocommit() as connection:
        text = connection.scalar(sa.select(schema.studies.c.text).where(schema.studies.c.id == study_id))
    if text is None:
        raise InputError(f"the database holds no study {study_id[:12]}")
    return str(text)


@lru_cache(maxsize=16)
def _parse_study(text: str) -> Study:
    return Study.restore(text)
