from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from postern.cli import completion
from postern.cli.api import client
from postern.cli.json_files import one_object
from postern.cli.nouns import MASKING_RULE
from postern.cli.printing import emit, fields, json_option, table
from postern.cli.resource_group import DESCRIPTION, Field, ResourceCommands, looking_up, new_name, resource_group
from postern.cli.rule_presets import CONNECTIONS, PRESET, apply_preset, presets
from postern.cli.status import Status, report
from postern.client.client import Client
from postern.client.client_shapes import Row
from postern.domain.rules.masking import Strategy, Strictness

_GROUP = "TYPES"  # the name of the group that --type adds
_FROM_PRESET = ("description", "supported_entity_types", "columns", "strategy", "strictness")
# Fields that the API adds to a rule, and does not accept for a test of it.
_NOT_TESTED = frozenset({"id", "connection_ids", "created_at", "updated_at"})


def _make_group(types: Sequence[str]) -> list[Row]:
    return [{"name": _GROUP, "entity_types": [*types]}]


def _prepare(api: Client, body: Row, _key: str | None) -> Row:
    body = apply_preset(api, MASKING_RULE, body, _FROM_PRESET)
    patterns, words = body.pop("patterns", []), body.pop("words", [])
    if patterns or words:
        body["custom_entity_types"] = _custom(patterns, words)
    return body


def _custom(patterns: Sequence[str], words: Sequence[str]) -> list[Row]:
    """Return the types of --pattern and --word. Raises UsageError."""
    types: dict[str, Row] = {}
    for option, texts in (("--pattern", patterns), ("--word", words)):
        for text in texts:
            name, equals, value = text.partition("=")
            if not equals or not value:
                raise click.UsageError(f"{option}: needs NAME={'REGEX' if option == '--pattern' else 'WORD'}")
            custom_type = types.setdefault(name, {"name": name})
            if option == "--word":
                custom_type.setdefault("deny_list", []).append(value)
            elif "regex" in custom_type:
                raise click.UsageError(f"--pattern: {name} is given twice; join the patterns with |")
            else:
                custom_type["regex"] = value
    return list(types.values())


def _types(rule: Row) -> list[str]:
    named = [name for group in rule["supported_entity_types"] for name in group["entity_types"]]
    return [*named, *(custom["name"] for custom in rule["custom_entity_types"])]


def _show(rule: Row) -> None:
    names = ("id", "name", "description", "strategy", "strictness", "score_threshold", "columns", "connection_ids")
    fields([*((name, rule[name]) for name in names), ("types", _types(rule))])


def _question(rule: Row) -> str:
    where = f" on {len(rule['connection_ids'])} connections" if rule["connection_ids"] else ""
    return f"Delete masking rule {rule['name']}? Values that it masked{where} are then shown"


