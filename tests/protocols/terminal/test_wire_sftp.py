"""SFTP without a network: judgement, tracking and recording of file transfers."""

from __future__ import annotations

from hashlib import sha256
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.links import ReadsAll, Withholds, Words, pipeline
from tests.support.protocols.playbook import CHUNKS, pieces
from tests.support.protocols.wire_contracts import check_wire

from postern.domain.sessions.session import EndReason
from postern.errors import ProtocolViolation
from postern.interception.events import ClientOutput, Completed, Event, Operation, Refusal
from postern.interception.pipeline import Interceptor
from postern.protocols.framing import encode_length
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.files import sftp_messages as s
from postern.protocols.terminal.files.sftp import MOST_PENDING, SftpWire
from postern.protocols.terminal.files.transfers import MOST_AHEAD, FileDigest, OutOfOrderBytes, Transfer
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Effect, Link, Record, Send

INIT = s.packet(s.INIT, encode_length(3))
VERSION = s.packet(s.VERSION, encode_length(3), s.text(b"posix-rename@openssh.com"), s.text(b"1"))
CONTENT = bytes(range(256)) * 400


def sent(*packets: bytes) -> bytes:
    return m.frames(m.STDIN, b"".join(packets))


def answered(*packets: bytes) -> bytes:
    return m.frames(m.STDOUT, b"".join(packets))


def opening(number: int, path: bytes, flags: int = s.READS) -> bytes:
    return s.packet(s.OPEN, encode_length(number), s.text(path), encode_length(flags), encode_length(0))


def handle(number: int, name: bytes = b"h1") -> bytes:
    return s.packet(s.HANDLE, encode_length(number), s.text(name))


def reading(number: int, offset: int, size: int, name: bytes = b"h1") -> bytes:
    return s.packet(s.READ, encode_length(number), s.text(name), offset.to_bytes(8, "big"), encode_length(size))


def writing(number: int, offset: int, data: bytes, name: bytes = b"h1") -> bytes:
    return s.packet(s.WRITE, encode_length(number), s.text(name), offset.to_bytes(8, "big"), s.text(data))


def data(number: int, content: bytes) -> bytes:
    return s.packet(s.DATA, encode_length(number), s.text(content))


def closing(number: int, name: bytes = b"h1") -> bytes:
    return s.packet(s.CLOSE, encode_length(number), s.text(name))


def done(number: int, code: int = s.OK, message: str = "") -> bytes:
    return s.status(number, code, message)


class Talk:
    """A link whose program has started, with all effects of the data that it was fed."""

    def __init__(self, *interceptors: Interceptor) -> None:
        self.link = Link(SftpWire(), pipeline(*interceptors), clock=lambda: 0)
        self.to_target = b""
        self.to_client = b""
        self.events: list[Event] = []
        self.closed: EndReason | None = None
        self.client(m.START_FRAME, sent(INIT))
        self.target(answered(VERSION))

    def client(self, *said: bytes) -> None:
        self._note(self.link.receive(Side.CLIENT, b"".join(said)))

    def target(self, *said: bytes) -> None:
        self._note(self.link.receive(Side.TARGET, b"".join(said)))

    def _note(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send) and effect.side is Side.CLIENT:
                self.to_client += effect.data
            elif isinstance(effect, Send):
                self.to_target += effect.data
            elif isinstance(effect, Record):
                self.events += effect.events
            elif isinstance(effect, Close):
                self.closed = effect.reason

    @property
    def asked(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Operation)]

    @property
    def completed(self) -> list[tuple[str, str]]:
        return [(event.tag, event.error) for event in self.events if isinstance(event, Completed)]

    @property
    def said(self) -> bytes:
        """On the client's standard error."""
        return b"".join(payload for kind, payload in m.TerminalFrameReader().feed(self.to_client) if kind == m.STDERR)

    @property
    def statuses(self) -> list[tuple[int, int]]:
        """(id, code) of each answer to the client that is one."""
        found = []
        stream = b"".join(payload for kind, payload in m.TerminalFrameReader().feed(self.to_client) if kind == m.STDOUT)
        for packet in s.SftpPackets().feed(stream):
            if packet[4] == s.STATUS:
                reader = s.SftpReader(packet)
                found.append((reader.number(), reader.number()))
        return found


