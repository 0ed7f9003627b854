"""Running runbooks."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, cast

from postern.client.client_http import Http
from postern.client.client_resources import prefer
from postern.client.client_shapes import ExecResult
from postern.domain.secret import Secret


@dataclass(frozen=True, slots=True)
class RunbookRun:
    """A runbook to run. `repository` is a name or address; empty if there is only one. `commit`, if given, is the
    required one."""

    connection: str
    file: str
    repository: str = ""
    commit: str = ""
    parameters: Mapping[str, Secret] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        return {
            "connection_name": self.connection,
            "file_name": self.file,
            "repository": self.repository,
            "ref_hash": self.commit,
            "parameters": {name: value.reveal() for name, value in self.parameters.items()},
            "client_args": [*self.arguments],
            "env_vars": {
                f"envvar:{name}": base64.b64encode(value.encode()).decode() for name, value in self.environment.items()
            },
        }


class FilledRunbook(TypedDict):
    """The preview. `text` has `***` for hidden values; `variables` are names."""

    repository: str
    commit: str
    name: str
    connection: str
    text: str
    variables: list[str]


class ScheduleTimes(TypedDict):
    """When a schedule would run next, and its expression in words."""

    description: str
    times: list[str]


class RunbookRuns:
    def __init__(self, http: Http) -> None:
        self._http = http

    def run(
        self,
        runbook_run: RunbookRun,
        *,
        batch: str | None = None,
        reason: str = "",
        tracker_fields: Mapping[str, str] | None = None,
        wait: int | None = None,
    ) -> ExecResult:
        """Run it, like `Sessions.execute`."""
        more = {"session_batch_id": batch, "reason": reason, "tracker_fields": dict(tracker_fields or {})}
        body = {**runbook_run.body, **more}
        return cast(ExecResult, self._http.call("POST", "/runbooks/exec", body=body, headers=prefer(wait)))

    def render(self, runbook_run: RunbookRun) -> FilledRunbook:
        """Return what would run."""
        return cast(FilledRunbook, self._http.call("POST", "/runbooks/render", body=runbook_run.body))

    def times(self, cron: str, zone: str, count: int) -> ScheduleTimes:
        """Return when a schedule with this expression would run next."""
        query = {"cron": cron, "timezone": zone, "count": count}
        return cast(ScheduleTimes, self._http.call("GET", "/runbooks/schedule-times", query=query))
