"""Values of runbooks in scripts: quoted ones are read back as texts, and never as anything else."""

from __future__ import annotations

import random
from typing import Any

import pytest
from bson import Regex
from hypothesis import given
from hypothesis import strategies as st

from postern.protocols.mongodb.queries.mongodb_shell_errors import ShellError
from postern.protocols.mongodb.queries.mongodb_shell_reader import ShellReader
from postern.protocols.mongodb.queries.mongodb_shell_statements import ShellScript
from postern.protocols.spec import ScriptSyntax
from postern.runbooks.quoting import quote_value
from postern.runbooks.template import parse
from postern.runbooks.template_errors import TemplateError

CONTROLS = "".join(map(chr, (*range(9), 11, 12, *range(14, 32), 127)))
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters=CONTROLS), max_size=40)
PIECES = (
    *("db.c.find({a: ", "db.c.find(", "{", "}", "[", "]", "(", ")", ",", ":", ";", "\n", "\r", " ", "a: ", "b: "),
    *("'", '"', "`", "/", "//", "/*", "*/", "\\", "x", "1", "/[", "/x/", "})", "$", "${", "use ", " " * 30, "\u2028"),
    *("ObjectId(", "new Date(", "db", ".c", ".drop()", "{a: 1}", "/[/]/", "'x'", "// y\n"),
)
VALUES = (
    *("'", '"', "`", "/", "*/", "'})", "\n", "\\", "${x}", "//", "/*", "'; db.c.drop(); '", "/}); db.c.drop(); //"),
    *("\u2028", "a\r\nb", "', $where: 'x", "{$oid: 1}", "it's", "]/", "\\'"),
)
HARMLESS = "harmless"


@given(TEXTS, st.sampled_from("'\"`"))
def test_any_quoted_text_is_read_back(value: str, quote: str) -> None:
    reader = ShellReader(quote_value(ScriptSyntax.JAVASCRIPT, quote, value))
    assert reader.value() == value
    assert reader.next == ""


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("function", ["squote", "dquote", 'quotechar "`"'])
def test_attack_quoted_value_stays_a_text_of_the_document(value: str, function: str) -> None:
    text = '{{ .a | type "textarea" | FUNCTION }}'.replace("FUNCTION", function)
    script = (
        parse(f"use shop\ndb.c.find({{a: {text}, b: [{text}]}})").render({"a": value}, ScriptSyntax.JAVASCRIPT).text
    )
    (_, found) = ShellScript(script, "test").read()
    stored = value.replace("\r\n", "\n")  # as text areas send line ends
    assert [command.document for command in found.commands] in (
        [{"find": "c", "filter": {"a": value, "b": [value]}}],
        [{"find": "c", "filter": {"a": stored, "b": [stored]}}],
    )


def rendered(text: str, value: str) -> str | None:
    try:
        return parse(text).render({"a": value}, ScriptSyntax.JAVASCRIPT).text
    except TemplateError:
        return None


def outline(script: str, value: str) -> Any:
    """The commands of a script with the value replaced; None if it cannot be read."""
    try:
        statements = ShellScript(script, "test").read()
    except ShellError:
        return None
    return [_replaced(command.complete(), value) for each in statements for command in each.commands]


def _replaced(node: Any, value: str) -> Any:
    if isinstance(node, dict):
        return [(_replaced(name, value), _replaced(item, value)) for name, item in node.items()]
    if isinstance(node, list):
        return [_replaced(item, value) for item in node]
    if isinstance(node, str):
        return node.replace(value, HARMLESS)
    return (node.pattern, node.flags) if isinstance(node, Regex) else repr(node)[:20]


def test_attack_quoted_value_never_changes_a_script_at_any_position() -> None:
    chance = random.Random(2026)
    compared = 0
    for _ in range(6_000):
        function = chance.choice(["squote", "dquote", 'quotechar "`"'])
        before = "".join(chance.choices(PIECES, k=chance.randint(0, 5)))
        behind = "".join(chance.choices(PIECES, k=chance.randint(0, 4)))
        text = before + '{{ .a | type "textarea" | FUNCTION }}'.replace("FUNCTION", function) + behind
        value = chance.choice(VALUES)
        script, harmless = rendered(text, value), rendered(text, HARMLESS)
        if script is None or harmless is None:
            continue
        found = outline(script, value)
        if found is not None and "ObjectId" not in text and "Date" not in text:
            assert found == outline(harmless, HARMLESS), f"{text!r} with {value!r}"
            compared += 1
    assert compared > 20
