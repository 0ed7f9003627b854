"""Links of commands without a network: what is judged when, and what is never shown in halves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
from tests.support.links import Breaks, Masks, ReadsAll, Withholds, Words, interpreted_only, pipeline

from postern.domain.sessions.session import EndReason
from postern.interception.events import Completed, Event, Operation, Refusal, Resized
from postern.interception.pipeline import BatchNeed, Interceptor, SessionView
from postern.interception.verdicts import Hold, Verdict
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


class Told:
    """A link, and all that came of what it was fed."""

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


def test_attack_lines_at_a_terminal_that_says_nothing() -> None:
    """When each began was kept until something was shown."""
    told = Told(TYPED)
    told.client(m.START_FRAME)
    for _ in range(20):
        told.client(m.frames(m.STDIN, b"a\r" * 1_000))
    assert len(told.operations()) == 20_000
    assert len(told.link._started) <= MOST_STARTED


def test_a_script_starts_once_its_input_is_whole() -> None:
    told = Told(SCRIPT, Words(), arguments=("-x", "a b"))
    text = "echo 1\n" * 10_000
    data = TerminalScript(text).start()
    told.client(data[:66_000])
    assert told.to_target == []
    assert not told.link.awaiting_response
    told.client(data[66_000:])
    assert [kind for kind, _ in told.to_target] == [m.START, m.STDIN, m.STDIN, m.STDIN_END]
    assert told.typed() == text.encode()
    assert told.link.awaiting_response
    assert [event for event in told.events if isinstance(event, Operation)] == [
        Operation(1, text, values=(b"-x", b"a b"))
    ]


def test_a_script_beyond_the_bound_is_refused_and_never_runs() -> None:
    told = Told(SCRIPT)
    told.client(m.START_FRAME, m.frames(m.STDIN, b"x" * 100_001), m.STDIN_END_FRAME)
    assert told.to_target == []
    assert b"too large" in told.shown(m.STDERR)
    assert told.to_client[-1] == (m.EXIT, b"\0\0\0\1")


@pytest.mark.parametrize("arguments", [(), ("-c", "drop it")], ids=["in the script", "in an argument"])
def test_a_refused_script_never_runs(arguments: tuple[str, ...]) -> None:
    told = Told(SCRIPT, Words(), arguments=arguments)
    told.client(TerminalScript("true" if arguments else "drop it").start())
    assert told.to_target == []
    assert b"the word drop is not allowed" in told.shown(m.STDERR)
    assert told.to_client[-1][0] == m.EXIT
    assert any(isinstance(event, Refusal) and event.rule == "words" for event in told.events)
    assert not told.link.awaiting_response


def test_what_a_refused_client_sends_next_goes_nowhere() -> None:
    told = Told(TYPED, Words(), arguments=("drop",))
    told.client(m.START_FRAME, m.frame(m.STDIN, b"ls\r"))
    told.client(m.frame(m.STDIN, b"ls\r"), m.START_FRAME)
    assert told.to_target == []


def test_a_typed_line_that_is_refused_is_not_entered() -> None:
    told = Told(TYPED, Words())
    told.client(m.START_FRAME)
    for key in b"drop it\rls\r":
        told.client(m.frame(m.STDIN, bytes((key,))))
        told.release()
    assert told.typed() == b"drop it\x03\x15ls\r"  # Ctrl-U however late: bash can keep some of the cancelled line
    assert told.operations() == ["drop it", "ls"]
    assert b"not allowed" in told.shown(m.STDERR)
    assert told.closed is None


def test_attack_what_is_typed_behind_a_refused_line_waits_until_the_shell_has_forgotten_that() -> None:
    """An Enter that a shell reads together with Ctrl-C runs the line."""
    told = Told(TYPED, Words())
    told.client(m.START_FRAME, m.frame(m.STDIN, b"drop it\r\rdrop that\r"), m.frame(m.STDIN, b"ls\r"))
    told.target(out(b"^C"))
    told.client(m.resize(80, 25))
    assert told.link.input_paused
    assert told.typed() == b"drop it\x03"
    assert told.operations() == ["drop it"]
    told.release()
    assert told.link.input_paused
    assert told.typed() == b"drop it\x03\x15 \rdrop that\x03"
    told.release()
    assert not told.link.input_paused
    assert told.typed() == b"drop it\x03\x15 \rdrop that\x03\x15 ls\r"
    assert told.to_target[-1] == (m.RESIZE, m.resize(80, 25)[5:])
    assert told.operations() == ["drop it", "drop that", "ls"]


def test_what_waits_then_is_judged_by_the_rules_of_then() -> None:
    told = Told(TYPED)
    told.link.renew(pipeline(Words()))
    told.client(m.START_FRAME, m.frame(m.STDIN, b"drop it\rdrop that\r"))
    told.link.renew(pipeline())
    told.release()
    assert told.typed() == b"drop it\x03\x15 drop that\r"


@pytest.mark.parametrize(
    "keys",
    [b"dropp\x7f it", b"xx\x15drop it", b"drop xyz\x17it", b"\x1b[Ad\x1bOCrop it", "drüp".encode() + b"\x7f\x7fop it"],
    ids=["erased", "line erased", "word erased", "arrows", "a character of two bytes erased"],
)
def test_edited_lines_are_judged_as_they_are_entered(keys: bytes) -> None:
    told = Told(TYPED, Words())
    told.client(m.START_FRAME, m.frame(m.STDIN, keys + b"\r"))
    assert told.typed().endswith(b"\x03")


def test_a_line_too_long_to_be_kept_is_refused() -> None:
    told = Told(TYPED, Words())
    told.client(m.START_FRAME, m.frame(m.STDIN, b"x" * (LONGEST + 1) + b"drop\r"))
    assert told.typed().endswith(b"\x03")


def test_piped_lines_are_judged_before_they_are_passed() -> None:
    told = Told(PIPED, Words())
    told.client(m.START_FRAME, m.frame(m.STDIN, b"one\ndr"))
    told.client(m.frame(m.STDIN, b"op\n"), m.frame(m.STDIN, b"two"), m.STDIN_END_FRAME)
    assert told.typed() == b"one\ntwo"
    assert told.to_target[-1][0] == m.STDIN_END


def test_piped_bytes_that_nobody_judges_go_at_once() -> None:
    told = Told(PIPED)
    told.client(m.START_FRAME, m.frame(m.STDIN, b"no line end \xff"))
    assert told.typed() == b"no line end \xff"


def test_output_that_nobody_judges_passes_as_it_came() -> None:
    told = Told(TYPED)
    told.target(out(b"secret-1"), m.frame(m.STDERR, b"e"), m.exit_frame(3))
    assert told.to_client == [(m.STDOUT, b"secret-1"), (m.STDERR, b"e"), (m.EXIT, b"\0\0\0\3")]
    assert Completed(1, "exit 3", error="exit code 3") in told.events


@pytest.mark.parametrize("how", [SCRIPT, TYPED, PIPED], ids=["script", "typed", "piped"])
def test_a_value_split_over_two_reads_is_masked(how: How) -> None:
    told = Told(how, Masks())
    told.target(out(b"a secr"))
    told.target(out(b"et-12"), out(b"34 b\nnext"))
    assert told.shown() == b"a *** b\n"
    told.target(m.exit_frame(0))
    assert told.shown() == b"a *** b\nnext"


def test_the_two_channels_are_not_mixed_up() -> None:
    told = Told(SCRIPT, Masks())
    told.target(out(b"secr"), m.frame(m.STDERR, b"e1\n"), out(b"et-1\n"), m.exit_frame(0))
    assert (told.shown(), told.shown(m.STDERR)) == (b"***\n", b"e1\n")


def test_a_prompt_is_withheld_only_until_it_is_released() -> None:
    told = Told(TYPED, Masks())
    told.target(out(b"$ "))
    assert told.link.has_buffered_output
    assert told.shown() == b""
    told.release()
    assert told.shown() == b"$ "
    assert not told.link.has_buffered_output


def test_a_script_is_never_released_early() -> None:
    told = Told(SCRIPT, Masks())
    told.target(out(b"secr"))
    assert not told.link.has_buffered_output


def test_a_line_without_end_is_held_up_to_a_bound_and_cut_where_no_value_is() -> None:
    told = Told(SCRIPT, Masks())
    line = b"word " * (HOLD // 5) + b"secr"
    told.target(out(line), out(b"et-12"), out(b"34 end"))
    assert told.shown().startswith(b"word word")
    assert len(told.shown()) < len(line)
    told.target(m.exit_frame(0))
    assert told.shown() == b"word " * (HOLD // 5) + b"*** end"


def test_held_output_is_bounded_whatever_comes() -> None:
    told = Told(SCRIPT, Masks())
    for _ in range(100):
        told.target(out(b"x" * 1000))
    assert 100_000 - HOLD - 1000 <= len(told.shown()) <= 100_000


def test_refused_output_ends_a_script_and_only_a_line_of_a_terminal() -> None:
    told = Told(SCRIPT, Withholds())
    told.target(out(b"fine\n"), out(b"secret-1\n"), out(b"more\n"), m.exit_frame(0))
    assert told.shown() == b"fine\n"
    assert told.to_client[-1] == (m.EXIT, b"\0\0\0\1")
    assert b"a secret is not shown" in told.shown(m.STDERR)
    told = Told(TYPED, Withholds())
    told.target(out(b"secret-1\r\n"), out(b"more\r\n"))
    assert told.shown() == b"more\r\n"
    assert b"a secret is not shown" in told.shown(m.STDERR)


@interpreted_only
def test_an_interceptor_that_fails_shows_nothing() -> None:
    told = Told(SCRIPT, Breaks())
    told.client(TerminalScript("true").start())
    assert told.to_target == []


def test_a_killed_session_says_so_and_exits() -> None:
    told = Told(TYPED, ReadsAll())
    told.client(m.START_FRAME)
    told.end()
    assert b"postern: this session was killed\r\n" in told.shown(m.STDERR)
    assert told.to_client[-1] == (m.EXIT, b"\0\0\0\xff")
    assert told.closed is EndReason.KILLED


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
    ids=["unknown", "of the other side", "signal", "size", "endless", "started twice"],
)
def test_frames_of_a_hostile_client_end_the_link(data: bytes) -> None:
    told = Told(TYPED)
    told.client(data)
    assert told.closed is EndReason.PROTOCOL_VIOLATION


@dataclass
class HoldsAll:
    """Asks for a review of every statement."""

    name: str = "holds"
    wants: frozenset[type[Event]] = frozenset({Operation})
    batch_need: BatchNeed = BatchNeed.REVIEW

    def see(self, event: Event, session: SessionView) -> Verdict:
        return Hold("t1", "may this run?")


@pytest.mark.parametrize("how", [TYPED, PIPED])
@pytest.mark.parametrize("interceptors", [(), (HoldsAll(),)], ids=["runs", "is held"])
def test_a_program_cannot_be_started_again_while_it(how: How, interceptors: tuple[Interceptor, ...]) -> None:
    told = Told(how, *interceptors, arguments=("uptime",))
    told.client(m.START_FRAME)
    assert told.closed is None
    assert (told.link.held_request is not None) is bool(interceptors)
    told.client(m.START_FRAME)
    assert told.closed is EndReason.PROTOCOL_VIOLATION
    assert told.to_target.count((m.START, b"")) == (0 if interceptors else 1)


def test_frames_of_a_hostile_agent_end_the_link() -> None:
    told = Told(TYPED)
    told.target(m.frame(m.STDIN, b"x"))
    assert told.closed is EndReason.PROTOCOL_VIOLATION
    assert told.shown() == b""


@pytest.mark.parametrize("how", [TYPED, PIPED])
def test_the_end_of_output_passes_behind_what_was_withheld(how: How) -> None:
    told = Told(how, Masks())
    told.client(m.START_FRAME)
    told.target(out(b"one\ntwo"), m.frame(m.STDERR, b"bad"), m.OUTPUT_END_FRAME)
    assert [kind for kind, _ in told.to_client] == [m.STDOUT, m.STDOUT, m.STDERR, m.OUTPUT_END]
    assert told.shown() == b"one\ntwo"
    told.client(m.frame(m.STDIN, b"x\n"))
    assert told.typed() == b"x\n"
    told.target(m.exit_frame(3))
    assert told.to_client[-1] == (m.EXIT, m.exit_frame(3)[m.HEADER :])


def test_output_behind_its_end_ends_the_link() -> None:
    told = Told(PIPED)
    told.client(m.START_FRAME)
    told.target(m.OUTPUT_END_FRAME, m.OUTPUT_END_FRAME)
    assert [kind for kind, _ in told.to_client] == [m.OUTPUT_END]
    told.target(out(b"more"))
    assert told.closed is EndReason.PROTOCOL_VIOLATION
    assert told.shown() == b""


def test_a_script_whose_output_was_refused_hears_of_no_end_of_it() -> None:
    told = Told(SCRIPT, Withholds())
    told.client(TerminalScript("echo").start())
    told.target(out(b"secret-1\n"), m.OUTPUT_END_FRAME, m.exit_frame(0))
    assert [kind for kind, _ in told.to_client][-1] == m.EXIT
    assert m.OUTPUT_END not in [kind for kind, _ in told.to_client]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_the_lens_reads_what_is_cut_anywhere(size: int) -> None:
    lens = TerminalTextRenderer()
    data = out(b"one\n") + m.frame(m.STDERR, b"bad\n") + out(b"two\n") + m.OUTPUT_END_FRAME + m.exit_frame(0)
    found = [piece for at in range(0, len(data), size) for piece in lens.feed(data[at : at + size])]
    assert b"".join(text for stream, text in found if stream == "o") == b"one\ntwo\n"
    assert b"".join(text for stream, text in found if stream == "e") == b"bad\n"


def test_the_size_of_a_terminal_is_recorded_when_it_begins_and_changes() -> None:
    told = Told(partial(TypedWire, size=(80, 24)))
    told.client(m.START_FRAME, m.resize(80, 24), m.resize(120, 40), m.frame(m.STDIN, b"x"), m.resize(120, 40))
    assert told.events == [Resized(80, 24), Resized(120, 40)]
    assert [kind for kind, _ in told.to_target] == [m.START, m.RESIZE, m.RESIZE, m.STDIN, m.RESIZE]


def test_what_is_no_text_is_counted_and_passes_as_it_is() -> None:
    told = Told(ForwardWire, Words(), arguments=("forward to db:5432",))
    told.client(m.START_FRAME, m.frame(m.STDIN, b"drop\x00no line end"))
    told.target(out(b"\xff\x00"), m.OUTPUT_END_FRAME, m.exit_frame(0))
    assert (told.typed(), told.shown()) == (b"drop\x00no line end", b"\xff\x00")
    assert told.operations() == ["forward to db:5432"]
    (ended,) = [event for event in told.events if isinstance(event, Completed)]
    assert ended.tag == "16 bytes to the target, 2 bytes from it, exit 0"


def test_what_is_no_text_does_not_begin_where_something_must_be_hidden() -> None:
    told = Told(ForwardWire, Masks(), arguments=("forward to db:5432",))
    told.client(m.START_FRAME, m.frame(m.STDIN, b"x"))
    assert told.to_target == []
    assert b"cannot be masked" in told.shown(m.STDERR)
    assert told.to_client[-1][0] == m.EXIT


def test_what_is_no_text_ends_once_something_must_be_hidden() -> None:
    told = Told(ForwardWire)
    told.client(m.START_FRAME)
    told.target(out(b"before"))
    told.link.renew(pipeline(Masks()))
    told.target(out(b"after"))
    assert told.shown() == b"before"
    assert told.to_client[-1] == (m.EXIT, m.exit_frame(m.ENDED)[m.HEADER :])
