"""Signed sessions: who signed in until when, in a cookie that only the server can make."""

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass

SESSION_SECONDS = 8 * 3600
"""A working day; then the key is asked for again."""
FORM = re.compile(r"([0-9a-f]{12}|-)\.(\d{1,12})\.([0-9a-f]{32})\.([0-9a-f]{64})")
ANONYMOUS = "-"


@dataclass(frozen=True)
class Session:
    """A browser that the server talks to; `prefix` names the key that it signed in with."""

    prefix: str
    text: str
    """What the cookie holds."""


class Sessions:
    """Makes and reads sessions, with a key derived from the study's secret: the same in every worker, after a restart."""

    def __init__(self, secret: bytes) -> None:
        # The draws use keys that begin with "draw-": this one can never be one of them.
        self._key = hmac.digest(secret, b"dashboard sessions", hashlib.sha256)

    def new(self, prefix: str = ANONYMOUS, at: float | None = None) -> Session:
        expires = int((time.time() if at is None else at) + SESSION_SECONDS)
        body = f"{prefix}.{expires}.{secrets.token_hex(16)}"
        return Session(prefix, f"{body}.{self._signature('session', body)}")

    def read(self, text: str, at: float | None = None) -> Session | None:
        """The session of a cookie; None when it is forged, damaged or expired.

        >>> sessions = Sessions(b"secret")
        >>> text = sessions.new("0123456789ab", at=1000.0).text
        >>> sessions.read(text, at=2000.0).prefix, sessions.read(text, at=1e6), sessions.read(text[:-1] + "x")
        ('0123456789ab', None, None)
        """
        form = FORM.fullmatch(text)
        if form is None:
            return None
        body = text.rpartition(".")[0]
        if not hmac.compare_digest(form[4], self._signature("session", body)):
            return None
        return Session(form[1], text) if int(form[2]) > (time.time() if at is None else at) else None

    def digest(self, session: Session) -> bytes:
        """What the database keeps of a session that was ended: enough to know it again, not to use it."""
        return hashlib.sha256(session.text.encode()).digest()

    def form_token(self, session: Session) -> str:
        """What a form of this session must send back: another site can neither read nor guess it."""
        return self._signature("form", session.text)

    def _signature(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()
