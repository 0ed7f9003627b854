"""Results that a block returns by DBMS_SQL.RETURN_RESULT: their descriptions are judged before the client has them."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from tests.support.links import ReadsAll
from tests.support.oracledb_links import check_script, client, oracle_links, runs, target
from tests.support.protocols import oracledb_test_messages as om

from postern.domain.rules.masking import MaskingRule
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.events import Completed
from postern.protocols.oracledb.dialect.oracle_statement_facts import OracleStatementFacts
from postern.protocols.oracledb.lineage.oracle_lineage import OracleLineage
from postern.protocols.oracledb.lineage.oracle_session_lineage import OracleSessionLineage
from postern.protocols.wire_base import Side
from postern.relay.link import Send

PEOPLE = TargetSchema({("HR", "PEOPLE"): Relation("HR", "PEOPLE", ("ID", "NAME"))}, {}, ("HR",))
KNOWN = "declare c sys_refcursor; begin open c for select id as a from people; dbms_sql.return_result(c); end;"
UNKNOWN = "declare c sys_refcursor; begin open c for :t; dbms_sql.return_result(c); end;"


def implicit_results(*results: tuple[om.Described, ...]) -> bytes:
    nested = [b"\1\0" + om.description(*columns) + om.ub(7 + at) for at, columns in enumerate(results)]
    return b"\x1b" + om.ub(len(results)) + b"".join(nested)


NO_COMPRESSION = 0x40000
ANSWER = implicit_results((om.Described("A"), om.Described("B")), (om.Described("SECRET"),)) + om.PARAMETERS + om.done()


@pytest.mark.parametrize("interceptor", [None, ReadsAll()], ids=["none", "everything"])
def test_implicit_results_pass_unchanged(interceptor: ReadsAll | None) -> None:
    call = om.Execute(KNOWN, is_query=False, options=0x421)
    changed = replace(call, options=0x421 | NO_COMPRESSION)
    check_script(
        oracle_links(*([interceptor] if interceptor else [])),
        client(om.data(call.encode()), to_target=om.data(changed.encode()), events=(runs(1, KNOWN),)),
        target(om.data(ANSWER), to_client=om.data(ANSWER)),
        client(
            om.data(om.COMMIT), to_target=om.data(om.COMMIT), events=(Completed(1, "DECLARE", 0), runs(2, "COMMIT"))
        ),
    )


@pytest.mark.parametrize(("text", "is_shown"), [(KNOWN, True), (UNKNOWN, False)])
def test_attack_name_of_a_column_that_a_block_has_made_is_not_shown(text: str, is_shown: bool) -> None:
    rule = MaskingRule(UUID(int=1), UUID(int=2), "names", columns=("people.name",))
    origins = OracleSessionLineage(OracleLineage(), lambda: PEOPLE)
    masking = Masking(frozenset(), (rule,), origins=origins, facts=OracleStatementFacts())
    link = oracle_links(masking)()
    link.receive(Side.CLIENT, om.data(om.execute(text)))
    effects = link.receive(Side.TARGET, om.data(ANSWER))
    sent = b"".join(effect.data for effect in effects if isinstance(effect, Send) and effect.side is Side.CLIENT)
    assert (b"SECRET" in sent) is is_shown
    assert (b"ORA-01031" in sent) is not is_shown
