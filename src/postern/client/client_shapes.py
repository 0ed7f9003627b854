"""Types of the API's answers, as in its JSON (spec section 2). Times are ISO 8601 texts."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

Row = dict[str, Any]  # a resource of the API, as it answers it
Connection = Row
IssuedCredential = Row

# (milliseconds since the session's start, "i" | "o" | "e", base64 content)
EventTriple = tuple[float, str, str]


class ReviewShape(TypedDict):
    """Spec 2.2; `access_duration` in seconds. Fields that the client does not read are passed on unchanged."""

    id: str
    url: str
    session: str | None
    type: str
    status: str
    outcome: NotRequired[str | None]  # gateways of earlier versions do not send it
    connection: str
    owner: dict[str, str]
    client_address: NotRequired[str]
    credential: NotRequired[dict[str, str] | None]
    in_advance: NotRequired[bool]
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
    withdrawal_reason: NotRequired[str]
    self_approved: bool
    forced: bool
    script: str | None
    input: str | None
    estimate: dict[str, Any] | None
    allowed_decisions: NotRequired[list[str]]


class SessionShape(TypedDict):
    """Spec 2.2. `event_stream` and `script` only if they were requested."""

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
    review: NotRequired[ReviewShape | None]


class SessionPage(TypedDict):
    """`total` is None if it was not counted."""

    data: list[SessionShape]
    total: int | None
    total_is_capped: bool
    has_next_page: bool
    next_cursor: str | None


class ExecResult(TypedDict):
    """The result of a script. `output_status` is success, failed, running or waiting; `execution_time` in milliseconds.
    `stdout` and `stderr` only for a command. `output_streams` is None or missing if `output` is incomplete. `masked`
    tells what each rule masked in the rows."""

    session_id: str
    output: str | None
    stdout: NotRequired[str | None]
    stderr: NotRequired[str | None]
    output_streams: NotRequired[list[tuple[str, int]] | None]
    output_status: str
    exit_code: int | None
    error: dict[str, Any] | None
    truncated: bool
    masked: NotRequired[list[dict[str, Any]] | None]
    execution_time: int
    review: NotRequired[ReviewShape | None]


class UserShape(TypedDict):
    id: str
    email: str
    name: str
    groups: list[str] | None


class ServerInfo(TypedDict):
    version: str
    api_url: str
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


class RowPage(TypedDict):
    """One page of a list. Lists that grow with use have `next_cursor`, and do not always have `total`."""

    data: list[Row]
    total: int | None
    has_next_page: bool
    total_is_capped: NotRequired[bool]
    next_cursor: NotRequired[str | None]
