"""Parameters of the operations, with their types, for command lines: from the models of botocore 1.44.5."""

from __future__ import annotations

from typing import Final

from postern.protocols.aws.commands.operation_shapes import read_shapes

_TABLE: Final = """
BatchExecuteStatement Statements:m* ReturnConsumedCapacity:s
BatchGetItem RequestItems:m ReturnConsumedCapacity:s
BatchWriteItem RequestItems:m ReturnConsumedCapacity:s ReturnItemCollectionMetrics:s
CancelBulkOperation BulkOperationArn:s
CreateBackup TableName:s BackupName:s
CreateGlobalTable GlobalTableName:s ReplicationGroup:m*
CreateTable AttributeDefinitions:m* TableName:s KeySchema:m* LocalSecondaryIndexes:m* GlobalSecondaryIndexes:m*
    BillingMode:s ProvisionedThroughput:m StreamSpecification:m SSESpecification:m Tags:m* TableClass:s
    DeletionProtectionEnabled:b WarmThroughput:m ResourcePolicy:s OnDemandThroughput:m GlobalTableSourceArn:s
    GlobalTableSettingsReplicationMode:s VectorIndexes:m*
DeleteBackup BackupArn:s
DeleteItem TableName:s Key:m Expected:m ConditionalOperator:s ReturnValues:s ReturnConsumedCapacity:s
    ReturnItemCollectionMetrics:s ConditionExpression:s ExpressionAttributeNames:m ExpressionAttributeValues:m
    ReturnValuesOnConditionCheckFailure:s
DeleteResourcePolicy ResourceArn:s ExpectedRevisionId:s
DeleteTable TableName:s
DescribeBackup BackupArn:s
DescribeBulkOperation BulkOperationArn:s
DescribeContinuousBackups TableName:s
DescribeContributorInsights TableName:s IndexName:s
DescribeEndpoints
DescribeExport ExportArn:s
DescribeGlobalTable GlobalTableName:s
DescribeGlobalTableSettings GlobalTableName:s
DescribeImport ImportArn:s
DescribeKinesisStreamingDestination TableName:s
DescribeLimits
DescribeTable TableName:s
DescribeTableReplicaAutoScaling TableName:s
DescribeTimeToLive TableName:s
DisableKinesisStreamingDestination TableName:s StreamArn:s EnableKinesisStreamingConfiguration:m
EnableKinesisStreamingDestination TableName:s StreamArn:s EnableKinesisStreamingConfiguration:m
ExecuteStatement Statement:s Parameters:m* ConsistentRead:b NextToken:s ReturnConsumedCapacity:s Limit:i
    ReturnValuesOnConditionCheckFailure:s
ExecuteTransaction TransactStatements:m* ClientRequestToken:s ReturnConsumedCapacity:s
ExportTableToPointInTime TableArn:s ExportTime:t ClientToken:s S3Bucket:s S3BucketOwner:s S3Prefix:s
    S3SseAlgorithm:s S3SseKmsKeyId:s ExportFormat:s ExportType:s IncrementalExportSpecification:m
    FilterSpecification:m
GetItem TableName:s Key:m AttributesToGet:s* ConsistentRead:b ReturnConsumedCapacity:s ProjectionExpression:s
    ExpressionAttributeNames:m
GetResourcePolicy ResourceArn:s
ImportTable ClientToken:s S3BucketSource:m InputFormat:s InputFormatOptions:m InputCompressionType:s
    TableCreationParameters:m
ListBackups TableName:s Limit:i TimeRangeLowerBound:t TimeRangeUpperBound:t ExclusiveStartBackupArn:s
    BackupType:s
ListBulkOperations MaxResults:i NextToken:s
ListContributorInsights TableName:s NextToken:s MaxResults:i
ListExports TableArn:s MaxResults:i NextToken:s
ListGlobalTables ExclusiveStartGlobalTableName:s Limit:i RegionName:s
ListImports TableArn:s PageSize:i NextToken:s
ListTables ExclusiveStartTableName:s Limit:i
ListTagsOfResource ResourceArn:s NextToken:s
PutItem TableName:s Item:m Expected:m ReturnValues:s ReturnConsumedCapacity:s ReturnItemCollectionMetrics:s
    ConditionalOperator:s ConditionExpression:s ExpressionAttributeNames:m ExpressionAttributeValues:m
    ReturnValuesOnConditionCheckFailure:s
PutResourcePolicy ResourceArn:s Policy:s ExpectedRevisionId:s ConfirmRemoveSelfResourceAccess:b
Query TableName:s IndexName:s Select:s AttributesToGet:s* Limit:i ConsistentRead:b KeyConditions:m QueryFilter:m
    ConditionalOperator:s ScanIndexForward:b ExclusiveStartKey:m ReturnConsumedCapacity:s ProjectionExpression:s
    FilterExpression:s KeyConditionExpression:s ExpressionAttributeNames:m ExpressionAttributeValues:m
RestoreTableFromBackup TargetTableName:s BackupArn:s BillingModeOverride:s GlobalSecondaryIndexOverride:m*
    LocalSecondaryIndexOverride:m* ProvisionedThroughputOverride:m OnDemandThroughputOverride:m
    SSESpecificationOverride:m VectorIndexOverride:m*
RestoreTableToPointInTime SourceTableArn:s SourceTableName:s TargetTableName:s UseLatestRestorableTime:b
    RestoreDateTime:t BillingModeOverride:s GlobalSecondaryIndexOverride:m* LocalSecondaryIndexOverride:m*
    ProvisionedThroughputOverride:m OnDemandThroughputOverride:m SSESpecificationOverride:m
    VectorIndexOverride:m*
Scan TableName:s IndexName:s AttributesToGet:s* Limit:i Select:s ScanFilter:m ConditionalOperator:s
    ExclusiveStartKey:m ReturnConsumedCapacity:s TotalSegments:i Segment:i ProjectionExpression:s
    FilterExpression:s ExpressionAttributeNames:m ExpressionAttributeValues:m ConsistentRead:b
SearchVectors TableName:s IndexName:s ReturnConsumedCapacity:s ExpressionAttributeNames:m
    ExpressionAttributeValues:m ProjectionExpression:s SearchVector:m* SearchConditionExpression:s TopK:i
StartBulkPutItems ClientToken:s InputS3Configuration:m OutputS3Configuration:m TableName:s
    MaxWriteRequestUnits:i PerformanceTier:s
TagResource ResourceArn:s Tags:m*
TransactGetItems TransactItems:m* ReturnConsumedCapacity:s
TransactWriteItems TransactItems:m* ReturnConsumedCapacity:s ReturnItemCollectionMetrics:s ClientRequestToken:s
UntagResource ResourceArn:s TagKeys:s*
UpdateContinuousBackups TableName:s PointInTimeRecoverySpecification:m
UpdateContributorInsights TableName:s IndexName:s ContributorInsightsAction:s ContributorInsightsMode:s
UpdateGlobalTable GlobalTableName:s ReplicaUpdates:m*
UpdateGlobalTableSettings GlobalTableName:s GlobalTableBillingMode:s GlobalTableProvisionedWriteCapacityUnits:i
    GlobalTableProvisionedWriteCapacityAutoScalingSettingsUpdate:m
    GlobalTableGlobalSecondaryIndexSettingsUpdate:m* ReplicaSettingsUpdate:m*
UpdateItem TableName:s Key:m AttributeUpdates:m Expected:m ConditionalOperator:s ReturnValues:s
    ReturnConsumedCapacity:s ReturnItemCollectionMetrics:s UpdateExpression:s ConditionExpression:s
    ExpressionAttributeNames:m ExpressionAttributeValues:m ReturnValuesOnConditionCheckFailure:s
UpdateKinesisStreamingDestination TableName:s StreamArn:s UpdateKinesisStreamingConfiguration:m
UpdateTable AttributeDefinitions:m* TableName:s BillingMode:s ProvisionedThroughput:m
    GlobalSecondaryIndexUpdates:m* StreamSpecification:m SSESpecification:m ReplicaUpdates:m* TableClass:s
    DeletionProtectionEnabled:b MultiRegionConsistency:s GlobalTableWitnessUpdates:m* OnDemandThroughput:m
    WarmThroughput:m GlobalTableSettingsReplicationMode:s DisassociationProtectionEnabled:b
    VectorIndexUpdates:m*
UpdateTableReplicaAutoScaling GlobalSecondaryIndexUpdates:m* TableName:s
    ProvisionedWriteCapacityAutoScalingUpdate:m ReplicaUpdates:m*
UpdateTimeToLive TableName:s TimeToLiveSpecification:m
DescribeStream StreamArn:s Limit:i ExclusiveStartShardId:s ShardFilter:m
GetRecords ShardIterator:s Limit:i
GetShardIterator StreamArn:s ShardId:s ShardIteratorType:s SequenceNumber:s Timestamp:t
ListStreams TableName:s Limit:i ExclusiveStartStreamArn:s
"""

SHAPES: Final = read_shapes(_TABLE)
