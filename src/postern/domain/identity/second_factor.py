"""A second factor: a proof of identity besides the password."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class FactorKind(StrEnum):
    TOTP = "totp"
    WEBAUTHN = "webauthn"
    RECOVERY = "recovery"


@dataclass(frozen=True, slots=True, repr=False)
class SecondFactor:
    """`material`: the shared key of TOTP, the credential of WebAuthn as JSON, or the hash of a recovery code.

    `counter` only grows: the last accepted time step, or the authenticator's signature counter. A factor counts from
    `confirmed_at` on, when it was first proved.
    """

    id: UUID
    user_id: UUID
    kind: FactorKind
    name: str
    material: bytes
    created_at: datetime
    counter: int = 0
    confirmed_at: datetime | None = None
    last_used_at: datetime | None = None

    def __repr__(self) -> str:
        return f"SecondFactor(id={self.id}, kind={self.kind})"
