"""Lineage of whole batches, from their tokens: the columns of each answer, and what a batch leaves behind.

A batch is read once from its beginning to its end. Variables, temporary tables and cursors only gain sources, because a
statement can fail or be skipped. In a batch with a loop, it is read until nothing changes, and the conditions of the
batch count for everything in it: a loop can build a value out of thousands of answers to "is it greater than …".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from postern.domain.rules.statement import Effect
from postern.inspection.lineage import relations as rel
from postern.inspection.lineage.lineage_resolver import LineageResolver
from postern.inspection.lineage.scope import (
    NOTHING,
    UNKNOWN,
    Out,
    Scope,
    Sources,
    TooMuch,
    Variables,
    WorkBudget,
    merge_sources,
    union,
)
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.inspection.sql.judging import Judging, by_first_words, verb_of
from postern.inspection.sql.sql_tokens import (
    SqlToken,
    SqlTokenKind,
    UnreadableSql,
    dotted_name,
    key_at,
    word,
)
from postern.protocols.mssql.dialect import tsql_words as words
from postern.protocols.mssql.dialect.tsql_batches import Batch, readings, statements
from postern.protocols.mssql.dialect.tsql_exec import ExecCall, parse_exec
from postern.protocols.mssql.dialect.tsql_parser import QUERIES, creates_code, has_loop, texts_of_batch
from postern.protocols.mssql.dialect.tsql_plain import plain_query
from postern.protocols.mssql.dialect.tsql_texts import (
    BatchTexts,
    assigned_variables,
    is_user_variable,
    split,
    variable_name,
)
from postern.protocols.mssql.dialect.tsql_views import query_of_view
from postern.protocols.mssql.lineage import tsql_builtins as builtins
from postern.protocols.mssql.lineage.tsql_changes import TsqlChange
from postern.protocols.mssql.lineage.tsql_definitions import TsqlDefinitions
from postern.protocols.mssql.lineage.tsql_lineage_catalogue import (
    DEFAULT_SCHEMA,
    Outs,
    SessionTables,
    TsqlCatalogue,
    TsqlState,
    merge_outs,
)
from postern.protocols.mssql.lineage.tsql_memory import LOST, TsqlMemory
from postern.protocols.mssql.lineage.tsql_names import RULES, column_name
from postern.protocols.mssql.lineage.tsql_outputs import OutputClause, without_output
from postern.protocols.mssql.lineage.tsql_queries import TsqlContext, TsqlQueries
from postern.protocols.mssql.lineage.tsql_spelling import spell_query

_ROUNDS: Final = 8  # readings of a batch with a loop
_DEEPEST: Final = 4  # texts that run texts
_ANY: Final = (Out(None, NOTHING, many=True),)
_NO_SCHEMA: Final[tuple[str, ...]] = ()


class BatchVariables(Variables):
    """The variables of a batch. `others` are the sources of those that it does not declare: its parameters."""

    def __init__(self, others: Sources = NOTHING) -> None:
        super().__init__()
        self.others = others

    def sources_of(self, name: str) -> Sources:
        return union([super().sources_of(name), self.others])


@dataclass(frozen=True, slots=True)
class TsqlRead:
    """The analysis of one reading of a text: the columns of each answer, the session's state after it, and the sources
    of the variables of its last batch."""

    answers: tuple[Outs, ...]
    state: TsqlState
    variables: tuple[tuple[str, Sources], ...] = ()


class TsqlStatements:
    """Analyses one reading of a text. `path` are the schemas of a name without one, `parameters` the sources of
    variables that the text does not declare; `work` is a budget shared by everything for one text. `depth` is the
    number of texts around this one, and it `repeats` if one of them runs it in a loop."""

    def __init__(
        self,
        catalogue: TsqlCatalogue,
        state: TsqlState,
        path: Sequence[str] = _NO_SCHEMA,
        parameters: Sources = NOTHING,
        work: WorkBudget | None = None,
        *,
        depth: int = 0,
        repeats: bool = False,
    ) -> None:
        self._catalogue = catalogue
        self._memory = TsqlMemory(state)
        self._path = path or (*catalogue.schema.search_path, DEFAULT_SCHEMA)
        self._parameters = parameters
        self._work = work or WorkBudget()
        self._depth = depth
        self._repeats = repeats
        judging = Judging(words.GRAMMAR, words.FUNCTIONS, catalogue.schema)
        self._definitions = TsqlDefinitions(self._memory, judging, self._pure)
        self._variables = BatchVariables(parameters)
        self._texts = BatchTexts()
        self._answers: dict[Outs, None] = {}
        self.control: Sources = NOTHING  # of the conditions of a batch with a loop
        self._loops = False

    def read(self, batches: Sequence[Batch]) -> TsqlRead:
        """Return the analysis. Raises TooMuch for a loop that does not settle."""
        for batch in batches:
            self._batch(batch, loops=self._repeats or has_loop(batch) or len(batches) > 1)
        if self._memory.flags.planned:
            self._answers[LOST] = None  # a plan, which quotes values
        return TsqlRead(tuple(self._answers), self._memory.state(), tuple(self._variables.put.items()))

    def definition(self, text: str) -> list[Out]:
        """Return the columns of a view."""
        inner, names = query_of_view(_only_batch(text))
        outs = self._query_outs(inner, verb_of(inner))
        if names and len(names) != len(outs):
            return [UNKNOWN]
        return [replace(out, name=column_name(name)) for out, name in zip(outs, names, strict=True)] if names else outs

    def expression(self, text: str, outs: Sequence[Out]) -> list[Out]:
        """Return the sources of an expression over the columns of one table."""
        tokens = plain_query([word("SELECT"), *_only_batch(text)], self._catalogue.schema)
        spelled = spell_query(tokens, "SELECT", self._pure)
        queries, resolver = TsqlQueries(self._context(), spelled), self._resolver()
        return resolver.targets(queries.targets(spelled.tree.expressions), Scope(outs=list(outs)))

    # Batches

    def _batch(self, batch: Batch, *, loops: bool) -> None:
        self._loops = loops
        self._variables = BatchVariables(self._parameters)
        self.control = NOTHING
        self._memory.begin_batch()
        pieces = statements(batch)
        for _ in range(_ROUNDS if loops else 1):
            before = (self._memory.state(), self._memory.temps.copy(), dict(self._variables.put), self.control)
            self._texts = texts_of_batch(batch)
            for tokens in pieces:
                if creates_code(tokens):
                    self._definitions.define(tokens)
                    break
                self._statement(tokens)
                self._texts.learn(tokens)
            if before == (self._memory.state(), self._memory.temps, self._variables.put, self.control):
                return
        if loops:
            raise TooMuch

    def _statement(self, tokens: list[SqlToken]) -> None:
        self._work.step()
        try:
            self._read_statement(tokens)
        except UnreadableSql:
            # The target may understand what cannot be read here. It leaves a variable as it is, unless it names it.
            self._memory.lose()
            for token in tokens:
                if is_user_variable(token):
                    self._variables.assign(variable_name(token), None)
                    self._memory.write(variable_name(token), None)
            self._answer(LOST)

    def _read_statement(self, tokens: list[SqlToken]) -> None:
        verb, entry = verb_of(tokens), by_first_words(tokens, words.STATEMENTS)
        if verb in QUERIES and (entry is None or len(entry[0]) == 1):
            self._query(tokens, verb)
        elif entry is None and (verb in ("EXEC", "EXECUTE") or (tokens[0].is_name and verb not in ("WITH", "RECEIVE"))):
            self._exec(parse_exec(tokens), tokens)
        elif entry is None or Effect.UNKNOWN in entry[1]:
            raise UnreadableSql("it is not understood")
        elif entry[0][0] in _READERS:
            _READERS[entry[0][0]](self, tokens)
        elif entry[1] & {Effect.DDL, Effect.GRANT} or entry[0] == ("UPDATE", "STATISTICS"):
            self._definitions.define(tokens)
        else:
            self._other(tokens, entry[1])

    def _other(self, tokens: list[SqlToken], effects: frozenset[Effect]) -> None:
        """Analyse a statement without a query."""
        first = tokens[0].key
        if first in ("REVERT", "SETUSER") or (first in ("EXEC", "EXECUTE") and key_at(tokens, 1) == "AS"):
            self._memory.change(as_other=True)
        elif first == "DBCC":
            self._memory.change(numbered=True)
        elif first == "BULK":
            self._load(tokens)
        elif first == "RECEIVE" or (first == "WAITFOR" and key_at(tokens, 1) == "("):
            self._answer(LOST)
        elif first in ("BEGIN", "END", "ELSE") and not _is_block_edge(tokens):
            place = 1 + (key_at(tokens, 1) in ("TRY", "CATCH"))
            if key_at(tokens, place) != "THROW":
                raise UnreadableSql("it is not understood")
            self._print(tokens[place:])
        for token in assigned_variables(tokens):
            self._variables.assign(variable_name(token), None)
        if effects & {Effect.ADMIN, Effect.READ} and first not in ("RAISERROR",):
            self._answer(LOST)

    def _load(self, tokens: list[SqlToken]) -> None:
        """Analyse BULK INSERT: a file can contain anything."""
        parts, _ = dotted_name(tokens, 2)
        if parts:
            self._memory.write(parts[-1], None)

    def _answer(self, outs: Outs) -> None:
        if self.control != NOTHING:
            outs = tuple([Out(out.name, union([out.sources, self.control]), out.many) for out in outs])
        self._answers[outs] = None

    # Queries

    def _pure(self, parts: tuple[str, ...]) -> bool:
        name = parts[-1].upper() if len(parts) == 1 else ""
        if name in builtins.IDENTITY_FUNCTIONS:
            return not (self._memory.flags.numbered or self._memory.flags.lost)
        if name in builtins.SESSION_FUNCTIONS:
            return not (self._memory.flags.queried or self._memory.flags.lost)
        return self._catalogue.pure(parts, self._memory.flags)

    def _tables(self) -> SessionTables:
        return SessionTables(self._catalogue, self._memory.flags, self._path, self._memory.temps)

    def _context(self) -> TsqlContext:
        return TsqlContext(self._memory.flags, self._work, self._tables().knows)

    def _resolver(self) -> LineageResolver:
        return LineageResolver(RULES, self._tables(), self._work, self._variables, repeats=self._loops)

    def _query_outs(self, tokens: Sequence[SqlToken], verb: str) -> list[Out]:
        """Return the columns of a query."""
        spelled = spell_query(plain_query(tokens, self._catalogue.schema), verb, self._pure)
        return self._resolve(TsqlQueries(self._context(), spelled).query(spelled.tree))

    def _resolve(self, query: rel.Query) -> list[Out]:
        """Return the columns of a query. In a loop, its conditions are added to those of the batch."""
        if not self._loops:
            return self._resolver().query(query)
        outs, filters = self._resolver().filtered_query(query)
        self.control = union([self.control, filters])
        return outs

    def _value(self, tokens: Sequence[SqlToken]) -> Sources:
        """Return the sources of an expression without tables."""
        return merge_sources(self._query_outs([word("SELECT"), *tokens], "SELECT"))

    def _query(self, tokens: list[SqlToken], verb: str) -> None:
        plain, output = without_output(plain_query(tokens, self._catalogue.schema), verb)
        run = next((at for at, token in enumerate(plain) if token.key in ("EXEC", "EXECUTE") and at > 1), 0)
        if verb == "INSERT" and run:
            self._insert_exec(plain, run, output)
            return
        spelled = spell_query(plain, verb, self._pure)
        queries = TsqlQueries(self._context(), spelled)
        if verb == "SELECT":
            self._select(spelled.tree, queries)
            return
        change = TsqlChange(self, queries, spelled.tree)
        change.write()
        if output is not None:
            self._output(change, output)

    def _select(self, tree: exp.Expr, queries: TsqlQueries) -> None:
        select = tree
        while isinstance(select, exp.Subquery):
            select = select.this
        names = [queries.assigned_variable(value) for value in getattr(select, "expressions", ())]
        outs = self._resolve(queries.query(tree))
        first = select
        while isinstance(first, exp.SetOperation):
            first = first.this
        into = first.args.get("into")
        if isinstance(into, exp.Into):
            table = queries.table_name(into.this)
            if table is None:
                raise UnreadableSql("the table that it creates is not understood")
            columns = tuple([Out(out.name, union([out.sources, self.control]), out.many) for out in outs])
            self._memory.make(table.name, columns)
        elif any(names):
            self._spread_control(names)
        else:
            self._answer(tuple(outs))

    def _spread_control(self, names: Sequence[str]) -> None:
        for name in names:
            if name and self.control != NOTHING:
                self._variables.assign(fold_identifier(name), self.control)

    def write(self, name: str, sources: Sources, columns: Sequence[str] = ()) -> None:
        """Record that a temporary table or table variable may get values from these sources, in these columns or in
        any."""
        self._memory.write(name, union([sources, self.control]), columns)

    def columns_of(self, name: str) -> Outs | None:
        """Return the columns of a temporary table or table variable."""
        return self._memory.temps.get(fold_identifier(name))

    def resolve(self, query: rel.Query) -> list[Out]:
        return self._resolve(query)

    def _output(self, change: TsqlChange, output: OutputClause) -> None:
        """Analyse OUTPUT, whose columns are an answer, or go into a table."""
        spelled = spell_query([word("SELECT"), *output.columns], "SELECT", self._pure)
        queries = TsqlQueries(self._context(), spelled)
        outs = tuple(self._resolve(change.returning(queries.targets(spelled.tree.expressions))))
        if change.target is None:
            outs = LOST
        if not output.into:
            self._answer(outs)
            return
        names = output.into_columns or _NO_SCHEMA
        if len(names) == len(outs) and not any(out.many for out in outs):
            for name, out in zip(names, outs, strict=True):
                self.write(output.into, out.sources, (column_name(name),))
        else:
            self.write(output.into, merge_sources(outs))

    def _insert_exec(self, tokens: list[SqlToken], run: int, output: OutputClause | None) -> None:
        """Analyse INSERT … EXEC: the answers go into the table."""
        parts, _ = dotted_name(tokens, 1 + (key_at(tokens, 1) == "INTO"))
        place = 1 + (key_at(tokens, 1) == "INTO")
        name = parts[-1] if parts else tokens[place].text
        before, self._answers = self._answers, {}
        self._exec(parse_exec(tokens[run:]), tokens[run:])
        answers, self._answers = self._answers, before
        self.write(name, merge_sources([out for outs in answers for out in outs]))
        if output is not None:
            self._answer(LOST)

    # EXEC

    def _exec(self, call: ExecCall, tokens: Sequence[SqlToken]) -> None:
        values = [token for argument in call.arguments for token in argument.value]
        sources = union([self._argument(argument.value) for argument in call.arguments])
        if call.result:
            self._variables.assign(fold_identifier(call.result), None)
        if call.is_elsewhere:
            self._run_unknown(call)
        elif call.runs_text:
            self._run_texts(call, sources)
        elif call.procedure in words.PROCEDURES:
            self._run_own(call, sources, values)
        else:
            self._run_unknown(call)

    def _argument(self, tokens: Sequence[SqlToken]) -> Sources:
        """Return the sources of an argument: a constant, a variable, or a name that stands for a string."""
        found: list[Sources] = []
        for token in tokens:
            if token.kind is SqlTokenKind.VARIABLE:
                is_own = is_user_variable(token)
                found.append(self._variables.sources_of(variable_name(token)) if is_own else self._value([token]))
        return union(found)

    def _run_unknown(self, call: ExecCall) -> None:
        """Record a procedure of the target, which can read and change temporary tables and cursors. Those of the
        server's own that are not listed can run the texts of their arguments: sp_MSforeachtable, for example."""
        if call.procedure.startswith("sp_ms"):
            self._memory.lose()
        self._memory.lose_temporary()
        self._assign_outputs(call, None)
        self._answer(LOST)

    def _assign_outputs(self, call: ExecCall, sources: Sources) -> None:
        for argument in call.arguments:
            for token in argument.value if argument.is_output else ():
                if is_user_variable(token):
                    self._variables.assign(variable_name(token), sources)

    def _run_own(self, call: ExecCall, sources: Sources, values: Sequence[SqlToken]) -> None:
        """Analyse one of the server's own procedures, by its effects."""
        effects = words.PROCEDURES[call.procedure]
        self._assign_outputs(call, None)
        if call.procedure == "sp_set_session_context" and sources != NOTHING:
            self._memory.change(queried=True)
        if Effect.DDL in effects or Effect.GRANT in effects:
            self._memory.change(everything=True)
            self._memory.temps = dict.fromkeys(self._memory.temps, LOST)  # sp_rename can exchange their columns
        if Effect.ADMIN in effects or call.procedure == "sp_cursorfetch":
            self._answer(LOST)
        elif Effect.READ in effects:
            self._answer(_ANY)

    def _run_texts(self, call: ExecCall, sources: Sources) -> None:
        """Analyse the texts that EXEC or sp_executesql runs. Their variables are their own."""
        texts = call.texts(self._texts)
        if texts is None or self._depth >= _DEEPEST:
            self._memory.lose()
            self._assign_outputs(call, None)
            self._answer(LOST)
            return
        if not self._is_own_database(call.database):
            self._memory.change(elsewhere=True)
        outputs: list[Sources] = [self.control]
        for text in texts:
            inner = TsqlStatements(
                self._catalogue,
                self._memory.state(),
                self._path,
                union([sources, self.control]),
                self._work,
                depth=self._depth + 1,
                repeats=self._loops,
            )
            read = inner.read(readings(text)[0])
            self._memory.include(read.state)
            self.control = union([self.control, inner.control])
            outputs += [inner.control, *(put for _, put in read.variables)]
            for outs in read.answers:
                self._answer(outs)
        self._assign_outputs(call, union([sources, *outputs]))

    # Other statements

    def _condition(self, tokens: list[SqlToken]) -> None:
        """Analyse IF and WHILE. Conditions matter in loops only, in which they can be asked thousands of times."""
        case = [word("CASE"), word("WHEN"), *tokens[1:], word("THEN"), _ONE, word("END")]
        sources = self._value(case)
        if self._loops:
            self.control = union([self.control, sources])

    def _print(self, tokens: list[SqlToken]) -> None:
        """Analyse PRINT, RAISERROR, RETURN and THROW, whose values are no rows. Later, ERROR_NUMBER() may be one."""
        if union([self._argument([token]) for token in tokens]) != NOTHING:
            self._memory.change(queried=True)
        for token in assigned_variables(tokens):
            self._variables.assign(variable_name(token), None)

    def _declare(self, tokens: list[SqlToken]) -> None:
        if key_at(tokens, 2) == "CURSOR" or "CURSOR" in [token.key for token in tokens[:6]]:
            self._cursor(tokens[1], tokens)
            return
        for part in split(tokens[1:]):
            if not part or not is_user_variable(part[0]):
                raise UnreadableSql("it declares something that is not a variable")
            place = 1 + (key_at(part, 1) == "AS")
            if key_at(part, place) == "TABLE":
                self._memory.temps.setdefault(variable_name(part[0]), self._definitions.columns_of(part[place + 1 :]))
                continue
            equals = next((at for at, token in enumerate(part) if token.key == "="), len(part))
            if equals < len(part):
                self._assign(part[0], part[equals + 1 :])

    def _assign(self, variable: SqlToken, value: Sequence[SqlToken]) -> None:
        self._variables.assign(variable_name(variable), union([self._value(value), self.control]))
        if self.control != NOTHING:
            self._variables.assign(variable_name(variable), self.control)

    def _cursor(self, name: SqlToken, tokens: Sequence[SqlToken]) -> None:
        start = next(
            (
                at
                for at, token in enumerate(tokens)
                if token.key == "FOR" and key_at(tokens, at + 1) in ("SELECT", "WITH")
            ),
            len(tokens),
        )
        if start == len(tokens):
            if name.kind is SqlTokenKind.VARIABLE and len(tokens) == 3:
                return  # DECLARE @c CURSOR
            raise UnreadableSql("the query of a cursor is not understood")
        query = list(tokens[start + 1 :])
        end = len(query)
        for at, token in enumerate(query):
            if token.key == "FOR" and key_at(query, at + 1) in ("UPDATE", "READ"):
                end = at
        folded = fold_identifier(name.text)
        queries = self._memory.cursor_queries.setdefault(folded, [])
        if query[:end] not in queries:
            queries.append(query[:end])
        self._read_cursor(folded)

    def _read_cursor(self, name: str) -> None:
        """Read the queries of a cursor: it returns what temporary tables have when it is opened, or even fetched."""
        for query in self._memory.cursor_queries.get(name, ()):
            outs = tuple(self._query_outs(query, verb_of(query)))
            self._memory.cursors[name] = merge_outs(self._memory.cursors.get(name), outs)

    def _fetch(self, tokens: list[SqlToken]) -> None:
        into = next((at for at, token in enumerate(tokens) if token.key == "INTO"), len(tokens))
        name = fold_identifier(tokens[into - 1].text) if into > 1 else ""
        self._read_cursor(name)
        outs = LOST if self._memory.flags.lost else self._memory.cursors.get(name, LOST)
        if into == len(tokens):
            self._answer(outs)
            return
        targets = [token for token in tokens[into:] if is_user_variable(token)]
        is_plain = len(targets) == len(outs) and not any(out.many for out in outs)
        for place, token in enumerate(targets):
            sources = outs[place].sources if is_plain else merge_sources(outs)
            self._variables.assign(variable_name(token), union([sources, self.control]))

    def _set(self, tokens: list[SqlToken]) -> None:
        if len(tokens) > 2 and is_user_variable(tokens[1]):
            if key_at(tokens, 3) == "CURSOR":
                self._cursor(tokens[1], tokens)
            elif key_at(tokens, 2) == ".":
                self._variables.assign(variable_name(tokens[1]), None)  # a method that changes an XML value
            else:
                self._assign(tokens[1], tokens[3:])
            return
        setting = tokens[1].text.upper() if len(tokens) > 1 else ""
        if setting == "IDENTITY_INSERT":
            self._memory.change(numbered=True)
        is_off = tokens[-1].key == "OFF"  # as tools begin
        if not is_off and (setting.startswith("SHOWPLAN") or {token.key for token in tokens} & {"XML", "PROFILE"}):
            self._memory.change(planned=True)
        # A value from a query, or columns that answers have beside those of the text.
        has_query = setting == "NO_BROWSETABLE" or any(token.key == "(" for token in tokens)
        if has_query or union([self._argument([token]) for token in tokens]) != NOTHING:
            self._memory.change(queried=True)

    def _use(self, tokens: list[SqlToken]) -> None:
        if len(tokens) != 2 or not tokens[1].text or not self._is_own_database(tokens[1].text):
            self._memory.change(elsewhere=True)

    def _is_own_database(self, name: str) -> bool:
        """Return whether a name is that of the snapshot's database, or none at all."""
        database = self._catalogue.schema.database
        return not name or (bool(database) and fold_identifier(name) == fold_identifier(database))


