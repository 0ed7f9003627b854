"""The text of a request for rules and recordings: the operation, and its parameters as JSON.

    FilterLogEvents {"logGroupName": "/shop/orders", "filterPattern": "ERROR"}
    GetQueryResults {"queryId": "6f0…"} of StartQuery {"logGroupName": "/shop/orders", "queryString": "fields @message"}

What comes after `of` is the request that started the query. The gateway adds it if it has seen that request; a client
cannot write it, since the parameters are one JSON object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Document = dict[str, Any]

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,127}")
_OF: Final = " of "


class UnreadableCloudwatchRequest(ValueError):
    """A text or a body is not a request of CloudWatch. The message says why, in words for users."""


@dataclass(frozen=True, slots=True)
class CloudwatchStatement:
    """An operation with its parameters. `started_by` is the request that started the query that it is about."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    started_by: CloudwatchStatement | None = None


def is_operation_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def write_statement(name: str, parameters: Mapping[str, Any], started_by: str = "") -> str:
    """Return the text of a request. `started_by` is such a text."""
    text = f"{name} {json.dumps(parameters, ensure_ascii=False)}"
    return f"{text}{_OF}{started_by}" if started_by else text


def read_statement(text: str) -> CloudwatchStatement:
    """Parse the text of a request. Raises UnreadableCloudwatchRequest."""
    name, parameters, rest = _read_one(text.strip())
    if not rest:
        return CloudwatchStatement(name, parameters)
    if not rest.startswith(_OF.lstrip()):
        raise UnreadableCloudwatchRequest(f"{name} has something after its parameters")
    started, started_parameters, rest = _read_one(rest.removeprefix(_OF.lstrip()))
    if rest or started != "StartQuery":
        raise UnreadableCloudwatchRequest(f"{name} is not about a query")
    return CloudwatchStatement(name, parameters, CloudwatchStatement(started, started_parameters))


def _read_one(text: str) -> tuple[str, Document, str]:
    match = _NAME.match(text)
    if match is None:
        raise UnreadableCloudwatchRequest("it does not begin with the name of an operation, such as FilterLogEvents")
    rest = text[match.end() :].lstrip()
    if not rest.startswith("{"):
        raise UnreadableCloudwatchRequest(f"{match[0]} must be followed by its parameters as a JSON object")
    parameters, end = _decode(rest)
    return match[0], parameters, rest[end:].lstrip()


def read_parameters(body: bytes) -> Document:
    """Parse the JSON body of a request; an empty one has no parameters. Raises UnreadableCloudwatchRequest.

    A key that appears twice is refused: the target could read the other one.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise UnreadableCloudwatchRequest("the body of the request is not UTF-8") from None
    if not text.strip():
        return {}
    parameters, end = _decode(text.lstrip())
    if text.lstrip()[end:].strip():
        raise UnreadableCloudwatchRequest("the body of the request has something after its JSON object")
    return parameters


def _decode(text: str) -> tuple[Document, int]:
    try:
        value, end = _DECODER.raw_decode(text)
    except UnreadableCloudwatchRequest:
        raise
    except (ValueError, RecursionError):
        raise UnreadableCloudwatchRequest("the parameters are not valid JSON") from None
    if not isinstance(value, dict):
        raise UnreadableCloudwatchRequest("the parameters are not a JSON object")
    if has_surrogates(text[:end]):
        _check_texts(value)
    return value, end


def has_surrogates(text: str) -> bool:
    return "\\u" in text or not text.isascii()


def _check_texts(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnreadableCloudwatchRequest("the parameters have a text that is not valid Unicode") from None


def _object(pairs: list[tuple[str, Any]]) -> Document:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise UnreadableCloudwatchRequest("the parameters have a key twice")
    return made


def _constant(name: str) -> float:
    raise UnreadableCloudwatchRequest(f"the parameters have the number {name}, which is not JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
Collect = Callable[[str, str], None]
