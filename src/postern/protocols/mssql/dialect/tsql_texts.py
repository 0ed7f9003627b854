"""The texts that a batch runs by EXEC, as far as the batch itself contains them.

Literals, their concatenations, and variables that are only ever set to these are known. A variable has a declared
length: the server cuts a longer text off, and what is left can be another statement. A text that the server converts
to a code page is unknown unless it is ASCII, as is a long concatenation, which some servers cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from postern.inspection.sql.identifier_folding import fold_identifier
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, closing, key_at, split_at_commas, words_of

_MOST: Final = 32
_LONGEST: Final = 64 * 1024  # characters in total
_CONCATENATED: Final = 4000  # characters; the server cuts longer concatenations off unless a part is declared as MAX

Texts = tuple[str, ...] | None
"""All possible texts; None if any text is possible. NULL is an empty text here: some sessions concatenate it as one."""

ASSIGNING: Final = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="})
# Words of statements that assign the variables that they name: FETCH … INTO, RECEIVE, GET CONVERSATION, BEGIN DIALOG.
_FILLING: Final = frozenset({"CONVERSATION", "DIALOG", "FETCH", "RECEIVE"})
_LIST_ENDS: Final = frozenset({"FROM", "WHERE", "GROUP", "HAVING", "ORDER", "OPTION", "UNION", "EXCEPT", "INTERSECT"})


@dataclass(frozen=True, slots=True)
class TextType:
    """A character type. `length` is None for MAX; `wide` types hold any letter, others those of a code page; `padded`
    ones fill a text with blanks."""

    length: int | None
    wide: bool
    padded: bool = False

    def fit(self, texts: Texts) -> Texts:
        """Return the texts as a value of this type has them."""
        if texts is None:
            return None
        if not all(text.isascii() for text in texts) and not (
            self.wide and (self.length is None or all(len(text) * 2 <= self.length for text in texts))
        ):
            return None
        width = self.length if self.padded and self.length is not None else 0
        return limit_texts([text[: self.length].ljust(width) for text in texts])


_WIDE: Final = {"NVARCHAR": True, "NCHAR": True, "NTEXT": True, "SYSNAME": True,
                "VARCHAR": False, "CHAR": False, "TEXT": False}  # fmt: skip


def text_type(tokens: Sequence[SqlToken], place: int, default: int) -> TextType | None:
    """Return the character type at a place; None for any other. `default` is the length of a type without one."""
    name = tokens[place].text.upper() if place < len(tokens) else ""
    if name not in _WIDE:
        return None
    length: int | None = {"SYSNAME": 128, "TEXT": None, "NTEXT": None}.get(name, default)
    if key_at(tokens, place + 1) == "(":
        value = tokens[place + 2].text if place + 2 < len(tokens) else ""
        if value.upper() == "MAX":
            length = None
        elif value.isascii() and value.isdigit():
            length = int(value)
        else:
            return None
    return TextType(length, _WIDE[name], name in ("CHAR", "NCHAR"))


# Names that start with @@ and are the server's. Any other can be a user's variable.
SERVER_VARIABLES: Final = words_of(
    """
    @@connections @@cpu_busy @@cursor_rows @@datefirst @@dbts @@def_sortorder_id @@default_langid @@error @@fetch_status
    @@identity @@idle @@io_busy @@langid @@language @@lock_timeout @@max_connections @@max_precision @@microsoftversion
    @@nestlevel @@options @@pack_received @@pack_sent @@packet_errors @@procid @@remserver @@rowcount @@servername
    @@servicename @@spid @@textsize @@timeticks @@total_errors @@total_read @@total_write @@trancount @@version
    """
)


def is_user_variable(token: SqlToken) -> bool:
    is_variable = token.kind is SqlTokenKind.VARIABLE and token.text.startswith("@")
    return is_variable and token.text.lower() not in SERVER_VARIABLES


def variable_name(token: SqlToken) -> str:
    """Return the name of a variable with its @, in the form in which names are compared."""
    return fold_identifier(token.text)


def limit_texts(texts: Sequence[str]) -> Texts:
    unique = tuple(dict.fromkeys(texts))
    return None if len(unique) > _MOST or sum(map(len, unique)) > _LONGEST else unique


def texts_of(tokens: Sequence[SqlToken], of_variable: Callable[[str], Texts]) -> Texts:
    """Return the possible texts of an expression."""
    terms = _split_terms(tokens)
    parts = [_term(term, of_variable) for term in terms]
    return parts[0] if len(parts) == 1 else concatenate(parts)


def concatenate(parts: Sequence[Texts]) -> Texts:
    count = 1
    known_parts: list[tuple[str, ...]] = []
    for part in parts:
        if part is None:
            return None
        count *= len(part)
        known_parts.append(part)
    if count > _MOST:
        return None
    texts = ["".join(combination) for combination in product(*known_parts)]
    return None if any(len(text) > _CONCATENATED for text in texts) else limit_texts(texts)


def _split_terms(tokens: Sequence[SqlToken]) -> list[Sequence[SqlToken]]:
    terms: list[Sequence[SqlToken]] = []
    depth = start = 0
    for place, token in enumerate(tokens):
        depth += (token.key == "(") - (token.key == ")")
        if token.key == "+" and depth == 0:
            terms.append(tokens[start:place])
            start = place + 1
    return [*terms, tokens[start:]]


def _term(tokens: Sequence[SqlToken], of_variable: Callable[[str], Texts]) -> Texts:
    if len(tokens) == 1:
        token = tokens[0]
        if is_user_variable(token):
            return of_variable(variable_name(token))
        return None if token.kind is not SqlTokenKind.STRING or token.content is None else (token.content,)
    if key_at(tokens, 0) == "(" and closing(tokens, 0) == len(tokens) - 1:
        return texts_of(tokens[1:-1], of_variable)
    if key_at(tokens, 1) != "(" or closing(tokens, 1) != len(tokens) - 1:
        return None
    called, inner = tokens[0].key, tokens[2:-1]
    if called == "CONCAT":
        return concatenate([texts_of(part, of_variable) for part in split_at_commas(inner)])
    if called in ("CHAR", "NCHAR"):
        return _letter(inner)
    if called == "CAST":
        place = next((at for at, token in enumerate(inner) if token.key == "AS"), len(inner))
        return _convert(inner[:place], text_type(inner, place + 1, 30), of_variable)
    if called == "CONVERT":
        parts = split_at_commas(inner)
        return _convert(parts[1], text_type(parts[0], 0, 30), of_variable) if len(parts) == 2 else None
    return None


def _letter(tokens: Sequence[SqlToken]) -> Texts:
    text = tokens[0].text if len(tokens) == 1 and tokens[0].kind is SqlTokenKind.NUMBER else ""
    return (chr(int(text)),) if text.isascii() and text.isdigit() and len(text) < 4 and int(text) < 128 else None


def _convert(tokens: Sequence[SqlToken], kind: TextType | None, of_variable: Callable[[str], Texts]) -> Texts:
    if kind is None:
        return None
    if len(tokens) == 1 and tokens[0].kind is SqlTokenKind.NUMBER and tokens[0].text[:2] in ("0x", "0X"):
        try:
            text = bytes.fromhex(tokens[0].text[2:]).decode("utf-16-le" if kind.wide else "ascii")
        except ValueError:
            return None
        return kind.fit((text,))
    return kind.fit(texts_of(tokens, of_variable))


@dataclass
class BatchTexts:
    """The possible texts of the variables of one batch. A variable that the batch does not declare can have any.

    A batch without branches is `straight`: each SET takes effect. In others, assignments only add, because they can be
    skipped. In a batch with a loop (`loops`), a text that is made of variables is unknown.
    """

    loops: bool = False
    straight: bool = False
    _types: dict[str, TextType | None] = field(default_factory=dict)
    _texts: dict[str, Texts] = field(default_factory=dict)

    def of_variable(self, name: str) -> Texts:
        return self._texts.get(name)

    def learn(self, tokens: Sequence[SqlToken]) -> None:
        """Record the effect of a statement on variables."""
        first = key_at(tokens, 0)
        if first == "DECLARE":
            self._declare(tokens[1:])
        elif first == "SET" and len(tokens) > 2 and is_user_variable(tokens[1]):
            self._assign(tokens[1:], is_set=True)
        elif first == "SELECT":
            self._select(tokens)
        else:
            for token in assigned_variables(tokens):
                self._texts[variable_name(token)] = None

    def _declare(self, tokens: Sequence[SqlToken]) -> None:
        for part in split_at_commas(tokens):
            if not part or not is_user_variable(part[0]):
                continue
            name, place = variable_name(part[0]), 1 + (key_at(part, 1) == "AS")
            kind = text_type(part, place, 1)
            if name in self._types and self._types[name] != kind:
                kind = None
            self._types[name] = kind
            self._texts.setdefault(name, ("",))
            equals = next((at for at, token in enumerate(part) if token.key == "="), len(part))
            if equals < len(part):
                self._put(name, self._value(part[equals + 1 :]), replaces=True)

    def _select(self, tokens: Sequence[SqlToken]) -> None:
        depth, end = 0, len(tokens)
        for place, token in enumerate(tokens):
            depth += (token.key == "(") - (token.key == ")")
            if depth == 0 and token.key in _LIST_ENDS:
                end = place
                break
        for part in split_at_commas(tokens[1:end]):
            if part and is_user_variable(part[0]) and key_at(part, 1) in ASSIGNING:
                self._assign(part, repeats=end < len(tokens))
            else:
                for token in assigned_variables([tokens[0], *part]):
                    self._texts[variable_name(token)] = None

    def _assign(self, tokens: Sequence[SqlToken], *, repeats: bool = False, is_set: bool = False) -> None:
        """Record `@a = …`, of a SET or of a SELECT, which `repeats` it for each row."""
        name, operator, value = variable_name(tokens[0]), key_at(tokens, 1), tokens[2:]
        has_variable = any(token.kind is SqlTokenKind.VARIABLE for token in value)
        if operator == "=":
            self._put(name, None if repeats and has_variable else self._value(value), replaces=is_set)
        elif operator == "+=" and not repeats and not self.loops:
            self._put(name, concatenate([self.of_variable(name), self._value(value)]), replaces=is_set)
        else:
            self._put(name, None)

    def _value(self, tokens: Sequence[SqlToken]) -> Texts:
        if self.loops and any(token.kind is SqlTokenKind.VARIABLE for token in tokens):
            return None
        return texts_of(tokens, self.of_variable)

    def _put(self, name: str, texts: Texts, *, replaces: bool = False) -> None:
        kind, before = self._types.get(name), self.of_variable(name)
        fitting = None if kind is None else kind.fit(texts)
        if replaces and self.straight and name in self._types:
            before = ()
        self._texts[name] = None if before is None or fitting is None else limit_texts([*before, *fitting])


def assigned_variables(tokens: Sequence[SqlToken]) -> Iterator[SqlToken]:
    """Return the variables that a statement can assign, other than DECLARE. A comparison counts as one."""
    fills = any(token.key in _FILLING for token in tokens)
    for place, token in enumerate(tokens):
        after = key_at(tokens, place + 1)
        if is_user_variable(token) and (fills or after in ASSIGNING or after in ("OUT", "OUTPUT")):
            yield token
