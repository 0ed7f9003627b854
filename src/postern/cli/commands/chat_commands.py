from __future__ import annotations

import click

from postern.cli.api import client
from postern.cli.printing import emit, json_option
from postern.cli.row_commands import page_of, paging_options, print_result, show_page
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
    """Link chat accounts, so that you can decide reviews in a chat.

    \b
    postern chat link
    postern chat list
    postern chat unlink ID
    """


@chat.command()
@json_option
def link(as_json: bool) -> None:
    """Print a code that links a Slack account to you. In Slack, type `/postern CODE`, or enter it in the form that asks
    for it. It works once, within ten minutes."""
    with client() as api:
        link_code = api.collection("chat").act("link")
    emit(link_code, as_json, lambda answer: click.echo(answer["code"]))
    if not as_json:
        report_note("Type this code in Slack within ten minutes. Do not share it.")


@chat.command("list")
@paging_options
def list_(as_json: bool, limit: int, offset: int, every: bool) -> None:
    """List your linked chat accounts; administrators and auditors see those of all users."""
    with client() as api:
        page = page_of(api.collection(*_PATH), limit=limit, offset=offset, every=every)
    show_page(page, _COLUMNS, as_json, "No chat account is linked yet: postern chat link")


@chat.command()
@click.argument("id_", metavar="ID")
@json_option
def unlink(id_: str, as_json: bool) -> None:
    """Unlink a chat account. It can no longer decide reviews. `list` shows the ID."""
    with client() as api:
        api.collection(*_PATH).delete(id_)
    print_result({"deleted": id_}, as_json, f"Unlinked {id_}.")
