"""A masking rule by flags: what `postern masking create NAME` and `update NAME` take in the place of a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from postern.cli import completion
from postern.client.client import Client
from postern.client.shapes import Row
from postern.domain.masking import Strategy, Strictness
from postern.errors import NotFound

_GROUP = "TYPES"  # what the types of --type are called together
# What the API answers of a rule, and does not take.
READ_ONLY = frozenset({"id", "created_at", "updated_at"})


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; their values are what `changes` reads."""
    for option in (
        click.option("--description", help="What it is for."),
        click.option("--threshold", type=click.FloatRange(0, 1), help="How sure a find must be, from 0 to 1."),
        click.option(
            "--strictness",
            type=click.Choice([*map(str, Strictness)]),
            help="What happens to answers of unknown origin.",
        ),
        click.option("--strategy", type=click.Choice([*map(str, Strategy)]), help="What takes the place of a value."),
        click.option("--word", "words", multiple=True, metavar="NAME=WORD", help="A word of a type of your own."),
        click.option(
            "--pattern", "patterns", multiple=True, metavar="NAME=REGEX", help="A type of your own; repeatable."
        ),
        click.option(
            "--type",
            "types",
            multiple=True,
            metavar="TYPE",
            help="An information type; repeatable.",
            shell_complete=completion.types,
        ),
        click.option(
            "--column",
            "columns",
            multiple=True,
            metavar="PATTERN",
            help="A column: name, table.name, schema.table.name or tag:name, with * in it; repeatable.",
        ),
        click.option(
            "--connection",
            "connections",
            multiple=True,
            metavar="NAME",
            help="Where it applies; repeatable.",
            shell_complete=completion.connections,
        ),
    ):
        command = option(command)
    return command


def changes(api: Client, given: Row) -> Row:
    """Return the fields of the API that the options say; empty where none was given. Raises NotFound, UsageError."""
    body: Row = {name: given[name] for name in ("description", "strategy", "strictness") if given[name] is not None}
    if given["threshold"] is not None:
        body["score_threshold"] = given["threshold"]
    if given["columns"]:
        body["columns"] = list(given["columns"])
    if given["types"]:
        body["supported_entity_types"] = [{"name": _GROUP, "entity_types": list(given["types"])}]
    if given["patterns"] or given["words"]:
        body["custom_entity_types"] = _custom(given["patterns"], given["words"])
    if given["connections"]:
        body["connection_ids"] = [api.connections.get(name)["id"] for name in given["connections"]]
    return body


def from_preset(api: Client, name: str) -> Row:
    """Return the body of a rule that begins with a preset. Raises NotFound."""
    for one in api.masking_rules.presets():
        if one["name"] == name:
            return {key: value for key, value in one.items() if key != "name"}
    raise NotFound(f"there is no preset {name!r}; `postern masking presets` lists them")


def _custom(patterns: Sequence[str], words: Sequence[str]) -> list[Row]:
    types: dict[str, Row] = {}
    for option, texts in (("--pattern", patterns), ("--word", words)):
        for text in texts:
            name, equals, value = text.partition("=")
            if not equals or not value:
                raise click.UsageError(f"{option}: needs NAME={'REGEX' if option == '--pattern' else 'WORD'}")
            one = types.setdefault(name, {"name": name})
            if option == "--word":
                one.setdefault("deny_list", []).append(value)
            elif "regex" in one:
                raise click.UsageError(f"--pattern: {name} is given twice; join the patterns by |")
            else:
                one["regex"] = value
    return list(types.values())
