"""Bodies of sessions and runs of scripts (spec 2.2, 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Self
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import DEPRECATED, SUBTYPE_NAMES, Answer, Body
from postern.api.schemas.reviews.review_schemas import ReviewAnswer
from postern.api.sessions.result_answers import Format
from postern.domain.sessions.matches import Match
from postern.domain.sessions.results import Problem
from postern.domain.sessions.script_parameters import ParameterValue
from postern.domain.sessions.session import SCRIPT_BEGINNING, Outcome, Session, SessionStatus, Verb
from postern.domain.targets.connection import ConnectionType
from postern.services.recordings.texts import MatchPage

# [milliseconds since start_date, "i" | "o" | "e", base64 content]
Triple = tuple[float, str, str]


class StreamFormat(StrEnum):
    UTF8 = "utf8"
    BASE64 = "base64"
    RAW_QUERIES = "raw-queries"


class ScriptAnswer(Answer):
    data: str


class ScriptBeginningAnswer(ScriptAnswer):
    """The first characters of a script."""

    is_cut: bool = Field(description=f"Whether the script has more than {SCRIPT_BEGINNING} characters")


class SessionAnswer(Answer):
    id: UUID
    org_id: UUID
    connection: str
    connection_subtype: str = Field(json_schema_extra={"enum": SUBTYPE_NAMES})
    connection_tags: dict[str, str]
    type: str = Field(json_schema_extra={"enum": [str(kind) for kind in ConnectionType]})
    verb: Verb
    status: SessionStatus
    user: str
    user_id: str
    user_name: str
    start_date: datetime
    end_date: datetime | None
    outcome: Outcome | None = Field(description="Its result; null while it is not done")
    exit_code: int | None
    script: ScriptAnswer | None = Field(description="Only for verb exec; left out in lists")
    script_size: int = Field(description="Bytes")
    event_size: int = Field(description="Bytes: as stored, or of the event_stream if a format was requested")
    event_stream: list[Triple] | list[str] | None = Field(
        description="Triples of milliseconds, kind and base64 content; for utf8 and base64 one text"
    )
    review: ReviewAnswer | None = Field(description="The review under which it runs, or for which it waits")
    integrations_metadata: dict[str, Any]
    labels: dict[str, str] = Field(description="Use metrics and metadata instead", json_schema_extra=DEPRECATED)
    metadata: dict[str, Any]
    metrics: dict[str, Any]
    recording_purged_at: datetime | None = Field(
        description="Time since which the recording is purged: requests for it get 410; null: nothing was purged"
    )
    held: bool | None = Field(
        default=None,
        description="Whether it is under legal hold; null unless the caller is an administrator or auditor",
    )
    correlation_id: str | None = Field(description="As given with the script")

    @classmethod
    def of(
        cls,
        session: Session,
        *,
        sees_all: bool = False,
        events: list[Triple] | list[str] | None = None,
        event_size: int | None = None,
        review: ReviewAnswer | None = None,
    ) -> Self:
        """Return the session. `sees_all`: the caller can see legal holds."""
        special = {"script", "event_size", "event_stream", "review", "matches", "held"}
        same = {name: getattr(session, name) for name in cls.model_fields if name not in special}
        return cls(
            **same,
            script=None if session.script is None else ScriptAnswer(data=session.script),
            event_size=session.event_size if event_size is None else event_size,
            event_stream=events,
            review=review,
            held=session.holds > 0 if sees_all else None,
        )


class MatchAnswer(Answer):
    """A statement that a search matched."""

    time: float = Field(description="Milliseconds since start_date")
    text: str = Field(description="Part of the statement around the first word, one line")


class MatchesAnswer(Answer):
    data: list[MatchAnswer]
    next_cursor: str | None = Field(description="Continue after this page; null at the end of the recording")

    @classmethod
    def of(cls, page: MatchPage) -> Self:
        return cls(
            data=[MatchAnswer(time=match.milliseconds, text=match.text) for match in page.matches],
            next_cursor=None if page.next is None else str(page.next),
        )


class FoundAnswer(SessionAnswer):
    script: ScriptBeginningAnswer | None = Field(description="Null unless `expand=script` is used; only for verb exec")
    matches: list[MatchAnswer] | None = Field(
        default=None, description="The first matches; null unless `expand=matches` is used with a search"
    )

    @classmethod
    def with_matches(
        cls,
        session: Session,
        matches: Sequence[Match] | None,
        *,
        sees_all: bool = False,
        review: ReviewAnswer | None = None,
    ) -> FoundAnswer:
        answer = cls.of(session, sees_all=sees_all, review=review)
        if matches is not None:
            answer.matches = [MatchAnswer(time=match.milliseconds, text=match.text) for match in matches]
        return answer


class ExecError(Answer):
    """The error of a script."""

    severity: str
    code: str = Field(description="The database's error code, for PostgreSQL the SQLSTATE; empty if there is none")
    text: str
    detail: str
    hint: str
    position: int | None = Field(description="Position in the script, in characters from 1")
    line: int | None = Field(description="Line of the script, from 1, if the position is known")
    column: int | None = Field(description="Position in that line, in characters from 1")
    line_text: str | None = Field(description="That line of the script")

    @classmethod
    def of(cls, problem: Problem, script: str) -> ExecError:
        fields = asdict(problem)
        del fields["fails"]
        at = problem.position
        if at is None or not 1 <= at <= len(script) + 1:
            return cls(**fields, line=None, column=None, line_text=None)
        line_start = script.rfind("\n", 0, at - 1) + 1
        return cls(
            **fields,
            line=script.count("\n", 0, at - 1) + 1,
            column=at - line_start,
            line_text=script[line_start:].partition("\n")[0],
        )


class ExecRequest(Body):
    connection: str
    script: str
    format: Format = Field(Format.TEXT, strict=False, description="Form of `output`")
    metadata: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    correlation_id: str | None = Field(
        default=None, description="The client's own id of the session: printable ASCII, at most 255 characters"
    )
    client_args: list[str] | None = Field(default=None, description="Appended to the connection's own command")
    env_vars: dict[str, str] | None = Field(
        default=None,
        description="`envvar:NAME` to base64; variables that the connection's secrets also set are dropped",
    )
    parameters: dict[str, ParameterValue] | None = Field(
        default=None,
        description="Values for placeholders `:name` of the script, outside of quotes and comments. The database "
        "binds them if its protocol can, otherwise they become literals. Without parameters, colons mean nothing",
    )
    reason: str = Field("", description="Reason for the reviewers, if the script needs a review")
    tracker_fields: dict[str, str] | None = Field(
        default=None,
        description="Fields of the connection's issue template, by the tracker's names",
    )


class MaskedColumnsAnswer(Answer):
    """What one rule masked in the rows of a script's answer."""

    rule: str | None = Field(
        description="The masking rule, or guardrail and rule; null for the information types of the connection itself"
    )
    strategy: str = Field(description="replace, partial, hash or null")
    info_types: list[str] = Field(description="Types of values that were found; empty for a rule about columns")
    columns: list[str] = Field(description="Names of the columns, at most 1,000")
    cells: int


