"""A login to another service or SID than the connection's counts as a statement."""

from __future__ import annotations

import pytest
from tests.support.links import Words
from tests.support.oracledb_links import check_script, client, oracle_links, runs, target
from tests.support.protocols import oracledb_test_messages as om

from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.interception.events import Completed, Refusal
from postern.protocols.oracledb.dialect.oracle_parser import judge_text
from postern.protocols.oracledb.lineage.oracle_lineage import OracleLineage
from postern.protocols.oracledb.lineage.oracle_lineage_catalogue import OracleState
from postern.protocols.oracledb.login.oracle_start import DatabaseName
from postern.protocols.oracledb.wire.oracle_output import encode_error

TEXT = 'CONNECT TO SERVICE "other"'
DENIED = "the word other is not allowed"


def denial(sequence: int = 4) -> bytes:
    return om.data(encode_error(1031, f"ORA-01031: {DENIED}\n", sequence))


def test_login_to_another_service_is_recorded_before_the_first_call() -> None:
    check_script(
        oracle_links(Words(), connects=TEXT),
        client(
            om.data(om.COMMIT),
            to_target=om.data(om.COMMIT),
            events=(runs(1, TEXT), runs(2, "COMMIT"), Completed(1, "CONNECT")),
        ),
        target(om.data(om.status()), to_client=om.data(om.status()), events=(Completed(2, "COMMIT"),)),
    )


def test_attack_call_after_a_login_that_is_denied_is_denied_until_the_session_ends() -> None:
    check_script(
        oracle_links(Words("other"), connects=TEXT),
        client(
            om.data(om.COMMIT),
            to_client=denial(),
            events=(runs(1, TEXT), Refusal(1, "words", DENIED), Refusal(0, "words", DENIED)),
        ),
        client(om.data(om.PING), to_client=denial(), events=(Refusal(0, "words", DENIED),)),
        client(om.data(om.set_schema("HR"), om.PING), to_client=denial(), events=(Refusal(0, "words", DENIED),)),
        client(om.data(om.LOGOFF), to_target=om.data(om.LOGOFF)),
    )


def test_schema_of_the_first_call_is_judged_after_the_login() -> None:
    schema = 'ALTER SESSION SET CURRENT_SCHEMA = "HR"'
    check_script(
        oracle_links(Words(), connects=TEXT),
        client(
            om.data(om.set_schema("HR"), om.PING),
            to_target=om.data(om.set_schema("HR"), om.PING),
            events=(runs(1, TEXT), runs(2, schema), Completed(1, "CONNECT"), Completed(2, "ALTER")),
        ),
    )


@pytest.mark.parametrize(
    ("database", "service", "sid", "is_own"),
    [
        ("ORDERS", "orders", "", True),
        ("orders.example.com", "orders", "", False),
        ("other", "orders", "", False),
        ("other", "", "", False),
        ("orders", "", "ORDERS", True),
        ("SID=orders", "", "ORDERS", True),
        ("SID=orders", "orders", "", False),
        ("SID=other", "orders", "x", False),
    ],
)
def test_name_of_a_client_is_compared_with_those_of_the_connection(
    database: str, service: str, sid: str, is_own: bool
) -> None:
    named = DatabaseName.read(database)
    assert named.database == database
    assert named.is_own(DatabaseName(service, sid)) is is_own


@pytest.mark.parametrize("name", ["other", 'a" b', "x; drop table t", "x' --"])
def test_attack_name_of_a_service_is_one_name_in_the_statement(name: str) -> None:
    for named in (DatabaseName(name), DatabaseName(sid=name)):
        [statement] = judge_text(named.statement, None)
        assert statement.effects == {Effect.ADMIN}
        assert statement.tag == "CONNECT"


def test_lineage_is_that_of_the_catalogue_of_the_login() -> None:
    schema = TargetSchema({("HR", "T"): Relation("HR", "T", ("A",))}, {}, ("HR",))
    read = OracleLineage().read(TEXT, schema)
    assert read is not None
    assert read.state == OracleState()
