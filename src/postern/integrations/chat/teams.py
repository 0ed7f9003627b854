"""Microsoft Teams: an Adaptive Card to a workflow's webhook
(https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/add-incoming-webhook).

A workflow accepts cards and returns nothing, so each event is a new card, and reviewers decide on the web page.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from postern.domain.chat import Card
from postern.domain.sink import Sink
from postern.errors import Denied
from postern.integrations.sinks.receivers import Receivers

MAX_BODY = 28_000  # limit of Teams in bytes
MAX_INPUT = 4_000  # characters
MAX_LINE = 500  # characters of a fact, the title or the state
# (facts, characters of each line, of the input); the last fits with any characters.
_SHORTER = ((40, MAX_LINE, MAX_INPUT), (20, MAX_LINE, 1_000), (10, MAX_LINE, 0), (10, 100, 0))
_MARKUP = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]()#+-.!|<>~"})


class Teams:
    def __init__(self, receivers: Receivers) -> None:
        self._receivers = receivers

    async def notify(self, sink: Sink, card: Card, previous: tuple[str, str] | None, event_id: UUID) -> tuple[str, str]:
        await self._post(sink, message(card))
        return "", ""

    async def say(self, sink: Sink, text: str) -> None:
        await self._post(sink, _wrap_card([_block(text)], []))

    async def _post(self, sink: Sink, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        if len(body) > MAX_BODY:
            raise Denied("the message is larger than Teams accepts in one card")
        headers = {"Content-Type": "application/json", "User-Agent": "postern"}
        await self._receivers.post(sink, body, headers, url=sink.keys["url"].reveal())


def message(card: Card) -> dict[str, Any]:
    """Build a message within the limits of Teams: facts and input are truncated."""
    for facts, line, characters in _SHORTER:
        content = _message(card, facts, line, characters)
        if len(json.dumps(content)) <= MAX_BODY:
            break
    return content


def _message(card: Card, facts: int, line: int, characters: int) -> dict[str, Any]:
    rows = [{"title": label, "value": escape_markdown(value[:line])} for label, value in card.facts[:facts]]
    body: list[dict[str, Any]] = [
        _block(card.title[:MAX_LINE], weight="Bolder", size="Medium"),
        _block(card.state[:line], weight="Bolder"),
        {"type": "FactSet", "facts": rows},
    ]
    if card.input and characters:
        more = "\n… (more on the page)" if len(card.input) > characters else ""
        text = card.input[:characters] + more
        # Not a TextBlock, whose text is Markdown.
        runs = [{"type": "TextRun", "text": text, "fontType": "Monospace"}]
        body.append({"type": "RichTextBlock", "inlines": runs})
    words = "Decide" if card.is_open else "Open the review"
    return _wrap_card(body, [{"type": "Action.OpenUrl", "title": words, "url": card.url}])


def escape_markdown(text: str) -> str:
    """Escape the Markdown of Adaptive Cards."""
    return text.translate(_MARKUP)


def _block(text: str, **more: str) -> dict[str, Any]:
    return {"type": "TextBlock", "text": escape_markdown(text), "wrap": True, **more}


def _wrap_card(body: list[dict[str, Any]], actions: list[dict[str, Any]]) -> dict[str, Any]:
    content = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "actions": actions,
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": content}
    return {"type": "message", "attachments": [attachment]}
