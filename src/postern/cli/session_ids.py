"""Sessions as arguments: by identifier, by its beginning, or as `last`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from postern.cli import completion
from postern.cli.api import client
from postern.client.client import Client
from postern.domain.resource_identifiers import is_identifier
from postern.errors import NotFound

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
LAST = "last"
METAVAR = "ID"


def session_argument(*, several: bool = False, required: bool = True) -> Decorator:
    """Add `session_id`, or `session_ids` if several can be given, as whole identifiers."""
    return click.argument(
        "session_ids" if several else "session_id",
        metavar=f"{METAVAR}..." if several else METAVAR if required else f"[{METAVAR}]",
        nargs=-1 if several else 1,
        required=required,
        callback=_convert,
        shell_complete=completion.sessions,
    )


def session_option(*names: str, **settings: Any) -> Decorator:
    """Add an option whose value is a session, as a whole identifier."""
    return click.option(*names, callback=_convert, shell_complete=completion.sessions, **settings)


def _convert(
    _ctx: click.Context, _param: click.Parameter, value: str | tuple[str, ...] | None
) -> str | tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str):
        return resolve((value,))[0]
    return resolve(value)


def resolve(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return whole identifiers. Asks the gateway only if one of them is incomplete. Raises as `_find`."""
    if all(map(is_identifier, names)):
        return names
    with client() as api:
        return tuple(name if is_identifier(name) else _find(api, name) for name in names)


def _find(api: Client, name: str) -> str:
    """Raises NotFound, and Invalid when several identifiers begin with `name`."""
    if name != LAST:
        return api.sessions.get(name)["id"]
    newest = api.sessions.list(limit=1, count="none")["data"]
    if not newest:
        raise NotFound("there is no last session: there are no sessions that you can see yet")
    return newest[0]["id"]
