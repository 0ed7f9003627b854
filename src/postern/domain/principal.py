"""Who asks: a user, a service account, a machine identity or an API key."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

ADMIN_GROUP = "admin"
AUDITOR_GROUP = "auditor"


class PrincipalKind(StrEnum):
    USER = "user"
    SERVICE_ACCOUNT = "service_account"
    MACHINE = "machine"
    API_KEY = "api_key"


class PrincipalStatus(StrEnum):
    ACTIVE = "active"
    INACTIVE = "inactive"


@dataclass(frozen=True, slots=True)
class Principal:
    """`subject` is the stable identifier of the identity's source (the `sub` claim); spec 2.6."""

    id: UUID
    org_id: UUID
    subject: str
    email: str
    name: str
    groups: frozenset[str] = frozenset()
    kind: PrincipalKind = PrincipalKind.USER
    status: PrincipalStatus = PrincipalStatus.ACTIVE

    @property
    def is_admin(self) -> bool:
        return ADMIN_GROUP in self.groups

    @property
    def is_auditor(self) -> bool:
        return AUDITOR_GROUP in self.groups

    @property
    def is_active(self) -> bool:
        return self.status is PrincipalStatus.ACTIVE
