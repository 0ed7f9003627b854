from __future__ import annotations

import click

from postern.cli.api import client
from postern.cli.nouns import AGENT
from postern.cli.printing import emit, json_option, local_time
from postern.cli.resource_group import Field, ResourceCommands, item_argument, looking_up, resource_group
from postern.cli.row_commands import confirm, told, yes_option
from postern.cli.status import report_note
from postern.client.client_shapes import Row
from postern.domain.targets.agent import AgentMode
from postern.protocols.registry import DEFAULT_PROTOCOL


def _readable(agent: Row) -> Row:
    return {**agent, "last_seen": local_time(agent["last_seen"])}


def _show_key(made: Row) -> None:
    """Print the key alone on standard output, to be piped."""
    click.echo(made["key"])
    by = (
        f"`postern run -- COMMAND` or `postern run --{DEFAULT_PROTOCOL} VARIABLE`"
        if made["mode"] == AgentMode.EMBEDDED
        else "`postern agent`"
    )
    report_note(f"Start {made['name']} by {by} with it in POSTERN_KEY; the key is shown this once.")


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
                "Only these.",
                type=click.Choice(["CONNECTED", "DISCONNECTED"], case_sensitive=False),
            ),
            Field("--search", "search", "Only those with this in their name.", metavar="TEXT"),
        ],
        options=[
            Field(
                "--mode",
                "mode",
                "embedded: in an application's container, where it declares its own connection.",
                type=click.Choice(["standard", "embedded"]),
            )
        ],
        readable=_readable,
        created=_show_key,
        says={
            "show": "Show one agent, by name or id, never its key.",
            "create": "Make an agent; its key is printed this once.",
            "delete": "Delete an agent that no connection names. What it declared itself goes with it.",
        },
        question="Delete {key}? Its key stops working",
    )
)


@agents.command("renew-key")
@item_argument(AGENT)
@yes_option
@json_option
def renew_key(key: str, yes: bool, as_json: bool) -> None:
    """Make another key, printed this once; the one before it ends at once."""
    confirm(f"Renew the key of {key}? It is out until it is started with the new one, and its sessions end", yes)
    with client() as api, looking_up(api, AGENT, key) as items:
        made = items.act(key, "key")
    emit(made, as_json, _show_key)


@agents.command()
@item_argument(AGENT)
@yes_option
@json_option
def drain(key: str, yes: bool, as_json: bool) -> None:
    """Let it take no new sessions, and end when those that it has are over."""
    confirm(f"Drain {key}? It ends then, and whatever starts it has to start it again", yes)
    with client() as api, looking_up(api, AGENT, key) as items:
        items.act(key, "drain")
    told({"drained": key}, as_json, f"{key} takes no new sessions.")
