"""scp and rsync as remote programs: judgement, tracking and recording of file copies."""

from __future__ import annotations

import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from tests.support.links import Masks, Withholds, Words, pipeline
from tests.support.protocols.playbook import CHUNKS, pieces
from tests.support.protocols.wire_contracts import check_wire

from postern.domain.sessions.session import EndReason
from postern.interception.events import ClientOutput, Completed, Event, Operation, Refusal
from postern.interception.pipeline import Interceptor
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.files.commands import copies, moves_files
from postern.protocols.terminal.files.copying import CopyingWire
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Effect, Link, Record, Send

UP, DOWN = "scp -p -t /tmp/there", "scp -f /etc/motd"
CONTENT = b"\x00C0644 5 a\n" + bytes(range(256)) * 300


class Talk:
    def __init__(self, command: str, *interceptors: Interceptor) -> None:
        self.link = Link(CopyingWire(command), pipeline(*interceptors), clock=lambda: 0)
        self.frames: dict[Side, list[tuple[int, bytes]]] = {Side.CLIENT: [], Side.TARGET: []}
        self.events: list[Event] = []
        self.closed: EndReason | None = None
        self._readers = {side: m.TerminalFrameReader() for side in Side}
        self.say(Side.CLIENT, m.START_FRAME)

    def client(self, data: bytes, size: int = 0) -> None:
        for piece in pieces(data, size):
            self.say(Side.CLIENT, m.frames(m.STDIN, piece))

    def target(self, data: bytes, size: int = 0) -> None:
        for piece in pieces(data, size):
            self.say(Side.TARGET, m.frames(m.STDOUT, piece))

    def say(self, side: Side, data: bytes) -> None:
        for effect in self.link.receive(side, data):
            self._note(effect)

    def _note(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self.frames[effect.side] += self._readers[effect.side].feed(effect.data)
        elif isinstance(effect, Record):
            self.events += effect.events
        elif isinstance(effect, Close):
            self.closed = effect.reason

    def sent(self, side: Side, kind: int) -> bytes:
        return b"".join(payload for found, payload in self.frames[side] if found == kind)

    @property
    def asked(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Operation)]

    @property
    def told(self) -> list[str]:
        return [event.tag for event in self.events if isinstance(event, Completed)]


def upload(content: bytes, name: bytes = b"a file") -> bytes:
    return b"T1 0 1 0\nC0644 %d %s\n" % (len(content), name) + content + b"\0"


@pytest.mark.parametrize("size", CHUNKS)
def test_scp_upload_is_judged_and_recorded_with_size_and_hash(size: int) -> None:
    talk = Talk(UP)
    talk.client(upload(CONTENT), size * 997)
    talk.say(Side.CLIENT, m.STDIN_END_FRAME)
    talk.say(Side.TARGET, m.exit_frame(0))
    assert talk.asked == [UP, "put a file"]
    known = f"{len(CONTENT)} bytes, sha256 {sha256(CONTENT).hexdigest()}"
    assert talk.told[0] == f"received a file: {known}"
    assert talk.told[1].startswith(f"exit 0; {len(upload(CONTENT))} bytes from the client")
    assert talk.sent(Side.TARGET, m.STDIN) == upload(CONTENT)
    assert talk.frames[Side.TARGET][-1] == (m.STDIN_END, b"")


@pytest.mark.parametrize("size", CHUNKS)
def test_scp_download_is_recorded_with_size_and_hash_without_content(size: int) -> None:
    talk = Talk(DOWN)
    talk.client(b"\0")
    talk.target(upload(CONTENT), size * 997)
    talk.say(Side.TARGET, m.exit_frame(0))
    assert talk.asked == [DOWN]
    assert talk.told[0] == f"sent a file: {len(CONTENT)} bytes, sha256 {sha256(CONTENT).hexdigest()}"
    assert talk.sent(Side.CLIENT, m.STDOUT) == upload(CONTENT)
    assert CONTENT[:50] not in b"".join(event.data for event in talk.events if isinstance(event, ClientOutput))


def test_denied_scp_upload_is_not_forwarded_and_the_next_file_is() -> None:
    talk = Talk(UP, Words("secret"))
    talk.client(b"C0644 3 secret\n")
    assert talk.sent(Side.TARGET, m.STDIN) == b""
    assert talk.sent(Side.CLIENT, m.STDOUT).startswith(b"\x01scp: denied")
    assert b"postern: " in talk.sent(Side.CLIENT, m.STDERR)
    assert any(isinstance(event, Refusal) for event in talk.events)
    talk.client(b"C0644 2 fine\n")
    talk.client(b"ok\0")
    assert talk.sent(Side.TARGET, m.STDIN) == b"C0644 2 fine\nok\0"


