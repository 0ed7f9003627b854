"""Spelling of a query for sqlglot: Oracle's tokens, in words with one meaning only.

Every word that Oracle does not reserve becomes a quoted name, so that sqlglot cannot take it for a keyword of another
dialect. Clauses that do not change where values come from are left out: samples, partitions, window frames, locks.
A function whose result depends on its arguments becomes `PLAIN(...)`, any other `FOREIGN(...)`. Every name of the
spelled text must be in the tree: if a lenient parser leaves one out, the query is unreadable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from postern.inspection.lineage.tree_translation import FOREIGN, PLAIN
from postern.inspection.sql.sql_calls import called_at
from postern.inspection.sql.sql_tokens import (
    SqlToken,
    SqlTokenKind,
    UnreadableSql,
    closing,
    dotted_name,
    key_at,
    symbol,
    word,
    words_of,
)
from postern.inspection.sql.sqlglot_tree import tree_of
from postern.protocols.oracledb.dialect import oracle_words as words
from postern.protocols.oracledb.dialect.oracle_parser import reads_hidden_tables
from postern.protocols.oracledb.dialect.oracle_plain import plain_query
from postern.protocols.oracledb.dialect.oracle_reshaping import AddedColumns, with_plain_clauses
from postern.protocols.oracledb.dialect.plsql_names import SCALARS, LocalNames, local_name
from postern.protocols.oracledb.lineage.oracle_builtins import (
    BARE,
    CALLS,
    GRAMMAR,
    LOOSE,
    LOOSE_WORDS,
    OF_CURSORS,
    SESSION_FUNCTIONS,
)
from postern.protocols.oracledb.lineage.oracle_names import folded_name

HELD: Final = "postern_held"  # its result may be what the session holds
REMOTE: Final = "\ue000"  # ends the name of a table of another database
SOFT: Final = "\ue001"  # begins a name that is a column, or nothing at all

Pure = Callable[[tuple[str, ...]], bool]

_OPEN, _CLOSE, _COMMA, _PLUS = symbol("("), symbol(")"), symbol(","), symbol("+")
_ONE: Final = SqlToken(SqlTokenKind.NUMBER, "1")
_NULL: Final = word("NULL")
_BIND: Final = SqlToken(SqlTokenKind.VARIABLE, ":b")
_FRAME_WORDS: Final = words_of(
    "ROWS RANGE GROUPS BETWEEN AND UNBOUNDED PRECEDING FOLLOWING CURRENT ROW EXCLUDE NO OTHERS TIES GROUP INTERVAL DAY "
    "MONTH YEAR HOUR MINUTE SECOND"
)
_LIMIT_WORDS: Final = words_of("OFFSET FETCH FIRST NEXT ROW ROWS PERCENT ONLY WITH TIES")
_LITERALS: Final = frozenset({"DATE", "TIMESTAMP", "INTERVAL"})
_UNITS: Final = words_of("YEAR MONTH DAY HOUR MINUTE SECOND")
# Words that are keywords beside one of these only: before them, or after them.
_AFTER: Final = {
    "APPLY": frozenset({"CROSS", "OUTER"}), "OUTER": frozenset({"LEFT", "RIGHT", "FULL"}),
    "SETS": frozenset({"GROUPING"}), "MATCHED": frozenset({"WHEN", "NOT"}), "FIRST": frozenset({"NULLS", "DENSE_RANK"}),
    "LAST": frozenset({"NULLS", "DENSE_RANK"}), "NULLS": frozenset({"INCLUDE", "EXCLUDE"}),
    "TIMESTAMP": frozenset({"OF"}), "SCN": frozenset({"OF"}), "OF": frozenset({"AS"}), "DENSE_RANK": frozenset(),
}  # fmt: skip
_BEFORE: Final = {
    "PARTITION": frozenset({"BY"}), "GROUPING": frozenset({"SETS"}), "OUTER": frozenset({"APPLY", "JOIN"}),
    "NULLS": frozenset({"FIRST", "LAST"}), "PIVOT": frozenset({"("}), "UNPIVOT": frozenset({"(", "INCLUDE", "EXCLUDE"}),
    "INCLUDE": frozenset({"NULLS"}), "EXCLUDE": frozenset({"NULLS"}), "KEEP": frozenset({"("}),
    "DENSE_RANK": frozenset({"FIRST", "LAST"}), "LATERAL": frozenset({"("}), "ROLLUP": frozenset({"("}),
    "CUBE": frozenset({"("}), "NOCYCLE": frozenset(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SpelledOracle:
    """A spelled query. `has_cursors`: a value of it is a cursor, whose rows are answers of the same statement. `added`
    are columns of queries in WITH."""

    tree: exp.Expr
    has_cursors: bool
    added: AddedColumns


def spell_oracle(tokens: Sequence[SqlToken], verb: str, pure: Pure, names: LocalNames | None = None) -> SpelledOracle:
    """Spell a query. `names` are declared by the block around it: they are columns, or else values of the block. Raises
    UnreadableSql."""
    if reads_hidden_tables(tokens):
        raise UnreadableSql("an XQuery may read tables")
    cursors = any(token.key == "CURSOR" and key_at(tokens, at + 1) == "(" for at, token in enumerate(tokens))
    clauses = with_plain_clauses(_without_links(tokens), many=True)
    plain = plain_query(clauses.tokens, verb)
    speller = _Speller(_without_clauses(plain), verb, pure, names)
    speller.spell()
    tree, nodes = tree_of(speller.spelled, verb, words.GRAMMAR)
    _check_names(speller.names, nodes)
    return SpelledOracle(tree, cursors, clauses.columns)


def _without_links(tokens: Sequence[SqlToken]) -> list[SqlToken]:
    """Mark the names of tables in other databases: `t@remote`."""
    kept: list[SqlToken] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if token.is_name and (REMOTE in token.text or SOFT in token.text):
            raise UnreadableSql("a name in it contains a private character")
        if token.key == "@":
            parts, place = dotted_name(tokens, place + 1)
            if not parts or not kept or not kept[-1].is_name or key_at(tokens, place) in ("(", "@"):
                raise UnreadableSql("a link to another database is not understood")
            kept[-1] = SqlToken(SqlTokenKind.NAME, folded_name(kept[-1]) + REMOTE)
            continue
        kept.append(token)
        place += 1
    return kept


def _without_clauses(tokens: Sequence[SqlToken]) -> list[SqlToken]:
    """Leave out the clauses that do not change where values come from."""
    kept: list[SqlToken] = []
    place = 0
    while place < len(tokens):
        after = _skip(tokens, place)
        if after != place:
            if tokens[place].key == "AT":
                kept += [_PLUS, *([_ONE] if key_at(tokens, place + 1) == "LOCAL" else [])]
            elif tokens[place].key in _LITERALS or tokens[place].key == "JSON":
                kept.append(_ONE if tokens[place].key != "JSON" else _NULL)
            place = after
            continue
        kept.append(tokens[place])
        place += 1
    return kept


def _skip(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the place after a clause that can be left out; the same place if there is none."""
    token, before, after = tokens[place], key_at(tokens, place - 1), key_at(tokens, place + 1)
    key = token.key
    if not key or before == ".":
        return place
    if (
        key in _LITERALS
        and place + 1 < len(tokens)
        and tokens[place + 1].kind is SqlTokenKind.STRING
        and before != "OF"
    ):
        return _behind_interval(tokens, place + 2) if key == "INTERVAL" else place + 2
    if key == "FOR" and after == "UPDATE":
        return _end_of_level(tokens, place, None)
    if key == "SAMPLE" and after in ("(", "BLOCK"):
        place = closing(tokens, place + 1 + (after == "BLOCK")) + 1
        return closing(tokens, place + 1) + 1 if key_at(tokens, place) == "SEED" else place
    if key in ("PARTITION", "SUBPARTITION") and after in ("(", "FOR") and _follows_name(tokens, place):
        return closing(tokens, place + 1 + (after == "FOR")) + 1
    if key == "AT" and after == "LOCAL":
        return place + 2
    if key == "AT" and after == "TIME" and key_at(tokens, place + 2) == "ZONE":
        return place + 3
    if key == "COLLATE" and place + 1 < len(tokens) and tokens[place + 1].is_name:
        return place + 2
    if key in ("ROWS", "RANGE", "GROUPS") and (
        after in ("BETWEEN", "UNBOUNDED", "CURRENT") or _is_frame(tokens, place)
    ):
        return _end_of_level(tokens, place, _FRAME_WORDS)
    if (key == "OFFSET" and _is_offset(tokens, place)) or (key == "FETCH" and after in ("FIRST", "NEXT")):
        return _end_of_level(tokens, place, _LIMIT_WORDS)
    if key in ("IGNORE", "RESPECT") and after == "NULLS":
        return place + 2
    if key == "FROM" and before == ")" and after in ("FIRST", "LAST"):
        return place + 2 if key_at(tokens, place + 2) in ("IGNORE", "RESPECT", "OVER") else place
    if key == "SIBLINGS" and before == "ORDER":
        return place + 1
    if key in ("PRIOR", "CONNECT_BY_ROOT") and after not in (".", ",", ")", ""):
        return place + 1
    if key in ("PRIOR", "CONNECT_BY_ROOT") and place + 1 < len(tokens) and not after:
        return place + 1
    if key == "NOCYCLE" and before == "BY":
        return place + 1
    if key == "JSON" and (before == "IS" or (before == "NOT" and key_at(tokens, place - 2) == "IS")):
        return _behind_is_json(tokens, place + 1)
    return place


