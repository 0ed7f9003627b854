import { expect, test } from "vitest";
import { Names, quoteName, suggest, type Table } from "./completion";

const column = (name: string) => ({ name, type: "text" });
const TABLES: Table[] = [
  { schema: "public", name: "customers", columns: [column("id"), column("email")] },
  { schema: "public", name: "orders", columns: [column("id"), column("total")] },
  { schema: "audit", name: "events", columns: [column("at")] },
];
const NAMES = new Names(TABLES);

function labels(marked: string, kind: "column" | "table"): string[] {
  const cursor = marked.indexOf("|");
  return suggest(marked.replace("|", ""), cursor, NAMES, "postgres")
    .filter((suggestion) => suggestion.kind === kind)
    .map((suggestion) => suggestion.label);
}

test.each([
  ["select | from customers", ["id", "email"]],
  ["select * from customers c join orders o on o.|", ["id", "total"]],
  ["select * from customers, orders where |", ["id", "email", "total"]],
  ["select * from public.orders where tot|", ["id", "total"]],
  ["update customers set em|", ["id", "email"]],
  ["select 1 from orders; select | from customers", ["id", "email"]],
  ["select '; from orders', | from customers", ["id", "email"]],
  ["select |", []],
])("columns at %s", (text, columns) => {
  expect(labels(text, "column")).toEqual(columns);
});

test.each([
  ["select | from dbo.[Order Items]", "mssql", ["Id", "Total"]],
  ["select i.| from [Order Items] as i", "mssql", ["Id", "Total"]],
  ["select 1 from #t\ngo\nselect | from dbo.[Order Items]", "mssql", ["Id", "Total"]],
  ["select c.| from shop.customers c", "oracledb", ["NAME"]],
  ["begin select | into x from customers; end;", "oracledb", ["NAME"]],
])("columns at %s for %s", (marked, dialect, columns) => {
  const names = new Names([
    { schema: "dbo", name: "Order Items", columns: [column("Id"), column("Total")] },
    { schema: "SHOP", name: "CUSTOMERS", columns: [column("NAME")] },
  ]);
  const offered = suggest(marked.replace("|", ""), marked.indexOf("|"), names, dialect);
  expect(offered.filter(({ kind }) => kind === "column").map(({ label }) => label)).toEqual(columns);
});

test("behind a schema there are its tables, else all", () => {
  expect(labels("select * from audit.|", "table")).toEqual(["events"]);
  expect(labels("select * from |", "table")).toEqual(["customers", "orders", "events"]);
});

test("2,000 tables of 20 columns are searched at once", () => {
  const many = Array.from({ length: 2_000 }, (_, index) => ({
    schema: "public",
    name: `t${index}`,
    columns: Array.from({ length: 20 }, (_, place) => column(`c${place}`)),
  }));
  expect(suggest("select  from t1999", 7, new Names(many), "postgres")).toHaveLength(2_020);
});

test.each([
  ["orders", "postgres", "orders"],
  ["Order Items", "postgres", '"Order Items"'],
  ['a"b', "postgres", '"a""b"'],
  ["a`b", "mysql", "`a``b`"],
  ["OrderItems", "mssql", "OrderItems"],
  ["Order Items]", "mssql", "[Order Items]]]"],
  ["ORDERS$2", "oracledb", "ORDERS$2"],
  ["orders", "oracledb", '"orders"'],
])("the name %s for %s", (name, dialect, written) => {
  expect(quoteName(name, dialect)).toBe(written);
});
