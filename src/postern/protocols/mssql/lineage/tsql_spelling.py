"""Spelling of a query for sqlglot: T-SQL's tokens, in words with one meaning only.

Every word that T-SQL does not reserve becomes a quoted name, so that sqlglot cannot take it for a keyword of another
dialect. Clauses that do not change where values come from are left out: hints, collations, window frames, types. A
function whose result depends on its arguments becomes `PLAIN(...)`, any other `FOREIGN(...)`. Variables get numbers.
Every name of the spelled text must be in the tree: if a lenient parser leaves one out, the query is unreadable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from postern.inspection.lineage.tree_translation import FOREIGN, PLAIN
from postern.inspection.sql.sql_calls import called_at
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, closing, key_at, symbol, word
from postern.inspection.sql.sqlglot_tree import tree_of
from postern.protocols.mssql.dialect import tsql_words as words
from postern.protocols.mssql.lineage.tsql_builtins import BARE, CALLS, DATE_PARTS, GRAMMAR, TABLE_HINTS

ACTION: Final = "postern_action"  # stands for $action
TEMPORARY: Final = "\ue000"  # stands for the # of a temporary table, which sqlglot would drop

Pure = Callable[[tuple[str, ...]], bool]

_OPEN, _CLOSE, _COMMA, _PLUS = symbol("("), symbol(")"), symbol(","), symbol("+")
_ONE: Final = SqlToken(SqlTokenKind.NUMBER, "1")
_NULL: Final = word("NULL")
_FRAMES: Final = frozenset({"BETWEEN", "CURRENT", "UNBOUNDED"})
# Words that are keywords beside one of these only: before them, or after them.
_AFTER: Final = {
    "APPLY": frozenset({"CROSS", "OUTER"}),
    "ONLY": frozenset({"ROW", "ROWS"}),
    "SETS": frozenset({"GROUPING"}),
    "MATCHED": frozenset({"WHEN", "NOT"}),
    "SOURCE": frozenset({"BY"}),
    "TARGET": frozenset({"BY"}),
    "NEXT": frozenset({"FETCH"}),
    "FIRST": frozenset({"FETCH"}),
}
_BEFORE: Final = {
    "PARTITION": frozenset({"BY"}),
    "GROUPING": frozenset({"SETS"}),
    "FETCH": frozenset({"NEXT", "FIRST"}),
    "ROW": frozenset({"FETCH", "ONLY", "", ")"}),
    "ROWS": frozenset({"FETCH", "ONLY", "", ")"}),
}


@dataclass(frozen=True, slots=True)
class SpelledTsql:
    """A spelled query. `variables` are the real names, with @, behind those in the tree. `is_document`: its rows are
    one document (FOR XML, FOR JSON)."""

    tree: exp.Expr
    variables: dict[str, str]


def spell_query(tokens: Sequence[SqlToken], verb: str, pure: Pure) -> SpelledTsql:
    """Spell a query, from `plain_query`'s tokens. Raises UnreadableSql."""
    speller = _Speller(_without_clauses(tokens), verb, pure)
    speller.spell()
    tree, nodes = tree_of(speller.spelled, verb, words.GRAMMAR)
    _check_names(speller.names, nodes)
    return SpelledTsql(tree, speller.variables)


def _without_clauses(tokens: Sequence[SqlToken]) -> list[SqlToken]:
    """Leave out the clauses that do not change where values come from."""
    kept: list[SqlToken] = []
    place = 0
    while place < len(tokens):
        skipped = _skip(tokens, place)
        if skipped != place:
            if tokens[place].key == "FOR" and key_at(tokens, place + 1) in ("XML", "JSON"):
                kept += [tokens[place], word("XML"), word("AUTO")]
            elif tokens[place].key == "AT":
                kept.append(_PLUS)
            elif tokens[place].key == "COLLATE":
                kept += [_PLUS, _ONE]  # not a column any more, which has a name
            place = skipped
            continue
        kept.append(tokens[place])
        place += 1
    return kept


