"""Words that a terminal shows are found, whatever control sequences a program uses."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocols.terminal.test_wire_terminal import PIPED, TYPED, How, TerminalTalk, out

from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType
from postern.domain.rules.masking import DEFAULT_TYPES
from postern.inspection.guardrails.guardrail_interceptor import GuardrailInterceptor
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.events import ClientOutput, Refusal
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.terminal_output import HOLD
from postern.protocols.terminal.terminal_rendering import TerminalRow, is_plain, render

WORD = "topsecret"
MAIL = b"ann@example.com"

# Each prints WORD for the eye.
SPELLED = {
    "colours": b"top\x1b[31msec\x1b[0mret",
    "colour of each letter": b"".join(b"\x1b[38;2;1;2;3m" + bytes([sign]) for sign in WORD.encode()),
    "true colour with colons": b"top\x1b[38:2::1:2:3msecret",
    "NUL": b"top\0sec\0ret",
    "bell": b"top\x07secret",
    "DEL": b"top\x7fsecret",
    "shift out": b"top\x0e\x0fsecret",
    "backspace": b"topX\bsecret",
    "two backspaces": b"topxy\b\bsecret",
    "overstruck letters": b"".join(bytes([sign, 8, sign]) for sign in WORD.encode()),
    "underlined letters": b"".join(b"_\b" + bytes([sign]) for sign in WORD.encode()),
    "underlined afterwards": b"".join(bytes([sign]) + b"\b_" for sign in WORD.encode()),
    "title in between": b"top\x1b]0;title\x07secret",
    "title ended by ST": b"top\x1b]2;title\x1b\\secret",
    "link": b"top\x1b]8;;http://x\x1b\\sec\x1b]8;;\x1b\\ret",
    "device string": b"top\x1bPq#1\x1b\\secret",
    "string ended by a new sequence": b"top\x1b]0;title\x1b[0msecret",
    "cancelled sequence": b"top\x1b[31\x18secret",
    "modes": b"top\x1b[?25l\x1b[?7hsecret",
    "cursor style": b"top\x1b[3 qsecret",
    "charset": b"top\x1b(Bsecret",
    "keypad": b"top\x1b=secret\x1b>",
    "8-bit CSI": b"top\xc2\x9b31msecret",
    "8-bit control": b"top\xc2\x80secret",
    "raw 8-bit control": b"top\x80secret",
    "forth and back": b"top\x1b[5C\x1b[5Dsecret",
    "column": b"\x1b[4Gsecret\x1b[1Gtop",
    "columns, last first": b"\x1b[12Gx\x1b[7Gret\x1b[4Gsec\x1b[1Gtop",
    "absolute column": b"\x1b[4`secret\rtop",
    "return": b"xxxsecret\rtop",
    "return before": b"\r\rtop\x1b[ssecret",
    "address": b"\x1b[5;4Hsecret\x1b[5;1Htop",
    "inserted": b"tosecret\r\x1b[2C\x1b[@p",
    "insert mode": b"secret\r\x1b[4htop\x1b[4l",
    "deleted": b"topxxsecret\r\x1b[3C\x1b[2P",
    "erased after the cursor": b"topsecretxx\x1b[2D\x1b[K",
    "erased before the cursor": b"xxxx\x1b[1K\rtopsecret",
    "saved cursor": b"\x1b7xxxsecret\x1b8top",
    "saved cursor, CSI": b"\x1b[sxxxsecret\x1b[utop",
    "control in a sequence": b"top\x1b[3\x001msecret",
    "backspace in a sequence": b"topX\x1b[\b0msecret",
    "zero width space": "top\u200bsecret".encode(),
    "soft hyphen": "top\u00adsecret".encode(),
    "joiner": "top\u2060sec\u200dret".encode(),
    "byte order mark": "top\ufeffsecret".encode(),
    "marks of direction": "top\u202dsec\u202cret\u200e".encode(),
    "variation selector": "top\ufe0fsecret".encode(),
    "tag characters": "top\U000e0041secret".encode(),
    "combining marks": "t\u0332o\u0332p\u0332secret".encode(),
    "enclosing mark": "to\u20ddpsecret".encode(),
}
APART = {
    "overwritten": (b"topsecret", b"\rxxxxxxxxx"),
    "lines": (b"top\nsecret",),
    "another word": (b"top\x1b[1Csecret",),
    "cursor down": (b"top\x1b[Bsecret",),
    "in reverse": (b"secret\x1b[3Ctop",),
}
# What stands on the screen between two letters without a trace.
INVISIBLE = (
    *("\0", "\a", "\x7f", "\x0e", "X\b", "xy\b\b", "\x1b[3C\x1b[3D", "\x1b7abc\x1b8", "\x1b[s\x1b[9C\x1b[u"),
    *(
        "\x1b[m",
        "\x1b[1;31m",
        "\x1b[?25h",
        "\x1b]0;t\a",
        "\x1b]0;t\x1b\\",
        "\x1bPx\x1b\\",
        "\x1b(B",
        "\x1b=",
        "\x1b[3\x18",
    ),
    *("\u200b", "\u00ad", "\u2060", "\ufeff", "\ufe0f", "\u202e", "\u0080", "\x1b[3\x18"),
)


def shown(data: bytes, row: TerminalRow | None = None) -> str:
    return "\n".join(line.shown for line in render(data, row or TerminalRow()))


def rail(action: Action = Action.DENY, pattern: str = rf"\b{WORD}\b") -> GuardrailInterceptor:
    rule = Rule(RuleType.PATTERN_MATCH, pattern_regex=pattern, name="secrets", action=action)
    return GuardrailInterceptor((Guardrail(UUID(int=1), UUID(int=2), "rail", output=(rule,)),))


def printed(data: bytes, *interceptors: Any, how: How = PIPED, size: int = 0) -> TerminalTalk:
    """Run a program that prints `data` in reads of `size` bytes and exits."""
    talk = TerminalTalk(how, *interceptors)
    talk.client(m.START_FRAME)
    for start in range(0, len(data), size or len(data)):
        talk.target(out(data[start : start + (size or len(data))]))
    talk.target(m.exit_frame(0))
    return talk


@pytest.mark.parametrize("how", SPELLED)
def test_word_is_rendered_as_on_a_terminal(how: str) -> None:
    assert WORD in shown(SPELLED[how] + b"\n").split("\n")[-1]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 0])
@pytest.mark.parametrize("how", SPELLED)
def test_deny_rule_finds_a_rendered_word_in_reads_of_any_size(how: str, size: int) -> None:
    data = b"before\r\n" + SPELLED[how] + b"\r\nafter\r\n"
    talk = printed(data, rail(), size=size)
    assert [event.rule for event in talk.events if isinstance(event, Refusal)]
    assert WORD not in shown(talk.shown())


@pytest.mark.parametrize("how", APART)
def test_word_that_is_not_visible_in_one_row_is_not_found(how: str) -> None:
    data = b"".join(APART[how]) + b"\n"
    if how != "overwritten":
        assert printed(data, rail()).shown() == data
    assert WORD not in shown(data)


def test_overwritten_word_is_denied_by_its_bytes() -> None:
    assert b"topsecret" not in printed(b"topsecret\rxxxxxxxxx\n", rail()).shown()
    assert b"sec" not in printed(b"top\x1b[0msecret\r\x1b[K\n", rail()).shown()


@given(st.lists(st.sampled_from(INVISIBLE), min_size=len(WORD) - 1, max_size=len(WORD) - 1), st.integers(1, 40))
@settings(max_examples=300, deadline=None)
def test_word_split_by_invisible_sequences_is_found(between: list[str], size: int) -> None:
    data = "".join(letter + hidden for letter, hidden in zip(WORD, [*between, ""], strict=True))
    talk = printed(b"a line\n" + data.encode() + b"\nafter\n", rail(pattern=WORD), size=size)
    assert [event for event in talk.events if isinstance(event, Refusal)]


# Random bytes that could be a value of some type: an email address is five bytes long at least, numbers are longer.
MAY_BE_HIT = re.compile(rb"@|[0-9a-f.: -]{6}", re.IGNORECASE)


@given(st.binary(max_size=300).filter(lambda data: not MAY_BE_HIT.search(data)), st.integers(1, 50))
@settings(max_examples=300, deadline=None)
def test_output_without_a_hit_reaches_client_and_recording_unchanged(data: bytes, size: int) -> None:
    talk = printed(data, rail(), Masking(DEFAULT_TYPES), size=size)
    if data:
        assert talk.shown() == data
    reader = m.TerminalFrameReader()
    recorded = [part for event in talk.events if isinstance(event, ClientOutput) for part in reader.feed(event.data)]
    assert b"".join(payload for kind, payload in recorded if kind == m.STDOUT) == data


@given(st.text("ab\x1b[]0;m1\r\n\b\t\x9bHKP\u0301\u4e2d\x07\\", max_size=80), st.lists(st.integers(1, 20), max_size=8))
@settings(max_examples=300, deadline=None)
def test_rendered_lines_contain_every_byte_of_the_output(text: str, cuts: list[int]) -> None:
    row, data = TerminalRow(), text.encode("utf-8", "surrogateescape")
    for cut in [*cuts, len(data)]:
        piece, data = data[:cut], data[cut:]
        assert b"".join(line.data for line in render(piece, row)) == piece


@pytest.mark.parametrize("padding", [b"\0", b"\x1b[0m", b"x\b", "\u200b".encode()])
def test_padding_larger_than_the_buffer_does_not_hide_a_word(padding: bytes) -> None:
    data = b"topsec" + padding * (3 * HOLD // len(padding)) + b"ret\n"
    talk = printed(data, rail(), size=4_000)
    assert [event for event in talk.events if isinstance(event, Refusal)]
    assert b"ret" not in talk.shown()


@pytest.mark.parametrize(
    ("mail", "left"),
    [
        (b"ann\x1b[0m@example.com", b"****@****"),
        (b"ann\0@exam\0ple.com", b"****@****"),
        (b"xxx@example.com\rann", b"****@****"),
        (b"\x1b[32mann@example.com\x1b[0m", b"****@****"),
        ("ann\u200b@example.com".encode(), b"****@****"),
    ],
)
def test_email_address_is_masked_as_a_terminal_shows_it(mail: bytes, left: bytes) -> None:
    talk = printed(b"one\r\n\x1b[1mtwo\x1b[0m\r\n" + mail + b"\r\nfour\r\n", Masking(DEFAULT_TYPES))
    assert talk.shown() == b"one\r\n\x1b[1mtwo\x1b[0m\r\n" + left + b"\r\nfour\r\n"
    counted = talk.link._pipeline.session.metrics.info_types["EMAIL_ADDRESS"]
    assert counted == (2 if mail.startswith(b"xxx") else 1)  # what was overwritten is one, too


def test_mask_rule_replaces_the_matching_line() -> None:
    talk = printed(b"one\ntop\x1b[0msecret!\n\x1b[1mthree\x1b[0m\n", rail(Action.MASK))
    assert talk.shown() == b"one\n[masked:secrets]!\n\x1b[1mthree\x1b[0m\n"


def test_warn_rule_leaves_the_output_unchanged() -> None:
    talk = printed(SPELLED["colours"] + b"\n", rail(Action.WARN))
    assert talk.shown() == SPELLED["colours"] + b"\n"
    assert b"warning of" in talk.shown(m.STDERR)


def test_word_completed_by_a_later_read_is_denied() -> None:
    talk = TerminalTalk(PIPED, rail())
    talk.client(m.START_FRAME)
    talk.target(out(b"top\r"))
    assert talk.shown() == b"top\r"
    talk.target(out(b"\x1b[3Csecret\nfine\n"))
    assert b"secret" not in talk.shown()


def test_value_completed_by_a_later_read_is_masked() -> None:
    talk = TerminalTalk(PIPED, Masking(DEFAULT_TYPES))
    talk.client(m.START_FRAME)
    talk.target(out(b"ann@exam\r"))
    talk.target(out(b"\x1b[8Cple.com\nfine\n"))
    assert talk.shown() == b"ann@exam\r\r\x1b[K****@****\nfine\n"


def test_echoed_letters_are_not_denied_as_one_word() -> None:
    """Typed text is echoed letter by letter and must not be denied as one word."""
    talk = TerminalTalk(TYPED, rail())
    talk.client(m.START_FRAME)
    for letter in WORD.encode():
        talk.target(out(bytes([letter])))
        talk.release()
    assert talk.shown() == WORD.encode()


@pytest.mark.parametrize(
    "data",
    [b"plain\n", b"two\r\nlines\r\n", b"a\ttab\n", "grüße, 中文, é\n".encode(), b"no line end"],
)
def test_ordinary_text_needs_no_rendering(data: bytes) -> None:
    assert is_plain(data, TerminalRow())


@pytest.mark.parametrize(
    "data",
    [
        b"\x1b]" * 50_000,
        b"\x1b[" * 50_000,
        b"\x1b[9999b" * 20_000,
        b"\x1b[9999Cx\x1b[2K\r" * 10_000,
        b"\x1b[9999Cx\x1b[A" * 10_000,
        b"x\x1b[9999@\r" * 10_000,
        b"x" * 2_000 + b"\r\x1b[9999X" * 10_000,
        b"\x1b[" + b";" * 100_000,
        b"\x1b]0;" + b"x" * 100_000,
    ],
)
def test_rendering_of_hostile_sequences_is_bounded(data: bytes) -> None:
    row = TerminalRow()
    for start in range(0, len(data), 8_192):
        lines = render(data[start : start + 8_192], row)
        assert sum(len(line.shown) for line in lines) <= 70 * 8_192
    assert len(row.cells) <= 2_048
    assert len(row.pending) <= 4_096
