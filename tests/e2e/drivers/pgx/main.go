// Batches of pgx against the URL in the first argument. Prints one line for each step: what the test compares.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// outcome is the SQLSTATE of an error, or "ok".
func outcome(err error) string {
	var failed *pgconn.PgError
	if errors.As(err, &failed) {
		return failed.Code
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func insertAll(ctx context.Context, connection *pgx.Conn, count int, last string) error {
	batch := &pgx.Batch{}
	for n := 0; n < count; n++ {
		batch.Queue("insert into batched values ($1)", n)
	}
	if last != "" {
		batch.Queue(last)
	}
	return connection.SendBatch(ctx, batch).Close()
}

// pipeline sends requests without a Sync and reads the answer of the first one that fails. It leaves the connection so.
func pipeline(ctx context.Context, connection *pgx.Conn) error {
	sent := connection.PgConn().StartPipeline(ctx)
	sent.SendQueryParams("insert into batched select 1/0", nil, nil, nil, nil)
	sent.SendQueryParams("insert into batched values (1)", nil, nil, nil, nil)
	if err := sent.Flush(); err != nil {
		return err
	}
	_, err := sent.GetResults()
	return err
}

func rows(ctx context.Context, connection *pgx.Conn) (count int) {
	if err := connection.QueryRow(ctx, "select count(*) from batched").Scan(&count); err != nil {
		panic(err)
	}
	return count
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	connection, err := pgx.Connect(ctx, os.Args[1])
	if err != nil {
		panic(err)
	}
	defer connection.Close(ctx)
	if _, err := connection.Exec(ctx, "create temp table batched (n int)"); err != nil {
		panic(err)
	}
	report := func(step string, err error) { fmt.Println(step, outcome(err), rows(ctx, connection)) }
	report("batch", insertAll(ctx, connection, 3, ""))
	report("large batch", insertAll(ctx, connection, 5000, ""))
	report("failing batch", insertAll(ctx, connection, 5000, "insert into batched select 1/0"))
	report("denied batch", insertAll(ctx, connection, 5000, "drop table pg_catalog.pg_class"))
	if _, err := connection.Exec(ctx, "set statement_timeout = '200ms'"); err != nil {
		panic(err)
	}
	report("statement_timeout", insertAll(ctx, connection, 3, "select pg_sleep(60)"))
	fmt.Println("pipeline", outcome(pipeline(ctx, connection)))
}
