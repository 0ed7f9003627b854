"""The relay worker's process: here the parts of the data plane are connected."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
from collections.abc import Awaitable, Mapping
from datetime import datetime
from uuid import UUID, uuid4

import uvloop

from postern.agent.embedded import EmbeddedAgent
from postern.agent.secret_files import SecretFiles
from postern.descriptors import Descriptors
from postern.domain.rules.permit import Permit
from postern.domain.rules.policy import Policy
from postern.domain.sessions.session import EndReason
from postern.domain.tracing import NO_TRACER, Tracer
from postern.domain.worker import RelayWorker
from postern.gateway.agent_dialers import Dialers, ReachableAgent, RemoteAgents
from postern.gateway.clients.listener import HandshakeRunner
from postern.gateway.clients.pending_logins import PendingLogins
from postern.gateway.clients.session_setup import SessionSetup
from postern.gateway.clients.tunnel_endpoint import TunnelEndpoint
from postern.gateway.engine import Engine, Parts
from postern.gateway.gateway_protocols import (
    GATEWAY_SPECS,
    WIRE_SPECS,
    Gate,
    GateParts,
    OpenWire,
    Runner,
    TunnelGate,
    TunnelServer,
    WireParts,
)
from postern.gateway.gateway_tunnels import GatewayTunnels
from postern.gateway.link_registry import LinkRegistry
from postern.gateway.opened_session import SessionRecording
from postern.gateway.relay_worker import Worker
from postern.gateway.rules.held_requests import HeldRequests
from postern.gateway.rules.script_judge import ScriptJudge
from postern.gateway.rules.violations import Violations
from postern.gateway.script_execution import Executions
from postern.gateway.target_task_runner import TargetTaskRunner
from postern.gateway.worker_heartbeat import WorkerHeartbeat
from postern.gateway.worker_hooks import SessionHooks
from postern.inspection.guardrails.guardrail_interceptor import GuardrailInterceptor
from postern.integrations.secrets.env_json import referable
from postern.integrations.secrets.sources import Sources
from postern.interception.pipeline import Interceptor, Pipeline, SessionView
from postern.metrics.meters import Meters
from postern.process import announce_ready
from postern.protocols.wire_base import Side, Wire
from postern.recording.group_commit import GroupCommit
from postern.recording.layout import spool_folder
from postern.recording.record_format import Header
from postern.recording.recorder import Recorder
from postern.recording.recovery import recover
from postern.recording.segments import Segments
from postern.recording.space import Space
from postern.recording.unfinished_spools import UnfinishedSpools
from postern.relay.relay_target import Start
from postern.services.bundle import Services
from postern.services.store_claim import StoreClaim
from postern.settings import Settings
from postern.store.ports.common_ports import Signals
from postern.store.ports.recording_ports import SegmentStore
from postern.store.signals import SocketSignals
from postern.wiring import paths, tls
from postern.wiring.addresses_wiring import review_page
from postern.wiring.app import now, open_app
from postern.wiring.blobs import rows_from_threads
from postern.wiring.host.claim import build_claim
from postern.wiring.language_wiring import provide_language_model
from postern.wiring.masking_wiring import masking
from postern.wiring.metrics_wiring import exporting_metrics, sample_certificate
from postern.wiring.parsers import analysis_task, client_encodings, parser_for, session_parser
from postern.wiring.tracing_wiring import tracing

log = logging.getLogger(__name__)

AGENT_WAIT = 5.0  # seconds that a disconnected agent has to come back, while a client waits


def default_interceptors(policy: Policy, view: SessionView, protocol: str) -> list[Interceptor]:
    """Return the interceptors in the order in which they inspect answers: output rules inspect the masked output. They
    inspect operations in the opposite order: masking counts only statements that guardrails let pass."""
    interceptors: list[Interceptor] = []
    if policy.masked_types or policy.masking:
        interceptors.append(masking(policy, view))
    if policy.guardrails:
        interceptors.append(_guardrails(policy, view, protocol))
    encodings = client_encodings(policy, protocol, view)
    if encodings is not None:
        interceptors.append(encodings)
    return interceptors


def _guardrails(policy: Policy, view: SessionView, protocol: str) -> GuardrailInterceptor:
    names = session_parser(policy, protocol, view)
    return GuardrailInterceptor(
        policy.guardrails, parser_for(protocol), lambda: view.schema, names, access_help=policy.access_help
    )


def pipeline(permit: Permit, view: SessionView) -> Pipeline:
    return Pipeline(default_interceptors(permit.policy, view, permit.connection.protocol), view)


def open_wire(settings: Settings, links: LinkRegistry | None, signals: Signals, shared_secret: bytes = b"") -> OpenWire:
    """Return a factory of the steady state of a link, by the protocol of its connection. The parameters are as in
    WireParts."""
    parts = WireParts(settings, links, signals, shared_secret)
    wires = {name: spec.wires(parts) for name, spec in WIRE_SPECS.items()}

    def open_one(permit: Permit, start: Start, parameters: Mapping[str, str]) -> Wire:
        return wires[permit.connection.protocol](permit, start, parameters)

    return open_one


class SpoolRecording:
    """A session's recording while it is written; `finish` seals it, together with others that end at the same time."""

    def __init__(self, settings: Settings, commits: GroupCommit, worker: str, header: Header) -> None:
        self._segments = Segments(commits, settings.home, worker, header, most=settings.recording_segment_size)
        self._recorder = Recorder(self._segments, settings.recording_output_limit)
        self.record = self._recorder.record_all

    @property
    def size(self) -> int:
        return self._recorder.size

    @property
    def truncated(self) -> bool:
        return self._recorder.truncated

    def finish(self, reason: str, micros: int, *, soon: bool) -> Awaitable[None]:
        loop = asyncio.get_running_loop()
        finished: asyncio.Future[None] = loop.create_future()

        def handle_finished(error: Exception | None) -> None:
            loop.call_soon_threadsafe(_settle, finished, error)

        self._segments.finish(reason, micros, handle_finished, soon=soon)
        return finished


