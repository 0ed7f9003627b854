"""Google Secret Manager and Azure Key Vault, each with where its tokens come from, as their REST APIs are documented.

They refuse what the documentation does not allow: another method, path, API version, audience, scope or token.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs
from uuid import uuid4

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.support.answering import Asked, Said, answering

PROJECT = "shop-prod"
AUDIENCE = "https://oauth2.googleapis.com/token"  # of what a service account signs, wherever it sends it
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"


@dataclass
class GoogleDouble:
    """`kept` maps `projects/P/secrets/S/versions/V` to what the secret is. Tokens are given for `scope` only."""

    kept: Mapping[str, bytes]
    scope: str = CLOUD_PLATFORM
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._tokens: set[str] = set()

    @contextmanager
    def serve(self) -> Iterator[str]:
        with answering(self._answer) as self.url:
            yield self.url

    def knows(self, token: str) -> bool:
        return token in self._tokens

    def key_file(self, folder: Path) -> Path:
        """Of a service account, as `GOOGLE_APPLICATION_CREDENTIALS` names it."""
        plain = serialization.NoEncryption()
        pem = self._key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        file = folder / "account.json"
        account = {"type": "service_account", "project_id": PROJECT, "private_key_id": "k1", "client_id": "1"}
        account |= {"private_key": pem.decode(), "client_email": "agent@shop-prod.iam.gserviceaccount.com"}
        file.write_text(json.dumps(account | {"token_uri": f"{self.url}/token"}))
        return file

    def _answer(self, asked: Asked) -> Said:
        self.asked.append(asked)
        if asked.path == "/token":
            return self._grant(asked)
        if asked.headers.get("authorization", "").removeprefix("Bearer ") not in self._tokens:
            return _google_error(401, "UNAUTHENTICATED")
        if asked.method != "GET" or not asked.path.startswith("/v1/") or not asked.path.endswith(":access"):
            return _google_error(404, "NOT_FOUND")
        name = asked.path.removeprefix("/v1/").removesuffix(":access")
        if "forbidden" in name:
            return _google_error(403, "PERMISSION_DENIED")
        if name not in self.kept:
            return _google_error(404, "NOT_FOUND")
        data = base64.b64encode(self.kept[name]).decode()
        return Said(200, {"name": name, "payload": {"data": data, "dataCrc32c": "0"}})

    def _grant(self, asked: Asked) -> Said:
        form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
        if asked.method != "POST" or form.get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer":
            return Said(400, {"error": "unsupported_grant_type"})
        try:
            claims = jwt.decode(form["assertion"], self._key.public_key(), algorithms=["RS256"], audience=AUDIENCE)
        except jwt.InvalidTokenError:
            return Said(400, {"error": "invalid_grant"})
        if claims.get("scope") != self.scope:
            return Said(400, {"error": "invalid_scope"})
        token = f"ya29.{uuid4().hex}"
        self._tokens.add(token)
        return Said(200, {"access_token": token, "expires_in": 3599, "token_type": "Bearer"})


def _google_error(code: int, status: str) -> Said:
    return Said(code, {"error": {"code": code, "message": "planted in the message", "status": status}})


@dataclass
class AzureDouble:
    """`kept` maps `NAME` or `NAME/VERSION` to a value. Tokens come from a managed identity's endpoint."""

    kept: Mapping[str, str]
    resource: str
    asked: list[Asked] = field(default_factory=list)
    header: str = field(default_factory=lambda: uuid4().hex)

    def __post_init__(self) -> None:
        self._tokens: set[str] = set()

    @contextmanager
    def serve(self) -> Iterator[str]:
        with answering(self._answer) as url:
            yield url

    def knows(self, token: str) -> bool:
        return token in self._tokens

    def environment(self, url: str) -> dict[str, str]:
        """As App Service gives it to what runs there."""
        return {"AZURE_KEYVAULT_URL": url, "IDENTITY_ENDPOINT": f"{url}/msi/token", "IDENTITY_HEADER": self.header}

    def _answer(self, asked: Asked) -> Said:
        self.asked.append(asked)
        if asked.path == "/msi/token":
            return self._grant(asked)
        if asked.headers.get("authorization", "").removeprefix("Bearer ") not in self._tokens:
            return _azure_error(401, "Unauthorized")
        if asked.query.get("api-version") != "7.4":
            return _azure_error(400, "BadParameter")
        name = asked.path.removeprefix("/secrets/")
        if asked.method != "GET" or name == asked.path or name not in self.kept:
            return _azure_error(404, "SecretNotFound")
        if name == "forbidden":
            return _azure_error(403, "Forbidden")
        attributes = {"enabled": True, "created": 1493938410, "updated": 1493938410}
        return Said(200, {"value": self.kept[name], "id": f"https://v/secrets/{name}/1", "attributes": attributes})

    def _grant(self, asked: Asked) -> Said:
        wrong = asked.method != "GET" or asked.headers.get("x-identity-header") != self.header
        if wrong or asked.query.get("api-version") != "2019-08-01" or asked.query.get("resource") != self.resource:
            return Said(400, {"statusCode": 400, "message": "refused"})
        token = uuid4().hex
        self._tokens.add(token)
        granted = {"access_token": token, "expires_on": str(int(time.time()) + 3600), "token_type": "Bearer"}
        return Said(200, granted | {"resource": self.resource})


def _azure_error(status: int, code: str) -> Said:
    return Said(status, {"error": {"code": code, "message": "planted in the message"}})
