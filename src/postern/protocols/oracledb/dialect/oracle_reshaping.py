"""Clauses that make other columns of the rows before them, in a plainer spelling: PIVOT XML, SEARCH and CYCLE,
MATCH_RECOGNIZE, and MODEL.

    t MATCH_RECOGNIZE (PARTITION BY p MEASURES m AS x … DEFINE A AS c)
        ▶ (SELECT p, COALESCE(m, c) AS x FROM t GROUP BY 1)
    SELECT … FROM t MODEL … MEASURES (m) … RULES (r)
        ▶ SELECT * FROM (SELECT *, m, r FROM t GROUP BY 1)

A measure can show which rows match, so it is made of the conditions of all pattern variables as well. Columns of a
MODEL are made of all columns before it, and of everything that is named in it. With GROUP BY, a query with an aggregate
is not taken for one of a single row.

What is not listed here is unreadable: a word that was taken for a keyword could be a column of a query around this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from postern.inspection.sql.sql_tokens import (
    SqlToken,
    SqlTokenKind,
    UnreadableSql,
    closing,
    dotted_name,
    key_at,
    split_at_commas,
    symbol,
    word,
    words_of,
)

AFTER_MODEL: Final = frozenset(
    {"PARTITION", "DIMENSION", "RETURN", "UNIQUE", "IGNORE", "KEEP", "REFERENCE", "MAIN", "MEASURES"}
)
_OPEN, _CLOSE, _COMMA, _STAR = symbol("("), symbol(")"), symbol(","), symbol("*")
_ONE: Final = SqlToken(SqlTokenKind.NUMBER, "1")
_GROUPED: Final = (word("GROUP"), word("BY"), _ONE)
_KEYS: Final = frozenset({"XML", "SEARCH", "CYCLE", "MATCH_RECOGNIZE", "MODEL"})
_SET_OPERATORS: Final = frozenset({"UNION", "INTERSECT", "MINUS", "EXCEPT"})

AddedColumns = dict[str, tuple[str, ...]]
"""The columns that SEARCH and CYCLE add to a query in WITH, by its name in upper case."""


@dataclass(frozen=True, slots=True)
class PlainClauses:
    """`tokens` without these clauses. `columns` of each query in WITH come after those that it lists."""

    tokens: list[SqlToken]
    columns: AddedColumns = field(default_factory=dict)


def with_plain_clauses(tokens: Sequence[SqlToken], *, many: bool = False) -> PlainClauses:
    """Return a statement without these clauses. `many`: columns whose order is not known become a function in FROM,
    which can have any. Raises UnreadableSql."""
    plain = PlainClauses(list(tokens))
    if _KEYS.isdisjoint([token.key for token in tokens]):
        return plain
    place = len(tokens) - 1
    while place >= 0:  # from the last on, so that clauses within others come first
        place = min(place, len(plain.tokens) - 1)
        key, before, after = (key_at(plain.tokens, place + at) for at in (0, -1, 1))
        if key == "XML" and before == "PIVOT" and after == "(":
            del plain.tokens[place]
        elif key in ("SEARCH", "CYCLE") and before == ")" and _ends_cte(plain.tokens, place - 1):
            _remove_added(plain, place)
        elif key == "MATCH_RECOGNIZE" and after == "(" and _follows_rows(plain.tokens, place):
            place = _replace_pattern(plain.tokens, place, many=many)
        elif key == "MODEL" and after in AFTER_MODEL and before not in (".", "SELECT", ","):
            place = _replace_model(plain.tokens, place, many=many)
        place -= 1
    return plain


# SEARCH and CYCLE


def _remove_added(plain: PlainClauses, place: int) -> None:
    """Remove the clause at `place`, with those after it, and record the columns that it adds."""
    tokens = plain.tokens
    end, added = place, list[str]()
    while key_at(tokens, end) in ("SEARCH", "CYCLE"):
        if key_at(tokens, end) == "SEARCH":
            if [key_at(tokens, end + at) for at in (2, 3)] != ["FIRST", "BY"]:
                raise UnreadableSql("SEARCH is not understood")
            end = _behind_columns(tokens, end + 4)
        else:
            end = _behind_columns(tokens, end + 1)
        is_cycle = key_at(tokens, end + 2) == "TO"
        if end + 1 >= len(tokens) or not tokens[end + 1].is_name:
            raise UnreadableSql("SET after SEARCH or CYCLE is not understood")
        added.append(_fold_name(tokens[end + 1]))
        end += 2
        if is_cycle:
            values = [tokens[at].kind for at in (end + 1, end + 3) if at < len(tokens)]
            is_constant = all(kind in (SqlTokenKind.STRING, SqlTokenKind.NUMBER) for kind in values)
            if len(values) < 2 or not is_constant or key_at(tokens, end + 2) != "DEFAULT":
                raise UnreadableSql("CYCLE is not understood")
            end += 4
    name = _name_of_cte(tokens, place - 1)
    if name in plain.columns:
        raise UnreadableSql("two queries in WITH have the same name")
    plain.columns[name] = tuple(added)
    del tokens[place:end]


def _ends_cte(tokens: Sequence[SqlToken], close: int) -> bool:
    return key_at(tokens, _opening(tokens, close) - 1) == "AS"


def _behind_columns(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the place of SET, after a list of columns."""
    while key_at(tokens, place) != "SET":
        token = tokens[place] if place < len(tokens) else symbol("")
        if not token.is_name and token.key != ",":
            raise UnreadableSql("SEARCH or CYCLE is not understood")
        place += 1
    return place


