"""What masking costs: blocks of rows as one 64 KiB read of a result gives them, the default kinds on.

    python bench/masking.py

Prints MB/s of searchable text (framing is cut, and not counted) as the minimum and the median of several
interleaved rounds, and the number of values replaced in one block.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable
from uuid import UUID

from postern.domain.masking import DEFAULT_TYPES
from postern.inspection.masking.card import has_check_digit
from postern.inspection.masking.interceptor import Masking
from postern.interception.events import Kind
from postern.interception.pipeline import SessionView
from postern.protocols.postgres import messages as m
from postern.protocols.postgres.messages import Field
from postern.protocols.postgres.rows import DataRows, Layout

ROUNDS = 7
BLOCK = 64 * 1024
SEED = random.Random(7)

TEXT_OF_WORDS = "the quick brown fox jumps over a lazy dog and orders seven items of light blue cotton in size medium"
WORDS = TEXT_OF_WORDS.split()
DOMAINS = ("example.com", "mail.example.org", "shop.example.co.uk")


_OIDS = {Kind.TEXT: 25, Kind.NUMBER: 20, Kind.JSON: 114, Kind.OPAQUE: 1114}


class Block:
    """Rows as PostgreSQL sends them. `size` is that of their texts."""

    def __init__(self, columns: list[tuple[Kind, list[bytes]]]) -> None:
        self._layout = Layout(tuple(Field(str(place), _OIDS[kind], 0) for place, (kind, _) in enumerate(columns)))
        self.size = sum(len(text) for _, texts in columns for text in texts)
        self._count = len(columns[0][1])
        rows = zip(*(texts for _, texts in columns), strict=True)
        self._rows = b"".join(m.message(b"D", m.INT16.pack(len(row)), *map(_cell, row)) for row in rows)

    def rows(self) -> DataRows:
        """New ones, as what is masked stays so."""
        return DataRows(1, self._layout, self._rows, self._count)


def _cell(text: bytes) -> bytes:
    return m.INT32.pack(len(text)) + text


def words() -> str:
    return " ".join(SEED.choices(WORDS, k=4))


def email() -> str:
    return f"{SEED.choice(WORDS)}.{SEED.choice(WORDS)}{SEED.randint(1, 99)}@{SEED.choice(DOMAINS)}"


def phone() -> str:
    return f"+1 ({SEED.randint(200, 999)}) {SEED.randint(200, 999)}-{SEED.randint(0, 9999):04}"


def ssn() -> str:
    return f"{SEED.randint(1, 665):03}-{SEED.randint(1, 99):02}-{SEED.randint(1, 9999):04}"


def card() -> str:
    while True:
        digits = f"4{SEED.randint(0, 10**15 - 1):015}"
        if has_check_digit(digits.encode()):
            return digits


def address() -> str:
    return ".".join(str(SEED.randint(1, 254)) for _ in range(4))


def iban() -> str:
    account = f"{SEED.randint(0, 10**18 - 1):018}"
    return f"DE{98 - int(account + '131400') % 97:02}{account}"


def sentence() -> str:
    return f"{words()}, mail {email()} or call {phone()}"


def document() -> str:
    return json.dumps({"name": words(), "email": email(), "age": SEED.randint(18, 99), "tags": WORDS[:3]})


def moment() -> str:
    return f"2024-{SEED.randint(1, 12):02}-{SEED.randint(1, 28):02} 12:34:56.{SEED.randint(0, 999999):06}"


def number() -> str:
    return str(SEED.randint(1, 10**8))


TEXT, NUMBER, OPAQUE, JSON = Kind.TEXT, Kind.NUMBER, Kind.OPAQUE, Kind.JSON
Shape = list[tuple[Kind, Callable[[], str]]]
SHAPES: dict[str, Shape] = {
    "clean: ten text columns": [(TEXT, words)] * 10,
    "clean: seven texts, dates and numbers as text": [(TEXT, words)] * 7
    + [(TEXT, moment), (TEXT, number), (TEXT, number)],
    "ordinary: e-mails in 3 of 10, 3 numbers, 2 dates": [(TEXT, email)] * 3
    + [(TEXT, words)] * 2 + [(NUMBER, number)] * 3 + [(OPAQUE, moment)] * 2,
    "ordinary: e-mails in 3 of 10, 7 other texts": [(TEXT, email)] * 3 + [(TEXT, words)] * 7,
    "dense: values in 2 of 10 text columns": [(TEXT, phone), (TEXT, card)] + [(TEXT, words)] * 8,
    "dense: a value in each cell of 6 columns": [(TEXT, one) for one in (email, phone, ssn, card, address, iban)],
    "dense: sentences with two values in each cell": [(TEXT, sentence)] * 4,
    "only e-mails": [(TEXT, email)],
    "only cards": [(TEXT, card)],
    "only cards in number columns": [(NUMBER, card)],
    "only phones": [(TEXT, phone)],
    "only social security numbers": [(TEXT, ssn)],
    "only addresses": [(TEXT, address)],
    "only accounts": [(TEXT, iban)],
    "JSON: an e-mail in each document": [(JSON, document)],
}  # fmt: skip


def block(shape: Shape) -> Block:
    """As many rows as fill a read, by the first row's size."""
    row = sum(len(make()) for _, make in shape)
    return Block([(kind, [make().encode() for _ in range(BLOCK // row)]) for kind, make in shape])


def session() -> SessionView:
    return SessionView(UUID(int=0), "ann", frozenset(), "shop", "database", "postgres", {})


def speed(masking: Masking, block: Block, repeat: int) -> float:
    view = session()
    start = time.process_time()  # the process's own: others on the machine count little
    for _ in range(repeat):
        masking.see(block.rows(), view)
    return block.size * repeat / (time.process_time() - start) / 1e6


def main() -> None:
    masking = Masking(DEFAULT_TYPES)
    blocks = {name: block(shape) for name, shape in SHAPES.items()}
    speeds: dict[str, list[float]] = {name: [] for name in blocks}
    for _ in range(ROUNDS):
        for name, made in blocks.items():
            speeds[name].append(speed(masking, made, 20))
    print(f"{'MB/s, one core, the default kinds on':50} {'min':>7} {'median':>7} {'hits':>6}")
    for name, made in blocks.items():
        view = session()
        masking.see(made.rows(), view)
        hits = sum(view.metrics.info_types.values())
        print(f"{name:50} {min(speeds[name]):7.0f} {statistics.median(speeds[name]):7.0f} {hits:6}")


if __name__ == "__main__":
    main()
