"""Sessions: opened and closed by workers; submitted, listed, read and killed by users."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from postern.domain.facets import Facets
from postern.domain.features import Feature
from postern.domain.identity.principal import Principal
from postern.domain.lists import Count, Page, Stretch
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.permit import Permit
from postern.domain.runbook import RUNBOOK_LABELS, RunbookRef, labels_of
from postern.domain.sessions.results import Result
from postern.domain.sessions.script_parameters import SCRIPT_PARAMETERS_LABEL
from postern.domain.sessions.session import EndReason, Session, SessionStatus, Verb
from postern.domain.targets.command import NOTHING_ADDED, Invocation
from postern.domain.targets.connection import OPAQUE, TERMINAL, Connection
from postern.domain.tracing import current, trace_payload
from postern.errors import Conflict, Denied, Invalid, Misconfigured, NotFound, Unavailable
from postern.services.admission import Access
from postern.services.admission_reasons import scripts_are_impossible
from postern.services.issues.session_issues import NO_FIELDS, Issues
from postern.services.reviews.review_requests import RequestedAccess, ReviewRequests, ReviewRequired
from postern.services.reviews.reviewed_scripts import ReviewedScripts
from postern.services.reviews.reviews import Reviews
from postern.services.script_binding import bind
from postern.services.server.audit_context import record_change
from postern.services.server.server_features import Features
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import PrincipalStore
from postern.store.ports.target_ports import (
    AgentStore,
    Recordings,
    SessionEnd,
    SessionFacet,
    SessionFilter,
    SessionStore,
)

__all__ = ["SessionFacet", "SessionFilter", "Sessions"]

log = logging.getLogger(__name__)

MAX_METADATA_ENTRIES = 20
MAX_METADATA_LENGTH = 2_500
MAX_CORRELATION = 255
MIN_PREFIX = 4  # hexadecimal digits of a shortened id
_CORRELATION = re.compile(rf"[\x20-\x7e]{{1,{MAX_CORRELATION}}}")


class Sessions:
    """`executable` names the protocols in which a script can run."""

    def __init__(
        self,
        *,
        store: SessionStore,
        principals: PrincipalStore,
        access: Access,
        asking: ReviewRequests,
        reviews: Reviews,
        scripts: ReviewedScripts,
        agents: AgentStore,
        issues: Issues,
        recordings: Recordings,
        features: Features,
        signals: Signals,
        now: Clock,
        executable: frozenset[str],
    ) -> None:
        self._store = store
        self._principals = principals
        self._access = access
        self._asking = asking
        self._reviews = reviews
        self._scripts = scripts
        self._agents = agents
        self._issues = issues
        self._recordings = recordings
        self._features = features
        self._signals = signals
        self._now = now
        self._executable = executable

    async def open(
        self,
        permit: Permit,
        *,
        session_id: UUID,
        worker: str,
        metadata: Mapping[str, str],
        tracker_fields: Mapping[str, str] = NO_FIELDS,
    ) -> Session:
        """Store the row of a session that starts now. One INSERT; nothing can be relayed before it.

        Where sessions open an issue it comes first, and raises as `Issues.open`: then there is no row.
        """
        session = replace(
            self._new(permit.principal, permit.connection, permit.verb, session_id),
            worker=worker,
            metadata=_with_trace(metadata),
            credential_id=permit.credential_id,
            review_id=permit.review_id,
        )
        async with self._issues.attach_issue(permit.connection, session, tracker_fields) as opened:
            await self._store.add(opened, principal_id=permit.principal.id, source=permit.source)
        await self._signal_start(session_id)
        return opened

    async def check_issue(self, connection: Connection, tracker_fields: Mapping[str, str]) -> None:
        """Check the issue's fields, for a client that waits before the session opens. Raises as `Issues.check`."""
        await self._issues.check(connection, tracker_fields)

    async def open_issue(self, permit: Permit, session: Session, tracker_fields: Mapping[str, str]) -> None:
        """Open the issue of a resumed session before it runs. Raises as `Issues.open`: then the session must end."""
        await self._issues.open(permit.connection, session, tracker_fields)

    def to_wait(
        self, requested_access: RequestedAccess, *, metadata: Mapping[str, str], session_id: UUID | None = None
    ) -> Session:
        """Return a session that waits for its review, for `ReviewRequests.ask`, which stores it."""
        session = self._new(
            requested_access.principal, requested_access.connection, requested_access.verb, session_id or uuid4()
        )
        return replace(session, metadata=_with_trace(metadata), credential_id=requested_access.credential_id)

    async def resume(self, permit: Permit, *, worker: str, metadata: Mapping[str, str]) -> Session | None:
        """Claim the session that waited for this permit's review for this worker; it is then as `open` returns one.

        None when the permit has none, or another worker has it, or it is done: then call `open`. One UPDATE.
        """
        if permit.session_id is None or permit.verb is not Verb.CONNECT:
            return None
        claimed = await self._store.claim(
            permit.session_id,
            worker,
            self._now(),
            metadata=_with_trace(metadata),
            credential_id=permit.credential_id,
            verb=Verb.CONNECT,
        )
        if claimed is None:
            return None
        await self._signal_start(permit.session_id)
        return claimed[0]

    async def close(
        self,
        session_id: UUID,
        *,
        reason: EndReason,
        exit_code: int | None,
        metrics: Mapping[str, Any],
        event_size: int,
        at: datetime | None = None,
    ) -> None:
        """End the session; does nothing when it is done already.

        `event_size` in bytes, as stored; `at` is the time of its end, now if not given.
        """
        await self._end(session_id, SessionEnd(at or self._now(), reason, exit_code, metrics, event_size))

    async def _end(self, session_id: UUID, ended: SessionEnd) -> None:
        has_ended = await self._store.end(session_id, ended)
        await self._scripts.settle_session(session_id)
        if has_ended:
            await self._signals.publish(Topic.SESSION_DONE, session_id=str(session_id))

    async def submit(
        self,
        principal: Principal,
        connection_name: str,
        script: str,
        *,
        source: str,
        metadata: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        session_id: UUID | None = None,
        invocation: Invocation = NOTHING_ADDED,
        correlation_id: str | None = None,
        means: str = "",
        reason: str = "",
        runbook: RunbookRef | None = None,
        tracker_fields: Mapping[str, str] = NO_FIELDS,
    ) -> Session:
        """Submit a script for a worker to run; callers that need its end wait for `session.done`.

        Where approval is required, the returned session waits for it instead: `open`, with its `review_id`. It runs
        once its owner calls `execute`.

        `session_id` lets the caller choose the id and so listen before the run can end. `means` is the auth method and
        login, `reason` is shown to reviewers. `runbook` is the source of the script: its rights apply instead of those
        for scripts, and its labels name it. `tracker_fields` go into the issue that it opens; that is created first, so
        that reviewers see it. `invocation` has the script's parameters, and what is for commands; its variables that
        the connection's secrets have too are dropped.

        Raises NotFound, Denied, Invalid, TooMany, and Unavailable where its issue cannot be created, or it needs a
        review while the connection's agent is offline.
        """
        await self._features.require(principal.org_id, Feature.SCRIPT_RUNS)
        target, requested_access = await self._target(principal, connection_name, source, means, runbook)
        self.require_runnable(target)
        if invocation.is_for_commands and target.protocol != TERMINAL:
            raise Invalid("client_args and env_vars: only for connections that have a command", field="client_args")
        if invocation.parameters:  # a worker binds them; here is where their author hears of errors
            await asyncio.to_thread(bind, script, invocation.parameters, target)
        check_metadata(metadata or {})
        check_correlation_id(correlation_id)
        _check_labels(labels or {}, runbook)
        session = replace(
            self._new(principal, target, Verb.EXEC, session_id or uuid4()),
            status=SessionStatus.READY if requested_access is None else SessionStatus.OPEN,
            script=script,
            script_size=len(script.encode()),
            metadata=_with_trace(metadata or {}),
            labels={
                **(labels or {}),
                **({} if runbook is None else labels_of(runbook)),
                **_label_of_parameters(invocation),
            },
            runbook=runbook,
            correlation_id=correlation_id,
        )
        invocation = _without_secrets_of(target, invocation)
        async with self._issues.attach_issue(target, session, tracker_fields) as session:
            if requested_access is not None:
                review = await self._asking.ask(requested_access, reason=reason, session=session, invocation=invocation)
                session = replace(session, review_id=review.id)
            else:
                await self._store.add(session, principal_id=principal.id, source=source, invocation=invocation)
        if requested_access is None:
            await self._signals.publish(Topic.SESSION_RUN, session_id=str(session.id), **trace_payload())
        record_change(None, _audit_fields(session))
        return session

    async def _target(
        self, principal: Principal, connection: str, source: str, means: str, runbook: RunbookRef | None
    ) -> tuple[Connection, RequestedAccess | None]:
        """Return where it would run, and the access to request where approval is required. Raises as `submit`."""
        try:
            permit = await self._access.admit_principal(
                principal, connection, verb=Verb.EXEC, source=source, means=means, runbook=runbook
            )
        except ReviewRequired as required:
            await self._require_agent(required.requested_access.connection)
            return required.requested_access.connection, required.requested_access
        return permit.connection, None

    async def _require_agent(self, target: Connection) -> None:
        """Check that the connection's agent is online, before reviewers are asked in vain. Raises Unavailable."""
        agent = await self._agents.by_id(target.agent_id)
        if agent is None or not agent.is_online(self._now()):
            name = "" if agent is None else f" {agent.name!r}"
            raise Unavailable(
                f"the agent{name} of connection {target.name!r} is offline, so nothing can run there; no review "
                "was requested. Start the agent, or ask its operator, and try again"
            )

    def require_runnable(self, target: Connection) -> None:
        """Raise Invalid where no script can run."""
        if target.protocol in OPAQUE:
            raise Invalid(f"connection: {scripts_are_impossible(target)}", field="connection")
        if target.protocol not in self._executable:
            raise Invalid(f"connection: scripts cannot be run yet on subtype {target.subtype!r}", field="connection")

    async def execute(self, principal: Principal, session_id: UUID | str) -> Session:
        """Run what was submitted and approved, once, for its owner.

        Callers that need its end wait for `session.done`. Raises NotFound, Denied outside of its time window and when
        they could not run it now, Conflict when it does not wait to run.
        """
        await self._features.require(principal.org_id, Feature.SCRIPT_RUNS)
        session = await self.get(principal, session_id)
        review = await self._scripts.start(principal, session)
        record_change({"id": session.id, "review_status": ReviewStatus.APPROVED}, _audit_fields(session))
        await self._signals.publish(Topic.SESSION_RUN, session_id=str(session.id), **trace_payload())
        return replace(session, review_id=review.id)

    async def claim(self, session_id: UUID, worker: str) -> tuple[Session, Permit, Invocation] | None:
        """Claim a ready session for this worker: exactly one caller gets it, the others None.

        Admission is checked again, since time has passed. When it is denied now the session ends as failed.
        """
        claimed = await self._store.claim(session_id, worker, self._now(), verb=Verb.EXEC)
        if claimed is None:
            return None
        session, principal_id, source = claimed
        try:
            invocation = await self._store.take_invocation(session_id)
            account = await self._principals.get(session.org_id, principal_id)
            if account is None:
                raise Denied("this user was deleted")
            await self._features.require(session.org_id, Feature.SCRIPT_RUNS)
            if session.review_id is not None:
                permit = await self._scripts.admit(session, account.principal)
            else:
                connection = str(session.connection_id)
                permit = await self._access.admit_principal(
                    account.principal, connection, verb=session.verb, source=source, runbook=session.runbook
                )
        except (Denied, NotFound, Misconfigured, Unavailable) as refusal:
            log.info("script not run: session=%s reason=%s", session_id, refusal.message)
            if session.review_id is not None:
                self._scripts.cannot_run(session_id)
            await self._end(session_id, SessionEnd(self._now(), EndReason.FAILED, exit_code=1, detail=refusal.message))
            return None
        await self._signal_start(session_id)
        return session, permit, invocation

    async def _signal_start(self, session_id: UUID) -> None:
        await self._signals.publish(Topic.SESSION_STARTED, session_id=str(session_id))

    async def recover(self, worker: str) -> list[UUID]:
        """Return sessions that a worker of this name left open when it died; the caller closes each."""
        return await self._store.ids(SessionStatus.OPEN, worker)

    async def waiting(self) -> list[UUID]:
        """Return scripts that are ready to run, for a worker that has just started."""
        return await self._store.ids(SessionStatus.READY, None)

    async def facets(self, principal: Principal, where: SessionFilter, names: Sequence[SessionFacet]) -> Facets:
        """Count the values of fields, over all pages of `find`. Raises Invalid for a search, Denied as `find`."""
        if where.search is not None:
            raise Invalid("search: the values of a search cannot be counted; leave it out", field="search")
        return await self._store.facets(principal.org_id, _limit_to_visible(principal, where), names)

    async def find(self, principal: Principal, where: SessionFilter, page: Page) -> Stretch[Session]:
        """Return sessions, newest first. Users who are neither admin nor auditor find only their own.

        Raises Invalid for a search by offset, or with an exact count, Denied where they ask which are held.
        """
        if where.search is not None and page.offset:
            raise Invalid("offset: a search cannot be used with an offset; page with its cursor", field="offset")
        if where.search is not None and page.count is Count.EXACT:
            raise Invalid("count: the matches of a search cannot be counted exactly", field="count")
        return await self._store.find(principal.org_id, _limit_to_visible(principal, where), page)

    async def script_beginnings(self, sessions: Sequence[Session]) -> Mapping[UUID, tuple[str, bool]]:
        """Return the beginnings of the scripts of sessions that `find` returned, and whether there is more of each."""
        return await self._store.script_beginnings([session.id for session in sessions])

    async def get(self, principal: Principal, session_id: UUID | str) -> Session:
        """Return the session of that identifier, or the only one of theirs whose identifier has this prefix.

        Raises NotFound also when it is another user's, or the text is not an identifier, and Invalid for an ambiguous
        prefix.
        """
        key = _as_uuid(session_id) or await self._complete(principal, str(session_id))
        session = await self._store.get(principal.org_id, key) if key else None
        if session is None or not (_sees_all(principal) or _owns(principal, session)):
            raise NotFound(f"there is no session {session_id}, or it is not yours")
        return session

    async def get_without_recording(self, principal: Principal, session_id: UUID | str) -> Session:
        """`get`, also for reviewers: principals that can decide a review can read its session and script. Its
        recording stays with the owner, administrators and auditors, since a reviewer may have no access to the data.
        Raises NotFound."""
        try:
            return await self.get(principal, session_id)
        except NotFound:
            key = _as_uuid(session_id)
            session = await self._store.get(principal.org_id, key) if key else None
            if session is None or not await self._reviews.decides(principal, session.id):
                raise
            return session

    async def _complete(self, principal: Principal, beginning: str) -> UUID | None:
        """Return the only identifier with this prefix, of the sessions that the principal can see."""
        bounds = _prefix_bounds(beginning)
        if bounds is None:
            return None
        owner = None if _sees_all(principal) else principal.subject
        ids = await self._store.ids_between(principal.org_id, *bounds, owner, 2)
        if len(ids) > 1:
            raise Invalid(
                f"session_id: the ids of several sessions begin with {beginning!r}; give more characters",
                field="session_id",
            )
        return ids[0] if ids else None

    async def require_download(self, principal: Principal) -> None:
        """Raise Denied where files of sessions are disabled."""
        await self._features.require(principal.org_id, Feature.SESSION_DOWNLOAD)

    def events(self, session: Session) -> Iterator[tuple[float, str, bytes]]:
        """Return the events of a session that `get` returned. Blocks on files: call it from a thread."""
        return self._recordings.events(session)

    def operations(self, session: Session) -> Iterator[tuple[float, bytes]]:
        """Return the texts of the queries. Blocks on files: call it from a thread."""
        return self._recordings.operations(session)

    @property
    def recordings(self) -> Recordings:
        """The recordings, for sessions that `get` returned. Blocks on files: use it from a thread."""
        return self._recordings

    async def script(self, principal: Principal, session_id: UUID | str) -> Session:
        """Return a script that the principal can read, running or not.

        For other users' sessions, downloads must be enabled. Raises NotFound, Denied, Invalid when it is not a script.
        """
        session = await self.get(principal, session_id)
        if session.verb is not Verb.EXEC:
            raise Invalid("session_id: only a script has results; this session was interactive", field="session_id")
        if not _owns(principal, session):
            await self.require_download(principal)
        return session

    async def require_finished(self, principal: Principal, session_id: UUID | str) -> Session:
        """Return a finished script, for `results`. Raises as `script` does, and Conflict while it runs."""
        session = await self.script(principal, session_id)
        if session.status is not SessionStatus.DONE:
            raise Conflict("this script has not ended yet; ask again once it is done")
        return session

    def results(self, session: Session) -> Iterator[Result]:
        """Return the results of a session that `require_finished` returned. Blocks on files: call it from a thread.
        Raises NotFound."""
        return self._recordings.results(session)

    async def kill(self, principal: Principal, given_id: UUID | str) -> None:
        """End the session now, and withdraw its pending review, as its owner or an admin. Raises NotFound, Denied."""
        session = await self.get(principal, given_id)
        session_id = session.id
        if not (principal.is_admin or _owns(principal, session)):
            raise Denied("only the owner of a session or an administrator can kill it")
        detail = f"killed by {principal.email}"
        if session.status is not SessionStatus.DONE:
            record_change({"id": session.id, "status": session.status}, {"id": session.id, "detail": detail})
        if await self._reviews.give_up(session):
            return
        if await self._store.end_if_ready(session_id, SessionEnd(self._now(), EndReason.KILLED, detail=detail)):
            if session.review_id is not None:
                await self._reviews.record_finish(session_id)
            await self._signals.publish(Topic.SESSION_DONE, session_id=str(session_id))
        elif session.status is not SessionStatus.DONE:
            await self._signals.publish(Topic.SESSION_KILL, session_id=str(session_id), reason=EndReason.KILLED)

    def _new(self, principal: Principal, connection: Connection, verb: Verb, session_id: UUID) -> Session:
        return Session(
            id=session_id,
            org_id=principal.org_id,
            connection_id=connection.id,
            connection=connection.name,
            connection_subtype=connection.subtype,
            connection_tags=connection.connection_tags,
            type=connection.type,
            verb=verb,
            status=SessionStatus.OPEN,
            user=principal.email,
            user_id=principal.subject,
            user_name=principal.name,
            start_date=self._now(),
        )