def _name_of_cte(tokens: Sequence[SqlToken], close: int) -> str:
    """Return the name of the query in WITH that ends at `close`."""
    start = _opening(tokens, close) - 2
    if key_at(tokens, start) == ")":
        start = _opening(tokens, start) - 1
    if start < 0 or not tokens[start].is_name:
        raise UnreadableSql("SEARCH or CYCLE is not understood")
    return _fold_name(tokens[start])


def _opening(tokens: Sequence[SqlToken], close: int) -> int:
    """Return the place of the parenthesis that `close` closes; -1 without one."""
    depth = 0
    for place in range(close, -1, -1):
        depth += (tokens[place].key == ")") - (tokens[place].key == "(")
        if depth == 0:
            return place
    return -1


def _fold_name(token: SqlToken) -> str:
    return token.text.upper() if token.kind is SqlTokenKind.WORD else token.text


# MATCH_RECOGNIZE

_SECTIONS: Final = ("PARTITION", "ORDER", "MEASURES", "ROWS", "AFTER", "PATTERN", "SUBSET", "DEFINE")
_NAVIGATION: Final = frozenset({"FIRST", "LAST", "NEXT", "PREV"})
_NUMBERS: Final = frozenset({"CLASSIFIER", "MATCH_NUMBER"})


def _follows_rows(tokens: Sequence[SqlToken], place: int) -> bool:
    before = tokens[place - 1] if place else symbol("")
    return before.key == ")" or (before.is_name and before.key not in ("SELECT", "BY", "WHERE", "AND", "OR", "NOT"))


def _section_at(tokens: Sequence[SqlToken], place: int) -> tuple[str, int]:
    """Return the section that begins at `place`, and how many words introduce it; empty if none does."""
    key, after = key_at(tokens, place), key_at(tokens, place + 1)
    if key_at(tokens, place - 1) == ".":
        return "", 0
    if (key, after) in (("PARTITION", "BY"), ("ORDER", "BY"), ("AFTER", "MATCH")):
        return key, 2
    if (key, after) in (("ONE", "ROW"), ("ALL", "ROWS")) and key_at(tokens, place + 2) == "PER":
        return "ROWS", 0
    return (key, 1) if key in ("MEASURES", "PATTERN", "SUBSET", "DEFINE") else ("", 0)


