"""Answers that are masked or denied: by type and format, with and without a description, within a result."""

from __future__ import annotations

import struct

import pytest
from tests.support.links import (
    Masks,
    ReadsAll,
    Withholds,
    operation,
    pipeline,
    playbook,
    prepare,
    refusal,
    refused,
)
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.playbook import from_client, from_target, renew, to_client, to_target

from postern.interception.events import Completed
from postern.protocols.postgres.wire import postgres_messages as messages

SHOWN = "a secret is not shown"
WITHHELD = refused(SHOWN)
DONE = pg.command_complete("SELECT 1")
EXECUTE = [pg.bind(statement="s"), pg.execute(), pg.sync()]
DESCRIBED = [pg.bind(statement="s"), pg.describe_portal(), pg.execute(), pg.sync()]


def array(oid: int, *elements: bytes | None) -> bytes:
    cells = [b"\xff\xff\xff\xff" if cell is None else struct.pack("!i", len(cell)) + cell for cell in elements]
    return struct.pack("!iiIii", 1, 0, oid, len(elements), 1) + b"".join(cells)


def record_of(*fields: tuple[int, bytes | None]) -> bytes:
    cells = [
        struct.pack("!I", oid) + (b"\xff\xff\xff\xff" if cell is None else struct.pack("!i", len(cell)) + cell)
        for oid, cell in fields
    ]
    return struct.pack("!i", len(fields)) + b"".join(cells)


CELLS: dict[str, tuple[int, int, bytes | None, bytes | None]] = {
    "text": (25, 0, b"my secret-1", b"my ***"),
    "text, binary": (25, 1, b"my secret-1", b"my ***"),
    "null": (25, 0, None, None),
    "varchar": (1043, 1, b"secret-1", b"***"),
    "array": (1009, 0, b'{secret-1,NULL,"a secret-2"}', b'{***,NULL,"a ***"}'),
    "array, binary": (1009, 1, array(25, b"secret-1", None, b"x"), array(25, b"***", None, b"x")),
    "json": (114, 0, b'{"a": "secret-1"}', b'{"a": "***"}'),
    "jsonb, binary": (3802, 1, b'\x01{"a": "secret-1"}', b'\x01{"a": "***"}'),
    "jsonb array, binary": (3807, 1, array(3802, b'\x01"secret-1"'), array(3802, b'\x01"***"')),
    "numeric": (1700, 0, b"4242.5", b"0000.0"),
    "numeric, binary": (1700, 1, struct.pack("!hhHh2h", 2, 0, 0, 1, 4242, 5000), struct.pack("!hhHh", 0, 0, 0, 1)),
    "int8": (20, 0, b"4242", b"0000"),
    "int8, binary": (20, 1, (4242).to_bytes(8, "big"), bytes(8)),
    "int8 array, binary": (1016, 1, array(20, (4242).to_bytes(8, "big")), array(20, bytes(8))),
    "inet": (869, 0, b"10.1.2.3", b"0.0.0.0"),
    "inet, binary": (869, 1, b"\x02\x20\0\x04\x0a\x01\x02\x03", b"\x02\x20\0\x04\0\0\0\0"),
    "inet6, binary": (869, 1, b"\x03\x80\0\x10" + b"\x20" * 16, b"\x03\x80\0\x10" + bytes(16)),
    "bytea": (17, 0, b"\\x" + b"secret-1".hex().encode(), b"\\x" + b"***".hex().encode()),
    "bytea, binary": (17, 1, b"\0secret-1\0", b"\0***\0"),
    "record, binary": (2249, 1, record_of((25, b"secret-1"), (23, b"\0\0\0\1"), (25, None)),
                       record_of((25, b"***"), (23, b"\0\0\0\1"), (25, None))),
    "record": (2249, 0, b"(secret-1,1)", b"(***,1)"),
    "unknown type": (90_001, 0, b"secret-1", b"***"),
    "unknown type, binary": (90_001, 1, b"secret-1", b"***"),
    "array of an unknown type, binary": (90_002, 1, array(90_001, b"secret-1"), array(90_001, b"***")),
    "composite, binary": (90_003, 1, record_of((25, b"secret-1")), record_of((25, b"***"))),
    "integer": (23, 0, b"4242", b"4242"),
}  # fmt: skip


