"""What the API answers, as it stands in its JSON (spec section 2). Times are ISO 8601 texts."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class Agent(TypedDict):
    id: str
    name: str
    mode: str
    status: str


class Connection(TypedDict):
    """Spec 2.1; only what this client looks into, the rest is passed on as it came."""

    id: str
    name: str
    type: str
    subtype: str
    status: str
    agent_id: str
    agent_name: NotRequired[str]  # this and the next three are not told by gateways of earlier versions
    target: NotRequired[dict[str, str]]
    target_status: NotRequired[str]
    last_test: NotRequired[dict[str, Any] | None]
    command: list[str] | None
    connection_tags: dict[str, str] | None
    default_database: str | None
    access_mode_connect: str
    access_mode_exec: str
    secret: dict[str, str | None] | None
    redact_enabled: bool
    redact_types: list[str] | None
    guardrail_rules: list[str] | None
    guardrails_advisory: bool
    warnings: list[str]


class Credential(TypedDict):
    id: str
    username: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    status: NotRequired[str]  # not told by gateways of earlier versions


class IssuedCredential(Credential):
    """The only answer that holds the password."""

    password: str
    host: str
    port: int
    database: str | None


class GuardRail(TypedDict):
    """Spec 2.5."""

    id: str
    name: str
    description: str
    connection_ids: list[str]
    input: dict[str, Any] | None
    output: dict[str, Any] | None
    notices: NotRequired[list[str]]


class MaskingRule(TypedDict):
    id: str
    name: str
    description: str
    connection_ids: list[str]
    supported_entity_types: list[dict[str, Any]]
    custom_entity_types: list[dict[str, Any]]
    columns: list[str]
    score_threshold: float
    strategy: str
    strictness: str


class MaskedSamples(TypedDict):
    texts: list[str]
    rows: list[list[str | None]]
    info_types: dict[str, int]


# (milliseconds since the session's start, "i" | "o" | "e", base64 content)
EventTriple = tuple[float, str, str]


class Review(TypedDict):
    """Spec 2.2; `access_duration` in seconds. What the client does not look into is passed on as it came."""

    id: str
    url: str
    session: str | None
    type: str
    status: str
    outcome: NotRequired[str | None]  # not told by gateways of earlier versions
    connection: str
    owner: dict[str, str]
    reason: str
    created_at: str
    expires_at: str
    decided_at: str | None
    access_duration: int
    revoke_at: str
    time_window: dict[str, Any] | None
    review_groups_data: list[dict[str, Any]]
    demands: list[dict[str, Any]]
    voices: list[dict[str, Any]]
    rejection_reason: str
    self_approved: bool
    forced: bool
    script: str | None
    input: str | None
    estimate: dict[str, Any] | None


class Session(TypedDict):
    """Spec 2.2. `event_stream` and `script` only where they were asked for."""

    id: str
    connection: str
    connection_subtype: str
    verb: str
    status: str
    outcome: NotRequired[str | None]
    user: str
    start_date: str
    end_date: str | None
    exit_code: int | None
    event_size: int
    metrics: dict[str, Any] | None
    metadata: dict[str, Any] | None
    script: NotRequired[dict[str, str] | None]
    event_stream: NotRequired[list[EventTriple] | None]
    matches: NotRequired[list[dict[str, Any]] | None]
    recording_purged_at: NotRequired[str | None]
    held: NotRequired[bool | None]
    review: NotRequired[Review | None]


class SessionPage(TypedDict):
    """`total` is None where it was not counted."""

    data: list[Session]
    total: int | None
    total_is_capped: bool
    has_next_page: bool
    next_cursor: str | None


class ExecResult(TypedDict):
    """`output_status` is success, failed, running or waiting; `execution_time` in milliseconds. `stdout` and `stderr`
    only of a command."""

    session_id: str
    output: str | None
    stdout: NotRequired[str | None]
    stderr: NotRequired[str | None]
    output_status: str
    exit_code: int | None
    error: dict[str, Any] | None
    truncated: bool
    execution_time: int
    review: NotRequired[Review | None]


class User(TypedDict):
    id: str
    email: str
    name: str
    groups: list[str] | None


class ServerInfo(TypedDict):
    version: str
    api_url: str
    postgres_host: str
    postgres_port: int
    ssh_host: NotRequired[str]
    ssh_port: NotRequired[int]
    tunnel_url: str
    grpc_url: str
    ca_certificate: str | None
    gateway_commands: NotRequired[bool]


class PublicServerInfo(TypedDict):
    """`auth_method` is local, oidc or saml."""

    auth_method: str
    setup_required: bool
    idp_provider_name: NotRequired[str]


class Device(TypedDict):
    """RFC 8628 section 3.2; times in seconds."""

    device_code: str
    user_code: str
    verification_url: str
    verification_url_complete: str
    expires_in: int
    interval: int


Row = dict[str, Any]


class RowPage(TypedDict):
    """One page of a list. Lists that grow with use have `next_cursor`, and may not have counted `total`."""

    data: list[Row]
    total: int | None
    has_next_page: bool
    total_is_capped: NotRequired[bool]
    next_cursor: NotRequired[str | None]
