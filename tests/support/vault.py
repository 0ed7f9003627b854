"""Vault's key-value engines and app roles, as its HTTP API documents them; and a real one, where there is one.

The double refuses what Vault refuses: a wrong method, token or namespace, a path of the other version of the engine.
`POSTERN_TEST_VAULT` may name the address of a real Vault or OpenBao in development mode, and `POSTERN_TEST_VAULT_TOKEN`
its root token: then the same tests set it up over the same API and run against it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import quote, unquote
from uuid import uuid4

import httpx
from tests.support.answering import Asked, Said, answering

ROOT = "root-token-of-the-double"
_ERRORS: Mapping[str, object] = {"errors": []}


@dataclass
class VaultDouble:
    """`mounts` maps a mount to its version; `kept` maps API-free paths, mount first, to fields."""

    mounts: Mapping[str, int] = field(default_factory=lambda: {"kv1": 1, "kv2": 2})
    kept: dict[str, Mapping[str, object]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    namespace: str = ""
    role: tuple[str, str] = field(default_factory=lambda: (str(uuid4()), str(uuid4())))
    lease: int = 3600
    asked: list[Asked] = field(default_factory=list)
    tokens: dict[str, float] = field(default_factory=lambda: {ROOT: float("inf")})

    def answer(self, asked: Asked) -> Said:
        self.asked.append(asked)
        if asked.headers.get("x-vault-namespace", "") != self.namespace:
            return Said(404, {"errors": ["no handler for route"]})
        if asked.path == "/v1/auth/approle/login":
            return self._login(asked)
        if self.tokens.get(asked.headers.get("x-vault-token", ""), 0) < time.monotonic():
            return Said(403, {"errors": ["permission denied"]})
        if asked.method != "GET":
            return Said(405, _ERRORS)
        return self._read([unquote(part) for part in asked.path.removeprefix("/v1/").split("/")])

    def _login(self, asked: Asked) -> Said:
        given = json.loads(asked.body)
        if asked.method not in ("POST", "PUT"):
            return Said(405, {"errors": ["unsupported operation"]})
        if (given.get("role_id"), given.get("secret_id")) != self.role:
            return Said(400, {"errors": ["invalid role or secret ID"]})
        token = f"hvs.{uuid4().hex}"
        self.tokens[token] = time.monotonic() + self.lease
        auth = {"client_token": token, "lease_duration": self.lease, "renewable": True, "token_type": "service"}
        return Said(200, {"request_id": str(uuid4()), "data": None, "auth": auth})

    def _read(self, parts: list[str]) -> Said:
        mount, rest = parts[0], parts[1:]
        if mount not in self.mounts:
            return Said(404, {"errors": [f'no handler for route "{"/".join(parts)}". route entry not found.']})
        head = {"request_id": str(uuid4()), "lease_id": "", "renewable": False, "auth": None}
        if self.mounts[mount] == 1:
            found = self.kept.get("/".join([mount, *rest]))
            return (
                Said(404, _ERRORS) if found is None else Said(200, {**head, "lease_duration": 2764800, "data": found})
            )
        if not rest or rest[0] != "data":
            warning = "Invalid path for a versioned K/V secrets engine."
            return Said(404, {**head, "data": None, "warnings": [warning]})
        path = "/".join([mount, *rest[1:]])
        metadata = {"created_time": "2026-01-01T00:00:00Z", "deletion_time": "", "destroyed": False, "version": 1}
        if path in self.deleted:
            gone = {"data": None, "metadata": metadata | {"deletion_time": "2026-01-02T00:00:00Z"}}
            return Said(404, {**head, "lease_duration": 0, "data": gone})
        found = self.kept.get(path)
        if found is None:
            return Said(404, _ERRORS)
        return Said(200, {**head, "lease_duration": 0, "data": {"data": found, "metadata": metadata}})

    @contextmanager
    def serve(self) -> Iterator[str]:
        with answering(self.answer) as url:
            yield url


@dataclass
class RealVault:
    """What the tests need of a server in development mode: engines `kv1` and `kv2`, and one app role."""

    address: str
    token: str

    def set_up(self, kept: Mapping[str, Mapping[str, object]], deleted: set[str]) -> tuple[str, str]:
        """The app role that reads all of it."""
        for mount, version in (("kv1", "1"), ("kv2", "2")):
            self._ask("DELETE", f"sys/mounts/{mount}")
            self._ask("POST", f"sys/mounts/{mount}", {"type": "kv", "options": {"version": version}})
        time.sleep(1)  # version 2 prepares itself
        for path, fields in kept.items():
            mount, _, rest = path.partition("/")
            body = {"data": fields} if mount == "kv2" else fields
            self._ask("POST", f"{mount}/{'data/' if mount == 'kv2' else ''}{quote(rest)}", body)
        for path in deleted:
            self._ask("DELETE", path.replace("kv2/", "kv2/data/"))
        self._ask("POST", "sys/auth/approle", {"type": "approle"})
        rules = 'path "kv1/*" { capabilities = ["read"] } path "kv2/*" { capabilities = ["read"] }'
        self._ask("PUT", "sys/policies/acl/postern", {"policy": rules})
        self._ask("POST", "auth/approle/role/postern", {"token_policies": "postern", "token_ttl": "1h"})
        role = self._ask("GET", "auth/approle/role/postern/role-id")["data"]["role_id"]
        return role, self._ask("POST", "auth/approle/role/postern/secret-id")["data"]["secret_id"]

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, dict[str, str]]:
        url, headers = f"{self.address}/v1/{path}", {"X-Vault-Token": self.token}
        answer = httpx.request(method, url, headers=headers, json=body, timeout=10)
        found: dict[str, dict[str, str]] = answer.json() if answer.content else {}
        return found
