"""Information types that describe a person, found by names of columns, labels and shapes."""

from __future__ import annotations

import pytest
from hypothesis import given

from postern.domain.rules.masking import DEFAULT_TYPES, PERSONAL_TYPES, InfoType, info_type
from postern.inspection.masking.detectors import detectors_for
from postern.inspection.masking.joined_texts import Hits, mask_text, mask_texts
from postern.inspection.masking.json_documents import mask_documents
from postern.inspection.masking.scalars import mask_numbers

from .values import ANY_TEXT


def masked(kind: InfoType, text: str, column: str = "") -> str:
    detectors = detectors_for(frozenset({kind}), column=column)
    found = mask_text(detectors, text.encode(), Hits())
    return text if found is None else found.decode()


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (InfoType.FIRST_NAME, "first name: Anna", "first name: ****"),
        (InfoType.FIRST_NAME, "First_Name=Anna Maria, age 4", "First_Name=****, age 4"),
        (InfoType.FIRST_NAME, "the first name of the customer is missing", None),
        (InfoType.LAST_NAME, "surname: O'Neil", "surname: ****"),
        (InfoType.PASSWORD, "host=a password=s3cret! user=b", "host=a password=**** user=b"),
        (InfoType.PASSWORD, "passwords must be long", None),
        (InfoType.PASSWORD, "pwd: ****", None),
        (InfoType.DATE_OF_BIRTH, "born 1980-02-03", "born ****"),
        (InfoType.DATE_OF_BIRTH, "paid 1980-02-03", None),
        (InfoType.AGE, "a 42-year-old", "a ****-year-old"),
        (InfoType.AGE, "42 years old", "**** years old"),
        (InfoType.AGE, "age: 42", "age: ****"),
        (InfoType.AGE, "age: 420", None),
        (InfoType.AGE, "page 42", None),
        (InfoType.GENDER, "gender: female", "gender: ****"),
        (InfoType.GENDER, "female voices", None),
        (InfoType.STREET_ADDRESS, "ship to 12 Baker Street, London", "ship to ****, London"),
        (InfoType.STREET_ADDRESS, "Hauptstraße 5, Bonn", "****, Bonn"),
        (InfoType.STREET_ADDRESS, "12 bis rue de la Paix", "****"),
        (InfoType.STREET_ADDRESS, "version 12 of the Street Map", None),
        (InfoType.MEDICAL_RECORD_NUMBER, "MRN 00123456", "MRN ****"),
        (InfoType.MEDICAL_RECORD_NUMBER, "order 00123456", None),
        (InfoType.PASSPORT, "passport no C01X00T47", "passport no ****"),
        (InfoType.PASSPORT, "part no C01X00T47", None),
    ],
)
def test_personal_value_is_masked_after_its_label(kind: InfoType, text: str, expected: str | None) -> None:
    assert masked(kind, text) == (text if expected is None else expected)


@pytest.mark.parametrize(
    ("kind", "column", "value", "is_found"),
    [
        (InfoType.FIRST_NAME, "first_name", "anna", True),
        (InfoType.FIRST_NAME, "GivenName", "Jean-Luc", True),
        (InfoType.FIRST_NAME, "name", "Anna", False),  # which may be of anything
        (InfoType.LAST_NAME, "surname", "王", True),
        (InfoType.PASSWORD, "password_hash", "$2b$12$abc", True),
        (InfoType.STREET_ADDRESS, "billing_address", "Somewhere 4, back yard", True),
        (InfoType.STREET_ADDRESS, "email_address", "Somewhere 4, back yard", False),
        (InfoType.GENDER, "sex", "f", True),
        (InfoType.GENDER, "geschlecht", "männlich", True),
        (InfoType.AGE, "age", "7", True),
        (InfoType.AGE, "page", "7", False),
    ],
)
def test_personal_value_is_masked_in_a_column_named_like_its_type(
    kind: InfoType, column: str, value: str, is_found: bool
) -> None:
    assert masked(kind, value, column) == ("****" if is_found else value)


def test_ages_in_a_numeric_column_become_zero() -> None:
    detectors = detectors_for(frozenset({InfoType.AGE}), column="age")
    assert mask_numbers(detectors, [b"7", b"42", b"4200"], Hits()) == [b"0", b"0", b"4200"]
    assert mask_numbers(detectors_for(frozenset({InfoType.AGE}), column="quantity"), [b"7"], Hits()) is None


def test_personal_values_in_json_are_masked_by_their_keys() -> None:
    detectors = detectors_for(frozenset({InfoType.FIRST_NAME, InfoType.PASSWORD}))
    document = b'{"first_name": "Anna", "password": "s3cret", "note": "hello"}'
    assert mask_documents(detectors, [document], Hits()) == [
        b'{"first_name": "****", "password": "****", "note": "hello"}'
    ]


def test_personal_types_are_not_default_types() -> None:
    assert not PERSONAL_TYPES & DEFAULT_TYPES


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("FEMALE_NAME", InfoType.FIRST_NAME),
        ("UK_PASSPORT", InfoType.PASSPORT),
        ("DATE", InfoType.DATE_TIME),
        ("ETHNIC_GROUP", InfoType.NRP),
        ("DATE_OF_BIRTH", InfoType.DATE_OF_BIRTH),
    ],
)
def test_names_of_data_loss_prevention_services_are_accepted(name: str, kind: InfoType) -> None:
    assert info_type(name) is kind


@pytest.mark.parametrize("column", ["", "first_name", "password", "street", "age", "gender"])
@given(text=ANY_TEXT)
def test_masking_of_personal_types_is_idempotent(column: str, text: bytes) -> None:
    detectors = detectors_for(frozenset(PERSONAL_TYPES), column=column)
    once = mask_texts(detectors, [text], Hits()) or [text]
    assert mask_texts(detectors, once, Hits()) in (None, once)
