"""Operations of CloudWatch Logs and of CloudWatch metrics, by name, with their effects.

An operation is not listed if a later version of AWS adds it: its effect is unknown. What sends stored data to a place
outside of the gateway's view (S3, Firehose, another account, an index) is ADMIN, also where it only begins to do so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from postern.domain.rules.statement import Effect


class CloudwatchService(StrEnum):
    """The two services of one connection. The value is the schema by which rules name their objects."""

    LOGS = "logs"
    METRICS = "metrics"


class ObjectNeed(StrEnum):
    """What is known of the objects of an operation whose request names none."""

    NOTHING = "nothing"  # it is about none: lists, definitions
    LOGGED = "logged"  # its answer has logged data, of a group that the request does not tell


@dataclass(frozen=True, slots=True)
class CloudwatchOperation:
    effects: frozenset[Effect]
    need: ObjectNeed = ObjectNeed.NOTHING


# Answers with logged data. A request that does not name the log group is about any.
_LOGGED: Final = (
    *("FilterLogEvents", "GetLogEvents", "GetLogRecord", "GetLogObject", "GetQueryResults", "StartQuery"),
    *("StartLiveTail", "ListAnomalies", "GetLookupTable", "GetInsightRuleReport", "GetMetricWidgetImage"),
    *("GetLogGroupFields", "GetLogFields"),
)
_LOGS_READ: Final = (
    *(
        "DescribeAccountPolicies",
        "DescribeConfigurationTemplates",
        "DescribeDeliveries",
        "DescribeDeliveryDestinations",
    ),
    *("DescribeDeliverySources", "DescribeDestinations", "DescribeExportTasks"),
    *("DescribeFieldIndexes",),
    *("DescribeImportTaskBatches", "DescribeImportTasks", "DescribeIndexPolicies", "DescribeLogGroups"),
    *("DescribeLogStreams", "DescribeLookupTables", "DescribeMetricFilters", "DescribeQueries"),
    *("DescribeQueryDefinitions", "DescribeResourcePolicies", "DescribeSubscriptionFilters", "FilterLogEvents"),
    *("GetDataProtectionPolicy", "GetDelivery", "GetDeliveryDestination", "GetDeliveryDestinationPolicy"),
    *("GetDeliverySource", "GetIntegration", "GetLogAnomalyDetector", "GetLogEvents", "GetLogFields"),
    *("GetLogGroupFields", "GetLogObject", "GetLogRecord", "GetLookupTable", "GetQueryResults", "GetScheduledQuery"),
    *("GetScheduledQueryHistory", "GetStorageTierPolicy", "GetTransformer", "ListAggregateLogGroupSummaries"),
    *("ListAnomalies", "ListIntegrations", "ListLogAnomalyDetectors", "ListLogGroups", "ListLogGroupsForQuery"),
    *("ListScheduledQueries", "ListSourcesForS3TableIntegration", "ListSyslogConfigurations", "ListTagsForResource"),
    *("ListTagsLogGroup", "StartLiveTail", "StartQuery", "TestMetricFilter", "TestTransformer"),
)
_LOGS_DEFINE: Final = (
    *("CreateLogGroup", "CreateLogStream", "DeleteLogGroup", "DeleteLogStream", "PutRetentionPolicy"),
    *("DeleteRetentionPolicy", "PutMetricFilter", "DeleteMetricFilter", "PutIndexPolicy", "DeleteIndexPolicy"),
    *("PutTransformer", "DeleteTransformer", "TagLogGroup", "UntagLogGroup", "TagResource", "UntagResource"),
    *("PutQueryDefinition", "DeleteQueryDefinition", "CreateLogAnomalyDetector", "UpdateLogAnomalyDetector"),
    *("DeleteLogAnomalyDetector", "UpdateAnomaly", "PutLogGroupDeletionProtection", "DeleteLookupTable"),
)
# Lookup tables hold rows, which are given or come from a query.
_LOGS_WRITE: Final = ("PutLogEvents", "CreateLookupTable", "UpdateLookupTable")
_LOGS_COPY: Final = (
    *("CreateExportTask", "PutSubscriptionFilter", "CreateScheduledQuery", "UpdateScheduledQuery"),
    *("AssociateSourceToS3TableIntegration", "CreateDelivery", "PutAccountPolicy"),
)
_LOGS_ADMIN: Final = (
    *("AssociateKmsKey", "DisassociateKmsKey", "CancelExportTask", "CancelImportTask", "CreateImportTask"),
    *("DeleteAccountPolicy", "DeleteDelivery", "DeleteDeliveryDestination", "DeleteDeliverySource"),
    *("DeleteDestination", "DeleteIntegration", "DeleteScheduledQuery", "DeleteSubscriptionFilter"),
    *("DeleteSyslogConfiguration", "DisassociateSourceFromS3TableIntegration", "PutDeliveryDestination"),
    *("PutDeliverySource", "PutDestination", "PutIntegration", "PutStorageTierPolicy", "PutSyslogConfiguration"),
    *("UpdateDeliveryConfiguration",),
)
_LOGS_GRANT: Final = (
    *("PutResourcePolicy", "DeleteResourcePolicy", "PutDestinationPolicy", "PutDeliveryDestinationPolicy"),
    *("DeleteDeliveryDestinationPolicy", "PutDataProtectionPolicy", "DeleteDataProtectionPolicy"),
    *("PutBearerTokenAuthentication",),
)
_METRICS_READ: Final = (
    *("DescribeAlarmContributors", "DescribeAlarmHistory", "DescribeAlarms", "DescribeAlarmsForMetric"),
    *("DescribeAnomalyDetectors", "DescribeInsightRules", "GetAlarmMuteRule", "GetDashboard", "GetDataset"),
    *("GetInsightRuleReport", "GetMetricData", "GetMetricDataQueryDefinition", "GetMetricStatistics"),
    *("GetMetricStream", "GetMetricWidgetImage", "GetOTelEnrichment", "GetResourceMetricsConfiguration"),
    *("ListAlarmMuteRules", "ListDashboards", "ListManagedInsightRules", "ListMetricDataQueryDefinitions"),
    *("ListMetricStreams", "ListMetrics", "ListTagsForResource"),
)
_METRICS_DEFINE: Final = (
    *("DeleteAlarmMuteRule", "DeleteAlarms", "DeleteAnomalyDetector", "DeleteDashboards", "DeleteInsightRules"),
    *("DeleteMetricDataQueryDefinition", "DisableAlarmActions", "DisableInsightRules", "EnableAlarmActions"),
    *("EnableInsightRules", "PutAlarmMuteRule", "PutAnomalyDetector", "PutCompositeAlarm", "PutDashboard"),
    *("PutInsightRule", "PutManagedInsightRules", "PutMetricAlarm", "PutMetricDataQueryDefinition", "SetAlarmState"),
    *("TagResource", "UntagResource"),
)
# The actions of an alarm on a query get the lines that it has found.
_METRICS_COPY: Final = ("PutMetricStream", "StartMetricStreams", "PutLogAlarm")
_METRICS_ADMIN: Final = (
    *("AssociateDatasetKmsKey", "CreateResourceMetricsConfiguration", "DeleteMetricStream"),
    *("DeleteResourceMetricsConfiguration", "DisassociateDatasetKmsKey", "StartOTelEnrichment", "StopMetricStreams"),
    *("StopOTelEnrichment", "UpdateOTelEnrichment", "UpdateResourceMetricsConfiguration"),
)


def _list_operations(*groups: tuple[Iterable[str], frozenset[Effect]]) -> Mapping[str, CloudwatchOperation]:
    return {
        name: CloudwatchOperation(effects, ObjectNeed.LOGGED if name in _LOGGED else ObjectNeed.NOTHING)
        for names, effects in groups
        for name in names
    }


_READ: Final = frozenset({Effect.READ})
_DDL: Final = frozenset({Effect.DDL})
_WRITE: Final = frozenset({Effect.WRITE})
_COPY: Final = frozenset({Effect.READ, Effect.ADMIN})
_ADMIN: Final = frozenset({Effect.ADMIN})
_GRANT: Final = frozenset({Effect.GRANT})

LOGS_OPERATIONS: Final = _list_operations(
    (_LOGS_READ, _READ),
    (_LOGS_DEFINE, _DDL),
    (_LOGS_WRITE, _WRITE),
    (_LOGS_COPY, _COPY),
    (_LOGS_ADMIN, _ADMIN),
    (_LOGS_GRANT, _GRANT),
    (("StopQuery",), frozenset({Effect.SESSION})),
)
METRICS_OPERATIONS: Final = _list_operations(
    (_METRICS_READ, _READ),
    (_METRICS_DEFINE, _DDL),
    (("PutMetricData",), _WRITE),
    (_METRICS_COPY, _COPY),
    (_METRICS_ADMIN, _ADMIN),
)
OPERATIONS: Final[Mapping[CloudwatchService, Mapping[str, CloudwatchOperation]]] = {
    CloudwatchService.LOGS: LOGS_OPERATIONS,
    CloudwatchService.METRICS: METRICS_OPERATIONS,
}


def find_operation(name: str) -> CloudwatchOperation | None:
    """Return an operation of either service. Those with the same name have the same effects."""
    return LOGS_OPERATIONS.get(name) or METRICS_OPERATIONS.get(name)
