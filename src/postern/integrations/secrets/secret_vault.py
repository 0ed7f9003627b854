"""HashiCorp Vault and OpenBao, their key-value engines: `_vaultkv1:PATH:KEY` and `_vaultkv2:PATH:KEY`.

The agent's environment has the address and the login, in the variables of Vault's own tools: `VAULT_ADDR`,
`VAULT_TOKEN` or `VAULT_ROLE_ID` with `VAULT_SECRET_ID` (app role), `VAULT_CACERT`, `VAULT_NAMESPACE`.

Source: Vault's HTTP API, "KV secrets engine version 1", "version 2" and "AppRole auth method", which OpenBao shares.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from postern.domain.secret import Secret
from postern.errors import Unavailable
from postern.integrations.secrets import rest
from postern.integrations.secrets.source import Document

# Paths with information about Vault itself, such as the agent's own token; no secrets engine can be mounted there.
_NOT_SECRETS = ("auth", "cubbyhole", "identity", "sys")
_RENEW_AT = 0.8  # of a token's life


class VaultSecrets:
    """The source. `version` is that of the key-value engine. Raises Unavailable when a setting is missing or wrong."""

    def __init__(self, environ: Mapping[str, str], version: int) -> None:
        self._version = version
        self._address = rest.checked_address(environ.get("VAULT_ADDR", ""), "VAULT_ADDR")
        self._trust = _trust(environ.get("VAULT_CACERT", ""))
        self._headers = {"X-Vault-Request": "true"}
        if namespace := environ.get("VAULT_NAMESPACE"):
            self._headers["X-Vault-Namespace"] = namespace
        self._token = Secret(environ.get("VAULT_TOKEN", ""))
        self._role = {"role_id": environ.get("VAULT_ROLE_ID", ""), "secret_id": environ.get("VAULT_SECRET_ID", "")}
        if not self._token and not all(self._role.values()):
            raise Unavailable("neither VAULT_TOKEN nor VAULT_ROLE_ID and VAULT_SECRET_ID are set where the agent runs")
        self._by_role = not self._token
        self._until = float("inf")
        self._logging_in = asyncio.Lock()

    async def fetch(self, name: str) -> Document:
        path = _path(name, self._version)
        answer = await self._read(path, await self._current())
        if answer.status == 403 and self._by_role:  # it may have been revoked early
            answer = await self._read(path, await self._log_in(self._token))
        if answer.status != 200:
            raise Unavailable(_refusal(answer.status))
        data = answer.fields.get("data")
        if self._version == 2:
            data = data.get("data") if isinstance(data, Mapping) else None
        if not isinstance(data, Mapping):
            raise Unavailable(f"Vault did not answer with a secret; check that this engine has version {self._version}")
        return Document(Secret(json.dumps(data)))

    async def _read(self, path: str, token: Secret) -> rest.SecretServiceResponse:
        headers = {**self._headers, "X-Vault-Token": token.reveal()}
        return await rest.ask("GET", f"{self._address}/v1/{path}", headers, trust=self._trust)

    async def _current(self) -> Secret:
        token = self._token
        if token and asyncio.get_running_loop().time() < self._until:
            return token
        return await self._log_in(token)

    async def _log_in(self, former: Secret) -> Secret:
        """Log in again to replace the token `former`, once for all concurrent callers."""
        async with self._logging_in:
            if self._token != former:
                return self._token
            url = f"{self._address}/v1/auth/approle/login"
            asked_at = asyncio.get_running_loop().time()
            answer = await rest.ask("POST", url, self._headers, trust=self._trust, body=self._role)
            token, life = _read_token(answer.fields.get("auth"))
            if answer.status != 200 or not token:
                raise Unavailable(f"Vault rejected the agent's app role (status {answer.status})")
            self._token = token
            self._until = asked_at + life * _RENEW_AT if life else float("inf")
            return token


def _read_token(auth: Any) -> tuple[Secret, float]:
    """Return the token and its lifetime in seconds, 0 for an unlimited one."""
    if not isinstance(auth, Mapping):
        return Secret(""), 0.0
    token, life = auth.get("client_token"), auth.get("lease_duration")
    return Secret(token if isinstance(token, str) else ""), float(life) if isinstance(life, int) else 0.0


def _path(name: str, version: int) -> str:
    """Return the path below `/v1/`. Version 2 has `data` after the mount, which is the first part unless the path
    contains it."""
    parts = name.strip("/").split("/")
    if len(parts) < 2 or any(part in ("", ".", "..") for part in parts):
        raise Unavailable("a path in Vault is written MOUNT/PATH")
    if parts[0].lower() in _NOT_SECRETS:
        raise Unavailable(f"connections cannot refer to paths below {parts[0]!r} in Vault")
    if version == 2 and "data" not in parts[1:-1]:
        parts.insert(1, "data")
    return "/".join(quote(part, safe="") for part in parts)


def _refusal(status: int) -> str:
    reasons = {
        403: "Vault denied the agent access, or the agent's token has expired (status 403)",
        404: "Vault has nothing at this path (status 404)",
        503: "Vault is sealed or in maintenance (status 503)",
    }
    return reasons.get(status, f"Vault answered with status {status}")


def _trust(file: str) -> ssl.SSLContext | None:
    if not file:
        return None
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError):
        raise Unavailable("VAULT_CACERT does not name a file with certificates where the agent runs") from None
