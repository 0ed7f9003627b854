"""Operations of DynamoDB and DynamoDB Streams: what each does, and where its parameters name tables.

The lists are those of botocore's models of November 2026 (`tests/protocols/dynamodb/test_dynamodb_operations.py`
compares them). An operation that is not listed is of unknown effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from postern.domain.rules.statement import Effect

READ, WRITE, DDL, ADMIN, GRANT = Effect.READ, Effect.WRITE, Effect.DDL, Effect.ADMIN, Effect.GRANT

_TABLE: Final = ("TableName",)
_SOURCE: Final = ("SourceTableName", "SourceTableArn", "TargetTableName")
_RESOURCE: Final = ("ResourceArn",)
_GLOBAL: Final = ("GlobalTableName",)
_BACKUP: Final = ("BackupArn",)
_STREAM: Final = ("StreamArn",)


@dataclass(frozen=True, slots=True)
class OperationFacts:
    """What an operation does. `tables` are the parameters that name tables, by name or ARN; of several that are given,
    all count. `optional`: without one, the operation is about no table. `is_special`: its effects depend on its
    parameters (`dynamodb_effects`)."""

    effects: frozenset[Effect]
    tables: tuple[str, ...] = ()
    optional: bool = False
    is_special: bool = False


def _of(*effects: Effect, tables: tuple[str, ...] = _TABLE, optional: bool = False) -> OperationFacts:
    return OperationFacts(frozenset(effects), tables, optional)


def _special(*effects: Effect, tables: tuple[str, ...] = ()) -> OperationFacts:
    return OperationFacts(frozenset(effects), tables, is_special=True)


OPERATIONS: Final[Mapping[str, OperationFacts]] = {
    # Items
    "BatchExecuteStatement": _special(),
    "BatchGetItem": _special(READ),
    "BatchWriteItem": _special(WRITE),
    "DeleteItem": _special(WRITE, tables=_TABLE),
    "ExecuteStatement": _special(),
    "ExecuteTransaction": _special(),
    "GetItem": _of(READ),
    "PutItem": _special(WRITE, tables=_TABLE),
    "Query": _special(READ, tables=_TABLE),
    "Scan": _special(READ, tables=_TABLE),
    "SearchVectors": _special(READ, tables=_TABLE),
    "TransactGetItems": _special(READ),
    "TransactWriteItems": _special(WRITE),
    "UpdateItem": _special(WRITE, tables=_TABLE),
    # Bulk: items come from S3 or go to it.
    "CancelBulkOperation": _of(ADMIN, tables=("BulkOperationArn",)),
    "DescribeBulkOperation": _of(READ, tables=("BulkOperationArn",)),
    "ExportTableToPointInTime": _of(READ, ADMIN, tables=("TableArn",)),
    "ImportTable": _special(DDL, WRITE, ADMIN),
    "ListBulkOperations": _of(READ, tables=()),
    "StartBulkPutItems": _of(WRITE, ADMIN),
    # Tables
    "CreateGlobalTable": _of(DDL, tables=_GLOBAL),
    "CreateTable": _special(DDL, tables=_TABLE),
    "DeleteTable": _of(DDL),
    "UpdateGlobalTable": _of(DDL, tables=_GLOBAL),
    "UpdateGlobalTableSettings": _of(DDL, tables=_GLOBAL),
    "UpdateTable": _of(DDL),
    "UpdateTableReplicaAutoScaling": _of(DDL),
    "UpdateTimeToLive": _of(DDL, WRITE),  # it deletes items
    # Backups, and what copies items elsewhere
    "CreateBackup": _of(ADMIN),
    "DeleteBackup": _of(ADMIN, tables=_BACKUP),
    "RestoreTableFromBackup": _of(DDL, READ, WRITE, tables=("BackupArn", "TargetTableName")),
    "RestoreTableToPointInTime": _of(DDL, READ, WRITE, tables=_SOURCE),
    "UpdateContinuousBackups": _of(ADMIN),
    "DisableKinesisStreamingDestination": _of(ADMIN),
    "EnableKinesisStreamingDestination": _of(READ, ADMIN),
    "UpdateKinesisStreamingDestination": _of(ADMIN),
    # Access, and what is seen of a table's use
    "DeleteResourcePolicy": _of(GRANT, tables=_RESOURCE),
    "PutResourcePolicy": _of(GRANT, tables=_RESOURCE),
    "TagResource": _of(ADMIN, tables=_RESOURCE),
    "UntagResource": _of(ADMIN, tables=_RESOURCE),
    "UpdateContributorInsights": _of(ADMIN),
    # Descriptions
    "DescribeBackup": _of(READ, tables=_BACKUP),
    "DescribeContinuousBackups": _of(READ),
    "DescribeContributorInsights": _of(READ),
    "DescribeEndpoints": _of(READ, tables=()),
    "DescribeExport": _of(READ, tables=("ExportArn",)),
    "DescribeGlobalTable": _of(READ, tables=_GLOBAL),
    "DescribeGlobalTableSettings": _of(READ, tables=_GLOBAL),
    "DescribeImport": _of(READ, tables=("ImportArn",)),
    "DescribeKinesisStreamingDestination": _of(READ),
    "DescribeLimits": _of(READ, tables=()),
    "DescribeTable": _of(READ),
    "DescribeTableReplicaAutoScaling": _of(READ),
    "DescribeTimeToLive": _of(READ),
    "GetResourcePolicy": _of(READ, tables=_RESOURCE),
    "ListBackups": _of(READ, optional=True),
    "ListContributorInsights": _of(READ, optional=True),
    "ListExports": _of(READ, tables=("TableArn",), optional=True),
    "ListGlobalTables": _of(READ, tables=()),
    "ListImports": _of(READ, tables=("TableArn",), optional=True),
    "ListTables": _of(READ, tables=()),
    "ListTagsOfResource": _of(READ, tables=_RESOURCE),
    # Streams
    "DescribeStream": _of(READ, tables=_STREAM),
    "GetRecords": _special(READ),
    "GetShardIterator": _of(READ, tables=_STREAM),
    "ListStreams": _of(READ, optional=True),
}
STREAM_OPERATIONS: Final = frozenset({"DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"})
