"""The protocol `pantry`, as the registry has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from postern.protocols.spec import ProtocolSpec, database_keys

if TYPE_CHECKING:
    from postern.agent.agent_policy import LocalPolicy
    from postern.agent.agent_protocols import Targets
    from postern.gateway.gateway_protocols import Gate, GateParts, OpenWire, WireParts
    from postern.protocols.gateway_queries import Script
    from postern.recording.recording_rendering import Renderer


def _wires(parts: WireParts) -> OpenWire:
    from postern.protocols.pantry.pantry_listener import wires

    return wires(parts)


def _gate(parts: GateParts) -> Gate:
    from postern.protocols.pantry.pantry_listener import PantryGate

    return PantryGate(parts.fronts, decoy_secret=parts.decoy_secret)


def _targets(policy: LocalPolicy, environ: Mapping[str, str]) -> Targets:
    from postern.protocols.pantry.pantry_target import PantryTargets

    return PantryTargets(policy)


def _script(text: str) -> Script:
    from postern.protocols.pantry.pantry_script import PantryScript

    return PantryScript(text)


def _renderer() -> Renderer:
    from postern.protocols.pantry.pantry_text_renderer import PantryTextRenderer

    return PantryTextRenderer()


PANTRY = ProtocolSpec(
    name="pantry",
    title="Pantry",
    servers="pantry",
    type="database",
    port=7070,
    has_cancel=False,
    tested_by_login=True,
    keys=database_keys(7070),
    wires=_wires,
    targets=_targets,
    gate=_gate,
    script=_script,
    renderer=_renderer,
)
