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
from postern.cli.resource_group import DESCRIPTION, ResourceCommands, looking_up, new_name, resource_group
from postern.cli.rule_presets import CONNECTIONS, PRESET, apply_preset, presets
from postern.cli.status import Status, report
from postern.cli.timestamps import parse_timestamp
from postern.client.client import Client
from postern.client.client_shapes import Row
from postern.domain.targets.dialect import DEFAULT_DIALECT, DIALECTS
from postern.errors import Unavailable


@click.command("presets")
@json_option
def list_presets(as_json: bool) -> None:
    """List guardrail presets."""
    with client() as api:
        preset_rows = presets(api, GUARDRAIL)
    emit(preset_rows, as_json, _show_presets)


def _show_presets(preset_rows: list[dict[str, Any]]) -> None:
    table(
        ["name", "protocols", "description"],
        [[preset["name"], ", ".join(preset["protocols"]), preset["description"]] for preset in preset_rows],
        "There are no presets.",
    )


_RULE = click.argument("rule", required=False, shell_complete=completion.guardrails)
_FILE = click.option(
    "--file", type=click.File(), help="JSON file with a draft, as for `create`, to try instead of the saved guardrail."
)


@click.command()
@_RULE
@_FILE
@click.option("--text", help="Text to try.  [default: standard input]")
@click.option("--dialect", default=DEFAULT_DIALECT, show_default=True, help=f"One of {', '.join(DIALECTS.values())}.")
@click.option("--output", "is_output", is_flag=True, help="Try the output rules: the text is part of an output.")
@json_option
def test(
    rule: str | None, file: IO[str] | None, text: str | None, dialect: str, is_output: bool, as_json: bool
) -> None:
    """Try a guardrail, by name or id, or a draft, on a text. Exits with 1 if it would be denied."""
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
        trial = items.call("test", body={key: value for key, value in body.items() if value is not None})
    emit(trial, as_json, _show_trial)
    if trial["outcome"] == "deny":
        sys.exit(1)


def _show_trial(trial: dict[str, Any]) -> None:
    fields([("outcome", trial["outcome"]), ("message", trial["message"])])
    for statement in trial["statements"]:
        touched = f" ({', '.join(statement['objects'])})" if statement["objects"] else ""
        reason = f": {statement['reason']}" if statement["reason"] else ""
        click.echo(f"statement  {statement['tag'] or '?'}  {', '.join(statement['effects'])}{touched}{reason}")
    for statement in trial["hits"]:
        click.echo(f"rule       {statement['action']}  {statement['rule']}  {statement['reason']}")