def get(talk: Talk) -> None:
    """Read a file in two parts whose answers arrive in reverse order, then close it."""
    half = len(CONTENT) // 2
    talk.client(sent(opening(1, b"/etc/motd")))
    talk.target(answered(handle(1)))
    talk.client(sent(reading(2, 0, half), reading(3, half, half), reading(4, 2 * half, half)))
    talk.target(answered(data(3, CONTENT[half:])), answered(data(2, CONTENT[:half]), done(4, s.END_OF_FILE)))
    talk.client(sent(closing(5)))
    talk.target(answered(done(5)))


def test_sftp_read_is_recorded_with_size_and_hash_without_content() -> None:
    talk = Talk()
    get(talk)
    assert talk.asked == ["sftp", "get /etc/motd"]
    assert talk.completed == [(f"read {len(CONTENT)} bytes, sha256 {sha256(CONTENT).hexdigest()}", "")]
    assert CONTENT[:1000] in talk.to_client
    shown = b"".join(event.data for event in talk.events if isinstance(event, ClientOutput))
    assert CONTENT[:100] not in shown


def test_sftp_write_is_recorded_with_size_and_hash() -> None:
    talk = Talk()
    talk.client(sent(opening(1, "/tmp/grüße".encode(), s.WRITES)))
    talk.target(answered(handle(1)))
    talk.client(sent(writing(2, 0, CONTENT), closing(3)))
    talk.target(answered(done(2), done(3)))
    assert talk.asked[1:] == ["put /tmp/grüße"]
    assert talk.completed == [(f"wrote {len(CONTENT)} bytes, sha256 {sha256(CONTENT).hexdigest()}", "")]
    assert CONTENT in b"".join(payload for _, payload in m.TerminalFrameReader().feed(talk.to_target))


def test_failed_sftp_write_is_recorded_with_its_error() -> None:
    talk = Talk()
    talk.client(sent(opening(1, b"full", s.WRITES)))
    talk.target(answered(handle(1)))
    talk.client(sent(writing(2, 0, b"some"), closing(3)))
    talk.target(answered(done(2, 4, "No space left"), done(3)))
    assert talk.completed[0][1] == "No space left"


def test_sftp_file_that_was_not_closed_is_recorded_at_the_end() -> None:
    talk = Talk()
    talk.client(sent(opening(1, b"f", s.WRITES)))
    talk.target(answered(handle(1)))
    talk.client(sent(writing(2, 0, b"half of it")))
    left = talk.link.unfinished_exchanges()
    assert [(event.tag, event.error) for event in left if isinstance(event, Completed)] == [
        (f"wrote 10 bytes, sha256 {sha256(b'half of it').hexdigest()}", "it was not closed")
    ]
    assert talk.link.unfinished_exchanges() == []


def test_denied_sftp_request_gets_permission_denied_and_a_message() -> None:
    talk = Talk(Words("shadow"))
    talk.client(sent(opening(1, b"/etc/shadow"), opening(2, b"/etc/motd")))
    assert talk.statuses == [(1, s.PERMISSION_DENIED)]
    assert b"shadow" not in talk.to_target
    assert b"/etc/motd" in talk.to_target
    assert b"postern: " in talk.said
    assert any(isinstance(event, Refusal) for event in talk.events)
    talk.target(answered(handle(2)))
    assert talk.closed is None


