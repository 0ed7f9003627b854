// The tasks of test_aws_sdks.py with the SDK for Go. Argument: the service. Address and credential come from the
// environment. Prints one line for each task.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

func fails(err error) string {
	var failure smithy.APIError
	if !errors.As(err, &failure) {
		return fmt.Sprint(err)
	}
	attempts := 1
	var exhausted *retry.MaxAttemptsError
	if errors.As(err, &exhausted) {
		attempts = exhausted.Attempt
	}
	return fmt.Sprint(failure.ErrorCode(), " ", attempts)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	ctx := context.Background()
	loaded, err := config.LoadDefaultConfig(ctx)
	must(err)
	if os.Args[1] == "dynamodb" {
		askDynamodb(ctx, loaded)
	} else {
		askLogs(ctx, loaded)
	}
}

func askDynamodb(ctx context.Context, loaded aws.Config) {
	db := dynamodb.NewFromConfig(loaded)
	key := map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "1"}}
	table := aws.String("people")
	got, err := db.GetItem(ctx, &dynamodb.GetItemInput{TableName: table, Key: key})
	must(err)
	text := func(name string) string { return got.Item[name].(*types.AttributeValueMemberS).Value }
	fmt.Println("item", text("email"), text("city"))
	count := int32(0)
	pages := dynamodb.NewScanPaginator(db, &dynamodb.ScanInput{TableName: table, Limit: aws.Int32(7)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		must(err)
		count += page.Count
	}
	fmt.Println("scanned", count)
	_, err = db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: table, Key: key})
	fmt.Println("refused", fails(err))

	loaded.Credentials = credentials.NewStaticCredentialsProvider("a", "b", "b")
	_, err = dynamodb.NewFromConfig(loaded).GetItem(ctx, &dynamodb.GetItemInput{TableName: table, Key: key})
	fmt.Println("stranger", fails(err))
}

func askLogs(ctx context.Context, loaded aws.Config) {
	logs := cloudwatchlogs.NewFromConfig(loaded)
	group := aws.String("shop")
	found, err := logs.FilterLogEvents(ctx, &cloudwatchlogs.FilterLogEventsInput{LogGroupName: group})
	must(err)
	var messages []string
	for _, event := range found.Events {
		messages = append(messages, *event.Message)
	}
	fmt.Println("events", strings.Join(messages, " "))
	_, err = logs.DeleteLogGroup(ctx, &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: group})
	fmt.Println("refused", fails(err))
}
