"""The life of a session from its Permit to its end: the same for every protocol and entry point."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from postern.descriptors import PER_SESSION, Descriptors
from postern.domain.rules.masking import InfoType
from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import EndReason, Session, Verb
from postern.domain.targets.connection import Connection
from postern.domain.targets.target_schema import TargetSchema
from postern.domain.tracing import NO_TRACER, Span, SpanKind, Tracer, current, part
from postern.errors import PosternError, ProtocolViolation, RecordingFailed, Unavailable
from postern.gateway.close_retry_queue import CloseRetryQueue, PendingClose
from postern.gateway.link_registry import LinkRegistry, RegisteredLink
from postern.gateway.opened_session import OpenedSession, SessionRecording
from postern.gateway.rules.held_requests import HeldRequests
from postern.gateway.rules.target_schemas import TargetSchemas, next_reading
from postern.gateway.rules.violations import Count, Violations
from postern.gateway.session_opening import PendingSession, SessionAborted
from postern.gateway.session_traces import about, over
from postern.gateway.shared_session import SharedSession, SharedSessions
from postern.gateway.worker_hooks import SessionHooks
from postern.interception.events import Note
from postern.interception.pipeline import Metrics, Pipeline, SessionView
from postern.protocols.wire_base import Side, Wire
from postern.relay import endpoint
from postern.relay.driver import Driver, clock_since
from postern.relay.link import HoldEffect, Link
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Dialer, Start, Target
from postern.services.issues.session_issues import NO_FIELDS
from postern.services.sessions import Sessions

log = logging.getLogger(__name__)


# Ends that need no note in the recording: it shows them already, or accepts no more notes.
_QUIET = (EndReason.CLIENT_CLOSED, EndReason.COMPLETED, EndReason.RECORDING_FAILED)
# Ends of one of several links that need a note.
_NOTED_OF_LINKS = (EndReason.PROTOCOL_VIOLATION, EndReason.FAILED)

Observe = Callable[..., None]  # (metric, seconds, *labels)


def _ignore_count(_name: str, *_labels: str, by: float = 1) -> None:
    """Discard a count, when metrics are off."""


def _ignore_measurement(_name: str, _seconds: float, *_labels: str) -> None:
    """Discard a measurement, when metrics are off."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts from the composition root, so that this package imports no interceptor and no file."""

    pipeline: Callable[[Permit, SessionView], Pipeline]
    recording: Callable[[UUID, Permit, datetime], SessionRecording]
    wire: Callable[[Permit, Start, Mapping[str, str]], Wire]  # with the target's login parameters
    count: Count = _ignore_count
    observe: Observe = _ignore_measurement
    tracer: Tracer = NO_TRACER
    violations: Violations | None = None
    hooks: SessionHooks | None = None
    descriptors: Descriptors = field(default_factory=Descriptors)


