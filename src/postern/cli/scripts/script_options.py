"""The options of commands that run scripts: variables, waiting, reviews and output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from postern.cli import completion
from postern.cli.lazy import AliasOption
from postern.cli.printing import json_option
from postern.cli.scripts.review_wait import Patience
from postern.cli.timestamps import duration


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `environment`, `form`, `reason`, `patience` and `at_once` for `patience_of`, `resume` and `as_json`."""
    for option in (
        json_option,
        click.option(
            "--resume",
            metavar="SESSION",
            shell_complete=completion.sessions,
            help="Resume a script that was submitted before: run it if its review is approved, else wait.",
        ),
        click.option(
            "--no-wait",
            "at_once",
            cls=AliasOption,
            aliases=["--no-wait-review"],
            is_flag=True,
            help="Do not wait for a review; exit with code 7 if one is pending.",
        ),
        click.option(
            "--wait-review",
            "patience",
            type=duration,
            metavar="DURATION",
            help="How long to wait for a review: 30m, 2h.  [default: until the review expires]",
        ),
        click.option("--reason", default="", help="Reason, shown to the reviewers if the script needs a review."),
        click.option(
            "--format",
            "form",
            type=click.Choice(["text", "json", "csv", "ndjson"]),
            help="Form of the results: text with tabs between columns, JSON, CSV (RFC 4180), or lines of JSON. Text "
            "and lines are printed while the script runs.  [default: text]",
        ),
        click.option(
            "-e",
            "--env",
            "environment",
            multiple=True,
            metavar="NAME=VALUE",
            help="An environment variable for a command. Repeatable.",
        ),
    ):
        command = option(command)
    return command


def issue_fields(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `fields`, for `fields_of`."""
    return click.option(
        "--issue-field",
        "fields",
        multiple=True,
        metavar="NAME=VALUE",
        help="Field of the issue that the session opens, with the tracker's name for the field. Repeatable.",
    )(command)


def fields_of(texts: Sequence[str]) -> dict[str, str]:
    """Raises UsageError."""
    for text in texts:
        if "=" not in text:
            raise click.UsageError(f"--issue-field {text}: write a field as NAME=VALUE")
    return dict(text.split("=", 1) for text in texts)


def patience_of(seconds: float | None, *, at_once: bool, form: str | None, as_json: bool) -> Patience:
    """Return the patience. Raises UsageError for options that exclude each other."""
    if seconds is not None and at_once:
        raise click.UsageError("give --wait-review or --no-wait, not both")
    if form is not None and as_json:
        raise click.UsageError("give --json or --format, not both")
    return Patience(0 if at_once else seconds, quiet=as_json)


def variables_of(texts: Sequence[str]) -> dict[str, str]:
    """Raises UsageError."""
    for text in texts:
        if "=" not in text:
            raise click.UsageError(f"-e {text}: write a variable as NAME=VALUE")
    return dict(text.split("=", 1) for text in texts)
