"""Bodies of connections and their credentials (spec 2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, Self
from uuid import UUID

from pydantic import Field

from postern.api.paging import FacetAnswer, ListAnswer
from postern.api.schemas.common import (
    DEPRECATED,
    NOT_IN_FILES,
    SPOKEN_SUBTYPES,
    SUBTYPE_NAMES,
    SUBTYPE_SPELLINGS,
    Answer,
    AttributeAnswer,
    Body,
    Identifier,
    NamedResourceAnswer,
    ResourceBody,
    refers_to,
)
from postern.api.schemas.targets.client_line_schemas import (
    ClientCertificateAnswer,
    ClientLineAnswer,
    GatewayIdentityAnswer,
)
from postern.domain.identity.credential import Credential, CredentialStatus
from postern.domain.reference import is_reference
from postern.domain.secret import Secret
from postern.domain.targets.connection import ConnectionStatus, ConnectionType, Toggle
from postern.domain.targets.connection_use import OWN_SESSIONS, ConnectionAccess, ConnectionFacet
from postern.domain.targets.target_keys import readable_values
from postern.domain.targets.target_task import TargetStatus, TargetTest
from postern.services.identity.app_logins import AppAddresses
from postern.services.targets.connections import ConnectionView

Mode = Annotated[Toggle, Field(strict=False)]
OptionalMode = Annotated[Toggle | None, Field(strict=False)]
Type = Annotated[ConnectionType, Field(strict=False)]


class ConnectionRequest(ResourceBody):
    read_only: ClassVar[frozenset[str]] = ResourceBody.read_only | {
        *("status", "guardrails_advisory", "warnings"),
        *("agent_name", "target", "target_status", "last_test"),
        *("access", "activity", "url"),
    }
    nullable = frozenset({"access_max_duration", "issue_template_id"})

    name: str
    type: Type
    agent_id: Identifier = Field(json_schema_extra=refers_to("agent"))
    access_mode_connect: Mode
    access_mode_exec: Mode
    access_mode_runbooks: Mode
    access_schema: Mode
    subtype: str | None = Field(
        None, description="Left out or null: unchanged", json_schema_extra={"enum": [*SUBTYPE_SPELLINGS, None]}
    )
    access_max_duration: int | None = Field(None, description="Seconds")
    access_forward_local: OptionalMode = Field(None, description="For SSH: ports of the target's network, by `ssh -L`")
    access_forward_remote: OptionalMode = Field(None, description="For SSH: ports of the target, by `ssh -R`")
    access_forward_agent: OptionalMode = Field(None, description="For SSH: the client's agent, by `ssh -A`")
    access_file_transfer: OptionalMode = Field(None, description="For SSH: sftp, scp, rsync; enabled by default")
    access_mode_web_terminal: OptionalMode = Field(
        None, description="For commands and SSH: terminals in the web application; disabled by default"
    )
    access_fresh_factor: OptionalMode = Field(
        None,
        description="Users of the web terminal, and of applications in a browser, must have confirmed their login in "
        "the last ten minutes before they open it, with `POST /api/login/step-up`; disabled by default",
    )
    command: list[str] | None = Field(
        None,
        description=f"Program and arguments; rejected for {', '.join(SPOKEN_SUBTYPES)}, which have protocols of their "
        "own",
    )
    connection_tags: dict[str, str] | None = None
    description: str | None = Field(None, description="What it is for, for its users; at most 10,000 characters")
    default_database: str | None = Field(
        None, description="Stored as the secret attribute `DB`; null: unchanged", json_schema_extra=NOT_IN_FILES
    )
    force_approve_groups: list[str] | None = Field(None, json_schema_extra=refers_to("group"))
    guardrail_rules: list[str] | None = Field(
        None, description="Left out or null: unchanged", json_schema_extra=NOT_IN_FILES
    )
    issue_template_id: str | None = Field(
        None, alias="tracker_issue_template_id", description="Null or empty: none", json_schema_extra=NOT_IN_FILES
    )
    redact_enabled: bool | None = Field(
        None,
        description="Masks `redact_types`, or the default types if none are given; giving only types sets it to true",
    )
    redact_types: list[str] | None = None
    resource_name: str | None = None
    reviewers: list[str] | None = Field(None, json_schema_extra=refers_to("group"))
    secret: dict[str, str | None] | None = Field(
        None,
        description="Left out or null: unchanged; else it replaces all keys: a null value keeps the stored value of "
        "its key, and keys that are left out are removed",
        json_schema_extra={"x-secret": "secret", "x-keeps": True, "x-encoding": "base64", "x-readable": "target"},
    )
    tags: list[str] | None = Field(
        None, description="Use connection_tags instead", json_schema_extra=DEPRECATED | NOT_IN_FILES
    )

    def fields(self) -> dict[str, Any]:
        return {name: _inward(name, value) for name, value in super().fields().items()}


def _inward(name: str, value: Any) -> Any:
    if name == "secret":
        return {key: None if text is None else Secret(text) for key, text in value.items()}
    return tuple(value) if isinstance(value, list) else value


class LastTestAnswer(Answer):
    """The last test of the connection's target."""

    tested_at: datetime
    status: Literal["ok", "failed"]
    reason: str | None = Field(description="Why it failed, for administrators; null if it succeeded")

    @classmethod
    def of(cls, test: TargetTest, *, with_reason: bool) -> LastTestAnswer:
        reason = test.reason if with_reason and not test.succeeded else None
        return cls(tested_at=test.tested_at, status="ok" if test.succeeded else "failed", reason=reason)


