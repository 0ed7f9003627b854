"""Print the score of every dialect that has cases: `python -m tests.bypass [dialect …]`. The exit code is 1 if an
attack was not denied. `python -m tests.bypass masking [postgres] [mariadb] [--write]` runs the masking corpus
instead."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from tests.bypass import presets
from tests.bypass.score import score


def main(wanted: list[str]) -> int:
    if wanted[:1] == ["masking"]:
        return int(importlib.import_module("tests.bypass.masking.report").main(wanted[1:]))
    found = sorted(path.stem.removeprefix("cases_") for path in Path(__file__).parent.glob("cases_*.py"))
    worst = 0
    for dialect in wanted or found:
        cases = importlib.import_module(f"tests.bypass.cases_{dialect}")
        result = score(cases.parser(), cases.CASES, cases.ORDINARY, cases.SCHEMA)
        print(result.table(), end="\n\n")
        print(presets.table(cases), end="\n\n")
        worst = max(worst, int(bool(result.got_through)))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
