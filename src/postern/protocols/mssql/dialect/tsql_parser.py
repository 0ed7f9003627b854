"""T-SQL (SQL Server, Azure SQL): the effect of each statement of a text."""

from __future__ import annotations

from collections.abc import Sequence

from postern.domain.rules.statement import Effect, ObjectKind, ObjectName, Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.protocols.mssql.dialect import tsql_words as words
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
    symbol,
    word,
)
from postern.protocols.mssql.dialect.tsql_batches import batches, statements


class TSqlParser(Shared):
    """Implementation of the port `Parser`."""

    dialect = "tsql"
    shapes = None

    def __init__(self) -> None:
        self._cache: TextCache[tuple[Statement, ...]] = TextCache()

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        return self._cache.of(text, schema, _parse)


def _parse(text: str, schema: TargetSchema | None) -> tuple[Statement, ...]:
    judging = Judging(words.GRAMMAR, words.FUNCTIONS, schema)
    try:
        parsed: list[Statement] = []
        for batch in batches(text):
            parsed += _judge_batch(batch, judging)
        return tuple(parsed)
    except UnreadableSql as error:
        return (unknown(str(error)),)
    except (RecursionError, MemoryError):
        return (unknown("it is nested too deeply"),)


def _judge_batch(batch: list[SqlToken], judging: Judging) -> list[Statement]:
    parsed: list[Statement] = []
    for place, tokens in enumerate(pieces := statements(batch)):
        if _creates_code(tokens):
            rest = [token for each in pieces[place:] for token in each]
            draft = Draft(tokens[0].key, {Effect.DDL})
            draft.tag = f"{tokens[0].key} {add_defined_object(judging, draft, rest)}"
            judging.add_mentioned_names(draft, rest)
            return [*parsed, draft.finish()]  # its body is the rest of the batch
        parsed.append(_judge(tokens, judging))
    return parsed


_CODE = frozenset({"PROCEDURE", "PROC", "FUNCTION", "TRIGGER"})


def _creates_code(tokens: Sequence[SqlToken]) -> bool:
    if key_at(tokens, 0) not in ("CREATE", "ALTER"):
        return False
    return key_at(tokens, 1) in _CODE or (key_at(tokens, 1) == "OR" and key_at(tokens, 3) in _CODE)


_QUERIES = ("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE")


def _judge(tokens: list[SqlToken], judging: Judging) -> Statement:
    verb = verb_of(tokens)
    entry = by_first_words(tokens, words.STATEMENTS)
    if verb in _QUERIES and (entry is None or len(entry[0]) == 1):
        return _query(tokens, verb, judging)
    if verb in ("EXEC", "EXECUTE") and entry is None:
        return _exec(tokens[1:], judging)
    if entry is None:
        if tokens[0].is_name and key_at(tokens, 0) not in ("WITH", "RECEIVE"):
            return _exec(tokens, judging)  # at the start of a batch, a procedure needs no EXEC
        return unknown("its first words are not those of a known statement", key_at(tokens, 0))
    first, effects = entry
    draft = Draft(" ".join(first), set(effects))
    if first[0] in ("CREATE", "ALTER", "DROP", "TRUNCATE"):
        _definition(draft, tokens, judging)
    elif first[0] in ("GRANT", "DENY", "REVOKE"):
        place = next((at for at, token in enumerate(tokens) if token.key == "ON"), len(tokens)) + 1
        judging.add_names(draft, tokens, place)
    else:
        _plain(draft, tokens, judging)
    judging.add_mentioned_names(draft, tokens)
    return draft.finish()


def _query(tokens: list[SqlToken], verb: str, judging: Judging) -> Statement:
    draft = Draft(verb)
    plain = _without_top(tokens)
    if verb == "DELETE":
        plain = _without_output(draft, plain, judging)
    run = next((at for at, token in enumerate(plain) if token.key in ("EXEC", "EXECUTE") and at > 1), 0)
    if verb == "INSERT" and run:
        executed = _exec(plain[run + 1 :], judging)
        draft.effects |= executed.effects | {Effect.WRITE}
        draft.objects |= executed.objects
        draft.reason = executed.reason
        judging.add_names(draft, plain, 1 + (key_at(plain, 1) == "INTO"))
        return draft.finish()
    if (
        verb == "SELECT"
        and len(plain) > 1
        and any(token.kind is SqlTokenKind.VARIABLE and key_at(plain, at + 1) == "=" for at, token in enumerate(plain))
    ):
        draft.add(Effect.SESSION)
    judging.add_query(draft, plain, verb)
    return draft.finish()


def _without_top(tokens: Sequence[SqlToken]) -> list[SqlToken]:
    """Remove what sqlglot does not know: TOP (n) after UPDATE, DELETE, INSERT and MERGE, and MERGE in MERGE JOIN."""
    kept_tokens: list[SqlToken] = []
    place = 0
    while place < len(tokens):
        if (
            tokens[place].key == "TOP"
            and key_at(tokens, place - 1) in ("UPDATE", "DELETE", "INSERT", "MERGE")
            and key_at(tokens, place + 1) == "("
        ):
            inside, place = place + 1, closing(tokens, place + 1) + 1
            if any(token.key in ("(", "SELECT") for token in tokens[inside + 1 : place]):
                raise UnreadableSql("the number of rows in its TOP is unknown")
            place += key_at(tokens, place) == "PERCENT"
            continue
        if tokens[place].key in _ASSIGNMENTS:
            kept_tokens.append(symbol("="))
        elif tokens[place].key != "MERGE" or key_at(tokens, place + 1) != "JOIN":
            kept_tokens.append(tokens[place])
        place += 1
    return kept_tokens


