"""The protocol specification of commands: programs that an agent runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from postern.protocols.spec import ProtocolSpec

if TYPE_CHECKING:
    from postern.agent.agent_policy import LocalPolicy
    from postern.agent.agent_protocols import Targets
    from postern.gateway.clients.session_setup import SessionSetup
    from postern.gateway.gateway_protocols import OpenWire, Runner, WireParts
    from postern.protocols.gateway_queries import Script
    from postern.recording.recording_rendering import Renderer


def _wires(parts: WireParts) -> OpenWire:
    from postern.protocols.terminal.terminal_listener import program_wire

    return lambda permit, start, parameters: program_wire(parts.settings, permit, start, start.arguments)


def _runner(fronts: SessionSetup) -> Runner:
    from postern.protocols.command.command_listener import CommandGate

    return CommandGate(fronts)


def _targets(policy: LocalPolicy, environ: Mapping[str, str]) -> Targets:
    from postern.protocols.command.command_target import CommandTargets

    return CommandTargets(policy, environ)


def _script(text: str) -> Script:
    from postern.protocols.terminal.script import TerminalScript

    return TerminalScript(text)


def _renderer() -> Renderer:
    from postern.protocols.terminal.terminal_text import TerminalTextRenderer

    return TerminalTextRenderer()


COMMAND = ProtocolSpec(
    name="terminal",
    title="command",
    servers="commands",
    type="",
    is_textual=True,
    has_cancel=False,
    preload=(
        "postern.protocols.command.command_listener",
        "postern.protocols.command.command_target",
    ),
    wires=_wires,
    targets=_targets,
    runner=_runner,
    script=_script,
    renderer=_renderer,
)
