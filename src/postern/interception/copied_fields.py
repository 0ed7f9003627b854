"""Fields of copied lines in one list, which costs less than a list for each line."""

from __future__ import annotations

LINE_END = b"\n"


def split_fields(text: bytes, delimiter: bytes, lines: int) -> list[bytes] | None:
    """Return the fields of a text of so many lines: those of each line, then a line end.

    None if lines have different numbers of fields, or if the text has another number of lines.
    """
    if text.count(LINE_END) != lines or not text.endswith(LINE_END):
        return None
    fields = text.replace(LINE_END, delimiter + LINE_END + delimiter).split(delimiter)
    del fields[-1]  # after the last line
    step = fields.index(LINE_END) + 1
    if len(fields) != lines * step or fields[step - 1 :: step].count(LINE_END) != lines:
        return None
    return fields


def join_fields(fields: list[bytes], width: int, delimiter: bytes) -> list[bytes]:
    """Return the lines of such a list, each with its end. `width` is the number of fields in a line."""
    return [delimiter.join(fields[start : start + width]) + LINE_END for start in range(0, len(fields), width + 1)]
