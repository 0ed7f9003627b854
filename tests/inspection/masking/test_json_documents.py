from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from postern.domain.rules.masking import DEFAULT_TYPES, MODEL_TYPES, InfoType
from postern.inspection.masking.detectors import Detectors, detectors_for
from postern.inspection.masking.joined_texts import Hits, mask_text
from postern.inspection.masking.json_documents import _mask_document, mask_documents

from .values import ANY_TEXT, ANY_VALUE, NEAR, SOUP, cards

ALL = detectors_for(DEFAULT_TYPES)
EVERY = detectors_for(frozenset(InfoType) - MODEL_TYPES)


def masked(document: bytes) -> bytes:
    found = mask_documents(ALL, [document], Hits())
    return document if found is None else found[0]


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        ('{"mail": "ann@example.com", "age": 7}', '{"mail": "****@****", "age": 7}'),
        (r'{"mail": "ann\u0040example.com"}', '{"mail": "****@****"}'),
        (r'"\u0061\u006E\u006e@example\u002ecom"', '"****@****"'),
        (r'{"net": "0171\/1234567"}', '{"net": "***-***-****"}'),
        (r'"say \"hi\" to ann@example.com\n"', r'"say \"hi\" to ****@****\n"'),
        (r'"\n4111111111111111"', r'"\n************1111"'),
        (r'"\u0034111111111111111"', '"************1111"'),
        ('{"card": 4111111111111111}', '{"card": 1111}'),
        ("[4111111111111111, 4222222222222220]", "[1111, 2220]"),
        ("4111111111111111", "1111"),
        ('{"card": "4111111111111111", "n": 4111111111111112}', '{"card": "************1111", "n": 4111111111111112}'),
        ('{"ann@example.com": 1}', '{"****@****": 1}'),
        (r'{"a\\": "ann@example.com"}', r'{"a\\": "****@****"}'),
        (r'"é\n ann@example.com"', r'"\u00e9\n ****@****"'),
        ('"é ann@example.com"', '"é ****@****"'),
        ("not json ann@example.com", "not json ****@****"),
        ("{'x': 4111111111111111}", "{'x': ************1111}"),
    ],
)
def test_json_document_is_masked_in_its_strings_numbers_and_keys(document: str, wanted: str) -> None:
    assert masked(document.encode()).decode() == wanted


@pytest.mark.parametrize(
    "document",
    [
        "{}",
        "[]",
        "null",
        '"x"',
        "1.5",
        r'{"a": "\u0041\/"}',
        "4111111111111111.5",
        "-4111111111111111",
        "[41, 11]",
        '{"d": "2024-01-31"}',
    ],
)
def test_json_documents_without_a_value_stay_unchanged(document: str) -> None:
    assert mask_documents(ALL, [document.encode()], Hits()) is None


def test_json_document_in_latin1_is_masked() -> None:
    assert masked('"é\\u0061nn@example.com"'.encode("latin-1")) == b'"****@****"'


STRINGS = SOUP | ANY_VALUE | st.text(max_size=8)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | cards().filter(str.isdigit).map(int)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | STRINGS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
    max_leaves=12,
)


def shape(document: bytes) -> Any:
    """Return the types of a document's parts, without keys, because two keys can become the same."""

    def of(value: Any) -> Any:
        if isinstance(value, list):
            return [of(one) for one in value]
        if isinstance(value, tuple):
            return tuple(of(one) for one in value)
        return type(value)

    return of(json.loads(document, object_pairs_hook=lambda pairs: tuple(value for _, value in pairs)))


def strings(document: bytes) -> list[str]:
    found: list[str] = []

    def of(value: Any) -> None:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list | tuple):
            for one in value:
                of(one)

    of(json.loads(document, object_pairs_hook=lambda pairs: [part for pair in pairs for part in pair]))
    return found


@settings(max_examples=examples(500), deadline=None)
@given(VALUES, st.booleans())
def test_masked_json_keeps_its_shape_and_every_string_is_masked(value: Any, ascii_only: bool) -> None:
    document = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    found = masked(document)
    assert shape(found) == shape(document)
    for text in strings(found):
        assert mask_text(ALL, text.encode("utf-8", "surrogatepass"), Hits()) is None
    assert masked(found) == found


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(ANY_TEXT | STRINGS.map(json.dumps).map(str.encode), max_size=6))
def test_masking_json_documents_together_equals_masking_each_alone(documents: list[bytes]) -> None:
    found = mask_documents(ALL, documents, Hits()) if documents else None
    assert (documents if found is None else found) == [masked(document) for document in documents]


