from __future__ import annotations

from typing import Any

import click

from postern.cli.commands.guardrail_trial_commands import list_presets, simulate, test
from postern.cli.nouns import GUARDRAIL
from postern.cli.printing import fields
from postern.cli.resource_group import DESCRIPTION, ResourceCommands, new_name, resource_group
from postern.cli.rule_presets import CONNECTIONS, PRESET, resolved
from postern.cli.status import Status, report
from postern.client.client import Client
from postern.client.client_shapes import Row

_FROM_PRESET = ("description", "input", "output")


def _prepare(api: Client, body: Row, _key: str | None) -> Row:
    return resolved(api, GUARDRAIL, body, _FROM_PRESET)


def _count(side: dict[str, Any] | None) -> int:
    return len((side or {}).get("rules") or [])


def _show(one: Row) -> None:
    fields([("id", one["id"]), ("name", one["name"]), ("description", one["description"])])
    for where, side in (("input", one["input"]), ("output", one["output"])):
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


def _advise(one: Row) -> None:
    for notice in one.get("notices", []):
        report(Status.INFO, f"{notice}.")


def _question(one: Row) -> str:
    where = f" on {len(one['connection_ids'])} connections" if one["connection_ids"] else ""
    return f"Delete guardrail {one['name']}? What it refused{where} is then let through"


guardrails = resource_group(
    ResourceCommands(
        noun=GUARDRAIL,
        help="""List and manage guardrails: what is refused on its way in or out.

        \b
        postern guardrails
        postern guardrails show "read only" --json > rule.json
        postern guardrails create -f rule.json
        postern guardrails update "read only" -f rule.json
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
            "update": "Change a guardrail, or replace it by a JSON file. Live sessions follow at once.",
            "delete": "Delete a guardrail, and take it off its connections.",
        },
        question=_question,
        delete_query={"force": "true"},
    )
)
for _command in (list_presets, test, simulate):
    guardrails.add_command(_command)
