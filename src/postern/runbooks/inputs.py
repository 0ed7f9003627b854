"""Checks of parameter values. They are those of a form, made where no client can skip them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import re2

from postern.domain.runbook import Parameter
from postern.runbooks.template_errors import Fault

PATTERN_MEMORY = 1024 * 1024  # bytes; bounds the compiled program, and thereby the time per byte of a value
_NUMBER = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?")
_TELEPHONE = re.compile(r"\+?[0-9 ()./-]{1,50}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,3})?)?")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL = re.compile(rf"[A-Za-z0-9.!#$%&'*+/=?^_`{{|}}~-]{{1,64}}@{_LABEL}(?:\.{_LABEL})*")  # as in HTML
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\x00-\x20\x7f\"<>\\^`{|}]+")
_BREAKS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_MAY_BREAK = frozenset({"textarea", "file", "password"})

# Description of each type, for messages about values that do not match it.
TYPES: Mapping[str, str] = {
    "text": "one line of text",
    "number": "a number, such as 5 or -1.25",
    "tel": "a telephone number: digits, blanks and +()./-",
    "time": "a time, such as 23:59",
    "date": "a date, such as 2026-12-31",
    "datetime-local": "a date and a time, such as 2026-12-31T23:59",
    "url": "a whole address, such as https://example.com/path",
    "email": "an e-mail address",
    "select": "one of its options",
    "textarea": "a text",
    "password": "a text",
    "file": "the contents of a file",
}


def problem(value: str, kind: str, options: tuple[str, ...], minlength: int | None, maxlength: int | None) -> str:
    """Return why a value is not valid, as the end of a message; empty if it is. Never contains the value.

    An empty value is always valid: `required` rejects it.
    """
    if not value:
        return ""
    if options and value not in options:
        return f"must be one of {', '.join(options)}"
    if minlength is not None and len(value) < minlength:
        return f"must have at least {minlength} characters, but has {len(value)}"
    if maxlength is not None and len(value) > maxlength:
        return f"must have at most {maxlength} characters, but has {len(value)}"
    if kind not in _MAY_BREAK and _BREAKS.search(value):
        return "must be one line without control characters (the type textarea allows more)"
    if not _is_of(kind, value):
        return f"must be {TYPES[kind]}"
    return ""


def problem_of(parameter: Parameter, value: str) -> str:
    return problem(value, parameter.type, parameter.options, parameter.minlength, parameter.maxlength)


def _is_of(kind: str, value: str) -> bool:
    if kind == "number":
        return _NUMBER.fullmatch(value) is not None
    if kind == "tel":
        return _TELEPHONE.fullmatch(value) is not None
    if kind == "email":
        return len(value) <= 254 and _EMAIL.fullmatch(value) is not None
    if kind == "url":
        return _is_url(value)
    if kind == "date":
        return _is_date(value)
    if kind == "time":
        return _is_time(value)
    if kind == "datetime-local":
        day, separator, moment = value.partition("T")
        return bool(separator) and _is_date(day) and _is_time(moment)
    return True


def _is_date(value: str) -> bool:
    try:
        return _DATE.fullmatch(value) is not None and bool(date.fromisoformat(value))
    except ValueError:
        return False


def _is_time(value: str) -> bool:
    if not _TIME.fullmatch(value):
        return False
    hours, minutes, *seconds = (int(part.split(".")[0]) for part in value.split(":"))
    return hours < 24 and minutes < 60 and all(one < 60 for one in seconds)


def _is_url(value: str) -> bool:
    try:
        return _URL.fullmatch(value) is not None and bool(urlsplit(value).hostname)
    except ValueError:
        return False


@lru_cache(maxsize=64)  # shared by all organisations, so that the memory of all patterns is bounded
def _compile_cached(pattern: str) -> Any:
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY
    options.log_errors = False
    options.never_capture = True
    return re2.compile(pattern.encode(), options)


def compile_pattern(pattern: str, at: int) -> Any:
    """Compile a pattern with RE2, which takes time linear in the value. Raises Fault."""
    try:
        return _compile_cached(pattern)
    except re2.error as error:
        detail = error.args[0] if error.args else ""
        reason = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        raise Fault(f"the pattern does not compile: {reason}", at) from None
