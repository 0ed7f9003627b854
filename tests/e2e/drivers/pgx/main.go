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
	"github.com/jackc/pgx/v5/pgproto3"
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

// early sends requests without a Sync by pgx's own protocol layer, and returns the SQLSTATE of the first error.
func early(connection *pgx.Conn) (string, error) {
	raw, err := connection.PgConn().Hijack()
	if err != nil {
		return "", err
	}
	defer raw.Conn.Close()
	for _, text := range []string{"insert into batched select 1/0", "insert into batched values (1)"} {
		raw.Frontend.SendParse(&pgproto3.Parse{Query: text})
		raw.Frontend.SendBind(&pgproto3.Bind{})
		raw.Frontend.SendExecute(&pgproto3.Execute{})
	}
	if err := raw.Frontend.Flush(); err != nil {
		return "", err
	}
	for {
		message, err := raw.Frontend.Receive()
		if err != nil {
			return "", err
		}
		if failed, ok := message.(*pgproto3.ErrorResponse); ok {
			return failed.Code, nil
		}
	}
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
	state, err := early(connection)
	fmt.Println("early error", state, outcome(err))
}