def _skip(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the place after a clause that can be left out; the same place if there is none."""
    token, after = tokens[place], key_at(tokens, place + 1)
    key = token.key
    if key == "FOR" and after in ("XML", "JSON"):
        return _end_of_level(tokens, place, frozenset({"OPTION"}))
    if key == "FOR" and after == "BROWSE":
        raise UnreadableSql("FOR BROWSE adds columns")
    if key == "FOR" and tokens[place + 1 : place + 2] and tokens[place + 1].text.upper() == "SYSTEM_TIME":
        return _behind_system_time(tokens, place + 2)
    if key in ("WITH", "OPTION") and after == "(":
        return closing(tokens, place + 1) + 1
    if key == "WITH" and after in ("ROLLUP", "CUBE", "TIES") and key_at(tokens, place + 2) != "AS":
        return place + 2
    if key == "(" and place and tokens[place - 1].is_name and _are_hints(tokens[place + 1 : closing(tokens, place)]):
        return closing(tokens, place) + 1
    if key == "TABLESAMPLE":
        return _behind_sample(tokens, place + 1)
    if key == "PERCENT" and key_at(tokens, place - 1) in (")", "") and place:
        return place + 1
    if key == "COLLATE":
        return place + 2
    if key in ("ROWS", "RANGE") and (after in _FRAMES or _is_number(tokens, place + 1)):
        is_frame = after in _FRAMES or key_at(tokens, place + 2) in ("PRECEDING", "FOLLOWING")
        return _end_of_level(tokens, place, frozenset()) if is_frame else place
    if key in ("IGNORE", "RESPECT") and after == "NULLS":
        return place + 2
    if key in ("LOOP", "HASH", "REMOTE", "MERGE") and after == "JOIN":
        return place + 1
    if key == "AT" and after == "TIME" and key_at(tokens, place + 2) == "ZONE":
        return place + 3
    if after == "::" and token.is_name:
        return place + 2
    return place


def _end_of_level(tokens: Sequence[SqlToken], place: int, ends: frozenset[str]) -> int:
    depth = 0
    for at in range(place, len(tokens)):
        key = tokens[at].key
        depth += (key == "(") - (key == ")")
        if depth < 0 or (depth == 0 and key in ends):
            return at
    return len(tokens)


def _behind_system_time(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the place after FOR SYSTEM_TIME, whose times are literals or variables."""
    kind = key_at(tokens, place)
    lengths = {"AS": 3, "FROM": 4, "BETWEEN": 4, "ALL": 1}
    if kind == "CONTAINED":
        return closing(tokens, place + 2) + 1
    if kind not in lengths:
        raise UnreadableSql("FOR SYSTEM_TIME is not understood")
    return place + lengths[kind]


def _behind_sample(tokens: Sequence[SqlToken], place: int) -> int:
    place += key_at(tokens, place) == "SYSTEM"
    place = closing(tokens, place) + 1
    return closing(tokens, place + 1) + 1 if key_at(tokens, place) == "REPEATABLE" else place


def _are_hints(tokens: Sequence[SqlToken]) -> bool:
    return bool(tokens) and all(token.key in TABLE_HINTS or token.key == "," for token in tokens)


def _is_number(tokens: Sequence[SqlToken], place: int) -> bool:
    return place < len(tokens) and tokens[place].kind is SqlTokenKind.NUMBER


@dataclass
class _Speller:
    tokens: Sequence[SqlToken]
    verb: str
    pure: Pure
    spelled: list[SqlToken] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
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
        if key == "NEXT" and after == "VALUE" and key_at(self.tokens, place + 2) == "FOR":
            self.spelled.append(_ONE)
            place += 3
            while place < len(self.tokens) and (self.tokens[place].is_name or self.tokens[place].key == "."):
                place += 1
            return place
        if key in BARE and "." not in (before, after):
            self.spelled.append(_ONE)
        elif key == "DEFAULT" and after != "VALUES":
            self.spelled.append(_NULL)
        elif token.kind is SqlTokenKind.VARIABLE:
            self._variable(token)
        elif token.kind is SqlTokenKind.STRING and self._is_alias(place):
            if token.content is None:
                raise UnreadableSql("a name in it is unknown")
            self._name(token.content)
        elif token.is_name and ("." in (before, after) or not self._is_keyword(token, place)):
            self._name(token.text)
        else:
            self.spelled.append(token)
        return place + 1

    def _variable(self, token: SqlToken) -> None:
        if token.text.startswith("@"):
            number = f"v{len(self.variables)}"
            self.variables[number] = token.text
            self.spelled.append(SqlToken(SqlTokenKind.VARIABLE, f"@{number}"))
        elif token.text.lower() == "$action":
            self.spelled += [word(ACTION), _OPEN, _CLOSE]
        elif token.text == "?":
            self.spelled.append(token)
        else:
            self._name(token.text)

    def _name(self, text: str) -> None:
        if TEMPORARY in text or text.startswith("@"):
            raise UnreadableSql("a name in it looks like a variable or contains a private character")
        if text.startswith("#"):
            text = text.replace("#", TEMPORARY)
        self.names[text.lower()] += 1
        self.spelled.append(SqlToken(SqlTokenKind.NAME, text))

    def _is_keyword(self, token: SqlToken, place: int) -> bool:
        if token.kind is SqlTokenKind.NAME:
            return False
        key, before, after = token.key, key_at(self.tokens, place - 1), key_at(self.tokens, place + 1)
        if key in GRAMMAR or before in _AFTER.get(key, ()) or after in _BEFORE.get(key, ()):
            return True
        if key == "OFFSET":
            following = self.tokens[place + 1] if place + 1 < len(self.tokens) else token
            return following.kind in (SqlTokenKind.NUMBER, SqlTokenKind.VARIABLE) or following.key == "("
        if key in ("ROLLUP", "CUBE"):
            return after == "("
        if key in ("XML", "AUTO"):
            return before == "FOR" or (before == "XML" and key_at(self.tokens, place - 2) == "FOR")
        return key == "USING" and self.verb == "MERGE"

    def _is_alias(self, place: int) -> bool:
        """Return whether the string at `place` names a column: `a AS 'x'`, `a 'x'`, `'x' = a`."""
        before = self.tokens[place - 1] if place else self.tokens[place]
        if before.key == "AS":
            return True
        if key_at(self.tokens, place + 1) == "=" and before.key in ("SELECT", ",", "DISTINCT"):
            return True
        if before.key in (")", "END", "NULL"):
            return True
        is_name = before.kind is SqlTokenKind.NAME or (
            before.kind is SqlTokenKind.WORD and not self._is_keyword(before, place - 1)
        )
        return is_name or before.kind in (SqlTokenKind.NUMBER, SqlTokenKind.VARIABLE, SqlTokenKind.STRING)

    def _call(self, start: int, bracket: int) -> int:
        """Spell the beginning of a call, or all of it if sqlglot reads it in a way of its own."""
        parts = tuple(each.text for each in self.tokens[start:bracket] if each.key != ".")
        last = self.tokens[bracket - 1]
        is_quoted = last.kind is SqlTokenKind.NAME and len(parts) == 1
        called = last.key if len(parts) == 1 else ""
        if is_quoted or not self.pure(parts):
            self.spelled.append(word(FOREIGN))
            return bracket
        if called in ("COUNT", "COUNT_BIG"):
            self.spelled.append(word("COUNT"))
            return bracket
        self.spelled.append(word(PLAIN))
        inner = self._arguments(called, bracket)
        if inner is None:
            return bracket
        within = [_OPEN, *inner, _CLOSE]
        nested = _Speller(within, self.verb, self.pure, variables=self.variables, names=self.names)
        nested.spell()
        self.spelled += nested.spelled
        return closing(self.tokens, bracket) + 1

    def _arguments(self, called: str, bracket: int) -> list[SqlToken] | None:
        """Return the arguments of a call without a type or a part of a date; None for a plain list."""
        inner = list(self.tokens[bracket + 1 : closing(self.tokens, bracket)])
        if called in ("CAST", "TRY_CAST", "PARSE", "TRY_PARSE"):
            return inner[: _last_at_level(inner, "AS")]
        if called in ("CONVERT", "TRY_CONVERT", "IDENTITY") or (called in DATE_PARTS and _is_date_part(inner)):
            return inner[_last_at_level(inner, ",", first=True) + 1 :]
        if called == "TRIM":
            inner = inner[key_at(inner, 0) in ("LEADING", "TRAILING", "BOTH") :]
            place = _last_at_level(inner, "FROM")
            return inner if place == len(inner) else [*inner[:place], _COMMA, *inner[place + 1 :]]
        return None


def _is_date_part(tokens: Sequence[SqlToken]) -> bool:
    return bool(tokens) and tokens[0].is_name and key_at(tokens, 1) == ","


def _last_at_level(tokens: Sequence[SqlToken], key: str, *, first: bool = False) -> int:
    """Return the place of the last token with this key outside of brackets, or of the first; the end without one."""
    depth, found = 0, len(tokens)
    for place, token in enumerate(tokens):
        depth += (token.key == "(") - (token.key == ")")
        if depth == 0 and token.key == key:
            if first:
                return place
            found = place
    return found


def _check_names(names: Counter[str], nodes: Sequence[exp.Expr]) -> None:
    counter: Counter[str] = Counter()
    for node in nodes:
        counter.update(value.lower() for value in node.args.values() if isinstance(value, str))
    for name, count in names.items():
        if count > counter[name]:
            raise UnreadableSql("a name in it is not understood")
