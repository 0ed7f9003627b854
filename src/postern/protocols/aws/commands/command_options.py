"""Options of command lines as parameters of operations, as the AWS CLI reads them.

--log-group-name g            a text
--log-group-names a b         a list: all words up to the next option
--dimensions Name=x,Value=y   objects, in short or as JSON
--interleaved --no-unmask     truth values
--cli-input-json '{…}'        all parameters at once; options take precedence
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, Final

from postern.protocols.aws.commands.command_words import AwsCommandError, CommandWord
from postern.protocols.aws.commands.operation_shapes import Parameters

_FIRST_CAPITAL: Final = re.compile(r"(.)([A-Z][a-z]+)")
_LAST_CAPITAL: Final = re.compile(r"([a-z0-9])([A-Z])")
_PLURAL: Final = re.compile(r"[A-Z]{2,}s$")  # ARNs
_SHORT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.:/-]*)=(\"(?:[^\"\\]|\\.)*\"|[^,]*)(?:,|$)")
_INPUT: Final = "--cli-input-json"
# Options of the CLI itself, which choose where the target is and how results are shown.
_UNSUPPORTED: Final = {
    "--region": "the connection has a region; leave the option out",
    "--profile": "the connection has its own credentials; leave the option out",
    "--endpoint-url": "the connection has an endpoint; leave the option out",
    "--query": "results cannot be queried here; leave the option out",
}
_IGNORED: Final = ("--no-cli-pager", "--no-verify-ssl", "--debug")


@lru_cache(maxsize=2048)
def option_name(name: str) -> str:
    """Return a name of AWS as the CLI writes it: `logGroupName` is `log-group-name`."""
    name = name.replace("OTel", "Otel")
    plural = _PLURAL.search(name)
    if plural is not None:
        name = f"{name[: plural.start()]}-{plural[0].lower()}"
    return _LAST_CAPITAL.sub(r"\1-\2", _FIRST_CAPITAL.sub(r"\1-\2", name)).lower()


def _no_time(name: str, text: str) -> None:
    return None


class OptionReader:
    """Reads the options of one command, and takes those out that are the command's own."""

    def __init__(self, words: Sequence[CommandWord]) -> None:
        self._options: dict[str, tuple[CommandWord, list[CommandWord]]] = {}
        self.arguments: list[CommandWord] = []
        values = self.arguments
        for word in words:
            if not word.text.startswith("--") or word.is_quoted:
                values.append(word)
                continue
            name, equals, value = word.text.partition("=")
            if name in self._options:
                raise AwsCommandError(f"{name} is given twice", word.start)
            values = []
            self._options[name] = (word, values)
            if equals:
                values.append(CommandWord(value, word.start, word.end, True))

    def take_text(self, name: str) -> str | None:
        """Return the value of an option, None if it is missing. Raises AwsCommandError."""
        given = self._options.pop(name, None)
        return None if given is None else _one(*given).text

    def take_texts(self, name: str) -> list[str]:
        given = self._options.pop(name, None)
        return [] if given is None else [word.text for word in given[1]]

    def take_flag(self, name: str) -> bool:
        given = self._options.pop(name, None)
        if given is not None and given[1]:
            raise AwsCommandError(f"{name} has no value", given[1][0].start)
        return given is not None

    def drop_client_options(self) -> None:
        """Leave out the options of the CLI itself. Raises AwsCommandError for those that would mean something."""
        for name, why in _UNSUPPORTED.items():
            if name in self._options:
                raise AwsCommandError(why, self.place_of(name))
        self.take_text("--output")
        for name in _IGNORED:
            self.take_flag(name)

    def take_most(self, name: str = "--max-items") -> int:
        """Return the value of an option that limits what is read, 0 if it is missing. Raises AwsCommandError."""
        place = self.place_of(name)
        text = self.take_text(name)
        if text is None:
            return 0
        if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
            raise AwsCommandError(f"{name} must be a positive number", place)
        return int(text)

    def place_of(self, name: str) -> int:
        given = self._options.get(name)
        return 0 if given is None else given[0].start

    def read(self, shape: Parameters, times: Callable[[str, str], int | None] = _no_time) -> dict[str, Any]:
        """Return the remaining options as parameters of these types (`operation_shapes`). `times` reads numbers that
        are times. Raises AwsCommandError."""
        if self.arguments:
            raise AwsCommandError(
                f"{self.arguments[0].text[:64]!r} does not belong to an option", self.arguments[0].start
            )
        parameters = self._read_input()
        names = {f"--{option_name(name)}": name for name in shape}
        for option, (word, values) in self._options.items():
            name = names.get(option)
            if name is not None:
                parameters[name] = _value(shape[name], word, values, partial(times, name))
                continue
            negated = names.get(f"--{option.removeprefix('--no-')}")
            if negated is None or not option.startswith("--no-") or shape[negated] != "b" or values:
                raise AwsCommandError(f"{option} is not an option of this command", word.start)
            parameters[negated] = False
        return parameters

    def _read_input(self) -> dict[str, Any]:
        given = self._options.pop(_INPUT, None)
        if given is None:
            return {}
        word = _one(*given)
        value = _json(word)
        if not isinstance(value, dict):
            raise AwsCommandError(f"{_INPUT} must be a JSON object", word.start)
        return value


