"""What a replay passes on to a terminal. The words of the theory are those of decision 0026."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.cli.terminal.screen_filter import RESTORE, ScreenFilter

# All that may come out: text, line controls, and these sequences. Written down apart from the filter.
_HARMLESS = re.compile(
    r"[^\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
    r"|[\b\t\n\v\f\r\x0e\x0f]"
    r"|\x1b[78DEMH]"
    r"|\x1b[()*+][0AB]"
    r"|\x1b\[[0-9;:]*[@A-HI-MPSTXZ`abdefgmr]"
    r"|\x1b\[[su]"
    r"|\x1b\[4[hl]"
    r"|\x1b\[\?[012]?[JK]"
    r"|\x1b\[\?(5|6|7|12|25|47|1047|1048|1049|2026)(;(5|6|7|12|25|47|1047|1048|1049|2026))*[hl]"
)
PIECES = st.one_of(
    st.text(max_size=8),
    st.text(alphabet="\x1b[]();?0123456789:><=!$\"' \\PX^_kcnhlmrtqpsuxyz\x07\x9b\x9d\x90\x9c\x18\x1aAB", max_size=12),
    st.sampled_from(
        [
            "\x1b[6n",
            "\x1b[c",
            "\x1b]52;c;?\x07",
            "\x1b]0;x\x1b\\",
            "\x1bP$qm\x1b\\",
            "\x1b[2J",
            "\x1b[31m",
            "\x1b[?1000h",
        ]
    ),
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


def passed(text: str) -> str:
    return ScreenFilter().feed(text)


@given(TEXTS)
def test_only_what_is_known_to_be_harmless_comes_out(text: str) -> None:
    assert re.fullmatch(f"(?:{_HARMLESS.pattern})*", passed(text))


@given(TEXTS)
def test_filtering_twice_changes_nothing(text: str) -> None:
    once = passed(text)
    assert passed(once) == once


@given(TEXTS, st.data())
def test_it_does_not_matter_where_the_stream_is_cut(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    screen = ScreenFilter()
    assert screen.feed(text[:cut]) + screen.feed(text[cut:]) == passed(text)


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="‪‫‬‭‮⁦⁧⁨⁩")))
def test_plain_text_is_left_alone(text: str) -> None:
    assert passed(text) == text


@pytest.mark.parametrize(
    "harmless",
    ["a\r\nb\tc\b", "\x1b[31;1mred\x1b[0m", "\x1b[38:2::1:2:3m", "\x1b[2J\x1b[H", "\x1b[10;20H", "\x1b[?25l\x1b[?1049h",
     "\x1b7\x1b8", "\x1b(0lqk\x1b(B", "\x1b[3;20r", "\x1b[K", "\x1b[4P", "\x1bM", "äöü€😀", RESTORE],
)  # fmt: skip
def test_drawing_passes(harmless: str) -> None:
    assert passed(harmless) == harmless


@pytest.mark.parametrize(
    ("attack", "left"),
    [
        ("a\x1b[6nb", "ab"),  # where is the cursor: the answer is typed into the shell
        ("a\x1b[cb\x1b[>c\x1b[=c", "ab"),  # what are you
        ("a\x1b[5n\x1b[?6n", "a"),
        ("\x1b]52;c;cm0gLXJmIH4=\x07x", "x"),  # the clipboard is written
        ("\x1b]52;c;?\x1b\\x", "x"),  # and read
        ("\x1b]0;title\x07x\x1b[21tx", "xx"),  # the title is set, and answered as if typed
        ("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]1337;File=name=eA==:AAAA\x07x", "x"),
        ('\x1bP$q"p\x1b\\x\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\', "x"),  # DECRQSS, and a way through tmux
        ("\x1b_Gi=1;AAAA\x1b\\x\x1b^y\x1b\\\x1bXz\x1b\\", "x"),
        ("\x1bkname\x1b\\x", "x"),
        ("\x9b6n\x9d0;t\x9cx\x9031m", "x"),  # 8-bit controls
        ("\x1b[?1000h\x1b[?1006h\x1b[?2004h\x1b[?1004hx", "x"),  # clicks and pastes become input
        ("\x1b[?1000;25h", "\x1b[?25h"),
        ("\x1b[5i secret\x1b[4i", " secret"),  # to a printer
        ("\x1b[8;1;1t\x1b[2tx", "x"),  # the window
        ("\x1bcx", "\x1b[0m\x1b[r\x1b[2J\x1b[Hx"),
        ("\x1b[999999999bx\x1b[99999@", "x"),  # keeps a terminal busy
        ("\x1b[>4;2m\x1b[>1u\x1b[=1u\x1b=\x1b>x", "x"),  # what keys mean
        ("\x1b[20h\x1b[2hx", "x"),
        ("\x1b[!p\x1b[0 q\x1b#8\x1b%Gx", "x"),
        ("\x1b]0;never ended", ""),
        ("\x07\x00\x7fx", "x"),
        ("\x1b[3\x1b[31m\x1b[3\x18x", "\x1b[31mx"),
        ("a\u202eb", "a\ufffdb"),
        ("\x1b]0;x\x1b[31my", "\x1b[31my"),  # a string that ESC ends
    ],
)
def test_attacks_on_whoever_replays_are_swallowed(attack: str, left: str) -> None:
    assert passed(attack) == left
