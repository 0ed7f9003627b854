"""How an agent goes on trying, and what it says of what went wrong."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from dataclasses import replace

import grpc
import pytest
from tests.support.control import Attending
from tests.support.promises import until

from postern.client import client_control
from postern.client.client_control import FIRST_RETRY, LAST_RETRY, _Backoff, _roots
from postern.domain.secret import Secret
from postern.domain.targets.agent import AgentKey

KEY = AgentKey("edge", Secret("xagt-" + "A" * 43), "127.0.0.1", 1)


def test_pauses_double_from_one_second_to_thirty_with_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    for chance in (0.5, 1.0):
        monkeypatch.setattr(random, "uniform", lambda _low, _high, chance=chance: chance)
        backoff = _Backoff()
        pauses = [backoff.next() / chance for _ in range(8)]
        assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
        backoff.reset()
        assert backoff.next() == FIRST_RETRY * chance
    monkeypatch.undo()
    many = {_Backoff(LAST_RETRY).next() for _ in range(100)}
    assert len(many) > 90
    assert min(many) >= LAST_RETRY / 2


@pytest.mark.parametrize("answer", ["nobody", "silence", "nonsense"])
@pytest.mark.ci
async def test_whatever_is_there_instead_of_a_gateway_it_tries_again(
    answer: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client_control, "_WELCOME", 0.5)
    monkeypatch.setattr(_Backoff, "next", lambda _: 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        if answer == "nobody":
            listening.close()
        elif answer == "nonsense":
            threading.Thread(target=_nonsense, args=(listening,), daemon=True).start()
        agent = Attending(replace(KEY, port=port))
        await until(lambda: caplog.text.count(f"the control service of 127.0.0.1:{port} is unavailable") >= 2)
        assert agent.orders.empty()
        assert not agent.task.done()
        await agent.stop()
    assert "xagt" not in caplog.text


def _nonsense(listening: socket.socket) -> None:
    try:
        while True:
            stream, _ = listening.accept()
            with stream:
                stream.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
    except OSError:
        return


async def test_one_that_is_given_up_leaves_no_task_behind() -> None:
    before = asyncio.all_tasks()
    agent = Attending(KEY)
    await asyncio.sleep(0.3)
    await agent.stop()
    await until(lambda: not {one for one in asyncio.all_tasks() - before if "grpc" not in repr(one)})


def test_a_public_certificate_is_checked_by_a_list_of_authorities() -> None:
    found = _roots(None)
    assert found is None or b"-----BEGIN CERTIFICATE-----" in found
    assert grpc.ssl_channel_credentials(found)
