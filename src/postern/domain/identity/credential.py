"""A Credential: the login of a native client, issued for one principal and one connection."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret
from postern.domain.targets.connection import Connection

_USERNAME = re.compile(r"[a-z0-9_]+-[a-z0-9_]+-[a-z2-7]{6}")  # principal, connection, and an unguessable part


@dataclass(frozen=True, slots=True, repr=False)
class Verifier:
    """A SCRAM-SHA-256 verifier (RFC 5802 section 3): it checks a password, and cannot be used to log in."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"Verifier(iterations={self.iterations})"


class CredentialStatus(StrEnum):
    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential. `maker_id` is the principal that issued it for another one. `login_id` is the login with which it
    ends, as a browser opens an application with it."""

    id: UUID
    org_id: UUID
    user_id: UUID
    connection_id: UUID
    username: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None = None
    maker_id: UUID | None = None
    login_id: UUID | None = None

    def status(self, now: datetime) -> CredentialStatus:
        if self.revoked_at is not None:
            return CredentialStatus.REVOKED
        is_over = self.expires_at is not None and now >= self.expires_at
        return CredentialStatus.EXPIRED if is_over else CredentialStatus.ACTIVE

    def is_active(self, now: datetime) -> bool:
        return self.status(now) is CredentialStatus.ACTIVE


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A client certificate with its private key, both PEM; `serial` is hexadecimal. Neither is stored."""

    pem: str
    key: Secret
    serial: str


@dataclass(frozen=True, slots=True)
class Issued:
    """A new credential with its password, which is shown only once: the store has a verifier. Where clients log in by
    certificate there is one, with its key, and the password is empty."""

    credential: Credential
    password: Secret
    connection: Connection
    certificate: ClientCertificate | None = None


@dataclass(frozen=True, slots=True)
class IssuedCredential:
    """A credential that one principal issued to another. `holder` and `connection` are names."""

    credential: Credential
    holder: str
    connection: str


@dataclass(frozen=True, slots=True)
class Grant:
    """A credential with all that a login needs, as stored; not yet a permission. `login_key` is what the login of some
    protocols needs of the password before the client sends it; empty for all others."""

    credential_id: UUID
    username: str
    verifier: Verifier
    principal: Principal
    connection: Connection
    expires_at: datetime | None
    revoked_at: datetime | None
    login_key: bytes = field(default=b"", repr=False)


def is_username(text: str) -> bool:
    """Return whether it has the form of a credential's user name, whether or not one exists."""
    return _USERNAME.fullmatch(text) is not None
