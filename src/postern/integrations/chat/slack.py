"""Slack: messages with buttons, and their forms (https://docs.slack.dev/apis/web-api).

User texts are escaped (&, <, >), and are plain text where Block Kit has it, so they cannot contain links, mentions or
lines that look like ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from postern.domain.chat import Card
from postern.domain.sink import Sink
from postern.errors import Denied, TooMany, Unavailable
from postern.integrations.sinks.receivers import Receivers

APPROVE, REJECT, FORCE = "postern_approve", "postern_reject", "postern_force"
REASON, LINK = "postern_reason", "postern_link"
MAX_SECTION = 3_000  # characters of a section's text
MAX_FIELDS, MAX_FIELD = 10, 2_000
MAX_SCRIPT = 1_900  # characters of a script, before escaping
MAX_HEADER, MAX_REASON = 150, 1_000
MAX_ALL = 12_000  # bytes of all blocks; Slack refuses more than about 13,000, an undocumented limit
_CUT = "… (more on the page)"
# (facts, characters of each line, of the input); the last fits with any characters.
_SHORTER = ((400, MAX_FIELD, MAX_SCRIPT), (40, 500, MAX_SCRIPT), (20, 200, 600), (10, 50, 0))
# Errors by which Slack rejects this very message.
_UNWANTED = frozenset(
    {"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long", "no_text", "invalid_arguments"}
)
# Errors after which a message cannot be updated, and another is sent.
_LOST = frozenset({"message_not_found", "cant_update_message", "edit_window_closed", "thread_locked"})


class MessageGone(Denied):
    """The message no longer exists."""


class Slack:
    def __init__(self, receivers: Receivers) -> None:
        self._receivers = receivers

    async def notify(self, sink: Sink, card: Card, previous: tuple[str, str] | None, event_id: UUID) -> tuple[str, str]:
        """Send or update a message. Return its (channel, ts); `previous` is the current one."""
        content = {"blocks": blocks(card), "text": escape_text(f"{card.title}: {card.state}")[:MAX_SECTION]}
        if previous is not None:
            try:
                await self._call(sink, "chat.update", {"channel": previous[0], "ts": previous[1], **content})
                return previous
            except MessageGone:
                pass
        options = {"unfurl_links": False, "unfurl_media": False}
        answer = await self._call(sink, "chat.postMessage", {"channel": sink.options["channel"], **content, **options})
        return _text(answer, "channel"), _text(answer, "ts")

    async def say(self, sink: Sink, text: str) -> None:
        message = {"channel": sink.options["channel"], "text": escape_text(text)[:MAX_SECTION]}
        await self._call(sink, "chat.postMessage", message)

    async def whisper(self, sink: Sink, channel: str, user: str, text: str) -> None:
        """Show a message to one user only."""
        message = {"channel": channel, "user": user, "text": escape_text(text)[:MAX_SECTION]}
        await self._call(sink, "chat.postEphemeral", message)

    async def open(self, sink: Sink, trigger_id: str, view: Mapping[str, Any]) -> None:
        await self._call(sink, "views.open", {"trigger_id": trigger_id, "view": dict(view)})

    async def _call(self, sink: Sink, method: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call a method. Slack answers 200 also for failures; `ok` tells. Raises Denied, MessageGone, TooMany,
        Unavailable."""
        headers = {
            "Authorization": f"Bearer {sink.keys['bot_token'].reveal()}",
            "Content-Type": "application/json; charset=utf-8",
            "User-Agent": "postern",
        }
        url = f"{sink.address.rstrip('/')}/{method}"
        answered = await self._receivers.post(sink, json.dumps(dict(body)).encode(), headers, url=url)
        try:
            answer = json.loads(answered)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise Unavailable(f"Slack's {method} did not answer with a JSON object")
        if answer.get("ok") is True:
            return answer
        error = _text(answer, "error")[:100] or "no reason"
        if error in _LOST:
            raise MessageGone(f"Slack's {method} failed: {error}")
        if error in _UNWANTED:
            raise Denied(f"Slack's {method} failed: {error}")
        if error in ("ratelimited", "rate_limited"):
            raise TooMany(f"Slack's {method} failed: {error}", retry_after=30)
        raise Unavailable(f"Slack's {method} failed: {error}")


