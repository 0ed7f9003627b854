"""The codecs of CloudWatch: bytes of a body as a tree of dicts, lists, texts and numbers, and back.

JSON for logs and older clients of metrics, CBOR (smithy-rpc-v2-cbor) for newer ones. A tree that was not changed is not
encoded again. Repeated keys are refused: what passes would contain a value that was not inspected.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import cbor2

MAX_DEPTH: Final = 64
_EPOCH: Final = 1  # the tag of times
# Tags that cbor2 would give a meaning of its own: texts of times, large numbers, references, sets, …
_OTHER_TAGS: Final = (
    *(0, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799),
)

Tree = dict[str, Any]


def read_json(body: bytes) -> Tree:
    """Parse the body of an answer. Raises ValueError."""
    try:
        value = json.loads(body, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None
    return _as_tree(value)


def write_json(tree: Tree) -> bytes:
    """Encode a body. Raises ValueError."""
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "strict")


def _unique(pairs: list[tuple[str, Any]]) -> Tree:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object has a key twice")
    return made


def read_cbor(body: bytes) -> Tree:
    """Parse a body. Times are tags, as they came. Raises ValueError."""
    stream = io.BytesIO(body)
    decoder = cbor2.CBORDecoder(
        stream,
        semantic_decoders=_TAGS,
        max_depth=MAX_DEPTH,
        allow_duplicate_keys=False,
        strict_hashable_types=True,
        read_size=1,
    )
    try:
        value = decoder.decode()
    except (cbor2.CBORError, RecursionError, MemoryError, OverflowError) as error:
        raise ValueError(f"the body is not valid CBOR: {error}") from None
    if stream.read(1):
        raise ValueError("the body has something after its CBOR item")
    _check_cbor(value)
    return _as_tree(value)


def write_cbor(tree: Tree) -> bytes:
    """Encode a body. Raises ValueError."""
    try:
        return cbor2.dumps(tree)
    except cbor2.CBOREncodeError as error:
        raise ValueError(str(error)) from None


def _keep(tag: int) -> Callable[..., cbor2.CBORTag]:
    def keep_tag(value: Any, *_: object) -> cbor2.CBORTag:
        return cbor2.CBORTag(tag, value)

    return keep_tag


_TAGS: Final = {tag: _keep(tag) for tag in (_EPOCH, *_OTHER_TAGS)}


def _check_cbor(value: object) -> None:
    """Raise ValueError for types that the protocol does not have: sets, references, decimal fractions, dates."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ValueError("a key in CBOR is not a text")
            _check_cbor(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_cbor(inner)
    elif isinstance(value, cbor2.CBORTag):
        if value.tag != _EPOCH or isinstance(value.value, bool) or not isinstance(value.value, int | float):
            raise ValueError(f"the tag {value.tag} in CBOR is not one that CloudWatch uses")
    elif value is not None and not isinstance(value, str | bytes | int | float | bool):
        raise ValueError(f"CBOR has a value of the type {type(value).__name__}")


def _as_tree(value: object) -> Tree:
    if not isinstance(value, dict):
        raise ValueError("the body is not an object")
    return value


def as_json_value(value: Any) -> Any:
    """Return a value of CBOR as JSON has it: times in ISO 8601, bytes in base64, infinities as texts."""
    if isinstance(value, dict):
        return {key: as_json_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_json_value(inner) for inner in value]
    if isinstance(value, cbor2.CBORTag):
        return _iso(value.value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _iso(seconds: float) -> str | float:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return seconds if math.isfinite(seconds) else str(seconds)
