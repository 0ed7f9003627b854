"""Runs of runbooks: a runbook is looked up and rendered, and the result runs like any script."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from postern.domain.durations import duration_text
from postern.domain.identity.principal import Principal
from postern.domain.runbook import PARAMETERS_LABEL, SCHEDULE_LABEL, Parameter, RunbookRef
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session
from postern.domain.targets.command import Invocation, check_variables
from postern.domain.targets.connection import TERMINAL, Connection
from postern.errors import Conflict, Invalid, Malformed
from postern.runbooks.template import MASK, Rendered, RenderError, TemplateError, parse, syntax_of
from postern.services.admission import Access
from postern.services.runbooks.library import RunbookLibrary
from postern.services.runbooks.parsed import Runbook
from postern.services.runbooks.worker_pool import TimeSlices, WorkerPool
from postern.services.sessions import Sessions, check_correlation_id

BATCH_LABEL = "sessionBatchId"
_SHORTEST_HASH = 7
SECONDS = 2.0  # of processor time for one rendering: steps cost different amounts, and others wait for them
_LONGEST_VALUE, _LONGEST_LABEL = 200, 4_000  # characters of a parameter, and of all, as the label has them


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The requested run. `connection` is a name or id; `repository` a name or address, empty where there is only one.

    `ref_hash` is the required commit, or a prefix of it. `arguments` and `variables` are for the connection's command,
    beside those of the runbook; `tracker_fields` go into the issue that it opens. Runs of one `batch_id` are found by
    their label.
    """

    connection: str
    file: str
    repository: str = ""
    ref_hash: str = ""
    parameters: Mapping[str, Secret] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, Secret] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    tracker_fields: Mapping[str, str] = field(default_factory=dict)
    batch_id: str | None = None
    correlation_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Filled:
    """What would run: `text` without hidden values, and the names of the variables that go with it."""

    runbook: RunbookRef
    connection: str
    text: str
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Ready:
    runbook: Runbook
    connection: Connection
    rendered: Rendered
    ref: RunbookRef


class Runs:
    def __init__(self, library: RunbookLibrary, access: Access, sessions: Sessions) -> None:
        self._library = library
        self._access = access
        self._sessions = sessions
        self._turns = WorkerPool()

    async def submit(
        self,
        principal: Principal,
        request: RunRequest,
        *,
        source: str,
        means: str = "",
        session_id: UUID | None = None,
        schedule: str = "",
    ) -> Session:
        """Submit a run, as `Sessions.submit` does. `schedule`: the name of the schedule that runs it.

        Raises NotFound for what does not exist, Denied by a rule or an access mode, Conflict when the commit differs by
        now, Malformed for a template or parameters that do not fit, Invalid, TooMany, Unavailable.
        """
        check_correlation_id(request.batch_id, "session_batch_id")
        ready = await self._ready(principal, request)
        labels = {PARAMETERS_LABEL: _parameters_label(ready.runbook.parameters, request.parameters)}
        if schedule:
            labels[SCHEDULE_LABEL] = schedule
        if request.batch_id is not None:
            labels[BATCH_LABEL] = request.batch_id
        return await self._sessions.submit(
            principal,
            str(ready.connection.id),
            ready.rendered.text,
            source=source,
            metadata=request.metadata,
            labels=labels,
            session_id=session_id,
            invocation=Invocation(request.arguments, {**request.variables, **_environment(ready, request.variables)}),
            correlation_id=request.correlation_id,
            means=means,
            reason=request.reason,
            runbook=ready.ref,
            tracker_fields=request.tracker_fields,
        )

    async def fill(self, principal: Principal, request: RunRequest, *, with_issue: bool = False) -> Filled:
        """Return what `submit` would run, after all checks that are possible before it runs. Raises as `submit`.

        `with_issue`: also check what the issue of its session needs.
        """
        ready = await self._ready(principal, request)
        self._sessions.require_runnable(ready.connection)
        if with_issue:
            await self._sessions.check_issue(ready.connection, request.tracker_fields)
        variables = _environment(ready, request.variables)
        rendered = await self._render(ready.runbook, ready.connection, request, masked=True)
        return Filled(ready.ref, ready.connection.name, rendered.text, tuple(sorted({*request.variables, *variables})))

    async def _ready(self, principal: Principal, request: RunRequest) -> _Ready:
        """Check rights first, so that the error does not reveal whether a file exists that they cannot run."""
        extended = bool(request.arguments or request.variables)
        file = request.file.removeprefix("/")
        repository = await self._library.repository(principal.org_id, request.repository)
        runbook_ref = RunbookRef(repository, file, "", extended)
        connection = await self._access.require_runbook(principal, request.connection, runbook_ref)
        runbook = await self._library.find(principal.org_id, repository, f"/{file}")  # the exact file that was checked
        _require_commit(runbook, request.ref_hash)
        rendered = await self._render(runbook, connection, request)
        return _Ready(
            runbook,
            connection,
            rendered,
            replace(runbook_ref, commit=runbook.commit, place=str(connection.place or "")),
        )

    async def _render(
        self, runbook: Runbook, connection: Connection, request: RunRequest, *, masked: bool = False
    ) -> Rendered:
        """Render in a thread: it may take as long as a template is allowed. `masked` as for `Template.render`."""
        text = runbook.text
        if text is None or runbook.error:
            raise _unusable(runbook, runbook.error)
        values = {name: value.reveal() for name, value in request.parameters.items()}
        syntax = syntax_of(connection.subtype, (*connection.command, *request.arguments), runbook.path)
        try:
            return await self._turns.take(
                connection.org_id,
                lambda slices: parse(text).render(values, syntax, masked=masked, rest=_resting(slices)),
            )
        except RenderError as error:
            raise Malformed(f"parameters: {error.message}", field="parameters") from None
        except TemplateError as error:
            raise _unusable(runbook, error.message) from None


