"""Decoding of a client's bytes in the encoding that it uses."""

from __future__ import annotations

from typing import Final

# Stands for one of Python's codecs: nothing is converted, and the bytes are in the encoding of the target's database.
SQL_ASCII: Final = "sql_ascii"


def text_of(data: bytes, codec: str, errors: str = "surrogateescape") -> str:
    """Decode bytes. `codec` is one of Python's, or SQL_ASCII."""
    if codec != SQL_ASCII:
        return data.decode(codec, errors)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")
