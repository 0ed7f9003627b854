"""What systemd is told."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from postern.gateway.processes.service_manager import READY, ServiceManager


@pytest.fixture
def manager_socket(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(10)
        yield listening


def test_state_is_sent_to_the_socket_of_the_environment(manager_socket: socket.socket) -> None:
    ServiceManager({"NOTIFY_SOCKET": manager_socket.getsockname()}).notify(READY)
    assert manager_socket.recv(100) == b"READY=1"


def test_abstract_socket_is_found_by_its_mark() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0postern-test-notify")
        listening.settimeout(10)
        ServiceManager({"NOTIFY_SOCKET": "@postern-test-notify"}).notify(READY)
        assert listening.recv(100) == b"READY=1"


async def test_heartbeats_are_sent_while_the_watchdog_waits(manager_socket: socket.socket) -> None:
    environ = {"NOTIFY_SOCKET": manager_socket.getsockname(), "WATCHDOG_USEC": "20000"}
    beating = asyncio.create_task(ServiceManager(environ).keep_alive())
    for _ in range(3):
        assert await asyncio.to_thread(manager_socket.recv, 100) == b"WATCHDOG=1"
    beating.cancel()


@pytest.mark.parametrize("environ", [{}, {"WATCHDOG_PID": "1", "WATCHDOG_USEC": "20000"}])
async def test_without_a_watchdog_of_this_process_nothing_is_sent(
    environ: dict[str, str], manager_socket: socket.socket
) -> None:
    assert os.getpid() != 1
    await ServiceManager({"NOTIFY_SOCKET": manager_socket.getsockname(), **environ}).keep_alive()
    manager_socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager_socket.recv(100)


def test_a_manager_that_does_not_listen_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).notify(READY)
    assert "cannot be notified" in caplog.text
    ServiceManager({}).notify(READY)
