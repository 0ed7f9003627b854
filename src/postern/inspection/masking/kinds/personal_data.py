"""Personal data: names, birth, age, gender, address, passport, patient number, password.

Most of these values have no characteristic form: any word can be a name or a password, any short number an age. They
are found if a column, a JSON key or a label (`first name: Anna`) says what they are; addresses are also found by their
form. Names in running text need a language model (`PERSON`).
"""

from __future__ import annotations

import re

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import BEHIND_EDGE, NOT_BEFORE_WORD, Detector, Span, ValueForm, found_form
from postern.inspection.masking.kinds import dates
from postern.inspection.masking.kinds.making import MASK, number_form, token_form

# Below every usable threshold alone; above the default threshold if the column's name supports it.
_BY_COLUMN = 0.15
_BY_CONTEXT = 0.2
_BY_LABEL = 0.8
_BY_SHAPE = 0.7

_CELL = re.compile(rb"[^\x00]+")
_LONGEST_CELL = 256  # bytes: longer texts are not names or addresses
_HAS_WORD = re.compile(rb"[0-9A-Za-z\x80-\xff]")


def _find_cells(text: bytes) -> list[Span]:
    """Return the texts that can be one value from end to end. Zero bytes separate texts."""
    return [
        match.span()
        for match in _CELL.finditer(text)
        if len(match.group()) <= _LONGEST_CELL and _HAS_WORD.search(match.group())
    ]


# Found only in a column whose name supports it: in running text, the label would be part of the same text.
_WHOLE_CELL = found_form(rb"[0-9A-Za-z\x80-\xff]", _find_cells, _BY_COLUMN, MASK)


def _labelled_form(label: bytes, value: bytes, score: float = _BY_LABEL) -> ValueForm:
    """Return the form of a value after `label` and a colon or equals sign, quoted or not."""
    sign = rb"[\"']?[ ]?[:=][ ]?[\"']?"
    return token_form(
        rb"(?i:" + label + rb")" + sign + rb"[^\x00]",
        rb"(?<![A-Za-z])(?i:" + label + rb")" + sign + rb"(?!\*{4})(" + value + rb")",
        score,
        label=rb"(?i:" + label + rb")",
    )


_NAME = rb"[A-Za-z\x80-\xff][A-Za-z\x80-\xff'-]{0,63}(?: [A-Z\x80-\xff][A-Za-z\x80-\xff'-]{0,63}){0,3}"
_SECRET = rb"[^\s\"',;&\x00]{1,256}"

FIRST_NAME = Detector(
    InfoType.FIRST_NAME,
    (_labelled_form(rb"(?:first|given)[ _-]?names?|forename|vorname|pr\xc3\xa9nom|prenom|nombre", _NAME), _WHOLE_CELL),
    words="first name, given name, forename, fname, middle name, vorname, prenom, nombre",
)
LAST_NAME = Detector(
    InfoType.LAST_NAME,
    (_labelled_form(rb"(?:last|family)[ _-]?name|surname|nachname|apellidos?|cognome", _NAME), _WHOLE_CELL),
    words="last name, family name, surname, lname, maiden name, nachname, nom de famille, apellido, apellidos, cognome",
)
PASSWORD = Detector(
    InfoType.PASSWORD,
    (_labelled_form(rb"password|passwd|pwd|passphrase|passwort|kennwort", _SECRET), _WHOLE_CELL),
    words="password, passwd, pwd, passphrase, passwort, kennwort, mot de passe, contrasena",
)

# A date is a date of birth if the context says so.
DATE_OF_BIRTH = Detector(
    InfoType.DATE_OF_BIRTH,
    tuple(ValueForm(form.candidate, form.mask, form.find, _BY_CONTEXT) for form in dates.DATE_TIME.forms),
    words="birth, birthday, birthdate, date of birth, dob, born, geburtsdatum, geboren, naissance, nacimiento, nascita",
)


