"""The words of listeners at targets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.errors import ProtocolViolation
from postern.protocols.ssh import ssh_listening as told

PORTS = st.integers(0, 65535)
NUMBERS = st.integers(0).map(str)


@given(PORTS)
def test_a_port_is_told(port: int) -> None:
    assert told.read_message(told.listens(port)) == told.ListeningMessage(port)


@given(NUMBERS, st.text(), PORTS)
def test_whatever_a_host_is_called_can_be_read(number: str, host: str, port: int) -> None:
    came = told.read_message(told.came(number, host, port))
    assert isinstance(came, told.WaitingConnection)
    assert (came.number, came.port) == (number, port)
    assert came.host == "?" or host.startswith(came.host)


@given(st.binary())
def test_nothing_else_is_taken(data: bytes) -> None:
    for read in (told.read_message, told.read_refused):
        try:
            read(data)
        except ProtocolViolation:
            continue
        assert data.split(b" ")[0] in (b"listens", b"came", b"refuse")


@given(NUMBERS)
def test_who_is_refused(number: str) -> None:
    assert told.read_refused(told.refuse(number)) == number


@pytest.mark.parametrize("host", ["", "localhost", "127.0.0.1", "::1", "*"])
@pytest.mark.parametrize("port", [0, 22, 65535])
def test_a_place_is_read_as_it_was_written(host: str, port: int) -> None:
    assert told.read_place(told.place(host, port)) == (host, port)


@pytest.mark.parametrize("what", ["", "host", "host:", "host:x", "host:65536", "host:-1", "ho\0st:1", "host:٣"])
def test_what_is_no_place(what: str) -> None:
    with pytest.raises(ValueError, match="no host:port"):
        told.read_place(what)
