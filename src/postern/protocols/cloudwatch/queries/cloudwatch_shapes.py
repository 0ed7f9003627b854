"""Parameters of the operations, with their types, for command lines: from the models of botocore 1.44.5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from postern.protocols.aws.commands.operation_shapes import Parameters, read_shapes
from postern.protocols.cloudwatch.dialect.cloudwatch_operations import CloudwatchService

_LOGS: Final = """
AssociateKmsKey logGroupName:s kmsKeyId:s resourceIdentifier:s
AssociateSourceToS3TableIntegration integrationArn:s dataSource:m
CancelExportTask taskId:s
CancelImportTask importId:s
CreateDelivery deliverySourceName:s deliveryDestinationArn:s recordFields:s* fieldDelimiter:s
    s3DeliveryConfiguration:m tags:m
CreateExportTask taskName:s logGroupName:s logStreamNamePrefix:s from:i to:i destination:s destinationPrefix:s
CreateImportTask importSourceArn:s importRoleArn:s importFilter:m
CreateLogAnomalyDetector logGroupArnList:s* detectorName:s evaluationFrequency:s filterPattern:s kmsKeyId:s
    anomalyVisibilityTime:i tags:m
CreateLogGroup logGroupName:s kmsKeyId:s tags:m logGroupClass:s deletionProtectionEnabled:b
CreateLogStream logGroupName:s logStreamName:s
CreateLookupTable lookupTableName:s description:s tableBody:s queryId:s kmsKeyId:s tags:m
CreateScheduledQuery name:s description:s queryLanguage:s queryString:s logGroupIdentifiers:s*
    scheduleExpression:s timezone:s startTimeOffset:i endTimeOffset:i destinationConfiguration:m scheduleStartTime:i
    scheduleEndTime:i executionRoleArn:s state:s tags:m
DeleteAccountPolicy policyName:s policyType:s dryRun:b
DeleteDataProtectionPolicy logGroupIdentifier:s
DeleteDelivery id:s
DeleteDeliveryDestination name:s
DeleteDeliveryDestinationPolicy deliveryDestinationName:s
DeleteDeliverySource name:s
DeleteDestination destinationName:s
DeleteIndexPolicy logGroupIdentifier:s
DeleteIntegration integrationName:s force:b
DeleteLogAnomalyDetector anomalyDetectorArn:s
DeleteLogGroup logGroupName:s
DeleteLogStream logGroupName:s logStreamName:s
DeleteLookupTable lookupTableArn:s
DeleteMetricFilter logGroupName:s filterName:s
DeleteQueryDefinition queryDefinitionId:s
DeleteResourcePolicy policyName:s resourceArn:s expectedRevisionId:s
DeleteRetentionPolicy logGroupName:s
DeleteScheduledQuery identifier:s
DeleteSubscriptionFilter logGroupName:s filterName:s
DeleteSyslogConfiguration logGroupIdentifier:s vpcEndpointId:s
DeleteTransformer logGroupIdentifier:s
DescribeAccountPolicies policyType:s policyName:s accountIdentifiers:s* nextToken:s
DescribeConfigurationTemplates service:s logTypes:s* resourceTypes:s* deliveryDestinationTypes:s* nextToken:s
    limit:i
DescribeDeliveries nextToken:s limit:i deliverySourceNames:s*
DescribeDeliveryDestinations nextToken:s limit:i names:s*
DescribeDeliverySources nextToken:s limit:i resourceArns:s*
DescribeDestinations DestinationNamePrefix:s nextToken:s limit:i
DescribeExportTasks taskId:s statusCode:s nextToken:s limit:i
DescribeFieldIndexes logGroupIdentifiers:s* indexCategories:s* nextToken:s
DescribeImportTaskBatches importId:s batchImportStatus:s* limit:i nextToken:s
DescribeImportTasks importId:s importStatus:s importSourceArn:s limit:i nextToken:s
DescribeIndexPolicies logGroupIdentifiers:s* nextToken:s
DescribeLogGroups accountIdentifiers:s* logGroupNamePrefix:s logGroupNamePattern:s nextToken:s limit:i
    includeLinkedAccounts:b logGroupClass:s logGroupIdentifiers:s*
DescribeLogStreams logGroupName:s logGroupIdentifier:s logStreamNamePrefix:s orderBy:s descending:b nextToken:s
    limit:i