def _sections(tokens: Sequence[SqlToken]) -> dict[str, list[SqlToken]]:
    """Split what is in the parentheses of MATCH_RECOGNIZE into its sections, which have one order only."""
    sections: dict[str, list[SqlToken]] = {}
    place, depth, current = 0, 0, ""
    while place < len(tokens):
        name, count = _section_at(tokens, place) if depth == 0 else ("", 0)
        if name:
            if name in sections or (current and _SECTIONS.index(name) < _SECTIONS.index(current)):
                raise UnreadableSql("MATCH_RECOGNIZE is not understood")
            current = name
            sections[current] = []
            place += count
            if count:
                continue
        if not current:
            raise UnreadableSql("MATCH_RECOGNIZE is not understood")
        depth += (key_at(tokens, place) == "(") - (key_at(tokens, place) == ")")
        sections[current].append(tokens[place])
        place += 1
    listed = [*sections.get("PARTITION", ()), *sections.get("ORDER", ())]
    if not {"PATTERN", "DEFINE"} <= sections.keys() or not all(
        each.is_name or each.key in (",", ".") for each in listed
    ):
        raise UnreadableSql("MATCH_RECOGNIZE is not understood")
    return sections


def _replace_pattern(tokens: list[SqlToken], place: int, *, many: bool) -> int:
    """Replace the clause at `place`, with the rows before it. Return where the replacement ends."""
    end = closing(tokens, place + 1)
    sections = _sections(tokens[place + 2 : end])
    start = _start_of_rows(tokens, place)
    patterns = [*sections["PATTERN"], *sections.get("SUBSET", ())]
    variables = {_fold_name(token) for token in patterns if token.is_name}
    conditions: list[SqlToken] = []
    for part in split_at_commas(sections["DEFINE"]):
        if len(part) < 3 or not part[0].is_name or part[1].key != "AS":
            raise UnreadableSql("DEFINE is not understood")
        variables.add(_fold_name(part[0]))
        conditions += [_COMMA, *part[2:]]
    has_all_rows = key_at(sections.get("ROWS", ()), 0) == "ALL"
    listed = [_STAR] if has_all_rows else []
    if "PARTITION" in sections and not has_all_rows:
        listed += sections["PARTITION"]
    for part in split_at_commas(sections["MEASURES"]) if "MEASURES" in sections else ():
        if len(part) < 3 or part[-2].key != "AS" or not part[-1].is_name:
            raise UnreadableSql("MEASURES is not understood")
        value = [word("COALESCE"), _OPEN, *part[:-2], *conditions, _CLOSE, *part[-2:]]
        listed += [*([_COMMA] if listed else []), *_without_variables(value, variables)]
    if not listed:
        raise UnreadableSql("MATCH_RECOGNIZE without a column is not understood")
    query = [_OPEN, word("SELECT"), *listed, word("FROM"), *tokens[start:place], *_GROUPED, _CLOSE]
    # Of all rows, the columns by which it is divided and sorted come first.
    replacement = [word("TABLE"), *query] if many and has_all_rows else query
    tokens[start : end + 1] = replacement
    return start + len(replacement)


def _start_of_rows(tokens: Sequence[SqlToken], place: int) -> int:
    """Return where the table, view or query begins whose rows are before `place`."""
    start = place - 1
    if tokens[start].key == ")":
        start = _opening(tokens, start)
        while start > 0 and (tokens[start - 1].is_name and tokens[start - 1].key not in _BEFORE_ROWS):
            start -= 1
    while start > 1 and tokens[start - 1].key in (".", "@") and tokens[start - 2].is_name:
        start -= 2
    if key_at(tokens, start - 1) not in _BEFORE_ROWS:
        raise UnreadableSql("the rows before MATCH_RECOGNIZE are not understood")
    return start


_BEFORE_ROWS: Final = frozenset({"FROM", "JOIN", ",", "(", "APPLY", "USING"})


