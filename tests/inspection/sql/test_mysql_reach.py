"""MySQL and MariaDB tables that access files of the server or tables of another server."""

from __future__ import annotations

import pytest

from postern.protocols.mysql.dialect.mysql_parser import MySqlParser


def effects(text: str) -> set[str]:
    (found,) = MySqlParser().parse(text)
    return {effect.value for effect in found.effects}


@pytest.mark.parametrize(
    "text",
    [
        "create table x (a int) engine=connect table_type=DOS file_name='/etc/passwd'",
        "create or replace table x (a int) ENGINE 'Federated'",
        "create table x (a int) engine=innodb data directory = '/tmp'",
        "create table x (a int) index directory '/tmp'",
        "create table x (a int) connection='mysql://root@127.0.0.1/other/t'",
        "alter table x engine = spider",
    ],
)
def test_attack_table_that_accesses_files_or_another_server_is_admin(text: str) -> None:
    assert effects(text) == {"ddl", "admin"}


@pytest.mark.parametrize(
    "text",
    [
        "create table x (connect int, data varchar(9), directory int) engine=innodb comment='connection'",
        "alter table x engine = Aria, add connection text default 'a'",
    ],
)
def test_plain_table_is_only_ddl(text: str) -> None:
    assert effects(text) == {"ddl"}


def test_truncating_a_partition_is_a_write() -> None:
    assert effects("alter table x truncate partition p0, p1") == {"ddl", "write"}
    assert effects("alter table x add `truncate` int, add `partition` int") == {"ddl"}
