"""The switches of a connection that are options of its commands: features of SSH clients, and terminals in browsers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from postern.client.client_shapes import Row
from postern.domain.targets.connection import Extra, Toggle

# Each is an option, and a field of the connection.
_EXTRAS: Mapping[Extra, str] = {
    Extra.FORWARD_LOCAL: "Whether SSH clients can reach ports of the target's network (ssh -L).",
    Extra.FORWARD_REMOTE: "Whether SSH clients can open ports at the target (ssh -R).",
    Extra.FORWARD_AGENT: "Whether SSH clients can forward their agent to the target (ssh -A).",
    Extra.FILE_TRANSFER: "Whether SSH clients can copy files (sftp, scp, rsync).",
}
_SAYS: Mapping[str, str] = {
    **{f"access_{extra}": text for extra, text in _EXTRAS.items()},
    "access_mode_web_terminal": "Whether users can open a terminal in the web application.",
    "access_fresh_factor": "Whether they must first confirm their login, if that was more than ten minutes ago.",
}


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each: True, False, or None if it was not given."""
    for field, text in reversed(list(_SAYS.items())):
        flag = field.removeprefix("access_").removeprefix("mode_").replace("_", "-")
        command = click.option(f"--{flag}/--no-{flag}", field, default=None, help=text)(command)
    return command


def take_switches(options: dict[str, Any]) -> Row:
    """Return the fields of the connection, and remove them from `options`."""
    chosen = {field: options.pop(field) for field in _SAYS}
    return {
        field: (Toggle.ENABLED if is_enabled else Toggle.DISABLED).value
        for field, is_enabled in chosen.items()
        if is_enabled is not None
    }
