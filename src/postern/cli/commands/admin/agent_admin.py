from __future__ import annotations

import click

from postern.cli.api import client
from postern.cli.nouns import AGENT
from postern.cli.printing import emit, json_option, local_time
from postern.cli.resource_group import Field, ResourceCommands, item_argument, looking_up, resource_group
from postern.cli.row_commands import confirm, print_result, yes_option
from postern.cli.status import report_note
from postern.client.client_shapes import Row
from postern.domain.targets.agent import AgentMode
from postern.protocols.registry import DEFAULT_PROTOCOL


def _readable(agent: Row) -> Row:
    return {**agent, "last_seen": local_time(agent["last_seen"])}


def _show_key(agent_key: Row) -> None:
    """Print only the key on standard output, so that it can be piped."""
    click.echo(agent_key["key"])
    by = (
        f"`postern run -- COMMAND` or `postern run --{DEFAULT_PROTOCOL} VARIABLE`"
        if agent_key["mode"] == AgentMode.EMBEDDED
        else "`postern agent`"
    )
    report_note(f"Start {agent_key['name']} with {by} and this key in POSTERN_KEY. The key is shown only once.")


agents = resource_group(
    ResourceCommands(
        noun=AGENT,
        help="""List and manage agents: the processes near the targets that dial out to this gateway. AGENT is a name
        or id.

        \b
        postern admin agents create edge              prints the key; start the agent with it:
        POSTERN_KEY='grpcs://edge:xagt-…' postern agent
        postern admin agents list --status CONNECTED
        """,
        columns=[
            ("name", "name"),
            ("mode", "mode"),
            ("status", "status"),
            ("version", "version"),
            ("host", "hostname"),
            ("platform", "platform"),
            ("last seen", "last_seen"),
        ],
        verbs=("list", "show", "create", "delete"),
        filters=[
            Field(
                "--status",
                "status",
                "Show only agents in this state.",
                type=click.Choice(["CONNECTED", "DISCONNECTED"], case_sensitive=False),
            ),
            Field("--search", "search", "Show only agents whose name contains this text.", metavar="TEXT"),
        ],
        options=[
            Field(
                "--mode",
                "mode",
                "standard: runs on its own machine. embedded: runs in an application's container and "
                "declares its own connection.",
                type=click.Choice(["standard", "embedded"]),
            )
        ],
        readable=_readable,
        created=_show_key,
        says={
            "show": "Show an agent, by name or id. Its key is never shown.",
            "create": "Create an agent and print its key. The key is shown only once.",
            "delete": "Delete an agent that no connection uses. Connections that it declared itself are deleted, too.",
        },
        question="Delete agent {key}? Its key stops working",
    )
)


@agents.command("renew-key")
@item_argument(AGENT)
@yes_option
@json_option
def renew_key(key: str, yes: bool, as_json: bool) -> None:
    """Replace the agent's key. The new key is shown only once; the old one stops working at once."""
    confirm(
        f"Renew the key of {key}? The agent disconnects and its sessions end; it is offline until you start it "
        "with the new key",
        yes,
    )
    with client() as api, looking_up(api, AGENT, key) as items:
        agent_key = items.act(key, "key")
    emit(agent_key, as_json, _show_key)


@agents.command()
@item_argument(AGENT)
@yes_option
@json_option
def drain(key: str, yes: bool, as_json: bool) -> None:
    """Drain an agent: it accepts no new sessions, and terminates when its running sessions have ended."""
    confirm(f"Drain {key}? It terminates when its sessions have ended; your service manager must start it again", yes)
    with client() as api, looking_up(api, AGENT, key) as items:
        items.act(key, "drain")
    print_result({"drained": key}, as_json, f"{key} accepts no new sessions.")
