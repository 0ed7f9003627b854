"""The bypass suite: texts that try to evade a guardrail, and ordinary texts that must pass, for each dialect.

`cases` defines a case, `score` counts the results of a parser, and `python -m tests.bypass` prints the table. A dialect
is a module `cases_<dialect>` with

    parser() -> Parser                        the parser under test
    SCHEMA: TargetSchema | None               the schema of the target that the parser gets
    CASES: tuple[Case, ...]                   the attacks, with their expected judgements
    ORDINARY: tuple[Ordinary, ...]            statements that applications send

and a test `test_<dialect>.py` that runs every case on a real server and compares the result (`Observed`) with the case.
So the list states what servers do, not what its authors believed.

The package `masking` attacks masked columns instead, by comparing databases: `python -m tests.bypass masking`, or
`pytest -m "" tests/bypass/masking`. Without `-m ""` pytest runs the fast core.
"""