masking = resource_group(
    ResourceCommands(
        noun=MASKING_RULE,
        help="""List, manage and try masking rules: which values are replaced in output, and how.

        \b
        postern masking
        postern masking presets
        postern masking create "customer data" --preset recommended --connection shop-demo
        postern masking create people --column customers.email --column "users.*name" --strategy hash \\
            --type PHONE_NUMBER --pattern "BADGE=B-[0-9]{6}" --connection shop-demo
        postern masking update people --strictness best_effort
        postern masking create -f rule.json
        postern masking test "customer data" "call 212-555-0142"
        postern masking test rule.json --cell users.email=ann@example.com

        \b
        A rule file:
        {"name": "customer data", "connection_ids": [], "strategy": "hash",
         "supported_entity_types": [{"name": "CONTACT", "entity_types": ["EMAIL_ADDRESS", "PHONE_NUMBER"]}],
         "custom_entity_types": [{"name": "BADGE", "regex": "B-[0-9]{6}", "score": 0.9}],
         "columns": ["users.*name", "tag:secret"]}
        """,
        columns=[
            ("name", "name"),
            ("strategy", "strategy"),
            ("types", lambda row: len(_types(row))),
            ("columns", lambda row: len(row["columns"])),
            ("connections", lambda row: len(row["connection_ids"])),
            ("id", "id"),
        ],
        options=[
            new_name(),
            PRESET,
            CONNECTIONS,
            Field(
                "--column",
                "columns",
                "A column: name, table.name, schema.table.name or tag:name; * matches any text.",
                many=True,
                metavar="PATTERN",
            ),
            Field(
                "--type",
                "supported_entity_types",
                "An information type.",
                many=True,
                metavar="TYPE",
                completes=completion.types,
                read=_make_group,
            ),
            Field("--pattern", "patterns", "Custom type, by a regular expression.", many=True, metavar="NAME=REGEX"),
            Field("--word", "words", "Word that a custom type matches.", many=True, metavar="NAME=WORD"),
            Field("--strategy", "strategy", "How values are replaced.", type=click.Choice([*map(str, Strategy)])),
            Field(
                "--strictness",
                "strictness",
                "What happens to output of unknown origin.",
                type=click.Choice([*map(str, Strictness)]),
            ),
            Field(
                "--threshold",
                "score_threshold",
                "Confidence from which a match is masked, from 0 to 1.",
                type=click.FloatRange(0, 1),
            ),
            DESCRIPTION,
        ],
        file=True,
        prints_array=True,
        prepare=_prepare,
        show=_show,
        created="Created {name} ({id}).",
        says={
            "create": """Create a masking rule, from a name and options or from a JSON file.

            \b
            postern masking create people --column customers.email --strategy hash --connection shop-demo
            postern masking create people --preset recommended --connection shop-demo
            postern masking create -f rule.json
            """,
            "update": "Change a masking rule, or replace it with a JSON file. Running sessions use it at once.",
            "delete": "Delete a masking rule, and remove it from its connections.",
        },
        question=_question,
        delete_query={"force": "true"},
    )
)


@masking.command("presets")
@json_option
def list_presets(as_json: bool) -> None:
    """List masking rule presets."""
    with client() as api:
        preset_rows = presets(api, MASKING_RULE)
    emit(preset_rows, as_json, _show_presets)


def _show_presets(preset_rows: list[Row]) -> None:
    rows = [[preset["name"], preset["strategy"], preset["strictness"], preset["description"]] for preset in preset_rows]
    table(["name", "strategy", "strictness", "description"], rows, "There are no presets.")


@masking.command()
@click.argument("rule", shell_complete=completion.masking_rules)
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--cell", "cells", multiple=True, metavar="COLUMN=VALUE", help="A cell of a row. Repeatable.")
@json_option
def test(rule: str, texts: tuple[str, ...], cells: tuple[str, ...], as_json: bool) -> None:
    """Show what a rule, by name or id or from a JSON file, does to texts and to a row."""
    if not texts and not cells:
        raise click.UsageError("give texts, or --cell COLUMN=VALUE")
    pairs = [cell.partition("=") for cell in cells]
    if not all(equals for _, equals, _ in pairs):
        raise click.UsageError("--cell needs COLUMN=VALUE")
    with client() as api, looking_up(api, MASKING_RULE, rule) as items:
        path = Path(rule)
        body = one_object(rule, path.read_text()) if path.is_file() else items.get(rule)
        trial = {
            "rule": {name: value for name, value in body.items() if name not in _NOT_TESTED},
            "texts": list(texts),
            "columns": [name for name, _, _ in pairs],
            "rows": [[value for _, _, value in pairs]] if pairs else [],
        }
        masked = items.call("test", body=trial)
    emit(masked, as_json, lambda answer: _show_masked(answer, [name for name, _, _ in pairs]))


def _show_masked(answer: Row, columns: list[str]) -> None:
    for text in answer["texts"]:
        click.echo(text)
    for row in answer["rows"]:
        fields([(name, "NULL" if value is None else value) for name, value in zip(columns, row, strict=True)])
    for name, count in sorted(answer["info_types"].items()):
        report(Status.INFO, f"{name}: {count}")
    if not answer["info_types"]:
        report(Status.INFO, "nothing was masked")
