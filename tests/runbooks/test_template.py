"""The template language, beyond the files of the conformance set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from postern.errors import Invalid
from postern.protocols.spec import ScriptSyntax
from postern.runbooks.evaluator import MAX_ENVIRONMENT, MAX_OUTPUT, MAX_STEPS
from postern.runbooks.inputs import TYPES
from postern.runbooks.runbook_parser import MAX_BLOCKS, MAX_NODES
from postern.runbooks.runbook_signatures import SIGNATURES
from postern.runbooks.template import MAX_PARAMETERS, MAX_TEXT, RenderError, TemplateError, parse, syntax_of


def rendered(text: str, syntax: ScriptSyntax = ScriptSyntax.DOLLAR_QUOTES, **values: str) -> str:
    return parse(text).render(values, syntax).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a  {{- .x -}}  b", "a1b"),
        ("a{{/* nobody sees {{ this }} */}}b", "ab"),
        ("a {{- /* nor this */ -}} b", "ab"),
        ('{{ "{{" }}', "{{"),
        ("{{ -3 }}{{ `raw\\n` }}{{ 'a' }}", "-3raw\\n97"),
        (r'{{ "tab\tquote\"\\ \x41\101é\U0001F600" }}', 'tab\tquote"\\ AAé😀'),
        ("{{ 0x1F }} {{ 1_000 }} {{ 0b11 }} {{ 0o17 }} {{ 017 }}", "31 1000 3 15 15"),
        ("{{ 1.50 }} {{ .5 }} {{ 1e3 }}", "1.5 0.5 1000"),
        ("{{ true }} {{ 1e21 }} {{ 0.00001 }} {{ 1e-5 }} {{ 123456789.0 }}", "true 1e+21 1e-05 1e-05 1.23456789e+08"),
        ("{{ $y := .x }}{{ $y = print $y 2 }}{{ $y }}", "12"),
        ("{{ if .x }}yes{{ else }}no{{ end }}", "yes"),
        ('{{ if eq .x "2" "1" }}in{{ end }}', "in"),
        ('{{ if eq .x "2" }}a{{ else if eq .x "1" }}b{{ else }}c{{ end }}', "b"),
        ("{{ with .x }}<{{ . }}{{ $.x }}>{{ end }}", "<11>"),
        ("{{ with .e }}{{ . }}{{ else with .x }}[{{ . }}]{{ end }}", "[1]"),
        ("{{ range $i := 3 }}{{ $i }}{{ end }}", "012"),
        ('{{ range $i, $v := split "," "a, b,,c" }}{{ $i }}{{ $v }};{{ end }}', "0a;1b;2c;"),
        ('{{ range split "," .e }}x{{ else }}none{{ end }}', "none"),
        ('{{ range split "," "a,b,c" }}{{ if eq . "b" }}{{ continue }}{{ end }}{{ . }}{{ end }}', "ac"),
        ('{{ range split "," "a,b,c" }}{{ if eq . "b" }}{{ break }}{{ end }}{{ . }}{{ end }}', "a"),
        ('{{ define "t" }}<{{ . }}>{{ end }}{{ template "t" .x }}', "<1>"),
        ('{{ block "t" . }}<{{ .x }}>{{ end }}', "<1>"),
        ('{{ and .x "z" }}{{ or .e "z" }}{{ not .x }}', "zzfalse"),
        ('{{ or .x (index "" 5) }}', "1"),
        ('{{ lt "10" "9" }}{{ ge 2 2 }}{{ ne "a" "b" }}', "truetruetrue"),
        ('{{ len "é" }} {{ index "abc" 1 }} {{ slice "abcdef" 1 3 }} {{ slice "abc" 1 }}', "2 98 bc bc"),
        ('{{ index . "x" }}', "1"),
        ('{{ print 1 2 "a" 3 }}|{{ println "a" 1 }}', "1 2a3|a 1\n"),
        ('{{ printf "%s %q %5s|%-5s|%05d %x %v %t %.2f %c %U %%" "a" "b\\"" "c" "d" 42 255 true false 1.5 65 233 }}',
         'a "b\\""     c|d    |00042 ff true false 1.50 A U+00E9 %'),
        ('{{ "<a href=\'x\'>" | html }} {{ "it\'s" | js }} {{ "a b&c" | urlquery }}',
         "&lt;a href=&#39;x&#39;&gt; it\\'s a+b%26c"),
        ("{{ .x | encodeb64 }} {{ .x | encodeb64 | decodeb64 }}", "MQ== 1"),
        ('{{ (print .x "2") | printf "%s-%s" "a" }}', "a-12"),
    ],
)  # fmt: skip
def test_template_renders_as_in_go(text: str, expected: str) -> None:
    template = parse(text)
    values = {one.name: {"x": "1", "e": ""}[one.name] for one in template.parameters}
    assert template.render(values, ScriptSyntax.DOLLAR_QUOTES).text == expected


def test_parameters_of_a_runbook_are_read_from_its_syntax_tree() -> None:
    text = """{{ .status | required "pick a | one" | type "select" | options "in review" "a\\"b" "c|d" | order 2 }}
    {{ .n | type "number" | default 5 | description "how many | at most" | placeholder "5" | order 1 }}
    {{ if eq .env "prod" }}
      {{ .ticket | required "which" | pattern `^[A-Z]+-[0-9]+$` | minlength 3 | maxlength "9" }}
    {{ end }}
    {{ range .ids | type "textarea" | split "," }}{{ $.note | squote }}{{ end }}
    {{ .password | type "password" | asenv "PGPASSWORD" }}"""
    parameters = {one.name: one for one in parse(text).parameters}
    assert list(parameters) == ["n", "status", "env", "ticket", "ids", "note", "password"]
    assert parameters["status"].options == ("in review", 'a"b', "c|d")
    assert (parameters["status"].type, parameters["status"].required) == ("select", True)
    assert (parameters["n"].default, parameters["n"].description) == ("5", "how many | at most")
    ticket = parameters["ticket"]
    assert (ticket.required, ticket.pattern, ticket.minlength, ticket.maxlength) == (False, "^[A-Z]+-[0-9]+$", 3, 9)
    assert (parameters["password"].is_secret, parameters["password"].asenv) == (True, "PGPASSWORD")


def test_error_names_all_missing_or_all_invalid_inputs_at_once() -> None:
    template = parse(
        '{{ .a | required "who" }}{{ .b | required "" }}{{ .c }}{{ .d | type "date" }}{{ .e | type "email" }}'
    )
    with pytest.raises(RenderError, match=r"inputs are missing \[a, b\].*a: who") as missing:
        template.render({}, ScriptSyntax.SHELL)
    assert missing.value.parameters == ("a", "b")
    with pytest.raises(RenderError, match=r"input d must be a date.*; input e must be an e-mail") as wrong:
        template.render({"a": "1", "b": "1", "d": "2026-02-30", "e": "x"}, ScriptSyntax.SHELL)
    assert wrong.value.parameters == ("d", "e")
    with pytest.raises(RenderError, match=r"no inputs \[f\]; it has \[a, b, c, d, e\]"):
        template.render({"f": ""}, ScriptSyntax.SHELL)


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("a\n{{ .x | requird }}", 2, 9, "function 'requird' does not exist"),
        ("{{ .x", 1, 1, "not closed"),
        ("{{ if .x }}", 1, 4, "end }} is missing"),
        ("{{ end }}", 1, 4, "does not belong to a block"),
        ("{{ .my-name }}", 1, 7, "letters, digits and underscores"),
        ('{{ .x | pattern "(" }}', 1, 9, "does not compile"),
        ('{{ .x | type "numbr" }}', 1, 9, "type 'numbr' does not exist"),
        ("{{ .x | pattern .y }}", 1, 17, "takes a literal of the runbook"),
        ("{{ printf .x }}", 1, 11, "takes a literal of the runbook"),
        ("{{ .x.y }}", 1, 6, "no fields"),
        ('{{ range split "," .x }}{{ .y }}{{ end }}', 1, 28, r"input as \$\.y"),
        ('{{ template "t" }}', 1, 4, "does not exist"),
        ("{{ $x }}", 1, 4, r"variable \$x is not defined"),
        ("{{ break }}", 1, 4, "within range"),
        ("{{ call .x }}", 1, 4, "does not exist"),
        ("{{ .__class__.__init__ }}", 1, 14, "no fields"),
        ('{{ .x | asenv "POSTERN_X" }}', 1, 9, "reserved for the gateway"),
        ('{{ .x | asenv "A" }}{{ .y | asenv "A" }}', 1, 29, "two parameters"),
        ("{{ }}", 1, 3, "cannot be empty"),
    ],
)
def test_error_of_an_invalid_template_has_line_column_and_reason(
    text: str, line: int, column: int, reason: str
) -> None:
    with pytest.raises(TemplateError, match=reason) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert isinstance(caught.value, Invalid)


def test_syntax_of_a_script_follows_from_program_then_subtype_then_file_name() -> None:
    assert syntax_of("postgres", (), "a.runbook.sh") is ScriptSyntax.DOLLAR_QUOTES
    assert (
        syntax_of("postgres", ("bash",)) is ScriptSyntax.DOLLAR_QUOTES
    )  # the gateway speaks with it, and runs no command
    assert syntax_of("mysql") is ScriptSyntax.BACKSLASH_ESCAPES
    assert syntax_of("mysql", ("mariadb", "-u", "app")) is ScriptSyntax.BACKSLASH_ESCAPES
    assert syntax_of("mssql") is ScriptSyntax.TSQL
    assert syntax_of("oracledb") is ScriptSyntax.PL_SQL
    assert syntax_of("custom", ("/usr/bin/bash", "-e")) is ScriptSyntax.SHELL
    assert syntax_of("custom", ("bash", "-euo", "pipefail", "-s")) is ScriptSyntax.SHELL
    assert syntax_of("custom", ("bash", "-c", "psql"), "a.runbook.sql") is ScriptSyntax.SQL
    assert syntax_of("custom", ("bash", "-euc", "psql")) is ScriptSyntax.OTHER
    assert syntax_of("custom", ("python3", "tool.py")) is ScriptSyntax.OTHER
    assert syntax_of("custom", ("mongosh", "--quiet", "db")) is ScriptSyntax.JAVASCRIPT
    assert syntax_of("custom", ("python3",)) is ScriptSyntax.PYTHON
    assert syntax_of("custom", (), "a.runbook.py") is ScriptSyntax.PYTHON
    assert syntax_of("custom", (), "a.runbook.txt") is ScriptSyntax.OTHER


@pytest.mark.parametrize(
    "command",
    [
        *(("pwsh",), ("/usr/bin/perl",), ("fish",), ("cmd.exe",), ("php8.2", "-a"), ("tclsh",), ("python3", "tool.py")),
        *(
            ("python3.11",),
            (r"C:\Windows\PowerShell.EXE",),
            ("env", "-i", "ruby"),
            ("sudo", "-u", "x", "/bin/tcsh"),
            ("node", "a"),
        ),
    ],
)
def test_attack_file_name_does_not_select_shell_syntax_for_another_interpreter(command: tuple[str, ...]) -> None:
    for file in ("a.runbook.sh", "a.runbook.sql", "a.runbook"):
        assert syntax_of("custom", command, file) is ScriptSyntax.OTHER
    assert syntax_of("custom", ("env", "bash"), "a.runbook.sh") is ScriptSyntax.SHELL
    assert syntax_of("sqlite", ("python3", "statements.py"), "a.runbook.sh") is ScriptSyntax.SQLITE
    assert syntax_of("sqlite", ("perl",), "a.runbook.sql") is ScriptSyntax.OTHER


def test_preview_of_a_rendered_runbook_masks_secret_inputs() -> None:
    template = parse(
        """{{ .p | type "password" | pattern "^[a-z]+$" | asenv "P" }}psql <<E
{{ .p | squote }} {{ .f | type "file" | decodeb64 }} {{ .n }}
E"""
    )
    given = {"p": "secret", "f": "YQ==", "n": "1"}
    shown = template.render(given, ScriptSyntax.SHELL, masked=True)
    assert shown.text == "psql <<E\n'***' *** 1\nE"
    assert shown.environment == {"P": "***"}
    assert template.render(given, ScriptSyntax.SHELL).text == "psql <<E\n'secret' a 1\nE"
    with pytest.raises(RenderError, match="input p: must match the pattern"):
        template.render({**given, "p": "S"}, ScriptSyntax.SHELL, masked=True)
    assert "secret" not in repr(template.render(given, ScriptSyntax.SHELL))


def test_omitted_input_is_empty_and_its_default_applies_everywhere() -> None:
    assert rendered("[{{ .x }}]") == "[]"
    assert rendered('{{ .x | default "a" }}{{ .x }}{{ if eq .x "a" }}!{{ end }}') == "aa!"
    assert rendered('{{ .x | default "a" }}{{ .x | default "b" }}{{ .x }}') == "abb"
    assert rendered('{{ .x | required "m" | default "a" }}') == "a"
    assert rendered("{{ .x | default .y }}", y="z") == "z"
    assert rendered("{{ if .on }}{{ .x | required `m` }}{{ end }}.") == "."
    with pytest.raises(RenderError, match="column 21: input x: m"):
        rendered("{{ if .on }}{{ .x | required `m` }}{{ end }}", on="1")


def test_inputs_are_compared_as_texts() -> None:
    with pytest.raises(RenderError, match="quote the numbers"):
        rendered("{{ if eq .n 3 }}{{ end }}", n="3")
    assert rendered('{{ if lt .n "9" }}less{{ end }}', n="10") == "less"


def test_parameters_used_without_quoting_are_listed() -> None:
    text = """{{ .a }} {{ .b | squote }} {{ .c | type "number" }} {{ .d | options "x" "y" }} {{ .e | asenv "E" }}
    {{ $v := .f }}{{ if .g }}{{ $v = .h }}{{ end }}{{ $v }}{{ range split "," .i }}{{ . }}{{ end }}
    {{ with .j }}{{ . | dquote }}{{ end }}{{ define "t" }}{{ . }}{{ end }}{{ template "t" .k }}{{ .l | encodeb64 }}"""
    assert parse(text).unquoted == ("a", "f", "h", "i", "k")


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "write-runbooks.md").read_text()


def test_runbook_page_lists_every_function_type_and_limit() -> None:
    table = PAGE[PAGE.index("## Functions") : PAGE.index("## Types")]
    for name in SIGNATURES:
        assert re.search(rf"`{name}[ `]", table), name
    types = PAGE[PAGE.index("## Types") : PAGE.index("## Conditions")]
    assert all(f"`{name}`" in types for name in TYPES)
    limits = PAGE[PAGE.index("## Limits") :]
    for limit in (MAX_TEXT, MAX_NODES, MAX_PARAMETERS, MAX_BLOCKS, MAX_STEPS, MAX_OUTPUT, MAX_ENVIRONMENT):
        assert f"{limit:,}" in limits


def test_runbooks_of_the_page_render_as_described() -> None:
    unlock, close, password, events = (text for text in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL))
    script = rendered(unlock, reason="it's asked for", account="7")
    assert script.endswith("reason = 'it''s asked for'\n WHERE id = 7;\n")
    assert rendered(close, ScriptSyntax.HTTP, ticket="7/1", user="a&b", reason='not "urgent"') == (
        "POST /tickets/7%2F1/close?notify=a%26b\n"
        'X-Reason: not "urgent"\n\n'
        r'{"reason": "not \"urgent\"", "note": "closed because of not \"urgent\""}'
        "\n"
    )
    made = parse(password).render({"password": "p'w"}, ScriptSyntax.SHELL)
    assert made.environment == {"REGISTRY_PASSWORD": "p'w"}
    assert made.text.startswith("""printf '%s' "$REGISTRY_PASSWORD" | docker login""")
    assert rendered(events, since="2026-11-01", ids="a, b") == (
        "SELECT * FROM events WHERE day >= '2026-11-01' AND id IN ('a', 'b');\n"
    )