class ConnectionAnswer(NamedResourceAnswer):
    type: ConnectionType
    subtype: str = Field(json_schema_extra={"enum": SUBTYPE_NAMES})
    agent_id: UUID
    agent_name: str
    status: ConnectionStatus = Field(description="Whether its agent is connected; `target_status` is about the target")
    target_status: TargetStatus = Field(
        description="Result of the last test of the target; untested if there was none since its address changed"
    )
    last_test: LastTestAnswer | None
    target: dict[str, str] = Field(
        description="Public settings of the target, for administrators only: HOST, PORT, USER, DB, SSLMODE, if they "
        "are set; a reference is shown as it is"
    )
    access_mode_connect: Toggle
    access_mode_exec: Toggle
    access_mode_runbooks: Toggle
    access_schema: Toggle
    access_forward_local: Toggle
    access_forward_remote: Toggle
    access_forward_agent: Toggle
    access_file_transfer: Toggle
    access_mode_web_terminal: Toggle
    access_fresh_factor: Toggle
    access_max_duration: int | None
    command: list[str]
    connection_tags: dict[str, str]
    description: str
    default_database: str | None
    force_approve_groups: list[str]
    guardrail_rules: list[str]
    guardrails_advisory: bool = Field(
        description="Its guardrails are advisory: a shell can express the same in other ways, and a program can "
        "encode its output"
    )
    tracker_issue_template_id: str | None
    redact_enabled: bool
    redact_types: list[str]
    resource_name: str
    reviewers: list[str]
    secret: dict[str, str | None] = Field(
        description="Its keys, for administrators only; a value is null, unless it is a reference, which is not secret"
    )
    tags: list[str] = Field(description="Use connection_tags instead", json_schema_extra=DEPRECATED)
    url: str | None = Field(description="Where people open it in a browser; null if no browser can")
    warnings: list[str] = Field(description="Settings that have no effect, such as types while redact_enabled is false")

    @classmethod
    def from_view(cls, view: ConnectionView, addresses: AppAddresses, *, with_keys: bool) -> Self:
        connection = view.connection
        same: dict[str, Any] = dict(zip(_SAME, _same_of(connection), strict=True))
        return cls(
            **same,
            status=view.status,
            agent_name=view.agent_name,
            target_status=view.target_status,
            last_test=None if view.last_test is None else LastTestAnswer.of(view.last_test, with_reason=with_keys),
            target=readable_values(connection.subtype, connection.secret) if with_keys else {},
            tracker_issue_template_id=connection.issue_template_id,
            secret=_without_values(connection.secret) if with_keys else {},
            url=addresses.url_of(connection),
        )


