"""How many examples Hypothesis looks at: few before each commit, all where POSTERN_TEST_EXAMPLES=thorough."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("POSTERN_TEST_EXAMPLES") == "thorough"
FEWEST = 25


def examples(thorough: int) -> int:
    """A quarter of `thorough` in the fast suite, but never fewer than FEWEST or more than asked for."""
    return thorough if THOROUGH else min(thorough, max(FEWEST, thorough // 4))
