"""The features that SSH clients can use on a connection, as options of its commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from postern.client.client_shapes import Row
from postern.domain.targets.connection import Extra, Toggle

_SAYS: Mapping[Extra, str] = {
    Extra.FORWARD_LOCAL: "Whether SSH clients can reach ports of the target's network (ssh -L).",
    Extra.FORWARD_REMOTE: "Whether SSH clients can open ports at the target (ssh -R).",
    Extra.FORWARD_AGENT: "Whether SSH clients can forward their agent to the target (ssh -A).",
    Extra.FILE_TRANSFER: "Whether SSH clients can copy files (sftp, scp, rsync).",
}


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each: True, False, or None if it was not given."""
    for extra in reversed(Extra):
        flag = extra.replace("_", "-")
        command = click.option(f"--{flag}/--no-{flag}", extra.value, default=None, help=_SAYS[extra])(command)
    return command


def take_switches(options: dict[str, Any]) -> Row:
    """Return the fields of the connection, and remove them from `options`."""
    chosen = {extra: options.pop(extra.value) for extra in Extra}
    return {
        f"access_{extra}": (Toggle.ENABLED if is_enabled else Toggle.DISABLED).value
        for extra, is_enabled in chosen.items()
        if is_enabled is not None
    }
