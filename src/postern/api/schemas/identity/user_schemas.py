"""Users and login (spec 2.6, 4.7)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import Account, PrincipalKind, PrincipalStatus
from postern.domain.secret import Secret
from postern.services.identity.users import UserFields


class StatusAnswer(Answer):
    status: str = "ok"


class AccountAnswer(Answer):
    """What users and service accounts are both shown with."""

    name: str
    status: PrincipalStatus
    groups: list[str]
    role: str = Field(description="admin, auditor or standard")
    created_at: datetime | None

    @staticmethod
    def shared(account: Account) -> dict[str, Any]:
        principal = account.principal
        return {
            "name": principal.name,
            "status": principal.status,
            "groups": sorted(principal.groups),
            "role": principal.role,
            "created_at": account.created_at,
        }


class UserAnswer(AccountAnswer):
    id: str = Field(description="The subject")
    email: str
    verified: bool = Field(description="The identity provider, or an administrator, vouches for the e-mail address")
    picture: str = Field(description="URL, as the identity provider gave it; may be empty")
    last_login_at: datetime | None

    @classmethod
    def of(cls, account: Account) -> UserAnswer:
        principal = account.principal
        return cls(
            id=principal.subject,
            email=principal.email,
            verified=account.verified,
            picture=account.picture,
            last_login_at=account.last_login_at,
            **cls.shared(account),
        )


class UserInfoAnswer(UserAnswer):
    org_id: str
    org_name: str
    tenancy_type: Literal["selfhosted", "multitenant"]
    is_multitenant: bool
    is_admin: bool
    kind: PrincipalKind
    login_method: LoginMethod | None = Field(description="None for an API key, and for a token of the provider")
    login_expires_at: datetime | None
    api_key: str | None = Field(description="The name of the API key that was used, if one was")


_ONLY_OWN = {*UserInfoAnswer.model_fields} - {*UserAnswer.model_fields}


class UserChange(Body):
    """The body of PUT: what is left out or null stays as it is."""

    read_only: ClassVar[frozenset[str]] = frozenset(
        {"id", "role", "verified", "picture", "created_at", "last_login_at", *_ONLY_OWN}
    )

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
