"""The check of client encodings, before all rules: a rule must read the same text as the server (decision 0038).

PostgreSQL converts client text to the encoding of the database before it parses it. In SJIS, BIG5, GBK, UHC, JOHAB,
GB18030 and SHIFT_JIS_2004 the second byte of a character can be ASCII, a backslash or a letter, and conversion tables
differ between versions. So while rules apply, a client must use UTF-8, SQL_ASCII or a single-byte encoding. A statement
that sets another encoding is refused, and so is text in one.
"""

from __future__ import annotations

import itertools
from enum import Enum
from functools import partial
from typing import Final

from postern.domain.rules.statement import Effect
from postern.interception.events import RUN, Event, Operation, Phase
from postern.interception.pipeline import AT_ONCE, BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, Hold, Refuse, Verdict, Work, later
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser

# A statement that sets the encoding contains one of these in lower case; "u&" spells names by code points.
_SETS: Final = ("encoding", "names", "set_config", "pg_settings", "u&")
# A statement that can reset the encoding, or run code that sets it, contains one of these.
_LEADS: Final = (*_SETS, "reset", "discard", "rollback", "abort", "do", "call", "execute")
_SET_CONFIG: Final = "function call 2078"  # by FunctionCall messages

_RULE: Final = "client encoding"
_HINT: Final = "Set client_encoding to UTF8 (PGCLIENTENCODING=UTF8), or to a single-byte encoding."
_SETTING: Final = Refuse(
    _RULE,
    "this statement can set a client encoding in which the connection's rules can be bypassed, so it was denied",
    _HINT,
)
_BEHIND: Final = Refuse(
    _RULE,
    "this statement contains non-ASCII characters and follows an unfinished statement that can change the client "
    "encoding, so it is unknown how the target reads it",
    "Resend it after that statement has completed.",
)

_tickets = itertools.count(1)

_REMEMBERED: Final = 1024  # prepared texts that cannot set the encoding


def _contains(folded: str, words: tuple[str, ...]) -> bool:
    return any(word in folded for word in words)


def _may_set(folded: str) -> bool:
    return _contains(folded, _SETS) and ("set" in folded or "u&" in folded)


class ClientEncodings:
    """The interceptor for PostgreSQL. It runs before the others."""

    name = "client encodings"

    def __init__(self, parser: PostgresParser) -> None:
        self.wants: frozenset[type[Event]] = frozenset({Operation})
        self.batch_need = BatchNeed.NONE
        self._parser = parser
        self._doubt = False  # a pending statement may change the encoding
        self._last = ""  # the last statement that runs, not yet considered for the doubt
        self._harmless: set[str] = set()  # texts that were prepared

    def see(self, event: Event, session: SessionView) -> Verdict:
        if not isinstance(event, Operation):
            return FORWARD
        text = event.text
        if self._is_behind_a_change(event):
            return _BEHIND
        if event.truncated:
            return FORWARD  # interceptors that judge texts refuse it; no other rule applies to it
        if not event.unread and self._is_harmless(text, event.phase):
            return FORWARD
        work = Work(partial(_judge, self._parser, text, event.unread), partial(_verdict, event.unread))
        if len(text) <= AT_ONCE:
            if session.may_parse(len(text)):
                return work()
            work = later(work)
        return Hold(f"encoding {next(_tickets)}", "this statement is being parsed", work=work)

    def _is_behind_a_change(self, event: Operation) -> bool:
        """Return whether the text is not ASCII, and a pending statement may change the encoding in which it is read."""
        if not event.pipelined:
            self._doubt = False
        elif self._last and not self._doubt:
            self._doubt = _contains(self._last.lower(), _LEADS)
        if event.pipelined and self._doubt and not event.text.isascii():
            return True
        self._last = event.text if event.phase is RUN else self._last if event.pipelined else ""
        return False

    def _is_harmless(self, text: str, phase: Phase) -> bool:
        """Return whether the text cannot set the encoding."""
        if text in self._harmless:
            return True
        if text == _SET_CONFIG or _may_set(text.lower()):
            return False
        if phase is not RUN and len(text) <= AT_ONCE:
            if len(self._harmless) >= _REMEMBERED:
                self._harmless.clear()
            self._harmless.add(text)
        return True


class _Judgement(Enum):
    HARMLESS = 0
    SETS = 1  # sets another encoding
    UNREAD = 2  # arrives in an unreadable encoding


def _judge(parser: PostgresParser, text: str, unread: str) -> _Judgement:
    if text == _SET_CONFIG:
        return _Judgement.SETS
    judged = parser.judge(text)
    if any(statement.encodes for statement in judged):
        return _Judgement.SETS
    only_sets = all(entry.statement.tag in ("SET", "RESET") for entry in judged)
    is_way_back = text.isascii() and only_sets and all(entry.statement.effects == {Effect.SESSION} for entry in judged)
    return _Judgement.UNREAD if unread and not is_way_back else _Judgement.HARMLESS


def _verdict(unread: str, judgement: object) -> Verdict:
    if judgement is _Judgement.HARMLESS:
        return FORWARD
    if judgement is _Judgement.SETS:
        return _SETTING
    return Refuse(
        _RULE,
        f"the client uses {unread}, in which the connection's rules can be bypassed, so this statement was denied",
        _HINT,
    )
