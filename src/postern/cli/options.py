"""The options of `up`, `gateway` and the processes they start: one for each field of Settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

import click

from postern import logs, settings
from postern.cli.lazy import AliasOption
from postern.domain.durations import parse_duration
from postern.logs.log_file import LogFile
from postern.settings import AgentSettings, Settings

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def organisation_option(help_text: str) -> Decorator:
    """Return `--organisation`, which also answers to `--organization`."""
    return click.option("--organisation", cls=AliasOption, aliases=["--organization"], metavar="NAME", help=help_text)


def config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--config`, for commands that load settings."""
    return click.option(
        "--config",
        metavar="FILE",
        help="Configuration file.  [default: POSTERN_CONFIG, or /etc/postern/postern.toml if it exists]",
    )(command)


class DurationType(click.ParamType[float]):
    """Seconds, or a duration such as `10m`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = parse_duration(str(value))
        except ValueError:
            seconds = -1.0
        if seconds < 0:
            self.fail(f"{value!r} is not a duration; write seconds, or 30s, 10m, 48h", param, ctx)
        return seconds


def settings_options(*left_out: str, hidden: bool = False) -> Decorator:
    """Add `--config`, and `--api-port` for `api_port` and so on, `hidden` in the help. The options have no defaults of
    their own: `settings.load` has them."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        hints, unlisted = get_type_hints(Settings), {*left_out, *settings.secret_names()}
        for field in reversed([each for each in fields(Settings) if each.name not in unlisted]):
            flag, kind = "--" + field.name.replace("_", "-"), hints[field.name]
            if field.metadata.get("is_duration"):
                kind = DurationType()
            elif kind is bool:
                flag, kind = f"{flag}/--no-{field.name.replace('_', '-')}", None
            elif kind not in (int, float):
                kind = str
            option = click.option(flag, field.name, type=kind, default=None, help=_help(field), hidden=hidden)
            command = option(command)
        return config_option(command)

    return decorate


def _help(field: Any) -> str:
    meaning: str = field.metadata["meaning"]
    default = (
        "" if field.default in (MISSING, "") or isinstance(field.default, bool) else f"  [default: {field.default}]"
    )
    return f"{meaning[0].upper()}{meaning[1:]}.{default}"


def load(process: str, *, keep: bool = True, **flags: Any) -> Settings:
    """Return the settings in force, and set up this command's log with them: to standard error. Raises Misconfigured.
    `keep`: the last lines are stored for the API."""
    loaded = settings.load(os.environ, **flags)
    folder = loaded.home / "logs" if keep else None
    logs.configure(loaded.log_level, loaded.log_format, process, folder=folder)
    return loaded


def load_process(process: str, *, keep: bool = True, **flags: Any) -> Settings:
    """Return the settings as `load` for a process of a gateway, whose log can go to a file instead."""
    loaded = settings.load(os.environ, **flags)
    folder = loaded.home / "logs" if keep else None
    logs.configure(loaded.log_level, loaded.log_format, process, folder=folder, file=log_file(loaded))
    return loaded


def load_agent(**flags: Any) -> AgentSettings:
    """Return an agent's settings, and set up its log. Raises Misconfigured."""
    loaded = settings.load_agent(os.environ, **flags)
    logs.configure(loaded.log_level, loaded.log_format, "agent", file=log_file(loaded))
    return loaded


def log_file(loaded: Settings | AgentSettings) -> LogFile | None:
    """Return the file that these settings choose for the log. Raises Misconfigured if it cannot be written."""
    if not loaded.log_file:
        return None
    return LogFile(Path(loaded.log_file), size=loaded.log_file_size, count=loaded.log_files)
