"""Oracle Database: the effect of each statement of a text.

Oracle calls functions without arguments without parentheses, so that they look like columns. If the tables of a query
cannot have such a column, the effect is unknown; if they can, the name counts as a column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from postern.domain.rules.statement import Effect, ObjectKind, Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.sql import oracle_words as words
from postern.inspection.sql.judging import Draft, Judging, add_defined_object, by_first_words, verb_of
from postern.inspection.sql.shared import Shared
from postern.inspection.sql.sql_cache import TextCache
from postern.inspection.sql.sql_lexing import check_text, tokens_of
from postern.inspection.sql.sql_parser import unknown
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, dotted_name, key_at, statements_of
from postern.inspection.sql.sqlglot_tree import TreeFacts

_LETTER = r"[A-Za-z\u0080-\u009f\u00a1-\u167f\u1681-\u1fff\u2070-\u2fff\u3001-\ufefe\uff00-\U0010ffff]"
_OWN_QUOTES = (
    r"\[[\s\S]*?\]'|\([\s\S]*?\)'|\{[\s\S]*?\}'|<[\s\S]*?>'|(?P<mark>[^\s\[({<])[\s\S]*?(?P=mark)'"  # q'[...]'
)
_PATTERN: Final = re.compile(
    r"(?P<blank>[ \t\n\r\f\v]+|/\*[\s\S]*?\*/)"
    r"|(?P<comment>--[^\n]*)"
    rf"|(?P<string>[nN]?[qQ]'(?:{_OWN_QUOTES})|(?:[nN]|[uU](?=')|[xX](?='))?'(?:[^']++|'')*+')"
    r'|(?P<name>"[^"\x00]++")'
    rf"|(?P<variable>:(?:\"[^\"]+\"|(?:{_LETTER}|[0-9_$#])+)|\?)"
    rf"|(?P<number>(?:[0-9]+(?:\.(?!\.)[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?(?!{_LETTER}|[0-9_$#]))"
    rf"|(?P<word>{_LETTER}(?:{_LETTER}|[0-9_$#])*)"
    r"|(?P<symbol>:=|=>|\*\*|\|\||<<|>>|<>|!=|\^=|~=|<=|>=|\.\.|/(?!\*)|[-+*%(),.;=<>@|!])",
)


class OracleParser(Shared):
    """Implementation of the port `Parser`."""

    dialect = "oracle"
    shapes = None

    def __init__(self) -> None:
        self._cache: TextCache[tuple[Statement, ...]] = TextCache()

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        return self._cache.of(text, schema, _parse)


def _parse(text: str, schema: TargetSchema | None) -> tuple[Statement, ...]:
    judging = Judging(words.GRAMMAR, words.FUNCTIONS, schema)
    try:
        check_text(text)
        statements: list[Statement] = []
        for script in _scripts(tokens_of(text, _PATTERN)):
            statements += _judge_script(script, judging)
        return tuple(statements)
    except UnreadableSql as error:
        return (unknown(str(error)),)
    except (RecursionError, MemoryError):
        return (unknown("it is nested too deeply"),)


def _scripts(tokens: Sequence[SqlToken]) -> list[list[SqlToken]]:
    """Split at lines with only `/`, as client tools do."""
    scripts: list[list[SqlToken]] = [[]]
    for token in tokens:
        if token.key == "/" and token.alone:
            scripts.append([])
        else:
            scripts[-1].append(token)
    return [each for each in scripts if each]


def _judge_script(tokens: Sequence[SqlToken], judging: Judging) -> list[Statement]:
    statements: list[Statement] = []
    pieces = statements_of(tokens)
    for place, piece in enumerate(pieces):
        rest = [token for each in pieces[place:] for token in each]
        if key_at(piece, 0) in ("BEGIN", "DECLARE", "<<"):
            return [*statements, _block(rest, judging)]
        if _creates_code(piece):
            draft = Draft(piece[0].key, {Effect.DDL})
            if any(token.key == "JAVA" for token in piece[:6]):
                draft.add(Effect.ADMIN)
            draft.tag = f"{piece[0].key} {add_defined_object(judging, draft, rest)}"
            judging.add_mentioned_names(draft, rest)
            return [*statements, draft.finish()]  # its body is the rest
        if key_at(piece, 0) == "WITH" and key_at(piece, 1) in ("FUNCTION", "PROCEDURE"):
            return [*statements, unknown("it contains code", "WITH")]
        statements.append(_judge(piece, judging))
    return statements


def _creates_code(tokens: Sequence[SqlToken]) -> bool:
    if key_at(tokens, 0) != "CREATE":
        return False
    place = 1
    while key_at(tokens, place) in ("OR", "REPLACE", "EDITIONABLE", "NONEDITIONABLE", "AND", "RESOLVE", "COMPILE"):
        place += 1
    return key_at(tokens, place) in words.CREATES_CODE


def _block(tokens: list[SqlToken], judging: Judging) -> Statement:
    """Judge a block of code. Its effect is unknown; calls of the server's own packages are added."""
    draft = Draft(key_at(tokens, 0))
    judging.add_calls(draft, tokens)
    judging.add_mentioned_names(draft, tokens)
    draft.effects &= {Effect.ADMIN}
    draft.reason = ""
    draft.unknown("it runs a block of code")
    return draft.finish()


