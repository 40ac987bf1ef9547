"""Single sign-on: OpenID Connect's authorization code flow with PKCE; roles come from a claim of the ID token.

Nothing is asked of any host but the provider's own and those that its description names. The signature of the ID token, its
issuer, audience, times and nonce are checked; an algorithm without a public key is never accepted.
"""

import base64
import hashlib
import json
import os
import secrets
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surefoot.service.outside import OutsideError, send_request
from surefoot.service.trial.api_models import ApiError
from surefoot.study.trial_section import SingleSignOn

SECRET = "SUREFOOT_OIDC_SECRET"  # noqa: S105 - the name of a variable
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
SECONDS = 10.0
"""The longest time that the provider may take for one answer."""
LARGEST = 1_000_000
"""Bytes of an answer."""
FRESH_SECONDS = 3600.0
RETRY_SECONDS = 30.0
"""How soon keys are fetched again because one is not known."""
LEEWAY = 60
"""Seconds by which the clocks of the provider and this server may differ."""
CALLBACK = "/sign-in/oidc/callback"


@dataclass(frozen=True)
class Attempt:
    """One attempt to sign in, kept in a signed cookie of the browser until the provider sends it back."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> "Attempt":
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))

    @property
    def challenge(self) -> str:
        """BASE64URL(SHA-256(verifier)), RFC 7636.

        >>> Attempt("", "", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk").challenge
        'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
        """
        return base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()


@dataclass(frozen=True)
class Person:
    """Who signed in, as the provider says."""

    name: str
    role: str


class Provider:
    """The study's OpenID provider; what it says about itself is read once an hour."""

    def __init__(self, settings: SingleSignOn) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._endpoints: dict[str, Any] = {}
        self._keys: dict[str, Any] = {}
        self._endpoints_at = -FRESH_SECONDS
        self._keys_at = -FRESH_SECONDS

    @property
    def redirect_uri(self) -> str:
        return self._settings.dashboard_url.rstrip("/") + CALLBACK

    def make_address(self, attempt: Attempt) -> str:
        """Where the browser goes to sign in."""
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": self._settings.scope,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        address = self._discover()["authorization_endpoint"]
        return f"{address}{'&' if '?' in address else '?'}{urllib.parse.urlencode(query)}"

    def identify(self, code: str, attempt: Attempt) -> Person:
        """Exchange the code for an ID token, check it, and say who it is about."""
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "client_id": self._settings.client_id,
            "code_verifier": attempt.verifier,
        }
        headers = {}
        secret = os.environ.get(SECRET)
        if secret:
            pair = ":".join(urllib.parse.quote(part, safe="") for part in (self._settings.client_id, secret))
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        answer = self._ask(self._discover()["token_endpoint"], urllib.parse.urlencode(fields).encode(), headers)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise _refuse("the provider sent no ID token")
        return read_person(self._settings, self.check_token(token, attempt.nonce))

    def check_token(self, token: str, nonce: str) -> dict[str, Any]:
        """The claims of an ID token that is right in every respect."""
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError

        client = self._settings.client_id
        rules = jwt.JWTClaimsRegistry(
            now=lambda: int(time.time()),
            leeway=LEEWAY,
            iss={"essential": True, "value": self._settings.issuer},
            aud={"essential": True, "value": client},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            try:
                claims = jwt.decode(token, self._read_keys(), algorithms=ALGORITHMS).claims
            except InvalidKeyIdError:
                # The provider may have changed its keys.
                claims = jwt.decode(token, self._read_keys(renew=True), algorithms=ALGORITHMS).claims
            rules.validate(claims)
        except (JoseError, ValueError) as error:
            raise _refuse(f"the ID token is not valid ({type(error).__name__})") from error
        if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != client:
            raise _refuse("the ID token is for another application")
        return claims

    def _discover(self) -> dict[str, Any]:
        """The addresses that the issuer itself names. Some providers have them on other hosts; they are reached by HTTPS."""
        with self._lock:
            if time.monotonic() - self._endpoints_at < FRESH_SECONDS:
                return self._endpoints
            described = self._ask(self._settings.issuer.rstrip("/") + "/.well-known/openid-configuration")
            if described.get("issuer") != self._settings.issuer:
                raise _refuse("the provider calls itself by another issuer than the study file")
            issuer = urllib.parse.urlsplit(self._settings.issuer)
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                address = urllib.parse.urlsplit(str(described.get(name)))
                is_own = (address.scheme, address.netloc) == (issuer.scheme, issuer.netloc)
                if not is_own and (address.scheme != "https" or not address.hostname):
                    raise _refuse(f"the provider's {name} is neither on its own host nor an https address")
            self._endpoints = described
            self._endpoints_at = time.monotonic()
            return described

    def _read_keys(self, *, renew: bool = False) -> Any:
        from joserfc.jwk import KeySet

        address = self._discover()["jwks_uri"]
        with self._lock:
            age = time.monotonic() - self._keys_at
            if age > (RETRY_SECONDS if renew else FRESH_SECONDS):
                self._keys = self._ask(address)
                self._keys_at = time.monotonic()
            listed = self._keys.get("keys")
        if not isinstance(listed, list) or not all(isinstance(key, dict) for key in listed):
            raise _refuse("the provider's keys cannot be read", 503)
        public = [key for key in listed if key.get("use", "sig") == "sig" and key.get("kty") != "oct"]
        return KeySet.import_key_set({"keys": public})

    def _ask(self, address: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        request = urllib.request.Request(address, body, {"Accept": "application/json", **(headers or {})})  # noqa: S310
        try:
            answer = json.loads(send_request(request, SECONDS, LARGEST))
        except OutsideError as error:
            raise _refuse(f"the provider {error}", 503 if error.status is None else 401) from error
        except (ValueError, RecursionError) as error:
            raise _refuse("the provider's answer is not JSON", 503) from error
        if not isinstance(answer, dict):
            raise _refuse("the provider's answer is not a JSON object")
        return answer


def _refuse(words: str, status: int = 401) -> ApiError:
    return ApiError(status, "sign_in_failed", f"signing in did not work: {words}")


def read_person(settings: SingleSignOn, claims: Mapping[str, Any]) -> Person:
    """Name and role, from the claims that the study names; no role, or several, is refused."""
    value: Any = claims
    for part in settings.claim.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    groups = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    roles = sorted({settings.roles[group] for group in groups if isinstance(group, str) and group in settings.roles})
    name = str(claims.get(settings.name_claim) or claims["sub"])[:120].replace("\0", "")
    if len(roles) != 1:
        problem = f"the roles {', '.join(roles)}; one person has one" if roles else "no role in this study"
        raise ApiError(403, "forbidden", f"your account has {problem}; ask the person who manages accounts")
    return Person(name, roles[0])