@pytest.mark.parametrize(
    ("packet", "told"),
    [
        (s.packet(s.REMOVE, encode_length(1), s.text(b"a b")), "remove a b"),
        (s.packet(s.MKDIR, encode_length(1), s.text(b"d"), encode_length(0)), "mkdir d"),
        (s.packet(s.RMDIR, encode_length(1), s.text(b"d")), "rmdir d"),
        (s.packet(s.OPENDIR, encode_length(1), s.text(b"/home")), "list /home"),
        (s.packet(s.SETSTAT, encode_length(1), s.text(b"f"), encode_length(0)), "setstat f"),
        (
            s.packet(s.EXTENDED, encode_length(1), s.text(b"lsetstat@openssh.com"), s.text(b"l"), encode_length(0)),
            "setstat l",
        ),
        (s.packet(s.READLINK, encode_length(1), s.text(b"l")), "readlink l"),
        (s.packet(s.RENAME, encode_length(1), s.text(b"a"), s.text(b"b")), "rename a b"),
        (s.packet(s.SYMLINK, encode_length(1), s.text(b"a"), s.text(b"b")), "symlink a b"),
        (
            s.packet(s.EXTENDED, encode_length(1), s.text(b"posix-rename@openssh.com"), s.text(b"a"), s.text(b"b")),
            "rename a b",
        ),
        (s.packet(s.EXTENDED, encode_length(1), s.text(b"copy-data"), s.text(b"h")), "extension copy-data"),
        (opening(1, b"f", s.READS | s.WRITES), "update f"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_sftp_request_that_opens_or_changes_a_file_is_judged(packet: bytes, told: str) -> None:
    talk = Talk()
    talk.client(sent(packet))
    assert talk.asked[1:] == [told]
    talk.target(answered(done(1, 4, "Failure")))
    assert talk.completed == [("", "Failure")]
    refused = Talk(Words(told.split()[0]))
    refused.client(sent(packet))
    assert refused.statuses == [(1, s.PERMISSION_DENIED)]


def fsetstat(number: int, name: bytes = b"h1") -> bytes:
    return s.packet(s.FSETSTAT, encode_length(number), s.text(name), encode_length(4), encode_length(0o4777))


def test_attack_fsetstat_on_a_file_opened_for_reading_is_judged() -> None:
    talk = Talk()
    talk.client(sent(opening(1, b"/bin/sh")))
    talk.target(answered(handle(1)))
    talk.client(sent(fsetstat(2)))
    talk.target(answered(done(2, s.PERMISSION_DENIED, "no")))
    assert talk.asked[1:] == ["get /bin/sh", "setstat /bin/sh"]
    assert talk.completed == [("", "no")]
    refused = Talk(Words("setstat"))
    refused.client(sent(opening(1, b"/bin/sh")))
    refused.target(answered(handle(1)))
    refused.client(sent(fsetstat(2)))
    assert refused.statuses == [(2, s.PERMISSION_DENIED)]
    assert fsetstat(2) not in refused.to_target


@pytest.mark.parametrize("used", [writing(4, 0, CONTENT), reading(4, 0, 10), fsetstat(4)], ids=["write", "read", "set"])
def test_attack_request_with_a_guessed_sftp_handle_ends_the_session(used: bytes) -> None:
    """Servers reuse the handle of a closed file: data for the new file would be recorded for neither."""
    talk = Talk()
    talk.client(sent(opening(1, b"harmless", s.READS | s.WRITES)))
    talk.target(answered(handle(1)))
    talk.client(sent(closing(2), opening(3, b"/etc/cron.d/x", s.READS | s.WRITES), used))
    assert talk.closed is EndReason.PROTOCOL_VIOLATION
    assert used not in talk.to_target


def test_attack_sftp_file_closed_twice_is_recorded_once() -> None:
    talk = Talk()
    talk.client(sent(opening(1, b"f", s.WRITES)))
    talk.target(answered(handle(1)))
    talk.client(sent(writing(2, 0, b"some"), closing(3), closing(4)))
    talk.target(answered(done(2), done(3), done(4, 4, "Failure")))
    assert talk.completed == [(f"wrote 4 bytes, sha256 {sha256(b'some').hexdigest()}", "")]


def test_sftp_file_without_a_confirmed_close_is_recorded_as_not_closed() -> None:
    talk = Talk()
    talk.client(sent(opening(1, b"f", s.WRITES)))
    talk.target(answered(handle(1)))
    talk.client(sent(writing(2, 0, b"some"), closing(3)))
    left = [event for event in talk.link.unfinished_exchanges() if isinstance(event, Completed)]
    assert [(event.tag.partition(",")[0], event.error) for event in left] == [("wrote 4 bytes", "it was not closed")]


def test_attack_sftp_handle_given_to_two_files_ends_the_session() -> None:
    talk = Talk()
    talk.client(sent(opening(1, b"a"), opening(2, b"b")))
    talk.target(answered(handle(1), handle(2)))
    assert talk.closed is EndReason.PROTOCOL_VIOLATION


def test_attack_sftp_append_out_of_order_is_recorded_without_a_hash() -> None:
    talk = Talk()
    talk.client(sent(opening(1, b"f", s.WRITES | s.APPENDS)))
    talk.target(answered(handle(1)))
    talk.client(sent(writing(2, 2, b"ef"), writing(3, 0, b"ab"), closing(4)))
    talk.target(answered(done(2), done(3), done(4)))
    assert talk.completed == [("wrote 4 bytes", "")]


def test_output_rules_deny_sftp_reads_and_allow_writes() -> None:
    talk = Talk(Withholds("x"))
    talk.client(sent(opening(1, b"customers.csv"), opening(2, b"upload", s.WRITES)))
    assert talk.statuses == [(1, s.PERMISSION_DENIED)]
    assert b"cannot be masked" in talk.said
    assert b"customers" not in talk.to_target
    assert b"upload" in talk.to_target


def test_output_rules_deny_server_side_copies_and_reads_of_written_files() -> None:
    talk = Talk(Withholds("x"))
    talk.client(sent(s.packet(s.EXTENDED, encode_length(1), s.text(b"copy-data"), s.text(b"h"))))
    assert talk.statuses == [(1, s.PERMISSION_DENIED)]
    talk.client(sent(opening(2, b"upload", s.WRITES)))
    talk.target(answered(handle(2)))
    talk.client(sent(reading(3, 0, 10)))  # some servers allow it, although the file was opened for writing
    assert talk.closed is EndReason.PROTOCOL_VIOLATION
    assert reading(3, 0, 10) not in talk.to_target


@pytest.mark.parametrize("size", CHUNKS)
def test_sftp_transfer_is_recorded_the_same_in_chunks_of_any_size(size: int) -> None:
    whole, cut = Talk(), Talk()
    half = len(CONTENT) // 2
    talk = [
        (Side.CLIENT, sent(opening(1, b"f"))),
        (Side.TARGET, answered(handle(1))),
        (Side.CLIENT, sent(reading(2, 0, half), reading(3, half, half))),
        (Side.TARGET, answered(data(2, CONTENT[:half]), data(3, CONTENT[half:]))),
        (Side.CLIENT, sent(closing(4))),
        (Side.TARGET, answered(done(4))),
    ]
    for side, said in talk:
        (whole.client if side is Side.CLIENT else whole.target)(said)
        for piece in pieces(said, size * 997 if size else 0):
            (cut.client if side is Side.CLIENT else cut.target)(piece)
    assert cut.completed == whole.completed
    assert cut.asked == whole.asked
    assert _stream(cut.to_client) == _stream(whole.to_client)


def _stream(said: bytes) -> bytes:
    return b"".join(payload for kind, payload in m.TerminalFrameReader().feed(said) if kind == m.STDOUT)


def test_sftp_wire_fulfils_the_wire_contract() -> None:
    conversation = [
        (Side.CLIENT, m.START_FRAME + sent(INIT)),
        (Side.TARGET, answered(VERSION)),
        (Side.CLIENT, sent(s.packet(s.REMOVE, encode_length(1), s.text(b"f")))),
        (Side.TARGET, answered(done(1))),
        (Side.TARGET, m.exit_frame(0)),
    ]
    garbage = [
        (Side.CLIENT, m.frame(99)),
        (Side.CLIENT, sent(s.packet(s.OPEN, encode_length(1)))),
        (Side.TARGET, m.frame(99)),
        (Side.TARGET, answered(done(7))),
    ]
    check_wire(SftpWire, conversation, garbage=garbage, carries=True)


@pytest.mark.parametrize(
    "said",
    [
        sent(INIT),  # a second time
        sent(s.packet(s.STATUS, encode_length(1), encode_length(0))),
        sent(encode_length(0)),
        sent(encode_length(s.MAX_PACKET + 1)),
        sent(s.packet(s.READ, encode_length(1), encode_length(500))),
        sent(opening(1, b"a"), opening(1, b"b")),
        sent(*(s.packet(s.STAT, encode_length(number), s.text(b"f")) for number in range(MOST_PENDING + 1))),
    ],
    ids=["a repeated init", "an answer", "empty", "too long", "too short", "a repeated id", "too many"],
)
def test_malformed_sftp_packet_ends_the_session(said: bytes) -> None:
    talk = Talk()
    talk.client(said)
    assert talk.closed is EndReason.PROTOCOL_VIOLATION


def test_unsupported_sftp_version_ends_the_session() -> None:
    link = Link(SftpWire(), pipeline(), clock=lambda: 0)
    effects = link.receive(Side.CLIENT, m.START_FRAME + sent(s.packet(s.INIT, encode_length(6))))
    assert [effect.reason for effect in effects if isinstance(effect, Close)] == [EndReason.PROTOCOL_VIOLATION]


def test_denied_sftp_program_is_not_started() -> None:
    talk = Talk(Words("sftp"))
    assert talk.to_target == b""
    assert talk.link.exit_code == m.REFUSED


def test_sftp_statements_are_recorded_with_a_reading_interceptor() -> None:
    talk = Talk(ReadsAll())
    talk.client(sent(opening(1, b"f", s.WRITES)))
    assert talk.asked == ["sftp", "put f"]


@given(st.lists(st.binary(max_size=50), max_size=20), st.randoms(use_true_random=False))
def test_file_digest_is_that_of_the_whole_file_for_any_order_of_parts(parts: list[bytes], chance: Random) -> None:
    whole = b"".join(parts)
    placed, offset = [], 0
    for part in parts:
        placed.append((offset, part))
        offset += len(part)
    chance.shuffle(placed)
    digest = FileDigest(OutOfOrderBytes())
    for at, part in placed:
        digest.add(at, part)
    assert digest.hexadecimal == sha256(whole).hexdigest()
    assert digest.size == len(whole)


def test_incomplete_or_overlapping_file_has_no_digest() -> None:
    from_the_middle, repeated, far = (FileDigest(OutOfOrderBytes()) for _ in range(3))
    from_the_middle.add(10, b"x")
    repeated.add(0, b"ab")
    repeated.add(0, b"ab")
    far.add(1, bytes(MOST_AHEAD + 1))
    far.add(0, b"x")
    assert [one.hexadecimal for one in (from_the_middle, repeated, far)] == ["", "", ""]
    assert repeated.size == 4


def test_sftp_packet_beyond_the_limit_is_a_violation_at_its_header() -> None:
    with pytest.raises(ProtocolViolation, match="packet of"):
        s.SftpPackets().feed(encode_length(1 << 30))


def test_out_of_order_bytes_of_all_files_of_a_session_are_bounded() -> None:
    ahead = OutOfOrderBytes()
    files = [Transfer(number, b"/file", ahead) for number in range(8)]
    half = MOST_AHEAD // 2 - 1_000
    for file in files:
        file.written.add(1, bytes(half))
    assert 2 * half < ahead.size <= MOST_AHEAD
    files[0].written.add(0, b"x")
    assert files[0].tag() == f"wrote {half + 1} bytes, sha256 {sha256(b'x' + bytes(half)).hexdigest()}"
    for file in files[1:]:
        assert file.tag() == f"wrote {half} bytes"
    assert ahead.size == 0


def test_number_of_out_of_order_pieces_is_bounded() -> None:
    digest, ahead = FileDigest(counted := OutOfOrderBytes()), 0
    for offset in range(1, 100_000):
        digest.add(offset, b"x")
        ahead = max(ahead, len(digest._ahead))
    assert 10_000 < ahead < 50_000
    assert counted.size == 0
