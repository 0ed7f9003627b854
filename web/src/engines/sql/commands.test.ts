import { expect, test } from "vitest";
import { commandStatements, suggestCommands } from "./commands";
import { Names } from "./completion";

const pieces = (text: string, dialect: string) =>
  commandStatements(text, dialect).map(({ start, end }) => text.slice(start, end));

test.each([
  ["dynamodb", "", []],
  ["dynamodb", "# nothing\n;\n", []],
  ["dynamodb", "list-tables\n\nscan --table-name a", ["list-tables", "scan --table-name a"]],
  [
    "dynamodb",
    "scan --item '{\n;}' \\\n  --limit 1\nlist-tables",
    ["scan --item '{\n;}' \\\n  --limit 1", "list-tables"],
  ],
  [
    "dynamodb",
    "SELECT *\nFROM \"a\" WHERE b = ';';\nlist-tables",
    ["SELECT *\nFROM \"a\" WHERE b = ';'", "list-tables"],
  ],
  ["dynamodb", '{"Scan":\n {"a": "}"}}\nGetItem {"b": []}', ['{"Scan":\n {"a": "}"}}', 'GetItem {"b": []}']],
  [
    "cloudwatch",
    "logs tail /a --since 1h # why; \nlogs start-query --query-string 'a\n| b'",
    ["logs tail /a --since 1h # why", "logs start-query --query-string 'a\n| b'"],
  ],
  ["cloudwatch", "it's open\nto the end", ["it's open\nto the end"]],
])("statements of %s: %j", (dialect, text, found) => {
  expect(pieces(text, dialect)).toEqual(found);
});

test("tables, columns of those in the statement, and words are offered", () => {
  const names = new Names([
    { schema: "logs", name: "/shop/orders", columns: [{ name: "message", type: "string" }] },
    { schema: "logs", name: "/shop/mail", columns: [{ name: "recipient", type: "string" }] },
  ]);
  const text = "logs tail /shop/mail\nlogs tail /shop/orders ";
  const labels = suggestCommands(text, text.length, "cloudwatch", names).map(({ label }) => label);
  expect(labels.slice(0, 4)).toEqual(["message", "/shop/orders", "/shop/mail", "logs"]);
  expect(suggestCommands("", 0, "dynamodb", null).map(({ label }) => label)).toContain("--table-name");
});
