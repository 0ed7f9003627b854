import { expect, test } from "vitest";
import { codeOf, countStatements, placeholdersOf, statementAt } from "./scan";

test("quotes and comments are no code", () => {
  const text = "select 'a;b', $x$ ; $x$ -- ;\n, \"n;\" /* ; */ from t";
  expect(
    codeOf(text)
      .map((piece) => piece.text)
      .join(""),
  ).toBe('select ,  \n, "n;"  from t');
});

test("a quote that is not closed goes to the end", () => {
  expect(codeOf("select 'open").map((piece) => piece.text)).toEqual(["select "]);
});

test.each([
  ["select :id, :name, :id", ["id", "name"]],
  ["select id::text from t where a = :a", ["a"]],
  ["select a[1:2], '12:30', ':x' -- :y", []],
  ["select * from t where j @> :doc", ["doc"]],
])("placeholders of %s", (text, names) => {
  expect(placeholdersOf(text, "postgres")).toEqual(names);
});

test("the statement at the cursor", () => {
  const text = "select 1; select ';'; select 3";
  expect(text.slice(...Object.values(statementAt(text, 12, "postgres")))).toBe(" select ';'");
  expect(text.slice(...Object.values(statementAt(text, text.length, "postgres")))).toBe(" select 3");
  expect(text.slice(...Object.values(statementAt(text, 0, "postgres")))).toBe("select 1");
});

test.each([
  ["", 0],
  ["-- nothing; at all", 0],
  ["select 1", 1],
  ["select 1; select ';'; /* ; */\n", 2],
  [";;select $$;$$", 1],
])("statements of %s", (text, count) => {
  expect(countStatements(text, "postgres")).toBe(count);
});

const BLOCK = "begin x := 'a;b'; end;";

test.each([
  ["oracledb", "select 1 from dual; select 2 from dual", ["select 1 from dual", " select 2 from dual"]],
  [
    "oracledb",
    `select 1 from dual;\n${BLOCK}\n/\nselect 2 from dual`,
    ["select 1 from dual", `\n${BLOCK}\n`, "\nselect 2 from dual"],
  ],
  ["oracledb", `declare x varchar2(9); ${BLOCK}`, [`declare x varchar2(9); ${BLOCK}`]],
  ["oracledb", "create or replace editionable function f return int is begin return 1; end;", undefined],
  ["oracledb", "with function f return int is begin return 1; end; select f from dual", undefined],
  ["oracledb", "select '\n/\n;' from dual", undefined],
  ["oracledb", "select 6 / 2\n/ 3 from dual", undefined],
  ["oracledb", "create type_list (n int); drop table a", ["create type_list (n int)", " drop table a"]],
  ["mssql", "select 1; select 2\nGO\nselect 3\ngo 5\n", ["select 1", " select 2\n", "\nselect 3\n"]],
  ["mssql", "declare @n int = 1; select @n\ngo\nselect 2", ["declare @n int = 1; select @n\n", "\nselect 2"]],
  ["mssql", "create or alter procedure p as select 1; select 2", undefined],
  ["mssql", "select [go] from t; -- go\nselect ';'", ["select [go] from t", " -- go\nselect ';'"]],
  ["mssql", "", []],
])("statements of %s: %s", (dialect, text, statements = [text]) => {
  expect(countStatements(text, dialect)).toBe(statements.length);
  for (const statement of statements) {
    const start = text.indexOf(statement);
    const { start: from, end } = statementAt(text, start + statement.length, dialect);
    expect(text.slice(from, end)).toBe(statement);
  }
});
