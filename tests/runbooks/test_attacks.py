"""Inputs never become code of a script, and runbooks never run code on the server."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postern.protocols.spec import ScriptSyntax
from postern.runbooks.evaluator import MAX_OUTPUT
from postern.runbooks.template import RenderError, TemplateError, parse

TEXT = st.text(st.characters(codec="utf-8"), max_size=60)
PIECES = (
    '{{¦}}¦{{-¦-}}¦ ¦.a¦.b¦$¦$x¦:=¦=¦|¦(¦)¦"¦`¦\'¦\\¦if ¦else ¦end¦range ¦with ¦define ¦template ¦block ¦break¦"t" ¦'
    'squote¦printf ¦"%s" ¦split ¦required ¦default ¦options ¦type ¦"number" ¦eq ¦and ¦index ¦slice ¦len ¦1 ¦{{ end }}¦'
    "{{ .a }}¦{{ if .a }}¦{{ range 3 }}¦/*¦*/¦,¦\n¦text¦0x¦1e9¦-¦nil ¦true "
)

TEMPLATES = st.lists(st.sampled_from(PIECES.split("¦")), max_size=25).map("".join) | TEXT.map("{{{{{}}}}}".format)


def refused_or(text: str, syntax: ScriptSyntax, **values: str) -> str | None:
    """What it becomes, None where that is refused."""
    try:
        return parse(text).render(values, syntax).text
    except RenderError:
        return None


def literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return '{{ "' + escaped + '" }}'


@pytest.mark.parametrize(
    "value",
    ["{{ .secret }}", "{{ printf `%s` . }}", "%s%n", "{0.__class__}", "${7*7}", "<%= 7*7 %>", "{% for %}", "$x", "{{"],
)
def test_attack_input_is_never_parsed_as_a_template(value: str) -> None:
    text = '{{ .a }}|{{ printf "%s" .a }}|{{ $x := .a }}{{ $x }}|{{ with .a }}{{ . }}{{ end }}|{{ print .a }}'
    assert refused_or(text, ScriptSyntax.DOLLAR_QUOTES, a=value) == "|".join([value] * 5)


@pytest.mark.parametrize(
    "text",
    [
        "{{ .a.__class__ }}",
        "{{ (.a).x }}",
        "{{ $.a.upper }}",
        "{{ call .a }}",
        '{{ index .a "__class__" }}',
        "{{ .a.format }}",
        '{{ template .a . }}',
        '{{ printf .a "x" }}',
        '{{ "x" | pattern .a }}',
        '{{ .a | type .b }}',
        "{{ import `os` }}",
        "{{ range . }}{{ . }}{{ end }}",
        "{{ . }}",
        "{{ index . .a }}",
    ],
)  # fmt: skip
def test_attack_expression_reaches_no_python_attribute_and_no_format(text: str) -> None:
    with pytest.raises(TemplateError):
        parse(text).render({one.name: "a" for one in parse(text).parameters}, ScriptSyntax.SHELL)


@pytest.mark.parametrize(
    "text",
    [
        "{{ range 1000000000 }}{{ end }}",
        "{{ range 9223372036854775807 }}x{{ end }}",
        "{{ range 1000 }}{{ range 1000 }}{{ range 1000 }}x{{ end }}{{ end }}{{ end }}",
        '{{ $x := "aaaaaaaaaaaaaaaa" }}{{ range 100 }}{{ $x = print $x $x }}{{ end }}',
        '{{ $x := "a" }}{{ range 100 }}{{ $x = printf "%1000s%s" $x $x }}{{ $x }}{{ end }}',
        '{{ define "a" }}{{ template "b" . }}{{ template "b" . }}{{ end }}'
        '{{ define "b" }}{{ template "a" . }}{{ template "a" . }}{{ end }}{{ template "a" . }}',
        "".join(
            f'{{{{ define "t{n}" }}}}{{{{ template "t{n + 1}" . }}}}{{{{ template "t{n + 1}" . }}}}{{{{ end }}}}'
            for n in range(40)
        )
        + '{{ define "t40" }}x{{ end }}{{ template "t0" . }}',
        '{{ range 200 }}{{ $.a | pattern "(a*)*(a*)*(a*)*b" }}{{ end }}',
        '{{ printf "%99999d" 1 }}',
        "{{ range 20000 }}{{ $.a | html | js | encodeb64 | len }}{{ end }}",
    ],
)
def test_attack_rendering_is_bounded_in_steps_and_output(text: str) -> None:
    with pytest.raises(TemplateError):
        parse(text).render({one.name: "a" * 500_000 for one in parse(text).parameters}, ScriptSyntax.OTHER)


@pytest.mark.parametrize("syntax", [ScriptSyntax.SHELL, ScriptSyntax.DOLLAR_QUOTES, ScriptSyntax.PYTHON])
@pytest.mark.parametrize(
    "text",
    [
        "{{ range 200 }}{{ $.a | squote }} ; {{ end }}",
        literal(" '' ; " * 2_000) + "{{ .a | squote }}",
        "{{ range 2000 }}{{ len $.a }}{{ end }}",
    ],
)
def test_attack_rendering_yields_often_and_stops_when_interrupted(syntax: ScriptSyntax, text: str) -> None:
    turns: list[None] = []
    parse(text).render({"a": "a b"}, syntax, rest=lambda: turns.append(None))
    assert len(turns) > 100

    def enough() -> None:
        raise RenderError("enough")

    with pytest.raises(RenderError, match="enough"):
        parse(text).render({"a": "a b"}, syntax, rest=enough)


@pytest.mark.parametrize(
    "text",
    [
        "{{ if .a }}" * 5_000,
        "{{ " + "(" * 5_000 + ".a" + ")" * 5_000 + " }}",
        "{{ .a" + " | html" * 5_000 + " }}",
        "{{ .a }}" * 60_000,
        "".join(f"{{{{ .a{n} }}}}" for n in range(300)),
        "{{ " + "9" * 100_000 + " }}",
        '{{ "' + "\\x" * 100_000 + '" }}',
        "{{ " + " " * 500_000,
        "{{/*" * 100_000,
        '{{ .a | pattern "' + "(a{1000}){1000}" + '" }}',
        "x" * 1_000_001,
        "\ud800",
    ],
)
def test_attack_oversized_template_is_rejected(text: str) -> None:
    with pytest.raises(TemplateError):
        parse(text)


@settings(max_examples=400)
@given(
    st.lists(st.sampled_from(PIECES.split("¦")), max_size=25).map("".join) | TEXT.map(lambda text: "{{" + text + "}}"),
    TEXT,
)
def test_any_template_with_any_input_renders_or_raises_a_documented_error(text: str, value: str) -> None:
    try:
        template = parse(text)
    except TemplateError as error:
        refused = error
        assert not isinstance(refused, RenderError)
        assert min(refused.line, refused.column) >= 1
        return
    for syntax in ScriptSyntax:
        try:
            made = template.render({one.name: value for one in template.parameters}, syntax)
        except RenderError:
            continue
        assert len(made.text.encode()) <= MAX_OUTPUT


@pytest.mark.parametrize("value", ["\ud800", "a\0b", "a" * 1_000_001])
def test_attack_input_that_is_not_valid_text_is_rejected(value: str) -> None:
    with pytest.raises(RenderError, match="input a"):
        parse('{{ .a | type "file" }}').render({"a": value}, ScriptSyntax.SHELL)


def test_attack_render_errors_never_contain_an_input() -> None:
    secret = "hunter2 '$(x)\n"
    for text in (
        '{{ .a | type "password" | pattern "^x$" }}',
        '{{ .a | type "number" }}',
        '{{ .a | options "x" }}',
        '{{ .a | type "textarea" | maxlength 3 }}',
        '{{ .a | type "file" | decodeb64 }}',
        "'{{ .a | type `file` | squote }}'",
        '{{ printf "%d" (.a | type "file") }}',
        '{{ index (.a | type "file") 99 }}',
    ):
        with pytest.raises(RenderError) as refused:
            parse(text).render({"a": secret}, ScriptSyntax.SHELL)
        assert "hunter2" not in str(refused.value)
        assert "input a" in refused.value.message


HIT = "touch HIT"
SHELLS = [name for name in ("bash", "dash") if shutil.which(name)]
SHELL_VALUES = [
    *(f"$({HIT})", f"`{HIT}`", f"'; {HIT}; '", f'"; {HIT}; "', f"\n{HIT}\n", f"\nEOF\n{HIT}\n", f"\n\tX\n{HIT}\n"),
    *(f"\nE F\n{HIT}\n", f"\\'; {HIT} #", f"a[$({HIT})]", f")\n{HIT}\n", f"}}; {HIT};", f'\\"; {HIT} #', f";{HIT};"),
]
SHELL_PIECES = [
    *("'", '"', "`", "$(", "${x:-", "))", ")", "}", "$((", "((", "echo ", "cat <<EOF\n", "\nEOF\n", "cat <<'E F'\n"),
    *("\nE F\n", "cat <<-X\n\t", "\n\tX\n", "\\", "$", "#", " # c\n", "\n", " ", "a", "<<<", "case a in a) ", "esac"),
    *(
        ";",
        "$'",
        "x=",
        "[[ a == ",
        "]]",
        "{ ",
        "(",
        ")",
        "&&",
        "|",
        "\\\n",
        "$#",
        "$$",
        "[[ ",
        " ]]",
        " -eq 1",
        "1 -eq ",
    ),
    *("<<< ", "$[", "]", "let ", "let y=", "eval ", "y[", "]=1", "printf -v ", "if ", "; then :; fi", "-v "),
    *("\\\nEOF\n", "declare -i y=", "f() { ", "; }; f", "for x in a; do ", "; done"),
]


def around(chance: random.Random, pieces: Sequence[str], function: str) -> str:
    before = "".join(chance.choice(pieces) for _ in range(chance.randint(0, 8)))
    behind = "".join(chance.choice(pieces) for _ in range(chance.randint(0, 5)))
    return literal(before) + '{{ .a | type "textarea" | ' + function + " }}" + literal(behind)


def test_attack_quoted_input_never_runs_at_any_position_of_a_shell_script(tmp_path: Path) -> None:
    """Scripts that shells reject are left out: after a syntax error bash continues at the next line."""
    chance = random.Random(2026)
    ran = 0
    for _ in range(400):
        text = around(chance, SHELL_PIECES, chance.choice(["squote", "dquote"]))
        script = refused_or(text, ScriptSyntax.SHELL, a=chance.choice(SHELL_VALUES))
        harmless = refused_or(text, ScriptSyntax.SHELL, a="abc")
        if script is None or harmless is None:
            continue
        if subprocess.run(["bash", "-n"], input=harmless.encode(), capture_output=True).returncode:
            continue
        for shell in SHELLS:
            subprocess.run([shell], input=script.encode(), cwd=tmp_path, capture_output=True, timeout=60)
            assert not (tmp_path / "HIT").exists(), (shell, script)
        ran += 1
    assert ran > 10


ARITHMETIC, COMMAND = f"a[$({HIT})]", HIT


@pytest.mark.parametrize("function", ["squote", "dquote"])
@pytest.mark.parametrize(
    ("before", "behind", "value"),
    [
        ("[[ ", " -eq 1 ]]", ARITHMETIC),
        ("[[ 1 -lt ", " ]]", ARITHMETIC),
        ("[[ x == y || 1 -eq ", " ]]", ARITHMETIC),
        ("if ! [[ $x > 3 && ", "0 -ne 1 ]]; then :; fi", ARITHMETIC),
        ("[[ -v ", " ]]", ARITHMETIC),
        ("[ -v ", " ]", ARITHMETIC),
        ("echo $(( 1 )) $[ ", " ]", ARITHMETIC),
        ("\\eval echo ", "", f"$({HIT})"),
        ('echo "$[ x[', '] ]"', ARITHMETIC),
        ("let ", "", ARITHMETIC),
        ("x=1 command let y=", "", ARITHMETIC),
        ("declare -i y=", "", ARITHMETIC),
        ("f() { local -r -i y=", "; }; f", ARITHMETIC),
        ("case x in x) let ", ";; esac", ARITHMETIC),
        ("y[", "]=1", ARITHMETIC),
        ("y=([", "]=1)", ARITHMETIC),
        ("printf -v ", " x", ARITHMETIC),
        ("read ", " <<< x", ARITHMETIC),
        ("eval echo ", "", f"$({HIT})"),
        ("true && eval ", "", COMMAND + " x"),
        ("echo $(eval ", ")", f"$({HIT})"),
        ("trap ", " EXIT", COMMAND + " x"),
        ("shopt -s expand_aliases\nalias y=", "\ny", COMMAND + " x"),
        ("cat <<EOF\nx\\\nEOF\n", "\nEOF\n", f"$({HIT})"),
        ("cat <<-EOF\n\tx\\\\\\\n\tEOF\n", "\n\tEOF\n", f"$({HIT})"),
        ("echo $\\\n", "", f"\\'; {HIT} #"),
        ("eval ]] ", "", f"; {COMMAND}"),
        ("[[ x || eval ", " ]]", COMMAND),
        ("eval { ", "", f"; {COMMAND}"),
        ("eval `:`{ ", "", f"; {COMMAND}"),
        ("function f { eval ", "; }; f", COMMAND),
        ("coproc x { eval ", "; }", COMMAND),
        ("[[ a != ]]b && 1 -eq x", "]] ]]", ARITHMETIC),
        ("if [[\\\n a && ", " -eq 1 ]]; then :; fi", ARITHMETIC),
        ("[[(1 -eq ", ") ]]", ARITHMETIC),
        ("[[ (", " -eq 1) ]]", ARITHMETIC),
        ("[[ ", "\\\n -eq 1 ]]", ARITHMETIC),
        ("[[ 1 -eq ''", " ]]", ARITHMETIC),
        ("[[ 1 -eq $x", " ]]", ARITHMETIC),
        (">/dev/null eval ", "", COMMAND),
        ("eval>/dev/null ", "", COMMAND),
        ("x=1 2>&1 let ", "", ARITHMETIC),
        ("command -p eval ", "", COMMAND),
        ("coproc eval ", "", COMMAND),
        ("x+=1 y[1]=2 z='a b' eval ", "", COMMAND),
        ("x=" + "y" * 600 + " eval ", "", COMMAND),
        ('"eval" ', "", COMMAND),
        ("e''val ", "", COMMAND),
        ("f() eval ", "; f", COMMAND),
        ("f() if eval ", "; then :; fi; f", COMMAND),
        ("case x in (x) eval ", ";; esac", COMMAND),
        ("if (true) then eval ", "; fi", COMMAND),
        ("if ((1)) then eval ", "; fi", COMMAND),
        ("for ((;;)) do eval ", "; break; done", COMMAND),
        ("compgen -W ", "", f"$({HIT})"),
        ("set -x; PS4=", "; true", f"$({HIT})"),
        ("declare -a x=", "", f"([{ARITHMETIC}]=1)"),
        ("declare ''", "=1", ARITHMETIC),
        ("y[1|", "]=1", ARITHMETIC),
        ("y[z[1]+", "]=1", ARITHMETIC),
        ("y[ ", " ]=1", ARITHMETIC),
        ("eval $( (x))", "", COMMAND),
        ("eval $(x=(y))", "", COMMAND),
        ("echo x >& ", "", f"$({HIT})"),  # bash expands what stands there twice
        ("echo x >&1", "", f"`{HIT}`"),
        ("echo x >& a$(y z)", "", f"$({HIT})"),
        ("echo x >& $(echo ", ")", f"$({HIT})"),
    ],
)
def test_attack_shell_construct_that_is_evaluated_again_rejects_unsafe_inputs(
    function: str, before: str, behind: str, value: str
) -> None:
    text = literal(before) + '{{ .a | type "textarea" | ' + function + " }}" + literal(behind)
    script = refused_or(text, ScriptSyntax.SHELL, a=value)
    assert script is None
    harmless = refused_or(text, ScriptSyntax.SHELL, a="7")
    assert harmless is not None or before.endswith("$\\\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[ {{ .a | squote }} == *x* && -n {{ .a | squote }} ]]", "[[ 'a b' == *x* && -n 'a b' ]]"),
        ("read -r x y <<< {{ .a | squote }}", "read -r x y <<< 'a b'"),
        ("export NAME={{ .a | squote }}", "export NAME='a b'"),
        ("echo -ne {{ .a | squote }} -eq 1", "echo -ne 'a b' -eq 1"),
        ("docker run -v {{ .a | squote }}:/data x", "docker run -v 'a b':/data x"),
        ("eval x; echo {{ .a | squote }}", "eval x; echo 'a b'"),
        ("evaluate {{ .a | squote }}", "evaluate 'a b'"),
        ("vault read {{ .a | squote }}", "vault read 'a b'"),
        ("tool --eval {{ .a | squote }} 2>&1", "tool --eval 'a b' 2>&1"),
        ("x[1]={{ .a | squote }}", "x[1]='a b'"),
        ("x=(1 {{ .a | squote }})", "x=(1 'a b')"),
        ("[ -f {{ .a | squote }} ] && rm {{ .a | squote }}", "[ -f 'a b' ] && rm 'a b'"),
        ("[[ 1 -eq $n && {{ .a | squote }} == x ]]", "[[ 1 -eq $n && 'a b' == x ]]"),
        ("eval 'x' > {{ .a | squote }}", "eval 'x' > 'a b'"),
        ("x 2>&1 {{ .a | squote }}", "x 2>&1 'a b'"),
        ("x >& log | y 2>&1\nz 2>&1 >>{{ .a | squote }}", "x >& log | y 2>&1\nz 2>&1 >>'a b'"),
        ("(x 2>&1) && x &> {{ .a | squote }}", "(x 2>&1) && x &> 'a b'"),
        ("f() { rm {{ .a | squote }}; }; (rm {{ .a | squote }})", "f() { rm 'a b'; }; (rm 'a b')"),
        ("curl " + "-H x " * 200 + "{{ .a | squote }}", "curl " + "-H x " * 200 + "'a b'"),
        ("cat <<'EOF'\nx\\\nEOF\necho {{ .a | squote }}", "cat <<'EOF'\nx\\\nEOF\necho 'a b'"),
    ],
)
def test_shell_construct_that_is_evaluated_once_accepts_any_input(text: str, expected: str) -> None:
    assert refused_or(text, ScriptSyntax.SHELL, a="a b") == expected


@pytest.mark.parametrize("function", ["squote", "dquote"])
@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("# c\nprintf -v <<< ", "cat <<EOF\n$(($(("),  # bash runs such a value
        ("echo ", "\ncat <<EOF\n$(\nEOF\n"),
        ("echo ", "\ncat <<EOF\n${x:-'a}\nEOF\n"),
        ("echo ", "\ncat <<EOF\n`\nEOF\n"),
        ("echo ", "\ncat <<EOF\n"),
        ("cat <<EOF\n$(\nEOF\necho ", ""),
        ("echo ", "; echo '"),
        ("echo ", "; echo $("),
        ("echo ", "; (echo"),
        ("echo ", " ${x"),
        ("echo ", " $((1"),
        ("echo ", "\\"),
        ("echo ", " $(case x in x) echo;; esac)"),
    ],
)
def test_attack_unclosed_shell_script_accepts_no_unsafe_input(function: str, before: str, behind: str) -> None:
    text = literal(before) + '{{ .a | type "textarea" | ' + function + " }}" + literal(behind)
    assert refused_or(text, ScriptSyntax.SHELL, a=f"$({HIT})") is None
    assert refused_or("echo a " + literal(behind), ScriptSyntax.SHELL) is not None


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("echo `'`'` ", " `'`'`"),  # shells look for the second ` before they look at quotes
        ("echo `# ", "`"),
        ("echo a\\\n#'\n", "'\n"),  # no comment: the line goes on
        ("cat << \\\nEOF\n", "\nEOF\n"),
        ("cat <\\\n<EOF\n", "\nEOF\n"),
        ("echo $\\\n'\\'", "'"),
        ("echo $\\\n(\\\n( ", "))"),
        ("echo $'\\'''", ""),  # to dash a $ and a quote
        ("((x<<EOF))\n", "\nEOF\n))"),  # to dash a here-document within parentheses
        ("((x #))\n", "\n))"),
        ("echo $(( ' )) ", " ' ))"),
        ('echo $(( " )) ', ' " ))'),
        ("echo $${a;#'}\n' } ", " '"),
        ('echo "${x:-"a}" ', ' }"'),
        ("echo ${ echo '}' ", ";}"),
        ("[[ a == @(#'\n ", " ') ]]"),
        ("[[ a == @(<<X\n'\nX\n ", "') ]]"),
        ("[[ a =~ (a #'\n ", "') ]]"),
        ("x[1<<2]=5\n'\n2]=5\n", "'"),
        ('cat <<"E\\"F"\n$x\nE"F\n', ""),
        ("cat <<$(x)\n$(x)\n", "\n"),
        ("x=(())", ""),  # behind what is wrong in a list bash reads on at the next line
        ("x=(a; ", ")"),
        ("x=(a <<< ", ")"),
        ("echo $(cat <<E)\n", "\nE\n"),
        ("cat <<E $(true\n", "\nE\n)\nE\n"),
    ],
)
def test_attack_ambiguous_shell_syntax_accepts_no_unsafe_input(before: str, behind: str) -> None:
    for function in ("squote", "dquote"):
        text = literal(before) + '{{ .a | type "textarea" | ' + function + " }}" + literal(behind)
        for value in SHELL_VALUES:
            assert refused_or(text, ScriptSyntax.SHELL, a=value) is None


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ('cat <<EOF\nhost $(hostname) ${HOME} `date` "x" it\'s\nEOF\nrm -- ', ""),
        ("echo ", "\ncat <<EOF | ssh host \\\n  bash\nx ${x:-none}\nEOF"),
        ("kubectl \\\n  --namespace ", " \\\n\tget pods |\\\n grep x &&\\\necho x"),
        ("if [[ $x == @(a|b) && ( $y =~ ^(a|b)$ || -n ", " ) ]]; then echo x; fi # c\n"),
        ('echo "${1:-"default"}" "${x:-\'none\'}" "${x%"${x##*[![:space:]]}"}" $$ ', ""),
        ("for i in $(seq 1 $((n * 2))); do ((i % 2)) || echo ", "; done"),
        ("echo `awk '{print $1}' f` $((16#ff)) $(( ${#x} + ${y:-1} )) ", ""),
        ("x=(a # c\n $(ls | wc) $((1 + (2))) ", ")"),
        ("case $x in\n a) rm ", ";;\n *) echo no;;\nesac"),
        ("IFS=$'\\n\\t' read -r a <<< ", ""),
    ],
)
def test_closed_shell_script_accepts_any_quoted_input(before: str, behind: str) -> None:
    script = refused_or(literal(before) + "{{ .a | squote }}" + literal(behind), ScriptSyntax.SHELL, a="$(x) it's")
    assert script == before + "'$(x) it'\\''s'" + behind


@pytest.mark.parametrize("name", ["", "a\\nb", "a\\x1b[2J", "\\u202eb", "a\\u0085"])
def test_attack_parameter_name_with_unprintable_characters_is_rejected(name: str) -> None:
    with pytest.raises(TemplateError, match="printable characters"):
        parse('{{ index . "' + name + '" | required "x" }}')


def test_attack_rendered_script_never_contains_a_nul() -> None:
    for text in ("{{ .a | decodeb64 }}", '{{ "\\x00" }}', '{{ printf "%c" 0 }}'):
        with pytest.raises(RenderError, match="NUL"):
            parse(text).render({"a": "AAA="} if ".a" in text else {}, ScriptSyntax.SHELL)


def test_attack_number_of_template_variables_is_limited() -> None:
    made = "".join(f"{{{{ $a{number} := 1 }}}}" for number in range(250))
    with pytest.raises(TemplateError, match="more than 200 variables"):
        parse(made)
    assert parse("".join("{{ with $a := 1 }}{{ $a }}{{ end }}" for _ in range(250))).render({}, ScriptSyntax.OTHER)


INSERT = "insert into hit values (1)"
SQL_VALUES = [
    *(f"'; {INSERT}; --", f'"; {INSERT}; --', f"`; {INSERT}; --", f"\\'; {INSERT}; --", f"\n; {INSERT}; --"),
    *(f"*/; {INSERT}; --", f"]; {INSERT}; --", f"; {INSERT}; --", f" ; {INSERT}; select '", f"\r; {INSERT}; --"),
]
SQL_PIECES = [
    *("'", "'", "''", '"', "`", "[", "]", "--", "-- c\n", "#", "/*", "*/", "select ", "'a'", "1", ", ", "\n", " ", "E"),
    *("N", "\\", "x", "(", ")", ";", "||", " -", "/", "q'["),
]


@pytest.mark.parametrize(
    ("syntax", "text"),
    [
        (ScriptSyntax.DOLLAR_QUOTES, "\\echo {{ .a | squote }}\n"),
        (ScriptSyntax.DOLLAR_QUOTES, "select 1 \\g {{ .a | squote }}\n"),
        (ScriptSyntax.BACKSLASH_ESCAPES, "use {{ .a | quotechar `\\`` }}\n"),
        (ScriptSyntax.BACKSLASH_ESCAPES, "select 1;\n  system echo {{ .a | squote }}\n"),
        (ScriptSyntax.BACKSLASH_ESCAPES, "\\! echo {{ .a | squote }}\n"),
        (ScriptSyntax.TSQL, ":setvar x {{ .a | dquote }}\n"),
        (ScriptSyntax.PL_SQL, "select 1 from dual;\nhost echo {{ .a | squote }}\n"),
        (ScriptSyntax.SQLITE, ".shell echo {{ .a | squote }}\n"),
        (ScriptSyntax.SQL, "\\echo {{ .a | squote }}\n"),
    ],
)
def test_attack_client_command_accepts_only_plain_words(syntax: ScriptSyntax, text: str) -> None:
    text = text.replace("quotechar `\\``", 'quotechar "`"').replace(".a |", '.a | type "textarea" |')
    for value in (f"\n{INSERT};", f"$({HIT})", "it's"):
        assert refused_or(text, syntax, a=value) is None
        assert refused_or(text + 'select {{ .a | type "textarea" | squote }}', syntax, a="a/b.csv") is not None


def test_attack_unclosed_statement_accepts_no_unsafe_input() -> None:
    for syntax, behind in (
        (ScriptSyntax.DOLLAR_QUOTES, "; do $$ begin"),
        (ScriptSyntax.DOLLAR_QUOTES, ", E'\\\\'x'"),
        (ScriptSyntax.BACKSLASH_ESCAPES, ', "'),
        (ScriptSyntax.TSQL, ", [x"),
        (ScriptSyntax.PYTHON, ', """x'),
        (ScriptSyntax.JAVASCRIPT, ", `x"),
    ):
        text = "f ( {{ .a | squote }}" + behind
        assert refused_or(text, syntax, a="it's") is None
        assert refused_or(text, syntax, a="7") is not None


