"""Packets of a session with native encryption, in both directions, at the server of tests."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.oracledb.native_services import ORACLE_19, ORACLE_23, REJECTED, NativeOptions, NativeServices
from tests.support.oracledb.ttc_fields import BadMessage
from tests.support.protocols.playbook import CHUNKS

from postern.errors import ProtocolViolation
from postern.protocols.oracledb.native_encryption.native_algorithms import NativeMode
from postern.protocols.oracledb.native_encryption.native_cipher import NativeCipher
from postern.protocols.oracledb.native_encryption.native_failures import NativeFailure, failure_packet, failure_text
from postern.protocols.oracledb.native_encryption.native_messages import read_message
from postern.protocols.oracledb.native_encryption.native_negotiation import NativeNegotiation
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire.oracle_wire import OracleWire
from postern.protocols.oracledb.wire.ttc_buffers import TtcReader
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout

SDU = 2048
LOGIN_KEY = bytes(range(100, 132))
OPTIONS = {
    "renewed": NativeOptions(),
    "old": NativeOptions(version=ORACLE_19),
    "encryption": NativeOptions(checksum=REJECTED, checksum_types=()),
    "checksums": NativeOptions(encryption=REJECTED, encryption_types=()),
    "SHA512": NativeOptions(encryption_types=("AES128",), checksum_types=("SHA512",), version=ORACLE_23),
    "SHA384": NativeOptions(encryption_types=("AES192",), checksum_types=("SHA384",)),
}


@dataclass
class Both:
    """Both ends of one connection. The server's end has packets as the client's does."""

    cipher: NativeCipher
    server: NativeServices
    login_key: bytes = b""

    def to_server(self, *contents: bytes) -> list[bytes]:
        """What the server reads of data that the client's side sends."""
        return self.opened(self.cipher.encrypt(b"".join([tns.data_packets(content, SDU) for content in contents])))

    def opened(self, packets: bytes) -> list[bytes]:
        return [self.server.open(packet[10:], self.login_key) for packet in cut(packets)]

    def from_server(self, content: bytes) -> bytes:
        return tns.packet(tns.DATA, b"\0\0" + self.server.seal(content), large=True)

    def fold(self) -> None:
        self.cipher.fold(LOGIN_KEY)
        self.login_key = LOGIN_KEY


def cut(packets: bytes) -> list[bytes]:
    found = []
    while packets:
        size = int.from_bytes(packets[:4], "big")
        found.append(packets[:size])
        packets = packets[size:]
    return found


def connected(options: NativeOptions) -> Both:
    negotiation, server = NativeNegotiation(NativeMode.PREFER), NativeServices(options)
    answer = TtcReader(server.answer(negotiation.request()))
    choice = negotiation.read_answer(read_message(answer))
    public, cipher = negotiation.agree(choice, SDU)
    server.take_key(public)
    return Both(cipher, server)


@pytest.fixture(params=list(OPTIONS.values()), ids=list(OPTIONS))
def both(request: pytest.FixtureRequest) -> Both:
    return connected(request.param)


@pytest.mark.parametrize("folds", [False, True])
def test_both_directions_agree(both: Both, folds: bool) -> None:
    assert both.to_server(b"before") == [b"before"]
    if folds:
        both.fold()
    for number in range(5):
        content = bytes([number]) * (number * 13 + 1)
        assert both.to_server(content) == [content]
        assert both.cipher.decrypt(both.from_server(content)) == tns.data_packets(content, SDU)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_pieces_of_any_size_are_joined(both: Both, chunk: int) -> None:
    contents = [bytes([number]) * 500 for number in range(4)]
    clear = b"".join([tns.data_packets(content, SDU) for content in contents])
    sealed = b"".join([both.from_server(content) for content in contents])
    step = chunk or len(sealed)
    opened = [both.cipher.decrypt(sealed[start : start + step]) for start in range(0, len(sealed), step)]
    assert b"".join(opened) == clear
    sent = [both.cipher.encrypt(clear[start : start + step]) for start in range(0, len(clear), step)]
    assert both.opened(b"".join(sent)) == contents


def test_packets_stay_within_the_size_that_the_target_accepts(both: Both) -> None:
    content = bytes(range(256)) * 40
    sealed = both.cipher.encrypt(tns.data_packets(content, SDU))
    assert max(len(packet) for packet in cut(sealed)) <= SDU
    assert b"".join(both.opened(sealed)) == content


def test_flags_and_the_end_of_the_session_are_kept(both: Both) -> None:
    assert both.cipher.encrypt(tns.end_of_file()) == tns.end_of_file()
    assert both.cipher.decrypt(tns.end_of_file()) == tns.end_of_file()


