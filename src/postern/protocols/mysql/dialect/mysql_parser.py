"""The parser of MySQL's and MariaDB's statements: the effects of each statement of a text.

It analyses every reading that some server may have (see `mysql_readings`), and the result has the effects of all of
them. In a reading under an unusual `sql_mode`, a last statement that cannot be parsed to its end is left out, because a
server in that mode rejects it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from postern.domain.rules.statement import Effect, ObjectKind, ObjectName, Statement
from postern.domain.targets.target_schema import Key, TargetSchema
from postern.inspection.sql.judging import Draft, Judging, add_defined_object, by_first_words, verb_of
from postern.inspection.sql.shared import Shared
from postern.inspection.sql.sql_cache import TextCache
from postern.inspection.sql.sql_parser import unknown
from postern.inspection.sql.sql_tokens import (
    SqlToken,
    SqlTokenKind,
    UnreadableSql,
    closing,
    dotted_name,
    key_at,
    statements_of,
    word,
    words_of,
)
from postern.protocols.mysql.dialect import mysql_words as words
from postern.protocols.mysql.dialect.mysql_readings import StatementReading, readings
from postern.protocols.mysql.dialect.mysql_shapes import MYSQL_SHAPES
from postern.protocols.mysql.dialect.mysql_texts import connection_charset
from postern.protocols.mysql.dialect.mysql_views import VIEWS


class MySqlParser(Shared):
    """The port `Parser`, for MySQL 5.5 and later and MariaDB 10 and later."""

    dialect = "mysql"
    shapes = MYSQL_SHAPES

    def __init__(self) -> None:
        self._cache: TextCache[tuple[Statement, ...]] = TextCache()

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        return self._cache.of(text, schema, judge_text)


def judge_text(
    text: str,
    schema: TargetSchema | None,
    judge_statement: Callable[[list[SqlToken], Judging], Statement] | None = None,
    within: tuple[Key, ...] = (),
) -> tuple[Statement, ...]:
    """Analyse a text by every reading. `judge_statement` analyses each statement in order, instead of `judge`."""
    judging = Judging(words.GRAMMAR, words.FUNCTIONS, schema, within)
    try:
        statements: list[Statement] = []
        for reading in readings(text):
            read_statements = _judge_reading(reading, judging, judge_statement or judge)
            earlier_statements = set(statements)
            statements += (
                [each for each in read_statements if each not in earlier_statements] if statements else read_statements
            )
        return tuple(statements)
    except UnreadableSql as error:
        return (unknown(str(error)),)
    except (RecursionError, MemoryError):
        return (unknown("it is nested too deeply"),)


def whole_statements(reading: StatementReading) -> list[list[SqlToken]]:
    """Return the statements without a last one that cannot be parsed to its end."""
    statements = statements_of(reading.tokens)
    if reading.broken and statements and reading.tokens[-1].key != ";":
        statements.pop()
    return statements


def _judge_reading(
    reading: StatementReading, judging: Judging, judge_statement: Callable[[list[SqlToken], Judging], Statement]
) -> list[Statement]:
    statements = whole_statements(reading)
    found_statements = []
    for place, tokens in enumerate(statements):
        if creates_block(tokens):
            rest = [token for each in statements[place:] for token in each]
            found_statements.append(_code(rest, judging, len(statements) - place > 1))
            return found_statements
        found_statements.append(judge_statement(tokens, judging))
    if reading.broken and reading.usual:
        found_statements.append(unknown(reading.broken))
    return found_statements


def judge(tokens: list[SqlToken], judging: Judging) -> Statement:
    verb = verb_of(tokens)
    if verb in ("EXPLAIN", "DESCRIBE", "DESC"):
        return _explain(tokens, judging)
    if verb == "ANALYZE" and not by_first_words(tokens, words.STATEMENTS):
        return _explain([tokens[0], word("ANALYZE"), *tokens[1:]], judging)
    if verb in QUERIES:
        return _query(tokens, verb, judging)
    if verb == "SET" and not by_first_words(tokens, words.STATEMENTS):
        return _set(tokens, judging)
    entry = by_first_words(tokens, words.STATEMENTS)
    if entry is None:
        return unknown("its first words are not those of a known statement", key_at(tokens, 0))
    first, effects = entry
    draft = Draft(" ".join(first), set(effects))
    if Effect.UNKNOWN in effects:
        draft.reason = f"{first[0]} runs code that is not in its text"
    elif first[0] in ("CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME"):
        _definition(draft, tokens, judging)
    else:
        _plain(draft, tokens, judging)
    judging.add_mentioned_names(draft, tokens)
    if first[0] in _READING or {token.key for token in tokens} & words.CREATES_CODE:
        _follow_known_views(draft, judging)
    return draft.finish()


# Statements without a tree that read or write the relations they name, or store code that does.
_READING = frozenset({"LOAD", "LOCK", "HANDLER", "CHECKSUM"})


def _follow_known_views(draft: Draft, judging: Judging) -> None:
    """Add the effects of views among the names. Some names may be columns or aliases; a name that is not a relation has
    no effect."""
    if judging.schema is not None and judging.schema.relations:
        resolver = VIEWS.resolver(judging.schema)
        _follow_views(draft, [name for name in draft.objects if resolver.find_relations(name)], judging)


QUERIES = ("SELECT", "INSERT", "REPLACE", "UPDATE", "DELETE", "VALUES", "TABLE", "WITH")


def _query(tokens: list[SqlToken], verb: str, judging: Judging) -> Statement:
    draft = Draft(verb)
    plain = _without_into(draft, without_extras(tokens, verb))
    if any(token.key == ":=" for token in plain):
        draft.add(Effect.SESSION)
    if verb == "WITH":
        draft.unknown("the statement after its WITH is not understood")
        return draft.finish()
    _judge_query(draft, plain, "INSERT" if verb == "REPLACE" else verb, judging)
    return draft.finish()


def _judge_query(draft: Draft, tokens: list[SqlToken], verb: str, judging: Judging) -> None:
    """Add the effects of the query and of the views in it."""
    facts = judging.add_query(draft, tokens, verb)
    if facts is not None:
        _follow_views(draft, facts.read, judging)


def _follow_views(draft: Draft, read: Iterable[ObjectName], judging: Judging) -> None:
    VIEWS.follow(draft, read, judging.schema, judging.within, _judge_definition)


def _judge_definition(definition: str, schema: TargetSchema, within: tuple[Key, ...]) -> tuple[Statement, ...]:
    return judge_text(definition, schema, within=within)


def without_extras(tokens: Sequence[SqlToken], verb: str) -> list[SqlToken]:
    """Return REPLACE as INSERT, VALUES ROW(1) as VALUES (1), without words such as LOW_PRIORITY, which have no meaning
    here and which sqlglot reads as names."""
    sql_tokens: list[SqlToken] = []
    for place, token in enumerate(tokens):
        before = key_at(tokens, place - 1)
        if token.key == "FOR" and before == "VALUE" and key_at(tokens, place - 2) in ("NEXT", "PREVIOUS"):
            sql_tokens[-2:] = [word("NEXTVAL"), _BRACKET, *tokens[place + 1 : place + 2], _CLOSE]  # MariaDB's sequences
            continue
        if before == "FOR" and sql_tokens and sql_tokens[-1] is _CLOSE:
            continue
        if token.key in words.MODIFIERS and (
            before in ("INSERT", "UPDATE", "DELETE", "REPLACE") or before in words.MODIFIERS
        ):
            continue
        if token.key == "REPLACE" and verb == "REPLACE" and key_at(tokens, place + 1) != "(":
            token = word("INSERT")
            if key_at(tokens, place + 1) != "INTO" and key_at(tokens, place + 1) not in words.MODIFIERS:
                sql_tokens.append(token)
                token = word("INTO")
        if token.key == "ROW" and before in ("VALUES", ",") and key_at(tokens, place + 1) == "(":
            continue
        sql_tokens.append(token)
    if verb == "VALUES" and key_at(sql_tokens, 0) == "VALUES":
        sql_tokens = [
            word("SELECT"),
            SqlToken(SqlTokenKind.SYMBOL, "*", "*"),
            word("FROM"),
            _BRACKET,
            *sql_tokens,
            _CLOSE,
            word("v"),
        ]
    return sql_tokens


_BRACKET, _CLOSE = SqlToken(SqlTokenKind.SYMBOL, "(", "("), SqlToken(SqlTokenKind.SYMBOL, ")", ")")
_FILE_OPTIONS = words_of(
    """
    FIELDS COLUMNS LINES TERMINATED OPTIONALLY ENCLOSED ESCAPED STARTING BY CHARACTER CHARSET SET
    """
)


def _without_into(draft: Draft, tokens: list[SqlToken]) -> list[SqlToken]:
    plain, into = without_into(tokens)
    if into:
        draft.add(Effect.SESSION if into[0].kind is SqlTokenKind.VARIABLE else Effect.ADMIN)
    return plain


def without_into(tokens: list[SqlToken]) -> tuple[list[SqlToken], list[SqlToken]]:
    """Return the tokens without INTO OUTFILE and INTO @variable, and those tokens separately, without the INTO."""
    for place, token in enumerate(tokens):
        after = place + 1
        if token.key != "INTO" or after >= len(tokens):
            continue
        if tokens[after].key in ("OUTFILE", "DUMPFILE"):
            after += 2
            while after < len(tokens) and (tokens[after].key in _FILE_OPTIONS or _is_option_value(tokens, after)):
                after += 1
        elif tokens[after].kind is SqlTokenKind.VARIABLE:
            after += 1
            while (
                key_at(tokens, after) == ","
                and after + 1 < len(tokens)
                and tokens[after + 1].kind is SqlTokenKind.VARIABLE
            ):
                after += 2
        else:
            continue
        return tokens[:place] + tokens[after:], tokens[place + 1 : after]
    return tokens, []


def _is_option_value(tokens: Sequence[SqlToken], place: int) -> bool:
    return tokens[place].kind is SqlTokenKind.STRING or key_at(tokens, place - 1) in ("SET", "CHARSET")


def _explain(tokens: list[SqlToken], judging: Judging) -> Statement:
    """Analyse EXPLAIN, which plans, or EXPLAIN ANALYZE (ANALYZE in MariaDB), which runs the statement."""
    place, runs = 1, False
    while key_at(tokens, place) in ("ANALYZE", "EXTENDED", "PARTITIONS", "FORMAT", "FORCE"):
        if tokens[place].key == "FORMAT" and key_at(tokens, place + 1) == "=":
            place += 2
        runs = runs or key_at(tokens, place) == "ANALYZE"
        place += 1
    inner = tokens[place:]
    verb = verb_of(inner)
    draft = Draft("EXPLAIN", {Effect.READ})
    if verb not in QUERIES:
        if runs or (key_at(inner, 0) in ("CREATE", "DROP", "ALTER") and len(inner) > 1 and inner[1].is_name):
            draft.unknown("the statement that it explains is not understood")
        elif key_at(inner, 0) != "FOR":
            judging.add_names(draft, inner, 0)
        return draft.finish()
    statement = _query(inner, verb, judging)
    draft.objects |= statement.objects
    draft.reason = statement.reason
    draft.untraced = statement.untraced
    draft.effects |= statement.effects if runs else statement.effects & {Effect.UNKNOWN, Effect.ADMIN}
    draft.without_where = statement.without_where and runs
    draft.scans |= statement.scans if runs else set()
    return draft.finish()


def _definition(draft: Draft, tokens: list[SqlToken], judging: Judging) -> None:
    kind = add_defined_object(judging, draft, tokens)
    if draft.tag == tokens[0].key and kind in ("DATABASE", "SCHEMA", "TABLE", "VIEW", "SEQUENCE", *words.CREATES_CODE):
        draft.tag = f"{tokens[0].key} {kind}"
    listed = {token.key for token in tokens}
    if tokens[0].key == "TRUNCATE" and kind != "TABLE":
        judging.add_names(draft, tokens, 1)
    elif tokens[0].key == "DROP" and "FUNCTION" in listed and len(tokens) < 8:
        return
    if kind == "TABLE" and any((a.key, b.key) == ("TRUNCATE", "PARTITION") for a, b in pairwise(tokens)):
        draft.add(Effect.WRITE)
    if tokens[0].key in ("CREATE", "ALTER") and kind == "TABLE" and _reaches_out(tokens):
        draft.add(Effect.ADMIN)
    if "SONAME" in listed:
        draft.add(Effect.ADMIN)
        draft.unknown("it loads a library into the server")
    if Effect.GRANT in draft.effects or listed & words.CREATES_CODE:
        return
    if tokens[0].key == "CREATE":
        _created_from_query(draft, tokens, judging, kind)
    elif tokens[0].key == "RENAME":
        for place, token in enumerate(tokens):
            if token.key in (",", "TO"):
                judging.add_names(draft, tokens, place + 1)


def _reaches_out(tokens: Sequence[SqlToken]) -> bool:
    """Return True if the table is stored in named files, or on another server."""
    for place, token in enumerate(tokens):
        before = key_at(tokens, place - 1)
        before = key_at(tokens, place - 2) if before == "=" else before
        if before == "ENGINE" and token.text.upper() in words.REACHING_ENGINES:
            return True
        if token.key == "DIRECTORY" and before in ("DATA", "INDEX"):
            return True
        if before == "CONNECTION" and token.kind is SqlTokenKind.STRING:
            return True
    return False


def _created_from_query(draft: Draft, tokens: list[SqlToken], judging: Judging, kind: str) -> None:
    """Add the query of CREATE TABLE ... SELECT, which runs, or of CREATE VIEW, which is stored."""
    if kind == "TABLE" and (place := next((at for at, token in enumerate(tokens) if token.key == "LIKE"), 0)):
        judging.add_names(draft, tokens, place + 1)
    start = next((at for at, token in enumerate(tokens) if token.key in ("SELECT", "WITH", "VALUES", "TABLE") and at > 2
                  and (token.key == "SELECT" or key_at(tokens, at - 1) in ("AS", ")"))), 0)  # fmt: skip
    if start == 0 or (key_at(tokens, start - 1) == "(" and kind not in ("TABLE", "VIEW")):
        return
    if key_at(tokens, start) == "VALUES" and key_at(tokens, start + 1) in ("LESS", "IN"):
        return
    while key_at(tokens, start - 1) == "(":
        start -= 1
    end = closing(tokens, start) + 1 if key_at(tokens, start) == "(" else len(tokens)
    while (
        end > start and kind == "VIEW" and key_at(tokens, end - 1) in ("OPTION", "CHECK", "CASCADED", "LOCAL", "WITH")
    ):
        end -= 1
    inner = tokens[start:end]
    verb = verb_of(inner)
    if verb not in ("SELECT", "VALUES", "TABLE"):
        draft.unknown("the query that it is created from is not understood")
        return
    statement = _query(inner, verb, judging)
    draft.objects |= statement.objects
    draft.effects |= statement.effects | {Effect.WRITE} if kind == "TABLE" else statement.effects - {Effect.READ}
    draft.scans |= statement.scans if kind == "TABLE" else set()
    draft.reason = statement.reason
    draft.untraced = statement.untraced


def creates_block(tokens: Sequence[SqlToken]) -> bool:
    if key_at(tokens, 0) not in ("CREATE", "ALTER"):
        return False
    listed = {token.key for token in tokens}
    return bool(listed & words.CREATES_CODE) and "BEGIN" in listed


def _code(tokens: list[SqlToken], judging: Judging, goes_on: bool) -> Statement:
    """Analyse CREATE PROCEDURE and its like with a block. The end of the block is unknown, so what follows its first
    semicolon may run at once."""
    draft = Draft(tokens[0].key, {Effect.DDL})
    draft.tag = f"{tokens[0].key} {add_defined_object(judging, draft, tokens)}"
    judging.add_mentioned_names(draft, tokens)
    _follow_known_views(draft, judging)
    ends = key_at(tokens, len(tokens) - 1) == "END" and sum(token.key in ("BEGIN", "END") for token in tokens) == 2
    if goes_on and not ends:
        draft.unknown("it contains code whose end cannot be determined")
    return draft.finish()


def _set(tokens: list[SqlToken], judging: Judging) -> Statement:
    draft = Draft("SET", {Effect.SESSION})
    judging.add_calls(draft, tokens)
    judged = 0  # end of the last query
    for place, token in enumerate(tokens):
        name = token.text.lower()
        assigned = ""
        if key_at(tokens, place + 1) in ("=", ":=") and not (name.startswith("@") and not name.startswith("@@")):
            assigned = name.rpartition(".")[2].lstrip("@")
        charset = connection_charset(tokens, place)
        if (token.key in ("GLOBAL", "PERSIST", "PERSIST_ONLY") and key_at(tokens, place - 1) in ("SET", ",")) or (
            token.kind is SqlTokenKind.VARIABLE
            and name.startswith(("@@global", "@@persist"))
            and key_at(tokens, place - 1) in ("SET", ",")
        ):
            draft.add(Effect.ADMIN)
        elif charset and charset not in words.READ_CHARSETS:
            draft.unknown("it can set a character set in which prepared statements are misread")
        elif token.key == "STATEMENT" and place == 1:
            draft.unknown("it runs a statement with different settings")
        elif token.key == "SELECT" and place >= judged:
            draft.add(Effect.READ)
            judged = _query_in_set(draft, tokens, place, judging)
        elif assigned == "sql_mode":
            _sql_mode(draft, tokens, place + 1)
        elif (
            token.key in ("NAMES", "CHARSET")
            or assigned == "character_set_client"
            or (token.key == "SET" and key_at(tokens, place - 1) == "CHARACTER")
        ):
            _charset(draft, tokens, place + 1)
    return draft.finish()


def _query_in_set(draft: Draft, tokens: list[SqlToken], place: int, judging: Judging) -> int:
    """Analyse a query in SET. Return where it ends."""
    if key_at(tokens, place - 1) != "(":
        draft.unknown("its query is not understood")
        return len(tokens)
    end = closing(tokens, place - 1)
    _judge_query(draft, tokens[place:end], "SELECT", judging)
    return end


def _sql_mode(draft: Draft, tokens: Sequence[SqlToken], place: int) -> None:
    """Handle sql_mode: a mode can change how the rest is read, and an unknown one may be any."""
    place += key_at(tokens, place) in ("=", ":=")
    value = tokens[place] if place < len(tokens) else None
    ends = key_at(tokens, place + 1) in ("", ",")
    if value is None or not ends or value.key == "DEFAULT":
        if value is None or value.key != "DEFAULT":
            draft.unknown("it sets sql_mode to a value that cannot be determined")
        return
    modes = {mode.strip().upper() for mode in value.text.split(",")} - {""}
    if (value.kind is not SqlTokenKind.STRING and value.kind is not SqlTokenKind.WORD) or modes - words.CALM_MODES:
        draft.unknown("it sets a sql_mode that can change how statements are read")


def _charset(draft: Draft, tokens: Sequence[SqlToken], place: int) -> None:
    place += key_at(tokens, place) in ("=", ":=")
    value = tokens[place].text.upper() if place < len(tokens) else ""
    if value not in words.CALM_CHARSETS:
        draft.unknown("it can set a character set in which later statements are misread")


def _plain(draft: Draft, tokens: list[SqlToken], judging: Judging) -> None:
    """Analyse a statement by its first words: its functions, its files, its names."""
    first = tokens[0].key
    judging.add_calls(draft, tokens)
    if first == "LOAD" and Effect.WRITE in draft.effects:
        if "LOCAL" not in {token.key for token in tokens[:5]}:
            draft.add(Effect.ADMIN)
        place = next((at for at, token in enumerate(tokens) if token.key == "TABLE"), len(tokens))
        judging.add_names(draft, tokens, place + 1)
    elif first == "USE" and len(tokens) == 2:
        draft.objects.add(ObjectName(ObjectKind.SCHEMA, tokens[1].text.lower()))
    elif first == "HANDLER":
        judging.add_names(draft, tokens, 1)
    elif first == "DO" and any(token.key == "SELECT" for token in tokens):
        _judge_query(draft, [word("SELECT"), *tokens[1:]], "SELECT", judging)
    elif first in ("LOCK", "OPTIMIZE", "REPAIR", "CHECK", "CHECKSUM", "ANALYZE") and len(tokens) > 2:
        judging.add_names(draft, tokens, 2)
    elif first in ("GRANT", "REVOKE"):
        _judge_grant(draft, tokens, judging)


def _judge_grant(draft: Draft, tokens: list[SqlToken], judging: Judging) -> None:
    place = next((at for at, token in enumerate(tokens) if token.key == "ON"), len(tokens)) + 1
    place += key_at(tokens, place) in ("TABLE", "FUNCTION", "PROCEDURE")
    draft.effects &= {Effect.GRANT}
    draft.reason = ""
    if dotted_name(tokens, place)[0]:
        judging.add_names(draft, tokens, place)
