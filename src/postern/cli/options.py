"""The options of `up`, `gateway` and the processes they start: one for each field of Settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

import click

from postern import logs, settings
from postern.cli.lazy import AliasOption
from postern.settings import Settings

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def organisation_option(help_text: str) -> Decorator:
    """Return `--organisation`, which also answers to `--organization`."""
    return click.option("--organisation", cls=AliasOption, aliases=["--organization"], metavar="NAME", help=help_text)


def settings_options(*left_out: str) -> Decorator:
    """Add `--api-port` for `api_port` and so on. The options have no defaults of their own: `settings.load`
    has them."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        hints, hidden = get_type_hints(Settings), {*left_out, *settings.secret_names()}
        for field in reversed([each for each in fields(Settings) if each.name not in hidden]):
            flag, kind = "--" + field.name.replace("_", "-"), hints[field.name]
            if kind is bool:
                flag, kind = f"{flag}/--no-{field.name.replace('_', '-')}", None
            elif kind not in (int, float):
                kind = str
            command = click.option(flag, field.name, type=kind, default=None, help=_help(field))(command)
        return command

    return decorate


def _help(field: Any) -> str:
    meaning: str = field.metadata["meaning"]
    default = (
        "" if field.default in (MISSING, "") or isinstance(field.default, bool) else f"  [default: {field.default}]"
    )
    return f"{meaning[0].upper()}{meaning[1:]}.{default}"


def load(process: str, *, keep: bool = True, **flags: Any) -> Settings:
    """Return the settings in force, and set up this process's log with them. Raises Misconfigured. `keep`: the last
    lines are stored for the API."""
    loaded = settings.load(os.environ, **flags)
    logs.configure(loaded.log_level, loaded.log_format, process, folder=loaded.home / "logs" if keep else None)
    return loaded