def _recording(
    settings: Settings, commits: GroupCommit, worker: str, session: UUID, permit: Permit, started_at: datetime
) -> SessionRecording:
    connection, email = permit.connection, permit.principal.email
    header = Header(session, connection.org_id, connection.protocol, connection.name, email, started_at)
    return SpoolRecording(settings, commits, worker, header)


def _settle(finished: asyncio.Future[None], error: Exception | None) -> None:
    if finished.done():
        return
    if error is None:
        finished.set_result(None)
    else:
        finished.set_exception(error)


def build_worker(
    settings: Settings,
    name: str,
    services: Services,
    segments: SegmentStore,
    commits: GroupCommit,
    decoy_secret: bytes,
    *,
    owner: UUID | None = None,
    meters: Meters | None = None,
    tracer: Tracer = NO_TRACER,
    claim: StoreClaim | None = None,
) -> Worker:
    """Build a relay worker called `name`; its spool folder and the sessions in the store have that name. `owner` is the
    organisation that runs this machine. `decoy_secret` is the source of answers to unknown users, the same in every
    worker. `claim` is that of the gateway on its store; the worker stops if it is lost."""
    provide_language_model(settings)
    meters = meters or Meters()
    certificate = tls.served_certificate(settings)
    links = LinkRegistry(services.access, services.signals, pipeline, idle_timeout=settings.idle_timeout)
    tunnels = GatewayTunnels(wait=AGENT_WAIT)
    agent = _dialers(settings, services, tunnels, owner)
    violations = Violations(services.violations, meters.count)
    hooks = SessionHooks(services.hooks, agent, meters.count)
    room = Descriptors()
    meters.sample("postern_descriptor_rejections", lambda: room.refused)
    parts = Parts(
        pipeline=pipeline,
        recording=functools.partial(_recording, settings, commits, name),
        wire=open_wire(settings, links, services.signals, decoy_secret),
        count=meters.count,
        observe=meters.observe,
        tracer=tracer,
        violations=violations,
        hooks=hooks,
        descriptors=room,
    )
    held_requests = _held_requests(services, agent)
    engine = Engine(
        name, services.sessions, agent, links, parts, max_duration=settings.max_duration, held_requests=held_requests
    )
    judge = ScriptJudge(
        engine.schemas,
        pipeline,
        open_wire(settings, None, services.signals),
        held_requests,
        analysis_task,
        meters.count,
    )
    waiting = _held_logins(settings, services)
    fronts = SessionSetup(services.access, engine, waiting)
    logins = _logins(settings, room)
    gates = _gates(GateParts(settings, certificate, fronts, logins, services, services.signals, decoy_secret))
    carriers: dict[str, TunnelServer] = {name: gate for name, gate in gates.items() if isinstance(gate, TunnelGate)}
    carriers |= {name: spec.local_port(fronts) for name, spec in GATEWAY_SPECS.items() if spec.local_port is not None}
    worker = RelayWorker(uuid4(), name, now(), now())
    door = TunnelEndpoint(
        worker=str(worker.id),
        authentication=services.authentication,
        attestations=services.terminal_attestations,
        agents=services.agents,
        tunnels=tunnels,
        carriers=carriers,
        runners=_runners(fronts),
        links=links,
        logins=logins,
    )
    _sample(meters, links, waiting, tunnels, logins, door)
    sample_certificate(meters, certificate)
    return Worker(
        settings=settings,
        certificate=certificate,
        gates=gates,
        links=links,
        waiting=waiting,
        unclosed=engine.unclosed,
        shared_sessions=engine.shared_sessions,
        violations=violations,
        hooks=hooks,
        executions=Executions(name, services.sessions, engine, services.signals),
        target_tasks=TargetTaskRunner(name, services.target_tasks, agent, services.signals, judge=judge, tracer=tracer),
        door=door,
        tunnels=tunnels,
        logins=logins,
        presence=WorkerHeartbeat(worker, services.agents, services.relay_workers, tunnels, services.signals, claim),
        server_configs=services.server_configs,
        signals=services.signals,
        recover=functools.partial(_recover, settings, name, services, segments),
    )


