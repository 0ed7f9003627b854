"""Formatting of values, as Go's fmt does. Go writes errors into the text (`%!d(string=x)`); this raises Fault instead,
because a script with such text should not run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal

from postern.runbooks.template_errors import Fault
from postern.runbooks.values import Inputs, Value, assemble, is_made

MAX_WIDTH = 1_000
_VERB = re.compile(r"%([-+# 0]*)([0-9*]*)(?:\.([0-9*]*))?(.?)", re.DOTALL)
_SHORT = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\"}


def format_value(value: Value) -> str:
    """Format a value as `%v` does. A text stays unchanged, with its information about quotes. Raises Fault."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _shortest(value)
    if isinstance(value, list):
        return "[" + " ".join(value) + "]"
    if isinstance(value, Inputs):
        raise Fault("the inputs as a whole cannot be printed; name one of them, as in {{ .name }}")
    raise Fault("nil cannot be printed")


def _shortest(value: float) -> str:
    sign = "-" if math.copysign(1, value) < 0 else ""
    _, numbers, exponent = Decimal(repr(abs(value))).normalize().as_tuple()
    power = len(numbers) - 1 + int(exponent) if value else 0
    if -4 <= power < 6:
        return sign + f"{abs(value):.{max(0, len(numbers) - 1 - power)}f}"
    digits = "".join(map(str, numbers))
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02}"


def print_values(values: Sequence[Value]) -> str:
    """Format values as `print` does, with a blank between two values that are not texts."""
    parts: list[str] = []
    for number, value in enumerate(values):
        if number and not isinstance(value, str) and not isinstance(values[number - 1], str):
            parts.append(" ")
        parts.append(format_value(value))
    return assemble(parts)


def print_line(values: Sequence[Value]) -> str:
    parts: list[str] = []
    for number, value in enumerate(values):
        parts += [" ", format_value(value)] if number else [format_value(value)]
    return assemble([*parts, "\n"])


def format_values(pattern: str, values: Sequence[Value]) -> str:
    """Format values as `printf` does. The number of values must match the format. Raises Fault."""
    parts: list[str] = []
    done = used = 0
    for found in _VERB.finditer(pattern):
        parts.append(pattern[done : found.start()])
        done = found.end()
        flags, width, precision, verb = found.groups()
        if verb == "%":
            parts.append("%")
            continue
        if not verb:
            raise Fault("the format of printf ends within a verb; write a percent sign as %%")
        if used >= len(values):
            raise Fault(f"printf has no value for its verb %{verb}")
        parts += _format_verb(
            verb, flags, _parse_width(width), None if precision is None else _parse_width(precision), values[used]
        )
        used += 1
    if used < len(values):
        raise Fault(f"printf has {len(values)} values, but its format takes {used}")
    return assemble([*parts, pattern[done:]])


def _parse_width(digits: str) -> int:
    if "*" in digits:
        raise Fault("printf takes widths only as numbers in its format")
    if len(digits) > 5 or int(digits or 0) > MAX_WIDTH:
        raise Fault(f"printf takes a width of at most {MAX_WIDTH:,}")
    return int(digits or 0)


def _format_verb(verb: str, flags: str, width: int, precision: int | None, value: Value) -> list[str]:
    if verb in "sv" and isinstance(value, str):
        if precision is not None and is_made(value):
            raise Fault("a quoted text cannot be cut; cut it first, then quote it")
        text = value if precision is None else value[:precision]
    elif verb == "v" or (verb == "s" and isinstance(value, list)) or (verb == "t" and isinstance(value, bool)):
        text = format_value(value)
    elif verb in "qxX" and isinstance(value, str):
        text = _quote_go(value) if verb == "q" else value.encode().hex()
        text = text.upper() if verb == "X" else text
    elif verb in "dxXobcUq" and isinstance(value, int) and not isinstance(value, bool):
        return [_integer(verb, flags, width, precision, value)]
    elif verb in "eEfFgG" and isinstance(value, float):
        return [_float(verb, flags, width, precision, value)]
    else:
        raise Fault(f"%{verb} of printf cannot format {kind_of(value)}")
    padding = max(0, width - len(text)) * ("0" if "0" in flags and "-" not in flags else " ")
    return [text, padding] if "-" in flags else [padding, text]


def _integer(verb: str, flags: str, width: int, precision: int | None, value: int) -> str:
    if verb in "cqU":
        if not 0 <= value <= 0x10FFFF or 0xD800 <= value < 0xE000:
            raise Fault(f"%{verb} of printf takes the code of a character")
        text = {"c": chr(value), "q": f"'{_escape(chr(value), chr(39))}'", "U": f"U+{value:04X}"}[verb]
        return text.ljust(width) if "-" in flags else text.rjust(width)
    digits = format(abs(value), verb).rjust(precision or 0, "0")
    prefix = {"x": "0x", "X": "0X", "o": "0", "b": "0b"}.get(verb, "") if "#" in flags else ""
    sign = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
    return _pad(sign + prefix, digits, flags if precision is None else flags.replace("0", ""), width)


def _float(verb: str, flags: str, width: int, precision: int | None, value: float) -> str:
    sign = "-" if math.copysign(1, value) < 0 else "+" if "+" in flags else " " if " " in flags else ""
    if verb in "gG" and precision is None:
        digits = _shortest(abs(value))
        digits = digits.upper() if verb == "G" else digits
    else:
        digits = format(abs(value), f".{6 if precision is None else precision}{verb}")
    return _pad(sign, digits, flags, width)


def _pad(sign: str, digits: str, flags: str, width: int) -> str:
    if "-" in flags:
        return (sign + digits).ljust(width)
    return sign + digits.rjust(width - len(sign), "0") if "0" in flags else (sign + digits).rjust(width)


def _quote_go(value: str) -> str:
    return '"' + _escape(value, '"') + '"'


def _escape(value: str, quote: str) -> str:
    def one(char: str) -> str:
        if char == quote:
            return "\\" + char
        if char in _SHORT:
            return _SHORT[char]
        if char.isprintable():
            return char
        code = ord(char)
        return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

    return "".join(one(char) for char in value)


def kind_of(value: Value) -> str:
    """Return the kind of a value for messages, which never contain the value."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, list):
        return "several pieces"
    return "the inputs as a whole" if isinstance(value, Inputs) else "nil"
