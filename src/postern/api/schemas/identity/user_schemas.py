"""Bodies of users and login (spec 2.6, 4.7)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AliasPath, Field

from postern.api.schemas.common import (
    MANAGED_BY,
    Answer,
    AttributeAnswer,
    Body,
    ResourceBody,
    SortedNames,
    refers_to,
    secret,
)
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import PrincipalKind, PrincipalStatus
from postern.domain.secret import Secret


class StatusAnswer(Answer):
    status: str = "ok"


class AccountAnswer(AttributeAnswer):
    """Fields that users and service accounts share."""

    name: str = Field(validation_alias=AliasPath("principal", "name"))
    status: PrincipalStatus = Field(validation_alias=AliasPath("principal", "status"))
    groups: SortedNames = Field(validation_alias=AliasPath("principal", "groups"))
    role: str = Field(validation_alias=AliasPath("principal", "role"), description="admin, auditor or standard")
    managed_by: str | None = Field(description=MANAGED_BY)
    created_at: datetime | None


class UserAnswer(AccountAnswer):
    id: str = Field(validation_alias=AliasPath("principal", "subject"), description="The subject")
    email: str = Field(validation_alias=AliasPath("principal", "email"))
    verified: bool = Field(
        description="Whether the identity provider, or an administrator, confirmed the e-mail address"
    )
    picture: str = Field(description="URL from the identity provider; can be empty")
    last_login_at: datetime | None


class UserInfoAnswer(UserAnswer):
    org_id: str
    org_name: str
    tenancy_type: Literal["selfhosted", "multitenant"]
    is_multitenant: bool
    is_admin: bool
    kind: PrincipalKind
    login_method: LoginMethod | None = Field(description="Null for an API key, and for a token of the provider")
    login_expires_at: datetime | None
    api_key: str | None = Field(description="Name of the API key in use, if any")
    changes_position: str = Field(
        description="Place in the stream of changes when this was read, for `after` of `GET /events/stream`"
    )


_ONLY_OWN = {*UserInfoAnswer.model_fields} - {*UserAnswer.model_fields}


class UserChange(ResourceBody):
    read_only = frozenset({"id", "role", "verified", "picture", "created_at", "last_login_at", *_ONLY_OWN})

    email: str | None = None
    name: str | None = None
    status: Annotated[PrincipalStatus, Field(strict=False)] | None = Field(
        None, description="Unchanged if PUT leaves it out"
    )
    groups: list[str] | None = Field(None, json_schema_extra=refers_to("group"))
    password: str | None = Field(
        None, description="At least 12 characters; ends the user's tokens", json_schema_extra=secret("")
    )

    def fields(self) -> dict[str, Any]:
        values = super().fields()
        return values | {"password": Secret(values["password"])} if "password" in values else values


class UserRequest(UserChange):
    email: str


class PasswordRequest(Body):
    current_password: str
    new_password: str