def _dialers(settings: Settings, services: Services, tunnels: GatewayTunnels, owner: UUID | None) -> ReachableAgent:
    """Return this process's own agent, and those that connect; some protocols check the dialled target."""
    own_agent = embedded_agent(settings, os.environ, owner)
    agent: ReachableAgent = Dialers(
        own_agent, RemoteAgents(tunnels, timeout=settings.dial_timeout), services.agents.mode_of
    )
    for spec in GATEWAY_SPECS.values():
        agent = agent if spec.checked_agent is None else spec.checked_agent(agent, services)
    return agent


def _gates(parts: GateParts) -> dict[str, Gate]:
    """Raises Misconfigured if the gateway's host key cannot be used."""
    return {name: spec.gate(parts) for name, spec in GATEWAY_SPECS.items() if spec.gate is not None}


def _runners(fronts: SessionSetup) -> dict[str, Runner]:
    """Return what starts programs for command lines and for terminals in browsers."""
    return {name: spec.runner(fronts) for name, spec in GATEWAY_SPECS.items() if spec.runner is not None}


def _held_requests(services: Services, agent: ReachableAgent) -> HeldRequests:
    counts = {name: spec.row_counts(agent) for name, spec in GATEWAY_SPECS.items() if spec.row_counts is not None}
    address = review_page(services.server_configs)
    return HeldRequests(services.asking, services.reviews, services.signals, address, row_counts=counts)


def _held_logins(settings: Settings, services: Services) -> PendingLogins:
    address = review_page(services.server_configs)
    return PendingLogins(
        services.asking, services.reviews, services.sessions, services.signals, address, longest=settings.review_wait
    )


def _logins(settings: Settings, room: Descriptors) -> HandshakeRunner:
    return HandshakeRunner(
        timeout=settings.handshake_timeout,
        most=settings.max_handshakes,
        most_per_address=settings.max_handshakes_per_address,
        descriptors=room,
    )