class Engine:
    """Opens, runs and closes the sessions of one worker."""

    def __init__(
        self,
        worker: str,
        sessions: Sessions,
        dialer: Dialer,
        links: LinkRegistry,
        parts: Parts,
        *,
        max_duration: float,
        held_requests: HeldRequests | None = None,
    ) -> None:
        """A held request waits until its client disconnects, if there is no `held_requests`."""
        self.links = links
        self.tracer = parts.tracer
        self.unclosed = CloseRetryQueue(sessions)
        self._held = held_requests
        self._worker = worker
        self._sessions = sessions
        self._dialer = dialer
        self.schemas = TargetSchemas(dialer)
        self.shared_sessions = SharedSessions()
        self._parts = parts
        self._max_duration = max_duration

    async def dial(self, opening: PendingSession, permit: Permit, start: Start, *, since: int) -> Target:
        """Dial the target, and read its schema if the permit's policy needs it. Raises the errors of dialling,
        SessionAborted, and TooMany."""
        self._parts.descriptors.require(PER_SESSION)
        began = time.monotonic()
        dialling = self.links.dialling(opening, permit, since=since)
        with dialling, part("session.dial", SpanKind.CLIENT):
            target = await self._dialer.dial(permit, start, opening.session_id)
            self._parts.observe("postern_target_open_seconds", time.monotonic() - began, str(permit.verb))
            try:
                target.schema = await self.schemas.of(permit, start)
                dialling.check()  # nothing runs after the permit's end
            except BaseException:
                target.stream.close()
                target.release()
                raise
        return target

    def turned_away(self, error: PosternError) -> None:
        """Count a client without a session, by the class of the error; there are few classes."""
        self._parts.count("postern_clients_turned_away", type(error).__name__)

    async def open(
        self,
        permit: Permit,
        start: Start,
        metadata: Mapping[str, str],
        *,
        since: int,
        tracker_fields: Mapping[str, str] = NO_FIELDS,
    ) -> tuple[OpenedSession, Target]:
        """Open a session and its target: the row is written while the target is dialled.

        A session that waited for the review of the permit continues; other clients of the permit start new sessions. If
        the connection's sessions open an issue, nothing is dialled before the issue exists, or its failure is recorded.

        `since` is as for `run`, which must follow without a wait in between. Raises the errors of dialling,
        SessionAborted, Unavailable and the errors of `Issues.open`. A session whose target failed is closed as failed.
        """
        self._parts.descriptors.require(PER_SESSION)
        sessions = self._sessions
        if permit.session_id is not None:
            with self.links.opening(permit.session_id) as opening:
                session = await sessions.resume(permit, worker=self._worker, metadata=metadata)
                if session is not None:
                    await self._open_issue(permit, session, tracker_fields)
                    return await self._reach(opening, _there(session), permit, start, since)
        session_id = uuid4()
        row = asyncio.ensure_future(
            sessions.open(
                permit,
                session_id=session_id,
                worker=self._worker,
                metadata=metadata,
                tracker_fields=tracker_fields,
            )
        )
        if permit.connection.issue_template_id is not None or tracker_fields:
            await row
        with self.links.opening(session_id) as opening:
            return await self._reach(opening, row, permit, start, since)

    async def check_issue(self, connection: Connection, tracker_fields: Mapping[str, str]) -> None:
        """Check that a session of this connection could open its issue, before its client waits for a review."""
        await self._sessions.check_issue(connection, tracker_fields)

    async def _open_issue(self, permit: Permit, session: Session, tracker_fields: Mapping[str, str]) -> None:
        """Open the issue of a session that waited for its review and has a row."""
        try:
            await self._sessions.open_issue(permit, session, tracker_fields)
        except BaseException as error:
            await asyncio.shield(self.never_ran(session.id, _reason(error)))
            raise

    async def _reach(
        self, opening: PendingSession, row: asyncio.Future[Session], permit: Permit, start: Start, since: int
    ) -> tuple[OpenedSession, Target]:
        session_id = opening.session_id
        about(current(), session_id, permit)
        target: Target | None = None
        try:
            target = await self.dial(opening, permit, start, since=since)
            session = await row
            opening.check()
            return self.prepare(session_id, permit, start, session.start_date), target
        except BaseException as error:
            if isinstance(error, ProtocolViolation):
                log.warning("session %s ends: its target broke the protocol at login: %s", session_id, error.message)
            if target is not None:
                target.stream.close()
                target.release()
            await asyncio.shield(self._give_up(row, session_id, _reason(error)))
            raise

    async def _give_up(self, row: asyncio.Future[Session], session_id: UUID, reason: EndReason) -> None:
        try:
            await row
        except Unavailable as error:
            log.error("session %s could not be opened in the store: %s", session_id, error.message)
            return
        await self.never_ran(session_id, reason)

    async def never_ran(self, session_id: UUID, reason: EndReason, exit_code: int | None = None) -> None:
        """Close the row of a session without a recording."""
        self._parts.count("postern_sessions_ended", str(reason))
        await self.unclosed.close(PendingClose(session_id, datetime.now(UTC), reason, exit_code, {}, event_size=0))

    def prepare(
        self, session_id: UUID, permit: Permit, start: Start, start_date: datetime, script: str = ""
    ) -> OpenedSession:
        """Create the recording and the hooks of a session that has a row. Raises RecordingFailed."""
        connection, principal = permit.connection, permit.principal
        view = SessionView(
            id=session_id,
            user=principal.email,
            groups=principal.groups,
            connection=connection.name,
            connection_type=connection.type,
            connection_subtype=connection.subtype,
            connection_tags=connection.connection_tags,
        )
        recording = self._parts.recording(session_id, permit, start_date)
        self._parts.count("postern_sessions_opened", str(permit.verb))
        violations = None
        if self._parts.violations is not None:
            violations = view.on_violation = self._parts.violations.of(session_id, permit)
        if self._parts.hooks is not None:
            self._parts.hooks.handle_open(session_id, permit, script)
        return OpenedSession(session_id, permit, start, view, recording, time.monotonic(), current(), violations)

    async def run(
        self,
        opened: OpenedSession,
        stream: StreamHandshake,
        target: Target,
        *,
        since: int,
        cancel_key: bytes = b"",
        exit_code: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Relay until either side ends; then close the session. The client has been welcomed.

        `since` is `links.changes` from before the permit was requested.
        """
        reason = EndReason.FAILED
        live: RegisteredLink | None = None
        try:
            live = self._live(opened, target, cancel_key)
            self.links.add(live, since=since)
            connect(live.driver, stream, target.stream, opened.span)
            reason = await live.driver.done
        finally:
            if live is not None:
                self.links.remove(live)
                metrics = opened.view.metrics
                metrics.client_bytes, metrics.target_bytes = live.driver.client_bytes, live.driver.target_bytes
            # Both are closed already unless something went wrong above.
            stream.close()
            target.stream.close()
            target.release()
            code = exit_code()
            if code is None and live is not None:
                code = live.driver.link.exit_code
            await asyncio.shield(self.close(opened, reason, code))

    def _live(self, opened: OpenedSession, target: Target, cancel_key: bytes) -> RegisteredLink:
        permit = opened.permit
        opened.view.schema = target.schema
        driver = self._driver(opened, permit, opened.view, target, lambda: live.permit)
        live = RegisteredLink(
            opened.id,
            permit,
            opened.view,
            driver,
            opened.started,
            self._max_duration,
            cancel_key,
            schema=lambda permit: self.schemas.of(permit, opened.start),
            schema_until=next_reading(permit, target.schema, age=self.schemas.age),
        )
        return live

    def _driver(
        self, opened: OpenedSession, permit: Permit, view: SessionView, target: Target, current: Callable[[], Permit]
    ) -> Driver:
        """Return the driver of a new link. `current` returns the permit as it was renewed last."""
        wire = self._parts.wire(permit, opened.start, target.parameters)
        clock = clock_since(opened.started)
        link = Link(wire, self._parts.pipeline(permit, view), clock)

        def on_park(driver: Driver, park: HoldEffect) -> None:
            if self._held is not None:  # by the current permit: the reviewers may have changed
                self._held.on_park(opened.id, current(), opened.start, driver, park)

        return Driver(
            link,
            opened.recording,
            clock=clock,
            cancel_target=lambda: self.links.cancelling(self._dialer.cancel(permit, target)),
            on_park=on_park,
        )

    # Sessions of several links

    def share(self, opened: OpenedSession, schema: TargetSchema | None, *, since: int, idle: float) -> SharedSession:
        """Let several links run in an opened session, until `SharedSession.end`; then it is closed. `since` is as for
        `run`: this must follow `open` without a wait in between. It ends after `idle` seconds without an exchange."""
        opened.view.schema = schema
        shared = SharedSession(
            opened,
            longest=self._max_duration,
            idle=idle,
            schema=lambda permit: self.schemas.of(permit, opened.start),
            schema_until=next_reading(opened.permit, schema, age=self.schemas.age),
        )
        self.links.add(shared, since=since)
        self.shared_sessions.start(self._close_shared(shared))
        return shared

    async def _close_shared(self, shared: SharedSession) -> None:
        reason = await shared.done
        self.links.remove(shared)
        await self.close(shared.opened, reason)

    async def dial_again(self, shared: SharedSession) -> Target:
        """Dial the target for one more link. Raises the errors of dialling, TooMany, and SessionAborted if the session
        ends."""
        since = self.links.changes
        with shared.opening() as opening:
            return await self.dial(opening, shared.permit, shared.opened.start, since=since)

    async def run_link(self, shared: SharedSession, stream: StreamHandshake, target: Target) -> EndReason:
        """Relay one link of a session until either side ends, or the session; return the reason. The session continues,
        unless its recording has failed. Must follow the dialling without a wait in between."""
        driver: Driver | None = None
        try:
            if shared.end_reason is not None:
                return shared.end_reason
            view = shared.link_view()
            driver = self._driver(shared.opened, shared.permit, view, target, lambda: shared.permit)
            shared.add(driver, view)
            connect(driver, stream, target.stream, shared.opened.span)
            reason = await driver.done
            if reason is EndReason.RECORDING_FAILED:
                shared.end(reason, "the gateway cannot record this session, so it ends")
            elif reason in _NOTED_OF_LINKS:
                shared.note(Note("a link ended", {"reason": reason}))
            return reason
        finally:
            stream.close()
            target.stream.close()
            target.release()
            if driver is not None:
                shared.remove(driver)

    async def close(self, opened: OpenedSession, reason: EndReason, exit_code: int | None = None) -> None:
        """Seal the recording and close the row, which is closed even if the recording cannot be sealed."""
        recording, ended_at = opened.recording, datetime.now(UTC)
        is_noted = reason not in _QUIET
        is_script = opened.permit.verb is Verb.EXEC
        if is_script and exit_code is not None and reason is EndReason.CLIENT_CLOSED:
            reason = EndReason.FAILED if exit_code else EndReason.COMPLETED
        try:
            micros = clock_since(opened.started)()
            if is_noted:
                recording.record([Note("session ended", {"reason": reason})], micros)
            await recording.finish(reason, micros, soon=is_script)
        except Exception as error:
            expected = isinstance(error, (OSError, RecordingFailed))
            log.error("the recording of session %s could not be finished: %s", opened.id, error, exc_info=not expected)
            if reason is not EndReason.RECORDING_FAILED:
                self._parts.count("postern_recordings_failed")
        self._count(opened, reason)
        counters = opened.view.metrics
        over(opened.span, reason, operations=counters.operations, refused=counters.refused, recorded=recording.size)
        metrics = session_metrics(counters, recording)
        if opened.violations is not None:
            await opened.violations.close()
        await self.unclosed.close(PendingClose(opened.id, ended_at, reason, exit_code, metrics, recording.size))
        if self._parts.hooks is not None:
            self._parts.hooks.handle_close(opened.id, opened.permit, reason, exit_code)

    def _count(self, opened: OpenedSession, reason: EndReason) -> None:
        """Count the session's totals, once per session."""
        count, metrics = self._parts.count, opened.view.metrics
        count("postern_sessions_ended", str(reason))
        count("postern_operations", by=metrics.operations)
        count("postern_operations_refused", by=metrics.refused)
        count("postern_recorded_bytes", by=opened.recording.size)
        for info_type, hits in metrics.info_types.items():
            # Names from users are not labels: their number is unlimited.
            count("postern_values_masked", info_type if info_type in InfoType.__members__ else "other", by=hits)
        count("postern_answers_not_inspected", by=metrics.not_inspected)
        if reason is EndReason.RECORDING_FAILED:
            count("postern_recordings_failed")


def _there(session: Session) -> asyncio.Future[Session]:
    """Return a future of a row that exists already."""
    future: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
    future.set_result(session)
    return future


def _reason(error: BaseException) -> EndReason:
    if isinstance(error, SessionAborted):
        return error.reason
    return EndReason.RECORDING_FAILED if isinstance(error, RecordingFailed) else EndReason.FAILED


def connect(driver: Driver, stream: StreamHandshake, target: StreamHandshake, span: Span) -> None:
    """Attach both transports to the driver, with the bytes that were read but not consumed."""
    pairs = ((Side.CLIENT, stream), (Side.TARGET, target))
    endpoints = {}
    for side, handshake in pairs:
        assert handshake.transport is not None
        first = partial(span.event, "first byte") if side is Side.TARGET and span.is_recorded else None
        endpoints[side] = endpoint.connect(driver, side, handshake.transport, first)
    early = {}
    for side, handshake in pairs:
        try:
            early[side] = handshake.hand_over(endpoints[side])
        except ConnectionError:
            if handshake.has_ended and handshake.is_encrypted:  # it has sent everything, and TLS ends both directions
                early[side] = handshake.take_unread()
            else:
                driver.handle_loss(side)
    for side, data in early.items():
        if data:
            endpoints[side].data_received(data)
    for side, handshake in pairs:
        if side in early and handshake.has_ended and not endpoints[side].eof_received():
            handshake.close()
            if handshake.is_encrypted:
                driver.handle_loss(side)  # which its endpoint may have been too late to hear


def session_metrics(metrics: Metrics, recording: SessionRecording) -> dict[str, Any]:
    """Return `Session.metrics` as the API shows it."""
    return {
        "data_masking": {
            "info_types": dict(metrics.info_types),
            "total_redact_count": sum(metrics.info_types.values()),
            "transformed_bytes": metrics.transformed_bytes,
            "err_count": metrics.not_inspected,
        },
        "operations": metrics.operations,
        "refused": metrics.refused,
        "warned": metrics.warned,
        "event_size": recording.size,
        "truncated": recording.truncated,
        "client_bytes": metrics.client_bytes,
        "target_bytes": metrics.target_bytes,
    }