@pytest.mark.parametrize("name", CELLS)
def test_cell_is_masked_according_to_its_type_and_format(name: str) -> None:
    oid, form, cell, masked = CELLS[name]
    description = pg.row_description(("a", 23, 1), ("c", oid, form), ("b", 25, 0))
    with playbook(Masks()) as play:
        play >> from_client(pg.query("select a, c, b from t"))
        play << operation(1, "select a, c, b from t")
        play.forwarded()
        play >> from_target(
            description, pg.data_row(b"\0\0\0\1", cell, None), pg.data_row(None, cell, "x"), DONE, pg.ready()
        )
        play << Completed(1, "SELECT 1", 1)
        play << to_client(
            description, pg.data_row(b"\0\0\0\1", masked, None), pg.data_row(None, masked, "x"), DONE, pg.ready()
        )


@pytest.mark.parametrize("name", CELLS)
def test_answer_to_an_injected_describe_is_not_forwarded(name: str) -> None:
    oid, form, cell, masked = CELLS[name]
    answer = [pg.bind_complete(), pg.row_description(("c", oid, form)), pg.data_row(cell), DONE, pg.ready()]
    shown = [pg.bind_complete(), pg.data_row(masked), DONE, pg.ready()]
    with playbook(Masks()) as play:
        play >> from_client(*EXECUTE, *EXECUTE)
        play << operation(1, "execute prepared statement 's'") << operation(2, "execute prepared statement 's'")
        play << to_target(*DESCRIBED, *DESCRIBED)
        play >> from_target(*answer, *answer)
        play << Completed(1, "SELECT 1", 1) << Completed(2, "SELECT 1", 1) << to_client(*shown, *shown)


def test_describe_of_the_client_replaces_the_injected_one() -> None:
    with playbook(Masks()) as play:
        play >> from_client(*DESCRIBED)
        play << operation(1, "execute prepared statement 's'")
        play.forwarded()
        play >> from_target(pg.bind_complete(), pg.row_description("s"), pg.data_row("secret-1"), DONE, pg.ready())
        play << Completed(1, "SELECT 1", 1)
        play << to_client(pg.bind_complete(), pg.row_description("s"), pg.data_row("***"), DONE, pg.ready())


def test_describe_of_the_client_after_its_execute_does_not_replace_the_injected_one() -> None:
    with playbook(Masks()) as play:
        play >> from_client(pg.bind(statement="s"), pg.execute(), pg.describe_portal(), pg.sync())
        play << operation(1, "execute prepared statement 's'")
        play << to_target(pg.bind(statement="s"), pg.describe_portal(), pg.execute(), pg.describe_portal(), pg.sync())
        row = pg.row_description("s")
        play >> from_target(pg.bind_complete(), row, pg.data_row("secret-1"), DONE, row, pg.ready())
        play << Completed(1, "SELECT 1", 1)
        play << to_client(pg.bind_complete(), pg.data_row("***"), DONE, row, pg.ready())


def test_attack_082_rows_of_a_redefined_statement_are_masked_by_their_own_description() -> None:
    """The statement was described as a number, then redefined by SQL. The current description of the rows counts."""
    number = pg.row_description(("n", 23))
    with playbook(Masks()) as play:
        play >> from_client(pg.parse("select 1", "s"), pg.describe_statement("s"), pg.sync())
        play << prepare(1, "select 1")
        play.forwarded()
        play >> from_target(pg.parse_complete(), pg.parameter_description(), number, pg.ready())
        play.forwarded()
        play >> from_client(*EXECUTE)
        play << operation(2, "select 1") << to_target(*DESCRIBED)
        play >> from_target(pg.bind_complete(), pg.row_description("s"), pg.data_row("secret-1"), DONE, pg.ready())
        play << Completed(2, "SELECT 1", 1) << to_client(pg.bind_complete(), pg.data_row("***"), DONE, pg.ready())