DescribeLookupTables lookupTableNamePrefix:s maxResults:i nextToken:s
DescribeMetricFilters logGroupName:s filterNamePrefix:s nextToken:s limit:i metricName:s metricNamespace:s
DescribeQueries logGroupName:s status:s maxResults:i nextToken:s queryLanguage:s
DescribeQueryDefinitions queryLanguage:s queryDefinitionNamePrefix:s maxResults:i nextToken:s
DescribeResourcePolicies nextToken:s limit:i resourceArn:s policyScope:s
DescribeSubscriptionFilters logGroupName:s filterNamePrefix:s nextToken:s limit:i
DisassociateKmsKey logGroupName:s resourceIdentifier:s
DisassociateSourceFromS3TableIntegration identifier:s
FilterLogEvents logGroupName:s logGroupIdentifier:s logStreamNames:s* logStreamNamePrefix:s startTime:i
    endTime:i filterPattern:s nextToken:s limit:i startFromHead:b interleaved:b unmask:b
GetDataProtectionPolicy logGroupIdentifier:s
GetDelivery id:s
GetDeliveryDestination name:s
GetDeliveryDestinationPolicy deliveryDestinationName:s
GetDeliverySource name:s
GetIntegration integrationName:s
GetLogAnomalyDetector anomalyDetectorArn:s
GetLogEvents logGroupName:s logGroupIdentifier:s logStreamName:s startTime:i endTime:i nextToken:s limit:i
    startFromHead:b unmask:b
GetLogFields dataSourceName:s dataSourceType:s
GetLogGroupFields logGroupName:s time:i logGroupIdentifier:s
GetLogObject unmask:b logObjectPointer:s
GetLogRecord logRecordPointer:s unmask:b
GetLookupTable lookupTableArn:s
GetQueryResults queryId:s nextToken:s maxItems:i
GetScheduledQuery identifier:s
GetScheduledQueryHistory identifier:s startTime:i endTime:i executionStatuses:s* maxResults:i nextToken:s
GetStorageTierPolicy
GetTransformer logGroupIdentifier:s
ListAggregateLogGroupSummaries accountIdentifiers:s* includeLinkedAccounts:b logGroupClass:s
    logGroupNamePattern:s dataSources:m* groupBy:s nextToken:s limit:i
ListAnomalies anomalyDetectorArn:s suppressionState:s limit:i nextToken:s
ListIntegrations integrationNamePrefix:s integrationType:s integrationStatus:s
ListLogAnomalyDetectors filterLogGroupArn:s limit:i nextToken:s
ListLogGroups logGroupNamePattern:s logGroupClass:s includeLinkedAccounts:b accountIdentifiers:s* nextToken:s
    limit:i dataSources:m* fieldIndexNames:s* logGroupTags:m*
ListLogGroupsForQuery queryId:s nextToken:s maxResults:i
ListScheduledQueries maxResults:i nextToken:s state:s scheduleType:s
ListSourcesForS3TableIntegration integrationArn:s maxResults:i nextToken:s
ListSyslogConfigurations logGroupIdentifier:s vpcEndpointId:s nextToken:s maxResults:i
ListTagsForResource resourceArn:s
ListTagsLogGroup logGroupName:s
PutAccountPolicy policyName:s policyDocument:s policyType:s scope:s selectionCriteria:s dryRun:b
PutBearerTokenAuthentication logGroupIdentifier:s bearerTokenAuthenticationEnabled:b
PutDataProtectionPolicy logGroupIdentifier:s policyDocument:s
PutDeliveryDestination name:s outputFormat:s deliveryDestinationConfiguration:m deliveryDestinationType:s
    roleArn:s tags:m
PutDeliveryDestinationPolicy deliveryDestinationName:s deliveryDestinationPolicy:s
PutDeliverySource name:s resourceArn:s logType:s tags:m deliverySourceConfiguration:m
PutDestination destinationName:s targetArn:s roleArn:s tags:m
PutDestinationPolicy destinationName:s accessPolicy:s forceUpdate:b
PutIndexPolicy logGroupIdentifier:s policyDocument:s
PutIntegration integrationName:s resourceConfig:m integrationType:s
PutLogEvents logGroupName:s logStreamName:s logEvents:m* sequenceToken:s entity:m
PutLogGroupDeletionProtection logGroupIdentifier:s deletionProtectionEnabled:b
PutMetricFilter logGroupName:s filterName:s filterPattern:s metricTransformations:m* applyOnTransformedLogs:b
    fieldSelectionCriteria:s emitSystemFieldDimensions:s*
