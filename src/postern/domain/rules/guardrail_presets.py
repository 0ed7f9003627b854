"""Preset guardrails: common needs, as rules that can be saved as they are or changed."""

from __future__ import annotations

from dataclasses import dataclass

from postern.domain.rules.guardrail import Action, Rule, RuleType, Unknown
from postern.domain.rules.statement import Effect
from postern.domain.targets.connection import SSH, TERMINAL
from postern.domain.targets.dialect import DIALECTS
from postern.protocols.registry import PROTOCOLS


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset; `protocols` are those on which it can be enforced."""

    name: str
    description: str
    protocols: tuple[str, ...]
    input: tuple[Rule, ...] = ()
    output: tuple[Rule, ...] = ()


_SQL = tuple(DIALECTS)
_ALLOW = Unknown.ALLOW


def _statements(name: str, *effects: Effect, unknown: Unknown | None = None, message: str = "") -> Rule:
    return Rule(RuleType.DENY_STATEMENTS, name=name, effects=frozenset(effects), unknown=unknown, message=message)


def _functions(name: str, *functions: str) -> Rule:
    return Rule(RuleType.DENY_STATEMENTS, name=name, objects=functions, unknown=_ALLOW)


def _pattern(name: str, pattern: str, action: Action = Action.DENY) -> Rule:
    return Rule(RuleType.PATTERN_MATCH, pattern_regex=pattern, name=name, action=action)


PRESETS: tuple[Preset, ...] = (
    Preset(
        "unsafe-writes",
        "Denies UPDATE and DELETE without a condition, TRUNCATE, and statements that cannot be evaluated.",
        _SQL,
        input=(Rule(RuleType.REQUIRE_WHERE, name="needs a condition"),),
    ),
    Preset(
        "warn-unsafe-writes",
        "Warns the user about UPDATE and DELETE without a condition, and about TRUNCATE, and forwards them.",
        _SQL,
        input=(Rule(RuleType.REQUIRE_WHERE, name="needs a condition", action=Action.WARN, unknown=_ALLOW),),
    ),
    Preset(
        "destructive-ddl",
        "Denies statements that create, change or drop objects.",
        _SQL,
        input=(_statements("no schema changes", Effect.DDL),),
    ),
    Preset(
        "privilege-changes",
        "Denies changes of roles, passwords, owners and privileges.",
        _SQL,
        input=(_statements("no privilege changes", Effect.GRANT),),
    ),
    Preset(
        "server-administration",
        "Denies access to the server itself: its files, programs, settings, replication and other sessions.",
        _SQL,
        input=(_statements("no administration", Effect.ADMIN),),
    ),
    Preset(
        "files-and-programs",
        "Denies statements and functions that read or write files of the server or run programs on it.",
        tuple(spec.name for spec in PROTOCOLS.values() if spec.file_functions),
        input=(
            _statements("no administration", Effect.ADMIN),
            _functions("functions of files", *(name for spec in PROTOCOLS.values() for name in spec.file_functions)),
        ),
    ),
    Preset(
        "read-only",
        "Allows only statements that read or set session settings; denies statements that cannot be evaluated.",
        _SQL,
        input=(Rule(RuleType.READ_ONLY, name="read only"),),
    ),
    Preset(
        "full-scans",
        "Denies full table reads without a condition on a column, a LIMIT or an aggregate, "
        "and statements that cannot be evaluated. It prevents accidents only: `where id > 0` passes.",
        _SQL,
        input=(Rule(RuleType.DENY_FULL_SCANS, name="not a whole table"),),
    ),
    Preset(
        "warn-full-scans",
        "Warns the user about full table reads, and forwards them.",
        _SQL,
        input=(Rule(RuleType.DENY_FULL_SCANS, name="not a whole table", action=Action.WARN, unknown=_ALLOW),),
    ),
    Preset(
        "large-answers",
        "Aborts results with more than 10,000 rows. All fetches of a cursor count together.",
        _SQL,
        output=(Rule(RuleType.MAX_ROWS, name="10,000 rows", most=10_000),),
    ),
    Preset(
        "private-keys",
        "Denies results that contain a private key: PEM, OpenSSH, PGP, SSH2 or PuTTY.",
        (*_SQL, TERMINAL, SSH),
        output=(
            _pattern("private key", r"-{4,5} ?BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)? ?-{4,5}"),
            _pattern("PuTTY key", r"PuTTY-User-Key-File-[0-9]"),
        ),
    ),
    Preset(
        "destructive-commands",
        "Denies lines that remove, overwrite or power off by the usual commands. "
        "At a shell it is advisory, because other spellings pass.",
        (TERMINAL, SSH),
        input=(
            _pattern(
                "removes",
                r"\brm[^\S\n]+(?:[^\s;|&]+[^\S\n]+)*-(?:\w*[rRf]|-(?:recursive|force))|\bfind\b[^\n;|&]*\s-delete\b",
            ),
            _pattern(
                "overwrites",
                r"\b(?:mkfs(?:\.\w+)?|wipefs|shred|blkdiscard)\b|\bdd\b[^\n]*\bof=/dev/"
                r"|>[^\S\n]*/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk)",
            ),
            _pattern("stops", r"\b(?:shutdown|reboot|poweroff|halt)\b|\b(?:tel)?init[^\S\n]+[06]\b"),
        ),
    ),
)


def preset(name: str) -> Preset | None:
    return next((preset for preset in PRESETS if preset.name == name), None)