def test_execute_without_rows_hides_the_injected_describe() -> None:
    with playbook(Masks()) as play:
        play >> from_client(*EXECUTE)
        play << operation(1, "execute prepared statement 's'") << to_target(*DESCRIBED)
        play >> from_target(pg.bind_complete(), pg.no_data(), pg.command_complete("BEGIN"), pg.ready(b"T"))
        play << Completed(1, "BEGIN") << to_client(pg.bind_complete(), pg.command_complete("BEGIN"), pg.ready(b"T"))


def test_error_of_an_injected_describe_is_that_of_the_execute() -> None:
    with playbook(Masks()) as play:
        play >> from_client(pg.execute("p"), pg.sync(), *EXECUTE)
        play << operation(1, "execute portal 'p'") << operation(2, "execute prepared statement 's'")
        play << to_target(pg.describe_portal("p"), pg.execute("p"), pg.sync(), *DESCRIBED)
        gone = pg.error('portal "p" does not exist', "34000")
        play >> from_target(gone, pg.ready(), pg.bind_complete(), pg.no_data(), DONE, pg.ready())
        play << Completed(1, error_code="34000", error='portal "p" does not exist') << Completed(2, "SELECT 1", 1)
        play << to_client(gone, pg.ready(), pg.bind_complete(), DONE, pg.ready())


def test_rows_fetched_from_a_cursor_are_masked() -> None:
    with playbook(Masks()) as play:
        for exchange in (1, 2):
            play >> from_client(pg.query("fetch 1 from c"))
            play << operation(exchange, "fetch 1 from c")
            play.forwarded()
            play >> from_target(
                pg.row_description("s"), pg.data_row("secret-1"), pg.command_complete("FETCH 1"), pg.ready()
            )
            play << Completed(exchange, "FETCH 1", 1)
            play << to_client(pg.row_description("s"), pg.data_row("***"), pg.command_complete("FETCH 1"), pg.ready())


def test_attack_093_errors_notices_notifications_settings_and_function_results_are_masked() -> None:
    with playbook(Masks()) as play:
        play >> from_target(pg.notice("saw secret-1"), pg.notification("news", "secret-2"),
                            pg.parameter_status("application_name", "secret-3"))  # fmt: skip
        play << to_client(
            pg.notice("saw ***"), pg.notification("news", "***"), pg.parameter_status("application_name", "***")
        )
        play >> from_client(pg.query("select f()"), pg.function_call(7))
        play << operation(1, "select f()") << operation(2, "function call 7")
        play.forwarded()
        play >> from_target(pg.error("key secret-4 exists", "23505"), pg.ready())
        play << Completed(1, error_code="23505", error="key *** exists")
        play << to_client(pg.error("key *** exists", "23505"), pg.ready())
        play >> from_target(pg.function_result("secret-5"), pg.ready())
        play << Completed(2, "FUNCTION CALL") << to_client(pg.function_result("***"), pg.ready())


def test_null_function_result_is_forwarded() -> None:
    with playbook(Masks()) as play:
        play >> from_client(pg.function_call(7))
        play << operation(1, "function call 7")
        play.forwarded()
        play >> from_target(pg.function_result(None), pg.ready())
        play << Completed(1, "FUNCTION CALL")
        play.forwarded()