PutQueryDefinition queryLanguage:s name:s queryDefinitionId:s logGroupNames:s* queryString:s clientToken:s
    parameters:m*
PutResourcePolicy policyName:s policyDocument:s resourceArn:s expectedRevisionId:s
PutRetentionPolicy logGroupName:s retentionInDays:i
PutStorageTierPolicy storageTier:s
PutSubscriptionFilter logGroupName:s filterName:s filterPattern:s destinationArn:s roleArn:s distribution:s
    applyOnTransformedLogs:b fieldSelectionCriteria:s emitSystemFields:s*
PutSyslogConfiguration logGroupIdentifier:s vpcEndpointId:s
PutTransformer logGroupIdentifier:s transformerConfig:m*
StartLiveTail logGroupIdentifiers:s* logStreamNames:s* logStreamNamePrefixes:s* logEventFilterPattern:s
StartQuery queryLanguage:s logGroupName:s logGroupNames:s* logGroupIdentifiers:s* startTime:i endTime:i
    queryString:s limit:i
StopQuery queryId:s
TagLogGroup logGroupName:s tags:m
TagResource resourceArn:s tags:m
TestMetricFilter filterPattern:s logEventMessages:s*
TestTransformer transformerConfig:m* logEventMessages:s*
UntagLogGroup logGroupName:s tags:s*
UntagResource resourceArn:s tagKeys:s*
UpdateAnomaly anomalyId:s patternId:s anomalyDetectorArn:s suppressionType:s suppressionPeriod:m baseline:b
UpdateDeliveryConfiguration id:s recordFields:s* fieldDelimiter:s s3DeliveryConfiguration:m
UpdateLogAnomalyDetector anomalyDetectorArn:s evaluationFrequency:s filterPattern:s anomalyVisibilityTime:i
    enabled:b
UpdateLookupTable lookupTableArn:s description:s tableBody:s queryId:s kmsKeyId:s
UpdateScheduledQuery identifier:s description:s queryLanguage:s queryString:s logGroupIdentifiers:s*
    scheduleExpression:s timezone:s startTimeOffset:i endTimeOffset:i destinationConfiguration:m scheduleStartTime:i
    scheduleEndTime:i executionRoleArn:s state:s
"""

_METRICS: Final = """
AssociateDatasetKmsKey DatasetIdentifier:s KmsKeyArn:s
CreateResourceMetricsConfiguration ResourceArn:s MetricSelections:m*
DeleteAlarmMuteRule AlarmMuteRuleName:s
DeleteAlarms AlarmNames:s*
DeleteAnomalyDetector AnomalyDetectorId:s Namespace:s MetricName:s Dimensions:m* Stat:s
    SingleMetricAnomalyDetector:m MetricMathAnomalyDetector:m
DeleteDashboards DashboardNames:s*
DeleteInsightRules RuleNames:s*
DeleteMetricDataQueryDefinition Id:s
DeleteMetricStream Name:s
DeleteResourceMetricsConfiguration ResourceArn:s
DescribeAlarmContributors AlarmName:s NextToken:s
DescribeAlarmHistory AlarmName:s AlarmContributorId:s AlarmTypes:s* HistoryItemType:s StartDate:t EndDate:t
    MaxRecords:i NextToken:s ScanBy:s
DescribeAlarms AlarmNames:s* AlarmNamePrefix:s AlarmTypes:s* ChildrenOfAlarmName:s ParentsOfAlarmName:s
    StateValue:s ActionPrefix:s MaxRecords:i NextToken:s
DescribeAlarmsForMetric MetricName:s Namespace:s Statistic:s ExtendedStatistic:s Dimensions:m* Period:i Unit:s
DescribeAnomalyDetectors AnomalyDetectorIds:s* NextToken:s MaxResults:i Namespace:s MetricName:s Dimensions:m*
    AnomalyDetectorTypes:s*
DescribeInsightRules NextToken:s MaxResults:i
DisableAlarmActions AlarmNames:s*
DisableInsightRules RuleNames:s*
DisassociateDatasetKmsKey DatasetIdentifier:s
EnableAlarmActions AlarmNames:s*
EnableInsightRules RuleNames:s*
GetAlarmMuteRule AlarmMuteRuleName:s
GetDashboard DashboardName:s
GetDataset DatasetIdentifier:s
GetInsightRuleReport RuleName:s StartTime:t EndTime:t Period:i MaxContributorCount:i Metrics:s* OrderBy:s
GetMetricData MetricDataQueries:m* StartTime:t EndTime:t NextToken:s ScanBy:s MaxDatapoints:i LabelOptions:m
GetMetricDataQueryDefinition Id:s
GetMetricStatistics Namespace:s MetricName:s Dimensions:m* StartTime:t EndTime:t Period:i Statistics:s*
    ExtendedStatistics:s* Unit:s
