"""How a value becomes a literal of what reads the script, and how what reads it is told.

A function writes the quote that its name says, in each language: `squote` always ', `dquote` always ". What stands
between the quotes is made so that the language reads back the value, whatever it is, under every setting that it has
(MySQL without NO_BACKSLASH_ESCAPES excepted, where a backslash comes back as two). What cannot be said is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from postern.domain.targets.connection import TERMINAL, protocol_of
from postern.runbooks.faults import Fault


class Target(StrEnum):
    """What reads a script."""

    SHELL = "shell"
    POSTGRES = "postgres"
    MYSQL = "mysql"
    TSQL = "tsql"
    ORACLE = "oracle"
    SQLITE = "sqlite"
    SQL = "sql"  # nobody says which
    PYTHON = "python"
    JAVASCRIPT = "javascript"
    OTHER = "other"

    @property
    def is_sql(self) -> bool:
        return self in _SQL


_SQL = frozenset({Target.POSTGRES, Target.MYSQL, Target.TSQL, Target.ORACLE, Target.SQLITE, Target.SQL})

_SUBTYPES: Mapping[str, Target] = {
    "postgres": Target.POSTGRES,
    "mysql": Target.MYSQL,
    "mssql": Target.TSQL,
    "oracledb": Target.ORACLE,
    "sqlite": Target.SQLITE,
    "mongodb": Target.JAVASCRIPT,
    "ssh": Target.SHELL,
}
_PROGRAMS: Mapping[str, Target] = {
    "psql": Target.POSTGRES,
    "mysql": Target.MYSQL,
    "mariadb": Target.MYSQL,
    "sqlcmd": Target.TSQL,
    "sqlplus": Target.ORACLE,
    "sqlite3": Target.SQLITE,
    "mongosh": Target.JAVASCRIPT,
    "mongo": Target.JAVASCRIPT,
    **dict.fromkeys(("sh", "bash", "dash", "ash", "ksh", "zsh"), Target.SHELL),
    "python": Target.PYTHON,
    "python3": Target.PYTHON,
    "node": Target.JAVASCRIPT,
}
# Arguments of theirs that bring a script along.
_SCRIPTS: Mapping[Target, str] = {
    Target.SHELL: r"-[a-zA-Z]*c",
    Target.PYTHON: r"-[a-zA-Z]*[cm]",
    Target.JAVASCRIPT: r"-[ep]|--eval|--print",
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
_SUFFIXES: Mapping[str, Target] = {
    "sql": Target.SQL,
    **dict.fromkeys(("sh", "bash", "ksh", "zsh"), Target.SHELL),
    "py": Target.PYTHON,
    "js": Target.JAVASCRIPT,
}


def target_of(subtype: str, command: Sequence[str] = (), file: str = "") -> Target:
    """What reads the script of a connection: the program of its command says so, unless the gateway itself speaks with
    such a target; else its subtype, else the name of the runbook, unless the program is an interpreter of another
    language. OTHER where nothing does: there only letters, digits and _ can be quoted."""
    if command and protocol_of(subtype, command) == TERMINAL:
        program = _program(command[0])
        target = _PROGRAMS.get(program)
        if target is not None and _reads_input(program, target, command[1:]):
            return target
        if _is_other_interpreter(command):
            by_subtype = _SUBTYPES.get(subtype, Target.OTHER)
            return by_subtype if by_subtype.is_sql and len(command) > 1 else Target.OTHER
    return _SUBTYPES.get(subtype) or _SUFFIXES.get(file.rsplit(".", 1)[-1], Target.OTHER)


def _program(word: str) -> str:
    return re.split(r"[/\\]", word)[-1]


def _is_other_interpreter(command: Sequence[str]) -> bool:
    """Whether the program is no POSIX shell and reads a language; or what a program like env runs."""
    words = command if _program(command[0]) in _WRAPPERS else command[:1]
    return any(_VERSION.sub("", _program(word).lower().removesuffix(".exe")) in _INTERPRETERS for word in words)


def _reads_input(program: str, target: Target, args: Sequence[str]) -> bool:
    """Interpreters read a script only while no argument is one, or names a file of one."""
    scripts = _SCRIPTS.get(target)
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


def is_plain(target: Target, value: str) -> bool:
    """Whether it cannot mean anything but itself, wherever it stands."""
    return (_PLAIN if target is Target.SHELL else _WORD).fullmatch(value) is not None


def quoted(target: Target, quote: str, value: str, prefix: str = "") -> str:
    """The literal of a value, in these quotes. `prefix`: what the text has in front of it (E or N). Raises Fault."""
    if _CONTROL.search(value):
        raise Fault("a value with control characters cannot be quoted; encodeb64 takes any")
    if target is Target.SHELL and quote == "`":
        raise Fault("a shell runs what stands between two `; take squote")
    rule = _RULES.get((target, quote))
    if rule is not None:
        return rule(value, prefix)
    if not is_plain(target, value):
        if target is Target.OTHER:
            raise Fault(
                "it is not known what reads this script, so that only letters, digits and _ can be quoted: let its "
                "name end with .sql, .sh, .py or .js"
            )
        raise Fault(f"it is not known how {target} reads what stands between two {quote}: only letters and digits may")
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


def _postgres(value: str, prefix: str) -> str:
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


def _mysql(quote: str) -> Callable[[str, str], str]:
    return lambda value, _: _doubled(value.replace("\\", "\\\\"), quote)


_RULES: Mapping[tuple[Target, str], Callable[[str, str], str]] = {
    (Target.SHELL, "'"): _shell_single,
    (Target.SHELL, '"'): _shell_double,
    (Target.POSTGRES, "'"): _postgres,
    (Target.POSTGRES, '"'): _plainly('"'),
    (Target.MYSQL, "'"): _mysql("'"),
    (Target.MYSQL, '"'): _mysql('"'),
    (Target.MYSQL, "`"): _plainly("`"),
    (Target.TSQL, "'"): _tsql,
    (Target.TSQL, '"'): _without(r"[\n\r]|\$\(", '"'),
    (Target.TSQL, "["): _without(r"[\n\r]|\$\(", "["),
    (Target.ORACLE, "'"): _oracle,
    (Target.ORACLE, '"'): _without(r'[\n\r&"]', '"'),
    (Target.SQLITE, "'"): _plainly("'"),
    (Target.SQLITE, '"'): _plainly('"'),
    (Target.SQLITE, "`"): _plainly("`"),
    (Target.SQLITE, "["): _without(r"\]", "["),
    (Target.SQL, "'"): _without(r"\\", "'"),  # many read a backslash as an escape, and many do not
    (Target.SQL, '"'): _without(r"\\", '"'),
    (Target.PYTHON, "'"): _backslashed("'"),
    (Target.PYTHON, '"'): _backslashed('"'),
    (Target.JAVASCRIPT, "'"): _backslashed("'"),
    (Target.JAVASCRIPT, '"'): _backslashed('"'),
    (Target.JAVASCRIPT, "`"): _backslashed("`"),
}
