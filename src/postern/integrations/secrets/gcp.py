"""Google Secret Manager: `_gcp:NAME:KEY`, with NAME a secret of the agent's own project or
`projects/PROJECT/secrets/SECRET`, both with `/versions/VERSION` appended for another than the latest version.

Needs `secretmanager.versions.access`. Credentials are found by google-auth as in every Google program (Application
Default Credentials: a key file, workload identity, the metadata server).

Source: Secret Manager API v1, `projects.secrets.versions.access`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

import google.auth
import requests
from google.auth import exceptions
from google.auth.transport.requests import Request

from postern.errors import Unavailable
from postern.integrations.secrets import rest
from postern.integrations.secrets.source import Document, Threads, checked_text

ENDPOINT = "https://secretmanager.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TIMEOUT = 3.0  # seconds, of each request for a token

_PROJECT, _SECRET, _VERSION = r"[a-z0-9.:-]{1,63}", r"[A-Za-z0-9_-]{1,255}", r"[A-Za-z0-9_-]{1,63}"
_NAME = re.compile(rf"(?:projects/({_PROJECT})/secrets/)?({_SECRET})(?:/versions/({_VERSION}))?")


class GoogleAccessTokens:
    """Access tokens of the agent's identity for one scope, renewed when they expire. `project` is the identity's, once
    there was a token."""

    def __init__(self, scope: str) -> None:
        self.project = ""
        self._scope = scope
        self._credentials: Any = None
        self._threads = Threads(most=1)  # credentials are not thread-safe

    async def get(self) -> str:
        """Raises Unavailable."""
        return await self._threads.run(self._get)

    def _get(self) -> str:
        try:
            if self._credentials is None:
                self._credentials, project = google.auth.default(scopes=[self._scope])
                self.project = project or ""
            if not self._credentials.valid:
                self._credentials.refresh(_send_with_timeout)
        except exceptions.DefaultCredentialsError:
            raise Unavailable("no Google credentials were found where the agent runs") from None
        except (exceptions.GoogleAuthError, OSError, ValueError) as error:
            raise Unavailable(f"Google issued no token to the agent: {type(error).__name__}") from None
        return str(self._credentials.token)


class GoogleSecrets:
    def __init__(self, environ: Mapping[str, str], *, endpoint: str = ENDPOINT) -> None:
        self._endpoint = endpoint
        self._project = environ.get("GOOGLE_CLOUD_PROJECT", "")
        self._tokens = GoogleAccessTokens(SCOPE)

    async def fetch(self, name: str) -> Document:
        parts = _NAME.fullmatch(name)
        if parts is None:
            raise Unavailable("a Google secret is named SECRET or projects/PROJECT/secrets/SECRET")
        headers = {"Authorization": f"Bearer {await self._tokens.get()}"}
        project = parts[1] or self._project or self._tokens.project
        if not project:
            raise Unavailable("no Google project is configured; set GOOGLE_CLOUD_PROJECT where the agent runs")
        url = f"{self._endpoint}/v1/projects/{project}/secrets/{parts[2]}/versions/{parts[3] or 'latest'}:access"
        answer = await rest.ask("GET", url, headers)
        if answer.status != 200:
            raise Unavailable(_refusal(answer))
        payload = answer.fields.get("payload")
        data = payload.get("data") if isinstance(payload, Mapping) else None
        content = _decode_base64(data) if isinstance(data, str) else None
        if content is None:
            raise Unavailable("Google Secret Manager did not answer with a secret")
        return Document(checked_text(content))


def _send_with_timeout(
    url: str, method: str = "GET", body: bytes | None = None, headers: Any = None, **more: Any
) -> Any:
    """Send a request of google-auth with our time limit; its own default is two minutes."""
    with requests.Session() as session:
        return Request(session)(url, method, body, headers, **{**more, "timeout": _TIMEOUT})


def _decode_base64(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        return None


def _refusal(answer: rest.SecretServiceResponse) -> str:
    error = answer.fields.get("error")
    status = error.get("status") if isinstance(error, Mapping) else None
    named = f" {status}" if isinstance(status, str) and re.fullmatch(r"[A-Z_]{1,64}", status) else ""
    return f"Google Secret Manager answered{named} ({answer.status})"
