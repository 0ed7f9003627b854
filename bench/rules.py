"""The rules of the benchmarks, as the API takes them; nothing that a benchmark does meets one."""

from __future__ import annotations

from typing import Any

Rules = dict[str, list[dict[str, Any]]]

TEXT: Rules = {
    "input": [
        {"type": "deny_words_list", "words": ["truncate", "pg_sleep"], "pattern_regex": ""},
        {"type": "pattern_match", "words": [], "pattern_regex": r"(?i)\bdrop\s+(table|schema|database)\b"},
    ]
}
STATEMENTS: Rules = {
    "input": [
        {"type": "require_where"},
        {"type": "deny_statements", "effects": ["ddl", "grant", "admin"]},
        {"type": "deny_statements", "objects": ["payroll.*", "public.salaries", "pg_read_file()"]},
    ],
    "output": [{"type": "max_rows", "most": 1_000_000_000}],
}
READ_ONLY: Rules = {"input": [{"type": "read_only"}]}
