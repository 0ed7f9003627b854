"""`postern guardrails presets`, `test` and `simulate`."""

from __future__ import annotations

import json
import sys
from typing import IO, Any

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.json_files import one_object
from postern.cli.nouns import GUARDRAIL
from postern.cli.printing import emit, fields, json_option, table
from postern.cli.progress import ProgressLine
from postern.cli.resource_group import looking_up
from postern.cli.rule_presets import presets
from postern.cli.timestamps import typed
from postern.domain.targets.dialect import DEFAULT_DIALECT, DIALECTS
from postern.errors import Unavailable


@click.command("presets")
@json_option
def list_presets(as_json: bool) -> None:
    """List guardrails to begin with."""
    with client() as api:
        found = presets(api, GUARDRAIL)
    emit(found, as_json, _show_presets)


def _show_presets(found: list[dict[str, Any]]) -> None:
    table(
        ["name", "protocols", "description"],
        [[one["name"], ", ".join(one["protocols"]), one["description"]] for one in found],
        "There are no presets.",
    )


_RULE = click.argument("rule", required=False, shell_complete=completion.guardrails)
_FILE = click.option("--file", type=click.File(), help="A draft, as for create, in the place of what is saved.")


@click.command()
@_RULE
@_FILE
@click.option("--text", help="What is tried; standard input, if left out.")
@click.option("--dialect", default=DEFAULT_DIALECT, show_default=True, help=f"One of {', '.join(DIALECTS.values())}.")
@click.option("--output", "is_output", is_flag=True, help="Try the output rules: the text is a part of an answer.")
@json_option
def test(
    rule: str | None, file: IO[str] | None, text: str | None, dialect: str, is_output: bool, as_json: bool
) -> None:
    """Try a guardrail, by name or id, or a draft, on a text. Exits 1 where it would be refused."""
    draft = None if file is None else one_object(file.name, file.read())
    body = {
        "text": sys.stdin.read() if text is None else text,
        "dialect": dialect,
        "direction": "output" if is_output else "input",
        "guardrail": draft,
    }
    with client() as api, looking_up(api, GUARDRAIL, rule or "") as items:
        if rule is not None:
            body["guardrail_id"] = items.get(rule)["id"]
        found = items.call("test", body={key: value for key, value in body.items() if value is not None})
    emit(found, as_json, _show_trial)
    if found["outcome"] == "deny":
        sys.exit(1)


def _show_trial(found: dict[str, Any]) -> None:
    fields([("outcome", found["outcome"]), ("message", found["message"])])
    for one in found["statements"]:
        touched = f" ({', '.join(one['objects'])})" if one["objects"] else ""
        reason = f": {one['reason']}" if one["reason"] else ""
        click.echo(f"statement  {one['tag'] or '?'}  {', '.join(one['effects'])}{touched}{reason}")
    for one in found["hits"]:
        click.echo(f"rule       {one['action']}  {one['rule']}  {one['reason']}")


@click.command()
@_RULE
@_FILE
@click.option("--since", type=typed, help="Sessions from then on: 30d, yesterday, 2026-01-31. Default: 7d.")
@click.option("--until", type=typed, help="Sessions up to then.")
@click.option(
    "--connection", "connections", multiple=True, help="Only these; repeatable.", shell_complete=completion.connections
)
@click.option("--max-sessions", type=int, default=1_000, show_default=True)
@json_option
def simulate(
    rule: str | None,
    file: IO[str] | None,
    since: str | None,
    until: str | None,
    connections: tuple[str, ...],
    max_sessions: int,
    as_json: bool,
) -> None:
    """Say what a guardrail, by name or id, or a draft, would have done to what was asked and shown in recorded
    sessions; nothing is changed. Ctrl-C ends it."""
    given = {
        "start_date": since,
        "end_date": until,
        "connections": list(connections) or None,
        "max_sessions": max_sessions,
        "guardrail": None if file is None else one_object(file.name, file.read()),
    }
    body = {key: value for key, value in given.items() if value is not None}
    result: dict[str, Any] | None = None
    with (
        client() as api,
        looking_up(api, GUARDRAIL, rule or "") as items,
        ProgressLine("reading sessions", quiet=as_json, unit="statements") as progress,
    ):
        below = [] if rule is None else [str(items.get(rule)["id"])]
        counted = 0
        with items.lines(*below, "simulate", body=body) as lines:
            for line in lines:
                result = json.loads(line)
                assert result is not None
                progress.count(result["statements_read"] - counted)
                counted = result["statements_read"]
                progress.say(f"{result['sessions_read']} sessions")
    if result is None or result["event"] != "result":
        raise Unavailable("the simulation was cut off before its end; ask again")
    emit(result, as_json, _show_simulation)


def _show_simulation(found: dict[str, Any]) -> None:
    actions = ", ".join(f"{action} {count}" for action, count in found["actions"].items()) or "nothing"
    fields(
        [
            (
                "read",
                f"{found['statements_read']} statements with {found['values_read']} values, and "
                f"{found['answers_read']} texts of answers, of {found['sessions_read']} sessions",
            ),
            ("would have done", actions),
            ("of them unknown", found["unknown"]),
            ("in sessions", found["sessions_hit"]),
            ("by rule", ", ".join(f"{rule} {count}" for rule, count in found["rules"].items())),
            ("not read", ", ".join(f"{count}: {reason}" for reason, count in found["skipped"].items())),
            ("stopped", found.get("stopped") or ""),
        ]
    )
    for caveat in found.get("caveats") or []:
        click.echo(f"mind: {caveat}")
    for one in found.get("samples") or []:
        shown = " ".join(one["statement"].split())[:100]
        bound = f"  {one['values']}" if one["values"] else ""
        where = "answer to " if one["direction"] == "output" else ""
        click.echo(f"{one['session_id']}  {one['action']}  {one['rule']}  {where}{shown}{bound}  {one['reason']}")
