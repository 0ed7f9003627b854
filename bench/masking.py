"""What masking costs: blocks of rows as one 64 KiB read of a result gives them.

    python -m bench.masking

Prints MB/s of the cells' bytes (framing is read and written, and not counted), the median of several interleaved
rounds, and the number of values replaced in one block: with the default types on, with all that need no language model,
and with the default types and a customer's own one, which none of the texts holds. Each round has values that were
never seen before. Times are the process's own (user and system), so that others on the machine count little.
"""

from __future__ import annotations

import json
import random
import statistics
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from postern.domain.rules.masking import DEFAULT_TYPES, MODEL_TYPES, CustomType, InfoType, MaskingRule
from postern.inspection.masking.kinds.card import has_check_digit
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.events import TextKind
from postern.interception.pipeline import SessionView
from postern.protocols.postgres.wire.postgres_rows import PostgresLayout, PostgresRows, layout_of

ROUNDS = 5
BLOCKS = 3
BLOCK = 64 * 1024
SEED = random.Random(7)

TEXT_OF_WORDS = "the quick brown fox jumps over a lazy dog and orders seven items of light blue cotton in size medium"
WORDS = TEXT_OF_WORDS.split()
DOMAINS = ("example.com", "mail.example.org", "shop.example.co.uk")


@dataclass(frozen=True, slots=True)
class Block:
    """Rows as the wire has them: `size` counts the bytes of their cells."""

    layout: PostgresLayout
    data: bytes
    count: int
    size: int

    def rows(self) -> PostgresRows:
        return PostgresRows(1, self.layout, self.data, self.count)


def encoded(columns: list[tuple[TextKind, list[bytes]]]) -> Block:
    fields = [
        f"c{place}".encode() + struct.pack("!xihihih", 0, 0, OIDS[kind], -1, -1, 0)
        for place, (kind, _) in enumerate(columns)
    ]
    rows = []
    for cells in zip(*(texts for _, texts in columns), strict=True):
        row = b"".join(struct.pack("!i", len(cell)) + cell for cell in cells)
        rows.append(b"D" + struct.pack("!ih", len(row) + 6, len(cells)) + row)
    layout = layout_of(struct.pack("!h", len(fields)) + b"".join(fields))
    return Block(layout, b"".join(rows), len(rows), sum(len(text) for _, texts in columns for text in texts))


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


TEXT, NUMBER, OPAQUE, JSON = TextKind.TEXT, TextKind.NUMBER, TextKind.OPAQUE, TextKind.JSON
OIDS = {TEXT: 25, NUMBER: 20, OPAQUE: 1114, JSON: 114}  # text, bigint, timestamp, json
Shape = list[tuple[TextKind, Callable[[], str]]]
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
    return encoded([(kind, [make().encode() for _ in range(BLOCK // row)]) for kind, make in shape])


def session() -> SessionView:
    return SessionView(UUID(int=0), "ann", frozenset(), "shop", "database", "postgres", {})


def speed(masking: Masking, blocks: list[Block]) -> float:
    view = session()
    start = time.process_time()
    for one in blocks:
        rows = one.rows()
        masking.see(rows, view)
        rows.encode()
    return sum(one.size for one in blocks) / (time.process_time() - start) / 1e6


def own_type() -> MaskingRule:
    custom = CustomType("STAFF_NUMBER", pattern_regex=r"\bE-\d{6}\b")
    return MaskingRule(UUID(int=1), UUID(int=2), "own", custom_types=(custom,))


def main() -> None:
    maskings = {
        "default": Masking(DEFAULT_TYPES),
        "all": Masking(frozenset(InfoType) - MODEL_TYPES),
        "and own": Masking(DEFAULT_TYPES, [own_type()]),
    }
    speeds: dict[tuple[str, str], list[float]] = {(name, which): [] for name in SHAPES for which in maskings}
    hits = {}
    for _ in range(ROUNDS):
        for name, shape in SHAPES.items():
            blocks = [block(shape) for _ in range(BLOCKS)]
            for which, masking in maskings.items():
                speeds[name, which].append(speed(masking, blocks))
            view = session()
            maskings["default"].see(blocks[0].rows(), view)
            hits[name] = sum(view.metrics.info_types.values())
    print(f"{'MB/s, one core':50}" + "".join(f"{which:>10}" for which in maskings) + f"{'hits':>8}")
    for name in SHAPES:
        medians = (f"{statistics.median(speeds[name, which]):10.0f}" for which in maskings)
        print(f"{name:50}" + "".join(medians) + f"{hits[name]:>8}")


if __name__ == "__main__":
    main()