def _without_variables(tokens: Sequence[SqlToken], variables: set[str]) -> list[SqlToken]:
    """Return an expression without pattern variables before columns, and without what moves between rows."""
    kept: list[SqlToken] = []
    place = 0
    while place < len(tokens):
        token, after = tokens[place], key_at(tokens, place + 1)
        is_first = key_at(tokens, place - 1) != "."
        if token.is_name and is_first and after == "." and _fold_name(token) in variables:
            place += 2
        elif token.key in ("RUNNING", "FINAL") and place + 1 < len(tokens) and tokens[place + 1].is_name:
            place += 1
        elif token.key in _NAVIGATION and after == "(" and is_first:
            kept.append(word("COALESCE"))
            place += 1
        elif token.key in _NUMBERS and after == "(" and key_at(tokens, place + 2) == ")" and is_first:
            kept.append(_ONE)
            place += 3
        else:
            kept.append(token)
            place += 1
    return kept


# MODEL

_OPTIONS: Final = words_of(
    """
    RETURN UPDATED ALL ROWS IGNORE KEEP NAV UNIQUE DIMENSION SINGLE MAIN RULES UPDATE UPSERT AUTOMATIC SEQUENTIAL ORDER
    """
)
_CELL_FUNCTIONS: Final = frozenset({"CV", "PRESENTV", "PRESENTNNV", "PREVIOUS"})
# Reserved words of Oracle: none can be a column without quotation marks.
_RESERVED: Final = words_of(
    "ALL AND ANY ASC BETWEEN BY DESC FOR FROM IN INCREMENT IS LIKE NOT NULL OR ORDER THEN TO UPDATE"
)


def _replace_model(tokens: list[SqlToken], place: int, *, many: bool) -> int:
    """Replace the query with the MODEL at `place`. Return where the replacement ends."""
    start, end = _start_of_query(tokens, place), _end_of_query(tokens, place)
    source = next((at for at in _outside(tokens, start, place) if tokens[at].key == "FROM"), -1)
    if source < 0:
        raise UnreadableSql("MODEL without FROM is not understood")
    clause = _ModelClause(tokens[place:end])
    clause.read()
    values = [*clause.values, *_listed_values(tokens[start + 1 : source], clause.names)]
    is_grouped = any(tokens[at].key == "GROUP" for at in _outside(tokens, source, place))
    query = [_OPEN, word("SELECT"), _STAR, *values, *tokens[source:place], *(() if is_grouped else _GROUPED), _CLOSE]
    head = [word("SELECT"), _STAR, word("FROM"), *([word("TABLE")] if many else [])]
    tokens[start:end] = [*head, *query]
    return start + len(head) + len(query)


def _outside(tokens: Sequence[SqlToken], start: int, end: int) -> list[int]:
    """Return the places outside of parentheses."""
    places: list[int] = []
    depth = 0
    for place in range(start, end):
        if depth == 0:
            places.append(place)
        depth += (tokens[place].key == "(") - (tokens[place].key == ")")
    return places


def _start_of_query(tokens: Sequence[SqlToken], place: int) -> int:
    depth = 0
    for at in range(place - 1, -1, -1):
        depth += (tokens[at].key == ")") - (tokens[at].key == "(")
        if depth < 0:
            break
        if depth == 0 and tokens[at].key == "SELECT":
            return at
    raise UnreadableSql("the query before MODEL is not understood")


