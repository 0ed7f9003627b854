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
        decision = api.connections.act(connection, "access", method="GET", user=user)
    emit(decision, as_json, _show)


def _show(decision: Row) -> None:
    fields(
        [
            ("connection", decision["connection"]),
            ("user", decision["user"]),
            ("can use it", decision["allowed"]),
            ("can see it", decision["visible"]),
            ("why", decision["reason"]),
            ("rule", decision["rule"]),
            ("group", decision["group"]),
            *((f"to {review['verb']}", review["reason"]) for review in decision["reviews"]),
            *(
                ("only from", f"{', '.join(rule['allowed_networks'])} (network rule {rule['rule']!r})")
                for rule in decision["network_rules"]
            ),
        ]
    )
    if preview := decision["once_enforced"]:
        may = "can use it" if preview["allowed"] else "cannot use it"
        click.echo(f"once access control is on: {may}, because {preview['reason']}")
    for other in decision["would_allow"]:
        click.echo(f"would allow it: {other['rule']}, for {', '.join(other['groups']) or 'no group'}")
