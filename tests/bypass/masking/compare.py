"""The messages that a client receives, and the comparison of two conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.bypass.masking.attack import Attack
from tests.bypass.masking.strategies import Policing

Cell = bytes | None
DECODING_TABLE = "decoding table"  # the group of attacks that are judged by `decoding_table` as well


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the protocol, whole. `cells` are those of a row, whose `body` is empty."""

    tag: str
    body: bytes = b""
    cells: tuple[Cell, ...] | None = None

    def __str__(self) -> str:
        return f"{self.tag} {self.body!r}" if self.cells is None else f"{self.tag} {list(self.cells)}"


Answer = list[Message]


class Session(Protocol):
    """A client's session. `is_marked`: the recording says that an answer was not inspected."""

    def ask(self, step: str) -> Answer: ...

    @property
    def is_marked(self) -> bool: ...


@dataclass
class Heard:
    answers: list[Answer]
    is_marked: bool = False


class Server(Protocol):
    """Databases `a`, `b` and `c`, and clients of them. `protocols` are those that statements are sent by."""

    name: str
    protocols: tuple[str, ...]
    masked: tuple[str, ...]  # columns of the table `people`

    def run(self, policing: Policing | None, database: str, protocol: str, steps: Sequence[str]) -> Heard:
        """Run the statements of one session; without a policy as the server answers them."""

    def plain_columns(self, answer: Answer) -> list[bool]:
        """Whether each column of an answer is one of a table, as the server describes it."""


Symbols = Mapping[bytes, bytes]


def pseudonyms(server: Server, policing: Policing, database: str) -> Symbols:
    """Map the pseudonym of each value of a plain column to the value's place.

    A strategy that shows pseudonyms shows which plain values are the same. Two databases differ in their pseudonyms
    and have the same values in the same places, so a pseudonym counts as its place.
    """
    found: dict[bytes, bytes] = {}
    if not policing.has_pseudonyms:
        return found
    steps = [f"select {column} from people order by id" for column in server.masked]
    for protocol in server.protocols:
        heard = server.run(policing, database, protocol, steps)
        for column, answer in zip(server.masked, heard.answers, strict=True):
            rows = [message.cells for message in answer if message.cells is not None]
            for place, row in enumerate(rows):
                if row[0]:
                    found.setdefault(row[0], f"<{column} {place}>".encode())
    return found


def with_places(answers: list[Answer], symbols: Symbols) -> list[Answer]:
    if not symbols:
        return answers
    return [[_placed(message, symbols) for message in answer] for answer in answers]


def _placed(message: Message, symbols: Symbols) -> Message:
    if message.cells is not None:
        return Message(
            message.tag, b"", tuple(None if cell is None else _with_places(cell, symbols) for cell in message.cells)
        )
    return Message(message.tag, _with_places(message.body, symbols)) if message.tag == "copied" else message


def _with_places(data: bytes, symbols: Symbols) -> bytes:
    """Replace pseudonyms in a cell, or in a row of copied data: alone, with a length in front, or long ones anywhere."""
    if data in symbols:
        return symbols[data]
    for pseudonym, place in symbols.items():
        data = data.replace(len(pseudonym).to_bytes(4, "big") + pseudonym, place)
        if len(pseudonym) > 4:
            data = data.replace(pseudonym, place).replace(pseudonym.replace(b'"', b'""'), place)  # as CSV has it
    return data


def difference(one: Sequence[Answer], other: Sequence[Answer]) -> str:
    """Describe the first difference of two conversations; empty if they are equal."""
    for step, (left, right) in enumerate(zip(one, other, strict=True), 1):
        if left == right:
            continue
        for first, second in zip(left, right, strict=False):
            if first != second:
                return f"step {step}: {first} / {second}"
        return f"step {step}: {len(left)} / {len(right)} messages"
    return ""


def decoding_table(answers: Sequence[Answer]) -> str:
    """Describe the values that the last column of an answer shows, if more than one.

    These attacks put known values beside their masked forms. Both databases show the same table, so comparing them
    is not enough: a computed column must be one constant.
    """
    for answer in answers:
        shown = {message.cells[-1] for message in answer if message.cells}
        if len(shown) > 1:
            return f"{len(shown)} different values in the last column, such as {sorted(map(str, shown))[:2]}"
    return ""


@dataclass(frozen=True, slots=True)
class Finding:
    """The difference that an attack revealed."""

    attack: Attack
    protocol: str
    difference: str


@dataclass
class Judge:
    """Runs attacks against pairs of databases of one server."""

    server: Server

    def __post_init__(self) -> None:
        self._symbols: dict[tuple[str, str], Symbols] = {}

    def findings(self, policing: Policing, protocol: str, attacks: Sequence[Attack]) -> list[Finding]:
        found = []
        for attack in attacks:
            told = self.learned(policing, protocol, attack)
            if told:
                found.append(Finding(attack, protocol, told))
        return found

    def learned(self, policing: Policing, protocol: str, attack: Attack) -> str:
        """Describe what the client learns by an attack; empty if nothing."""
        told = self.compare(policing, protocol, attack.steps)
        if told or attack.group != DECODING_TABLE:
            return told
        heard = self.server.run(policing, "a", protocol, attack.steps)
        return "" if policing.is_marked and heard.is_marked else decoding_table(heard.answers)

    def compare(self, policing: Policing, protocol: str, steps: Sequence[str]) -> str:
        """Describe the difference that the client sees. An answer with a marker is one that best effort passes."""
        one = self._run(policing, "a", protocol, steps)
        other = self._run(policing, policing.variant, protocol, steps)
        if policing.is_marked and (one.is_marked or other.is_marked):
            return ""
        return difference(one.answers, other.answers)

    def _run(self, policing: Policing, database: str, protocol: str, steps: Sequence[str]) -> Heard:
        key = (policing.name, database)
        if key not in self._symbols:
            self._symbols[key] = pseudonyms(self.server, policing, database)
        heard = self.server.run(policing, database, protocol, steps)
        return Heard(with_places(heard.answers, self._symbols[key]), heard.is_marked)
