"""Stand-ins for chats, which take what the vendors document and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.support.receivers import server_context
from tests.support.sinks import sink_fields

from postern.domain.secret import Secret
from postern.domain.sink import SinkKind
from postern.integrations.chat.slack_window import signature

BOT_TOKEN = "xoxb-1234567890-abcdefghij"
SIGNING_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
CHANNEL, APP, TEAM, TRIGGER = "C0REVIEWS", "A0POSTERN", "T0TEAM", "12345.98765.abcd2358fdea"
MAX_BLOCKS, MAX_SECTION, MAX_HEADER, MAX_FIELD, MAX_FIELDS, MAX_BUTTON = 50, 3_000, 150, 2_000, 10, 75
MAX_ALL = 13_000  # of all blocks together; documented nowhere, and what github.com/slackapi/bolt-js/issues/2509 found


class Refused(Exception):
    """Slack's `error`."""


@dataclass
class SlackServer:
    """https://docs.slack.dev/reference/methods: four methods, with their limits. `failing` are answers that come
    before anything is done: a word is Slack's `error`, a number a status."""

    port: int = 0
    failing: list[str | int] = field(default_factory=list)
    retry_after: int = 30
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)  # by ts
    whispers: list[dict[str, Any]] = field(default_factory=list)
    views: list[dict[str, Any]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    spent: set[str] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}/api"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                lines = (line.partition(": ") for line in head[1:] if line)
                headers = {name.lower(): value for name, _, value in lines}
                body = await reader.readexactly(int(headers["content-length"]))
                status, more, answer = self._answer(head[0].split(" ")[1], headers, body)
                content = json.dumps(answer).encode()
                length = f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
                writer.write(f"HTTP/1.1 {status} X\r\n{more}{length}\r\n".encode() + content)
                await writer.drain()
        writer.close()

    def _answer(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str, dict[str, Any]]:
        method = path.removeprefix("/api/")
        self.calls.append(method)
        if self.failing:
            how = self.failing.pop(0)
            if isinstance(how, int):
                return how, f"Retry-After: {self.retry_after}\r\n", {"ok": False, "error": "ratelimited"}
            return 200, "", {"ok": False, "error": how}
        try:
            if headers.get("authorization") != f"Bearer {BOT_TOKEN}":
                raise Refused("invalid_auth")
            if not headers.get("content-type", "").startswith("application/json"):
                raise Refused("invalid_post_type")
            given = json.loads(body)
            work = {
                "chat.postMessage": self._post,
                "chat.update": self._update,
                "chat.postEphemeral": self._whisper,
                "views.open": self._open,
            }[method]
            return 200, "", {"ok": True, **work(given)}
        except Refused as problem:
            return 200, "", {"ok": False, "error": str(problem)}

    def _post(self, given: dict[str, Any]) -> dict[str, Any]:
        self._check(given)
        ts = f"1700000000.{len(self.messages):06}"
        self.messages[ts] = given
        return {"channel": given["channel"], "ts": ts, "message": given}

    def _update(self, given: dict[str, Any]) -> dict[str, Any]:
        self._check(given)
        if given.get("ts") not in self.messages:
            raise Refused("message_not_found")
        self.messages[given["ts"]] = given
        return {"channel": given["channel"], "ts": given["ts"]}

    def _whisper(self, given: dict[str, Any]) -> dict[str, Any]:
        self._check(given)
        if not given.get("user"):
            raise Refused("user_not_in_channel")
        self.whispers.append(given)
        return {"message_ts": "1"}

    def _open(self, given: dict[str, Any]) -> dict[str, Any]:
        trigger, view = given.get("trigger_id"), given.get("view")
        if not trigger or trigger in self.spent:
            raise Refused("exchanged_trigger_id")
        if not isinstance(view, dict) or view.get("type") != "modal" or len(view.get("private_metadata", "")) > 3_000:
            raise Refused("invalid_arguments")
        for name in ("title", "submit", "close"):
            _text(view[name], 24, plain=True)
        self._blocks(view["blocks"])
        self.spent.add(trigger)
        self.views.append(view)
        return {"view": view}

    def _check(self, given: dict[str, Any]) -> None:
        if given.get("channel") != CHANNEL:
            raise Refused("channel_not_found")
        if not given.get("text") or len(given["text"]) > 40_000:
            raise Refused("no_text")
        self._blocks(given.get("blocks", []))

    def _blocks(self, blocks: list[dict[str, Any]]) -> None:
        if len(blocks) > MAX_BLOCKS:
            raise Refused("invalid_blocks")
        if len(json.dumps(blocks)) > MAX_ALL:
            raise Refused("msg_blocks_too_long")
        for block in blocks:
            kind = block["type"]
            if kind == "header":
                _text(block["text"], MAX_HEADER, plain=True)
            elif kind == "section":
                if "text" in block:
                    _text(block["text"], MAX_SECTION)
                elif not 1 <= len(block["fields"]) <= MAX_FIELDS:
                    raise Refused("invalid_blocks")
                for one in block.get("fields", []):
                    _text(one, MAX_FIELD)
            elif kind == "actions":
                if not 1 <= len(block["elements"]) <= 25 or len(block["block_id"]) > 255:
                    raise Refused("invalid_blocks")
                for one in block["elements"]:
                    _text(one["text"], MAX_BUTTON, plain=True)
                    if one["type"] != "button" or len(one["value"]) > 2_000 or one.get("style", "danger") == "":
                        raise Refused("invalid_blocks")
            elif kind == "context":
                for one in block["elements"]:
                    _text(one, MAX_SECTION)
            elif kind == "input":
                _text(block["label"], 2_000, plain=True)
            else:
                raise Refused("invalid_blocks")


