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
