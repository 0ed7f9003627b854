"""Users, login and what the server tells of itself (spec 2.6, 4.7)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.agent import Agent
from postern.domain.principal import Account, PrincipalStatus
from postern.domain.secret import Secret
from postern.services.identity.users import UserFields


class StatusAnswer(Answer):
    status: str = "ok"


class LivenessAnswer(Answer):
    liveness: str = "OK"


class PublicServerInfoAnswer(Answer):
    auth_method: str
    setup_required: bool


class ServerInfoAnswer(Answer):
    version: str
    auth_method: str
    api_url: str
    postgres_host: str
    postgres_port: int
    tunnel_url: str = Field(description="Where the command line opens tunnels")
    ca_certificate: str | None = Field(description="PEM; None when the certificates are publicly trusted")


class UserAnswer(Answer):
    id: str = Field(description="The subject")
    email: str
    name: str
    status: PrincipalStatus
    groups: list[str]
    role: str = Field(description="admin, auditor or standard")

    @classmethod
    def of(cls, account: Account) -> UserAnswer:
        principal = account.principal
        return cls(
            id=principal.subject,
            email=principal.email,
            name=principal.name,
            status=principal.status,
            groups=sorted(principal.groups),
            role=principal.role,
        )


class UserInfoAnswer(UserAnswer):
    org_id: str
    is_admin: bool


class UserChange(Body):
    """The body of PUT: what is left out or null stays as it is."""

    read_only: ClassVar[frozenset[str]] = frozenset({"id", "role", "verified", "org_id", "is_admin"})

    email: str | None = None
    name: str | None = None
    status: Annotated[PrincipalStatus, Field(strict=False)] | None = None
    groups: list[str] | None = None
    password: str | None = Field(None, description="12 characters or more; ends the user's tokens")

    def fields(self) -> UserFields:
        return UserFields(
            email=self.email,
            name=self.name,
            status=self.status,
            groups=None if self.groups is None else tuple(self.groups),
            password=None if self.password is None else Secret(self.password),
        )


class UserRequest(UserChange):
    email: str


class PasswordRequest(Body):
    current_password: str
    new_password: str


class AgentAnswer(Answer):
    id: str
    name: str
    mode: str
    status: str = Field(description="CONNECTED or DISCONNECTED")

    @classmethod
    def of(cls, agent: Agent, *, online: bool) -> AgentAnswer:
        status = "CONNECTED" if online else "DISCONNECTED"
        return cls(id=str(agent.id), name=agent.name, mode=agent.mode, status=status)