def escape_text(text: str) -> str:
    """Escape text that is not markup (https://docs.slack.dev/messaging/formatting-message-text)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def blocks(card: Card) -> list[dict[str, Any]]:
    """Return the blocks of a card: 50 at most, and MAX_ALL bytes; every text is within its limit."""
    for facts, line, characters in _SHORTER:
        content = _blocks(card, facts, line, characters)
        if len(json.dumps(content)) <= MAX_ALL:
            break
    return content


def _blocks(card: Card, most: int, line: int, characters: int) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = [
        {"type": "header", "text": _plain("Review", MAX_HEADER)},
        {"type": "section", "text": _plain(f"{card.title[:500]}\n{_cut(card.state, line)}", MAX_SECTION)},
    ]
    facts = [_plain(f"{label}: {value}", line) for label, value in card.facts[:most]]
    starts = range(0, len(facts), MAX_FIELDS)
    content += [{"type": "section", "fields": facts[start : start + MAX_FIELDS]} for start in starts]
    if card.input:
        content.append(
            {"type": "section", "text": {"type": "mrkdwn", "text": _code(card.input, characters), "verbatim": True}}
        )
    if card.is_open:
        content.append({"type": "actions", "block_id": f"postern_{card.review_id}", "elements": _buttons(card)})
    page = f"<{escape_text(card.url)}|Open the review>"
    content.append({"type": "context", "elements": [{"type": "mrkdwn", "text": page, "verbatim": True}]})
    return content


def _buttons(card: Card) -> list[dict[str, Any]]:
    actions = [(APPROVE, "Approve", "primary"), (REJECT, "Reject", "danger")]
    if card.may_force:
        actions.append((FORCE, "Force approval", ""))
    buttons = []
    for action, words, style in actions:
        button = {"type": "button", "action_id": action, "text": _plain(words, 75), "value": str(card.review_id)}
        buttons.append(button | ({"style": style} if style else {}))
    return buttons


def _code(text: str, most: int) -> str:
    """Return a code block that the text cannot end: a backtick gets a zero-width space after it."""
    if not most:
        return _CUT
    cut = len(text) > most
    escaped = escape_text(text[:most].replace("`", "`\u200b"))
    while len(escaped) > MAX_SECTION - 100:  # most of it were escapes
        text, cut = text[: len(text[:most]) // 2], True
        escaped = escape_text(text.replace("`", "`\u200b"))
    return f"```{escaped}\n```" + (_CUT if cut else "")


def _plain(text: str, most: int) -> dict[str, Any]:
    """Return a plain-text object, without markup except `emoji`."""
    return {"type": "plain_text", "text": _cut(text, most), "emoji": False}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def reason_form(title: str, submit: str, metadata: str, *, needed: bool) -> dict[str, Any]:
    """Return a modal that asks for a reason; `metadata` is returned with it."""
    field = {"type": "plain_text_input", "action_id": REASON, "multiline": True, "max_length": MAX_REASON}
    return {
        "type": "modal",
        "callback_id": REASON,
        "private_metadata": metadata,
        "title": _plain(title, 24),
        "submit": _plain(submit, 24),
        "close": _plain("Cancel", 24),
        "blocks": [
            {
                "type": "input",
                "block_id": REASON,
                "optional": not needed,
                "label": _plain("Reason", 100),
                "element": field,
            }
        ],
    }


def link_form() -> dict[str, Any]:
    """Return a modal that asks for the code that links an account."""
    field = {"type": "plain_text_input", "action_id": LINK, "max_length": 200}
    words = "Your Slack account is not linked yet. Run `postern chat link` where you are logged in, and enter the code."
    return {
        "type": "modal",
        "callback_id": LINK,
        "title": _plain("Link your account", 24),
        "submit": _plain("Link", 24),
        "close": _plain("Cancel", 24),
        "blocks": [
            {"type": "section", "text": _plain(words, MAX_SECTION)},
            {"type": "input", "block_id": LINK, "label": _plain("Code", 100), "element": field},
        ],
    }


def review_of(value: str) -> UUID | None:
    """Return the review in a button's value."""
    try:
        return UUID(value)
    except ValueError:
        return None


def _text(answer: Mapping[str, Any], name: str) -> str:
    value = answer.get(name)
    return value if isinstance(value, str) else ""
