"""How a value becomes a literal of what reads the script, and how what reads it is told.

A function writes the quote that its name says, in each language: `squote` always ', `dquote` always ". What stands
between the quotes is made so that the language reads back the value, whatever it is, under every setting that it has,
except where a server was told that a backslash is no escape: there it comes back as two. What cannot be said is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from postern.domain.targets.connection import TERMINAL, protocol_of
from postern.protocols.registry import PROTOCOLS
from postern.protocols.spec import ScriptSyntax
from postern.runbooks.faults import Fault

# What reads scripts at connections of these subtypes, which commands serve.
_SUBTYPES: Mapping[str, ScriptSyntax] = {
    "mssql": ScriptSyntax.TSQL,
    "oracledb": ScriptSyntax.PL_SQL,
    "sqlite": ScriptSyntax.SQLITE,
    "mongodb": ScriptSyntax.JAVASCRIPT,
    **{spec.name: spec.syntax for spec in PROTOCOLS.values() if spec.syntax is not ScriptSyntax.OTHER},
}
_PROGRAMS: Mapping[str, ScriptSyntax] = {
    "sqlcmd": ScriptSyntax.TSQL,
    "sqlplus": ScriptSyntax.PL_SQL,
    "sqlite3": ScriptSyntax.SQLITE,
    "mongosh": ScriptSyntax.JAVASCRIPT,
    "mongo": ScriptSyntax.JAVASCRIPT,
    **dict.fromkeys(("sh", "bash", "dash", "ash", "ksh", "zsh"), ScriptSyntax.SHELL),
    "python": ScriptSyntax.PYTHON,
    "python3": ScriptSyntax.PYTHON,
    "node": ScriptSyntax.JAVASCRIPT,
}


@cache
def _sql_clients() -> Mapping[str, ScriptSyntax]:
    """Return what the clients of databases read, by the names of the programs."""
    databases = [spec for spec in PROTOCOLS.values() if spec.syntax.is_sql]
    return {name: spec.syntax for spec in databases if spec.client is not None for name in spec.client().names}


# Arguments of theirs that bring a script along.
_SCRIPTS: Mapping[ScriptSyntax, str] = {
    ScriptSyntax.SHELL: r"-[a-zA-Z]*c",
    ScriptSyntax.PYTHON: r"-[a-zA-Z]*[cm]",
    ScriptSyntax.JAVASCRIPT: r"-[ep]|--eval|--print",
}
# Other interpreters, which read quotes in ways of their own, and programs that run another.
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
    """What reads the script of a connection: the program of its command says so, unless the gateway itself speaks with
    such a target; else its subtype, else the name of the runbook, unless the program is an interpreter of another
    language. OTHER where nothing does: there only letters, digits and _ can be quoted."""
    if command and protocol_of(subtype, command) == TERMINAL:
        program = _program(command[0])
        syntax = _PROGRAMS.get(program) or _sql_clients().get(program)
        if syntax is not None and _reads_input(program, syntax, command[1:]):
            return syntax
        if _is_other_interpreter(command):
            by_subtype = _SUBTYPES.get(subtype, ScriptSyntax.OTHER)
            return by_subtype if by_subtype.is_sql and len(command) > 1 else ScriptSyntax.OTHER
    return _SUBTYPES.get(subtype) or _SUFFIXES.get(file.rsplit(".", 1)[-1], ScriptSyntax.OTHER)


def _program(word: str) -> str:
    return re.split(r"[/\\]", word)[-1]


def _is_other_interpreter(command: Sequence[str]) -> bool:
    """Whether the program is no POSIX shell and reads a language; or what a program like env runs."""
    words = command if _program(command[0]) in _WRAPPERS else command[:1]
    return any(_VERSION.sub("", _program(word).lower().removesuffix(".exe")) in _INTERPRETERS for word in words)


def _reads_input(program: str, syntax: ScriptSyntax, args: Sequence[str]) -> bool:
    """Interpreters read a script only while no argument is one, or names a file of one."""
    scripts = _SCRIPTS.get(syntax)
    if scripts is None or program in ("mongosh", "mongo"):
        return True
    return re.fullmatch(rf"(?:(?!{scripts})-\S*(?: pipefail)? )*", "".join(f"{one} " for one in args)) is not None


# Values that mean nothing but themselves: in a shell also paths and addresses.
_WORD = re.compile(r"[A-Za-z0-9_]*")
_PLAIN = re.compile(r"[A-Za-z0-9_./:@,+%-]*")
# Terminals act on them, and no engine reads all of them back.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ESCAPED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_CLOSING = {"[": "]", "(": ")", "{": "}", "<": ">"}


def is_plain(syntax: ScriptSyntax, value: str) -> bool:
    """Whether it cannot mean anything but itself, wherever it stands."""
    return (_PLAIN if syntax is ScriptSyntax.SHELL else _WORD).fullmatch(value) is not None


def quoted(syntax: ScriptSyntax, quote: str, value: str, prefix: str = "") -> str:
    """The literal of a value, in these quotes. `prefix`: what the text has in front of it (E or N). Raises Fault."""
    if _CONTROL.search(value):
        raise Fault("a value with control characters cannot be quoted; encodeb64 takes any")
    if syntax is ScriptSyntax.SHELL and quote == "`":
        raise Fault("a shell runs what stands between two `; take squote")
    rule = _RULES.get((syntax, quote))
    if rule is not None:
        return rule(value, prefix)
    if not is_plain(syntax, value):
        if syntax is ScriptSyntax.OTHER:
            raise Fault(
                "it is not known what reads this script, so that only letters, digits and _ can be quoted: let its "
                "name end with .sql, .sh, .py or .js"
            )
        raise Fault(f"it is not known how {syntax} reads what stands between two {quote}: only letters and digits may")
    return f"{quote}{value}{_CLOSING.get(quote, quote)}"


def _shell_single(value: str, _: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


def _shell_double(value: str, _: str) -> str:
    """An exclamation mark has no escape in double quotes: it stands in single ones, between two texts."""
    escaped = re.sub(r'([\\$"`])', r"\\\1", value)
    return '"' + escaped.replace("!", "\"'!'\"") + '"'


def _doubled(value: str, quote: str) -> str:
    closing = _CLOSING.get(quote, quote)
    return quote + value.replace(closing, closing * 2) + closing


def _escape_string(value: str, prefix: str) -> str:
    """Backslashes are written so that standard_conforming_strings does not matter, and quotes so that backslash_quote
    does not."""
    if "\\" not in value and prefix.upper() != "E":
        return _doubled(value, "'")
    if prefix.upper() == "N":
        raise Fault("a value with a backslash cannot be quoted behind N; leave the N out")
    return ("" if prefix else "E") + _doubled(value.replace("\\", "\\\\"), "'")


def _tsql(value: str, prefix: str) -> str:
    """sqlcmd fills $(…) in and ends a batch at a line GO, in literals too: such characters stand by their numbers."""
    n = "" if prefix or value.isascii() else "N"
    if not re.search(r"[\n\r]|\$\(", value):
        return n + _doubled(value, "'")
    return _joined(value, r"([\n\r]|\$(?=\())", lambda char: f"NCHAR({ord(char)})", "+", n, prefix)


def _oracle(value: str, prefix: str) -> str:
    """SQL*Plus fills &… in and ends a statement at the end of a line, in literals too: as above."""
    if not re.search(r"[\n\r&]", value):
        return _doubled(value, "'")
    return _joined(value, r"([\n\r&])", lambda char: f"CHR({ord(char)})", "||", "", prefix)


def _joined(value: str, apart: str, written: Callable[[str], str], operator: str, n: str, prefix: str) -> str:
    if prefix:
        raise Fault(f"this value cannot be quoted behind {prefix}; leave the {prefix} out")
    parts = re.split(apart, value)
    terms = [written(part) if number % 2 else n + _doubled(part, "'") for number, part in enumerate(parts)]
    return f"({operator.join(terms)})"


def _without(forbidden: str, quote: str) -> Callable[[str, str], str]:
    """Where there is no way to write some characters."""

    def rule(value: str, _: str) -> str:
        found = re.search(forbidden, value)
        if found:
            raise Fault(f"a value with {found[0]!r} cannot be written between two {quote} here")
        return _doubled(value, quote)

    return rule


def _backslashed(quote: str) -> Callable[[str, str], str]:
    """Languages that escape with backslashes."""

    def rule(value: str, _: str) -> str:
        escaped = "".join(_ESCAPED.get(char, char) for char in value).replace(quote, "\\" + quote)
        if quote == "`":
            escaped = escaped.replace("${", "\\${")
        return quote + escaped + quote

    return rule


def _plainly(quote: str) -> Callable[[str, str], str]:
    return lambda value, _: _doubled(value, quote)


def _backslashes_doubled(quote: str) -> Callable[[str, str], str]:
    return lambda value, _: _doubled(value.replace("\\", "\\\\"), quote)


_RULES: Mapping[tuple[ScriptSyntax, str], Callable[[str, str], str]] = {
    (ScriptSyntax.SHELL, "'"): _shell_single,
    (ScriptSyntax.SHELL, '"'): _shell_double,
    (ScriptSyntax.DOLLAR_QUOTES, "'"): _escape_string,
    (ScriptSyntax.DOLLAR_QUOTES, '"'): _plainly('"'),
    (ScriptSyntax.BACKSLASH_ESCAPES, "'"): _backslashes_doubled("'"),
    (ScriptSyntax.BACKSLASH_ESCAPES, '"'): _backslashes_doubled('"'),
    (ScriptSyntax.BACKSLASH_ESCAPES, "`"): _plainly("`"),
    (ScriptSyntax.TSQL, "'"): _tsql,
    (ScriptSyntax.TSQL, '"'): _without(r"[\n\r]|\$\(", '"'),
    (ScriptSyntax.TSQL, "["): _without(r"[\n\r]|\$\(", "["),
    (ScriptSyntax.PL_SQL, "'"): _oracle,
    (ScriptSyntax.PL_SQL, '"'): _without(r'[\n\r&"]', '"'),
    (ScriptSyntax.SQLITE, "'"): _plainly("'"),
    (ScriptSyntax.SQLITE, '"'): _plainly('"'),
    (ScriptSyntax.SQLITE, "`"): _plainly("`"),
    (ScriptSyntax.SQLITE, "["): _without(r"\]", "["),
    (ScriptSyntax.SQL, "'"): _without(r"\\", "'"),  # many read a backslash as an escape, and many do not
    (ScriptSyntax.SQL, '"'): _without(r"\\", '"'),
    (ScriptSyntax.PYTHON, "'"): _backslashed("'"),
    (ScriptSyntax.PYTHON, '"'): _backslashed('"'),
    (ScriptSyntax.JAVASCRIPT, "'"): _backslashed("'"),
    (ScriptSyntax.JAVASCRIPT, '"'): _backslashed('"'),
    (ScriptSyntax.JAVASCRIPT, "`"): _backslashed("`"),
}