class ExecAnswer(Answer):
    session_id: UUID
    output: str = Field(
        description="For a command: standard output and standard error, in the order in which they came"
    )
    stdout: str | None = Field(default=None, description="For a command: its standard output alone")
    stderr: str | None = Field(default=None, description="For a command: its standard error alone")
    output_streams: list[tuple[Literal["stdout", "stderr", "gateway"], int]] | None = Field(
        default=None,
        description="The stream of each part of `output`, in order: name and number of Unicode characters. `gateway`: "
        "the gateway's reason why the script never started. Empty if the script printed nothing; null "
        "unless `format` is text and `output` is complete, and if the streams alternate very often",
    )
    output_status: Literal["success", "failed", "running", "waiting"] = Field(
        description="waiting: for its review, or, if that is approved, for `POST /sessions/{session_id}/exec`"
    )
    exit_code: int | None = Field(description="Null while it waits or runs, and if it never started")
    error: ExecError | None = Field(description="Why it failed, if the target or a rule says so")
    truncated: bool = Field(
        description="One of these texts is larger than 1 MiB; GET /sessions/{session_id}/results returns all of it"
    )
    masked: list[MaskedColumnsAnswer] | None = Field(
        default=None,
        description="What was masked in the rows, of those beyond 1 MiB not always. Null for a command, which has no "
        "rows, and while the script waits or runs",
    )
    execution_time: int = Field(description="Milliseconds")
    has_review: bool = Field(
        description="Whether it waits for a review; `review` names the approvers, and where they decide"
    )
    review: ReviewAnswer | None = Field(description="Also after the decision; null if no approval was required")