@click.command()
@_RULE
@_FILE
@click.option("--since", type=parse_timestamp, help="Start of the period: 30d, yesterday, 2026-01-31.  [default: 7d]")
@click.option("--until", type=parse_timestamp, help="End of the period.")
@click.option(
    "--connection",
    "connections",
    multiple=True,
    help="Only sessions on this connection. Repeatable.",
    shell_complete=completion.connections,
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
    """Simulate a guardrail, by name or id, or a draft, on recorded sessions: what it would have done to their input and
    output. Nothing is changed. Ctrl-C ends it."""
    options = {
        "start_date": since,
        "end_date": until,
        "connections": list(connections) or None,
        "max_sessions": max_sessions,
        "guardrail": None if file is None else one_object(file.name, file.read()),
    }
    body = {key: value for key, value in options.items() if value is not None}
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
        raise Unavailable("the simulation was interrupted; run it again")
    emit(result, as_json, _show_simulation)


def _show_simulation(simulation: dict[str, Any]) -> None:
    actions = ", ".join(f"{action} {count}" for action, count in simulation["actions"].items()) or "nothing"
    fields(
        [
            (
                "read",
                f"{simulation['statements_read']} statements with {simulation['values_read']} values, and "
                f"{simulation['answers_read']} texts of output, in {simulation['sessions_read']} sessions",
            ),
            ("would have done", actions),
            ("of them not analysed", simulation["unknown"]),
            ("in sessions", simulation["sessions_hit"]),
            ("by rule", ", ".join(f"{rule} {count}" for rule, count in simulation["rules"].items())),
            ("not read", ", ".join(f"{count}: {reason}" for reason, count in simulation["skipped"].items())),
            ("stopped", simulation.get("stopped") or ""),
        ]
    )
    for caveat in simulation.get("caveats") or []:
        click.echo(f"note: {caveat}")
    for sample in simulation.get("samples") or []:
        text = " ".join(sample["statement"].split())[:100]
        bound = f"  {sample['values']}" if sample["values"] else ""
        where = "output of " if sample["direction"] == "output" else ""
        click.echo(
            f"{sample['session_id']}  {sample['action']}  {sample['rule']}  {where}{text}{bound}  {sample['reason']}"
        )


_FROM_PRESET = ("description", "input", "output")


def _prepare(api: Client, body: Row, _key: str | None) -> Row:
    return apply_preset(api, GUARDRAIL, body, _FROM_PRESET)


def _count(side: dict[str, Any] | None) -> int:
    return len((side or {}).get("rules") or [])


def _show(guardrail: Row) -> None:
    fields(
        [
            ("id", guardrail["id"]),
            ("name", guardrail["name"]),
            ("enabled", "yes" if guardrail["enabled"] else "no"),
            ("description", guardrail["description"]),
        ]
    )
    for where, side in (("input", guardrail["input"]), ("output", guardrail["output"])):
        for rule in (side or {}).get("rules") or []:
            action = rule.get("action", "deny")
            click.echo(f"{where:<6}  {action}  {rule['type']}  {rule.get('name') or ''}  {_subject(rule)}")


def _subject(rule: dict[str, Any]) -> str:
    """Return what a rule looks for, in one line."""
    if rule.get("pattern_regex") or rule.get("words"):
        return rule.get("pattern_regex") or ", ".join(rule["words"])
    if rule.get("most"):
        return str(rule["most"])
    return ", ".join([*rule.get("effects", []), *rule.get("objects", [])])


def _advise(guardrail: Row) -> None:
    for notice in guardrail.get("notices", []):
        report(Status.INFO, f"{notice}.")


def _question(guardrail: Row) -> str:
    where = f" on {len(guardrail['connection_ids'])} connections" if guardrail["connection_ids"] else ""
    return f"Delete guardrail {guardrail['name']}? Input and output that it denied{where} are then allowed"


guardrails = resource_group(
    ResourceCommands(
        noun=GUARDRAIL,
        help="""List and manage guardrails: rules that deny, hold, mask or warn about input and output.

        \b
        postern guardrails
        postern guardrails show "read only" --json > rule.json
        postern guardrails create -f rule.json
        postern guardrails update "read only" -f rule.json
        postern guardrails update "read only" --set enabled=false
        postern guardrails presets
        postern guardrails create "read only" --preset read-only --connection shop
        postern guardrails test "read only" --text "delete from orders"
        postern guardrails simulate "read only" --since 30d

        \b
        A rule file:
        {"name": "no drops", "connection_ids": [],
         "input": {"rules": [{"type": "pattern_match", "words": [], "pattern_regex": "(?i)drop\\\\s+table"}]}}
        """,
        columns=[
            ("name", "name"),
            ("enabled", lambda row: "yes" if row["enabled"] else "no"),
            ("input rules", lambda row: _count(row["input"])),
            ("output rules", lambda row: _count(row["output"])),
            ("connections", lambda row: len(row["connection_ids"] or [])),
            ("id", "id"),
        ],
        options=[new_name(), DESCRIPTION, PRESET, CONNECTIONS],
        file=True,
        prints_array=True,
        prepare=_prepare,
        show=_show,
        advise=_advise,
        created="Created {name} ({id}).",
        says={
            "show": "Show one guardrail, by name or id, with its rules.",
            "create": "Create a guardrail from a preset, or from a JSON file.",
            "update": "Change a guardrail, or replace it with a JSON file. Running sessions use it at once.",
            "delete": "Delete a guardrail, and remove it from its connections.",
        },
        question=_question,
        delete_query={"force": "true"},
    )
)
for _command in (list_presets, test, simulate):
    guardrails.add_command(_command)
