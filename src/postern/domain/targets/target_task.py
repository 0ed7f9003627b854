"""A target task: a question about a target that the API asks and a relay worker answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

# Of the JSON of an answer. What is behind it is left out, and the answer says so.
MAX_ANSWER = 1024 * 1024  # bytes
MAX_SCHEMA = 5 * MAX_ANSWER


class TargetTaskKind(StrEnum):
    """The question. Most are about the target's schema; `schema` is all of it at once. `preview` is what would be said
    to the author of a script, for which the target is not asked itself."""

    TEST = "test"
    DATABASES = "databases"
    TABLES = "tables"
    COLUMNS = "columns"
    SCHEMA = "schema"
    PREVIEW = "preview"

    @property
    def max_answer(self) -> int:
        """The most bytes of JSON in an answer."""
        return MAX_SCHEMA if self in (TargetTaskKind.SCHEMA, TargetTaskKind.PREVIEW) else MAX_ANSWER


CATALOGUE_KINDS = frozenset(TargetTaskKind) - {TargetTaskKind.PREVIEW}
"""Those that a query on the target answers."""


class Failure(StrEnum):
    """Why there is no answer."""

    REFUSED = "refused"  # by the gateway's rules, which have changed since it was asked
    MISSING = "missing"  # the target has nothing of that name
    FAILED = "failed"  # the target answered, and refused
    AWAY = "away"  # the target does not answer, or its agent


class TargetStatus(StrEnum):
    """The result of a connection's last test; UNTESTED also where the connection has changed since."""

    OK = "ok"
    FAILED = "failed"
    UNTESTED = "untested"


@dataclass(frozen=True, slots=True)
class TargetTest:
    """The last test of a connection. `place` is the connection's target at that time; `reason` explains a failure to
    users."""

    connection_id: UUID
    org_id: UUID
    place: UUID
    succeeded: bool
    reason: str
    tested_at: datetime

    @property
    def status(self) -> TargetStatus:
        return TargetStatus.OK if self.succeeded else TargetStatus.FAILED


@dataclass(frozen=True, slots=True)
class TargetTask:
    """A task. `arguments` have the names of the API; `source` is the caller's address."""

    id: UUID
    org_id: UUID
    principal_id: UUID
    connection_id: UUID
    kind: TargetTaskKind
    arguments: Mapping[str, str]
    source: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TargetTaskAnswer:
    """An answer. `result` is JSON; `reason` explains a `failure` to users."""

    result: Mapping[str, Any]
    truncated: bool = False
    failure: Failure | None = None
    reason: str = ""
