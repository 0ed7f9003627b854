// Does the tasks of test_oracle_direct.py by go-ora: HOST PORT SERVICE USER PASSWORD.
package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	go_ora "github.com/sijms/go-ora/v2"
	"github.com/sijms/go-ora/v2/network"
)

func must(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func code(err error) string {
	var oracle *network.OracleError
	if errors.As(err, &oracle) {
		return strconv.Itoa(oracle.ErrCode)
	}
	if err == nil {
		return "no error"
	}
	return err.Error()
}

func open(service, password string) *sql.DB {
	port, err := strconv.Atoi(os.Args[2])
	must(err)
	database, err := sql.Open("oracle", go_ora.BuildUrl(os.Args[1], port, service, os.Args[4], password, nil))
	must(err)
	database.SetMaxOpenConns(1)
	return database
}

func shown(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case time.Time:
		return value.Format("2006-01-02 15:04:05.000")
	case []byte:
		return hex.EncodeToString(value)
	}
	return fmt.Sprint(value)
}

func title(condition bool) string {
	return strings.ToUpper(fmt.Sprint(condition)[:1]) + fmt.Sprint(condition)[1:]
}

func main() {
	database := open(os.Args[3], os.Args[5])
	scan := func(query string, targets ...any) { must(database.QueryRow(query).Scan(targets...)) }
	run := func(query string, arguments ...any) int64 {
		result, err := database.Exec(query, arguments...)
		must(err)
		affected, _ := result.RowsAffected()
		return affected
	}
	var user string
	scan("select user from dual", &user)
	fmt.Println("user", user)
	printTypes(database, run)
	printLobs(database, run)
	printRows(database, run, scan)
	printBlocks(database, run)
	limited, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
	_, err := database.ExecContext(limited, "begin dbms_session.sleep(30); end;")
	cancel()
	var six int
	scan("select 6 from dual", &six)
	fmt.Println("cancelled", title(err != nil), six)
	must(database.Ping())
	must(database.Close())
	fmt.Println("denied", code(open(os.Args[3], "wrong").Ping()))
	fmt.Println("refused", title(open("missing", os.Args[5]).Ping() != nil))
}

func printTypes(database *sql.DB, run func(string, ...any) int64) {
	run("create table go_types (id number(10) primary key, amount number(12,2), name varchar2(40), born date," +
		" seen timestamp(6), token raw(16), ratio binary_double, title nvarchar2(40))")
	insert := "insert into go_types values (:1, :2, :3, :4, :5, :6, :7, :8)"
	run(insert, 1, 1234567.25, "Zoë", time.Date(1990, 2, 3, 4, 5, 6, 0, time.UTC),
		go_ora.TimeStamp(time.Date(2024, 1, 2, 3, 4, 5, 678000000, time.UTC)), []byte{0, 0xff, 0x10}, 1.5,
		go_ora.NVarChar("Ærø"))
	run(insert, 2, -0.5, nil, nil, nil, nil, nil, nil)
	rows, err := database.Query("select * from go_types order by id")
	must(err)
	defer rows.Close()
	for _, name := range []string{"types", "nulls"} {
		rows.Next()
		values := make([]any, 8)
		targets := make([]any, 8)
		for n := range values {
			targets[n] = &values[n]
		}
		must(rows.Scan(targets...))
		words := []string{name}
		for _, value := range values {
			words = append(words, shown(value))
		}
		fmt.Println(strings.Join(words, " "))
	}
}

func printLobs(database *sql.DB, run func(string, ...any) int64) {
	run("create table go_lobs (id number, note clob, photo blob)")
	note := strings.Repeat("éa", 30000)
	photo := make([]byte, 76800)
	for n := range photo {
		photo[n] = byte(n)
	}
	run("insert into go_lobs values (1, :1, :2)", go_ora.Clob{String: note, Valid: true}, go_ora.Blob{Data: photo})
	var readNote string
	var readPhoto []byte
	must(database.QueryRow("select note, photo from go_lobs").Scan(&readNote, &readPhoto))
	fmt.Println("lobs", len([]rune(readNote)), title(readNote == note), len(readPhoto), title(string(readPhoto) == string(photo)))
}

func printRows(database *sql.DB, run func(string, ...any) int64, scan func(string, ...any)) {
	run("create table go_rows (id number(10) primary key, name varchar2(20) not null)")
	numbers, names := make([]int, 1000), make([]string, 1000)
	for n := range numbers {
		numbers[n], names[n] = n, fmt.Sprintf("name %d", n/7)
	}
	fmt.Println("array", run("insert into go_rows values (:1, :2)", numbers, names))
	rows, err := database.Query("select id, name from go_rows order by id")
	must(err)
	count, sum, different := 0, 0, map[string]bool{}
	for rows.Next() {
		var id int
		var name string
		must(rows.Scan(&id, &name))
		count, sum, different[name] = count+1, sum+id, true
	}
	must(rows.Err())
	rows.Close()
	fmt.Println("rows", count, sum, len(different))
	transaction, err := database.Begin()
	must(err)
	result, err := transaction.Exec("delete from go_rows where id >= :least", sql.Named("least", 10))
	must(err)
	deleted, _ := result.RowsAffected()
	must(transaction.Rollback())
	scan("select count(*) from go_rows", &count)
	fmt.Println("transaction", deleted, count)
	words := []string{"errors"}
	for _, statement := range []string{
		"delete from missing", "insert into go_rows values (1, 'twice')",
		"insert into go_rows values (2000, null)", "update go_rows set missing = 1",
	} {
		_, err = database.Exec(statement)
		words = append(words, code(err))
	}
	fmt.Println(strings.Join(words, " "))
}

func printBlocks(database *sql.DB, run func(string, ...any) int64) {
	var answer int64
	run("begin :answer := 6 * 7; end;", sql.Out{Dest: &answer})
	fmt.Println("block", answer)
	run("create sequence go_sequence start with 100")
	var returned int64
	run("insert into go_rows values (go_sequence.nextval + 5000, 'new') returning id into :id", sql.Out{Dest: &returned})
	fmt.Println("returning", returned)
	var highest int
	must(database.QueryRow("select max(id) from go_rows").Scan(&highest))
	fmt.Println("sequence", highest)
	var people go_ora.RefCursor
	run("begin open :people for select id, name from go_rows where id < 3 order by id; end;", sql.Out{Dest: &people})
	set, err := people.Query()
	must(err)
	words := []string{"cursor"}
	values := make([]driver.Value, 2)
	for set.Next(values) == nil {
		words = append(words, fmt.Sprintf("%v=%v", values[0], values[1]))
	}
	must(set.Close())
	must(people.Close())
	fmt.Println(strings.Join(words, " "))
	session, err := database.Conn(context.Background()) // the pool would take a new session for each
	must(err)
	defer session.Close()
	var line string
	var status int64
	for _, block := range []string{"enable(null)", "put_line('printed by ' || 'a block')"} {
		_, err = session.ExecContext(context.Background(), "begin dbms_output."+block+"; end;")
		must(err)
	}
	_, err = session.ExecContext(context.Background(), "begin dbms_output.get_line(:line, :status); end;",
		go_ora.Out{Dest: &line, Size: 100}, sql.Out{Dest: &status})
	must(err)
	fmt.Println("output", line)
}
