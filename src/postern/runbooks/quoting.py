"""Quoting of values as literals for the reader of a script, and detection of that reader.

A function writes the quote that its name says, in each language: `squote` always ', `dquote` always ". The text between
the quotes is escaped so that the language reads back exactly the value, under each of its settings. The only exception
is a server on which backslashes were configured not to escape: there each backslash comes back as two. Values that
cannot be expressed are rejected. Requests of HTTP have no quotes of their own: there the place decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from urllib.parse import quote

from postern.domain.targets.connection import TERMINAL, protocol_of
from postern.protocols.registry import PROTOCOLS
from postern.protocols.spec import ScriptSyntax
from postern.runbooks.template_errors import Fault

# Languages of scripts at connections of these subtypes, which run commands.
_SUBTYPES: Mapping[str, ScriptSyntax] = {
    "sqlite": ScriptSyntax.SQLITE,
    **{spec.name: spec.syntax for spec in PROTOCOLS.values() if spec.syntax is not ScriptSyntax.OTHER},
}
_PROGRAMS: Mapping[str, ScriptSyntax] = {
    "sqlplus": ScriptSyntax.PL_SQL,
    "sqlite3": ScriptSyntax.SQLITE,
    **dict.fromkeys(("sh", "bash", "dash", "ash", "ksh", "zsh"), ScriptSyntax.SHELL),
    "python": ScriptSyntax.PYTHON,
    "python3": ScriptSyntax.PYTHON,
    "node": ScriptSyntax.JAVASCRIPT,
}


@cache
def _database_clients() -> Mapping[str, ScriptSyntax]:
    """Return the languages of database clients, by program name."""
    known = (spec for spec in PROTOCOLS.values() if spec.type == "database")
    databases = [spec for spec in known if spec.syntax is not ScriptSyntax.OTHER]
    return {name: spec.syntax for spec in databases if spec.client is not None for name in spec.client().names}


# Arguments that contain a script.
_SCRIPTS: Mapping[ScriptSyntax, str] = {
    ScriptSyntax.SHELL: r"-[a-zA-Z]*c",
    ScriptSyntax.PYTHON: r"-[a-zA-Z]*[cm]",
    ScriptSyntax.JAVASCRIPT: r"-[ep]|--eval|--print",
}
# Other interpreters, with quoting rules of their own, and programs that run another program.
_INTERPRETERS = frozenset(
    {
        "pwsh",
        "powershell",
        "cmd",
        "fish",
        "csh",
        "tcsh",
        "nu",
        "elvish",
        "xonsh",
        "rc",
        "es",
        "perl",
        "raku",
        "ruby",
        "irb",
    }
    | {"php", "lua", "luajit", "tclsh", "wish", "expect", "r", "rscript", "julia", "ghci", "scala", "groovy", "jshell"}
    | {
        "deno",
        "bun",
        "nodejs",
        "python",
        "pypy",
        "ipython",
        "bpython",
        "node",
        "awk",
        "gawk",
        "mawk",
        "sed",
        "jq",
        "bc",
    }
    | {
        "emacs",
        "vim",
        "ex",
        "ed",
        "guile",
        "racket",
        "sbcl",
        "clisp",
        "clojure",
        "swipl",
        "iex",
        "erl",
        "octave",
        "gdb",
    }
)
_WRAPPERS = frozenset({"env", "sudo", "doas", "nice", "ionice", "nohup", "timeout", "stdbuf", "setsid", "busybox"})
_VERSION = re.compile(r"-?\d[\d.]*$")
_SUFFIXES: Mapping[str, ScriptSyntax] = {
    "sql": ScriptSyntax.SQL,
    **dict.fromkeys(("sh", "bash", "ksh", "zsh"), ScriptSyntax.SHELL),
    "py": ScriptSyntax.PYTHON,
    "js": ScriptSyntax.JAVASCRIPT,
}


def syntax_of(subtype: str, command: Sequence[str] = (), file: str = "") -> ScriptSyntax:
    """Return the language of a connection's script.

    The program of its command decides, unless the gateway itself speaks the protocol of the target. Then the subtype
    decides, then the suffix of the runbook's name, unless the program is an interpreter of another language. In all
    other cases it is OTHER, in which only letters, digits and _ can be quoted.
    """
    if command and protocol_of(subtype, command) == TERMINAL:
        program = _program(command[0])
        syntax = _PROGRAMS.get(program) or _database_clients().get(program)
        if syntax is not None and _reads_input(program, syntax, command[1:]):
            return syntax
        if _is_other_interpreter(command):
            by_subtype = _SUBTYPES.get(subtype, ScriptSyntax.OTHER)
            return by_subtype if by_subtype.is_sql and len(command) > 1 else ScriptSyntax.OTHER
    return _SUBTYPES.get(subtype) or _SUFFIXES.get(file.rsplit(".", 1)[-1], ScriptSyntax.OTHER)


def _program(word: str) -> str:
    return re.split(r"[/\\]", word)[-1]


def _is_other_interpreter(command: Sequence[str]) -> bool:
    """Return whether the program, or one that it wraps, is an interpreter but not a POSIX shell."""
    words = command if _program(command[0]) in _WRAPPERS else command[:1]
    return any(_VERSION.sub("", _program(word).lower().removesuffix(".exe")) in _INTERPRETERS for word in words)


def _reads_input(program: str, syntax: ScriptSyntax, args: Sequence[str]) -> bool:
    """Return whether the program reads its input as a script: no argument is a script, or the name of one."""
    scripts = _SCRIPTS.get(syntax)
    if scripts is None or program in _database_clients():
        return True
    return re.fullmatch(rf"(?:(?!{scripts})-\S*(?: pipefail)? )*", "".join(f"{arg} " for arg in args)) is not None


# Values without special meaning; in a shell also paths and addresses.
_WORD = re.compile(r"[A-Za-z0-9_]*")
_PLAIN = re.compile(r"[A-Za-z0-9_./:@,+%-]*")
# Terminals act on them, and no engine can read back all of them.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ESCAPED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_CLOSING = {"[": "]", "(": ")", "{": "}", "<": ">"}


def is_plain(syntax: ScriptSyntax, value: str) -> bool:
    """Return whether the value has no special meaning, wherever it is inserted."""
    return (_PLAIN if syntax is ScriptSyntax.SHELL else _WORD).fullmatch(value) is not None


def quote_value(syntax: ScriptSyntax, quote: str, value: str, prefix: str = "") -> str:
    """Return a value as a literal in these quotes. `prefix`: E or N in front of it. Raises Fault."""
    if _CONTROL.search(value):
        raise Fault("a value with control characters cannot be quoted; use encodeb64 for it")
    if syntax is ScriptSyntax.SHELL and quote == "`":
        raise Fault("a shell runs text between backquotes as a command; use squote")
    rule = _RULES.get((syntax, quote))
    if rule is not None:
        return rule(value, prefix)
    if not is_plain(syntax, value):
        if syntax is ScriptSyntax.OTHER:
            raise Fault(
                "the language of this script is unknown, so only letters, digits and _ can be quoted: end its "
                "name with .sql, .sh, .py or .js"
            )
        raise Fault(f"the meaning of {quote} quotes in {syntax} is unknown: only letters and digits are allowed")
    return f"{quote}{value}{_CLOSING.get(quote, quote)}"


def _percent(value: str, _: str) -> str:
    """Write a value of a request without a place: encoded so that it means nothing anywhere. See `http_places`."""
    return quote(value, safe="")


def _shell_single(value: str, _: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


def _shell_double(value: str, _: str) -> str:
    """Quote for double quotes. An exclamation mark cannot be escaped there, so it is put between single quotes."""
    escaped = re.sub(r'([\\$"`])', r"\\\1", value)
    return '"' + escaped.replace("!", "\"'!'\"") + '"'


def _double_quotes(value: str, quote: str) -> str:
    closing = _CLOSING.get(quote, quote)
    return quote + value.replace(closing, closing * 2) + closing


def _escape_string(value: str, prefix: str) -> str:
    """Write a literal that does not depend on standard_conforming_strings and backslash_quote."""
    if "\\" not in value and prefix.upper() != "E":
        return _double_quotes(value, "'")
    if prefix.upper() == "N":
        raise Fault("a value with a backslash cannot be quoted after N; remove the N")
    return ("" if prefix else "E") + _double_quotes(value.replace("\\", "\\\\"), "'")


def _tsql(value: str, prefix: str) -> str:
    """Write a T-SQL literal. Its clients expand $(…) and end a batch at a line GO, also in literals; such characters
    are written by their codes.
    """
    n = "" if prefix or value.isascii() else "N"
    if not re.search(r"[\n\r]|\$\(", value):
        return n + _double_quotes(value, "'")
    return _join_terms(value, r"([\n\r]|\$(?=\())", lambda char: f"NCHAR({ord(char)})", "+", n, prefix)


def _pl_sql(value: str, prefix: str) -> str:
    """Write a literal of PL/SQL. SQL*Plus expands &… and ends statements at line ends, also in literals, as above."""
    if not re.search(r"[\n\r&]", value):
        return _double_quotes(value, "'")
    return _join_terms(value, r"([\n\r&])", lambda char: f"CHR({ord(char)})", "||", "", prefix)


def _join_terms(value: str, apart: str, written: Callable[[str], str], operator: str, n: str, prefix: str) -> str:
    if prefix:
        raise Fault(f"this value cannot be quoted after {prefix}; remove the {prefix}")
    parts = re.split(apart, value)
    terms = [written(part) if number % 2 else n + _double_quotes(part, "'") for number, part in enumerate(parts)]
    return f"({operator.join(terms)})"


def _without(forbidden: str, quote: str) -> Callable[[str, str], str]:
    """Return a rule for quotes in which some characters cannot be written."""

    def rule(value: str, _: str) -> str:
        match = re.search(forbidden, value)
        if match:
            raise Fault(f"a value with {match[0]!r} cannot be quoted with {quote} here")
        return _double_quotes(value, quote)

    return rule


def _backslash_rule(quote: str) -> Callable[[str, str], str]:
    """Return the rule of languages that escape with backslashes."""

    def rule(value: str, _: str) -> str:
        escaped = "".join(_ESCAPED.get(char, char) for char in value).replace(quote, "\\" + quote)
        if quote == "`":
            escaped = escaped.replace("${", "\\${")
        return quote + escaped + quote

    return rule


def _doubling_rule(quote: str) -> Callable[[str, str], str]:
    return lambda value, _: _double_quotes(value, quote)


def _backslashes_doubled(quote: str) -> Callable[[str, str], str]:
    return lambda value, _: _double_quotes(value.replace("\\", "\\\\"), quote)


_RULES: Mapping[tuple[ScriptSyntax, str], Callable[[str, str], str]] = {
    (ScriptSyntax.HTTP, "'"): _percent,
    (ScriptSyntax.HTTP, '"'): _percent,
    (ScriptSyntax.SHELL, "'"): _shell_single,
    (ScriptSyntax.SHELL, '"'): _shell_double,
    (ScriptSyntax.DOLLAR_QUOTES, "'"): _escape_string,
    (ScriptSyntax.DOLLAR_QUOTES, '"'): _doubling_rule('"'),
    (ScriptSyntax.BACKSLASH_ESCAPES, "'"): _backslashes_doubled("'"),
    (ScriptSyntax.BACKSLASH_ESCAPES, '"'): _backslashes_doubled('"'),
    (ScriptSyntax.BACKSLASH_ESCAPES, "`"): _doubling_rule("`"),
    (ScriptSyntax.TSQL, "'"): _tsql,
    (ScriptSyntax.TSQL, '"'): _without(r"[\n\r]|\$\(", '"'),
    (ScriptSyntax.TSQL, "["): _without(r"[\n\r]|\$\(", "["),
    (ScriptSyntax.PL_SQL, "'"): _pl_sql,
    (ScriptSyntax.PL_SQL, '"'): _without(r'[\n\r&"]', '"'),
    (ScriptSyntax.SQLITE, "'"): _doubling_rule("'"),
    (ScriptSyntax.SQLITE, '"'): _doubling_rule('"'),
    (ScriptSyntax.SQLITE, "`"): _doubling_rule("`"),
    (ScriptSyntax.SQLITE, "["): _without(r"\]", "["),
    (ScriptSyntax.SQL, "'"): _without(r"\\", "'"),  # some systems read a backslash as an escape, others do not
    (ScriptSyntax.SQL, '"'): _without(r"\\", '"'),
    (ScriptSyntax.PYTHON, "'"): _backslash_rule("'"),
    (ScriptSyntax.PYTHON, '"'): _backslash_rule('"'),
    (ScriptSyntax.JAVASCRIPT, "'"): _backslash_rule("'"),
    (ScriptSyntax.JAVASCRIPT, '"'): _backslash_rule('"'),
    (ScriptSyntax.JAVASCRIPT, "`"): _backslash_rule("`"),
}
