"""Bodies of programs: service accounts, API keys, machine identities; and of groups."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar
from uuid import UUID

from pydantic import AliasPath, Field

from postern.api.info import ServerAddresses
from postern.api.schemas.common import NOT_IN_FILES, Answer, Body, NamedResourceAnswer, ResourceBody, refers_to
from postern.api.schemas.identity.user_schemas import AccountAnswer
from postern.api.schemas.targets.client_line_schemas import ClientCertificateAnswer, client_lines, gateway_identity
from postern.api.schemas.targets.connection_schemas import IssuedCredentialAnswer
from postern.domain.identity.api_key import ApiKey
from postern.domain.identity.credential import Credential, CredentialStatus, Issued, IssuedCredential
from postern.domain.identity.principal import PrincipalStatus

Moment = Annotated[datetime, Field(strict=False)]


class GroupRequest(ResourceBody):
    read_only = ResourceBody.read_only | {"members"}

    name: str = Field(description="Compared exactly, after Unicode normalisation (NFC)")


class GroupAnswer(NamedResourceAnswer):
    members: int | None = Field(description="Number of members; null unless the caller is an administrator or auditor")
    created_at: datetime
    updated_at: datetime | None


class ServiceAccountChange(ResourceBody):
    read_only = frozenset({"id", "subject", "role", "created_at"})

    name: str | None = None
    status: Annotated[PrincipalStatus, Field(strict=False)] | None = Field(
        None, description="active or inactive; unchanged if PUT leaves it out"
    )
    groups: list[str] | None = Field(None, json_schema_extra=refers_to("group"))


class ServiceAccountRequest(ServiceAccountChange):
    read_only = ServiceAccountChange.read_only - {"subject"}

    subject: str


class ServiceAccountAnswer(AccountAnswer):
    id: UUID
    subject: str = Field(validation_alias=AliasPath("principal", "subject"))


class ApiKeyStatus(StrEnum):
    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


class ApiKeyRequest(ResourceBody):
    read_only: ClassVar[frozenset[str]] = ResourceBody.read_only | (
        {"org_id", "masked_key", "status", "role", "created_by", "last_used_at", "deactivated_by", "deactivated_at"}
    )

    name: str
    groups: list[str] | None = Field(
        None, description="Groups of the key itself; not with service_account", json_schema_extra=refers_to("group")
    )
    service_account: str | None = Field(
        None,
        description="Subject of the service account to which the key belongs; cannot be changed",
        json_schema_extra=refers_to("service-account"),
    )
    allowed_networks: list[str] | None = Field(None, description="CIDR; an empty list allows every address")
    expires_at: Moment | None = None
    expires_in_seconds: int | None = Field(None, json_schema_extra=NOT_IN_FILES)


class ApiKeyAnswer(NamedResourceAnswer):
    org_id: UUID
    masked_key: str = Field(description="First characters of the key")
    status: ApiKeyStatus
    groups: list[str]
    role: str = Field(description="admin, auditor or standard")
    service_account: str | None = Field(description="Subject of the service account; null for a key of its own")
    allowed_networks: list[str]
    expires_at: datetime | None
    last_used_at: datetime | None = Field(description="To the minute")
    created_by: str
    created_at: datetime
    updated_at: datetime | None
    deactivated_by: str | None
    deactivated_at: datetime | None

    @classmethod
    def from_key(cls, key: ApiKey, now: datetime) -> ApiKeyAnswer:
        """Return the answer about a key; that of a new key has its secret."""
        principal = key.account.principal
        status = ApiKeyStatus.ACTIVE if key.is_live(now) else ApiKeyStatus.EXPIRED
        same = (
            *("id", "org_id", "name", "managed_by", "expires_at", "last_used_at"),
            *("created_by", "created_at", "updated_at"),
        )
        values = {name: getattr(key, name) for name in same} | {
            "masked_key": f"{key.shown}…",
            "status": ApiKeyStatus.REVOKED if key.revoked_at else status,
            "groups": sorted(principal.groups),
            "role": principal.role,
            "service_account": None if key.acts_for_itself else principal.subject,
            "allowed_networks": list(key.allowed_networks),
            "deactivated_by": key.revoked_by,
            "deactivated_at": key.revoked_at,
        }
        return IssuedApiKeyAnswer(**values, key=key.secret.reveal()) if key.secret else cls(**values)


class IssuedApiKeyAnswer(ApiKeyAnswer):
    """The only answer that contains the key."""

    key: str


class KeyCredentialAnswer(Answer):
    """A credential that an API key issued to a machine identity."""

    id: UUID
    machine_identity: str = Field(description="Name of the machine identity")
    connection_name: str
    username: str
    created_at: datetime
    expires_at: datetime | None

    @classmethod
    def of(cls, issued: IssuedCredential) -> KeyCredentialAnswer:
        credential = issued.credential
        return cls(
            id=credential.id,
            machine_identity=issued.holder,
            connection_name=issued.connection,
            username=credential.username,
            created_at=credential.created_at,
            expires_at=credential.expires_at,
        )


class MachineChangeRequest(ResourceBody):
    """The body of PUT and PATCH; the name cannot change."""

    read_only = ResourceBody.read_only | {"name"}

    description: str | None = None
    connection_names: list[str] | None = Field(None, json_schema_extra=refers_to("connection"))
    attributes: dict[str, str] | None = None
    access_duration_seconds: int | None = Field(None, description="Lifetime of new credentials; default: 30 days")


class MachineRequest(MachineChangeRequest):
    read_only = ResourceBody.read_only

    name: str


class MachineAnswer(NamedResourceAnswer):
    description: str
    connection_names: list[str] = Field(description="Connections for which it has a valid credential")
    attributes: dict[str, str]
    created_at: datetime
    updated_at: datetime


class NewMachineAnswer(MachineAnswer):
    """The only answer that contains the passwords."""

    credentials: list[IssuedCredentialAnswer]


class ChangedMachineAnswer(MachineAnswer):
    """The only answer that contains the passwords for added connections."""

    new_credentials: list[IssuedCredentialAnswer]


class RotationRequest(Body):
    overlap_seconds: int | None = Field(None, description="How long the old credential stays valid; default: 0")
    access_duration_seconds: int | None = Field(None, description="Lifetime of the new credential; default: 30 days")


def issued_answer(issued: Issued, info: ServerAddresses) -> IssuedCredentialAnswer:
    """Return how to log in with it, with the password."""
    credential: Credential = issued.credential
    names = ("id", "username", "created_at", "expires_at", "revoked_at")
    return IssuedCredentialAnswer(
        **{name: getattr(credential, name) for name in names},
        status=CredentialStatus.ACTIVE,
        in_browser=credential.login_id is not None,
        connection_name=issued.connection.name,
        connection_type=issued.connection.type,
        connection_subtype=issued.connection.subtype,
        password=issued.password.reveal(),
        client_certificate=ClientCertificateAnswer.from_issued(issued),
        host=info.native[issued.connection.subtype].host,
        port=info.native[issued.connection.subtype].port,
        database=issued.connection.default_database,
        lines=client_lines(issued, info),
        gateway_identity=gateway_identity(issued.connection.subtype, info),
    )
