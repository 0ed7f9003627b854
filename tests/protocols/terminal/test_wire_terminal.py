"""Links of commands without a network: judgement of input, and masking of partial output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
from tests.support.links import Breaks, Masks, ReadsAll, Withholds, Words, interpreted_only, pipeline

from postern.domain.sessions.session import EndReason
from postern.interception.events import Completed, Event, Operation, Refusal, Resized
from postern.interception.pipeline import BatchNeed, Interceptor, SessionView
from postern.interception.verdicts import FORWARD, Hold, Refuse, Verdict
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.script import TerminalScript
from postern.protocols.terminal.terminal_lines import LONGEST
from postern.protocols.terminal.terminal_output import HOLD
from postern.protocols.terminal.terminal_text import TerminalTextRenderer
from postern.protocols.terminal.terminal_wire import ForwardWire, PipedWire, ScriptWire, TypedWire
from postern.protocols.wire_base import Side, Wire
from postern.relay.link import MOST_STARTED, Close, Effect, Link, Record, Send

How = Callable[..., Wire]
TYPED: How = TypedWire
PIPED: How = PipedWire
SCRIPT: How = partial(ScriptWire, max_message=100_000)


class TerminalTalk:
    """A link with all effects of the data that it was fed."""

    def __init__(self, how: How, *interceptors: Interceptor, arguments: tuple[str, ...] = ()) -> None:
        self.link = Link(how(arguments=arguments), pipeline(*interceptors), clock=lambda: 0)
        self.to_target: list[tuple[int, bytes]] = []
        self.to_client: list[tuple[int, bytes]] = []
        self.events: list[Event] = []
        self.closed: EndReason | None = None
        self._readers = {Side.CLIENT: m.TerminalFrameReader(), Side.TARGET: m.TerminalFrameReader()}

    def client(self, *data: bytes) -> None:
        self._note(self.link.receive(Side.CLIENT, b"".join(data)))

    def target(self, *data: bytes) -> None:
        self._note(self.link.receive(Side.TARGET, b"".join(data)))

    def release(self) -> None:
        self._note(self.link.flush())

    def settle(self) -> None:
        while self.link.input_paused:
            self.release()

    def decide(self, verdict: Verdict) -> None:
        self._note(self.link.resume("t1", verdict))

    def end(self) -> None:
        self._note(self.link.end(EndReason.KILLED, "this session was killed", "57P01"))

    def _note(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                found = self._readers[effect.side].feed(effect.data)
                (self.to_client if effect.side is Side.CLIENT else self.to_target).extend(found)
            elif isinstance(effect, Record):
                self.events += effect.events
            elif isinstance(effect, Close):
                self.closed = effect.reason

    def shown(self, kind: int = m.STDOUT) -> bytes:
        return b"".join(payload for found, payload in self.to_client if found == kind)

    def typed(self) -> bytes:
        return b"".join(payload for found, payload in self.to_target if found == m.STDIN)

    def operations(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Operation)]


def out(text: bytes) -> bytes:
    return m.frame(m.STDOUT, text)


def test_attack_start_times_of_20000_lines_without_output_are_bounded() -> None:
    """The start time of each line was once stored until the terminal showed output."""
    talk = TerminalTalk(TYPED)
    talk.client(m.START_FRAME)
    for _ in range(20):
        talk.client(m.frames(m.STDIN, b"a\r" * 1_000))
    assert len(talk.operations()) == 20_000
    assert len(talk.link._started) <= MOST_STARTED


def test_script_starts_when_its_input_is_complete() -> None:
    talk = TerminalTalk(SCRIPT, Words(), arguments=("-x", "a b"))
    text = "echo 1\n" * 10_000
    data = TerminalScript(text).start()
    talk.client(data[:66_000])
    assert talk.to_target == []
    assert not talk.link.awaiting_response
    talk.client(data[66_000:])
    assert [kind for kind, _ in talk.to_target] == [m.START, m.STDIN, m.STDIN, m.STDIN_END]
    assert talk.typed() == text.encode()
    assert talk.link.awaiting_response
    assert [event for event in talk.events if isinstance(event, Operation)] == [
        Operation(1, text, values=(b"-x", b"a b"))
    ]


def test_script_beyond_the_size_limit_is_denied_and_does_not_run() -> None:
    talk = TerminalTalk(SCRIPT)
    talk.client(m.START_FRAME, m.frames(m.STDIN, b"x" * 100_001), m.STDIN_END_FRAME)
    assert talk.to_target == []
    assert b"too large" in talk.shown(m.STDERR)
    assert talk.to_client[-1] == (m.EXIT, b"\0\0\0\1")


@pytest.mark.parametrize("arguments", [(), ("-c", "drop it")], ids=["in the script", "in an argument"])
def test_denied_script_does_not_run(arguments: tuple[str, ...]) -> None:
    talk = TerminalTalk(SCRIPT, Words(), arguments=arguments)
    talk.client(TerminalScript("true" if arguments else "drop it").start())
    assert talk.to_target == []
    assert b"the word drop is not allowed" in talk.shown(m.STDERR)
    assert talk.to_client[-1][0] == m.EXIT
    assert any(isinstance(event, Refusal) and event.rule == "words" for event in talk.events)
    assert not talk.link.awaiting_response


def test_input_after_a_denied_program_is_not_forwarded() -> None:
    talk = TerminalTalk(TYPED, Words(), arguments=("drop",))
    talk.client(m.START_FRAME, m.frame(m.STDIN, b"ls\r"))
    talk.client(m.frame(m.STDIN, b"ls\r"), m.START_FRAME)
    assert talk.to_target == []


def test_denied_typed_line_is_cancelled_instead_of_entered() -> None:
    talk = TerminalTalk(TYPED, Words())
    talk.client(m.START_FRAME)
    for key in b"drop it\rls\r":
        talk.client(m.frame(m.STDIN, bytes((key,))))
        talk.settle()
    assert talk.typed() == b"drop it\x15\x03\x15ls\r"  # Ctrl-U however late: bash can keep some of the cancelled line
    assert talk.operations() == ["drop it", "ls"]
    assert b"not allowed" in talk.shown(m.STDERR)
    assert talk.closed is None


def test_attack_input_after_a_denied_line_waits_until_the_shell_has_cancelled_it() -> None:
    """An Enter that a shell reads together with Ctrl-C runs the line; Ctrl-U is read in its place."""
    talk = TerminalTalk(TYPED, Words())
    talk.client(m.START_FRAME, m.frame(m.STDIN, b"drop it\r\rdrop that\r"), m.frame(m.STDIN, b"ls\r"))
    talk.target(out(b"^C"))
    talk.client(m.resize(80, 25))
    assert talk.link.input_paused
    assert talk.typed() == b"drop it\x15"
    talk.release()
    assert talk.link.input_paused
    assert talk.typed() == b"drop it\x15\x03"
    assert talk.operations() == ["drop it"]
    talk.release()
    assert talk.link.input_paused
    assert talk.typed() == b"drop it\x15\x03\x15 \rdrop that\x15"
    talk.settle()
    assert not talk.link.input_paused
    assert talk.typed() == b"drop it\x15\x03\x15 \rdrop that\x15\x03\x15 ls\r"
    assert talk.to_target[-1] == (m.RESIZE, m.resize(80, 25)[5:])
    assert talk.operations() == ["drop it", "drop that", "ls"]


def test_waiting_input_is_judged_by_the_rules_at_its_release() -> None:
    talk = TerminalTalk(TYPED)
    talk.link.renew(pipeline(Words()))
    talk.client(m.START_FRAME, m.frame(m.STDIN, b"drop it\rdrop that\r"))
    talk.link.renew(pipeline())
    talk.settle()
    assert talk.typed() == b"drop it\x15\x03\x15 drop that\r"


@pytest.mark.parametrize(
    "keys",
    [b"dropp\x7f it", b"xx\x15drop it", b"drop xyz\x17it", b"\x1b[Ad\x1bOCrop it", "drüp".encode() + b"\x7f\x7fop it"],
    ids=["erased", "line erased", "word erased", "arrows", "a character of two bytes erased"],
)
def test_edited_line_is_judged_as_entered(keys: bytes) -> None:
    talk = TerminalTalk(TYPED, Words())
    talk.client(m.START_FRAME, m.frame(m.STDIN, keys + b"\r"))
    assert talk.typed().endswith(b"\x15")


def test_line_too_long_to_be_judged_is_denied() -> None:
    talk = TerminalTalk(TYPED, Words())
    talk.client(m.START_FRAME, m.frame(m.STDIN, b"x" * (LONGEST + 1) + b"drop\r"))
    assert talk.typed().endswith(b"\x15")


def test_piped_line_is_judged_before_it_is_forwarded() -> None:
    talk = TerminalTalk(PIPED, Words())
    talk.client(m.START_FRAME, m.frame(m.STDIN, b"one\ndr"))
    talk.client(m.frame(m.STDIN, b"op\n"), m.frame(m.STDIN, b"two"), m.STDIN_END_FRAME)
    assert talk.typed() == b"one\ntwo"
    assert talk.to_target[-1][0] == m.STDIN_END


def test_piped_bytes_without_interceptors_are_forwarded_at_once() -> None:
    talk = TerminalTalk(PIPED)
    talk.client(m.START_FRAME, m.frame(m.STDIN, b"no line end \xff"))
    assert talk.typed() == b"no line end \xff"


def test_output_without_interceptors_is_forwarded_unchanged() -> None:
    talk = TerminalTalk(TYPED)
    talk.target(out(b"secret-1"), m.frame(m.STDERR, b"e"), m.exit_frame(3))
    assert talk.to_client == [(m.STDOUT, b"secret-1"), (m.STDERR, b"e"), (m.EXIT, b"\0\0\0\3")]
    assert Completed(1, "exit 3", error="exit code 3") in talk.events


@pytest.mark.parametrize("how", [SCRIPT, TYPED, PIPED], ids=["script", "typed", "piped"])
def test_value_split_over_two_reads_is_masked(how: How) -> None:
    talk = TerminalTalk(how, Masks())
    talk.target(out(b"a secr"))
    talk.target(out(b"et-12"), out(b"34 b\nnext"))
    assert talk.shown() == b"a *** b\n"
    talk.target(m.exit_frame(0))
    assert talk.shown() == b"a *** b\nnext"


def test_value_split_between_stdout_reads_is_masked_despite_stderr_between() -> None:
    talk = TerminalTalk(SCRIPT, Masks())
    talk.target(out(b"secr"), m.frame(m.STDERR, b"e1\n"), out(b"et-1\n"), m.exit_frame(0))
    assert (talk.shown(), talk.shown(m.STDERR)) == (b"***\n", b"e1\n")


def test_prompt_is_withheld_until_the_flush() -> None:
    talk = TerminalTalk(TYPED, Masks())
    talk.target(out(b"$ "))
    assert talk.link.has_buffered_output
    assert talk.shown() == b""
    talk.release()
    assert talk.shown() == b"$ "
    assert not talk.link.has_buffered_output


def test_partial_output_of_a_script_is_not_flushed() -> None:
    talk = TerminalTalk(SCRIPT, Masks())
    talk.target(out(b"secr"))
    assert not talk.link.has_buffered_output


def test_endless_line_is_buffered_up_to_a_limit_and_not_cut_within_a_value() -> None:
    talk = TerminalTalk(SCRIPT, Masks())
    line = b"word " * (HOLD // 5) + b"secr"
    talk.target(out(line), out(b"et-12"), out(b"34 end"))
    assert talk.shown().startswith(b"word word")
    assert len(talk.shown()) < len(line)
    talk.target(m.exit_frame(0))
    assert talk.shown() == b"word " * (HOLD // 5) + b"*** end"


def test_buffered_output_of_an_endless_line_is_bounded() -> None:
    talk = TerminalTalk(SCRIPT, Masks())
    for _ in range(100):
        talk.target(out(b"x" * 1000))
    assert 100_000 - HOLD - 1000 <= len(talk.shown()) <= 100_000


def test_denied_output_ends_a_script_but_drops_only_a_line_of_a_terminal() -> None:
    talk = TerminalTalk(SCRIPT, Withholds())
    talk.target(out(b"fine\n"), out(b"secret-1\n"), out(b"more\n"), m.exit_frame(0))
    assert talk.shown() == b"fine\n"
    assert talk.to_client[-1] == (m.EXIT, b"\0\0\0\1")
    assert b"a secret is not shown" in talk.shown(m.STDERR)
    talk = TerminalTalk(TYPED, Withholds())
    talk.target(out(b"secret-1\r\n"), out(b"more\r\n"))
    assert talk.shown() == b"more\r\n"
    assert b"a secret is not shown" in talk.shown(m.STDERR)


@interpreted_only
def test_script_is_not_started_if_an_interceptor_raises() -> None:
    talk = TerminalTalk(SCRIPT, Breaks())
    talk.client(TerminalScript("true").start())
    assert talk.to_target == []


def test_killed_session_prints_the_reason_and_exits() -> None:
    talk = TerminalTalk(TYPED, ReadsAll())
    talk.client(m.START_FRAME)
    talk.end()
    assert b"postern: this session was killed\r\n" in talk.shown(m.STDERR)
    assert talk.to_client[-1] == (m.EXIT, b"\0\0\0\xff")
    assert talk.closed is EndReason.KILLED


@pytest.mark.parametrize(
    "data",
    [
        b"\x63\0\0\0\0",
        m.frame(m.STDOUT, b"x"),
        m.frame(m.SIGNAL, b"SEGV"),
        m.frame(m.RESIZE, b"\0"),
        b"\x02\xff\xff\xff\xff",
        m.START_FRAME * 2,
    ],
    ids=["unknown", "frame of the target", "signal", "size", "endless", "started twice"],
)
def test_malformed_client_frame_ends_the_session(data: bytes) -> None:
    talk = TerminalTalk(TYPED)
    talk.client(data)
    assert talk.closed is EndReason.PROTOCOL_VIOLATION


@dataclass
class HoldsAll:
    """Holds every statement with the word for a review."""

    word: str = ""
    name: str = "holds"
    wants: frozenset[type[Event]] = frozenset({Operation})
    batch_need: BatchNeed = BatchNeed.REVIEW

    def see(self, event: Event, session: SessionView) -> Verdict:
        assert isinstance(event, Operation)
        return Hold("t1", "may this run?") if self.word in event.text else FORWARD


@pytest.mark.parametrize("how", [TYPED, PIPED])
@pytest.mark.parametrize("interceptors", [(), (HoldsAll(),)], ids=["running", "held"])
def test_second_start_frame_of_a_running_or_held_program_ends_the_session(
    how: How, interceptors: tuple[Interceptor, ...]
) -> None:
    talk = TerminalTalk(how, *interceptors, arguments=("uptime",))
    talk.client(m.START_FRAME)
    assert talk.closed is None
    assert (talk.link.held_request is not None) is bool(interceptors)
    talk.client(m.START_FRAME)
    assert talk.closed is EndReason.PROTOCOL_VIOLATION
    assert talk.to_target.count((m.START, b"")) == (0 if interceptors else 1)


@pytest.mark.parametrize("ahead", [b"", b"ec"], ids=["later", "ahead"])
def test_ctrl_c_of_the_user_for_a_held_line_reaches_the_shell_once(ahead: bytes) -> None:
    """A second one, after the line was cleared, would take the first character of the next line."""
    talk = TerminalTalk(TYPED, HoldsAll("drop"))
    talk.client(m.START_FRAME, m.frame(m.STDIN, b"drop it\r"))
    assert talk.link.held_request is not None
    talk.client(m.frame(m.STDIN, b"\x03"), *([m.frame(m.STDIN, ahead)] if ahead else []))
    assert talk.link.interrupts_held_request
    talk.decide(Refuse("holds", "cancelled"))
    talk.settle()
    talk.client(m.frame(m.STDIN, b"echo\r"[len(ahead) :]))
    assert talk.typed() == b"drop it\x15\x03\x15" + (b" " if ahead else b"") + b"echo\r"


def test_input_frame_from_an_agent_ends_the_session() -> None:
    talk = TerminalTalk(TYPED)
    talk.target(m.frame(m.STDIN, b"x"))
    assert talk.closed is EndReason.PROTOCOL_VIOLATION
    assert talk.shown() == b""


@pytest.mark.parametrize("how", [TYPED, PIPED])
def test_end_of_output_is_forwarded_after_the_withheld_output(how: How) -> None:
    talk = TerminalTalk(how, Masks())
    talk.client(m.START_FRAME)
    talk.target(out(b"one\ntwo"), m.frame(m.STDERR, b"bad"), m.OUTPUT_END_FRAME)
    assert [kind for kind, _ in talk.to_client] == [m.STDOUT, m.STDOUT, m.STDERR, m.OUTPUT_END]
    assert talk.shown() == b"one\ntwo"
    talk.client(m.frame(m.STDIN, b"x\n"))
    assert talk.typed() == b"x\n"
    talk.target(m.exit_frame(3))
    assert talk.to_client[-1] == (m.EXIT, m.exit_frame(3)[m.HEADER :])


def test_output_after_the_end_of_output_ends_the_session() -> None:
    talk = TerminalTalk(PIPED)
    talk.client(m.START_FRAME)
    talk.target(m.OUTPUT_END_FRAME, m.OUTPUT_END_FRAME)
    assert [kind for kind, _ in talk.to_client] == [m.OUTPUT_END]
    talk.target(out(b"more"))
    assert talk.closed is EndReason.PROTOCOL_VIOLATION
    assert talk.shown() == b""


def test_script_with_denied_output_gets_no_end_of_output() -> None:
    talk = TerminalTalk(SCRIPT, Withholds())
    talk.client(TerminalScript("echo").start())
    talk.target(out(b"secret-1\n"), m.OUTPUT_END_FRAME, m.exit_frame(0))
    assert [kind for kind, _ in talk.to_client][-1] == m.EXIT
    assert m.OUTPUT_END not in [kind for kind, _ in talk.to_client]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_terminal_output_is_rendered_from_chunks_of_any_size(size: int) -> None:
    lens = TerminalTextRenderer()
    data = out(b"one\n") + m.frame(m.STDERR, b"bad\n") + out(b"two\n") + m.OUTPUT_END_FRAME + m.exit_frame(0)
    found = [piece for at in range(0, len(data), size) for piece in lens.feed(data[at : at + size])]
    assert b"".join(text for stream, text in found if stream == "o") == b"one\ntwo\n"
    assert b"".join(text for stream, text in found if stream == "e") == b"bad\n"


def test_terminal_size_is_recorded_at_the_start_and_on_change() -> None:
    talk = TerminalTalk(partial(TypedWire, size=(80, 24)))
    talk.client(m.START_FRAME, m.resize(80, 24), m.resize(120, 40), m.frame(m.STDIN, b"x"), m.resize(120, 40))
    assert talk.events == [Resized(80, 24), Resized(120, 40)]
    assert [kind for kind, _ in talk.to_target] == [m.START, m.RESIZE, m.RESIZE, m.STDIN, m.RESIZE]


def test_forwarded_port_traffic_is_counted_and_unchanged() -> None:
    talk = TerminalTalk(ForwardWire, Words(), arguments=("forward to db:5432",))
    talk.client(m.START_FRAME, m.frame(m.STDIN, b"drop\x00no line end"))
    talk.target(out(b"\xff\x00"), m.OUTPUT_END_FRAME, m.exit_frame(0))
    assert (talk.typed(), talk.shown()) == (b"drop\x00no line end", b"\xff\x00")
    assert talk.operations() == ["forward to db:5432"]
    (ended,) = [event for event in talk.events if isinstance(event, Completed)]
    assert ended.tag == "16 bytes to the target, 2 bytes from it, exit 0"


def test_port_forwarding_is_denied_under_masking() -> None:
    talk = TerminalTalk(ForwardWire, Masks(), arguments=("forward to db:5432",))
    talk.client(m.START_FRAME, m.frame(m.STDIN, b"x"))
    assert talk.to_target == []
    assert b"cannot be masked" in talk.shown(m.STDERR)
    assert talk.to_client[-1][0] == m.EXIT


def test_port_forwarding_ends_when_masking_begins() -> None:
    talk = TerminalTalk(ForwardWire)
    talk.client(m.START_FRAME)
    talk.target(out(b"before"))
    talk.link.renew(pipeline(Masks()))
    talk.target(out(b"after"))
    assert talk.shown() == b"before"
    assert talk.to_client[-1] == (m.EXIT, m.exit_frame(m.ENDED)[m.HEADER :])


@pytest.mark.parametrize(
    ("sent", "kind"),
    [(m.resize(80, 25), m.RESIZE), (m.signal("INT"), m.SIGNAL), (m.frame(m.STDIN, b"\x04"), m.STDIN)],
    ids=["resize", "signal", "end of input"],
)
def test_attack_enter_after_a_denied_line_and_another_frame_follows_ctrl_u(sent: bytes, kind: int) -> None:
    """Ctrl-U reaches the shell before the next frame, even if that frame is not typed."""
    talk = TerminalTalk(TYPED, Words())
    talk.client(m.START_FRAME, m.frame(m.STDIN, b"drop it\r"))
    talk.settle()
    talk.client(sent)
    talk.client(m.frame(m.STDIN, b"\r"))
    assert talk.to_target[-3:-2] == [(m.STDIN, b"\x15")]
    assert talk.to_target[-2][0] == kind
    assert talk.to_target[-1] == (m.STDIN, b"\r")
