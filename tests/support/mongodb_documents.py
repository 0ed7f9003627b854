"""Documents for property tests: every type of BSON, nested, without repeated names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import bson
from hypothesis import strategies as st


@dataclass(frozen=True)
class _CodeText:
    """Becomes code when it is encoded: that class is a kind of text, which Hypothesis confuses with its own texts."""

    text: str
    scope: dict[str, int] | None = None


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
_NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
_SCALARS = st.one_of(
    _TEXTS,
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(-(1 << 63), (1 << 63) - 1).map(bson.Int64),
    st.floats(),
    st.booleans(),
    st.none(),
    st.binary(max_size=20),
    st.builds(bson.Binary, st.binary(max_size=20), st.sampled_from([0, 1, 2, 5, 6, 9, 128])),
    st.builds(bson.Binary, st.binary(min_size=16, max_size=16), st.sampled_from([3, 4])),
    st.builds(bson.ObjectId, st.binary(min_size=12, max_size=12)),
    st.integers(-(1 << 63), (1 << 63) - 1).map(bson.DatetimeMS),
    st.integers(-2_000_000_000_000, 2_000_000_000_000).map(bson.DatetimeMS),
    st.builds(bson.Timestamp, st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1)),
    st.binary(min_size=16, max_size=16).map(bson.Decimal128.from_bid),
    st.builds(bson.Regex, _NAMES, st.sampled_from(["", "i", "im", "imsux"])),
    st.builds(_CodeText, _TEXTS),
    st.builds(_CodeText, _TEXTS, st.dictionaries(_NAMES, st.integers(0, 9), max_size=2)),
    st.sampled_from([bson.MinKey(), bson.MaxKey()]),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_NAMES, inner, max_size=4)),
    max_leaves=12,
)


def _encodable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _encodable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_encodable(inner) for inner in value]
    return bson.Code(value.text, value.scope) if isinstance(value, _CodeText) else value


# Encoded
DOCUMENTS = st.dictionaries(_NAMES, _VALUES, max_size=6).map(lambda fields: bson.encode(_encodable(fields)))
