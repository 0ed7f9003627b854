"""Reading of literals as JavaScript writes them: documents, arrays, texts, numbers, and constructors of values.

It reads literals and never code. Anything else is an error that says what is supported. Strings, comments and regular
expressions end where JavaScript ends them, which quoted values of runbooks rely on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from bson import Int64

from postern.protocols.mongodb.queries import mongodb_extended_json
from postern.protocols.mongodb.queries.mongodb_shell_errors import MAX_DEPTH, SUPPORTED, ShellError
from postern.protocols.mongodb.queries.mongodb_shell_values import (
    CONSTANTS,
    CONSTRUCTORS,
    MAX_INT64,
    MIN_INT64,
    NEW_CONSTRUCTORS,
    Arguments,
    SketchedValue,
    Value,
    make_regex,
    number,
)

LINE_ENDS: Final = "\n\r\u2028\u2029"
_BLANK = re.compile(r"[\t\v\f \u00a0\ufeff\u1680\u2000-\u200a\u202f\u205f\u3000\n\r\u2028\u2029]+")
_LINE_END = re.compile(r"[\n\r\u2028\u2029]")
_NAME = re.compile(r"(?:[^\W\d]|\$)[\w$]*")
_NUMBER = re.compile(
    r"(?P<radix>0[xX][0-9a-fA-F](?:_?[0-9a-fA-F])*|0[bB][01](?:_?[01])*|0[oO][0-7](?:_?[0-7])*)"
    r"|(?P<decimal>(?:(?:0|[1-9](?:_?\d)*)(?:\.(?:\d(?:_?\d)*)?)?|\.\d(?:_?\d)*)(?:[eE][+-]?\d(?:_?\d)*)?)",
    re.ASCII,
)
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_STRING_END = {quote: re.compile(rf"[\\{quote}\n\r]") for quote in "'\""} | {"`": re.compile(r"[\\`]|\$\{")}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_SKETCHED = re.compile(r"\$\d+")
_PLACEHOLDER = re.compile(r":([^\W\d]\w*)")
_SAFE_INTEGER: Final = 1 << 53
_NO_CODE: Final = "variables, functions and operators are not supported"


class ShellReader:
    """Reader of one text. `at` is the offset of the next character.

    `parameters` has the end and the value of each placeholder, by its offset. A `sketch` has `$1` in their places.
    """

    def __init__(
        self, text: str, parameters: Mapping[int, tuple[int, Value]] | None = None, *, sketch: bool = False
    ) -> None:
        self.text = text
        self.at = 0
        self._parameters = parameters or {}
        self._sketch = sketch

    @property
    def next(self) -> str:
        """Return the next character; empty at the end."""
        return self.text[self.at : self.at + 1]

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        raise ShellError(message, min(self.at if at is None else at, len(self.text)))

    def skip(self) -> bool:
        """Skip blanks and comments. Return True if there was a line end among them."""
        text, start = self.text, self.at
        broken = False
        while True:
            if blank := _BLANK.match(text, self.at):
                broken = broken or _LINE_END.search(blank[0]) is not None
                self.at = blank.end()
            elif text.startswith("//", self.at):
                end = _LINE_END.search(text, self.at)
                self.at = len(text) if end is None else end.start()
            elif text.startswith("/*", self.at):
                end_at = text.find("*/", self.at + 2)
                if end_at < 0:
                    self.fail("a comment is not closed")
                broken = broken or _LINE_END.search(text, self.at, end_at) is not None
                self.at = end_at + 2
            else:
                return broken or (start == 0)

    def take(self, sign: str) -> bool:
        """Skip blanks, and this sign if it follows."""
        self.skip()
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True

    def expect(self, sign: str, place: str) -> None:
        if not self.take(sign):
            self.fail_at_next(f"{sign!r} is expected {place}")

    def fail_at_next(self, message: str) -> NoReturn:
        """Fail at the next character, whose presence is the error."""
        found = repr(self.next) if self.next else "the end of the script"
        hint = f"; {_NO_CODE}" if self.next and self.next in "+-*/%=<>?&|^.!({[:" else ""
        self.fail(f"{message}, not {found}{hint}")

    def name(self) -> str:
        """Return the name that is next; empty if there is none."""
        match = _NAME.match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        return match[0]

    def json_document(self) -> dict[str, Value]:
        """Read a document whose numbers have the types of relaxed Extended JSON."""
        document = self._document(0, self._json_value)
        if not isinstance(document, dict):
            self.fail("a command is a document")
        return document

    def arguments(self) -> list[Value]:
        """Read arguments, after the opening parenthesis, up to the closing one."""
        return self._list(")", 0, self.value)

    def value(self, depth: int = 0) -> Value:
        """Read a value. Raises ShellError."""
        self.skip()
        sign = self.next
        if sign == "{":
            return self._document(depth, self.value)
        if sign == "[":
            self.at += 1
            return self._list("]", depth + 1, self.value)
        if sign in ("'", '"', "`") and sign:
            return self.string()
        if sign == "/":
            return self._regex()
        if sign in ("-", "+") and sign:
            return self._read_signed()
        if sign.isdecimal() or sign == ".":
            return self._number()
        if sign == ":" or (sign == "$" and self._sketch):
            return self._placeholder()
        return self._read_named(depth)

    def _json_value(self, depth: int = 0) -> Value:
        self.skip()
        sign = self.next
        if sign == "{":
            return self._document(depth, self._json_value)
        if sign == "[":
            self.at += 1
            return self._list("]", depth + 1, self._json_value)
        match = _JSON_NUMBER.match(self.text, self.at)
        if match is None or _NAME.match(self.text, match.end()):
            return self.value(depth)
        self.at = match.end()
        if not match[0].lstrip("-").isdigit():
            return float(match[0])
        if len(match[0]) > 20 or not MIN_INT64 <= int(match[0]) <= MAX_INT64:
            self.fail('an integer has at most 64 bits; write {"$numberDecimal": "…"}', match.start())
        return int(match[0])

    def _document(self, depth: int, value: Callable[[int], Value]) -> Value:
        start = self.at
        self._check_depth(depth + 1)
        self.at += 1
        document: dict[str, Value] = {}
        while not self.take("}"):
            key_at = self.at
            key = self._key()
            if key in document:
                self.fail(f"the field {key!r} is written twice", key_at)
            self.expect(":", f"after the field {key!r}")
            document[key] = value(depth + 1)
            if not self.take(","):
                self.expect("}", "at the end of a document, or ','")
                break
        try:
            return mongodb_extended_json.convert(document)
        except ValueError as error:
            self.fail(str(error), start)

    def _list(self, closing: str, depth: int, value: Callable[[int], Value]) -> list[Value]:
        self._check_depth(depth)
        items: list[Value] = []
        while not self.take(closing):
            items.append(value(depth))
            if not self.take(","):
                self.expect(closing, "at the end of a list, or ','")
                break
        return items

    def _check_depth(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.fail(f"documents can be nested at most {MAX_DEPTH} levels deep")

    def _key(self) -> str:
        at = self.at
        if self.next in ("'", '"') and self.next:
            key = self.string()
        elif self.next.isdecimal():
            key = self._number_as_key()
        else:
            key = self.name()
            if not key:
                self.fail_at_next("the name of a field is expected")
        if "\0" in key:
            self.fail("the name of a field cannot contain a zero character", at)
        return key

    def _number_as_key(self) -> str:
        match = re.compile(r"0|[1-9]\d*").match(self.text, self.at)
        if match is None or _NAME.match(self.text, match.end()) or self.text.startswith(".", match.end()):
            self.fail("write the name of this field in quotes")
        self.at = match.end()
        return match[0]

    def string(self) -> str:
        """Read a quoted text."""
        quote, start = self.next, self.at
        self.at += 1
        parts: list[str] = []
        while True:
            match = _STRING_END[quote].search(self.text, self.at)
            if match is None or match[0] in LINE_ENDS:
                self.fail("a text is not closed", start)
            part = self.text[self.at : match.start()]
            parts.append(part.replace("\r\n", "\n").replace("\r", "\n"))  # only between backquotes there are any
            self.at = match.end()
            if match[0] == quote:
                break
            if match[0] == "${":
                self.fail("${…} in a text is code, which is not supported; write \\${", match.start())
            parts.append(self._escape())
        try:
            return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16")  # pairs of \uD83D\uDE00 become one
        except UnicodeDecodeError:
            self.fail("a text has half of a surrogate pair", start)

    def _escape(self) -> str:
        """Read what follows a backslash."""
        sign, text = self.next, self.text
        at = self.at - 1
        if not sign:
            self.fail("a text is not closed", at)
        self.at += 1
        if (sign == "0" and self.next.isdecimal()) or sign in "123456789":
            self.fail("octal escapes are not supported; write \\x00", at)
        if sign in ("x", "u"):
            pattern = r"[0-9a-fA-F]{2}" if sign == "x" else r"[0-9a-fA-F]{4}|\{[0-9a-fA-F]{1,6}\}"
            match = re.compile(pattern).match(text, self.at)
            code = -1 if match is None else int(match[0].strip("{}"), 16)
            if match is None or code > 0x10FFFF:
                self.fail("an escape is not complete", at)
            self.at = match.end()
            return chr(code)
        if sign == "\r" and self.next == "\n":
            self.at += 1
        if sign in LINE_ENDS:
            return ""
        return _ESCAPES.get(sign, sign)

    def _regex(self) -> Value:
        start = self.at
        self.at += 1
        in_class = False
        while True:
            sign = self.next
            if not sign or sign in LINE_ENDS:
                self.fail("a regular expression is not closed", start)
            self.at += 1
            if sign == "\\":
                if not self.next or self.next in LINE_ENDS:
                    self.fail("a regular expression is not closed", start)
                self.at += 1
            elif sign == "/" and not in_class:
                break
            elif sign in "[]":
                in_class = sign == "["
        pattern = self.text[start + 1 : self.at - 1]
        if not pattern:
            self.fail("a regular expression is empty", start)
        try:
            return make_regex(pattern, self.name())
        except ValueError as error:
            self.fail(str(error), start)

    def _read_signed(self) -> Value:
        start, sign = self.at, self.next
        self.at += 1
        self.skip()
        if self.text.startswith("Infinity", self.at):
            value: Value = self._read_named(0)
        elif self.next.isdecimal() or self.next == ".":
            value = self._number()
        else:
            self.fail(f"a number is expected after {sign!r}; {_NO_CODE}", start)
        if sign == "+":
            return value
        if isinstance(value, Int64):
            return Int64(-value)
        negative = -float(value)
        return negative if value == 0 else number(negative, is_whole=negative.is_integer())

    def _number(self) -> Value:
        start = self.at
        match = _NUMBER.match(self.text, start)
        if match is None:
            self.fail("this is not a number")
        self.at = match.end()
        text = match[0].replace("_", "")
        is_big = self.next == "n" and re.fullmatch(r"\d+|0[xXbBoO].*", text) is not None
        self.at += is_big
        if self.next.isdecimal() or _NAME.match(self.text, self.at):
            self.fail("this is not a number", start)
        whole = int(text, 0) if re.fullmatch(r"\d{1,400}|0[xXbBoO][0-9a-fA-F]{1,400}", text) else None
        if is_big:
            if whole is None or not MIN_INT64 <= whole <= MAX_INT64:
                self.fail("an integer has at most 64 bits", start)
            return Int64(whole)
        if whole is not None and whole > _SAFE_INTEGER:
            self.fail('this integer is too large to be exact as a number; write NumberLong("…")', start)
        value = float(text) if whole is None else float(whole)
        return number(value, is_whole=value.is_integer())

    def _placeholder(self) -> Value:
        bound = self._parameters.get(self.at)
        if bound is not None:
            self.at, value = bound
            return value
        if self._sketch and (sketched := _SKETCHED.match(self.text, self.at)):
            self.at = sketched.end()
            return SketchedValue(1)
        match = _PLACEHOLDER.match(self.text, self.at)
        if match is not None:
            self.fail(f"the placeholder :{match[1]} has no value; add it to the parameters")
        return self.fail_at_next("a value is expected")

    def _read_named(self, depth: int) -> Value:
        start = self.at
        name = self.name()
        if not name:
            self.fail_at_next("a value is expected")
        is_new = name == "new"
        if is_new:
            self.skip()
            name = self.name()
        while self.text.startswith(".", self.at):
            self.at += 1
            name += "." + self.name()
        constructor = (NEW_CONSTRUCTORS if is_new else CONSTRUCTORS).get(name)
        before = self.at
        if constructor is not None and self.take("("):
            return self._construct(constructor, name, self._list(")", depth + 1, self.value), start)
        self.at = before
        if is_new and constructor is not None:
            return self._construct(constructor, name, [], start)
        constant = None if is_new else CONSTANTS.get(name)
        if constant is None:
            what = name or "new"
            self.fail(f"{what!r} is not a literal; {_NO_CODE}: {SUPPORTED}", start)
        return constant()

    def _construct(
        self, constructor: Callable[[Arguments], Value], name: str, arguments: list[Value], start: int
    ) -> Value:
        if any(isinstance(argument, SketchedValue) for argument in arguments):
            return SketchedValue(1)
        try:
            return constructor(arguments)
        except (ValueError, OverflowError) as error:
            self.fail(f"{name}: {error}", start)
