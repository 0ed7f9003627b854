"""Warning, when a connection is created, that its agent will not serve it."""

from __future__ import annotations

from postern.cli.nouns import AGENT
from postern.cli.status import Status, report
from postern.client.client import Client
from postern.client.client_shapes import Row
from postern.domain.targets.agent import AgentMode
from postern.domain.targets.connection import TERMINAL, protocol_of
from postern.domain.text import one_line


def warn(api: Client, connection: Row) -> None:
    """Warn on standard error if the connection runs a command and the built-in agent, which runs none, is to serve
    it."""
    if protocol_of(connection["subtype"], connection["command"] or ()) != TERMINAL:
        return
    agents = api.collection(*AGENT.path).everything()["data"]
    agent = next((candidate for candidate in agents if candidate["id"] == connection["agent_id"]), None)
    if agent is None or agent["mode"] != AgentMode.GATEWAY or api.serverinfo().get("gateway_commands", True):
        return
    name = one_line(connection["name"])
    report(
        Status.WARNING,
        f"{name} cannot be used yet: the built-in agent does not run commands, because they could read the "
        "gateway's keys.\nRun an agent on a machine of its own or as a different user:\n  postern admin "
        'agents create NAME > agent.key\n  POSTERN_KEY="$(cat agent.key)" postern agent\n  postern '
        f"connections update {name} --agent NAME\nOr, if you are the only user of this gateway, start it "
        "with POSTERN_GATEWAY_COMMANDS=true (--gateway-commands). A restart of the gateway ends all "
        "running sessions.",
    )