def test_attack_copy_data_lines_accept_no_unsafe_input() -> None:
    for text in (
        "copy t from stdin csv;\n1,{{ .a | dquote }}\n\\.\n",
        "\\copy t from pstdin\n{{ .a | dquote }}\n\\.\n",
        "select {{ .a | squote }};\nCOPY t FROM STDIN;\nit's\n\\.\n",
    ):
        assert (
            refused_or(text.replace(".a |", '.a | type "file" |'), ScriptSyntax.DOLLAR_QUOTES, a=f"\n\\.\n{INSERT}")
            is None
        )


def test_statement_that_only_resembles_a_client_command_accepts_any_input() -> None:
    for syntax, text in (
        (ScriptSyntax.DOLLAR_QUOTES, "\\set ON_ERROR_STOP on\nselect {{ .a | squote }}\n"),
        (ScriptSyntax.BACKSLASH_ESCAPES, "update t set\n  source = {{ .a | squote }}"),
        (ScriptSyntax.BACKSLASH_ESCAPES, "select * from t\n  use index (i) where a = {{ .a | squote }}\\G\n"),
        (ScriptSyntax.SQLITE, ".mode csv\nselect {{ .a | squote }}"),
        (ScriptSyntax.SQLITE, "select {{ .a | dquote }}.{{ .a | dquote }}"),
        (ScriptSyntax.PL_SQL, "select 1 from t\nstart with x = {{ .a | squote }}\nconnect by y = {{ .a | squote }}"),
    ):
        assert refused_or(text, syntax, a="it's; x") is not None


