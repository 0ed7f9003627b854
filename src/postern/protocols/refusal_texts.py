"""Bytes of a client as text, in the encoding that it speaks."""

from __future__ import annotations

from typing import Final

# In place of one of Python's codecs: nothing is converted, and bytes are what the target's database has.
SQL_ASCII: Final = "sql_ascii"


def text_of(data: bytes, codec: str, errors: str = "surrogateescape") -> str:
    """`codec` is Python's, or SQL_ASCII."""
    if codec != SQL_ASCII:
        return data.decode(codec, errors)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")
