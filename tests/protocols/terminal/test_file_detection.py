"""Programs that copy files are recognised by their protocol, whatever their name."""

from __future__ import annotations

from functools import partial

import pytest
from tests.protocols.terminal.test_wire_terminal import TerminalTalk, out

from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.files.detection import ProtocolDetector
from postern.protocols.terminal.terminal_wire import PipedWire

NARROW = partial(PipedWire, files=False)
SPOKEN = {
    "scp: a file": b"C0644 12 name of it\nhello world\n\0",
    "scp: times first": b"T1700000000 0 1700000000 0\n",
    "scp: a folder": b"D0755 0 folder\n",
    "scp: status first": b"\0C0600 1 x\n",
    "rsync 31": b"\x1f\0\0\0\x81\xff",
    "rsync 27": b"\x1b\0\0\0",
    "sftp: client": b"\0\0\0\x05\x01\0\0\0\x03",
    "sftp: server": b"\0\0\0\xb2\x02\0\0\0\x03\0\0\0\x18posix-rename@openssh.com",
}
ORDINARY = (
    *(b"", b"\0", b"C", b"Continue? ", b"C0644 is a mode\n", b"Total 12\n", b"D 1 2\n", b"C0644 12 a/b\n", b"T1 2 3\n"),
    *(b"\x1b[0m", b"\x1f\x8b\x08\0gzip", b"\x7fELF\x02\x01\x01\0\0\0", b"\0\0\0\0\0\0\0\0\0\0", b"PK\3\4", b"hello\n"),
    b"\0\0\0\x18ftypmp42",
)


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize("how", SPOKEN)
@pytest.mark.parametrize("side", ["program", "client"])
def test_program_that_uses_a_file_transfer_protocol_is_ended(side: str, how: str, size: int) -> None:
    data = SPOKEN[how]
    talk = TerminalTalk(NARROW, arguments=("mystery",))
    talk.client(m.START_FRAME)
    for start in range(0, len(data), size):
        part = data[start : start + size]
        if side == "program":
            talk.target(out(part))
        else:
            talk.client(m.frame(m.STDIN, part))
    assert talk.link.exit_code == m.REFUSED
    assert b"file transfer is disabled" in talk.shown(m.STDERR)
    assert b"hello world" not in talk.shown() + talk.typed()
    assert (m.EXIT, m.exit_frame(m.REFUSED)[m.HEADER :]) in talk.to_client


@pytest.mark.parametrize("data", [*ORDINARY, b"x" * 20 + SPOKEN["scp: a file"], b"hello\n" + SPOKEN["rsync 31"]])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_ordinary_output_passes_at_once(data: bytes, size: int) -> None:
    talk = TerminalTalk(NARROW)
    talk.client(m.START_FRAME)
    for start in range(0, len(data), size):
        talk.target(out(data[start : start + size]))
    assert talk.shown() == data
    assert talk.link.exit_code is None


@pytest.mark.parametrize("how", SPOKEN)
def test_file_transfer_output_passes_if_file_transfer_is_allowed(how: str) -> None:
    talk = TerminalTalk(PipedWire)
    talk.client(m.START_FRAME)
    talk.target(out(SPOKEN[how]))
    assert talk.shown() == SPOKEN[how]


def test_file_protocol_detector_buffers_at_most_4096_bytes() -> None:
    detector = ProtocolDetector()
    for _ in range(1_000):
        assert detector.protocol(b"C" + b"0" * 1_000) == ""
    assert len(detector._data) <= 4_096