def test_denied_row_drops_the_rest_of_its_answer_only() -> None:
    with playbook(Withholds()) as play:
        play >> from_client(pg.query("select s from t; select 2"), pg.query("select 3"))
        play << operation(1, "select s from t; select 2") << operation(2, "select 3")
        play.forwarded()
        play >> from_target(pg.row_description("s"), pg.data_row("fine"))
        play.forwarded()
        play >> from_target(pg.data_row("secret-1"), pg.data_row("fine"), DONE)
        play << refusal(1, "withholds", SHOWN) << Completed(1, "SELECT 1", 1) << to_client(WITHHELD)
        play >> from_target(pg.row_description("n"), pg.data_row("2"), DONE, pg.ready(b"T"))
        play << Completed(1, "SELECT 1", 1) << to_client(pg.ready(b"T"))
        play >> from_target(pg.row_description("n"), pg.data_row("3"), DONE, pg.ready(b"T"))
        play << Completed(2, "SELECT 1", 1)
        play.forwarded()


def test_denied_row_in_a_pipeline_drops_its_own_answer_only() -> None:
    with playbook(Withholds()) as play:
        play >> from_client(*DESCRIBED, *DESCRIBED)
        play << operation(1, "execute prepared statement 's'") << operation(2, "execute prepared statement 's'")
        play.forwarded()
        head = [pg.bind_complete(), pg.row_description("s")]
        play >> from_target(*head, pg.data_row("secret-1"), DONE, pg.ready())
        play << refusal(1, "withholds", SHOWN) << Completed(1, "SELECT 1", 1) << to_client(*head, WITHHELD, pg.ready())
        play >> from_target(*head, pg.data_row("fine"), DONE, pg.ready())
        play << Completed(2, "SELECT 1", 1)
        play.forwarded()


def test_asynchronous_messages_are_judged_while_an_answer_is_dropped() -> None:
    warning = messages.report(b"N", "WARNING", "42501", SHOWN)
    with playbook(Withholds()) as play:
        play >> from_client(pg.query("select s from t"))
        play << operation(1, "select s from t")
        play.forwarded()
        play >> from_target(pg.row_description("s"), pg.data_row("secret-1"))
        play << refusal(1, "withholds", SHOWN) << to_client(pg.row_description("s"), WITHHELD)
        play >> from_target(pg.notice("secret-2"), pg.notice("fine"), pg.parameter_status("TimeZone", "UTC"))
        (
            play
            << refusal(1, "withholds", SHOWN)
            << to_client(warning, pg.notice("fine"), pg.parameter_status("TimeZone", "UTC"))
        )
        play >> from_target(pg.copy_data("secret-3"), pg.error("secret-4"), pg.ready())
        play << Completed(1, error_code="42601") << to_client(pg.ready())


def test_denied_notice_is_replaced_by_a_warning() -> None:
    warning = messages.report(b"N", "WARNING", "42501", SHOWN)
    with playbook(Withholds()) as play:
        play >> from_target(pg.notice("secret-1"), pg.notification("secret-2", ""), pg.notice("fine"))
        (
            play
            << refusal(0, "withholds", SHOWN)
            << refusal(0, "withholds", SHOWN)
            << to_client(warning, warning, pg.notice("fine"))
        )


def test_denied_error_is_recorded_as_the_denial() -> None:
    with playbook(Withholds()) as play:
        play >> from_client(pg.query("select 1"), pg.query("select 2"))
        play << operation(1, "select 1") << operation(2, "select 2")
        play.forwarded()
        play >> from_target(pg.error("key secret-1"), pg.ready(), DONE, pg.ready())
        play << refusal(1, "withholds", SHOWN) << Completed(1, error_code="42501", error=SHOWN)
        play << Completed(2, "SELECT 1", 1) << to_client(WITHHELD, pg.ready(), DONE, pg.ready())


def test_denied_fatal_error_stays_fatal() -> None:
    with playbook(Withholds()) as play:
        play >> from_target(pg.error("secret-1", severity="FATAL"))
        play << refusal(0, "withholds", SHOWN) << Completed(0, error_code="42501", error=SHOWN)
        play << to_client(refused(SHOWN, "FATAL"))


