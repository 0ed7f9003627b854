from __future__ import annotations

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.output import emit, json_option, local_time
from postern.cli.rows import confirm, given, page_of, paging_options, show_page, show_row, told, yes_option
from postern.cli.status import report_note
from postern.client.shapes import Row
from postern.domain.agent import AgentMode

_COLUMNS = [
    ("name", "name"),
    ("mode", "mode"),
    ("status", "status"),
    ("version", "version"),
    ("host", "hostname"),
    ("platform", "platform"),
    ("last seen", "last_seen"),
]
_PATH = "agents"


@click.group()
def agents() -> None:
    """List and manage agents: the processes near the targets that dial out to this gateway. AGENT is a name or id.

    \b
    postern admin agents create edge              prints the key; start the agent with it:
    POSTERN_KEY='grpcs://edge:xagt-…' postern agent
    postern admin agents list --status CONNECTED
    """


@agents.command("list")
@click.option("--status", type=click.Choice(["CONNECTED", "DISCONNECTED"], case_sensitive=False), help="Only these.")
@click.option("--search", metavar="TEXT", help="Only those with this in their name.")
@paging_options
def list_(status: str | None, search: str | None, as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List agents, by name."""
    filters = given(status=status, search=search)
    with client() as api:
        page = page_of(api.collection(_PATH), limit=limit, offset=offset, every=every, **filters)
    for row in page["data"] if not as_json else ():
        row["last_seen"] = local_time(row["last_seen"])
    empty = "No agent fits." if filters else "There are no agents yet: postern admin agents create NAME"
    show_page(page, _COLUMNS, as_json, empty)


@agents.command()
@click.argument("agent", shell_complete=completion.agents)
@json_option
def show(agent: str, as_json: bool) -> None:
    """Show one agent, never its key."""
    with client() as api:
        row = api.collection(_PATH).get(agent)
    if not as_json:
        row["last_seen"] = local_time(row["last_seen"])
    show_row(row, as_json)


@agents.command()
@click.argument("name")
@click.option(
    "--mode",
    type=click.Choice(["standard", "embedded"]),
    help="embedded: in an application's container, where it declares its own connection.",
)
@json_option
def create(name: str, mode: str | None, as_json: bool) -> None:
    """Make an agent; its key is printed this once."""
    with client() as api:
        made = api.collection(_PATH).create(given(name=name, mode=mode))
    emit(made, as_json, _show_key)


@agents.command("renew-key")
@click.argument("agent", shell_complete=completion.agents)
@yes_option
@json_option
def renew_key(agent: str, yes: bool, as_json: bool) -> None:
    """Make another key, printed this once; the one before it ends at once."""
    confirm(f"Renew the key of {agent}? It is out until it is started with the new one, and its sessions end", yes)
    with client() as api:
        made = api.collection(_PATH).act(agent, "key")
    emit(made, as_json, _show_key)


@agents.command()
@click.argument("agent", shell_complete=completion.agents)
@yes_option
@json_option
def drain(agent: str, yes: bool, as_json: bool) -> None:
    """Let it take no new sessions, and end when those that it has are over."""
    confirm(f"Drain {agent}? It ends then, and whatever starts it has to start it again", yes)
    with client() as api:
        api.collection(_PATH).act(agent, "drain")
    told({"drained": agent}, as_json, f"{agent} takes no new sessions.")


@agents.command()
@click.argument("agent", shell_complete=completion.agents)
@yes_option
@json_option
def delete(agent: str, yes: bool, as_json: bool) -> None:
    """Delete an agent that no connection names; what it declared itself goes with it."""
    confirm(f"Delete {agent}? Its key stops working", yes)
    with client() as api:
        api.collection(_PATH).delete(agent)
    told({"deleted": agent}, as_json, f"Deleted {agent}.")


def _show_key(made: Row) -> None:
    """The key alone on standard output, to be piped."""
    click.echo(made["key"])
    by = (
        "`postern run -- COMMAND` or `postern run --postgres VARIABLE`"
        if made["mode"] == AgentMode.EMBEDDED
        else "`postern agent`"
    )
    report_note(f"Start {made['name']} by {by} with it in POSTERN_KEY; the key is shown this once.")