def _resting(slices: TimeSlices) -> Callable[[], None]:
    """Return the callback for a rendering. It raises RenderError when the rendering has taken too long."""
    began = time.thread_time()

    def rest() -> None:
        slices.rest()
        if time.thread_time() - began > SECONDS:
            raise RenderError(
                f"rendering it takes more than {duration_text(SECONDS)} of processor time; use shorter parameters"
            )

    return rest


def _unusable(runbook: Runbook, why: str) -> Malformed:
    return Malformed(
        f"file_name: {runbook.path} cannot be run: {why}; its maintainer must correct it in {runbook.repository}",
        field="file_name",
    )


def _require_commit(runbook: Runbook, commit_hash: str) -> None:
    """Check the commit. An older commit is not fetched by its hash: its errors may have been corrected since."""
    if not commit_hash:
        return
    if len(commit_hash) < _SHORTEST_HASH or not runbook.commit.startswith(commit_hash.lower()):
        raise Conflict(
            f"ref_hash: {runbook.repository} is at commit {runbook.commit} now; review the runbook at that commit "
            "and run it, or leave ref_hash out to run the newest version"
        )


def _environment(ready: _Ready, variables: Mapping[str, Secret]) -> Mapping[str, Secret]:
    """Return the variables that the runbook passes. Raises Invalid where the connection takes none."""
    environment = ready.rendered.environment
    if environment and ready.connection.protocol != TERMINAL:
        raise Invalid(
            f"connection_name: this runbook passes parameters in variables ({', '.join(sorted(environment))}) of a "
            f"command, but connection {ready.connection.name!r} has no command",
            field="connection_name",
        )
    both = sorted(set(environment) & set(variables))
    if both:
        raise Invalid(f"env_vars: the runbook itself passes a parameter in {both[0]!r}; leave it out", field="env_vars")
    # The command would receive the secret instead of the value that was checked.
    secret_names = sorted(set(environment) & {key.partition(":")[2] for key in ready.connection.secret})
    if secret_names:
        raise Invalid(
            f"connection_name: this runbook passes a parameter in {secret_names[0]!r}, which is a secret of connection "
            f"{ready.connection.name!r}",
            field="connection_name",
        )
    return check_variables(environment, "file_name")


def _parameters_label(parameters: tuple[Parameter, ...], inputs: Mapping[str, Secret]) -> str:
    """Return JSON of the given parameters, without hidden ones, bounded by the length of a label."""
    values: dict[str, str] = {}
    text = "{}"
    for parameter in parameters:
        if parameter.name not in inputs:
            continue
        value = MASK if parameter.is_hidden else inputs[parameter.name].reveal()
        values[parameter.name] = value if len(value) <= _LONGEST_VALUE else value[:_LONGEST_VALUE] + "…"
        longer = json.dumps(values, ensure_ascii=False)
        if len(longer) > _LONGEST_LABEL:
            break
        text = longer
    return text
