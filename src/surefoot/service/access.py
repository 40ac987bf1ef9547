"""Access: API keys with roles and rate limits, signed sessions of the dashboard, and the trail of staff actions."""

import getpass
import hashlib
import hmac
import re
import secrets
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

import sqlalchemy as sa

from surefoot.errors import InputError, did_you_mean
from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database, lock_sign_ins
from surefoot.service.database.ledger import insert_recorded, record
from surefoot.service.database.schema import keys, sign_ins, staff_actions

Role = Literal["app", "analyst", "coordinator", "monitor", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
KEY_DAYS = 365.0
"""How long a key is good, unless the study says otherwise."""
KEY_FORM = re.compile(r"sf_([0-9a-f]{12})_[0-9a-f]{64}")
SESSION_FORM = re.compile(r"([0-9a-f]{12}|-)\.(\d{1,12})\.([0-9a-f]{32})\.([0-9a-f]{64})")
SESSION_SECONDS = 8 * 3600
"""A working day; then the key is asked for again."""
ANONYMOUS = "-"
"""The prefix of a session before anybody signed in; no key has it."""
SIGN_INS_PER_MINUTE = 10
"""From one address, right or wrong: a key cannot be guessed by trying."""
BURST_SECONDS = 20
"""The requests of this time may come at once."""
MOST_BUCKETS = 10_000
BY_PROVIDER = ", single sign-on"
"""The end of the label of a key that an OpenID provider's word made: a person has many of them, each for eight hours."""
PREFIXES = re.compile(r"(?:\bkey )?\b([0-9a-f]{12})\b")


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

    def is_expired(self, at: datetime) -> bool:
        return self.expires_at is not None and at >= self.expires_at

    def may(self, role: str) -> bool:
        """An admin may do everything, the others what is theirs."""
        return self.role in (role, "admin")


def create_key(database: Database, role: str, label: str = "", *, days: float = KEY_DAYS, by: str = "command line") -> str:
    """A new key (256 random bits), valid for this many days; it cannot be read again."""
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
    columns = [column for column in keys.c if column is not keys.c.digest]
    with database.autocommit() as connection:
        return [dict(row) for row in connection.execute(sa.select(*columns).order_by(keys.c.created_at)).mappings()]


def name_keys(database: Database) -> dict[str, str]:
    """What pages call the holder of each key, by its prefix: the label, or the role where it has none."""
    rows = list_keys(database)
    labels = Counter(row["label"] for row in rows)
    names = {}
    for row in rows:
        name = f"{row['label']} ({row['role']})"
        if not row["label"]:
            name = f"{row['role']} key {row['prefix']}"
        elif labels[row["label"]] > 1 and not row["label"].endswith(BY_PROVIDER):
            name = f"{row['label']} ({row['role']}, key {row['prefix']})"
        names[row["prefix"]] = name
    return names


def replace_prefixes(names: Mapping[str, str], text: str) -> str:
    """A text in which every prefix of a key is replaced by the name of its holder.

    >>> replace_prefixes({"0123456789ab": "Anna (coordinator)"}, "started by key 0123456789ab")
    'started by Anna (coordinator)'
    """
    return PREFIXES.sub(lambda match: names.get(match[1], match[0]), text)


def revoke_key(database: Database, prefix: str, *, by: str = "command line") -> None:
    """End a key; it stays in the list."""
    prefix = prefix.removeprefix("sf_").split("_")[0]
    with database.transaction() as connection:
        if connection.scalar(sa.select(keys.c.prefix).where(keys.c.prefix == prefix)) is None:
            raise InputError(f"there is no key '{prefix}'; surefoot keys list shows them")
        end_key(connection, prefix, by=by)


def end_key(connection: sa.Connection, prefix: str, *, by: str) -> None:
    """In the caller's transaction; nothing happens where there is no such key, or where it has ended."""
    moment = now()
    good = sa.and_(keys.c.prefix == prefix, keys.c.revoked_at.is_(None))
    if connection.execute(sa.update(keys).where(good).values(revoked_at=moment)).rowcount:
        record(connection, "key revoked", [{"prefix": prefix, "revoked_at": moment}])
        record_action(connection, by, "revoked a key", prefix)


def find_caller(database: Database, key: str) -> Caller | None:
    """Who holds this key, expired or not; None for an unknown, revoked or malformed one, after the same work for each."""
    form = KEY_FORM.fullmatch(key)
    with database.autocommit() as connection:
        row = connection.execute(sa.select(keys).where(keys.c.prefix == (form[1] if form else ANONYMOUS))).first()
    is_right = hmac.compare_digest(digest_key(key), bytes(32) if row is None else bytes(row.digest))
    if row is None or not is_right or row.revoked_at is not None:
        return None
    return Caller(row.prefix, row.role, row.expires_at)


def digest_key(key: str) -> bytes:
    """What the database keeps of a key, or of a session that was ended."""
    # 256 random bits need no slow hash: there is nothing to guess.
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


class RateLimiter:
    """A bucket of tokens for each caller, filled at a rate; per worker, so that no request waits for a process.

    A full bucket holds the requests of many seconds: when a cohort is prompted at nine, all of them ask at once, and wait in
    the queue of the group commit.
    """

    def __init__(self, per_second: float, burst: float | None = None) -> None:
        self._rate = per_second
        self._full = BURST_SECONDS * per_second if burst is None else burst
        self._buckets: dict[str, tuple[float, float]] = {}

    def seconds_to_wait(self, caller: str, at: float | None = None) -> float:
        """Seconds until the next request is allowed; 0 when this one is.

        >>> limiter = RateLimiter(2, burst=2)
        >>> [limiter.seconds_to_wait(key, at=10.0) for key in ("a", "a", "a", "b")]
        [0.0, 0.0, 0.5, 0.0]
        """
        moment = time.monotonic() if at is None else at
        tokens, last = self._buckets.get(caller, (self._full, moment))
        tokens = min(self._full, tokens + (moment - last) * self._rate)
        allowed = tokens >= 1
        if len(self._buckets) >= MOST_BUCKETS:
            self._forget_full(moment)
        self._buckets[caller] = (tokens - 1 if allowed else tokens, moment)
        return 0.0 if allowed else (1 - tokens) / self._rate

    def _forget_full(self, moment: float) -> None:
        """Drop buckets that are full again; all of them if none is."""
        buckets = self._buckets.items()
        used = {
            name: (tokens, last) for name, (tokens, last) in buckets if tokens + (moment - last) * self._rate < self._full
        }
        self._buckets = used if len(used) < MOST_BUCKETS else {}


def count_sign_in(database: Database, secret: bytes, address: str) -> float:
    """Count an attempt from an address, at whichever worker; seconds to wait, 0 when this one is allowed."""
    mark = hmac.digest(secret, f"sign-in:{address}".encode(), hashlib.sha256)
    moment = now()
    minute = timedelta(minutes=1)
    with database.transaction() as connection:
        lock_sign_ins(connection)
        # After a clock went back, attempts are dated in the future.
        recent = sign_ins.c.tried_at.between(moment - minute, moment)
        connection.execute(sa.delete(sign_ins).where(~recent))
        attempts = sa.select(sign_ins.c.tried_at).where(sign_ins.c.address == mark).order_by(sign_ins.c.tried_at)
        earlier = list(connection.scalars(attempts))
        if len(earlier) >= SIGN_INS_PER_MINUTE:
            return float(max(0.001, (earlier[0] + minute - moment).total_seconds()))
        connection.execute(sa.insert(sign_ins), {"address": mark, "tried_at": moment})
    return 0.0


class Sessions:
    """Makes and reads sessions, the texts of cookies, with a key derived from the study's secret: the same in every worker,
    after a restart."""

    def __init__(self, secret: bytes) -> None:
        # The draws use keys that begin with "draw-": this one can never be one of them.
        self._key = hmac.digest(secret, b"dashboard sessions", hashlib.sha256)

    def new(self, prefix: str = ANONYMOUS, at: float | None = None) -> str:
        """A session of a browser; `prefix` names the key that it signed in with."""
        expires = int((time.time() if at is None else at) + SESSION_SECONDS)
        body = f"{prefix}.{expires}.{secrets.token_hex(16)}"
        return f"{body}.{self._sign('session', body)}"

    def read(self, session: str, at: float | None = None) -> str | None:
        """The prefix of a session; None when it is forged, damaged or expired.

        >>> sessions = Sessions(b"secret")
        >>> text = sessions.new("0123456789ab", at=1000.0)
        >>> sessions.read(text, at=2000.0), sessions.read(text, at=1e6), sessions.read(text[:-1] + "x")
        ('0123456789ab', None, None)
        """
        form = SESSION_FORM.fullmatch(session)
        if form is None or not hmac.compare_digest(form[4], self._sign("session", session.rpartition(".")[0])):
            return None
        return form[1] if int(form[2]) > (time.time() if at is None else at) else None

    def sign_text(self, text: str) -> str:
        """A text that only this server can have written, for an hour."""
        body = f"{int(time.time()) + 3600}.{text}"
        return f"{body}.{self._sign('text', body)}"

    def read_text(self, signed: str) -> str | None:
        """A signed text; None when it is forged, damaged or expired.

        >>> sessions = Sessions(b"secret")
        >>> signed = sessions.sign_text("a:b")
        >>> sessions.read_text(signed), sessions.read_text(signed + "x"), sessions.read_text("")
        ('a:b', None, None)
        """
        body, _, signature = signed.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("text", body).encode()):
            return None
        moment, _, text = body.partition(".")
        return text if int(moment) > time.time() else None

    def form_token(self, session: str) -> str:
        """What a form of this session must send back: another site can neither read nor guess it."""
        return self._sign("form", session)

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()


def record_action(connection: sa.Connection, by: str, action: str, subject: str = "", detail: str = "") -> None:
    """Put an action on the staff trail, in the transaction that does it."""
    row = {"done_at": now(), "done_by": by[:64], "action": action, "subject": subject[:128], "detail": detail}
    insert_recorded(connection, "staff action", row)


def list_actions(database: Database, skipped: int, number: int) -> tuple[list[dict[str, Any]], int]:
    """This many staff actions after the newest that are skipped, and how many there are in all."""
    chosen = sa.select(staff_actions).order_by(staff_actions.c.id.desc()).offset(skipped).limit(number)
    with database.snapshot() as connection:
        total = connection.scalar(sa.select(sa.func.count()).select_from(staff_actions))
        return [dict(row) for row in connection.execute(chosen).mappings()], int(total or 0)


def name_operator() -> str:
    """Who uses the command line: the system's user."""
    try:
        return f"command line ({getpass.getuser()[:40]})"
    except (KeyError, OSError):
        return "command line"
