// Uses native encryption by go-ora: SERVICE USER PASSWORD LEVEL HOST:PORT... Prints one line for each server.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	go_ora "github.com/sijms/go-ora/v2"
	"github.com/sijms/go-ora/v2/network"
)

func code(err error) int {
	var oracle *network.OracleError
	if errors.As(err, &oracle) {
		return oracle.ErrCode
	}
	return 0
}

func use(database *sql.DB) (string, error) {
	var user, note string
	var six int
	if err := database.QueryRow("select user from dual").Scan(&user); err != nil {
		return "", err
	}
	_, _ = database.Exec("create table native_rows (id number, note clob)")
	if _, err := database.Exec("insert into native_rows values (:1, :2)", 1, go_ora.Clob{String: strings.Repeat("note ", 20000), Valid: true}); err != nil {
		return "", err
	}
	if err := database.QueryRow("select note from native_rows").Scan(&note); err != nil {
		return "", err
	}
	shown := fmt.Sprint(user, " ", len(note))
	for times := 0; times < 3; times++ {
		shown += fmt.Sprint(" ", code(database.QueryRow("select * from missing").Scan(&six)))
	}
	limited, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
	_, err := database.ExecContext(limited, "begin dbms_session.sleep(30); end;")
	cancel()
	shown += fmt.Sprint(" ", err != nil)
	err = database.QueryRow("select 6 from dual").Scan(&six)
	_, _ = database.Exec("drop table native_rows")
	return fmt.Sprint(shown, " ", six), err
}

func main() {
	level := os.Args[4]
	for _, place := range os.Args[5:] {
		host, text, _ := net.SplitHostPort(place)
		port, _ := strconv.Atoi(text)
		options := map[string]string{"encryption": level, "data integrity": level}
		database, err := sql.Open("oracle", go_ora.BuildUrl(host, port, os.Args[1], os.Args[2], os.Args[3], options))
		if err != nil {
			fmt.Println("error", err)
			continue
		}
		database.SetMaxOpenConns(1)
		shown, err := use(database)
		if err != nil {
			shown = "error " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(shown)
		_ = database.Close()
	}
}
