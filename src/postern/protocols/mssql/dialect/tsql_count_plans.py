"""The query that counts the rows which an UPDATE, a DELETE or a MERGE of T-SQL would affect (decision 0183).

For an UPDATE and a DELETE it counts the rows of the table that meet the condition. With a FROM, a row counts once,
however many partners it has: each row of the target takes the target's place in the FROM, and counts if anything is
found. For a MERGE it counts the rows that it would update, delete and insert. The SET and OUTPUT clauses are left out,
so that they do not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from postern.domain.rules.row_count import MOST_CHARACTERS, MOST_ROWS, CountPlan, CountPlans, Named, Uncountable
from postern.domain.rules.statement import Effect
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.inspection.sql.sql_tokens import SqlToken, UnreadableSql, key_at, words_of
from postern.protocols.mssql.dialect.tsql_batches import only_batch, statements
from postern.protocols.mssql.dialect.tsql_parser import creates_code, judge_text
from postern.protocols.mssql.dialect.tsql_side_effect_free import (
    MARK,
    TARGET,
    FoundTable,
    Piece,
    TablePiece,
    TableSource,
    TsqlQueryReader,
    check_qualifiers,
    quote,
    raw_token,
    render_pieces,
)
from postern.protocols.mssql.dialect.tsql_texts import assigned_variables, is_user_variable, variable_name

_ACTIONS: Final = ("UPDATE", "DELETE", "MERGE")
_EVERYTHING: Final = "the whole statement"
# With any of these in a batch, a statement can run not at all, or several times.
_CONTROL: Final = words_of("IF ELSE WHILE GOTO BREAK CONTINUE")
_QUIET: Final = words_of("DECLARE PRINT")
_QUIET_SETTINGS: Final = words_of("NOCOUNT XACT_ABORT LOCK_TIMEOUT DEADLOCK_PRIORITY")

Tables = Mapping[Named, FoundTable]


@dataclass(frozen=True, slots=True)
class TsqlCountPlan(CountPlan):
    """How one part of a text is counted.

    `tables` are all that it reads, `target` one of them; `columns` are the folded names of columns that it may read,
    None for all. `functions` are names of the server's own. `sets` are the folded names of columns that it would
    change. `variables` are the parameters that the query takes. `is_folded`: names were taken for the same although
    their case differs. `query` makes the query, given the tables, and raises
    Uncountable: one row with one number, `MOST_ROWS` + 1 for more.
    """

    tables: tuple[Named, ...] = ()
    columns: frozenset[str] | None = None
    functions: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()
    variables: tuple[str, ...] = ()
    is_folded: bool = False
    query: Callable[[Tables], str] = field(default=lambda _: "", compare=False)


def tsql_count_plans(text: str) -> CountPlans[TsqlCountPlan]:
    """Return how to count the parts of a text that change rows. Takes milliseconds, in any thread."""
    if len(text) > MOST_CHARACTERS:
        return _unknown(f"it is longer than {MOST_CHARACTERS:,} characters")
    try:
        batch = only_batch(text, raw_token)
        pieces = statements(batch)
    except UnreadableSql as error:
        return _unknown(str(error))
    parts: list[TsqlCountPlan] = []
    has_control = any(map(_is_control, pieces))
    stirs = more = False
    assigned: set[str] = set()
    for tokens in pieces:
        if creates_code(tokens):
            return CountPlans(tuple(parts), True, True)
        action = _action_of(tokens)
        if action:
            plan = _plan(tokens, action)
            if has_control:
                plan = _refuse(plan, "it depends on control flow (IF, WHILE, TRY) whether and how often it runs")
            elif stirs:
                plan = _refuse(plan, "earlier statements can change its meaning")
            elif not assigned.isdisjoint(plan.variables):
                plan = _refuse(plan, "it uses a variable that earlier statements assign")
            parts.append(plan)
        else:
            stirs |= _stirs(tokens)
        more |= _does_more(tokens, action)
        assigned |= {variable_name(token) for token in assigned_variables(tokens)}
        if key_at(tokens, 0) == "DECLARE":
            assigned |= {variable_name(token) for token in tokens if is_user_variable(token)}
    return CountPlans(tuple(parts), stirs, more)


def _unknown(why: str) -> CountPlans[TsqlCountPlan]:
    return CountPlans((TsqlCountPlan(_EVERYTHING, ("", ""), why),), True, True)


def _refuse(plan: TsqlCountPlan, why: str) -> TsqlCountPlan:
    return plan if plan.why_not else TsqlCountPlan(plan.action, plan.target, why)


def _action_of(tokens: Sequence[SqlToken]) -> str:
    """Return what a statement does with rows; empty for what is not counted."""
    first = key_at(tokens, 0)
    if first == "WITH":
        depth = 0
        for token in tokens:
            depth += (token.key == "(") - (token.key == ")")
            if depth == 0 and token.key in (*_ACTIONS, "SELECT", "INSERT"):
                first = token.key
                break
    if first == "UPDATE" and key_at(tokens, 1) == "STATISTICS":
        return ""
    return first if first in _ACTIONS else ""


def _is_control(tokens: Sequence[SqlToken]) -> bool:
    first = key_at(tokens, 0)
    return first in _CONTROL or (first == "BEGIN" and key_at(tokens, 1) not in ("TRAN", "TRANSACTION"))


def _stirs(tokens: Sequence[SqlToken]) -> bool:
    """Return whether a statement may change settings or names, or end the batch. Its effect on rows does not matter."""
    first, keys = key_at(tokens, 0), {token.key for token in tokens}
    if first in ("SELECT", "WITH"):
        return not keys.isdisjoint(("INTO", "EXEC", "EXECUTE")) or not keys & {"SELECT"}
    if first == "INSERT":
        return not keys.isdisjoint(("EXEC", "EXECUTE", "BULK"))
    if first == "SET":
        is_assignment = tokens[1:2] and is_user_variable(tokens[1])
        return not is_assignment and key_at(tokens, 1) not in _QUIET_SETTINGS
    if first in ("BEGIN", "SAVE"):
        return key_at(tokens, 1) not in ("TRAN", "TRANSACTION")
    return first not in _QUIET


def _does_more(tokens: Sequence[SqlToken], action: str) -> bool:
    first, keys = key_at(tokens, 0), [token.key for token in tokens]
    if action:
        return "OUTPUT" in keys and "INTO" in keys[keys.index("OUTPUT") :]
    if first in ("SELECT", "WITH"):
        return _stirs(tokens)
    return first not in (*_QUIET, "SET", "BEGIN", "SAVE", "COMMIT", "ROLLBACK", "USE")


def _plan(tokens: Sequence[SqlToken], action: str) -> TsqlCountPlan:
    planner = _Planner(tokens, action)
    try:
        return planner.plan()
    except Uncountable as error:
        return TsqlCountPlan(action, planner.target, error.message)
    except RecursionError:
        return TsqlCountPlan(action, planner.target, "it is nested too deeply")


def _render_query(pieces: Sequence[Piece], tables: Tables) -> str:
    """Return the text of a query, once the parser of rules has found that it only reads. Raises Uncountable."""
    text = render_pieces(pieces, tables)
    found = judge_text(text, None)
    if len(found) != 1 or found[0].effects != {Effect.READ}:
        raise Uncountable("its count query could not be verified")
    return text


class _Planner:
    """Plans the count of one statement."""

    def __init__(self, tokens: Sequence[SqlToken], action: str) -> None:
        self._reader = TsqlQueryReader(tokens)
        self._action = action
        self._sets: set[str] = set()
        self._assigned: set[str] = set()
        self._limit = MOST_ROWS + 1
        self.target: Named = ("", "")

    def plan(self) -> TsqlCountPlan:
        """Return the plan. Raises Uncountable."""
        reader = self._reader
        before = self._with() if reader.key() == "WITH" else []
        reader.expect(self._action)
        if reader.take("TOP"):
            self._limit = min(reader.row_limit(), self._limit)
        rows = self._merged_rows() if self._action == "MERGE" else self._changed_rows()
        if reader.take("OPTION"):
            reader.skip_brackets()
        reader.finish()
        usage = reader.usage
        check_qualifiers(usage)
        if not self._assigned.isdisjoint(usage.variables):
            raise Uncountable("it uses a variable that it assigns")
        query: list[Piece] = [
            *before,
            "SELECT COUNT_BIG(*) FROM (SELECT",
            f"TOP ({self._limit}) 1 AS [one] FROM",
            *rows,
        ]
        query.append(") AS [counted] OPTION (EXPAND VIEWS, MAXDOP 1)")
        return TsqlCountPlan(
            self._action,
            self.target,
            tables=tuple(dict.fromkeys(usage.tables)),
            columns=None if usage.is_whole else frozenset(usage.columns),
            functions=frozenset(usage.functions),
            sets=frozenset(self._sets),
            variables=tuple(usage.variables),
            is_folded=usage.is_folded,
            query=partial(_render_query, query),
        )

    def _with(self) -> list[Piece]:
        reader = self._reader
        reader.expect("WITH")
        reader.emit("WITH")
        while True:
            name = reader.name()
            folded = fold_identifier(name)
            if folded in reader.ctes or not name.isascii():
                raise Uncountable(f"it is unclear what {name} is")
            reader.emit(quote(name))
            if reader.key() == "(":
                reader.column_names()
            reader.expect("AS")
            reader.expect("(")
            reader.emit("AS (")
            first = len(reader.usage.tables)
            reader.query()
            reader.expect(")")
            reader.emit(")")
            if any(not schema and fold_identifier(table) == folded for schema, table in reader.usage.tables[first:]):
                raise Uncountable("its WITH query is recursive")
            reader.ctes[folded] = name
            if not reader.take(","):
                break
            reader.emit(",")
        return self._take_pieces()

    def _take_pieces(self) -> list[Piece]:
        pieces = self._reader.pieces
        self._reader.pieces = []
        return pieces

    # UPDATE and DELETE

    def _changed_rows(self) -> list[Piece]:
        """Return the FROM and WHERE of the rows that are changed."""
        reader = self._reader
        if self._action == "DELETE":
            reader.take("FROM")
        self.target = reader.table_name()
        if not self.target[0] and fold_identifier(self.target[1]) in reader.ctes:
            raise Uncountable("it changes rows by a query of its WITH")
        reader.hints()
        if self._action == "UPDATE":
            reader.expect("SET")
            self._read_sets()
        if reader.take("OUTPUT"):
            self._skip_until(frozenset({"FROM", "WHERE", "OPTION"}))
        sources: list[TableSource] = []
        if has_from := reader.take("FROM"):
            sources = reader.sources()
        else:
            reader.add_table(self.target, "")
        tables = self._take_pieces()
        where: list[Piece] = []
        if reader.take("WHERE"):
            if reader.key() == "CURRENT":
                raise Uncountable("it changes the row at a cursor (WHERE CURRENT OF)")
            reader.expression()
            where = self._take_pieces()
        if not has_from:
            return [*tables, *(["WHERE", *where] if where else [])]
        source = self._find_target(sources)
        self.target = source.name
        tables[source.place] = TablePiece(source.name, source.exposed, is_row=True)
        conditions: list[Piece] = [f"{quote(source.exposed)}.{quote(MARK)} = 1"]
        if where:
            conditions += ["AND (", *where, ")"]
        row = TablePiece(source.name, TARGET)
        return [row, "WHERE EXISTS (SELECT 1 FROM", *tables, "WHERE", *conditions, ")"]

    def _find_target(self, sources: Sequence[TableSource]) -> TableSource:
        """Return the table of the FROM whose rows are changed."""
        schema, name = self.target
        folded = fold_identifier(name)

        def is_same(source: TableSource) -> bool:
            others = (fold_identifier(source.name[0]), fold_identifier(schema))
            return fold_identifier(source.name[1]) == folded and ("" in others or others[0] == others[1])

        by_alias = [source for source in sources if not schema and fold_identifier(source.alias) == folded]
        by_name = [source for source in sources if not source.alias and is_same(source)]
        by_table = [source for source in sources if is_same(source)]
        is_exposed = any(exposed == folded for exposed, _ in self._reader.usage.exposed)  # as the alias of a query
        found = by_alias or by_name or ([] if is_exposed else by_table)
        if not found:
            raise Uncountable("its target is not a table of its FROM")
        if len(found) > 1:
            raise Uncountable("it is unclear which table of its FROM is its target")
        spelled = found[0].alias if by_alias else found[0].name[1]
        self._reader.usage.is_folded |= spelled != name
        return found[0]

    def _read_sets(self) -> None:
        """Read the SET clause: which columns and variables it assigns. Its values do not matter."""
        reader = self._reader
        is_first, depth = True, 0
        while not reader.is_end:
            key = reader.key()
            if depth == 0 and key in ("OUTPUT", "FROM", "WHERE", "OPTION"):
                break
            token = reader.tokens[reader.pos]
            if depth == 0 and is_first and is_user_variable(token):
                self._assigned.add(variable_name(token))
            if depth == 0 and is_first and token.is_name:
                while reader.key(1) == "." and key_at(reader.tokens, reader.pos + 3) != "(":
                    reader.pos += 2
                if reader.is_end:
                    raise Uncountable("its SET is not understood")
                self._sets.add(fold_identifier(reader.tokens[reader.pos].text))
            elif depth == 0 and is_first and is_user_variable(token) and _is_double(reader):
                self._sets.add(fold_identifier(reader.tokens[reader.pos + 2].text))
            depth += (key == "(") - (key == ")")
            is_first = depth == 0 and key == ","
            reader.pos += 1

    def _skip_until(self, ends: frozenset[str]) -> None:
        """Skip a clause whose meaning does not matter, up to the next one."""
        reader, depth = self._reader, 0
        while not reader.is_end and not (depth == 0 and reader.key() in ends):
            depth += (reader.key() == "(") - (reader.key() == ")")
            reader.pos += 1
        if depth:
            reader.expect(")")

    # MERGE

    def _merged_rows(self) -> list[Piece]:
        """Return what stands for the rows that are updated, deleted and inserted."""
        reader = self._reader
        reader.take("INTO")
        self.target = reader.table_name()
        if not self.target[0] and fold_identifier(self.target[1]) in reader.ctes:
            raise Uncountable("it changes rows by a query of its WITH")
        reader.hints()
        alias = ""
        if reader.take("AS") or reader.key() != "USING":
            alias = reader.name()
        reader.hints()
        reader.add_table(self.target, alias)
        target = self._take_pieces()
        reader.expect("USING")
        reader.sources()
        source = self._take_pieces()
        # The ON of the MERGE ends the source, and is read with it.
        at = _last_on(source)
        source, condition = source[:at], source[at + 1 :]
        when: dict[str, list[list[Piece]]] = {"MATCHED": [], "TARGET": [], "SOURCE": []}
        while reader.take("WHEN"):
            self._read_when(when)
        if reader.take("OUTPUT"):
            self._skip_until(frozenset({"OPTION"}))
        return _union(list(_merge_parts(target, source, condition, when)))

    def _read_when(self, when: Mapping[str, list[list[Piece]]]) -> None:
        reader = self._reader
        kind = "MATCHED"
        if reader.take("NOT"):
            kind = "TARGET"
            reader.expect("MATCHED")
            if reader.take("BY"):
                kind = reader.key()
                if kind not in ("TARGET", "SOURCE"):
                    reader.expect("TARGET")
                reader.pos += 1
        else:
            reader.expect("MATCHED")
        condition: list[Piece] = ["1 = 1"]
        if reader.take("AND"):
            reader.expression(frozenset({"THEN"}))
            condition = self._take_pieces()
        reader.expect("THEN")
        when[kind].append(condition)
        if reader.take("UPDATE"):
            reader.expect("SET")
            self._read_merge_sets()
        elif not reader.take("DELETE"):
            reader.expect("INSERT")
            self._skip_action()

    def _read_merge_sets(self) -> None:
        start = self._reader.pos
        end = self._skip_action()
        within = _Planner(self._reader.tokens[start:end], self._action)
        within._read_sets()
        self._sets |= within._sets
        self._assigned |= within._assigned

    def _skip_action(self) -> int:
        """Skip what an action assigns or inserts; return where that ends."""
        reader, depth, cases = self._reader, 0, 0
        while not reader.is_end:
            key = reader.key()
            if depth == 0 and cases == 0 and key in ("WHEN", "OUTPUT", "OPTION"):
                break
            depth += (key == "(") - (key == ")")
            cases += (key == "CASE") - (key == "END")
            reader.pos += 1
        return reader.pos


def _is_double(reader: TsqlQueryReader) -> bool:
    """Return whether `@variable = column = …` is next."""
    after = reader.tokens[reader.pos + 2] if reader.pos + 2 < len(reader.tokens) else None
    return reader.key(1) == "=" and after is not None and after.is_name and reader.key(3) == "="


def _last_on(pieces: Sequence[Piece]) -> int:
    """Return the place of the ON that belongs to no join: the last one outside of brackets."""
    depth, found, joins = 0, -1, 0
    for place, piece in enumerate(pieces):
        if isinstance(piece, str):
            depth += (piece == "(") - (piece == ")")
            joins += depth == 0 and piece.endswith("JOIN") and not piece.startswith("CROSS")
            if depth == 0 and piece == "ON":
                joins -= 1
                found = place
    if found < 0 or joins != -1:
        raise Uncountable("the ON of the MERGE is not understood")
    return found


def _merge_parts(
    target: Sequence[Piece],
    source: Sequence[Piece],
    condition: Sequence[Piece],
    when: Mapping[str, Sequence[Sequence[Piece]]],
) -> Iterator[list[Piece]]:
    if when["MATCHED"]:
        joined = [*source, "INNER JOIN", *target, "ON (", *condition, ")"]
        yield ["SELECT 1 AS [one] FROM", *joined, "WHERE", *_any_of(when["MATCHED"])]
    if when["TARGET"]:
        exists = ["NOT EXISTS (SELECT 1 FROM", *target, "WHERE", *condition, ")"]
        yield ["SELECT 1 AS [one] FROM", *source, "WHERE", *exists, "AND (", *_any_of(when["TARGET"]), ")"]
    if when["SOURCE"]:
        exists = ["NOT EXISTS (SELECT 1 FROM", *source, "WHERE", *condition, ")"]
        yield ["SELECT 1 AS [one] FROM", *target, "WHERE", *exists, "AND (", *_any_of(when["SOURCE"]), ")"]


def _any_of(conditions: Sequence[Sequence[Piece]]) -> list[Piece]:
    """Return a condition that holds if any of these does: the first one decides what is done with a row."""
    pieces: list[Piece] = []
    for condition in conditions:
        pieces += (["OR"] if pieces else []) + ["(", *condition, ")"]
    return pieces


def _union(parts: Sequence[Sequence[Piece]]) -> list[Piece]:
    if not parts:
        raise Uncountable("it has no WHEN")
    pieces: list[Piece] = ["("]
    for place, part in enumerate(parts):
        pieces += (["UNION ALL"] if place else []) + list(part)
    return [*pieces, ") AS [acted]"]