_ASSIGNMENTS = frozenset({"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="})


def _without_output(draft: Draft, tokens: list[SqlToken], judging: Judging) -> list[SqlToken]:
    """Remove the OUTPUT of a DELETE, which sqlglot does not know; its facts are added to the draft."""
    start = next((at for at, token in enumerate(tokens) if token.key == "OUTPUT"), 0)
    if start == 0:
        return tokens
    end = start
    while end < len(tokens) and key_at(tokens, end) not in ("WHERE", "FROM", "OPTION"):
        if tokens[end].key == "SELECT":
            raise UnreadableSql("a query in an OUTPUT clause is not understood")
        if tokens[end].key == "INTO":
            judging.add_names(draft, tokens, end + 1)
        end += 1
    draft.add(Effect.READ)
    judging.add_calls(draft, tokens[start:end])
    return tokens[:start] + tokens[end:]


def _exec(tokens: list[SqlToken], judging: Judging) -> Statement:
    """Judge the tokens after EXEC."""
    draft = Draft("EXECUTE")
    place = 2 if tokens and tokens[0].kind is SqlTokenKind.VARIABLE and key_at(tokens, 1) == "=" else 0
    parts, end = dotted_name(tokens, place)
    if not parts:
        draft.unknown("it runs code that is not in its text")
        return draft.finish()
    name = parts[-1].lower()
    draft.objects.add(ObjectName(ObjectKind.FUNCTION, name, parts[-2].lower() if len(parts) > 1 else ""))
    judging.add_calls(draft, [word("EXEC"), *tokens[end:]])
    judging.add_names_in_strings(draft, tokens[end:])
    is_own_schema = len(parts) == 1 or parts[-2].lower() in ("", "sys", "dbo", "msdb", "master")
    if is_own_schema and len(parts) <= 3 and name in words.PROCEDURES:
        draft.effects |= words.PROCEDURES[name]
    else:
        draft.unknown(f"it runs the procedure {'.'.join(parts)}, whose effect is unknown")
    return draft.finish()


def _definition(draft: Draft, tokens: list[SqlToken], judging: Judging) -> None:
    kind = add_defined_object(judging, draft, tokens)
    if len(draft.tag.split()) == 1 and kind.isalpha():
        draft.tag = f"{tokens[0].key} {kind}"
    if kind == "INDEX" or (kind != "TABLE" and key_at(tokens, 2) == "INDEX"):
        place = next((at for at, token in enumerate(tokens) if token.key == "ON"), len(tokens)) + 1
        judging.add_names(draft, tokens, place)
    place = next(
        (at for at, token in enumerate(tokens) if token.key in ("SELECT", "WITH") and key_at(tokens, at - 1) == "AS"), 0
    )
    if kind == "VIEW" and place:
        query = _query(tokens[place:], verb_of(tokens[place:]), judging)
        draft.objects |= query.objects
        draft.effects |= query.effects - {Effect.READ}
        draft.reason = query.reason
    elif place:
        draft.unknown("the query that it is created from is not understood")


def _plain(draft: Draft, tokens: list[SqlToken], judging: Judging) -> None:
    first = tokens[0].key
    judging.add_calls(draft, tokens)
    place = next((at for at, token in enumerate(tokens) if token.key == "SELECT"), 0)
    if first in ("IF", "WHILE"):
        _condition(draft, tokens[1:], judging)
    elif first == "ELSE" and len(tokens) > 1:
        draft.unknown("the statement after ELSE is not understood")
    elif first in ("BEGIN", "END") and len(tokens) > 1:
        _body(draft, tokens, judging)
    elif first == "DECLARE" and key_at(tokens, place - 1) == "FOR":
        judging.add_query(draft, tokens[place:], "SELECT")
    elif first == "WAITFOR" and key_at(tokens, 1) not in ("DELAY", "TIME"):
        draft.unknown("it waits for something unknown")
    elif first == "BULK" or first == "INSERT":
        judging.add_names(draft, tokens, 2)
        draft.tag = "BULK INSERT"
    elif first == "USE" and len(tokens) == 2:
        draft.objects.add(ObjectName(ObjectKind.SCHEMA, tokens[1].text.lower()))
    elif first == "RAISERROR" and "LOG" in {token.key for token in tokens}:
        draft.add(Effect.ADMIN)
    elif first == "UPDATE":
        judging.add_names(draft, tokens, 2)
    elif place:
        inside = closing(tokens, place - 1) if key_at(tokens, place - 1) == "(" else place
        judging.add_query(draft, tokens[place:inside], "SELECT") if inside > place else draft.unknown(
            "it is not understood"
        )


def _condition(draft: Draft, tokens: list[SqlToken], judging: Judging) -> None:
    """Judge the condition of IF or WHILE like that of a query."""
    if not tokens:
        draft.unknown("it has no condition")
        return
    facts = judging.add_query(
        draft, [word("SELECT"), SqlToken(SqlTokenKind.NUMBER, "1"), word("WHERE"), *tokens], "SELECT"
    )
    if facts is not None and not facts.objects:
        draft.effects.discard(Effect.READ)


_OF_BLOCKS = frozenset({"TRY", "CATCH", "TRAN", "TRANSACTION"})


def _body(draft: Draft, tokens: list[SqlToken], judging: Judging) -> None:
    """Judge tokens after BEGIN or END that do not start a statement, such as the name of a procedure."""
    rest = tokens[2:] if key_at(tokens, 1) in _OF_BLOCKS else tokens[1:]
    if not rest or key_at(tokens, 1) in ("TRAN", "TRANSACTION", "DISTRIBUTED") or rest[0].key == "THROW":
        return
    draft.unknown("the text after it is not understood")
