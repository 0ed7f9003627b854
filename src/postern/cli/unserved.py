"""What is said when a connection was made that its agent will not serve: at once, and not when somebody needs it."""

from __future__ import annotations

from postern.cli.nouns import AGENT
from postern.cli.status import Status, report
from postern.client.client import Client
from postern.client.client_shapes import Row
from postern.domain.targets.agent import AgentMode
from postern.domain.targets.connection import TERMINAL, protocol_of
from postern.domain.text import one_line


def warn(api: Client, connection: Row) -> None:
    """On standard error, where it has a command and the gateway's own agent is to run it, which runs none."""
    if protocol_of(connection["subtype"], connection["command"] or ()) != TERMINAL:
        return
    agents = api.collection(*AGENT.path).everything()["data"]
    agent = next((one for one in agents if one["id"] == connection["agent_id"]), None)
    if agent is None or agent["mode"] != AgentMode.GATEWAY or api.serverinfo().get("gateway_commands", True):
        return
    name = one_line(connection["name"])
    report(
        Status.WARNING,
        f"{name} cannot be used yet: the gateway's own agent runs no commands, since they could read the "
        "gateway's keys.\n"
        "Let another agent run it, on a machine of its own or as another user:\n"
        "  postern admin agents create NAME > agent.key\n"
        '  POSTERN_KEY="$(cat agent.key)" postern agent\n'
        f"  postern connections update {name} --agent NAME\n"
        "Or, where nobody but you uses this gateway, start it with POSTERN_GATEWAY_COMMANDS=true (--gateway-commands). "
        "A restart of the gateway ends all running sessions.",
    )