def _audit_fields(session: Session) -> dict[str, object]:
    """Return the audited fields."""
    values: dict[str, object] = {
        "id": session.id,
        "connection": session.connection,
        "script_size": session.script_size,
    }
    if session.runbook is not None:
        values |= {name: session.labels[name] for name in RUNBOOK_LABELS if name in session.labels}
    return values if session.review_id is None else values | {"review_id": session.review_id}


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Raise Invalid when there is too much of it."""
    length = sum(len(key) + len(value) for key, value in metadata.items())
    if len(metadata) > MAX_METADATA_ENTRIES or length >= MAX_METADATA_LENGTH:
        raise Invalid(
            f"metadata: at most {MAX_METADATA_ENTRIES} entries of less than {MAX_METADATA_LENGTH} characters together",
            field="metadata",
        )


def _check_labels(labels: Mapping[str, str], runbook: RunbookRef | None) -> None:
    """Reject labels of runbooks on sessions without one."""
    if SCRIPT_PARAMETERS_LABEL in labels:
        raise Invalid(f"labels: {SCRIPT_PARAMETERS_LABEL!r} is reserved; use a different name", field="labels")
    reserved = sorted(set(labels) & set(RUNBOOK_LABELS)) if runbook is None else []
    if reserved:
        raise Invalid(
            f"labels: {reserved[0]!r} is reserved for sessions that run a runbook; use a different name", field="labels"
        )


def _label_of_parameters(invocation: Invocation) -> dict[str, str]:
    """Return the label with the parameters' names. Their values are in the recording, with what ran."""
    return {SCRIPT_PARAMETERS_LABEL: json.dumps([*invocation.parameters])} if invocation.parameters else {}


