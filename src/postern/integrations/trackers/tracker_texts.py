"""What goes into an issue: texts that a tracker shows as they are, whoever wrote them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from postern.errors import Invalid

MAX_SUMMARY = 254  # characters; Jira and GitLab take 255, GitHub 256
MAX_TEXT = 32_000  # characters; Jira takes 32,767, and the others more
_CUT = "… (cut)"
# By which wiki markup begins a macro, a link, a mention or an image.
_WIKI = str.maketrans({one: f"\\{one}" for one in "\\{}[]!|"})


def plain(value: Any) -> str | None:
    """The text of a value as services.issues.tracker.Tracker says; None for one of another form."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and len(value) == 1:
        found = value.get("value", value.get("moment"))
        return found if isinstance(found, str) else None
    return None


def moment(text: str, field: str) -> datetime:
    """With a zone: UTC where it has none. Raises Invalid."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise Invalid(f"{field}: must be a time in ISO 8601, such as 2026-01-31T09:30", field=field) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def line(text: str, most: int = MAX_SUMMARY) -> str:
    """In one line."""
    return cut(" ".join(text.split()), most)


def cut(text: str, most: int = MAX_TEXT) -> str:
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT


def marked(text: str, marker: str) -> str:
    """With the marker at its end, once, whatever had to be cut."""
    return f"{cut(unmarked(text, marker), MAX_TEXT - len(marker) - 2)}\n\n{marker}"


def unmarked(text: str, marker: str) -> str:
    """Without the marker at its end."""
    return text.rstrip().removesuffix(marker).rstrip()


def has_marker(text: str, marker: str) -> bool:
    """The whole of it, and not a part of a longer one."""
    return re.search(rf"(?<![\w-]){re.escape(marker)}(?![\w-])", text) is not None


def wiki(text: str) -> str:
    """In Jira's wiki markup, as plain text: nobody writes a mention, a link under another name, an image or a macro."""
    return text.translate(_WIKI)


def document(text: str) -> dict[str, Any]:
    """In the Atlassian Document Format: a paragraph for each block of lines.

    https://developer.atlassian.com/cloud/jira/platform/apis/document/structure/
    """
    blocks = [block for block in text.replace("\r\n", "\n").split("\n\n") if block.strip()]
    return {"type": "doc", "version": 1, "content": [_paragraph(block) for block in blocks]}


def _paragraph(block: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    for one in block.strip("\n").split("\n"):
        if content:
            content.append({"type": "hardBreak"})
        if one:  # A text node must not be empty.
            content.append({"type": "text", "text": one})
    return {"type": "paragraph", "content": content}


def undocumented(content: Any) -> str:
    """All text of a document, or of a text."""
    if isinstance(content, str):
        return content
    found: list[str] = []
    waiting = [content]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            text, inner = one.get("text"), one.get("content")
            if isinstance(text, str):
                found.append(text)
            if isinstance(inner, list):
                waiting.extend(reversed(inner))
    return " ".join(found)
