"""Slack's requests for pressed buttons and submitted forms, and the responses.

https://docs.slack.dev/authentication/verifying-requests-from-slack and
https://docs.slack.dev/interactivity/handling-user-interaction
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs

from postern.domain.chat import Interaction, Introduced, Press, Reasoned
from postern.domain.reviews.review import Choice
from postern.domain.sink import Sink
from postern.errors import Malformed, Unauthenticated
from postern.integrations.chat import slack
from postern.integrations.chat.slack import Slack

MAX_AGE = 300  # maximum difference in seconds between a request's timestamp and our clock
_CHOICES = {
    slack.APPROVE: (Choice.APPROVED, False, "Approve"),
    slack.REJECT: (Choice.REJECTED, False, "Reject"),
    slack.FORCE: (Choice.APPROVED, True, "Force approval"),
}
_FORMS = (slack.REASON, slack.LINK)
_UNSIGNED = "the signature is missing or wrong; check the sink's signing secret"


class SlackWindow:
    def __init__(self, slack: Slack) -> None:
        self._slack = slack

    def read(self, sink: Sink, stamp: str, signature: str, body: bytes, now: datetime) -> Interaction | None:
        """See `Window` in services.notifications."""
        _require_signed(sink, stamp, signature, body, now)
        form = _form(body)
        if "payload" not in form:
            return _command(sink, form)
        payload = _object(form["payload"])
        _require_own(sink, _text(payload, "api_app_id"), _text(_map(payload, "team"), "id"))
        user = _text(_map(payload, "user"), "id")
        _require_member(sink, payload)
        if payload.get("type") == "block_actions":
            return _press(payload, user)
        if payload.get("type") == "view_submission":
            return _parse_submission(_map(payload, "view"), user)
        return None

    async def ask_why(self, sink: Sink, press: Press, form: str) -> None:
        words = next(
            words for choice, force, words in _CHOICES.values() if (choice, force) == (press.choice, press.force)
        )
        needed = press.choice is Choice.REJECTED or press.force
        await self._slack.open(sink, press.trigger, slack.reason_form(words, words[:24], form, needed=needed))

    async def open_link_form(self, sink: Sink, trigger: str) -> None:
        await self._slack.open(sink, trigger, slack.link_form())

    async def whisper(self, sink: Sink, channel: str, user: str, text: str) -> None:
        await self._slack.whisper(sink, channel, user, text)

    def accepted_answer(self, interaction: Reasoned | Introduced, text: str) -> dict[str, Any]:
        if isinstance(interaction, Introduced) and not interaction.in_form:
            return _ephemeral(text)
        return {"response_action": "clear"}

    def rejected_answer(self, interaction: Reasoned | Introduced, text: str) -> dict[str, Any]:
        if isinstance(interaction, Introduced) and not interaction.in_form:
            return _ephemeral(text)
        block = slack.LINK if isinstance(interaction, Introduced) else slack.REASON
        return {"response_action": "errors", "errors": {block: text[:1_000]}}


def signature(secret: str, stamp: str, body: bytes) -> str:
    """Return the signature over the raw body."""
    return "v0=" + hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()


def _require_signed(sink: Sink, stamp: str, request_signature: str, body: bytes, now: datetime) -> None:
    expected = signature(sink.keys["signing_secret"].reveal(), stamp, body)
    if not hmac.compare_digest(expected.encode(), request_signature.encode(errors="replace")):
        raise Unauthenticated(_UNSIGNED)
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) < 12) or abs(now.timestamp() - int(stamp)) > MAX_AGE:
        raise Unauthenticated(_UNSIGNED)


def _require_own(sink: Sink, app: str, team: str) -> None:
    """Check the application and workspace: one signing secret belongs to an application, which may be in several
    workspaces."""
    if (app, team) != (sink.options["app_id"], sink.options["team_id"]):
        raise Unauthenticated(_UNSIGNED)


def _require_member(sink: Sink, payload: Mapping[str, Any]) -> None:
    """Check that the user is a member and no guest of a shared channel: member ids belong to their workspace, or to its
    whole organisation."""
    home, ours = _text(_map(payload, "user"), "team_id"), _text(_map(payload, "enterprise"), "id")
    if home and home not in (sink.options["team_id"], ours):
        raise Unauthenticated(_UNSIGNED)


def _command(sink: Sink, form: Mapping[str, str]) -> Introduced | None:
    """Parse a slash command, whose text is the code, with or without `link` before it."""
    _require_own(sink, form.get("api_app_id", ""), form.get("team_id", ""))
    if "command" not in form:
        return None
    return Introduced(form.get("user_id", ""), form.get("text", "").removeprefix("link ").strip(), in_form=False)


def _press(payload: Mapping[str, Any], user: str) -> Press | None:
    actions = payload.get("actions")
    action = actions[0] if isinstance(actions, list) and actions and isinstance(actions[0], dict) else {}
    choice = _CHOICES.get(_text(action, "action_id"))
    if choice is None:
        return None
    review = slack.review_of(_text(action, "value"))
    if review is None:
        raise Malformed("actions: this button does not belong to a review")
    channel = _text(_map(payload, "channel"), "id") or _text(_map(payload, "container"), "channel_id")
    return Press(user, channel, review, choice[0], choice[1], _text(payload, "trigger_id"))


def _parse_submission(view: Mapping[str, Any], user: str) -> Reasoned | Introduced | None:
    name = _text(view, "callback_id")
    if name not in _FORMS:
        return None
    field = _map(_map(_map(_map(view, "state"), "values"), name), name)
    text = _text(field, "value")
    if name == slack.LINK:
        return Introduced(user, text, in_form=True)
    return Reasoned(user, _text(view, "private_metadata"), text)


def _form(body: bytes) -> dict[str, str]:
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=50, errors="strict")
    except ValueError:
        raise Malformed("the body cannot be read as a form") from None
    return {name: values[0] for name, values in fields.items()}


def _object(text: str) -> Mapping[str, Any]:
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise Malformed("payload: must be a JSON object")
    return payload


def _map(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = content.get(name)
    return value if isinstance(value, dict) else {}


def _text(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name)
    return value if isinstance(value, str) else ""


def _ephemeral(text: str) -> dict[str, Any]:
    return {"response_type": "ephemeral", "text": slack.escape_text(text)}