def test_file_names_after_a_denied_scp_upload_are_judged() -> None:
    """A client that does not wait for the answer sends the content too: each record in it is judged like a file."""
    talk = Talk(UP, Words("secret"))
    talk.client(b"C0644 13 secret\nC0777 1 evil\nx\0")
    assert talk.asked == [UP, "put secret", "put evil"]


def test_scp_error_output_is_masked_and_recorded() -> None:
    talk = Talk(UP, Masks())
    for piece in (b"scp: secret-1", b"23: not a directory\nscp: ", b"and secret-4"):
        talk.say(Side.TARGET, m.frames(m.STDERR, piece))
    talk.say(Side.TARGET, m.exit_frame(1))
    assert talk.sent(Side.CLIENT, m.STDERR) == b"scp: ***: not a directory\nscp: and ***"
    shown = b"".join(event.data for event in talk.events if isinstance(event, ClientOutput))
    assert b"scp: ***: not a directory" in shown
    assert b"secret" not in shown
    assert talk.frames[Side.CLIENT][-1][0] == m.EXIT


@pytest.mark.parametrize("name", [b"../x", b"/etc/x", b"..", b".", b""])
@pytest.mark.parametrize("kind", [b"C", b"D"])
def test_scp_file_name_with_a_path_ends_the_session(name: bytes, kind: bytes) -> None:
    record = kind + b"0755 0 " + name + b"\n"
    up, down = Talk(UP), Talk(DOWN)
    up.client(record)
    down.target(record)
    assert up.closed is down.closed is EndReason.PROTOCOL_VIOLATION


@pytest.mark.parametrize(
    "said",
    [b"X", b"C" * 20_000, b"C0644\n", b"C0644 -1 a\n", b"C0644 one a\n", b"C0644 %s a\n" % (b"9" * 5_000)],
    ids=["nothing", "too long", "no size", "a negative size", "no number", "a number too long to be read"],
)
def test_malformed_scp_record_ends_the_session(said: bytes) -> None:
    talk = Talk(UP)
    talk.client(said)
    assert talk.closed is EndReason.PROTOCOL_VIOLATION


def test_output_rules_deny_downloads_and_allow_uploads() -> None:
    for command in (DOWN, "rsync --server --sender -logDtprze.iLsfxC . /data"):
        talk = Talk(command, Withholds("x"))
        assert talk.frames[Side.TARGET] == []
        assert b"cannot be masked" in talk.sent(Side.CLIENT, m.STDERR)
    assert Talk(UP, Withholds("x")).frames[Side.TARGET] == [(m.START, b"")]


def test_rsync_traffic_is_counted() -> None:
    talk = Talk("rsync --server -logDtprze.iLsfxC . /data")
    talk.client(bytes(1000))
    talk.target(bytes(500))
    talk.say(Side.TARGET, m.exit_frame(23))
    assert talk.told == ["exit 23; 1000 bytes from the client, 500 bytes to it"]
    assert talk.link.exit_code == 23


def test_truncated_scp_upload_is_recorded_as_incomplete() -> None:
    talk = Talk(UP)
    talk.client(b"C0644 100 half\nhal")
    left = talk.link.unfinished_exchanges()
    assert [(event.tag, event.error) for event in left if isinstance(event, Completed)] == [
        ("half", "it was not copied completely")
    ]


