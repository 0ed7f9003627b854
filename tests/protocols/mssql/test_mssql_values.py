"""Values of every type: where they end, as text, and encoded again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.errors import ProtocolViolation
from postern.interception.events import Scalar
from postern.protocols.mssql.wire import mssql_types as t
from postern.protocols.mssql.wire import mssql_values as v
from postern.protocols.mssql.wire.mssql_types import MssqlType, Truncated, read_type
from postern.protocols.mssql.wire.mssql_value_forms import ValueSkipper, content, encode_content, value_end

LATIN = bytes.fromhex("0904d00034")
GREEK = bytes.fromhex("0804d00000")
UTF8 = bytes.fromhex("0904d00400")


def _type(text: str, collation: bytes = b"") -> MssqlType:
    raw = bytes.fromhex(text) + collation
    kind, after = read_type(raw, 0, len(raw))
    assert after == len(raw)
    kind.is_nullable = kind.form < 0
    return kind


# TYPE_INFO, the value without lengths, and its text
SAMPLES: list[tuple[MssqlType, str, bytes]] = [
    (_type("30"), "ff", b"255"),
    (_type("34"), "feff", b"-2"),
    (_type("38"), "00000080", b"-2147483648"),
    (_type("7f"), "ffffffffffffff7f", b"9223372036854775807"),
    (_type("2601"), "80", b"128"),
    (_type("2608"), "feffffffffffffff", b"-2"),
    (_type("6801"), "01", b"1"),
    (_type("6a05120a"), "0139300000", b"0.0000012345"),
    (_type("6c050902"), "0039300000", b"-123.45"),
    (_type("6d04"), "cdcccc3d", b"0.1"),
    (_type("6d08"), "9a9999999999b93f", b"0.1"),
    (_type("6e08"), "0000000039300000", b"1.2345"),
    (_type("6e08"), "ffffffffc7cfffff", b"-1.2345"),
    (_type("6e04"), "39300000", b"1.2345"),
    (_type("6f08"), "000000002c010000", b"1900-01-01 00:00:01.000"),
    (_type("6f04"), "0100 3c00", b"1900-01-02 01:00:00"),
    (_type("28"), "dbb93a", b"0001-01-01"),
    (_type("2907"), "8096980000", b"00:00:01.0000000"),
    (_type("2900"), "010000", b"00:00:01"),
    (_type("2a03"), "e8030000 000000", b"0001-01-01 00:00:01.000"),
    (_type("2b00"), "000000 010000 3c00", b"0001-01-02 01:00:00 +01:00"),
    (_type("2410"), "67452301ab89efcd0123456789abcdef", b"01234567-89AB-CDEF-0123-456789ABCDEF"),
    (_type("a71400", LATIN), "e4", "ä".encode()),
    (_type("a71400", GREEK), "e1", "α".encode()),
    (_type("a71400", UTF8), "c3a4", "ä".encode()),
    (_type("af0300", LATIN), "612020", b"a  "),
    (_type("e71400", LATIN), "e4003dd800de", "ä😀".encode()),
    (_type("e7ffff", LATIN), "6100", b"a"),
    (_type("a5ffff"), "00ff", b"\x00\xff"),
    (_type("f100"), "fffe3c0061002f003e00", b"<a/>"),
    (_type("f4"), "7b7d", b"{}"),
    (_type("62491f0000"), "380001000000", b"1"),
    (_type("62491f0000"), "e7070904d000341400 6100", b"a"),
    (_type("62491f0000"), "6a02120a0139300000", b"0.0000012345"),
    (_type("f5100000"), "a90102000000000000000000 0000803f", b"[0,1]"),
]
IDS = [f"{kind.code:#x}-{kind.size}-{text.decode('latin-1')}" for kind, _, text in SAMPLES]
_DAY_SAMPLES = {b"0001-01-01": "000000"}


def _data(text: bytes, data: str) -> bytes:
    return bytes.fromhex(_DAY_SAMPLES.get(text, data))


@pytest.mark.parametrize(("kind", "data", "text"), SAMPLES, ids=IDS)
def test_value_as_text(kind: MssqlType, data: str, text: bytes) -> None:
    assert v.plain(kind, _data(text, data)) == text


@pytest.mark.parametrize(("kind", "data", "text"), SAMPLES, ids=IDS)
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_encoded_value_ends_where_it_should(kind: MssqlType, data: str, text: bytes, size: int) -> None:
    value = _data(text, data)
    raw = encode_content(kind, value)
    assert value_end(raw + b"rest", 0, len(raw) + 4, kind.form) == len(raw)
    assert content(raw, 0, len(raw), kind.form) == value
    for end in range(len(raw)):
        need = -value_end(raw[:end], 0, end, kind.form)
        assert end < need <= len(raw)
    _skip(raw, kind.form, size)


def _skip(raw: bytes, form: int, size: int) -> None:
    """Skip a value that arrives in pieces; nothing behind it is taken."""
    skipper = ValueSkipper()
    skipper.begin(form)
    stream, pos, seen = raw + b"rest", 0, 0
    while not skipper.over:
        seen = min(seen + size, len(stream))
        pos = int(skipper.skip(stream[:seen], pos, seen))
        assert skipper.over or seen < len(stream)
    assert pos == len(raw)


@pytest.mark.parametrize(("kind", "data", "text"), SAMPLES, ids=IDS)
def test_scalar_text_packs_to_the_same_value(kind: MssqlType, data: str, text: bytes) -> None:
    if kind.code == t.SQL_VARIANT or kind.code in (t.XML, t.VECTOR, t.DATETIMEOFFSET):
        pytest.skip("made from other values only")
    value = _data(text, data)
    assert v.pack_scalar(kind, v.scalar_text(kind, value)) == value


@pytest.mark.parametrize(
    ("kind", "text", "fitted"),
    [
        (_type("e70600", LATIN), b"abcdef", "abc".encode("utf-16-le")),
        (_type("e70600", LATIN), "ab😀".encode(), "ab".encode("utf-16-le")),
        (_type("a70300", UTF8), "aaä".encode(), b"aa"),
        (_type("a70300", LATIN), "αb".encode(), b"?b"),
        (_type("af0500", LATIN), b"ab", b"ab   "),
        (_type("ef0600", LATIN), b"a", "a  ".encode("utf-16-le")),
        (_type("e7ffff", LATIN), b"x" * 9000, ("x" * 9000).encode("utf-16-le")),
        (_type("a50200"), b"\0\1\2", b"\0\1"),
    ],
    ids=["cut", "surrogates", "characters", "code page", "padded", "wide padded", "unlimited", "bytes"],
)
def test_text_fits_into_its_column(kind: MssqlType, text: bytes, fitted: bytes) -> None:
    assert v.fit_text(kind, text) == fitted


@pytest.mark.parametrize("kind", [kind for kind, _, _ in SAMPLES], ids=IDS)
def test_value_without_null_becomes_a_valid_empty_one(kind: MssqlType) -> None:
    if kind.code == t.VECTOR:
        pytest.skip("stays, or is NULL: it always can be")
    empty = v.empty_value(kind)
    raw = encode_content(kind, empty)
    assert content(raw, 0, len(raw), kind.form) in (empty, None)
    v.plain(kind, empty)


def test_column_without_null_never_gets_one() -> None:
    kind = _type("e71400", LATIN)
    kind.is_nullable = False
    assert v.cell_change(kind, lambda scalar, value: None)("a".encode("utf-16-le")) == b""


def test_change_is_given_the_scalar_form() -> None:
    seen: list[tuple[Scalar, bytes]] = []

    def by(scalar: Scalar, value: bytes) -> bytes:
        seen.append((scalar, value))
        return b"70001"

    assert v.cell_change(_type("6e04"), by)(bytes.fromhex("39300000")) == (70001).to_bytes(4, "little")
    assert v.cell_change(_type("34"), by)(b"\1\0") == b"\0\0"  # does not fit, and there is no NULL
    assert seen == [(Scalar.MONEY, b"12345"), (Scalar.SMALLINT, b"1")]


@pytest.mark.parametrize("text", ["00", "ff", "a71400", "e7", "6a05", "2908", "af ffff 0904d00034"])
def test_bad_type_is_refused(text: str) -> None:
    raw = bytes.fromhex(text)
    with pytest.raises((ProtocolViolation, Truncated)):
        read_type(raw, 0, len(raw))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_type_or_refused(raw: bytes) -> None:
    try:
        kind, after = read_type(raw, 0, len(raw))
    except (ProtocolViolation, Truncated, UnicodeDecodeError):
        return
    assert 0 < after <= len(raw)
    try:
        stop = value_end(raw, after, len(raw), kind.form) if kind.form != t.TABLE else 0
        if stop > 0:
            value = content(raw, after, stop, kind.form)
            if value is not None:
                v.plain(kind, value)
    except ProtocolViolation:
        pass


_PARTS = st.sampled_from([b"a\0", b"\xe4\0", b"\0\0", b"\x3d\xd8", b"\x00\xde", b"a", b"\0", b""])


@given(
    st.lists(st.none() | st.lists(_PARTS, max_size=4).map(b"".join), max_size=6), st.sampled_from(["e7", "af", "f1"])
)
def test_texts_of_a_column_are_those_of_its_values(cells: list[bytes | None], code: str) -> None:
    """Also where they have NUL, half of a character, or an odd number of bytes."""
    kind = {"e7": _type("e71400", LATIN), "af": _type("af1400", LATIN), "f1": _type("f100")}[code]
    assert v.plain_texts(kind, cells) == [v.plain(kind, cell) for cell in cells if cell is not None]
