"""Code that how-tos give to people does what they say."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.receivers import http_receiver, issued, senders

from postern.domain.event import EventKind
from postern.domain.secret import Secret
from postern.domain.sink import Delivery, DeliveryState, SigningSecret, Sink, SinkKind
from postern.settings import known_names
from postern.settings_file import read_settings_file

HOW_TOS = Path(__file__).resolve().parent.parent / "docs" / "how-to"
OLD, NEW = ("whsec_" + base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))


@pytest.mark.parametrize("page", ["configure-the-gateway", "certificates"])
def test_configuration_in_a_page_has_settings_that_exist(page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (HOW_TOS / f"{page}.md").read_text(), re.DOTALL)
    assert blocks
    for text in blocks:
        (tmp_path / "postern.toml").write_text(text)
        assert read_settings_file(tmp_path / "postern.toml", known_names()).problems == ()


@pytest.fixture
def is_from_postern() -> Callable[[str, dict[str, str], bytes], bool]:
    (code,) = re.findall(r"```python\n(.*?)```", (HOW_TOS / "send-events-to-a-siem.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    found: Callable[[str, dict[str, str], bytes], bool] = names["is_from_postern"]
    return found


async def sent(at: datetime) -> tuple[dict[str, str], bytes]:
    """What a receiver gets of a sink whose secret was rotated just now."""
    event = Delivery(
        *(uuid4(), uuid4(), uuid4(), EventKind.SESSION_CLOSE, at, '{"id":"x"}'), 1, DeliveryState.WAITING, 0, "", None
    )
    async with http_receiver() as receiver:
        sink = Sink(uuid4(), uuid4(), "siem", SinkKind.WEBHOOK, receiver.url, (), authority=issued().authority)
        secrets = (SigningSecret(Secret(NEW)), SigningSecret(Secret(OLD), at + timedelta(hours=24)))
        sender = senders()
        await sender.send(replace(sink, secrets=secrets), [event], at)
        await sender.close()
        (got,) = receiver.got
    return got


async def test_a_webhook_is_verified_as_the_page_says(is_from_postern: Callable[..., bool]) -> None:
    headers, body = await sent(datetime.now(UTC))
    assert is_from_postern(NEW, headers, body)
    assert is_from_postern(OLD, headers, body)  # for a day


async def test_attack_a_forged_webhook_is_none(is_from_postern: Callable[..., bool]) -> None:
    headers, body = await sent(datetime.now(UTC))
    other = "whsec_" + base64.b64encode(b"3" * 32).decode()
    assert not is_from_postern(other, headers, body)
    assert not is_from_postern(NEW, headers, body + b" ")
    assert not is_from_postern(NEW, {**headers, "webhook-id": str(uuid4())}, body)
    assert not is_from_postern(NEW, {**headers, "webhook-timestamp": str(int(time.time()) + 1)}, body)
    assert not is_from_postern(NEW, {**headers, "webhook-signature": "v1,x v2,y"}, body)


async def test_attack_an_old_webhook_sent_again_is_none(is_from_postern: Callable[..., bool]) -> None:
    headers, body = await sent(datetime.now(UTC) - timedelta(hours=1))
    assert not is_from_postern(NEW, headers, body)


async def test_the_session_hook_notes_what_it_is_told(tmp_path: Path) -> None:
    page = (HOW_TOS / "run-session-hooks.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (context,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    code = code.replace("/var/tmp/sessions.txt", str(tmp_path / "noted"))
    payload = {"POSTERN_HOOK_PAYLOAD": base64.b64encode(context.encode()).decode()}
    pipe = asyncio.subprocess.PIPE
    hook = await asyncio.create_subprocess_exec(sys.executable, "-I", "-", stdin=pipe, stdout=pipe, env=payload)
    printed, _ = await hook.communicate(code.encode())
    assert (hook.returncode, printed) == (0, b"noted\n")
    told = json.loads(context)
    assert (tmp_path / "noted").read_text() == f"{told['sid']} ann@example.com orders exec\n"
