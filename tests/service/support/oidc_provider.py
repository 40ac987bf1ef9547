"""An OpenID provider: Authlib's authorization server with PKCE required, one client, and users who are let in by name.

Run as a module with a port, the client's redirect address and the users as JSON. `GET /authorize?…&user=NAME` signs NAME in
at once; without it, the page asks. What a browser and a client do with it is what they do with any provider.
"""

import json
import os
import sys
import time
from dataclasses import dataclass

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import grants
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import UserInfo
from authlib.oidc.core.grants import OpenIDCode
from flask import Flask, jsonify, request
from joserfc.jwk import RSAKey

CLIENT, SECRET = "surefoot", "a client's secret: %/+"


@dataclass
class Client:
    redirect_uri: str
    client_id = CLIENT

    def get_client_id(self):
        return CLIENT

    def get_default_redirect_uri(self):
        return self.redirect_uri

    def get_allowed_scope(self, scope):
        return scope

    def check_redirect_uri(self, redirect_uri):
        return redirect_uri == self.redirect_uri

    def check_client_secret(self, secret):
        return secret == SECRET

    def check_endpoint_auth_method(self, method, endpoint):
        return method == "client_secret_basic"

    def check_response_type(self, kind):
        return kind == "code"

    def check_grant_type(self, kind):
        return kind == "authorization_code"


@dataclass
class Code:
    code: str
    redirect_uri: str
    scope: str
    user: str
    nonce: str
    code_challenge: str
    code_challenge_method: str

    def get_redirect_uri(self):
        return self.redirect_uri

    def get_scope(self):
        return self.scope

    def get_nonce(self):
        return self.nonce

    def get_auth_time(self):
        return int(time.time())

    def get_acr(self):
        return None

    def get_amr(self):
        return None


def make_app(port, redirect_uri, users):  # noqa: C901 - the routes of one provider
    issuer = f"http://localhost:{port}"
    client, codes, key = Client(redirect_uri), {}, RSAKey.generate_key(2048, {"kid": "1", "use": "sig"}, auto_kid=False)
    app = Flask(__name__)

    class CodeGrant(grants.AuthorizationCodeGrant):
        def save_authorization_code(self, code, asked):
            data = asked.payload.data
            names = ("redirect_uri", "scope", "nonce", "code_challenge", "code_challenge_method")
            codes[code] = Code(code=code, user=asked.user, **{name: data[name] for name in names})
            return codes[code]

        def query_authorization_code(self, code, client):
            return codes.get(code)

        def delete_authorization_code(self, code):
            del codes[code.code]

        def authenticate_user(self, code):
            return code.user

    class Identity(OpenIDCode):
        def exists_nonce(self, nonce, asked):
            return False

        def get_jwt_config(self, grant=None, client=None):
            return {"key": key.as_dict(private=True), "alg": "RS256", "iss": issuer, "exp": 600}

        def generate_user_info(self, user, scope):
            return UserInfo(sub=user, **users[user])

    known = {CLIENT: client}
    server = AuthorizationServer(app, query_client=known.get, save_token=lambda *_: None)
    server.register_grant(CodeGrant, [Identity(require_nonce=True), CodeChallenge(required=True)])

    @app.get("/.well-known/openid-configuration")
    def describe():
        names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        return jsonify(issuer=issuer, **{name: f"{issuer}/{path}" for name, path in names.items()})

    @app.get("/keys")
    def list_keys():
        return jsonify(keys=[key.as_dict(private=False)])

    @app.get("/authorize")
    def authorize():
        if "user" not in request.args:
            fields = "".join(f'<input type="hidden" name="{name}" value="{value}">' for name, value in request.args.items())
            return f'<form>{fields}<input name="user"><button>Sign in</button></form>'
        grant = server.get_consent_grant(end_user=request.args["user"])
        return server.create_authorization_response(grant=grant, grant_user=request.args["user"])

    @app.post("/token")
    def give_token():
        return server.create_token_response()

    return app


if __name__ == "__main__":
    port, redirect_uri, users = sys.argv[1:]
    make_app(int(port), redirect_uri, json.loads(users)).run("localhost", int(port), threaded=True)
