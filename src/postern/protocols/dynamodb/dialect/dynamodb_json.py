"""Operations as text, as rules and recordings have them: the name and the parameters as JSON on one line.

    PutItem {"TableName": "orders", "Item": {"id": {"S": "1"}}}

Operations of DynamoDB Streams have the same form; no name is in both services.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, NoReturn

Parameters = Mapping[str, Any]

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")
_CONTROL: Final = re.compile(r"[\x7f-\x9f\u2028\u2029]")


class UnreadableOperation(ValueError):
    """A text is not an operation with its parameters."""


class DynamodbOperation(NamedTuple):
    name: str
    parameters: Parameters


def read_operation(text: str) -> DynamodbOperation:
    """Parse the text of an operation. Raises UnreadableOperation."""
    name, _, parameters = text.strip().partition(" ")
    if _NAME.fullmatch(name) is None:
        raise UnreadableOperation("it does not begin with the name of an operation")
    return DynamodbOperation(name, read_parameters(parameters.encode("utf-8", "surrogatepass") or b"{}"))


def read_parameters(body: bytes) -> Parameters:
    """Parse the body of a request. It must be read by every server in the same way, so JSON that has a name twice is
    not valid. Raises UnreadableOperation."""
    try:
        content = json.loads(body.decode("utf-8"), object_pairs_hook=_object, parse_constant=_constant)
    except UnreadableOperation:
        raise
    except (ValueError, RecursionError) as error:
        raise UnreadableOperation(f"its parameters are not valid JSON ({type(error).__name__})") from None
    if not isinstance(content, dict):
        raise UnreadableOperation("its parameters are not a JSON object")
    return content


def operation_text(name: str, parameters: Parameters) -> str:
    """Return the text of an operation, on one line."""
    text = json.dumps(parameters, ensure_ascii=False)
    return f"{name} {_CONTROL.sub(_escape, text)}" if parameters else f"{name} {{}}"


def encode_parameters(parameters: Parameters) -> bytes:
    """Return the body of a request."""
    return json.dumps(parameters, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise UnreadableOperation("its parameters have a name twice")
    return content


def _constant(name: str) -> NoReturn:
    raise UnreadableOperation(f"its parameters have {name}, which is not JSON")