_ONE: Final = SqlToken(SqlTokenKind.NUMBER, "1")
_BLOCKS: Final = frozenset({"TRY", "CATCH", "TRAN", "TRANSACTION", "DISTRIBUTED", "DIALOG", "CONVERSATION"})


def _only_batch(text: str) -> list[SqlToken]:
    """Return the tokens of a text that is one statement. With QUOTED_IDENTIFIER off, text in double quotes is a
    constant, so that taking it for a name finds no less."""
    batches = readings(text)[0]
    if len(batches) != 1:
        raise UnreadableSql("it is not one statement")
    return [token for token in batches[0] if token.key != ";"]


def _is_block_edge(tokens: Sequence[SqlToken]) -> bool:
    """Return whether BEGIN, END or ELSE stands alone, so that nothing after it can be a procedure's name."""
    return len(tokens) == 1 or (key_at(tokens, 1) in _BLOCKS and (len(tokens) == 2 or tokens[1].key.startswith("TRAN")))


Reader = Callable[[TsqlStatements, list[SqlToken]], None]
_READERS: Final[dict[str, Reader]] = {
    "DECLARE": TsqlStatements._declare,
    "FETCH": TsqlStatements._fetch,
    "IF": TsqlStatements._condition,
    "PRINT": TsqlStatements._print,
    "RAISERROR": TsqlStatements._print,
    "RETURN": TsqlStatements._print,
    "SET": TsqlStatements._set,
    "THROW": TsqlStatements._print,
    "USE": TsqlStatements._use,
    "WHILE": TsqlStatements._condition,
}
