"""Messages of listeners at targets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.errors import ProtocolViolation
from postern.protocols.ssh import ssh_listening

PORTS = st.integers(0, 65535)
NUMBERS = st.integers(0).map(str)


@given(PORTS)
def test_listening_message_round_trips(port: int) -> None:
    assert ssh_listening.read_message(ssh_listening.listens(port)) == ssh_listening.ListeningMessage(port)


@given(NUMBERS, st.text(), PORTS)
def test_waiting_connection_message_with_any_host_name_is_readable(number: str, host: str, port: int) -> None:
    came = ssh_listening.read_message(ssh_listening.came(number, host, port))
    assert isinstance(came, ssh_listening.WaitingConnection)
    assert (came.number, came.port) == (number, port)
    assert came.host == "?" or host.startswith(came.host)


@given(st.binary())
def test_arbitrary_bytes_are_no_listener_message(data: bytes) -> None:
    for read in (ssh_listening.read_message, ssh_listening.read_refused):
        try:
            read(data)
        except ProtocolViolation:
            continue
        assert data.split(b" ")[0] in (b"listens", b"came", b"refuse")


@given(NUMBERS)
def test_refusal_message_round_trips(number: str) -> None:
    assert ssh_listening.read_refused(ssh_listening.refuse(number)) == number


@pytest.mark.parametrize("host", ["", "localhost", "127.0.0.1", "::1", "*"])
@pytest.mark.parametrize("port", [0, 22, 65535])
def test_listener_address_round_trips(host: str, port: int) -> None:
    assert ssh_listening.read_place(ssh_listening.place(host, port)) == (host, port)


@pytest.mark.parametrize("what", ["", "host", "host:", "host:x", "host:65536", "host:-1", "ho\0st:1", "host:٣"])
def test_malformed_listener_address_raises(what: str) -> None:
    with pytest.raises(ValueError, match="no host:port"):
        ssh_listening.read_place(what)