KEYS = st.sampled_from(["ssn", "passport_no", "card", "n", "fodselsnummer", "a\tb", "x" * 70]) | STRINGS
LONG = st.sampled_from([123456789, 4111111111111111, 14054146014, 1234567, -123456789, 1.5, 12]) | NUMBERS
SAID = st.sampled_from(["123456789", "C12345678", "ann@example.com", "true", "2024-01-31 12:34:56"]) | STRINGS
ROWS = (
    st.dictionaries(KEYS, LONG | SAID | st.lists(LONG | SAID, max_size=3), max_size=4).map(json.dumps).map(str.encode)
)
BROKEN = st.sampled_from(
    [b'{"a":1.55.5,"b":123456}', b'{"a', b'"', b"1234567:12345678", b'{"ssn":123456789 :1}', b"tr", b"ue"]
)


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(ROWS | BROKEN, min_size=1, max_size=8))
def test_masking_json_documents_with_keys_together_equals_masking_each_alone(documents: list[bytes]) -> None:
    hits, alone = Hits(), Hits()
    found = mask_documents(ALL, documents, hits) or documents
    assert found == [(mask_documents(ALL, [each], alone) or [each])[0] for each in documents]
    assert hits == alone
    assert found == [_mask_document(ALL, each, Hits()) for each in documents]


LABELS = ["cookie", "Set-Cookie", "authorization", "password", "first name", "phone", "a", "+1", "id", "ssn", "x@y"]
LABELLED = st.sampled_from(
    [
        "sid=abc; x=1",
        "Basic dXNlcjpwYXNz",
        "hunter2",
        "Anna",
        "",
        "1e5",
        "+1e-234",
        "::",
        "@",
        "31.12.1999",
        "12:34:56",
        "2024-05-06T12:34:56+00",
        "May 5, 2020",
        "5.6.",
    ]
)
LONG_NUMBERS = st.sampled_from([1234567, 123456789, 2.5e-234, 1e05, 234.567891, -1234567, 41111111111]) | NUMBERS
PAIRS = st.dictionaries(
    st.sampled_from(LABELS) | ANY_VALUE,
    LONG_NUMBERS | LABELLED | ANY_VALUE | NEAR | st.lists(LONG_NUMBERS | ANY_VALUE, max_size=3),
    min_size=1,
    max_size=5,
)
SEPARATORS = st.sampled_from([(", ", ": "), (",", ":"), (" , ", " :  "), (",\n", ":\t")])


@settings(max_examples=examples(1000), deadline=None)
@given(st.lists(PAIRS, min_size=1, max_size=4), SEPARATORS, st.sampled_from([ALL, EVERY]))
def test_raw_masking_of_json_documents_equals_masking_each_string_and_number(
    values: list[Any], separators: tuple[str, str], detectors: Detectors
) -> None:
    documents = [json.dumps(value, ensure_ascii=False, separators=separators).encode() for value in values]
    hits, alone = Hits(), Hits()
    found = mask_documents(detectors, documents, hits) or documents
    assert found == [_mask_document(detectors, each, alone) for each in documents]
    assert hits == alone


def test_key_that_labels_a_value_is_read_beside_other_values_in_the_document() -> None:
    document = b'{"id": 1234567, "email": "ann@example.com", "cookie": "sid=abc"}'
    assert masked(document) == b'{"id": 1234567, "email": "****@****", "cookie": "****"}'


NAMED = [
    (b'{"ssn": 123456789, "n": 123456789}', b'{"ssn": 0, "n": 123456789}'),
    (b'{"passport_no":"123456789","note":"a\\nb"}', b'{"passport_no":"****","note":"a\\nb"}'),
    (b'{"passport_no":"123456789"}', b'{"passport_no":"****"}'),
    (b'{"passport": "\\u0041 C12345678", "other": "C12345678"}', b'{"passport": "A ****", "other": "C12345678"}'),
    (b'[123456789, "123456789", 01044055]', None),
    (b'{"created": 1700000000, "passport": null}', None),
]


@pytest.mark.parametrize(("document", "wanted"), NAMED)
def test_json_key_names_the_type_of_its_value(document: bytes, wanted: bytes | None) -> None:
    found = mask_documents(ALL, [document], Hits())
    assert (None if found is None else found[0]) == wanted


def test_json_document_with_masked_numbers_stays_valid() -> None:
    document = b'{"fodselsnummer": 04054146014, "nir": 185057800608436, "x": [15076500565]}'.replace(b"04054", b"14054")
    found = mask_documents(ALL, [document], Hits())
    json.loads(document if found is None else found[0])