GetMetricStream Name:s
GetMetricWidgetImage MetricWidget:s OutputFormat:s
GetOTelEnrichment
GetResourceMetricsConfiguration ResourceArn:s
ListAlarmMuteRules AlarmName:s Statuses:s* MaxRecords:i NextToken:s
ListDashboards DashboardNamePrefix:s NextToken:s
ListManagedInsightRules ResourceARN:s NextToken:s MaxResults:i
ListMetricDataQueryDefinitions MaxResults:i NextToken:s
ListMetricStreams NextToken:s MaxResults:i
ListMetrics Namespace:s MetricName:s Dimensions:m* NextToken:s RecentlyActive:s IncludeLinkedAccounts:b
    OwningAccount:s
ListTagsForResource ResourceARN:s
PutAlarmMuteRule Name:s Description:s Rule:m MuteTargets:m Tags:m* StartDate:t ExpireDate:t
PutAnomalyDetector Namespace:s MetricName:s Dimensions:m* Stat:s Configuration:m MetricCharacteristics:m
    SingleMetricAnomalyDetector:m MetricMathAnomalyDetector:m
PutCompositeAlarm ActionsEnabled:b AlarmActions:s* AlarmDescription:s AlarmName:s AlarmRule:s
    InsufficientDataActions:s* OKActions:s* Tags:m* ActionsSuppressor:s ActionsSuppressorWaitPeriod:i
    ActionsSuppressorExtensionPeriod:i ActionConfiguration:m
PutDashboard DashboardName:s DashboardBody:s Tags:m*
PutInsightRule RuleName:s RuleState:s RuleDefinition:s Tags:m* ApplyOnTransformedLogs:b
PutLogAlarm AlarmName:s AlarmDescription:s ScheduledQueryConfiguration:m ActionLogLineCount:i
    ActionLogLineRoleArn:s ActionsEnabled:b OKActions:s* AlarmActions:s* InsufficientDataActions:s*
    QueryResultsToEvaluate:i QueryResultsToAlarm:i Threshold:d ComparisonOperator:s TreatMissingData:s Tags:m*
    WarmUpConfiguration:m ActionConfiguration:m
PutManagedInsightRules ManagedRules:m*
PutMetricAlarm AlarmName:s AlarmDescription:s ActionsEnabled:b OKActions:s* AlarmActions:s*
    InsufficientDataActions:s* MetricName:s Namespace:s Statistic:s ExtendedStatistic:s Dimensions:m* Period:i
    Unit:s EvaluationPeriods:i DatapointsToAlarm:i Threshold:d ComparisonOperator:s TreatMissingData:s
    EvaluateLowSampleCountPercentile:s Metrics:m* Tags:m* ThresholdMetricId:s EvaluationWindow:m
    WarmUpConfiguration:m EvaluationCriteria:m EvaluationInterval:i ActionConfiguration:m
PutMetricData Namespace:s MetricData:m* EntityMetricData:m* StrictEntityValidation:b
PutMetricDataQueryDefinition Id:s Path:s Expression:s Type:s Tags:m*
PutMetricStream Name:s IncludeFilters:m* ExcludeFilters:m* FirehoseArn:s RoleArn:s OutputFormat:s Tags:m*
    StatisticsConfigurations:m* IncludeLinkedAccountsMetrics:b
SetAlarmState AlarmName:s StateValue:s StateReason:s StateReasonData:s
StartMetricStreams Names:s*
StartOTelEnrichment IncludeFilters:m* ExcludeFilters:m*
StopMetricStreams Names:s*
StopOTelEnrichment
TagResource ResourceARN:s Tags:m*
UntagResource ResourceARN:s TagKeys:s*
UpdateOTelEnrichment IncludeFilters:m* ExcludeFilters:m*
UpdateResourceMetricsConfiguration ResourceArn:s MetricSelections:m*
"""


SHAPES: Final[Mapping[CloudwatchService, Mapping[str, Parameters]]] = {
    CloudwatchService.LOGS: read_shapes(_LOGS),
    CloudwatchService.METRICS: read_shapes(_METRICS),
}