def test_markers_are_in_clear_text_and_a_reset_begins_new_checksums(both: Both) -> None:
    both.fold()
    for _ in range(3):
        assert both.to_server(b"call") == [b"call"]
        lost = both.from_server(b"sent before the break arrived")
        assert both.cipher.encrypt(tns.marker(tns.INTERRUPT)) == tns.marker(tns.INTERRUPT)
        assert both.cipher.decrypt(lost + tns.marker(tns.BREAK))[-11:] == tns.marker(tns.BREAK)
        assert both.cipher.encrypt(tns.marker(tns.RESET)) == tns.marker(tns.RESET)
        both.server.restart()
        answer = both.cipher.decrypt(tns.marker(tns.RESET) + both.from_server(b"cancelled"))
        assert answer == tns.marker(tns.RESET) + tns.data_packets(b"cancelled", SDU)


def test_reset_that_answers_none_changes_nothing(both: Both) -> None:
    sealed = both.from_server(b"answer")
    assert both.cipher.decrypt(tns.marker(tns.RESET) + sealed).endswith(b"answer")


def test_keys_of_the_login_are_mixed_in_by_both_derivations(both: Both) -> None:
    assert both.cipher.encrypt(tns.data_packets(b"x", SDU))[-1:] == b"\0"
    both.fold()
    assert both.cipher.encrypt(tns.data_packets(b"x", SDU))[-1:] == b"\1"


def test_keys_without_those_of_the_login_do_not_fit() -> None:
    both = connected(OPTIONS["renewed"])
    both.cipher.fold(bytes(32))
    both.login_key = LOGIN_KEY
    with pytest.raises(BadMessage):
        both.to_server(b"x")
    stale = connected(OPTIONS["renewed"])
    sealed = stale.from_server(b"x")
    stale.fold()
    assert stale.cipher.decrypt(sealed) == failure_packet(NativeFailure.CHECKSUM)


REPLAYED = ["repeated", "left out", "in another order"]


@pytest.mark.parametrize("how", REPLAYED)
def test_attack_packets_that_are_moved_end_the_session(how: str) -> None:
    both = connected(OPTIONS["renewed"])
    first, second, third = [both.from_server(content) for content in (b"one", b"two", b"three")]
    sent = {"repeated": [first, first], "left out": [first, third], "in another order": [second, first]}[how]
    opened = cut(both.cipher.decrypt(b"".join(sent)))
    assert opened[-1] == failure_packet(NativeFailure.CHECKSUM)
    assert both.cipher.has_ended
    assert both.cipher.decrypt(third) == b""


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7), chunk=st.sampled_from(CHUNKS))
@settings(deadline=None)
def test_attack_changed_bit_delivers_nothing_of_its_packet(place: int, bit: int, chunk: int) -> None:
    both = connected(OPTIONS["renewed"])
    first, second = both.from_server(b"first"), both.from_server(b"second " * 20)
    place %= len(second)
    changed = second[:place] + bytes([second[place] ^ 1 << bit]) + second[place + 1 :]
    data = first + changed
    step = chunk or len(data)
    opened = b"".join([both.cipher.decrypt(data[start : start + step]) for start in range(0, len(data), step)])
    delivered = cut(opened)
    assert delivered[0] == tns.data_packets(b"first", SDU)
    for packet in delivered[1:]:
        whole = packet[4] == tns.DATA and packet[10:] == b"second " * 20
        assert whole or packet[4] == tns.FAILURE


@pytest.mark.parametrize("body", [b"", b"\0\0", b"\0\0" + bytes(17), b"\0\0" + bytes(18) + b"\2", b"\0\7" * 20])
def test_attack_packets_of_another_form_end_the_session(body: bytes) -> None:
    both = connected(OPTIONS["renewed"])
    opened = both.cipher.decrypt(tns.packet(tns.DATA, body, large=True))
    assert opened[4] == tns.FAILURE
    assert "native encryption failed" in failure_text(opened[8:])


@pytest.mark.parametrize(
    "packet",
    [
        tns.packet(tns.CONTROL, b"\0\0" + bytes(20), large=True),
        tns.packet(tns.MARKER, b"\1\0", large=True),
        tns.packet(tns.REFUSE, b"x", large=True),
        failure_packet(NativeFailure.FORM),
        b"\xff\xff\xff\xff\6\0\0\0",
    ],
)
def test_attack_packets_that_a_session_does_not_have_end_it(packet: bytes) -> None:
    both = connected(OPTIONS["renewed"])
    assert both.cipher.decrypt(packet) == failure_packet(NativeFailure.PACKET)


def test_control_packets_pass() -> None:
    both = connected(OPTIONS["renewed"])
    control = tns.packet(tns.CONTROL, b"\0\x08" + bytes(10), large=True)
    assert both.cipher.decrypt(control) == control


@pytest.mark.parametrize("failure", NativeFailure)
def test_gateway_makes_an_error_of_a_failure(failure: NativeFailure) -> None:
    wire = OracleWire(layout=TtcLayout())
    wire.feed_target(failure_packet(failure))
    with pytest.raises(ProtocolViolation, match="native encryption failed") as raised:
        wire.poll_target()
    assert raised.value.message == failure_text(bytes([failure]))