_QUERIES = ("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE")


def _judge(tokens: list[SqlToken], judging: Judging) -> Statement:
    verb = verb_of(tokens)
    if verb in _QUERIES:
        return _query(tokens, verb, judging)
    if verb == "EXPLAIN":
        return _explain(tokens, judging)
    entry = by_first_words(tokens, words.STATEMENTS)
    if entry is None:
        return unknown("its first words are not those of a known statement", key_at(tokens, 0))
    first, effects = entry
    draft = Draft(" ".join(first), set(effects))
    if Effect.UNKNOWN in effects:
        judging.add_calls(draft, tokens)
        draft.reason = f"{first[0]} runs code that is not in its text"
    elif first[0] in ("CREATE", "ALTER", "DROP", "TRUNCATE", "PURGE", "FLASHBACK", "COMMENT", "LOCK"):
        _definition(draft, tokens, judging)
    elif first[0] in ("GRANT", "REVOKE"):
        place = next((at for at, token in enumerate(tokens) if token.key == "ON"), len(tokens)) + 1
        judging.add_names(draft, tokens, place)
    elif first[0] == "RENAME":
        judging.add_names(draft, tokens, 1)
    judging.add_mentioned_names(draft, tokens)
    return draft.finish()


def _query(tokens: list[SqlToken], verb: str, judging: Judging) -> Statement:
    draft = Draft(verb)
    plain = _without_extras(tokens, verb)
    if verb == "MERGE":
        judging.add_calls(draft, tokens)
    for place, token in enumerate(tokens):
        if token.text.upper() == "NEXTVAL" and key_at(tokens, place - 1) == ".":
            draft.add(Effect.WRITE)
    facts = judging.add_query(draft, plain, verb)
    if facts is not None:
        _check_bare_names(draft, facts, judging)
    return draft.finish()


_BIND = SqlToken(SqlTokenKind.VARIABLE, ":b")