def check_correlation_id(text: str | None, field: str = "correlation_id") -> None:
    """Raise Invalid unless it is printable ASCII, and not too long."""
    if text is not None and not _CORRELATION.fullmatch(text):
        raise Invalid(f"{field}: must be 1 to {MAX_CORRELATION} printable ASCII characters", field=field)


def _with_trace(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata with the trace id of a traced session, which replaces a caller's."""
    trace_id = current().trace_id
    return {**metadata, "trace_id": trace_id} if trace_id else dict(metadata)


def _without_secrets_of(connection: Connection, invocation: Invocation) -> Invocation:
    secret_names = {key.partition(":")[2] for key in connection.secret}
    secrets = {name: value for name, value in invocation.environment.items() if name not in secret_names}
    return replace(invocation, environment=secrets)


def _as_uuid(identifier: UUID | str) -> UUID | None:
    try:
        return identifier if isinstance(identifier, UUID) else UUID(identifier)
    except ValueError:
        return None


def _prefix_bounds(beginning: str) -> tuple[UUID, UUID] | None:
    """Return the first and last identifier with this prefix; None where it is not a prefix, or too short."""
    text = beginning.lower()
    digits = text.replace("-", "")
    if not MIN_PREFIX <= len(digits) < 32 or not all(digit in "0123456789abcdef" for digit in digits):
        return None
    first, last = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
    return (first, last) if text == digits or str(first).startswith(text) else None


def _limit_to_visible(principal: Principal, where: SessionFilter) -> SessionFilter:
    """Return the filter for the sessions that the principal can see. Raises Denied."""
    if _sees_all(principal):
        return where
    if where.held is not None:
        raise Denied("held: only administrators and auditors can see legal holds")
    return replace(where, owner=principal.subject)


def _sees_all(principal: Principal) -> bool:
    return principal.sees_all


def _owns(principal: Principal, session: Session) -> bool:
    return session.user_id == principal.subject
