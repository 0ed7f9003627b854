"""Functions of templates, from values to values: those of Go's templates, and those of runbooks.

Texts compare with texts, and numbers with numbers: "10" is less than "9", and `eq .count 3` is an error, because inputs
are texts. `len` and `slice` count bytes of UTF-8, as in Go.
"""

from __future__ import annotations

import base64
import binascii
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus

from postern.runbooks.formatting import format_values, kind_of, print_line, print_values
from postern.runbooks.template_errors import Fault
from postern.runbooks.values import Inputs, Value, is_made

MAX_PIECES = 10_000
_BLANKS = " \t\r\n"
# In this order: the output of one replacement is not replaced again.
_HTML = {"&": "&amp;", '"': "&#34;", "'": "&#39;", "<": "&lt;", ">": "&gt;", "\0": "\ufffd"}
_JS = {"\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026", "=": "\\u003D"}


def is_true(value: Value) -> bool:
    """Return whether `if` accepts a value. Empty texts, 0, false, nil and empty lists are not true."""
    return isinstance(value, Inputs) or bool(value)


def text_of(value: Value, name: str) -> str:
    if isinstance(value, str):
        return value
    raise Fault(f"{name} takes a text, not {kind_of(value)}")


def _kind(value: Value) -> type:
    kinds: tuple[type, ...] = (bool, int, float, str)
    kind_found = next((kind for kind in kinds if isinstance(value, kind)), None)
    if kind_found is None:
        raise Fault(f"{kind_of(value)} cannot be compared")
    return kind_found


def _require_same_kind(first: Value, second: Value) -> None:
    kinds = {_kind(first), _kind(second)}
    if len(kinds) > 1:
        hint = "; inputs are texts, so quote the numbers that you compare them with" if str in kinds else ""
        raise Fault(f"{kind_of(first)} cannot be compared with {kind_of(second)}{hint}")


def _eq(values: Sequence[Value]) -> Value:
    for other in values[1:]:
        _require_same_kind(values[0], other)
        if values[0] == other:
            return True
    return False


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Sequence[Value]], Value]:
    def function(values: Sequence[Value]) -> Value:
        _require_same_kind(values[0], values[1])
        if isinstance(values[0], bool):
            raise Fault("true and false cannot be ordered")
        return compare(values[0], values[1])

    return function


def _len(values: Sequence[Value]) -> Value:
    (value,) = values
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, list):
        return len(value)
    raise Fault(f"len takes a text or pieces, not {kind_of(value)}")


def _index(values: Sequence[Value]) -> Value:
    container, at = values
    if not isinstance(at, int) or isinstance(at, bool):
        raise Fault(f"index takes a number, not {kind_of(at)}")
    items: list[str] | bytes
    if isinstance(container, list):
        items = container
    elif isinstance(container, str) and not is_made(container):
        items = container.encode()
    else:
        raise Fault(f"index takes pieces or a text, not {'a quoted text' if container else kind_of(container)}")
    if not 0 <= at < len(items):
        raise Fault(f"index {at} is out of range: the length is {len(items)}")
    return items[at]


def _slice(values: Sequence[Value]) -> Value:
    container, *bounds = values
    if isinstance(container, str) and is_made(container):
        raise Fault("a quoted text cannot be cut; cut it first, then quote it")
    if not isinstance(container, str | list):
        raise Fault(f"slice takes a text or pieces, not {kind_of(container)}")
    numbers = [bound for bound in bounds if isinstance(bound, int) and not isinstance(bound, bool)]
    if len(numbers) < len(bounds):
        raise Fault("slice takes numbers after the text or pieces")
    items = container.encode() if isinstance(container, str) else container
    first, last = [*numbers, 0, 0][:1][0], numbers[1] if len(numbers) > 1 else len(items)
    if not 0 <= first <= last <= len(items):
        raise Fault(f"slice {first} to {last} is out of range: the length is {len(items)}")
    cut = items[first:last]
    if isinstance(cut, list):
        return cut
    try:
        return cut.decode()
    except UnicodeDecodeError:
        raise Fault("slice counts bytes, and these bounds cut through a character") from None


def _split(values: Sequence[Value]) -> Value:
    separator, text = text_of(values[0], "split"), text_of(values[1], "split")
    if is_made(text):
        raise Fault("a quoted text cannot be split; split it first, then quote the pieces")
    if text.count(separator) > MAX_PIECES:
        raise Fault(f"split returns at most {MAX_PIECES:,} pieces")
    return [piece for piece in (part.strip(_BLANKS) for part in text.split(separator)) if piece]


def _replace_all(text: str, table: Mapping[str, str]) -> str:
    """Replace characters. This is several times as fast as `translate`, which also holds the GIL for a whole text."""
    for sign, written in table.items():
        text = text.replace(sign, written)
    return text


def _encodeb64(values: Sequence[Value]) -> Value:
    return base64.b64encode(text_of(values[0], "encodeb64").encode()).decode()


def _decodeb64(values: Sequence[Value]) -> Value:
    text = text_of(values[0], "decodeb64").replace("\r", "").replace("\n", "")
    try:
        return base64.b64decode(text.encode("ascii", "replace"), validate=True).decode()
    except (binascii.Error, ValueError):
        raise Fault("decodeb64 takes base64 of a text in UTF-8") from None


def _js(values: Sequence[Value]) -> Value:
    escaped = _replace_all(print_values(values), _JS)
    return "".join(
        char if char.isprintable() else f"\\u{ord(char):04X}" if ord(char) < 0x10000 else char for char in escaped
    )


FUNCTIONS: Mapping[str, Callable[[Sequence[Value]], Value]] = {
    "eq": _eq,
    "ne": lambda values: not _eq(values),
    "lt": _comparison(operator.lt),
    "le": _comparison(operator.le),
    "gt": _comparison(operator.gt),
    "ge": _comparison(operator.ge),
    "not": lambda values: not is_true(values[0]),
    "len": _len,
    "index": _index,
    "slice": _slice,
    "split": _split,
    "print": print_values,
    "println": print_line,
    "printf": lambda values: format_values(text_of(values[0], "printf"), values[1:]),
    "html": lambda values: _replace_all(print_values(values), _HTML),
    "js": _js,
    "urlquery": lambda values: quote_plus(print_values(values), safe=""),
    "encodeb64": _encodeb64,
    "decodeb64": _decodeb64,
}
