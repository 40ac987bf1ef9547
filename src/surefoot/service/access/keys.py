"""API keys: 256 random bits, shown once, stored as a hash with a public prefix, each with one role and a rate limit."""

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa

from surefoot.errors import InputError, did_you_mean
from surefoot.service.access.staff_trail import record_action
from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database
from surefoot.service.database.ledger import insert_recorded, record
from surefoot.service.database.schema import keys

ROLES = ("app", "analyst", "coordinator", "monitor", "admin")
Role = Literal["app", "analyst", "coordinator", "monitor", "admin"]
KEY_DAYS = 365.0
"""How long a key is good, unless the study says otherwise."""
FORM = re.compile(r"sf_([0-9a-f]{12})_[0-9a-f]{64}")
ANONYMOUS = "0" * 12
"""A prefix that no key has: malformed keys are looked up as well."""


@dataclass(frozen=True)
class Caller:
    """The holder of a key."""

    prefix: str
    role: str
    expires_at: datetime | None = None
    """None: a key made before keys expired."""

    @property
    def name(self) -> str:
        """What records call them."""
        return f"key {self.prefix}"

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and now() >= self.expires_at

    def may(self, role: Role) -> bool:
        """An admin may do everything, the others what is theirs."""
        return self.role in (role, "admin")


def create_key(database: Database, role: str, label: str = "", *, days: float = KEY_DAYS, by: str = "command line") -> str:
    """A new key, good for so many days; this is the only time that it can be read."""
    if role not in ROLES:
        raise InputError(f"there is no role '{role}'{did_you_mean(role, ROLES)}; choose from {', '.join(ROLES)}")
    if len(label) > 200 or "\0" in label:
        raise InputError("a key's label is at most 200 characters of text")
    if not 0 < days <= 36_500:
        raise InputError(f"a key is good for more than 0 and at most 36,500 days; got {days:g}")
    prefix = secrets.token_hex(6)
    moment = now()
    key = f"sf_{prefix}_{secrets.token_hex(32)}"
    row = {"prefix": prefix, "digest": digest_key(key), "role": role, "label": label, "created_at": moment}
    with database.transaction() as connection:
        insert_recorded(connection, "key", {**row, "expires_at": moment + timedelta(days=days)})
        record_action(connection, by, "created a key", prefix, f"{role}: {label}" if label else role)
    return key


def list_keys(database: Database) -> list[dict[str, Any]]:
    """All keys, without what is secret."""
    columns = [keys.c.prefix, keys.c.role, keys.c.label, keys.c.created_at, keys.c.expires_at, keys.c.revoked_at]
    with database.autocommit() as connection:
        return [dict(row) for row in connection.execute(sa.select(*columns).order_by(keys.c.created_at)).mappings()]


def revoke_key(database: Database, prefix: str, *, by: str = "command line") -> None:
    """End a key; it stays in the list."""
    prefix = prefix.removeprefix("sf_").split("_")[0]
    with database.transaction() as connection:
        known = connection.scalar(sa.select(keys.c.prefix).where(keys.c.prefix == prefix))
        if known is None:
            raise InputError(f"there is no key '{prefix}'; surefoot keys list shows them")
        moment = now()
        good = sa.and_(keys.c.prefix == prefix, keys.c.revoked_at.is_(None))
        if connection.execute(sa.update(keys).where(good).values(revoked_at=moment)).rowcount:
            record(connection, "key revoked", [{"prefix": prefix, "revoked_at": moment}])
            record_action(connection, by, "revoked a key", prefix)


def find_caller(database: Database, key: str) -> Caller | None:
    """Who holds this key, expired or not; None for an unknown, revoked or malformed one, after the same work for each."""
    form = FORM.fullmatch(key)
    given = digest_key(key)
    with database.autocommit() as connection:
        row = connection.execute(sa.select(keys).where(keys.c.prefix == (form[1] if form else ANONYMOUS))).first()
    stored = bytes(32) if row is None else bytes(row.digest)
    right = hmac.compare_digest(given, stored)
    good = right and row is not None and row.revoked_at is None
    return Caller(row.prefix, row.role, row.expires_at) if good and row is not None else None


def digest_key(key: str) -> bytes:
    """What the database keeps of a key."""
    # 256 random bits need no slow hash: there is nothing to guess.
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


class RateLimiter:
    """A bucket of tokens for each key, filled at the study's rate; per worker, so that no request waits for a process."""

    def __init__(self, per_second: float, burst: float | None = None) -> None:
        self._rate = per_second
        self._full = 2 * per_second if burst is None else burst
        self._buckets: dict[str, tuple[float, float]] = {}

    def seconds_to_wait(self, caller: str, at: float | None = None) -> float:
        """Seconds until the next request is allowed; 0 when this one is.

        >>> limiter = RateLimiter(1)
        >>> [limiter.seconds_to_wait(key, at=10.0) for key in ("a", "a", "a", "b")]
        [0.0, 0.0, 1.0, 0.0]
        """
        moment = time.monotonic() if at is None else at
        tokens, last = self._buckets.get(caller, (self._full, moment))
        tokens = min(self._full, tokens + (moment - last) * self._rate)
        if tokens < 1:
            self._buckets[caller] = (tokens, moment)
            return (1 - tokens) / self._rate
        self._buckets[caller] = (tokens - 1, moment)
        return 0.0
