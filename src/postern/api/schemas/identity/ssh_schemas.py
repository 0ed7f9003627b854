"""Bodies of public keys of users and of targets."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import AliasPath, Field

from postern.api.schemas.common import Answer, AttributeAnswer, Body, NamedResourceAnswer, ResourceBody
from postern.domain.targets.host_key import HostKey
from postern.services.identity.logins.ssh_logins import SshLoginRequest

_FINGERPRINT = "`SHA256:…`, as `ssh-keygen -l` prints it"


class SshKeyRequest(Body):
    name: str = Field(description="Name of the key, such as the machine that it is on")
    public_key: str = Field(description="One line, as in ~/.ssh/id_ed25519.pub; a comment at its end is dropped")


class SshKeyAnswer(AttributeAnswer):
    id: UUID
    name: str
    user_id: UUID
    algorithm: str = Field(validation_alias=AliasPath("key", "algorithm"))
    public_key: str = Field(validation_alias=AliasPath("key", "text"))
    fingerprint: str = Field(validation_alias=AliasPath("key", "fingerprint"), description=_FINGERPRINT)
    created_at: datetime
    last_used_at: datetime | None = Field(description="To about a minute")


class HostKeyAnswer(Answer):
    connection_name: str
    algorithm: str
    public_key: str
    fingerprint: str = Field(description=_FINGERPRINT)
    pinned_at: datetime
    session_id: UUID | None = Field(description="The session in which the key was first seen")

    @classmethod
    def of(cls, host_key: HostKey, connection: str) -> HostKeyAnswer:
        return cls(
            connection_name=connection,
            algorithm=host_key.key.algorithm,
            public_key=host_key.key.text,
            fingerprint=host_key.key.fingerprint,
            pinned_at=host_key.pinned_at,
            session_id=host_key.session_id,
        )


class SshAuthorityRequest(ResourceBody):
    read_only = frozenset({"id", "algorithm", "fingerprint", "created_at", "updated_at"})

    name: str
    public_key: str = Field(
        description="One line, as in the .pub file that `ssh-keygen` created with the authority's key"
    )


class SshAuthorityAnswer(NamedResourceAnswer):
    algorithm: str = Field(validation_alias=AliasPath("key", "algorithm"))
    public_key: str = Field(validation_alias=AliasPath("key", "text"))
    fingerprint: str = Field(validation_alias=AliasPath("key", "fingerprint"), description=_FINGERPRINT)
    created_at: datetime
    updated_at: datetime | None


class SshLoginAnswer(Answer):
    """An SSH client that waits for an approval."""

    code: str
    user: str = Field(description="User name that the client sent")
    connection: str = Field(description="Connection, as it was typed")
    address: str = Field(description="Address of the client")
    client: str = Field(description="Version text of the client")
    since: datetime
    your_address: str = Field(description="Address of this request; be careful if it is a different one")

    @classmethod
    def of(cls, login_request: SshLoginRequest, your_address: str) -> SshLoginAnswer:
        return cls(
            code=login_request.code,
            user=login_request.wanted.user,
            connection=login_request.wanted.connection,
            address=login_request.address,
            client=login_request.wanted.client,
            since=login_request.since,
            your_address=your_address,
        )


class SshLoginDecision(Body):
    code: str = Field(max_length=64)
    number: str = Field("", max_length=8, description="Number in the terminal; required to allow it")
    answer: Literal["allow", "deny"]
