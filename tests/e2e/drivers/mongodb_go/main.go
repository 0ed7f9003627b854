// The tasks of test_mongodb_drivers.py with the Go driver. Arguments: the connection string, the name of a database.
// Prints one line for each task.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func value[T any](result T, err error) T {
	must(err)
	return result
}

func code(err error) string {
	var server mongo.ServerError
	if errors.As(err, &server) {
		return fmt.Sprint(server.ErrorCodes()[0])
	}
	return fmt.Sprint(err)
}

func main() {
	ctx := context.Background()
	client := value(mongo.Connect(options.Client().ApplyURI(os.Args[1]).SetServerSelectionTimeout(30 * time.Second)))
	db := client.Database(os.Args[2])
	must(db.Drop(ctx))
	notes := db.Collection("notes")
	count := func(filter any) int64 { return value(notes.CountDocuments(ctx, filter)) }

	documents := make([]any, 5000)
	for n := range documents {
		documents[n] = bson.D{{"_id", n}, {"group", n % 10}, {"text", strings.Repeat("grüße ", 100)}}
	}
	value(notes.InsertMany(ctx, documents))
	fmt.Println("inserted", count(bson.D{}))
	sum := 0
	cursor := value(notes.Find(ctx, bson.D{}, options.Find().SetBatchSize(500)))
	for cursor.Next(ctx) {
		sum += int(cursor.Current.Lookup("_id").AsInt64())
	}
	must(cursor.Err())
	fmt.Println("read", sum)
	pipeline := bson.A{
		bson.D{{"$group", bson.D{{"_id", "$group"}, {"n", bson.D{{"$sum", 1}}}}}},
		bson.D{{"$sort", bson.D{{"_id", 1}}}},
	}
	var groups []struct {
		ID int `bson:"_id"`
		N  int
	}
	must(value(notes.Aggregate(ctx, pipeline)).All(ctx, &groups))
	shown := []string{}
	for _, one := range groups {
		shown = append(shown, fmt.Sprintf("%d:%d", one.ID, one.N))
	}
	fmt.Println("groups", strings.Join(shown, " "))
	short := bson.D{{"$set", bson.D{{"text", "short"}}}}
	fmt.Println("updated", value(notes.UpdateMany(ctx, bson.D{{"group", 3}}, short)).ModifiedCount)
	var distinct []int
	must(notes.Distinct(ctx, "group", bson.D{}).Decode(&distinct))
	fmt.Println("distinct", len(distinct))
	var changed struct {
		ID int `bson:"_id"`
	}
	must(notes.FindOneAndUpdate(ctx, bson.D{{"_id", 7}}, bson.D{{"$inc", bson.D{{"group", 1}}}}).Decode(&changed))
	fmt.Println("found and changed", changed.ID)
	_, err := notes.InsertOne(ctx, bson.D{{"_id", 7}})
	fmt.Println("duplicate", code(err))
	fmt.Println("unknown command", code(db.RunCommand(ctx, bson.D{{"noSuchCommand", 1}}).Err()))
	_, err = db.Collection("forbidden").DeleteMany(ctx, bson.D{})
	fmt.Println("denied", code(err))
	var pong struct{ Ok int }
	must(db.RunCommand(ctx, bson.D{{"ping", 1}}).Decode(&pong))
	fmt.Println("usable", pong.Ok)

	session := value(client.StartSession())
	value(session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		value(notes.InsertOne(ctx, bson.D{{"_id", "in a transaction"}}))
		return notes.DeleteOne(ctx, bson.D{{"_id", 8}})
	}))
	session.EndSession(ctx)
	fmt.Println("committed", count(bson.D{{"_id", bson.D{{"$in", bson.A{"in a transaction", 8}}}}}))

	bucket := db.GridFSBucket()
	value(bucket.UploadFromStream(ctx, "file", bytes.NewReader(bytes.Repeat([]byte("x"), 1000000))))
	var file bytes.Buffer
	value(bucket.DownloadToStreamByName(ctx, "file", &file))
	fmt.Println("file", file.Len())

	changes := value(notes.Watch(ctx, mongo.Pipeline{}))
	value(notes.InsertOne(ctx, bson.D{{"_id", "watched"}}))
	if !changes.Next(ctx) {
		panic(changes.Err())
	}
	fmt.Println("change", changes.Current.Lookup("documentKey", "_id").StringValue())
	must(changes.Close(ctx))

	silent := db.Collection("silent", options.Collection().SetWriteConcern(writeconcern.Unacknowledged()))
	if _, err := silent.InsertOne(ctx, bson.D{{"_id", 1}}); err != nil {
		panic(err)
	}
	for value(silent.CountDocuments(ctx, bson.D{})) == 0 {
	}
	fmt.Println("unacknowledged", value(silent.CountDocuments(ctx, bson.D{})))

	var together atomic.Int64
	var readers sync.WaitGroup
	for group := range 10 {
		readers.Go(func() {
			var all []bson.Raw
			found := value(notes.Find(ctx, bson.D{{"group", group}}, options.Find().SetBatchSize(50)))
			must(found.All(ctx, &all))
			together.Add(int64(len(all)))
		})
	}
	readers.Wait()
	fmt.Println("in parallel", together.Load())
	must(client.Disconnect(ctx))
}
