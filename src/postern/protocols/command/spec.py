"""Programs that an agent runs, as the registry has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from postern.protocols.spec import ProtocolSpec

if TYPE_CHECKING:
    from postern.agent.policy import LocalPolicy
    from postern.agent.protocols import Targets
    from postern.gateway.protocols import OpenWire, WireParts
    from postern.protocols.asking import Script
    from postern.recording.rendering import Renderer


def _wires(parts: WireParts) -> OpenWire:
    from postern.gateway.programs import wires

    return wires(parts)


def _targets(policy: LocalPolicy, environ: Mapping[str, str]) -> Targets:
    from postern.agent.command import CommandTargets

    return CommandTargets(policy, environ)


def _script(text: str) -> Script:
    from postern.protocols.terminal.script import Script

    return Script(text)


def _renderer() -> Renderer:
    from postern.protocols.terminal.lens import TerminalLens

    return TerminalLens()


COMMAND = ProtocolSpec(
    name="terminal",
    title="command",
    servers="commands",
    type="",
    is_textual=True,
    has_cancel=False,
    wires=_wires,
    targets=_targets,
    script=_script,
    renderer=_renderer,
)
