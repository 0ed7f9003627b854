from __future__ import annotations

import click

from postern.cli.api import client
from postern.cli.printing import emit, json_option
from postern.cli.row_commands import page_of, paging_options, show_page, told
from postern.cli.status import report_note

_COLUMNS = [
    ("id", "id"),
    ("account", "chat_id"),
    ("user", "email"),
    ("since", "created_at"),
]
_PATH = ("chat", "accounts")


@click.group()
def chat() -> None:
    """Decide reviews from a chat: show whose account there is yours.

    \b
    postern chat link
    postern chat list
    postern chat unlink ID
    """


@chat.command()
@json_option
def link(as_json: bool) -> None:
    """Print a code that shows in Slack that an account there is yours: `/postern CODE`, or in the form that asks for
    it. It is good once, for ten minutes."""
    with client() as api:
        made = api.collection("chat").act("link")
    emit(made, as_json, lambda one: click.echo(one["code"]))
    if not as_json:
        report_note("Type it in Slack within ten minutes, and show it to nobody.")


@chat.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List your accounts of chats; administrators and auditors see everybody's."""
    with client() as api:
        page = page_of(api.collection(*_PATH), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "No account of a chat yet: postern chat link")


@chat.command()
@click.argument("id_", metavar="ID")
@json_option
def unlink(id_: str, as_json: bool) -> None:
    """From now on that account decides nothing; ID is what the list shows."""
    with client() as api:
        api.collection(*_PATH).delete(id_)
    told({"deleted": id_}, as_json, f"Unlinked {id_}.")
