"""Single sign-on at a real provider, which a process of its own serves; and ID tokens that must not let anybody in."""

import base64
import hmac
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from surefoot.service.app import create_app
from surefoot.service.database.clock import now
from surefoot.service.database.schema import alerts, keys, staff_actions
from surefoot.service.single_sign_on import SECRET, Provider, read_person
from surefoot.service.trial.alerts import raise_periodic_alerts
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from surefoot.study.trial_section import SingleSignOn
from tests.browser import CHROMIUM, WHY_NOT
from tests.service.dashboard.browser import Reader
from tests.service.support import oidc_provider
from tests.service.support.client import Client
from tests.service.support.postgres import free_port
from tests.service.support.servers import Server
from tests.service.support.trials import STUDY, column

USERS = {
    "anna": {"email": "anna@hospital.example", "groups": ["nurses", "everybody"]},
    "bert": {"email": "bert@hospital.example", "groups": ["everybody"]},
    "cara": {"email": "cara@hospital.example", "groups": ["nurses", "it"]},
}
ROLES = '{ nurses = "coordinator", it = "admin" }'


def write_study(issuer, dashboard):
    section = f'[trial.oidc]\nissuer = "{issuer}"\nclient_id = "surefoot"\ndashboard_url = "{dashboard}"\nroles = {ROLES}\n'
    return f"{STUDY}\n{section}"


