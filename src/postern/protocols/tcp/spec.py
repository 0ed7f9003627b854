"""The protocol specification of TCP services that Postern does not understand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from postern.protocols.spec import ProtocolSpec, TargetKeys

if TYPE_CHECKING:
    from postern.agent.agent_policy import LocalPolicy
    from postern.agent.agent_protocols import Targets
    from postern.gateway.clients.session_setup import SessionSetup
    from postern.gateway.gateway_protocols import Gate, GateParts, OpenWire, TunnelServer, WireParts
    from postern.protocols.clients import NativeClient
    from postern.recording.recording_rendering import Renderer


def _wires(parts: WireParts) -> OpenWire:
    from postern.protocols.tcp.tcp_listener import wires

    return wires(parts)


def _gate(parts: GateParts) -> Gate:
    from postern.protocols.tcp.tcp_listener import TcpGate

    return TcpGate(parts.fronts, parts.certificate, parts.services.client_certificates)


def _client() -> NativeClient:
    from postern.protocols.tcp.tcp_client import CLIENT

    return CLIENT


def _local_port(fronts: SessionSetup) -> TunnelServer:
    from postern.protocols.tcp.tcp_listener import TcpTunnelServer

    return TcpTunnelServer(fronts)


def _targets(policy: LocalPolicy, environ: Mapping[str, str]) -> Targets:
    from postern.protocols.tcp.tcp_target import TcpTargets

    return TcpTargets(policy)


def _renderer() -> Renderer:
    from postern.protocols.tcp.readable_bytes import ReadableBytes

    return ReadableBytes()


TCP = ProtocolSpec(
    name="tcp",
    title="TCP",
    servers="TCP services",
    type="application",
    is_opaque=True,
    logs_in_by_certificate=True,
    has_cancel=False,
    needs_secret_files=False,
    tested_by_login=True,
    keys=TargetKeys(
        port=0,  # there is no default
        required=("HOST", "PORT"),
        readable=("HOST", "PORT", "SSLMODE"),
        private=("SSLROOTCERT",),
    ),
    preload=(
        "postern.protocols.tcp.tcp_listener",
        "postern.protocols.tcp.tcp_target",
    ),
    wires=_wires,
    targets=_targets,
    gate=_gate,
    local_port=_local_port,
    renderer=_renderer,
    client=_client,
)