def _without_extras(tokens: Sequence[SqlToken], verb: str) -> list[SqlToken]:
    """Remove what sqlglot does not know: links to other databases (`t@remote`), and WHERE in the branches of a
    MERGE.
    """
    kept_tokens: list[SqlToken] = []
    place = depth = 0
    while place < len(tokens):
        token = tokens[place]
        depth += (token.key == "(") - (token.key == ")")
        if token.key == "(" and key_at(tokens, place + 1) == "+" and key_at(tokens, place + 2) == ")":
            depth -= 1
            place += 3  # the old syntax of an outer join
            continue
        if token.kind is SqlTokenKind.VARIABLE:
            token = _BIND
        if token.key == "@":
            parts, place = dotted_name(tokens, place + 1)
            if not parts or key_at(tokens, place) in ("(", "@"):
                raise UnreadableSql("the effect of a call over a database link is unknown")
            continue
        if verb == "MERGE" and depth == 0 and token.key in ("WHERE", "DELETE") and key_at(tokens, place - 1) != "THEN":
            while place < len(tokens) and (depth > 0 or key_at(tokens, place) not in ("WHEN", "LOG", "RETURNING")):
                if key_at(tokens, place) == "SELECT":
                    raise UnreadableSql("a query in the condition of a MERGE branch is not understood")
                depth += (key_at(tokens, place) == "(") - (key_at(tokens, place) == ")")
                place += 1
            continue
        kept_tokens.append(token)
        place += 1
    return kept_tokens


def _check_bare_names(draft: Draft, facts: TreeFacts, judging: Judging) -> None:
    tables = {name.name for name in facts.objects if name.kind is ObjectKind.TABLE}
    schemas = {name.schema for name in facts.objects if name.kind is ObjectKind.TABLE and name.schema}
    for qualifier, name in facts.columns:
        if name.upper() in words.BARE_NAMES | {"NEXTVAL", "CURRVAL", "*"}:
            continue
        if qualifier and qualifier.upper() not in facts.sources | schemas:
            effects = words.FUNCTIONS.packages.get(qualifier.upper())
            if effects:
                draft.effects |= effects
            draft.unknown(f"{qualifier}.{name} is not a column of what it reads, and can be a function")
        elif not qualifier and tables <= {"DUAL"} and draft.tag == "SELECT" and not facts.derived:
            draft.unknown(f"{name} is not a column of what it reads, and can be a function")


def _explain(tokens: list[SqlToken], judging: Judging) -> Statement:
    """Judge EXPLAIN PLAN, which stores a plan in a table and does not run the statement."""
    place = next((at for at, token in enumerate(tokens) if token.key == "FOR"), len(tokens))
    draft = Draft("EXPLAIN PLAN", {Effect.READ, Effect.WRITE})
    inner = tokens[place + 1 :]
    if verb_of(inner) in _QUERIES:
        draft.objects |= _query(inner, verb_of(inner), judging).objects
    return draft.finish()


def _definition(draft: Draft, tokens: list[SqlToken], judging: Judging) -> None:
    kind = add_defined_object(judging, draft, tokens)
    if len(draft.tag.split()) == 1 and kind.isalpha():
        draft.tag = f"{tokens[0].key} {kind}"
    listed = [token.key for token in tokens]
    if draft.tag == "ALTER SESSION" and ({"EVENTS", "CONTAINER"} & set(listed)):
        draft.add(Effect.ADMIN)
    if "LINK" in listed[1:5] and "DATABASE" in listed[1:4]:
        draft.objects = set()
        draft.add(Effect.ADMIN)
    if kind == "INDEX" or "INDEX" in listed[1:4]:
        place = next((at for at, key in enumerate(listed) if key == "ON"), len(tokens)) + 1
        judging.add_names(draft, tokens, place)
    if tokens[0].key != "CREATE" or kind not in ("TABLE", "VIEW", "MATERIALIZED"):
        return
    place = _query_after_as(listed)
    if not place:
        return
    inner = tokens[place + 1 :]
    if verb_of(inner) != "SELECT":
        draft.unknown("the query that it is created from is not understood")
        return
    query = _query(inner, "SELECT", judging)
    draft.objects |= query.objects
    runs = kind == "TABLE" or "MATERIALIZED" in listed[:6]
    draft.effects |= query.effects | {Effect.WRITE} if runs else query.effects - {Effect.READ}
    draft.scans |= query.scans if runs else set()
    draft.reason = query.reason


def _query_after_as(listed: Sequence[str]) -> int:
    for place in range(2, len(listed) - 1):
        if listed[place] == "AS" and listed[place + 1] in ("SELECT", "WITH", "("):
            return place
    return 0
