"""The bypass suite: texts that try to get past a guard, and ordinary texts that must not be stopped, for each dialect.

`cases` has what a case is, `score` counts how a parser did, and `python -m tests.bypass` prints the table. A dialect
is a module `cases_<dialect>` with

    parser() -> Parser                        the parser under test
    SCHEMA: TargetSchema | None               what the parser is told of the target
    CASES: tuple[Case, ...]                   each with what it must be judged as
    ORDINARY: tuple[Ordinary, ...]            what applications send all day

and a test `test_<dialect>.py` that runs every case on a real server and compares what happened there (`Observed`) with
what the case says: so the list is of what servers do, not of what its authors believed.

The package `masking` attacks masked columns instead, by comparing databases: `python -m tests.bypass masking`, or
`pytest -m "" tests/bypass/masking`. Without `-m ""` pytest runs the fast core.
"""
