"""The common part of GitHub and GitLab: Markdown, few fields, and no asset management.

A value whose field the host does not have is in the text, with its name. User texts are in a fence, so that they
mention no user, close no issue, and run no quick action of GitLab
(https://docs.gitlab.com/user/project/quick_actions/).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from postern.domain.issues.issue import Assets, NewIssue
from postern.domain.lists import Page
from postern.errors import Invalid
from postern.integrations.trackers.tracker_calls import TrackerClient
from postern.integrations.trackers.tracker_texts import MAX_TEXT, cut, line, plain, remove_marker

Shape = Callable[[str, str], Any]
_AT = re.compile(r"(?<!\w)@")


class CodeHost:
    def __init__(self, calls: TrackerClient) -> None:
        self._calls = calls

    async def objects(self, object_type: str, query: str, page: Page) -> Assets:
        raise _no_objects()

    async def close(self) -> None:
        await self._calls.close()


def contents_of(new: NewIssue, shapes: Mapping[str, Shape]) -> tuple[str, str, dict[str, Any]]:
    """Return (title, text, fields that the host has). `shapes` convert a text, given the field's name. Raises
    Invalid."""
    if new.objects:
        raise _no_objects()
    fields: dict[str, Any] = {}
    lines = []
    for name, value in new.fields.items():
        text = plain(value)
        if name in shapes:
            fields[name] = value if text is None else shapes[name](text, name)
        else:
            lines.append(f"{line(name)}: {value if text is None else text}")
    words = "\n".join([remove_marker(new.text, new.marker), *([""] if lines else []), *lines])
    title = _AT.sub("@\u200b", line(new.summary, 240))
    return title, f"{add_fence(cut(words, MAX_TEXT))}\n\n{new.marker}", fields


def add_fence(words: str) -> str:
    """Return plain text, in a fence that is longer than any in it."""
    longest = max((len(run) for run in re.findall("`+", words)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{words}\n{fence}"


def several(text: str, _name: str) -> list[str]:
    """Split names at commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Invalid(f"{name}: must be a number", field=name)
    return int(text)


def wanted_state(name: str, states: Mapping[str, frozenset[str]]) -> str:
    """Return the state that a transition's name means. Raises Invalid."""
    for state, names in states.items():
        if name.strip().lower() in names:
            return state
    names_text = "; ".join(", ".join(sorted(names)) for names in states.values())
    raise Invalid(f"there is no transition {name!r}; use one of: {names_text}")


def _no_objects() -> Invalid:
    return Invalid("this tracker has no asset management; remove cmdb_types from the template")