def test_denied_copy_out_ends_with_an_error() -> None:
    with playbook(Withholds()) as play:
        play >> from_client(pg.query("copy t to stdout"))
        play << operation(1, "copy t to stdout")
        play.forwarded()
        rest = [pg.copy_data("fine\n"), pg.copy_done(), pg.command_complete("COPY 2"), pg.ready()]
        play >> from_target(pg.copy_out(), pg.copy_data("secret-1\n"), *rest)
        play << refusal(1, "withholds", SHOWN) << Completed(1, "COPY 2", 2)
        play << to_client(pg.copy_out(), WITHHELD, pg.ready())


def test_new_masking_policy_applies_within_a_simple_result() -> None:
    with playbook() as play:
        play >> from_client(pg.query("select s from t"))
        play << operation(1, "select s from t")
        play.forwarded()
        play >> from_target(pg.row_description("s"), pg.data_row("secret-1"))
        play.forwarded()
        play >> renew(pipeline(Masks()))
        play >> from_target(pg.data_row("secret-1"), DONE, pg.ready())
        play << Completed(1, "SELECT 1", 1) << to_client(pg.data_row("***"), DONE, pg.ready())


def test_new_masking_policy_withholds_rows_without_a_description() -> None:
    text = "the rules of this connection changed while the response was being sent, so it is withheld"
    error = messages.error_response("55000", text, hint="Run the statement again.")
    with playbook() as play:
        play >> from_client(*EXECUTE)
        play << operation(1, "execute prepared statement 's'")
        play.forwarded()
        play >> renew(pipeline(Masks()))
        play >> from_target(pg.bind_complete(), pg.data_row("secret-1"), pg.data_row("secret-2"), DONE, pg.ready())
        play << Completed(1, error_code="55000", error=text) << Completed(1, "SELECT 1", 1)
        play << to_client(pg.bind_complete(), error, pg.ready())
        play >> from_client(*EXECUTE)
        play << operation(2, "execute prepared statement 's'") << to_target(*DESCRIBED)
        play >> from_target(pg.bind_complete(), pg.row_description("s"), pg.data_row("secret-1"), DONE, pg.ready())
        play << Completed(2, "SELECT 1", 1) << to_client(pg.bind_complete(), pg.data_row("***"), DONE, pg.ready())


def test_removed_masking_policy_applies_within_an_answer() -> None:
    with playbook(Masks()) as play:
        play >> from_client(*EXECUTE)
        play << operation(1, "execute prepared statement 's'") << to_target(*DESCRIBED)
        play >> renew(pipeline(ReadsAll(wants=frozenset())))
        play >> from_target(pg.bind_complete(), pg.row_description("s"), pg.data_row("secret-1"), DONE, pg.ready())
        play << Completed(1, "SELECT 1", 1) << to_client(pg.bind_complete(), pg.data_row("secret-1"), DONE, pg.ready())


def test_result_formats_are_read_from_the_description_of_the_target() -> None:
    for formats in ([], [1], [1, 0]):
        binary = [formats[0] if len(formats) == 1 else formats[index] if formats else 0 for index in range(2)]
        fields = pg.row_description(("j", 3802, binary[0]), ("s", 25, binary[1]))
        cell = b'\x01{"a": "secret-1"}' if binary[0] else b'{"a": "secret-1"}'
        bound = pg.bind(statement="s", results=formats)
        with playbook(Masks()) as play:
            play >> from_client(bound, pg.execute(), pg.sync())
            play << operation(1, "execute prepared statement 's'")
            play << to_target(bound, pg.describe_portal(), pg.execute(), pg.sync())
            play >> from_target(pg.bind_complete(), fields, pg.data_row(cell, "secret-2"), DONE, pg.ready())
            masked = pg.data_row(cell.replace(b"secret-1", b"***"), "***")
            play << Completed(1, "SELECT 1", 1) << to_client(pg.bind_complete(), masked, DONE, pg.ready())