def test_attack_quoted_input_never_runs_at_any_position_of_a_statement() -> None:
    chance = random.Random(2026)
    ran = 0
    with sqlite3.connect(":memory:") as base:
        base.execute("create table hit (n)")
        for _ in range(5_000):
            function = chance.choice(["squote", "squote", "dquote", 'quotechar "`"', 'quotechar "["'])
            text = "select " + around(chance, SQL_PIECES, function)
            script = refused_or(text, ScriptSyntax.SQLITE, a=chance.choice(SQL_VALUES))
            if script is None:
                continue
            with suppress(sqlite3.Error, sqlite3.Warning):  # most are no SQL; what stands before the error has run
                base.executescript(script)
            assert base.execute("select count(*) from hit").fetchone() == (0,), script
            ran += 1
    assert ran > 500


@pytest.mark.parametrize(
    "text",
    [
        "x = /* */ /* */ /a{{ .a | squote }}/",
        "x =" + " " * 50 + "/a{{ .a | squote }}/",
        "x = // a\n\n\n                        /a{{ .a | squote }}/",
        "x = /[/{{ .a | squote }}]/",
        "x = /[\\]/{{ .a | squote }}]/",
        "// a\r'{{ .a | squote }}'",
        "// a\u2028`{{ .a | squote }}`",
    ],
)
def test_attack_regular_expression_or_comment_of_javascript_does_not_hide_where_quotes_open(text: str) -> None:
    assert refused_or(text, ScriptSyntax.JAVASCRIPT, a="/; run() //") is None


@pytest.mark.parametrize(
    "text",
    [
        "x = 6 / 2; y = {{ .a | squote }}",
        "x = a /* */ / 2; y = {{ .a | squote }}; z = 1 / 1",
        "x = f() / 2 + {{ .a | squote }} / 2",
        "x = /[/]/; y = {{ .a | squote }}",
        "x = /\\//.test({{ .a | squote }})",
        "x = [/'/, {{ .a | squote }}, /[\"]/]",
        "// it's\nx = {{ .a | squote }}",
    ],
)
def test_value_in_code_of_javascript_beside_slashes_is_accepted(text: str) -> None:
    assert refused_or(text, ScriptSyntax.JAVASCRIPT, a="/; run() //") is not None