def _is_age(digits: bytes) -> bool:
    return int(digits) <= 125


AGE = Detector(
    InfoType.AGE,
    (
        token_form(
            rb"[0-9]{1,3}[ -]years?[ -]old",
            BEHIND_EDGE + rb"([0-9]{1,3})[ -]years?[ -]old" + NOT_BEFORE_WORD,
            _BY_SHAPE,
        ),
        number_form(rb"[0-9][0-9]{0,2}", _BY_CONTEXT, _is_age),
    ),
    words="age, aged, edad",
)
_GENDERS = (
    rb"(?i:male|female|man|woman|non-?binary|transgender|diverse|intersex|m\xc3\xa4nnlich|weiblich|divers|[mfwdx])"
)
GENDER = Detector(
    InfoType.GENDER,
    (token_form(_GENDERS, BEHIND_EDGE + _GENDERS + NOT_BEFORE_WORD, _BY_CONTEXT),),
    words="gender, sex, geschlecht, sexe, genero, sesso",
)

_STREET = (
    rb"(?:Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Way|Place|Pl|Square|Sq|Terrace|Ter|"
    rb"Highway|Hwy|Parkway|Pkwy|Crescent|Close|Gardens|Row)"
)
_STRASSE = rb"(?:stra(?:\xc3\x9f|ss)e|str\.|weg|platz|allee|gasse|ring|damm|laan|straat|gatan|vej)"
_RUE = rb"(?:rue|avenue|boulevard|place|chemin|impasse|quai|all\xc3\xa9e)"
STREET_ADDRESS = Detector(
    InfoType.STREET_ADDRESS,
    (
        token_form(
            rb"[0-9]{1,5}[A-Za-z]? (?:[A-Z][A-Za-z.']{0,24} ){1,4}" + _STREET,
            BEHIND_EDGE + rb"[0-9]{1,5}[A-Za-z]? (?:[A-Z][A-Za-z.']{0,24} ){1,4}" + _STREET + NOT_BEFORE_WORD,
            _BY_SHAPE,
        ),
        token_form(
            rb"[A-Z][a-z\x80-\xff-]{1,30}" + _STRASSE + rb" [0-9]{1,4}[a-z]?",
            BEHIND_EDGE + rb"[A-Z][a-z\x80-\xff-]{1,30}?" + _STRASSE + rb" [0-9]{1,4}[a-z]?" + NOT_BEFORE_WORD,
            _BY_SHAPE,
        ),
        token_form(
            rb"[0-9]{1,4}(?: (?:bis|ter))?,? " + _RUE + rb" [A-Za-z\x80-\xff]",
            BEHIND_EDGE + rb"[0-9]{1,4}(?: (?:bis|ter))?,? " + _RUE + rb"(?: [A-Za-z\x80-\xff'-]{1,24}){1,5}"
            + NOT_BEFORE_WORD,
            _BY_SHAPE,
        ),
        _WHOLE_CELL,
    ),
    words="street, street address, home address, postal address, mailing address, billing address, shipping address, "
    "address line, strasse, anschrift, adresse, direccion, indirizzo",
)  # fmt: skip


def _has_digits(value: bytes) -> bool:
    return sum(character in b"0123456789" for character in value) >= 4


MEDICAL_RECORD_NUMBER = Detector(
    InfoType.MEDICAL_RECORD_NUMBER,
    (number_form(rb"[0-9A-Z][0-9A-Z-]{3,14}", _BY_CONTEXT, _has_digits),),
    words="mrn, medical record, medical record number, medical record no, patient id, patient number, patient no, "
    "chart number, hospital number",
)
PASSPORT = Detector(
    InfoType.PASSPORT,
    (number_form(rb"[0-9A-Z][0-9A-Z]{5,11}", _BY_CONTEXT, _has_digits),),
    words="passport, passport no, passport number, passports, travel document, reisepass, passeport, pasaporte, "
    "passaporto, paspoort",
)
