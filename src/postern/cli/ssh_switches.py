"""What SSH clients may ask for on a connection, as options of its commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from postern.client.client_shapes import Row
from postern.domain.targets.connection import Extra, Toggle

_SAYS: Mapping[Extra, str] = {
    Extra.FORWARD_LOCAL: "SSH clients may reach ports of the target's network (ssh -L).",
    Extra.FORWARD_REMOTE: "SSH clients may open ports at the target (ssh -R).",
    Extra.FORWARD_AGENT: "SSH clients may lend the target their agent (ssh -A).",
    Extra.FILE_TRANSFER: "SSH clients may copy files (sftp, scp, rsync).",
}


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """One for each: True, False, or None where it was not given."""
    for extra in reversed(Extra):
        flag = extra.replace("_", "-")
        command = click.option(f"--{flag}/--no-{flag}", extra.value, default=None, help=_SAYS[extra])(command)
    return command


def taken(given: dict[str, Any]) -> Row:
    """The fields of the connection; the options are no longer in `given`."""
    chosen = {extra: given.pop(extra.value) for extra in Extra}
    return {
        f"access_{extra}": (Toggle.ENABLED if wanted else Toggle.DISABLED).value
        for extra, wanted in chosen.items()
        if wanted is not None
    }
