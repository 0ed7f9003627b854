from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from postern.errors import Misconfigured
from postern.gateway.clients.ports import settle
from postern.settings import OPTIONAL_PORTS, PORTS, Settings

FREE: dict[str, Any] = dict.fromkeys((*PORTS, "demo_port"), 0)


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


def test_port_0_becomes_a_different_free_port_for_each_setting() -> None:
    settled = settle(Settings(home=Path("/x"), **FREE))
    ports = {getattr(settled, name) for name in FREE if name not in OPTIONAL_PORTS}
    assert len(ports) == len(FREE) - len(OPTIONAL_PORTS)
    assert all(port > 1023 for port in ports)


def test_port_0_of_an_optional_listener_stays() -> None:
    assert {"tcp_port"} == OPTIONAL_PORTS
    assert settle(Settings(home=Path("/x"), **FREE)).tcp_port == 0


@pytest.mark.parametrize("name", list(FREE))
def test_port_in_use_is_an_error_that_names_its_setting(taken: int, name: str) -> None:
    flag = name.replace("_", "-")
    with pytest.raises(
        Misconfigured, match=rf"port {taken} on 127.0.0.1 is in use.*POSTERN_{name.upper()} or --{flag}"
    ):
        settle(Settings(home=Path("/x"), **(FREE | {name: taken})))


def test_demo_port_in_use_is_no_error_without_the_demo(taken: int) -> None:
    settings = Settings(home=Path("/x"), demo=False, **(FREE | {"demo_port": taken}))
    assert settle(settings).demo_port == taken


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"api_port": 70_000}, "70000 is not a port"), ({"host": "192.0.2.1"}, "cannot be bound.*POSTERN_HOST")],
)
def test_address_that_cannot_be_bound_is_misconfigured(changes: dict[str, int | str], why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        settle(Settings(home=Path("/x"), **{**FREE, **changes}))


def test_port_with_a_connection_in_time_wait_can_be_bound() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        served, _ = listener.accept()
        served.close()  # the side that closes first is left in TIME_WAIT
        client.close()
    assert settle(Settings(home=Path("/x"), **(FREE | {"api_port": port}))).api_port == port