def test_copying_wire_fulfils_the_wire_contract() -> None:
    conversation = [
        (Side.CLIENT, m.START_FRAME + m.frames(m.STDIN, b"T1 0 1 0\n")),
        (Side.TARGET, m.frames(m.STDOUT, b"\0")),
        (Side.TARGET, m.exit_frame(0)),
    ]
    garbage = [(Side.CLIENT, m.frame(99)), (Side.TARGET, m.frame(99)), (Side.CLIENT, m.START_FRAME + m.START_FRAME)]
    check_wire(lambda: CopyingWire(UP), conversation, garbage=garbage, carries=True)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("scp -t /tmp", "receive"),
        ("scp -r -p -d -t -- '/tmp/a b'", "receive"),
        ("/usr/bin/scp -vf file", "send"),
        ("rsync --server -vlogDtpre.iLsfxC . /data/", "receive"),
        ("rsync --server --sender -vlogDtpre.iLsfxC . /data/", "send"),
        ("rsync --server -lHogDtpAXrSe.iLsfxCIvu --delete-after --partial-dir .p --numeric-ids . /data/", "receive"),
        ("rsync --server -logDtpre.iLsfxCIvu --bwlimit=100 --stats . '/data/a b' /data/a\\ c ~/d", "receive"),
        ("scp -t ~/there", "receive"),
        ("scp -f *.txt", "send"),
        ("scp -f 'a b'", "send"),
        ("rsync --server --sender -vlogDtpre.iLsfxC . /data/*.csv", "send"),
        ("rsync /a /b", ""),
        # They say that they receive, and send:
        ("scp -tf /etc/passwd", ""),
        ("scp -t -f /etc/passwd", ""),
        ("scp -t /there -f /etc/passwd", ""),
        ("scp -{t,f} /etc/passwd", ""),
        ("scp -t *", ""),
        ("scp -t -S/bin/cat /etc/passwd", ""),
        ("rsync --server {--sender,-v} . /etc/passwd", ""),
        ("rsync --server -v --sender . /etc/passwd", ""),
        ("rsync --server -v . --sender /etc/passwd", ""),
        ("rsync --server -v . '--sender' /etc/passwd", ""),
        ("rsync --server --partial-dir * . /etc/passwd", ""),
        ("rsync --server \\x2d-sender . /etc/passwd", ""),
        ("rsync --server -s", ""),
        ("rsync --server -slogDtpre.iLsfxCIvu . /data", ""),
        ("rsync --server --daemon --config=/tmp/mine .", ""),
        ("rsync --server --exclude-from=/etc/passwd . /tmp", ""),
        ("rsync --server -vf 'merge /etc/passwd' . /tmp", ""),
        ("rsync --server --suffix= . /data", "receive"),
        ("rsync --server --suffix . /data", ""),
        ("scp a b:c", ""),
        ("cat file", ""),
        ("scp -t /tmp; cat /etc/passwd", ""),
        ("scp -f $(cat x)", ""),
        ("scp -f a > b", ""),
        ("scp -f 'unclosed", ""),
        ("", ""),
    ],
)
def test_command_is_classified_as_a_copy_only_as_run_by_scp_and_rsync_clients(command: str, found: str) -> None:
    assert copies(command) == found


_WRAPPED = """
env {}
env -i A=b {}
nice -n 5 {}
nohup {}
command {}
exec {}
sudo -u x {}
time {}
busybox {}
(cd /; {})
sh -c '{}'
bash -c "exec {}"
/bin/sh -c 'env {}'
true && {}
true;{}
`{}`
$({})
eval {}
xargs {}
timeout 5 {}
perl -e 'exec "{}"'
\\{}
stdbuf -o0 {}
{ {}; }
if true; then {}; fi
echo x | {}
"""


@pytest.mark.parametrize("wrapped", [" {}", *_WRAPPED.strip().splitlines()])
@pytest.mark.parametrize("command", ["scp -tf x", "/usr/bin/rsync --server --daemon .", "/lib/sftp-server -R"])
def test_command_that_wraps_a_copy_program_moves_files(command: str, wrapped: str) -> None:
    assert moves_files(wrapped.replace("{}", command))


@pytest.mark.parametrize(
    "command",
    ["s\\cp -f x", "'scp' -f x", 's"c"p -tv x', "S=scp; $S -f x", "scp\t-f\tx", "rsy''nc --server ."],
)
def test_quotes_and_variables_do_not_hide_a_copy_program(command: str) -> None:
    assert moves_files(command)


@pytest.mark.parametrize(
    "command", ["which scp", "ls -l /usr/bin/scp", "man rsync", "rm -f a", "tail -f log", "pgrep rsync"]
)
def test_command_that_only_names_a_copy_program_moves_no_files(command: str) -> None:
    assert not moves_files(command)


def test_scp_program_writes_the_forwarded_upload(tmp_path: Path) -> None:
    talk = Talk(UP)
    talk.client(upload(CONTENT))
    sink = subprocess.run(
        ["scp", "-p", "-t", str(tmp_path / "there")],
        input=talk.sent(Side.TARGET, m.STDIN),
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=60,
    )
    assert sink.returncode == 0
    assert (tmp_path / "there").read_bytes() == CONTENT