def _sample(
    meters: Meters,
    links: LinkRegistry,
    waiting: PendingLogins,
    tunnels: GatewayTunnels,
    logins: HandshakeRunner,
    door: TunnelEndpoint,
) -> None:
    """Register metrics that are read when they are requested."""
    meters.sample("postern_sessions_open", lambda: links.running)
    meters.sample("postern_relayed_bytes", lambda: links.count_relayed_bytes(Side.CLIENT), "client")
    meters.sample("postern_relayed_bytes", lambda: links.count_relayed_bytes(Side.TARGET), "target")
    meters.sample("postern_clients_waiting", lambda: waiting.held)
    meters.sample("postern_logins_begun", lambda: logins.begun)
    meters.sample("postern_logins_succeeded", lambda: logins.succeeded)
    meters.sample("postern_logins_rejected", lambda: logins.rejected)
    meters.sample("postern_logins_waiting", lambda: logins.waiting)
    meters.sample("postern_agents_connected", lambda: len(tunnels.agents))
    meters.sample("postern_tunnels_open", lambda: door.tunnels)
    meters.sample("postern_tunnel_streams", lambda: tunnels.streams)


def embedded_agent(settings: Settings, environ: Mapping[str, str], owner: UUID | None) -> EmbeddedAgent:
    """Return the agent of this process. It removes secrets in files that an earlier process can have left."""
    environ = referable(environ)
    sources = Sources(environ, cloud=settings.cloud_provider)
    return EmbeddedAgent(
        sources,
        SecretFiles(environ),
        timeout=settings.dial_timeout,
        owner=owner,
        environ=environ,
        commands=settings.gateway_commands,
    )


async def _recover(settings: Settings, name: str, services: Services, segments: SegmentStore) -> None:
    """Close what an earlier process of this worker left open: recordings first, then rows."""
    rows_of = rows_from_threads(segments, asyncio.get_running_loop())
    recovered = await asyncio.to_thread(recover, spool_folder(settings.home, name), rows_of)
    left = {recovered_recording.session: recovered_recording for recovered_recording in recovered}
    rows = await services.sessions.recover(name)
    for session_id in rows:
        recovered_recording = left.get(session_id)
        metrics = (
            {"operations": recovered_recording.operations, "refused": recovered_recording.refused}
            if recovered_recording
            else {}
        )
        await services.sessions.close(
            session_id,
            reason=EndReason.GATEWAY_CRASHED,
            exit_code=None,
            metrics=metrics,
            event_size=recovered_recording.size if recovered_recording else 0,
        )
    if rows or left:
        log.warning("worker %s found %d interrupted sessions, and closed them", name, len(rows))


def run_worker(settings: Settings, name: str) -> None:
    """Run one relay worker. Ends on SIGTERM or SIGINT, after its sessions were closed."""
    meters = Meters()
    with tracing(os.environ, name, meters) as tracer:
        uvloop.run(_serve_worker(settings, name, meters, tracer))


async def _serve_worker(settings: Settings, name: str, meters: Meters, tracer: Tracer) -> None:
    signals = SocketSignals(paths.signals_socket(settings))
    space = Space(settings.home / "spool", settings.recording_least_free)
    commits = GroupCommit(settings.recording_sync_interval, space)
    async with open_app(settings, signals) as app:
        claim = build_claim(settings, app.database)
        await claim.take()  # before anything of an earlier process is closed: it can belong to a different gateway
        owner = (await app.stores.organisations.default()).id
        decoy_secret = await app.encryption.derive("decoy salts")
        segments = app.stores.segments
        partial = functools.partial(build_worker, owner=owner, meters=meters, tracer=tracer)
        worker = partial(settings, name, app.services, segments, commits, decoy_secret, claim=claim)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.stop)
        leftovers = UnfinishedSpools(spool_folder(settings.home, name), lambda: commits.busy)

        def serves() -> None:
            leftovers.start()
            announce_ready(asyncio.get_running_loop())

        await signals.start()
        try:
            async with exporting_metrics(settings, meters, app.database, name):
                await worker.serve(serves)
        finally:
            await signals.stop()
            await loop.run_in_executor(None, leftovers.close)
            await loop.run_in_executor(None, commits.close)
