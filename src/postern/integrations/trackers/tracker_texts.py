"""Texts of an issue, escaped so that a tracker shows them literally."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from postern.errors import Invalid

MAX_SUMMARY = 254  # characters; Jira and GitLab accept 255, GitHub 256
MAX_TEXT = 32_000  # characters; Jira accepts 32,767, and the others more
_CUT = "… (cut)"
# Characters that begin a macro, a link, a mention or an image in wiki markup.
_WIKI = str.maketrans({character: f"\\{character}" for character in "\\{}[]!|"})


def plain(value: Any) -> str | None:
    """Return the text of a value, as in services.issues.tracker; None for another form."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and len(value) == 1:
        text = value.get("value", value.get("moment"))
        return text if isinstance(text, str) else None
    return None


def moment(text: str, field: str) -> datetime:
    """Parse a time; UTC if it has no zone. Raises Invalid."""
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise Invalid(f"{field}: must be a time in ISO 8601, such as 2026-01-31T09:30", field=field) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def line(text: str, most: int = MAX_SUMMARY) -> str:
    """Return the text in one line."""
    return cut(" ".join(text.split()), most)


def cut(text: str, most: int = MAX_TEXT) -> str:
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT


def append_marker(text: str, marker: str) -> str:
    """Append the marker, truncating the text if necessary."""
    return f"{cut(remove_marker(text, marker), MAX_TEXT - len(marker) - 2)}\n\n{marker}"


def remove_marker(text: str, marker: str) -> str:
    """Remove the marker at the end."""
    return text.rstrip().removesuffix(marker).rstrip()


def has_marker(text: str, marker: str) -> bool:
    """Return True for the whole marker, not a part of a longer one."""
    return re.search(rf"(?<![\w-]){re.escape(marker)}(?![\w-])", text) is not None


def wiki(text: str) -> str:
    """Return plain text in Jira's wiki markup, without effective mentions, named links, images or macros."""
    return text.translate(_WIKI)


def document(text: str) -> dict[str, Any]:
    """Return the text in the Atlassian Document Format: a paragraph for each block of lines.

    https://developer.atlassian.com/cloud/jira/platform/apis/document/structure/
    """
    blocks = [block for block in text.replace("\r\n", "\n").split("\n\n") if block.strip()]
    return {"type": "doc", "version": 1, "content": [_paragraph(block) for block in blocks]}


def _paragraph(block: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    for line_text in block.strip("\n").split("\n"):
        if content:
            content.append({"type": "hardBreak"})
        if line_text:  # A text node must not be empty.
            content.append({"type": "text", "text": line_text})
    return {"type": "paragraph", "content": content}


def document_text(content: Any) -> str:
    """Return all text of a document, or of a text."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    waiting = [content]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            text, inner = node.get("text"), node.get("content")
            if isinstance(text, str):
                texts.append(text)
            if isinstance(inner, list):
                waiting.extend(reversed(inner))
    return " ".join(texts)