def _end_of_query(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the end of the clause: what follows it are ORDER BY, a set operation, or the end of the query."""
    depth = 0
    for at in range(place, len(tokens)):
        key, after = tokens[at].key, key_at(tokens, at + 1)
        if depth == 0 and (key == ")" or key in _SET_OPERATORS or (key, after) == ("ORDER", "BY")):
            return at
        depth += (key == "(") - (key == ")")
    return len(tokens)


class _ModelClause:
    """Reads a MODEL. `names` are its columns, `values` what they are made of besides the rows before it."""

    def __init__(self, tokens: Sequence[SqlToken]) -> None:
        self._tokens = tokens
        self.names: set[str] = set()
        self.values: list[SqlToken] = []

    def read(self) -> None:
        tokens = self._tokens
        later: list[list[SqlToken]] = []
        place = 1
        while place < len(tokens):
            key, after = tokens[place].key, key_at(tokens, place + 1)
            is_list = key == "MEASURES" or (key in ("PARTITION", "DIMENSION") and after == "BY")
            opening = place + 1 + (key in ("PARTITION", "DIMENSION"))
            if is_list and key_at(tokens, opening) == "(":
                end = closing(tokens, opening)
                self._columns(tokens[opening + 1 : end])
            elif key in ("(", "ITERATE", "UNTIL"):
                opening = place + (key != "(")
                end = closing(tokens, opening)
                if key_at(tokens, opening) != "(":
                    raise UnreadableSql("MODEL is not understood")
                later.append(list(tokens[opening + 1 : end]))
            elif key in _OPTIONS or (key_at(tokens, place - 1) == "MAIN" and tokens[place].is_name):
                end = place
            else:
                raise UnreadableSql(f"MODEL with {key or 'this'} is not understood")
            place = end + 1
        for each in later:
            self.values += _values(each, self.names)

    def _columns(self, tokens: Sequence[SqlToken]) -> None:
        """Read a list of columns: each is an expression with or without a name."""
        for part in split_at_commas(tokens):
            if not part or not part[-1].is_name:
                raise UnreadableSql("a column of a MODEL has no name")
            self.names.add(_fold_name(part[-1]))
            _, end = dotted_name(part, 0)
            value = part if end == len(part) else part[: -2 if part[-2].key == "AS" else -1]
            if not value or value[-1].key == ".":
                raise UnreadableSql("a column of a MODEL is not understood")
            self.values += [_COMMA, *value]


def _listed_values(tokens: Sequence[SqlToken], names: set[str]) -> list[SqlToken]:
    """Return the values in the list of a query with a MODEL."""
    values: list[SqlToken] = []
    for part in split_at_commas(tokens[key_at(tokens, 0) in ("DISTINCT", "UNIQUE", "ALL") :]):
        _, end = dotted_name(part, 0)
        has_alias = len(part) > 1 and part[-1].is_name and (end == len(part) - 1 or part[-2].key in (")", "]"))
        if len(part) > 2 and part[-2].key == "AS":
            part = part[:-2]
        elif has_alias:
            part = part[:-1]
        values += _values(part, names)
    return values


def _values(tokens: Sequence[SqlToken], names: set[str]) -> list[SqlToken]:
    """Return the names, calls and queries in rules of a MODEL, each after a comma. `names` are its columns."""
    values: list[SqlToken] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if token.key == "(" and key_at(tokens, place + 1) in ("SELECT", "WITH"):
            end = closing(tokens, place) + 1
            values += [_COMMA, *tokens[place:end]]
            place = end
            continue
        if token.key in ("SELECT", "WITH", "CASE"):
            raise UnreadableSql(f"{token.key} in a MODEL is not understood")
        if not token.is_name or (token.kind is SqlTokenKind.WORD and token.key in _RESERVED):
            place += 1
            continue
        parts, end = dotted_name(tokens, place)
        is_call = key_at(tokens, end) == "("
        is_column = len(parts) == 1 and not is_call and _fold_name(token) in names
        is_of_cells = len(parts) == 1 and is_call and token.key in _CELL_FUNCTIONS
        if not (is_column or is_of_cells or _is_keyword(tokens, place)):
            values += [_COMMA, *tokens[place:end], *((_OPEN, _ONE, _CLOSE) if is_call else ())]
        place = end
    return values


def _is_keyword(tokens: Sequence[SqlToken], place: int) -> bool:
    """Return whether a word that is not reserved is a keyword: it is where no value can be."""
    key, before, after = (key_at(tokens, place + at) for at in (0, -1, 1))
    return (key == "PRESENT" and before == "IS") or (key == "UPSERT" and before in ("", ",") and after != "[")
