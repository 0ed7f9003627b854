"""A principal: a user, a service account, a machine identity or an API key."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class PrincipalKind(StrEnum):
    USER = "user"
    SERVICE_ACCOUNT = "service_account"
    MACHINE = "machine"
    API_KEY = "api_key"


class PrincipalStatus(StrEnum):
    """INVITED: known, but not yet able to log in; the first login or the set-up link makes it ACTIVE."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    INVITED = "invited"


class Role(StrEnum):
    """Admins do everything; auditors read everything and change or run nothing; all others act for themselves."""

    ADMIN = "admin"
    AUDITOR = "auditor"
    STANDARD = "standard"


@dataclass(frozen=True, slots=True)
class RoleGroups:
    """The names of the groups that give a role. Each organisation may choose its own."""

    admin: str = "admin"
    auditor: str = "auditor"


DEFAULT_ROLE_GROUPS = RoleGroups()


@dataclass(frozen=True, slots=True)
class Principal:
    """`subject` is the stable identifier at the identity's source, `issuer`; empty for our own (spec 2.6)."""

    id: UUID
    org_id: UUID
    subject: str
    email: str
    name: str
    groups: frozenset[str] = frozenset()
    kind: PrincipalKind = PrincipalKind.USER
    status: PrincipalStatus = PrincipalStatus.ACTIVE
    issuer: str = ""
    role_groups: RoleGroups = DEFAULT_ROLE_GROUPS

    @property
    def role(self) -> Role:
        """The strongest role that a group gives."""
        if self.role_groups.admin in self.groups:
            return Role.ADMIN
        return Role.AUDITOR if self.role_groups.auditor in self.groups else Role.STANDARD

    @property
    def is_admin(self) -> bool:
        return self.role is Role.ADMIN

    @property
    def is_auditor(self) -> bool:
        return self.role is Role.AUDITOR

    @property
    def sees_all(self) -> bool:
        """Whether they can read the sessions and settings of others."""
        return self.role is not Role.STANDARD

    @property
    def is_active(self) -> bool:
        return self.status is PrincipalStatus.ACTIVE


class GroupSource(StrEnum):
    """The source of a membership in a group; each source removes only what it added."""

    MANUAL = "manual"
    PROVIDER = "provider"
    SCIM = "scim"


@dataclass(frozen=True, slots=True)
class UserGroup:
    """A group. `members` is their number; None for principals that cannot see it."""

    id: UUID
    org_id: UUID
    name: str
    created_at: datetime | None = None
    external_id: str | None = None
    updated_at: datetime | None = None
    version: int = 1
    members: int | None = 0
    managed_by: str | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """A principal with its profile, and what only login needs.

    `verified` says that the identity provider, or an administrator, vouches for the e-mail address.
    `user_name` and `external_id` are what a provisioning system (SCIM) calls them. `version` counts changes of what
    administrators see: the profile, the status, the groups.
    """

    principal: Principal
    password_hash: str | None = None
    verified: bool = False
    picture: str = ""
    external_id: str | None = None
    user_name: str | None = None
    created_at: datetime | None = None
    last_login_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1
    managed_by: str | None = None

    @property
    def id(self) -> UUID:
        return self.principal.id

    @property
    def org_id(self) -> UUID:
        return self.principal.org_id

    @property
    def name(self) -> str:
        """The name in the API: the e-mail address of a user, the subject of a service account."""
        return self.principal.email


@dataclass(frozen=True, slots=True)
class PrincipalFilter:
    """All given conditions apply. `search` is a part of name or e-mail, ignoring case; `called` is either of them.

    `user_name` is compared ignoring case, and is the e-mail address of those without one.
    """

    kind: PrincipalKind = PrincipalKind.USER
    search: str | None = None
    called: str | None = None
    group: str | None = None
    status: PrincipalStatus | None = None
    email: str | None = None
    name: str | None = None
    external_id: str | None = None
    user_name: str | None = None
