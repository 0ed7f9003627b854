// Tasks with go-mssqldb: HOST PORT USER PASSWORD DATABASE ENCRYPTION AUTHORITY. Each prints `task: answer`.
package main

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
)

const typesOfRow = `
select cast(7 as tinyint), cast(-300 as smallint), 100000, cast(9000000000 as bigint), cast(1 as bit), cast(0.5 as float),
 cast('12.50' as decimal(10,2)), cast('3.25' as money), cast('grün' as varchar(10)), N'żółw', cast('ab' as char(4)),
 cast(0x0102 as varbinary(8)), cast('2024-02-29' as date), cast('2024-02-29 13:14:15.123' as datetime),
 cast('2024-02-29 13:14:15.1234567' as datetime2), cast('13:14:15' as time(0)),
 cast('6F9619FF-8B86-D011-B42D-00C04FC964FF' as uniqueidentifier), cast(N'<a>ü</a>' as xml), null`

var ctx = context.Background()

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func shown(value any) string {
	switch it := value.(type) {
	case nil:
		return "None"
	case bool:
		return map[bool]string{true: "1", false: "0"}[it]
	case []byte:
		return hex.EncodeToString(it)
	case time.Time:
		return it.Format("2006-01-02 15:04:05.000000")
	}
	return fmt.Sprint(value)
}

func rows(db *sql.Conn, text string, values ...any) [][]any {
	found, err := db.QueryContext(ctx, text, values...)
	check(err)
	defer found.Close()
	return read(found)
}

func read(found *sql.Rows) [][]any {
	names, err := found.Columns()
	check(err)
	all := [][]any{}
	for found.Next() {
		row, places := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			places[i] = &row[i]
		}
		check(found.Scan(places...))
		all = append(all, row)
	}
	check(found.Err())
	return all
}

func joined(values []any) string {
	texts := []string{}
	for _, value := range values {
		texts = append(texts, shown(value))
	}
	return strings.Join(texts, " ")
}

func execute(db *sql.Conn, text string, values ...any) int64 {
	result, err := db.ExecContext(ctx, text, values...)
	check(err)
	count, _ := result.RowsAffected()
	return count
}

func fails(db *sql.Conn, text string) any {
	_, err := db.ExecContext(ctx, text)
	var known mssql.Error
	if errors.As(err, &known) {
		return known.Number
	}
	return err
}

func transactions(db *sql.Conn) string {
	execute(db, "if object_id('tx_go') is not null drop table tx_go; create table tx_go (id int)")
	counts := []any{}
	for _, commits := range []bool{false, true} {
		begun, err := db.BeginTx(ctx, nil)
		check(err)
		_, err = begun.ExecContext(ctx, "insert into tx_go values (1)")
		check(err)
		if commits {
			check(begun.Commit())
		} else {
			check(begun.Rollback())
		}
		counts = append(counts, rows(db, "select count(*) from tx_go")[0][0])
	}
	return joined(counts)
}

func bulk(db *sql.Conn) string {
	execute(db, "if object_id('bulk_go') is not null drop table bulk_go; create table bulk_go (id int, name nvarchar(20))")
	load, err := db.PrepareContext(ctx, mssql.CopyIn("bulk_go", mssql.BulkOptions{}, "id", "name"))
	check(err)
	for i := 0; i < 1000; i++ {
		_, err = load.Exec(i, fmt.Sprintf("n%d", i))
		check(err)
	}
	_, err = load.Exec()
	check(err)
	check(load.Close())
	return joined(rows(db, "select sum(id) from bulk_go")[0])
}

type pair struct {
	ID   int32
	Name string
}

func cancelled(db *sql.Conn) string {
	short, stop := context.WithCancel(ctx)
	time.AfterFunc(500*time.Millisecond, stop)
	_, err := db.ExecContext(short, "waitfor delay '00:00:30'")
	if !errors.Is(err, context.Canceled) {
		return fmt.Sprint(err)
	}
	return joined(rows(db, "select 5")[0])
}

func main() {
	login := url.UserPassword(os.Args[3], os.Args[4])
	options := url.Values{"database": {os.Args[5]}, "encrypt": {os.Args[6]}}
	if os.Args[6] != "disable" {
		options.Set("certificate", os.Args[7])
	}
	address := url.URL{Scheme: "sqlserver", User: login, Host: os.Args[1] + ":" + os.Args[2], RawQuery: options.Encode()}
	pool, err := sql.Open("sqlserver", address.String())
	check(err)
	db, err := pool.Conn(ctx)
	check(err)
	show := func(task string, answer any) { fmt.Printf("%s: %v\n", task, answer) }

	show("types", joined(rows(db, typesOfRow)[0]))
	show("parameters", joined(rows(db, "select @p1, @p2, @p3, @p4", 5, "grün", 1.5, nil)[0]))
	prepared, err := db.PrepareContext(ctx, "select @p1 * 2")
	check(err)
	answers := []any{}
	for i := 0; i < 4; i++ {
		found, err := prepared.Query(i)
		check(err)
		answers = append(answers, read(found)[0][0])
	}
	check(prepared.Close())
	show("repeated", joined(answers))
	found, err := db.QueryContext(ctx, "select 1; select 2 union all select 3")
	check(err)
	counts := []any{len(read(found))}
	for found.NextResultSet() {
		counts = append(counts, len(read(found)))
	}
	show("results", joined(counts))
	sum := int64(0)
	for _, row := range rows(db, "with n as (select 1 as i union all select i + 1 from n where i < 5000) select i from n option (maxrecursion 0)") {
		sum += row[0].(int64)
	}
	show("many rows", sum)
	text := strings.Repeat("ü", 100_000)
	show("large value", map[bool]string{true: "True", false: "False"}[rows(db, "select @p1", text)[0][0] == text])
	execute(db, "create table #changes (id int identity(1,1) primary key, name nvarchar(10))")
	show("changes", joined([]any{
		execute(db, "insert into #changes (name) values ('a'), ('b'), ('c')"),
		execute(db, "update #changes set name = 'x' where id > 1"),
		execute(db, "delete from #changes"),
	}))
	execute(db, "create table #errors (id int primary key, name nvarchar(3)); insert into #errors values (1, 'a')")
	show("errors", joined([]any{
		fails(db, "select 1/0"), fails(db, "select cast('abc' as int)"), fails(db, "insert into #errors values (1, 'b')"),
		fails(db, "insert into #errors values (2, 'abcd')"),
	}))
	show("transactions", transactions(db))
	execute(db, "create or alter procedure twice_go @a int, @b int output as begin set @b = @a * 2 end")
	var twice int
	execute(db, "twice_go", sql.Named("a", 21), sql.Named("b", sql.Out{Dest: &twice}))
	show("procedure", twice)
	if os.Args[6] != "strict" { // it writes columns of TDS 7.1 then
		show("bulk", bulk(db))
	}
	pairs := []string{}
	for _, row := range rows(db, "select * from @t", sql.Named("t", mssql.TVP{TypeName: "dbo.pair", Value: []pair{{1, "x"}, {2, "ü"}}})) {
		pairs = append(pairs, fmt.Sprintf("%v=%v", row[0], row[1]))
	}
	show("table value", strings.Join(pairs, " "))
	show("cancelled", cancelled(db))
}
