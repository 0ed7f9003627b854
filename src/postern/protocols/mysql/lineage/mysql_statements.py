"""Lineage of whole statements, from their tokens: their result columns, and their effect on the meaning of names and
variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from postern.domain.rules.statement import Effect, ObjectKind
from postern.inspection.lineage.lineage_resolver import LineageResolver
from postern.inspection.lineage.relations import Query
from postern.inspection.lineage.scope import (
    NOTHING,
    UNKNOWN,
    Out,
    Scope,
    Sources,
    Variables,
    WorkBudget,
    merge_sources,
    union,
)
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.inspection.sql.judging import Draft, Judging, add_defined_object, by_first_words, verb_of
from postern.inspection.sql.sql_calls import called_at
from postern.inspection.sql.sql_tokens import (
    SqlToken,
    SqlTokenKind,
    UnreadableSql,
    dotted_name,
    key_at,
    keys,
    split_at_commas,
    word,
    words_of,
)
from postern.protocols.mysql.dialect import mysql_words as words
from postern.protocols.mysql.dialect.mysql_parser import QUERIES, creates_block, judge, whole_statements, without_into
from postern.protocols.mysql.dialect.mysql_readings import StatementReading
from postern.protocols.mysql.dialect.mysql_texts import (
    Texts,
    is_user_variable,
    may_respell,
    texts_of,
    variable_name,
)
from postern.protocols.mysql.lineage import mysql_builtins as builtins
from postern.protocols.mysql.lineage.mysql_lineage_catalogue import DatabaseTables, MysqlLineageCatalogue, SessionState
from postern.protocols.mysql.lineage.mysql_names import RULES
from postern.protocols.mysql.lineage.mysql_queries import MysqlQueries
from postern.protocols.mysql.lineage.mysql_spelling import SpelledQuery, spell_query

_ROUNDS: Final = 8  # repetitions of a statement's analysis for its assignments
_MADE: Final = frozenset({ObjectKind.TABLE, ObjectKind.FUNCTION})
_CHANGES: Final = frozenset({"INSERT", "REPLACE", "UPDATE", "DELETE"})


@dataclass(frozen=True, slots=True)
class MysqlRead:
    """The analysis of one statement. `outs` are the columns of its result, None without a result.

    `opens` is what HANDLER opens under a name, `handler` the one whose rows it returns. `prepares` is a name and what
    is prepared under it; `executes` is the name, or the texts themselves, that it `runs` with variables made of
    `bind_sources`.

    After it: `names` and `everything` are in doubt as in `SessionState`; `uses` is the new default database; `puts` are
    sources added to variables, `texts` their possible texts; `lost` and not `settings` are as in `SessionState`. It
    `fails` if a name does not exist, as far as the snapshot shows.
    """

    outs: tuple[Out, ...] | None = None
    opens: tuple[str, tuple[Out, ...]] | None = None
    handler: str = ""
    prepares: tuple[str, Texts] | None = None
    executes: str | Texts = None
    runs: bool = False
    bind_sources: Sources = NOTHING
    names: frozenset[str] = frozenset()
    everything: bool = False
    uses: str = ""
    puts: frozenset[tuple[str, Sources]] = frozenset()
    texts: tuple[tuple[str, Texts], ...] = ()
    lost: bool = False
    settings: bool = True
    fails: bool = False


LOST: Final = MysqlRead((UNKNOWN,), everything=True, lost=True, settings=False)


class MysqlStatements:
    """Analyses one reading of a text. `database` is the default database, `bind_sources` are the sources of its bind
    variables; `work` is a budget shared by everything for one text."""

    def __init__(
        self,
        catalogue: MysqlLineageCatalogue,
        state: SessionState,
        database: str,
        bind_sources: Sources = NOTHING,
        work: WorkBudget | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._state = state
        self._database = database
        self._bind_sources = bind_sources
        self._work = work or WorkBudget()
        self._judging = Judging(words.GRAMMAR, words.FUNCTIONS, catalogue.schema)

    def read(self, reading: StatementReading) -> list[MysqlRead]:
        statements = whole_statements(reading)
        reads: list[MysqlRead] = []
        for place, tokens in enumerate(statements):
            if creates_block(tokens):
                return [*reads, self._block(tokens, goes_on=len(statements) - place > 1, rest=statements[-1])]
            reads.append(self._statement(tokens))
        if reading.broken and reading.usual:
            reads.append(LOST)
        return reads

    def definition(self, tokens: Sequence[SqlToken]) -> list[Out]:
        """Return the columns of a view."""
        return list(self._query(list(tokens), verb_of(tokens)).outs or [UNKNOWN])

    def expression(self, tokens: Sequence[SqlToken], outs: Sequence[Out]) -> list[Out]:
        """Return the sources of an expression over the columns of one table."""
        query = self._spell_query([word("SELECT"), *tokens], "SELECT")
        targets = MysqlQueries(self._state, self._work, query).targets(query.tree.expressions)
        tables = DatabaseTables(self._catalogue, self._state, self._database)
        variables = Variables(self._state.variables, lost=self._state.lost)
        return LineageResolver(RULES, tables, self._work, variables).targets(targets, Scope(outs=list(outs)))

    def _statement(self, tokens: list[SqlToken]) -> MysqlRead:
        verb = verb_of(tokens)
        first = key_at(tokens, 0)
        if first in _OTHERS:
            return _OTHERS[first](self, tokens)
        if verb in QUERIES:
            return self._query(tokens, verb)
        entry = by_first_words(tokens, words.STATEMENTS)
        if entry is None or Effect.UNKNOWN in entry[1]:
            return LOST
        if first in ("CREATE", "ALTER", "DROP", "RENAME"):
            return self._definition(tokens)
        answer = _ANY if entry[1] & {Effect.ADMIN, Effect.READ} else None
        if first in ("CHECKSUM", "BACKUP", "CLONE"):
            answer = (UNKNOWN,)
        return self._analyse_without_tree(tokens, MysqlRead(answer))

    def _analyse_without_tree(self, tokens: Sequence[SqlToken], read: MysqlRead) -> MysqlRead:
        """Analyse a statement without a tree: it may put anything into each variable that it names."""
        variables = {variable_name(token) for token in tokens if is_user_variable(token)}
        lost = self._runs_code(tokens)
        return replace(
            read,
            puts=read.puts | {(name, None) for name in variables},
            texts=tuple((name, None) for name in sorted(variables)),
            lost=read.lost or lost,
            settings=read.settings and not lost,
        )

    def _runs_code(self, tokens: Sequence[SqlToken]) -> bool:
        """Return True if it runs code that cannot be analysed: a function, including those that views call."""
        for start, bracket in called_at(tokens, builtins.CALLS):
            parts = tuple(each.text for each in tokens[start:bracket] if each.key != ".")
            if parts[-1].upper() != "LAST_INSERT_ID" and not self._catalogue.pure(parts, self._state):
                if len(parts) == 1 and parts[-1].upper() in words.FUNCTIONS.effects and self._is_own(parts[-1]):
                    continue
                return True
        return self._catalogue.views_call and any(
            self._is_view(token.text) for token in tokens if token.is_name and token.key not in builtins.GRAMMAR
        )

    def _is_own(self, name: str) -> bool:
        """Return True for a built-in function: GET_LOCK, SLEEP and their like have no effect on lineage."""
        return not self._catalogue.is_made(name) and fold_identifier(name) not in self._state.names

    def _is_view(self, name: str) -> bool:
        schema = self._catalogue.schema
        return any(schema.relations[key].definition for key in self._catalogue.find_relation_keys("", name))

    def _spell_query(self, tokens: Sequence[SqlToken], verb: str) -> SpelledQuery:
        return spell_query(tokens, verb, lambda parts: self._catalogue.pure(parts, self._state))

    def _query(self, tokens: list[SqlToken], verb: str) -> MysqlRead:
        plain, into = without_into(tokens)
        targets = [variable_name(token) for token in into if is_user_variable(token)]
        answers = not into and (verb not in _CHANGES or "RETURNING" in {token.key for token in tokens})
        variables = Variables(self._state.variables, lost=self._state.lost)
        tables = DatabaseTables(self._catalogue, self._state, self._database)
        resolver = LineageResolver(RULES, tables, self._work, variables)
        try:
            spelled_query = self._spell_query(plain, verb)
            queries = MysqlQueries(self._state, self._work, spelled_query, self._bind_sources)
            query = queries.change(spelled_query.tree) if verb in _CHANGES else queries.query(spelled_query.tree)
            outs = _resolve_until_stable(query, resolver, variables, targets)
        except UnreadableSql:
            return self._analyse_without_tree(tokens, MysqlRead((UNKNOWN,) if answers else None))
        lost = self._runs_code(tokens)
        return MysqlRead(
            tuple(outs) if answers else None,
            puts=frozenset(variables.put.items()),
            texts=tuple((name, None) for name in sorted(variables.put)),
            lost=lost,
            settings=not lost,
            fails=resolver.has_unknown_names or tables.has_unknown_names,
        )

    def _definition(self, tokens: list[SqlToken]) -> MysqlRead:
        draft = Draft("")
        kind = add_defined_object(self._judging, draft, tokens)
        for place, token in enumerate(tokens):
            if place and (token.key in ("RENAME", "TO", ",") if tokens[0].key in ("RENAME", "ALTER") else False):
                after = place + 1 + (key_at(tokens, place + 1) in ("TO", "AS", "="))
                self._judging.add_names(draft, tokens, after)
        names = frozenset(fold_identifier(name.name) for name in draft.objects if name.kind in _MADE)
        everything = not names and kind not in _HARMLESS
        return self._analyse_without_tree(tokens, MysqlRead(names=names, everything=everything))

    def _block(self, tokens: list[SqlToken], *, goes_on: bool, rest: Sequence[SqlToken]) -> MysqlRead:
        """Analyse code whose end is not known: what follows may be a part of it, or a statement."""
        read = self._definition(tokens)
        ends = key_at(rest, len(rest) - 1) == "END"
        return replace(
            read, everything=read.everything or goes_on, lost=goes_on, outs=(UNKNOWN,) if goes_on and not ends else None
        )

    def _explain(self, tokens: list[SqlToken]) -> MysqlRead:
        """Analyse EXPLAIN. A plan as JSON or as a tree quotes values that it has read; as a table it names tables and
        keys."""
        if key_at(tokens, 0) == "ANALYZE" and by_first_words(tokens, words.STATEMENTS):
            return self._analyse_without_tree(tokens, MysqlRead(_ANY))
        place = 1
        answer = _PLAN
        while key_at(tokens, place) in ("ANALYZE", "EXTENDED", "PARTITIONS", "FORMAT", "FORCE"):
            if key_at(tokens, place) == "FORMAT" and key_at(tokens, place + 1) == "=":
                place += 2
                answer = _PLAN if tokens[place : place + 1] and key_at(tokens, place) == "TRADITIONAL" else (UNKNOWN,)
            place += 1
        if verb_of(tokens[place:]) not in QUERIES and key_at(tokens, place) != "FOR":
            answer = _ANY  # of a table
        return self._analyse_without_tree(tokens, MysqlRead(answer))

    def _show(self, tokens: list[SqlToken]) -> MysqlRead:
        for count in (4, 3, 2, 1):
            phrase = keys(tokens[1:], count)
            if phrase in builtins.SHOWS:
                return self._analyse_without_tree(tokens, MysqlRead(_ANY))
            if phrase in builtins.SHOWS_SETTINGS:
                calm = self._state.settings and not self._state.lost
                return self._analyse_without_tree(tokens, MysqlRead(_ANY if calm else (UNKNOWN,)))
            if phrase in builtins.SHOWS_COUNTERS:
                calm = _counts_calmly(tokens[1 + count :])
                return self._analyse_without_tree(tokens, MysqlRead(_ANY if calm else (Out(None, NOTHING), UNKNOWN)))
        return self._analyse_without_tree(tokens, MysqlRead((UNKNOWN,)))

    def _set(self, tokens: list[SqlToken]) -> MysqlRead:
        if by_first_words(tokens, words.STATEMENTS):
            return self._analyse_without_tree(tokens, MysqlRead())
        if key_at(tokens, 1) == "STATEMENT":
            return self._under_settings(tokens)
        is_known = Effect.UNKNOWN not in judge(tokens, self._judging).effects
        puts: dict[str, Sources] = {}
        texts: list[tuple[str, Texts]] = []
        settings = True
        for part in split_at_commas(tokens[1:]):
            place = next((at for at, token in enumerate(part) if token.key in ("=", ":=")), len(part))
            value = part[place + 1 :]
            if place == 1 and is_user_variable(part[0]):
                name = variable_name(part[0])
                sources, inner = self._value(value)
                texts.append((name, texts_of(value)))
            elif any(token.key == "(" or token.kind is SqlTokenKind.VARIABLE for token in value):
                sources, inner = self._value(value)
                setting = part[place - 1].text.lower().rpartition(".")[2].lstrip("@") if place else ""
                name = builtins.QUOTING_SETTINGS.get(setting, "")
                settings = settings and sources == NOTHING
            else:
                continue
            puts |= {other: union([puts.get(other, NOTHING), put]) for other, put in inner.puts}
            texts += inner.texts
            if name:
                puts[name] = union([puts.get(name, NOTHING), sources])
        lost = self._runs_code(tokens) or not is_known or may_respell(tokens)
        return MysqlRead(
            everything=not is_known,
            puts=frozenset(puts.items()),
            texts=tuple(texts),
            lost=lost,
            settings=settings and not lost,
        )

    def _value(self, tokens: Sequence[SqlToken]) -> tuple[Sources, MysqlRead]:
        """Return the sources of an expression without tables, and what it assigns."""
        read = self._query([word("SELECT"), *tokens], "SELECT")
        return merge_sources(read.outs or ()), read

    def _under_settings(self, tokens: list[SqlToken]) -> MysqlRead:
        """Analyse SET STATEMENT … FOR a statement."""
        place = next((at for at, token in enumerate(tokens) if token.key == "FOR"), len(tokens))
        settings_text = " ".join(token.text.lower() for token in tokens[:place])
        if (
            place == len(tokens)
            or "(" in settings_text
            or "sql_mode" in settings_text
            or "character_set" in settings_text
            or "@" in settings_text
        ):
            return LOST
        return self._statement(tokens[place + 1 :])

    def _handler(self, tokens: list[SqlToken]) -> MysqlRead:
        parts, place = dotted_name(tokens, 1)
        if not parts:
            return LOST
        if key_at(tokens, place) != "OPEN":
            is_read = key_at(tokens, place) == "READ"
            return self._analyse_without_tree(tokens, MysqlRead(handler=fold_identifier(parts[-1]) if is_read else ""))
        after = place + 1 + (key_at(tokens, place + 1) == "AS")
        name = tokens[after].text if after < len(tokens) else parts[-1]
        tables = DatabaseTables(self._catalogue, self._state, self._database)
        outs, _ = tables.table(parts[-2] if len(parts) > 1 else "", parts[-1])
        return MysqlRead(opens=(fold_identifier(name), tuple(outs)))

    def _use(self, tokens: list[SqlToken]) -> MysqlRead:
        return MysqlRead(uses=tokens[1].text) if len(tokens) == 2 else LOST

    def _prepare(self, tokens: list[SqlToken]) -> MysqlRead:
        if len(tokens) < 4 or key_at(tokens, 2) != "FROM":
            return LOST
        return self._analyse_without_tree(
            tokens, MysqlRead(prepares=(fold_identifier(tokens[1].text), texts_of(tokens[3:])))
        )

    def _execute(self, tokens: list[SqlToken]) -> MysqlRead:
        using = next((at for at, token in enumerate(tokens) if token.key == "USING"), len(tokens))
        column_refs: Sources = NOTHING
        if tokens[using + 1 :]:
            column_refs, _ = self._value(tokens[using + 1 :])
        if key_at(tokens, 1) == "IMMEDIATE":
            return MysqlRead(
                executes=texts_of(tokens[2:using]), runs=True, bind_sources=column_refs, lost=self._runs_code(tokens)
            )
        if using != 2:
            return LOST
        return MysqlRead(
            executes=fold_identifier(tokens[1].text), runs=True, bind_sources=column_refs, lost=self._runs_code(tokens)
        )

    def _call(self, tokens: list[SqlToken]) -> MysqlRead:
        return MysqlRead((UNKNOWN,), lost=True, settings=False)

    def _do(self, tokens: list[SqlToken]) -> MysqlRead:
        return replace(self._query([word("SELECT"), *tokens[1:]], "SELECT"), outs=None)


def _resolve_until_stable(
    query: Query, resolver: LineageResolver, variables: Variables, targets: Sequence[str]
) -> list[Out]:
    """Return the columns of a query whose result is put into `targets`, repeated until no variable gets a new
    source."""
    for _ in range(_ROUNDS):
        variables.is_settled = True
        outs = resolver.query(query)
        for place, name in enumerate(targets):
            is_plain = place < len(outs) and not any(out.many for out in outs)
            variables.assign(name, outs[place].sources if is_plain else merge_sources(outs))
        if variables.is_settled:
            return outs
    raise UnreadableSql("its assignments of variables do not converge")


def _counts_calmly(tokens: Sequence[SqlToken]) -> bool:
    """Return True if the LIKE of a SHOW STATUS matches only counters that reveal nothing about values."""
    if len(tokens) != 2 or tokens[0].key != "LIKE" or tokens[1].content is None:
        return False
    beginning = _WILDCARD.split(tokens[1].content, maxsplit=1)[0].lower()
    return beginning.startswith(builtins.CALM_COUNTERS)


_WILDCARD: Final = re.compile(r"[%_\\]")
_ANY: Final = (Out(None, NOTHING, many=True),)
# Nine columns at least: a plan in one column quotes values.
_PLAN: Final = (*[Out(None, NOTHING)] * 9, *_ANY)
# Objects of CREATE, ALTER and DROP that do not change tables, views or functions.
_HARMLESS: Final = words_of(
    """
    DATABASE EVENT FULLTEXT INDEX INSTANCE LOGFILE PREPARE RESOURCE ROLE SCHEMA SERVER SPATIAL TABLESPACE TRIGGER UNDO
    UNIQUE USER
    """
)
_OTHERS: Final[dict[str, Callable[[MysqlStatements, list[SqlToken]], MysqlRead]]] = {
    "ANALYZE": MysqlStatements._explain,
    "CALL": MysqlStatements._call,
    "DESC": MysqlStatements._explain,
    "DESCRIBE": MysqlStatements._explain,
    "DO": MysqlStatements._do,
    "EXECUTE": MysqlStatements._execute,
    "EXPLAIN": MysqlStatements._explain,
    "HANDLER": MysqlStatements._handler,
    "PREPARE": MysqlStatements._prepare,
    "SET": MysqlStatements._set,
    "SHOW": MysqlStatements._show,
    "USE": MysqlStatements._use,
}