def _follows_name(tokens: Sequence[SqlToken], place: int) -> bool:
    return place > 0 and (tokens[place - 1].is_name and tokens[place - 1].key not in GRAMMAR)


def _behind_interval(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the place after the units of an interval: `DAY (2) TO SECOND (3)`."""
    for _ in range(2):
        if key_at(tokens, place) in _UNITS:
            place += 1
            if key_at(tokens, place) == "(":
                place = closing(tokens, place) + 1
        if key_at(tokens, place) == "TO" and key_at(tokens, place + 1) in _UNITS:
            place += 1
    return place


def _behind_is_json(tokens: Sequence[SqlToken], place: int) -> int:
    if key_at(tokens, place) in ("STRICT", "LAX"):
        place += 1
    if key_at(tokens, place) in ("WITH", "WITHOUT") and key_at(tokens, place + 1) == "UNIQUE":
        place += 3
    return place


def _is_frame(tokens: Sequence[SqlToken], place: int) -> bool:
    value = tokens[place + 1] if place + 1 < len(tokens) else tokens[place]
    is_value = value.kind in (SqlTokenKind.NUMBER, SqlTokenKind.VARIABLE) or value.key == "INTERVAL"
    return is_value and "PRECEDING" in [token.key for token in tokens[place : place + 8]]


def _is_offset(tokens: Sequence[SqlToken], place: int) -> bool:
    value = tokens[place + 1] if place + 1 < len(tokens) else tokens[place]
    return value.kind in (SqlTokenKind.NUMBER, SqlTokenKind.VARIABLE) and key_at(tokens, place + 2) in ("ROW", "ROWS")


def _end_of_level(tokens: Sequence[SqlToken], place: int, allowed: frozenset[str] | None) -> int:
    """Return the end of the parentheses around `place`. Raises UnreadableSql for any other word or name than these."""
    depth = 0
    for at in range(place, len(tokens)):
        token = tokens[at]
        depth += (token.key == "(") - (token.key == ")")
        if depth < 0:
            return at
        is_allowed = token.kind in (SqlTokenKind.NUMBER, SqlTokenKind.STRING, SqlTokenKind.VARIABLE)
        if allowed is not None and not is_allowed and token.key not in allowed:
            raise UnreadableSql("a clause with an expression is not understood")
        if token.key == "SELECT":
            raise UnreadableSql("a query at the end of another one is not understood")
    return len(tokens)


@dataclass
class _Speller:
    tokens: Sequence[SqlToken]
    verb: str
    pure: Pure
    local: LocalNames | None = None
    spelled: list[SqlToken] = field(default_factory=list)
    names: Counter[str] = field(default_factory=Counter)

    def spell(self) -> None:
        calls = dict(called_at(self.tokens, CALLS))
        place = 0
        while place < len(self.tokens):
            if place in calls:
                place = self._call(place, calls[place])
                continue
            place = self._token(place)

    def _token(self, place: int) -> int:
        """Spell the token at `place`; return the place of the next."""
        token, key = self.tokens[place], self.tokens[place].key
        before, after = key_at(self.tokens, place - 1), key_at(self.tokens, place + 1)
        if token.is_name and after == "." and before != ".":
            end = self._sequence(place)
            if end:  # a block can have taken a number of values that depends on others
                self.spelled += [word(HELD), _OPEN, _CLOSE]
                return end
        if token.kind is SqlTokenKind.WORD and after == "(" and key in ("CURSOR", "TABLE", "THE", "MULTISET"):
            return self._rows(place + 1)
        if key in BARE and "." not in (before, after):
            self.spelled.append(_ONE)
        elif key == "UNIQUE" and before == "SELECT":
            self.spelled.append(word("DISTINCT"))
        elif key == "DEFAULT":
            self.spelled.append(_NULL)
        elif token.kind is SqlTokenKind.VARIABLE:
            self.spelled.append(_BIND)
        elif token.is_name and ("." in (before, after) or not self._is_keyword(token, place)):
            self._name(token, is_soft=self._is_soft(place))
        elif key in ("[", "]", "!"):
            raise UnreadableSql("it is not understood")
        else:
            self.spelled.append(token)
        return place + 1

    def _sequence(self, place: int) -> int:
        """Return the place after the value of a sequence; 0 if there is none."""
        _, end = dotted_name(self.tokens, place)
        is_value = key_at(self.tokens, end - 1) in ("NEXTVAL", "CURRVAL") and key_at(self.tokens, end) != "("
        return end if is_value else 0

    def _name(self, token: SqlToken, *, is_soft: bool = False) -> None:
        text = (SOFT if is_soft else "") + folded_name(token)
        self.names[text] += 1
        self.spelled.append(SqlToken(SqlTokenKind.NAME, text))

    def _is_soft(self, place: int) -> bool:
        """Return whether a name may be no column: a value that the block declares, or a pseudocolumn."""
        token = self.tokens[place]
        if "." in (key_at(self.tokens, place - 1), key_at(self.tokens, place + 1)):
            return False
        if token.key in ("CONNECT_BY_ISLEAF", "CONNECT_BY_ISCYCLE", "TRUE", "FALSE"):
            return True
        return self.local is not None and self.local.kind(local_name(token)) is not None and not self._is_alias(place)

    def _is_alias(self, place: int) -> bool:
        """Return whether a name follows what ends an expression or a table, so that it names these."""
        before = self.tokens[place - 1] if place else self.tokens[place]
        if before.key in ("AS", ")", "END", "NULL", "FROM", "JOIN", "INTO", "UPDATE", "USING"):
            return True
        is_name = before.is_name and not self._is_keyword(before, place - 1)
        return is_name or before.kind in (SqlTokenKind.NUMBER, SqlTokenKind.VARIABLE, SqlTokenKind.STRING)

    def _is_keyword(self, token: SqlToken, place: int) -> bool:
        if token.kind is SqlTokenKind.NAME:
            return False
        key, before, after = token.key, key_at(self.tokens, place - 1), key_at(self.tokens, place + 1)
        if key == "USING" and self.verb != "MERGE":
            return after == "("
        if key == "START":
            return after == "WITH"
        return key in GRAMMAR or before in _AFTER.get(key, ()) or after in _BEFORE.get(key, ())

    def _rows(self, bracket: int) -> int:
        """Spell the rows of a collection or of a query as those of a function of it."""
        end = closing(self.tokens, bracket)
        inner = list(self.tokens[bracket + 1 : end])
        self.spelled += [word(PLAIN), _OPEN]
        self._nest([_OPEN, *inner, _CLOSE] if key_at(inner, 0) in ("SELECT", "WITH") else inner)
        self.spelled.append(_CLOSE)
        return end + 1

    def _nest(self, tokens: Sequence[SqlToken]) -> None:
        nested = _Speller([_COMMA, *tokens], self.verb, self.pure, self.local, names=self.names)
        nested.spell()
        self.spelled += nested.spelled[1:]  # with a token in front of it, a call at the beginning is one

    def _call(self, start: int, bracket: int) -> int:
        """Spell the beginning of a call, or all of it if it has words between its arguments."""
        parts = tuple(folded_name(each) for each in self.tokens[start:bracket] if each.key != ".")
        last = self.tokens[bracket - 1]
        called = last.key if len(parts) == 1 and last.kind is SqlTokenKind.WORD else ""
        end = closing(self.tokens, bracket)
        has_binds = any(token.kind is SqlTokenKind.VARIABLE for token in self.tokens[bracket:end])
        own = parts[1:] if parts[0] == "SYS" else parts
        if ".".join(own) in SESSION_FUNCTIONS or (called in OF_CURSORS and has_binds):
            self.spelled.append(word(HELD))
            return bracket
        if not (called and self.pure(parts)) and not (len(parts) > 1 and self.pure(parts)):
            if self.local is not None and len(parts) == 1 and self.local.is_collection(last):
                self.spelled.append(word(PLAIN))  # an element of a collection
                return bracket
            self.spelled.append(word(FOREIGN))
            return bracket
        if called == "COUNT":
            self.spelled.append(word("COUNT"))
            return bracket
        self.spelled.append(word(PLAIN))
        if called not in LOOSE:
            return bracket
        inner = _arguments(called, self.tokens[bracket + 1 : end])
        self.spelled.append(_OPEN)
        self._loose(inner)
        self.spelled.append(_CLOSE)
        return end + 1

    def _loose(self, tokens: Sequence[SqlToken]) -> None:
        """Spell everything between the parentheses that may have a value, as a list."""
        is_first = True
        calls = dict(called_at([word("X"), *tokens], CALLS))
        place = 0
        while place < len(tokens):
            start, end = place, _end_of_operand(tokens, place, {at - 1: to - 1 for at, to in calls.items()})
            place = max(end, start + 1)
            if end == start:
                continue
            if not is_first:
                self.spelled.append(_COMMA)
            is_first = False
            token = tokens[start]
            if end == start + 1 and token.is_name and token.key in LOOSE_WORDS:
                self._name(token, is_soft=True)
            elif token.key == "*":
                self.spelled.append(token)
            else:
                self._nest(tokens[start:end])


def _end_of_operand(tokens: Sequence[SqlToken], place: int, calls: dict[int, int]) -> int:
    """Return the end of the name, call or query that starts here; the same place if there is none."""
    token, before = tokens[place], key_at(tokens, place - 1)
    if place in calls and not (tokens[place].key in SCALARS and before in ("AS", "RETURNING")):
        end = closing(tokens, calls[place]) + 1
        while key_at(tokens, end) in ("OVER", "WITHIN", "KEEP"):
            end = closing(tokens, end + 1 + (key_at(tokens, end) == "WITHIN")) + 1
        return end
    if token.key == "(" and key_at(tokens, place + 1) in ("SELECT", "WITH"):
        return closing(tokens, place) + 1
    if token.key == "CURSOR" or (token.key == "EXISTS" and key_at(tokens, place + 1) == "("):
        raise UnreadableSql("a query in the arguments of a function is not understood")
    if token.key == "*" and (place == 0 or before in ("VALUE", ",")) and len(tokens) == place + 1:
        return place + 1
    if not token.is_name or (token.kind is SqlTokenKind.WORD and token.key in GRAMMAR | BARE):
        return place
    _, end = dotted_name(tokens, place)
    if key_at(tokens, end - 1) == "." and key_at(tokens, end) == "*":
        return end + 1
    return place if before == "AS" else end


def _arguments(called: str, tokens: Sequence[SqlToken]) -> list[SqlToken]:
    """Return the arguments of a call without types, tags, and definitions of columns."""
    inner = list(tokens)
    if called in ("JSON_TABLE", "XMLTABLE"):
        return _without_columns(inner)
    if called in ("XMLELEMENT", "XMLPI"):
        place = int(key_at(inner, 0) in ("NAME", "ENTITYESCAPING", "NOENTITYESCAPING") and key_at(inner, 1) != ",")
        if key_at(inner, 0) != "EVALNAME" and key_at(inner, place + 1) in ("", ",", ")"):
            return inner[place + 1 :]
        if key_at(inner, 0) != "EVALNAME":
            raise UnreadableSql("the name of an element is not understood")
    if called in ("CAST", "TREAT", "XMLCAST"):
        place = _last_at_level(inner, "AS")
        rest = inner[place:]
        default = next((at for at, token in enumerate(rest) if token.key == "DEFAULT"), len(rest))
        return [*inner[:place], *rest[default:]]
    return inner


def _without_columns(tokens: list[SqlToken]) -> list[SqlToken]:
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.key == "(") - (token.key == ")")
        if depth == 0 and token.key == "COLUMNS" and key_at(tokens, place - 1) not in ("PASSING", ",", "(", ""):
            return _check_columns(tokens, place)
        if depth == 0 and token.key == "COLUMNS" and tokens[place - 1].kind is SqlTokenKind.STRING:
            return _check_columns(tokens, place)
    return tokens


def _check_columns(tokens: list[SqlToken], place: int) -> list[SqlToken]:
    """Return what precedes the definitions of columns, if no default value in them is an expression."""
    for at in range(place, len(tokens)):
        following = tokens[at + 1] if at + 1 < len(tokens) else tokens[at]
        is_constant = following.kind in (SqlTokenKind.STRING, SqlTokenKind.NUMBER, SqlTokenKind.VARIABLE)
        if tokens[at].key == "DEFAULT" and not is_constant and following.key not in ("NULL", "-"):
            raise UnreadableSql("the default of a column is not understood")
        if tokens[at].key == "SELECT":
            raise UnreadableSql("a query in the definition of columns is not understood")
    return tokens[:place]


def _last_at_level(tokens: Sequence[SqlToken], key: str) -> int:
    """Return the place of the last token with this key outside of brackets; the end without one."""
    depth, found = 0, len(tokens)
    for place, token in enumerate(tokens):
        depth += (token.key == "(") - (token.key == ")")
        if depth == 0 and token.key == key:
            found = place
    return found


def _check_names(names: Counter[str], nodes: Sequence[exp.Expr]) -> None:
    counter: Counter[str] = Counter()
    for node in nodes:
        counter.update(value for value in node.args.values() if isinstance(value, str))
    for name, count in names.items():
        if count > counter[name]:
            raise UnreadableSql("a name in it is not understood")
