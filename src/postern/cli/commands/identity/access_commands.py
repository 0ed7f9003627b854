from __future__ import annotations

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.printing import emit, fields, json_option
from postern.client.client_shapes import Row


@click.command()
@click.argument("connection", shell_complete=completion.connections)
@click.option(
    "--user",
    help="Another user, by e-mail or identifier; for administrators and auditors.",
    shell_complete=completion.users,
)
@json_option
def access(connection: str, user: str | None, as_json: bool) -> None:
    """Explain why you, or another user (--user), can or cannot use a connection.

    \b
    postern access shop
    postern access shop --user ann@example.com
    """
    with client() as api:
        found = api.connections.act(connection, "access", method="GET", user=user)
    emit(found, as_json, _show)


def _show(found: Row) -> None:
    fields(
        [
            ("connection", found["connection"]),
            ("user", found["user"]),
            ("can use it", found["allowed"]),
            ("can see it", found["visible"]),
            ("why", found["reason"]),
            ("rule", found["rule"]),
            ("group", found["group"]),
            *((f"to {review['verb']}", review["reason"]) for review in found["reviews"]),
        ]
    )
    for other in found["would_allow"]:
        click.echo(f"would allow it: {other['rule']}, for {', '.join(other['groups']) or 'no group'}")
