"""Replacement values of each masking strategy."""

from __future__ import annotations

import json
import re
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from postern.domain.rules.masking import InfoType, Strategy
from postern.inspection.masking.strategies import _MEMO, Substitutes
from postern.interception.events import Scalar

KEY = b"k" * 32
PARTIAL, HASH = Substitutes(Strategy.PARTIAL, b""), Substitutes(Strategy.HASH, KEY)


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("EMAIL_ADDRESS", "ann@example.com", "a***@example.com"),
        ("CREDIT_CARD", "4111 1111 1111 1111", "************1111"),
        ("US_SSN", "536-90-4399", "***-**-4399"),
        ("PHONE_NUMBER", "+1 212-555-0142", "***-***-0142"),
        ("IBAN_CODE", "DE89 3704 0044 0532 0130 00", "DE****3000"),
        ("IP_ADDRESS", "203.0.113.77", "203.0.*.*"),
        ("IP_ADDRESS", "2001:db8::1", "2001:db8:****"),
        ("BADGE", "B-123456", "****3456"),
        ("BADGE", "Bo", "B****"),
        ("BADGE", "B", "****"),
        ("BADGE", "Zoë", "Z****"),
    ],
)
def test_partial_strategy_shows_only_the_documented_part(kind: str, value: str, shown: str) -> None:
    assert PARTIAL.replace_found(kind, value.encode()) == shown.encode()


@given(st.sampled_from([*InfoType, "CUSTOM"]), st.text(min_size=1, max_size=40))
@example(InfoType.IP_ADDRESS, "00")
@example(InfoType.IBAN_CODE, "0")
@example(InfoType.CREDIT_CARD, "000")
def test_partial_strategy_shows_at_most_half_of_a_value(kind: str, value: str) -> None:
    """Counts letters and digits, without the domain of an e-mail address."""
    shown = PARTIAL.replace_found(kind, value.encode()).decode("utf-8", "replace")
    if "@" in shown:
        shown = shown.partition("@")[0]
    kept = len(re.sub(r"[\W_]", "", shown))
    assert kept <= max(1, len(value) // 2)


def test_hashes_are_keyed_stable_and_of_one_format() -> None:
    one = HASH.replace_found("EMAIL_ADDRESS", b"ann@example.com")
    assert re.fullmatch(rb"h_[a-p]{32}", one)
    assert one == Substitutes(Strategy.HASH, KEY).replace_found("CUSTOM", b"ann@example.com")
    assert one == HASH.change(Scalar.TEXT, b"ann@example.com")
    assert one != Substitutes(Strategy.HASH, b"x" * 32).replace_found("EMAIL_ADDRESS", b"ann@example.com")
    assert one != HASH.replace_found("EMAIL_ADDRESS", b"bob@example.com")
    with pytest.raises(ValueError, match="needs a key"):
        Substitutes(Strategy.HASH, b"")


def test_forged_hash_is_hashed_again() -> None:
    """Attack: write a secret that looks like a hash."""
    forged = b"h_" + b"a" * 32
    assert HASH.change(Scalar.TEXT, forged) != forged
    made = HASH.change(Scalar.TEXT, b"x")
    assert made is not None
    assert HASH.change(Scalar.TEXT, made) != made


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        (Scalar.SMALLINT, b"-32768"),
        (Scalar.INTEGER, b"-2147483551"),
        (Scalar.BIGINT, b"-8999999999999916588"),
        (Scalar.DECIMAL, b"-9223372036854775000"),
        (Scalar.REAL, b"-1.8e+19"),
        (Scalar.DOUBLE, b"-9007199254740000.0"),
        (Scalar.MONEY, b"-9223372036854775000"),
        (Scalar.DATE, b"4177-11-05"),
        (Scalar.TIMESTAMP, b"4177-11-05 00:00:00"),
        (Scalar.MOMENT, b"4177-11-05 00:00:00"),
    ],
)
def test_value_in_the_numeric_range_of_hashes_is_hashed(scalar: Scalar, value: bytes) -> None:
    """Attack: shift a value into the range of hashes."""
    made = HASH.change(scalar, value)
    assert made is not None
    assert made != value


@given(st.sampled_from(["", "1.5", "-7", "2001-02-03", "2001-02-03 04:05:06", "04:05:06", "0 0 7", str(UUID(int=7)),
                        "10.0.0.1", "08002b010203"]))  # fmt: skip
def test_hash_of_a_hash_differs_from_the_hash(value: str) -> None:
    """Attack: write a real or guessed hash, and learn its value when the same hash appears again."""
    for scalar in Scalar:
        try:
            made = HASH.change(scalar, value.encode())
        except (ValueError, ArithmeticError):
            continue
        if made is not None and scalar is not Scalar.JSON:
            assert HASH.change(scalar, made) != made


@pytest.mark.parametrize(("scalar", "bits"), [(Scalar.SMALLINT, 15), (Scalar.INTEGER, 31), (Scalar.BIGINT, 63)])
@given(value=st.integers(-(2**15), 2**15 - 1))
def test_hashes_of_numbers_fit_their_type(scalar: Scalar, bits: int, value: int) -> None:
    made = HASH.change(scalar, b"%d" % value)
    assert made is not None
    assert -(2**bits) <= int(made) < -(2 ** (bits - 1))


def test_equal_numbers_of_different_type_or_scale_have_one_hash() -> None:
    whole = HASH.change(Scalar.BIGINT, b"42")
    assert HASH.change(Scalar.DECIMAL, b"42") == HASH.change(Scalar.DECIMAL, b"42.00") == whole
    assert HASH.change(Scalar.DECIMAL, b"42.5") != whole


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
_DOCUMENTS = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


@given(_DOCUMENTS, st.sampled_from([Strategy.REPLACE, Strategy.PARTIAL, Strategy.HASH]))
def test_masked_json_document_keeps_its_structure(document: object, strategy: Strategy) -> None:
    made = Substitutes(strategy, KEY).change(Scalar.JSON, json.dumps(document).encode())
    assert made is not None
    assert shape(json.loads(made), strategy) == shape(document, strategy)


def shape(node: object, strategy: Strategy) -> object:
    if isinstance(node, dict):
        return {name: shape(value, strategy) for name, value in node.items()}
    if isinstance(node, list):
        return [shape(value, strategy) for value in node]
    if isinstance(node, bool):
        return type(None) if strategy is Strategy.HASH else bool
    return "number" if isinstance(node, int | float) else type(node)


def test_unreadable_json_document_becomes_null() -> None:
    """Attack: nest a document so deeply that parsing it fails."""
    for document in (b"{", b"[" * 100_000 + b"]" * 100_000, b"\xff"):
        assert PARTIAL.change(Scalar.JSON, document) is None


@given(st.integers(min_value=0, max_value=10**30), st.integers(0, 3))
def test_masked_decimal_does_not_depend_on_zeros(number: int, zeros: int) -> None:
    short, long = b"0" * zeros + b"%d" % number, b"%d.00" % number
    for one in (HASH, PARTIAL):
        assert one.change(Scalar.DECIMAL, short) == one.change(Scalar.DECIMAL, long)


def test_cache_of_substitutes_is_bounded() -> None:
    one = Substitutes(Strategy.PARTIAL, b"")
    for number in range(_MEMO + 10):
        one.change(Scalar.TEXT, b"name %d" % number)
        one.replace_found("CUSTOM", b"name %d" % number)
        one.change(Scalar.BIGINT, b"%d" % number)
    assert sum(map(len, one._memos.values())) <= _MEMO
    assert len(one._found) <= _MEMO
