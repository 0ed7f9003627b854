import { expect, test } from "vitest";
import { codeOf, countStatements, placeholdersOf, statementAt } from "./scan";

test("quotes and comments are no code", () => {
  const text = "select 'a;b', $x$ ; $x$ -- ;\n, \"n;\" /* ; */ from t";
  expect(
    codeOf(text, "postgres")
      .map((piece) => piece.text)
      .join(""),
  ).toBe('select ,  \n, "n;"  from t');
});

test("a quote that is not closed goes to the end", () => {
  expect(codeOf("select 'open", "postgres").map((piece) => piece.text)).toEqual(["select "]);
});

test.each([
  ["select :id, :name, :id", ["id", "name"]],
  ["select id::text from t where a = :a", ["a"]],
  ["select a[1:2], '12:30', ':x' -- :y", []],
  ["select * from t where j @> :doc", ["doc"]],
])("placeholders of %s", (text, names) => {
  expect(placeholdersOf(text, "postgres")).toEqual(names);
});

test("rows of Oracle's triggers are no placeholders", () => {
  const text = "begin if :NEW.total > :old.total and q'[:x]' = :most then a := :n; end if; end;";
  expect(placeholdersOf(text, "oracledb")).toEqual(["most", "n"]);
});

test("the statement at the cursor", () => {
  const text = "select 1; select ';'; select 3";
  expect(text.slice(...Object.values(statementAt(text, 12, "postgres")))).toBe(" select ';'");
  expect(text.slice(...Object.values(statementAt(text, text.length, "postgres")))).toBe(" select 3");
  expect(text.slice(...Object.values(statementAt(text, 0, "postgres")))).toBe("select 1");
});

// The statement that each | is in, and how many there are.
test.each([
  ["mssql", "select 1|; select 2\nGO\nselect 3", "select 1", 3],
  ["mssql", "select 1; select 2\nGO 5\nse|lect 3 -- GO\n, 'x\nGO\n'", "select 3 -- GO\n, 'x\nGO\n'", 3],
  ["mssql", "select [go]|\n  go -- the end\n", "select [go]", 1],
  ["oracledb", "select 1 from dual; begin a;| b; end;\n/\nselect 2 from dual", "begin a; b; end;", 3],
  ["oracledb", "create or replace function f return number is\nbegin return 1; end;\n/\nselect f|;", "select f", 2],
  ["oracledb", "-- how;\ndeclare x number; begin| null; end;", "-- how;\ndeclare x number; begin null; end;", 1],
  ["oracledb", "select q'[;'\n/\n]'| from dual; select 6\n/ 2 from dual", "select q'[;'\n/\n]' from dual", 2],
  [
    "oracledb",
    "with function f return number is begin return 1; end; select f|\n/\n",
    "with function f return number is begin return 1; end; select f",
    1,
  ],
  ["mysql", "select 'it\\'s;'|; select 1 # ;\n", "select 'it\\'s;'", 2],
])("the statement of %s in %j", (dialect, marked, statement, count) => {
  const text = marked.replace("|", "");
  const { start, end } = statementAt(text, marked.indexOf("|"), dialect);
  expect(text.slice(start, end).trim()).toBe(statement);
  expect(countStatements(text, dialect)).toBe(count);
});

test("the statements of a long script are counted at once", () => {
  for (const dialect of ["postgres", "mssql", "oracledb"])
    expect(countStatements("select ';' from t; ".repeat(20_000), dialect)).toBe(20_000);
  expect(countStatements(`begin ${"a('x'); ".repeat(20_000)} end;`, "oracledb")).toBe(1);
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
