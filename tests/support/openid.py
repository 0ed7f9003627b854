"""A real OpenID provider (pyop) over HTTP on loopback, that can be told to misbehave.

pyop keeps the protocol's state and makes the answers; its JOSE library is another than ours. What it would never do by
itself (a wrong nonce, a token of `none`) is done to its answers here.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from Cryptodome.PublicKey import RSA
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwkest.jwk import RSAKey, SYMKey
from jwkest.jws import JWS
from jwkest.jwt import JWT
from pyop.authz_state import AuthorizationState
from pyop.exceptions import InvalidAccessToken, InvalidClientAuthentication, OAuthError
from pyop.provider import Provider
from pyop.subject_identifier import HashBasedSubjectIdentifierFactory
from pyop.userinfo import Userinfo

CLIENT_ID, CLIENT_SECRET = "postern-client", "s3cret: 100% & more"
SCOPES = ["openid", "profile", "email", "groups", "offline_access"]

Claims = dict[str, Any]


@cache
def _key(number: int) -> RSA.RsaKey:
    """Made by OpenSSL, which takes a twentieth of the time."""
    pem = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return RSA.import_key(pem)


@dataclass
class Reply:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def json_reply(value: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


@dataclass
class OpenIdProvider:
    """`user` is who is logged in at the provider. `tamper` changes the claims of each ID token before it is signed by
    `algorithm`; `replies` replaces the answer of a path; `before` is called with each path that is asked for."""

    port: int
    callback: str
    secret_in_body: bool = False
    user: str = "ann"
    users: dict[str, Claims] = field(default_factory=dict)
    in_id_token: tuple[str, ...] = ()
    tamper: Callable[[Claims], object] | None = None
    algorithm: str = "RS256"
    refuse: str = ""
    names_itself: bool = False
    replies: dict[str, Callable[[Reply], Reply]] = field(default_factory=dict)
    before: Callable[[str], None] | None = None
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        method = "client_secret_post" if self.secret_in_body else "client_secret_basic"
        self.generation = 0
        self.state = AuthorizationState(HashBasedSubjectIdentifierFactory("salt"), refresh_token_lifetime=86_400)
        clients = {
            CLIENT_ID: {
                "client_secret": CLIENT_SECRET,
                "redirect_uris": [self.callback],
                "response_types": ["code"],
                "subject_type": "public",
                "token_endpoint_auth_method": method,
            }
        }
        described = {
            "issuer": self.issuer.replace("http:", "https:"),  # pyop begins with nothing else
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/jwks",
            "scopes_supported": list(SCOPES),
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "token_endpoint_auth_methods_supported": [method],
        }
        self.provider = Provider(
            self.key, described, self.state, clients, Userinfo(self.users), extra_scopes={"groups": ["groups"]}
        )
        self.provider.configuration_information["issuer"] = self.issuer

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def key(self) -> RSAKey:
        return RSAKey(key=_key(self.generation % 2), kid=f"key-{self.generation}", alg="RS256", use="sig")

    def add_user(self, name: str, **claims: Any) -> str:
        """Answers the subject."""
        known: Claims = {"email": f"{name}@example.com", "email_verified": True, "name": name.title()}
        self.users[name] = {**known, "sub": f"subject-of-{name}", **claims}
        return str(self.users[name]["sub"])

    def rotate(self) -> None:
        self.generation += 1
        self.provider.signing_key = self.key

    def revoke_refresh_tokens(self) -> None:
        self.state.refresh_tokens.clear()

    def sign(self, claims: Claims, *, algorithm: str = "RS256", **header: Any) -> str:
        """Whatever is asked for. HS256: with the public key's PEM as the secret."""
        if algorithm == "none":
            return str(JWS(json.dumps(claims), alg="none").sign_compact([]))
        key = self.key
        if algorithm == "HS256":
            key = SYMKey(key=_key(self.generation % 2).publickey().export_key().decode(), kid=key.kid, alg="HS256")
        return str(JWS(json.dumps(claims), alg=algorithm, kid=key.kid, **header).sign_compact([key]))

    def access_token(self, user: str, audience: str, **claims: Any) -> str:
        """A JWT (RFC 9068), as many providers give instead of opaque ones."""
        now = int(time.time())
        base = {"iss": self.issuer, "sub": self.users[user]["sub"], "aud": audience, "iat": now, "exp": now + 300}
        typ = claims.pop("typ", "at+jwt")
        return self.sign({**base, **claims}, typ=typ)

    def answer(self, path: str, query: str, body: str, headers: dict[str, str]) -> Reply:
        self.asked.append(path)
        if self.before is not None:
            self.before(path)
        reply = self._answer(path, query, body, headers)
        return self.replies[path](reply) if path in self.replies else reply

    def _answer(self, path: str, query: str, body: str, headers: dict[str, str]) -> Reply:
        if path == "/.well-known/openid-configuration":
            described = self.provider.provider_configuration.to_dict()
            if self.names_itself:
                described["authorization_response_iss_parameter_supported"] = True
            return json_reply(described)
        if path == "/jwks":
            return json_reply(self.provider.jwks)
        if path == "/authorize":
            return self._authorize(query)
        if path == "/token":
            return self._token(body, headers)
        if path == "/userinfo":
            try:
                return json_reply(self.provider.handle_userinfo_request("", headers).to_dict())
            except InvalidAccessToken:
                return json_reply({"error": "invalid_token"}, 401)
        return json_reply({"error": "not_found"}, 404)

    def _authorize(self, query: str) -> Reply:
        request = self.provider.parse_authentication_request(query)
        if self.refuse:
            location = f"{self.callback}?error={self.refuse}&error_description=%3Cscript%3E&state={request['state']}"
            return Reply(302, b"", {"Location": location})
        answer = self.provider.authorize(request, self.user)
        if self.names_itself:
            answer["iss"] = self.issuer
        return Reply(302, b"", {"Location": answer.request(request["redirect_uri"])})

    def _token(self, body: str, headers: dict[str, str]) -> Reply:
        try:
            given = self.provider.handle_token_request(body, headers, lambda user, _: self._claims_of(user)).to_dict()
        except InvalidClientAuthentication:
            return json_reply({"error": "invalid_client"}, 401)
        except OAuthError as error:
            return json_reply({"error": error.oauth_error}, 400)
        if "id_token" in given and (self.tamper is not None or self.algorithm != "RS256"):
            claims = JWT().unpack(given["id_token"]).payload()
            if self.tamper is not None:
                self.tamper(claims)
            given["id_token"] = self.sign(claims, algorithm=self.algorithm)
        return json_reply(given)

    def _claims_of(self, user: str) -> Claims:
        known = self.users[user]
        return {name: known[name] for name in self.in_id_token if name in known}


@contextmanager
def openid_provider(callback: str, **settings: Any) -> Iterator[OpenIdProvider]:
    """Serves until the end of the block; ann is logged in."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    provider = OpenIdProvider(server.server_address[1], callback, **settings)
    provider.add_user("ann")
    server.openid = provider  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._serve("")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def _serve(self, body: str) -> None:
        parts = urlsplit(self.path)
        provider: OpenIdProvider = self.server.openid  # type: ignore[attr-defined]
        reply = provider.answer(parts.path, parts.query, body, dict(self.headers))
        try:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)
        except (BrokenPipeError, ConnectionResetError):
            return  # the client has seen enough

    def log_message(self, *_: object) -> None:
        """Quiet."""
