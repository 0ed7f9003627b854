"""The protocol specification of SSH servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from postern.protocols.spec import ProtocolSpec, ScriptSyntax, TargetKeys

if TYPE_CHECKING:
    from postern.agent.agent_policy import LocalPolicy
    from postern.agent.agent_protocols import Targets
    from postern.gateway.agent_dialers import ReachableAgent
    from postern.gateway.clients.session_setup import SessionSetup
    from postern.gateway.gateway_protocols import Gate, GateParts, OpenWire, Runner, WireParts
    from postern.protocols.clients import NativeClient
    from postern.protocols.gateway_queries import Script
    from postern.recording.recording_rendering import Renderer
    from postern.services.bundle import Services
    from postern.settings import Settings


def _wires(parts: WireParts) -> OpenWire:
    from postern.protocols.ssh.listener.ssh_wires import wires

    return wires(parts)


def _gate(parts: GateParts) -> Gate:
    """Make the gate. Raises Misconfigured when the gateway's host key cannot be used."""
    from postern.protocols.ssh.listener.ssh_admission import Admission
    from postern.protocols.ssh.listener.ssh_gate import SshGate
    from postern.protocols.ssh.listener.ssh_host_key import ensure_host_key, host_key_file
    from postern.protocols.ssh.listener.ssh_users import SshAuthenticators

    services = parts.services
    proofs = SshAuthenticators(services.ssh_keys, services.ssh_authorities, services.ssh_logins)
    admission = Admission(parts.fronts, parts.logins, proofs, decoy_secret=parts.decoy_secret)
    key = ensure_host_key(host_key_file(parts.settings)).private
    return SshGate(admission, key, login_timeout=parts.settings.handshake_timeout)


def _runner(fronts: SessionSetup) -> Runner:
    from postern.protocols.ssh.listener.ssh_web_terminal import WebTerminalGate

    return WebTerminalGate(fronts)


def _host_key(settings: Settings) -> str:
    """Return the host key. Raises Misconfigured for a file that cannot be used."""
    from postern.protocols.ssh.listener.ssh_host_key import ensure_host_key, host_key_file

    return ensure_host_key(host_key_file(settings)).public


def _checked_agent(agent: ReachableAgent, services: Services) -> ReachableAgent:
    from postern.protocols.ssh.listener.ssh_host_key_pinning import HostKeyPinningAgent

    return HostKeyPinningAgent(agent, services.host_keys)


def _targets(policy: LocalPolicy, environ: Mapping[str, str]) -> Targets:
    from postern.protocols.ssh.target.ssh_targets import SshTargets

    return SshTargets(policy)


def _script(text: str) -> Script:
    from postern.protocols.terminal.script import TerminalScript

    return TerminalScript(text)


def _renderer() -> Renderer:
    from postern.protocols.terminal.terminal_text import TerminalTextRenderer

    return TerminalTextRenderer()


def _client() -> NativeClient:
    from postern.protocols.ssh.ssh_client import CLIENT

    return CLIENT


SSH = ProtocolSpec(
    name="ssh",
    title="SSH",
    servers="SSH",
    type="application",
    port=7422,
    is_textual=True,
    has_cancel=False,
    needs_secret_files=False,  # private keys should not be on disk
    tested_by_login=True,
    keys=TargetKeys(
        port=22,
        required=("HOST", "USER"),
        readable=("HOST", "PORT", "USER"),
        private=(
            *("PASS", "PRIVATE_KEY", "AUTHORIZED_SERVER_KEYS", "PRIVATE_KEY_PASS", "SSH_AUTH_SOCK", "PUBLIC_KEY"),
            "HOST_KEYS",
        ),
    ),
    syntax=ScriptSyntax.SHELL,
    variables={"PRIVATE_KEY": ("SSH_KEY",)},
    preload=(
        "postern.protocols.ssh.listener.ssh_gate",
        "postern.protocols.ssh.listener.ssh_web_terminal",
        "postern.protocols.ssh.listener.ssh_wires",
        "postern.protocols.ssh.target.ssh_targets",
    ),
    wires=_wires,
    targets=_targets,
    gate=_gate,
    runner=_runner,
    host_key=_host_key,
    checked_agent=_checked_agent,
    script=_script,
    renderer=_renderer,
    client=_client,
)
