"""How bind values of a held statement are shown to reviewers."""

from __future__ import annotations

from hashlib import sha256

import pytest

from postern.gateway.rules.held_requests import _value
from postern.interception.events import Operation


@pytest.mark.parametrize(
    ("value", "encoding", "unsure", "shown"),
    [
        (b"NULL", "utf-8", (), "'NULL'"),
        (None, "utf-8", (), "NULL"),
        (b"\xc3\xa9", "iso8859-1", (), "'\u00c3\u00a9'"),  # and not the one character that it is in UTF-8
        (b"\xc3\xa9", "utf-8", (), "'\u00e9'"),
        (b"\\x00", "utf-8", (), "'\\\\x00'"),
        (
            b"\\x00",
            "utf-8",
            (1,),
            "'\\\\x00', or the value that its type reads from the bytes 00 or the bytes 5c783030",
        ),
        (b"y" * 3_000, "utf-8", (), f"'{'y' * 1_999}\u2026 (3,000 bytes, SHA-256 {sha256(b'y' * 3_000).hexdigest()})"),
    ],
)
def test_attack_bind_values_are_shown_unambiguously(
    value: bytes | None, encoding: str, unsure: tuple[int, ...], shown: str
) -> None:
    operation = Operation(1, "t", values=(value,), encoding=encoding, unsure=unsure)
    assert _value(1, value, operation) == f"-- $1 = {shown}"
