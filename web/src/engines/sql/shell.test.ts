import { expect, test } from "vitest";
import { Names, type Table } from "./completion";
import { maskShell, quoteShell, shellPlaceholders, shellStatementAt, shellStatements, suggestShell } from "./shell";

test("comments are blanks, and texts and regular expressions are quotes", () => {
  expect(maskShell("f({a: /;[/]'/i}) // b;\n/* c; */'d\\';' `e\n;`")).toBe(
    `f({a: ${'"'.repeat(8)}})      \n        ${'"'.repeat(6)} ${'"'.repeat(5)}`,
  );
});

test("a slash after a value begins no regular expression", () => {
  expect(maskShell("{a: 1 / 2, b: '/'}")).toBe('{a: 1 / 2, b: """}');
});

const pieces = (text: string) => shellStatements(text).map(({ start, end }) => text.slice(start, end).trim());

test.each([
  ["", []],
  ["// nothing; at all", []],
  [
    "use shop\ndb.a.find({\n  b: ';'\n})\n  .limit(1)\nshow dbs",
    ["use shop", "db.a.find({\n  b: ';'\n})\n  .limit(1)", "show dbs"],
  ],
  ["db.a.find();db.b.find();\n", ["db.a.find()", "db.b.find()"]],
  ["db.a.drop() // first;\ndb.b.drop()", ["db.a.drop() // first;", "db.b.drop()"]],
])("statements of %j", (text, found) => {
  expect(pieces(text)).toEqual(found);
});

test("the statement at the cursor, or the last one before it", () => {
  const text = "db.a.find()\n\ndb.b.find()\n";
  const at = (cursor: number) => text.slice(...Object.values(shellStatementAt(text, cursor))).trim();
  expect([at(3), at(11), at(15), at(text.length)]).toEqual([
    "db.a.find()",
    "db.a.find()",
    "db.b.find()",
    "db.b.find()",
  ]);
});

test.each([
  ["db.a.find({b: :least, c: {$in: [:one, :least]}})", ["least", "one"]],
  ['db.a.find({"b":true, c:d, e: ":f", g: /:h/}) // :i', []],
  ["db.a.find(:query)", ["query"]],
])("placeholders of %j", (text, names) => {
  expect(shellPlaceholders(text)).toEqual(names);
});

const column = (name: string) => ({ name, type: "string" });
const TABLES: Table[] = [
  { schema: "shop", name: "orders", columns: [column("_id"), column("address.zip")] },
  { schema: "shop", name: "old orders", columns: [column("at")] },
];
const NAMES = new Names(TABLES);

test.each([
  ["db.|", ["orders", 'getCollection("old orders")']],
  ["db.or|", ["orders", 'getCollection("old orders")']],
  ["db.orders.find({|", ["_id", '"address.zip"']],
  ["db.orders.find({_|", ["_id", '"address.zip"']],
  ["use shop; db.orders.find({'ad|", ["_id", "address.zip"]],
  ['db.orders.aggregate([{$group: {_id: "$addr|', ["_id", "address.zip"]],
  ['db.getCollection("old orders").find({|', ["at"]],
  ["db.others.find({|", []],
  ["|", []],
])("names at %s", (marked, applied) => {
  const cursor = marked.indexOf("|");
  const offer = suggestShell(marked.replace("|", ""), cursor, NAMES);
  const named = offer?.suggestions.filter(({ kind }) => kind !== "method") ?? [];
  expect(named.map(({ apply }) => apply)).toEqual(applied);
});

test.each([
  ["db.orders.fi|", "findOne", 10],
  ["db.orders.find({a: 1}).|", "limit", 23],
  ["db.|", "runCommand", 3],
  ["db['old orders'].|", "aggregate", 17],
])("methods at %s", (marked, method, from) => {
  const offer = suggestShell(marked.replace("|", ""), marked.indexOf("|"), NAMES);
  expect(offer?.from).toBe(from);
  expect(offer?.suggestions.map(({ label }) => label)).toContain(method);
});

test.each([
  ["orders", "orders"],
  ["address.zip", '"address.zip"'],
  ['a "b"', '"a \\"b\\""'],
])("the name %s is written %s", (name, written) => {
  expect(quoteShell(name)).toBe(written);
});