def _one(option: CommandWord, values: Sequence[CommandWord]) -> CommandWord:
    if len(values) != 1:
        raise AwsCommandError(f"{option.text} has one value", values[1].start if values else option.start)
    return values[0]


def _value(kind: str, option: CommandWord, values: Sequence[CommandWord], times: Callable[[str], int | None]) -> Any:
    if kind == "b":
        if not values:
            return True
        text = _one(option, values).text.lower()
        if text not in ("true", "false"):
            raise AwsCommandError(f"{option.text} is true or false", values[0].start)
        return text == "true"
    if not kind.endswith("*"):
        return _scalar(kind, _one(option, values), times)
    if len(values) == 1 and values[0].text.lstrip().startswith("["):
        listed = _json(values[0])
        if not isinstance(listed, list):
            raise AwsCommandError(f"{option.text} is a list", values[0].start)
        return listed
    if not values:
        raise AwsCommandError(f"{option.text} has at least one value", option.start)
    return [_scalar(kind[0], value, times) for value in values]


def _scalar(kind: str, word: CommandWord, times: Callable[[str], int | None]) -> Any:
    text = word.text
    if text.startswith(("file://", "fileb://")):
        raise AwsCommandError("files cannot be read here; write the content itself", word.start)
    if kind == "s":
        return text
    if kind == "i":
        return _whole(word, times)
    if kind == "d":
        return _decimal(word)
    if kind == "t":
        return _time(word)
    return _json(word) if text.lstrip().startswith(("{", "[")) else _short(word)


def _whole(word: CommandWord, times: Callable[[str], int | None]) -> int:
    if re.fullmatch(r"-?[0-9]{1,18}", word.text):
        return int(word.text)
    moment = times(word.text)
    if moment is None:
        raise AwsCommandError(f"{word.text[:64]!r} is not a whole number", word.start)
    return moment


def _decimal(word: CommandWord) -> float:
    try:
        number = float(word.text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise AwsCommandError(f"{word.text[:64]!r} is not a number", word.start)
    return number


def read_moment(text: str) -> float | None:
    """Return a time in ISO 8601 as seconds since 1970; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _time(word: CommandWord) -> float:
    moment = read_moment(word.text)
    if moment is None and re.fullmatch(r"[0-9]{1,12}(?:\.[0-9]{1,6})?", word.text):
        moment = float(word.text)
    if moment is None:
        raise AwsCommandError(f"{word.text[:64]!r} is not a time, such as 2026-01-31T00:00:00Z", word.start)
    return int(moment) if moment.is_integer() else moment


def _json(word: CommandWord) -> Any:
    try:
        return json.loads(word.text, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise AwsCommandError("this is not valid JSON", word.start) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is given twice")
    return made


def _refuse(name: str) -> float:
    raise ValueError(name)


def _short(word: CommandWord) -> dict[str, Any]:
    """Return an object in short: `Name=x,Value=y`."""
    made: dict[str, Any] = {}
    pos = 0
    while pos < len(word.text):
        match = _SHORT.match(word.text, pos)
        if match is None or match[1] in made:
            raise AwsCommandError("write an object as NAME=VALUE,NAME=VALUE or as JSON", word.start)
        made[match[1]] = _short_value(match[1], match[2])
        pos = match.end()
    return made


def _short_value(name: str, text: str) -> Any:
    """Return a value of an object in short. Its type follows from its name: `Enabled=true`, `ReadCapacityUnits=1`."""
    if text.startswith('"'):
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    if name.endswith("Enabled") and text in ("true", "false"):
        return text == "true"
    return int(text) if name.endswith("Units") and re.fullmatch(r"[0-9]{1,18}", text) else text
