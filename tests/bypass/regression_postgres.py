"""PostgreSQL's own regression statements: how many are parsed, and how many have unknown effects.

They are not stored here: the source distribution of pglast on PyPI (otherwise unused) contains them, and pip
downloads it on demand.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from postgast import PgQueryError, split

from postern.domain.rules.statement import Effect
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser

SOURCE = "pglast==8.8"
_FOLDER = "/libpg_query/test/sql/postgres_regress/"
_META = re.compile(r"^\s*\\.*$", re.MULTILINE)  # psql's own commands


@dataclass
class Reading:
    """`read` of `statements` could be parsed; of those, `unknown` have unknown effects, by reason."""

    files: int = 0
    statements: int = 0
    read: int = 0
    unknown: int = 0
    not_judged: list[str] = field(default_factory=list)  # the parser knows them, and the walk does not
    reasons: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        share = 100 * self.unknown / max(1, self.read)
        lines = [
            f"PostgreSQL's regression statements: {self.statements} in {self.files} files,"
            f" {self.read} read, {self.unknown} ({share:.1f} %) of those unknown",
            *(f"{count:>7}  {reason}" for reason, count in self.reasons.most_common(12)),
        ]
        return "\n".join(lines)


def fetch(folder: Path) -> Path:
    """Download the archive. Raises CalledProcessError if PyPI cannot be reached."""
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "pglast", SOURCE]
    subprocess.run([*words, "--dest", str(folder)], check=True, capture_output=True, timeout=300)
    return next(folder.glob("pglast-*.tar.gz"))


def statements(archive: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the statements of each file, without lines that only psql understands."""
    with tarfile.open(archive) as opened:
        for member in opened.getmembers():
            if _FOLDER not in member.name or not member.name.endswith(".sql"):
                continue
            content = opened.extractfile(member)
            assert content is not None
            yield member.name.rpartition("/")[2], _split(content.read().decode(errors="replace"))


def _split(text: str) -> list[str]:
    plain = _META.sub("", text)
    try:
        return split(plain, method="scanner")
    except PgQueryError:  # texts that are meant to be broken
        return [part for part in plain.split(";\n") if part.strip()]


def read_all(archive: Path) -> Reading:
    parser, found = PostgresParser(), Reading()
    for _, texts in statements(archive):
        found.files += 1
        for text in texts:
            found.statements += 1
            judged = parser.parse(text)
            reasons = " ".join(one.reason for one in judged)
            if "cannot be parsed" in reasons and len(judged) == 1:
                continue
            found.read += 1
            if "could not be evaluated" in reasons or "contains something unknown" in reasons:
                found.not_judged.append(f"{text[:200]} -- {reasons}")
            if any(Effect.UNKNOWN in one.effects for one in judged):
                found.unknown += 1
                found.reasons[re.sub(r"function \S+|become a .*|operator \S+|prepared as \w+", "…", reasons)[:90]] += 1
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(read_all(fetch(Path(folder))))
