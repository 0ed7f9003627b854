"""Texts made to be slow: whether what masking takes for them grows as they do.

    python -m bench.hostile                    # every pair of pieces, repeated: a few minutes
    python -m bench.hostile --pieces 6         # pairs of the first six only

Every text is masked as one cell, all types on, at one size and at eight times that size. Times are the process's own
(user and system), the best of two. A ratio of 8 is linear growth and 64 would be a square; the slowest and the fastest
growing are printed.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import click

from postern.domain.rules.masking import MODEL_TYPES, CustomType, InfoType
from postern.inspection.masking.detectors import detectors_for
from postern.inspection.masking.joined_texts import Hits, mask_texts
from postern.inspection.masking.json_documents import mask_documents

SIZE, TIMES = 32 * 1024, 8
ALL = frozenset(InfoType) - MODEL_TYPES
PIECES = (
    "a", "1", "@", "'", ".", " ", "-", ":", "/", "+", "(", "A", "_", "*", "=", "0x", "\\n", "a@b.", "4111 ", "DE89",
    "eyJa.", "://a:", "-----BEGIN PRIVATE KEY-----", "?sig=", "https://", "cookie: ", "bearer ", "ssn ", "card:", "9\n",
    "%B4111111111111111^", "\\u0040", '"', "{", "[", "\x00", "\u00e9",
)  # fmt: skip
END = b"a@example.com 4111111111111111"

_runs = itertools.count()  # what was seen before is remembered, and would be quick
Work = Callable[[int], object]


def repeated(piece: bytes, mask: Callable[[list[bytes]], object]) -> Work:
    return lambda size: mask([piece * (size // len(piece)) + END])


def texts(cells: list[bytes]) -> object:
    return mask_texts(detectors_for(ALL), cells, Hits())


def documents(cells: list[bytes]) -> object:
    return mask_documents(detectors_for(ALL), cells, Hits())


def columns(count: int) -> None:
    """A result of so many columns, each with a name that was never seen before."""
    run = next(_runs)
    for place in range(count):
        mask_texts(detectors_for(ALL, column=f"card_{run}_{place}"), [b"4111111111111111"], Hits())


def words(count: int) -> object:
    """Looks for so many words, none of which it looked for before, in a text that holds half of each."""
    run = next(_runs)
    custom = CustomType("words", words=tuple(f"codeword{run:03}{place:06}" for place in range(count)))
    return mask_texts(detectors_for(ALL, (custom,)), [b"codeword " * 4000], Hits())


def cases(pieces: int) -> Iterator[tuple[str, Work, int]]:
    for first in PIECES[:pieces]:
        for second in PIECES[:pieces]:
            yield repr(first + second), repeated((first + second).encode(), texts), SIZE
    for document in ('{"a":', '["', '"a\\"', '"\\u0040a', "1234567890,", '{"card":4111111111111111,', "[[[["):
        yield f"JSON {document}", repeated(document.encode(), documents), SIZE
    yield "columns", columns, 1250
    yield "words", words, 50


def process_time(work: Work, size: int) -> float:
    times = []
    for _ in range(2):
        start = time.process_time()
        work(size)
        times.append(time.process_time() - start)
    return min(times)


@click.command(help=__doc__)
@click.option("--pieces", default=len(PIECES), help="Of the pieces, so many are put together in pairs.")
def main(pieces: int) -> None:
    work: Work
    found = []
    for name, work, size in cases(pieces):
        small, large = process_time(work, size), process_time(work, size * TIMES)
        found.append((large / max(small, 1e-4), large, name))
    print(f"{len(found)} texts; ratio of the times of {TIMES} times the size, and seconds of the larger")
    print("the fastest growing:")
    for ratio, seconds, name in sorted(found, reverse=True)[:12]:
        print(f"{ratio:8.1f} {seconds:8.3f}  {name}")
    print("the slowest:")
    for ratio, seconds, name in sorted(found, key=lambda one: -one[1])[:12]:
        print(f"{ratio:8.1f} {seconds:8.3f}  {name}")


if __name__ == "__main__":
    main()