@contextmanager
def provider(redirect_uri):
    """The issuer of a provider that answers."""
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "tests.service.support.oidc_provider"]
    process = subprocess.Popen(  # noqa: S603 - our own words
        [*command, str(port), redirect_uri, json.dumps(USERS)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://localhost:{port}/keys", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None
                time.sleep(0.05)
        yield f"http://localhost:{port}"
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def hospital(tmp_path, sqlite_tables, monkeypatch):
    """A browser of a trial with single sign-on."""
    monkeypatch.setenv(SECRET, oidc_provider.SECRET)
    with provider("http://testserver/sign-in/oidc/callback") as issuer:
        trial = open_trial(Study.parse(write_study(issuer, "http://localhost/")), f"sqlite:///{tmp_path}/trial.db")
        app = create_app(trial)
        app.state.provider = Provider(trial.settings.oidc.model_copy(update={"dashboard_url": "http://testserver/"}))
        with Client(app, {}) as browser:
            browser.trial, browser.follow_redirects = trial, False
            yield browser


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def let_in(address, user):
    """What the provider sends the browser back with."""
    try:
        urllib.request.build_opener(_Stay).open(f"{address}&user={user}").close()
    except urllib.error.HTTPError as redirect:
        with redirect:
            assert redirect.code == 302
            return redirect.headers["Location"]
    raise AssertionError("the provider did not send the browser back")


def test_a_coordinator_signs_in_at_the_provider(hospital):
    assert "Sign in with your account" in hospital.get("/sign-in").text
    begun = hospital.get("/sign-in/oidc")
    query = parse_qs(urlsplit(begun.headers["location"]).query)
    assert query["code_challenge_method"] == ["S256"] and len(query["state"][0]) > 40 and len(query["nonce"][0]) > 40
    back = let_in(begun.headers["location"], "anna")
    page = hospital.get(back)
    assert page.status_code == 200 and 'content="0;url=/"' in page.text
    assert hospital.get("/").headers["location"] == "/participants", "a coordinator's first page"
    shown = hospital.get("/participants").text
    assert "anna@hospital.example, single sign-on (coordinator)" in shown
    assert column(hospital.trial, keys.c.role) == ["coordinator"]
    raise_periodic_alerts(hospital.trial, now())
    assert "key-expiry" not in column(hospital.trial, alerts.c.kind), "a key of eight hours is not about to expire"
    assert column(hospital.trial, staff_actions.c.action) == ["created a key", "signed in", "viewed"]
    assert hospital.get(back).status_code == 403, "the attempt is over"


def test_people_without_one_role_stay_outside(hospital):
    for user, words in (("bert", "no role in this study"), ("cara", "the roles admin, coordinator")):
        back = let_in(hospital.get("/sign-in/oidc").headers["location"], user)
        refused = hospital.get(back)
        assert refused.status_code == 403 and words in refused.text
    assert column(hospital.trial, keys.c.role) == []


def test_an_answer_to_another_browsers_question_is_refused(hospital):
    address = hospital.get("/sign-in/oidc").headers["location"]
    back = let_in(address, "anna")
    state = parse_qs(urlsplit(back).query)["state"][0]
    mine = dict(hospital.cookies)
    for wrong in (back.replace(state, "x" * len(state)), back.split("?")[0], back.replace("state=", "other=")):
        assert hospital.get(wrong).status_code == 403, wrong
    hospital.cookies.clear()
    assert hospital.get(back).status_code == 403, "no cookie"
    hospital.cookies.update({name: value[:-1] + ("0" if value[-1] != "0" else "1") for name, value in mine.items()})
    assert hospital.get(back).status_code == 403, "a forged cookie"
    hospital.cookies.clear()
    hospital.get("/sign-in/oidc")
    assert hospital.get(back).status_code == 403, "another attempt"
    assert column(hospital.trial, keys.c.role) == []


def test_a_stolen_code_is_worth_nothing_without_the_verifier(hospital):
    """PKCE: a code of one attempt, put into another, is refused by the provider."""
    stolen = parse_qs(urlsplit(let_in(hospital.get("/sign-in/oidc").headers["location"], "anna")).query)["code"][0]
    begun = hospital.get("/sign-in/oidc").headers["location"]
    state = parse_qs(urlsplit(begun).query)["state"][0]
    refused = hospital.get(f"/sign-in/oidc/callback?code={stolen}&state={state}")
    assert refused.status_code == 401 and "the provider answered 400" in refused.text
    denied = hospital.get(f"/sign-in/oidc/callback?error=access_denied&state={state}")
    assert denied.status_code == 401 and column(hospital.trial, keys.c.role) == []


SETTINGS = SingleSignOn(
    issuer="http://localhost:1", client_id="surefoot", dashboard_url="http://localhost/", roles={"nurses": "coordinator"}
)
KEY = RSAKey.generate_key(2048, {"kid": "1"}, auto_kid=False)
CLAIMS = {"iss": "http://localhost:1", "aud": "surefoot", "sub": "anna", "nonce": "n", "groups": "nurses"}


def check(token, keys=(KEY,), nonce="n"):
    checker = Provider(SETTINGS)
    public = {"keys": [key.as_dict(private=False) if key.key_type != "oct" else key.as_dict() for key in keys]}
    answers = {"jwks_uri": public}
    checker._discover = lambda: {"jwks_uri": "jwks_uri"}
    checker._ask = lambda address, *_: answers[address]
    return checker.check_token(token, nonce)


def sign(key=KEY, algorithm="RS256", kid="1", **changes):
    now = int(time.time())
    claims = {**CLAIMS, "iat": now, "exp": now + 60, **changes}
    return jwt.encode(
        {"alg": algorithm, "kid": kid}, {name: value for name, value in claims.items() if value is not None}, key
    )


def test_a_good_token_has_its_claims():
    assert read_person(SETTINGS, check(sign())).role == "coordinator"
    assert check(sign(aud=["surefoot", "other"], azp="surefoot"))["sub"] == "anna"
    curve = ECKey.generate_key("P-256", {"kid": "2"}, auto_kid=False)
    assert check(sign(curve, "ES256", "2"), [KEY, curve])["sub"] == "anna"


@pytest.mark.parametrize(
    "changes",
    [
        *({"iss": "http://localhost:2"}, {"aud": "other"}, {"aud": ["surefoot", "other"]}, {"nonce": "m"}, {"nonce": None}),
        *({"exp": 1_000_000}, {"exp": None}, {"iat": None}, {"sub": None}, {"nbf": 9_999_999_999}, {"kid": "9"}),
    ],
    ids=str,
)
def test_a_token_with_a_wrong_claim_is_refused(changes):
    with pytest.raises(ApiError, match="signing in did not work"):
        check(sign(**changes))


def test_a_token_that_others_could_have_signed_is_refused():
    stranger = RSAKey.generate_key(2048, {"kid": "1"}, auto_kid=False)
    secret = OctKey.import_key("a secret that the provider published by mistake", {"kid": "1"})
    confused = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg":"HS256","kid":"1"}', b"{}"))
    signature = hmac.digest(KEY.as_pem(private=False), confused, "sha256")
    confused = (confused + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()
    unsigned = ".".join((*sign().split(".")[:2], ""))
    none = "eyJhbGciOiJub25lIiwia2lkIjoiMSJ9." + sign().split(".")[1] + "."
    for token in (sign(stranger), sign(secret, "HS256"), confused, unsigned, none, "x.y.z", ""):
        with pytest.raises(ApiError, match="signing in did not work"):
            check(token, [KEY, secret])


def test_a_provider_elsewhere_is_not_asked():
    attempt = SimpleNamespace(state="", nonce="", challenge="")
    away = dict.fromkeys(("authorization_endpoint", "token_endpoint", "jwks_uri"), "http://elsewhere.example/x")
    for described in ({"issuer": "http://localhost:2"}, {"issuer": "http://localhost:1", **away}):
        stranger = Provider(SETTINGS)
        stranger._ask = lambda address, *_, described=described: described
        with pytest.raises(ApiError, match=r"another issuer|neither on its own host nor an https address"):
            stranger.make_address(attempt)
    # Google's and Microsoft's addresses are on several hosts.
    provider = Provider(SETTINGS)
    described = {name: address.replace("http:", "https:") for name, address in away.items()}
    provider._ask = lambda address, *_: {"issuer": "http://localhost:1", **described}
    assert provider.make_address(attempt).startswith("https://elsewhere.example/x?response_type=code")
    with pytest.raises(ApiError, match="cannot be reached") as away:
        Provider(SETTINGS).make_address(SimpleNamespace(state="", nonce="", challenge=""))
    assert away.value.status_code == 503


@pytest.mark.parametrize("keys", [None, "abc", [1]])
def test_keys_that_cannot_be_read_let_nobody_in(keys):
    provider = Provider(SETTINGS)
    provider._discover = lambda: {"jwks_uri": ""}
    provider._ask = lambda *_: {"keys": keys}
    with pytest.raises(ApiError, match="keys cannot be read") as refused:
        provider.check_token(sign(), "n")
    assert refused.value.status_code == 503


def test_nested_claims_name_roles():
    nested = SETTINGS.model_copy(update={"claim": "realm_access.roles", "name_claim": "preferred_username"})
    person = read_person(nested, {"sub": "1", "realm_access": {"roles": ["nurses", 3]}, "preferred_username": "anna"})
    assert (person.name, person.role) == ("anna", "coordinator")
    for claims in ({}, {"realm_access": "nurses"}, {"realm_access": {"roles": {"nurses": True}}}):
        with pytest.raises(ApiError, match="no role"):
            read_person(nested, {"sub": "1", **claims})


def test_without_a_provider_there_is_no_such_page(client):
    assert client.get("/sign-in/oidc").status_code == 404 and "your account" not in client.get("/sign-in").text


@pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)
def test_a_browser_signs_in_across_two_sites(tmp_path, monkeypatch):
    """localhost and 127.0.0.1 are two sites: the cookies of one do not come along from the other."""
    monkeypatch.setenv(SECRET, oidc_provider.SECRET)
    study = tmp_path / "study.toml"
    server = Server(study, f"sqlite:///{tmp_path}/trial.db", 1)
    site = f"http://127.0.0.1:{server.port}"
    with provider(f"{site}/sign-in/oidc/callback") as issuer:
        study.write_text(write_study(issuer, site))
        server.start()
        try:
            with Reader() as browser:
                browser.open(f"{site}/sign-in")
                browser.press("a.button")
                browser.type("input[name=user]", "anna")
                browser.press("button")
                for _ in range(100):
                    # Between two pages there is no body.
                    text = browser.evaluate("document.body ? document.body.innerText : ''") or ""
                    if "anna@hospital.example" in text:
                        break
                    time.sleep(0.1)
                assert "anna@hospital.example" in text
                assert browser.evaluate("location.pathname") == "/participants"
        finally:
            server.kill()
    assert os.environ[SECRET] not in server.log