def _text(given: dict[str, Any], most: int, *, plain: bool = False) -> None:
    allowed = {"plain_text": {"type", "text", "emoji"}, "mrkdwn": {"type", "text", "verbatim"}}
    kind = given["type"]
    if plain and kind != "plain_text":
        raise Refused("invalid_blocks")
    if kind not in allowed or set(given) - allowed[kind] or not 1 <= len(given["text"]) <= most:
        raise Refused("invalid_blocks")


@asynccontextmanager
async def slack_server() -> AsyncIterator[SlackServer]:
    server = SlackServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=server_context())
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


def pressed(review_id: object, action: str = "postern_approve", user: Any = "U0BOB", **changes: Any) -> bytes:
    """https://docs.slack.dev/reference/interaction-payloads/block_actions-payload"""
    payload = {
        "type": "block_actions",
        "api_app_id": APP,
        "team": {"id": TEAM, "domain": "example"},
        "user": {"id": user, "username": "bob", "team_id": TEAM} if isinstance(user, str) else user,
        "container": {"type": "message", "message_ts": "1700000000.000000", "channel_id": CHANNEL},
        "channel": {"id": CHANNEL, "name": "reviews"},
        "trigger_id": TRIGGER,
        "response_url": "https://hooks.slack.com/actions/T0/1/x",
        "actions": [{"type": "button", "action_id": action, "value": str(review_id), "action_ts": "1.1"}],
    }
    return urlencode({"payload": json.dumps(payload | changes)}).encode()


def submitted(name: str, metadata: str, value: str | None, user: Any = "U0BOB", **changes: Any) -> bytes:
    """https://docs.slack.dev/reference/interaction-payloads/view-interactions-payload"""
    state = {"values": {name: {name: {"type": "plain_text_input", "value": value}}}}
    view = {"id": "V1", "type": "modal", "callback_id": name, "private_metadata": metadata, "state": state}
    payload = {
        "type": "view_submission",
        "api_app_id": APP,
        "team": {"id": TEAM, "domain": "example"},
        "user": {"id": user, "username": "bob", "team_id": TEAM} if isinstance(user, str) else user,
        "view": view,
    }
    return urlencode({"payload": json.dumps(payload | changes)}).encode()


def commanded(text: str, user: str = "U0BOB") -> bytes:
    """https://docs.slack.dev/interactivity/implementing-slash-commands"""
    form = {"command": "/postern", "text": text, "user_id": user, "team_id": TEAM, "api_app_id": APP}
    return urlencode(form | {"trigger_id": TRIGGER, "channel_id": CHANNEL}).encode()


def signed(body: bytes, stamp: float, secret: str = SIGNING_SECRET) -> dict[str, str]:
    """The headers that Slack sends."""
    text = str(int(stamp))
    return {
        "X-Slack-Request-Timestamp": text,
        "X-Slack-Signature": signature(secret, text, body),
        "Content-Type": "application/x-www-form-urlencoded",
    }


def slack_fields(url: str, authority: str, **changes: Any) -> dict[str, Any]:
    keys = {"bot_token": Secret(BOT_TOKEN), "signing_secret": Secret(SIGNING_SECRET)}
    options = {"channel": CHANNEL, "app_id": APP, "team_id": TEAM}
    given: dict[str, Any] = {"address": url, "authority": authority, "options": options, "keys": keys}
    return sink_fields("reviews", SinkKind.SLACK, **{**given, "with_script": True, **changes})