# Fields that a connection has under the same name; a page of 100 reads all of these for each.
_DERIVED = frozenset(
    {
        *("status", "agent_name", "target_status", "last_test", "target"),
        *("secret", "tracker_issue_template_id", "url"),
    }
)
_SAME = [name for name in ConnectionAnswer.model_fields if name not in _DERIVED]
_same_of = attrgetter(*_SAME)


class UseAccessAnswer(AttributeAnswer):
    """Whether the caller can use the connection in one way."""

    allowed: bool = Field(description="Whether they can, if required approvals are given")
    needs_review: bool = Field(description="Whether approval is required first")
    reason: str = Field(description="Why not, or which approvals are required; empty if neither applies")


class UsesAnswer(Answer):
    """The ways to use a connection; each has its own access mode."""

    connect: UseAccessAnswer
    exec: UseAccessAnswer
    runbooks: UseAccessAnswer
    schema_: UseAccessAnswer = Field(alias="schema")


class CatalogueAccessAnswer(Answer):
    """What the caller can do with the connection."""

    allowed: bool = Field(description="Whether they can use it in any way")
    reason: str = Field(description="Why they can see it: the access rule and the group, or the role")
    uses: UsesAnswer

    @classmethod
    def of(cls, access: ConnectionAccess) -> CatalogueAccessAnswer:
        uses = {str(use): UseAccessAnswer.of(use_access) for use, use_access in access.uses.items()}
        return cls(allowed=access.allowed, reason=access.reason, uses=UsesAnswer(**uses))


class SessionActivityAnswer(AttributeAnswer):
    last_used: datetime | None = Field(description="When the newest session started; null if there is none")
    open_sessions: int


class ConnectionActivityAnswer(AttributeAnswer):
    """When the connection was used."""

    own: SessionActivityAnswer = Field(
        description=f"Of the caller. `last_used` looks at their newest {OWN_SESSIONS:,} sessions"
    )
    all: SessionActivityAnswer | None = Field(description="Of all users; for administrators and auditors")


class CatalogueAnswer(ConnectionAnswer):
    access: CatalogueAccessAnswer | None = Field(None, description="Null unless `expand=access` is used")
    activity: ConnectionActivityAnswer | None = Field(None, description="Null unless `expand=activity` is used")


class ConnectionListAnswer(ListAnswer[CatalogueAnswer]):
    facets: dict[ConnectionFacet, FacetAnswer] | None = Field(
        None,
        description="The values of each requested field over all pages; `tag` has values such as `env=prod`, for "
        "`tag_selector`. Null unless `facets` is used",
    )


def _without_values(secret: Mapping[str, Secret]) -> dict[str, str | None]:
    return {key: text if is_reference(text := value.reveal()) else None for key, value in secret.items()}


class CredentialRequest(Body):
    access_duration_seconds: int | None = Field(
        None, description="Lifetime; default: 12 hours, and never longer than the connection's access_max_duration"
    )


class CredentialAnswer(Answer):
    id: UUID
    connection_name: str
    username: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    status: CredentialStatus
    in_browser: bool = Field(description="Whether a browser got it to open the connection; it ends with its login")

    @classmethod
    def of(cls, credential: Credential, connection_name: str, now: datetime) -> CredentialAnswer:
        names = ("id", "username", "created_at", "expires_at", "revoked_at")
        same = {name: getattr(credential, name) for name in names}
        is_of_browser = credential.login_id is not None
        return cls(**same, connection_name=connection_name, status=credential.status(now), in_browser=is_of_browser)


class IssuedCredentialAnswer(CredentialAnswer):
    """The only answer that contains the password, or the private key."""

    connection_type: str
    connection_subtype: str
    password: str = Field(description="Empty where clients log in by certificate")
    client_certificate: ClientCertificateAnswer | None = Field(
        None, description="For subtype tcp, whose clients log in by certificate; otherwise null"
    )
    host: str
    port: int
    database: str | None
    has_review: bool = False
    lines: list[ClientLineAnswer] = Field(description="How each client logs in, the protocol's own program first")
    gateway_identity: GatewayIdentityAnswer
