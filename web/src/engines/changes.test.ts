import { expect, test } from "vitest";
import { changesBetween } from "./changes";

test("only fields that differ are changes, also within objects", () => {
  const before = { name: "shop", tags: { env: "dev", team: "a" }, reviewers: ["dba"] };
  const after = { name: "shop", tags: { env: "prod", team: "a" }, reviewers: ["dba", "lead"] };
  expect(changesBetween(before, after)).toEqual([
    { field: "reviewers", before: ["dba"], after: ["dba", "lead"] },
    { field: "tags.env", before: "dev", after: "prod" },
  ]);
});

test("a new resource has all its fields as changes, a deleted one, too", () => {
  expect(changesBetween(null, { a: 1 })).toEqual([{ field: "a", before: undefined, after: 1 }]);
  expect(changesBetween({ a: null }, null)).toEqual([{ field: "a", before: null, after: undefined }]);
});

test("field names such as __proto__ are names", () => {
  const hostile = JSON.parse('{"__proto__": {"x": 1}}');
  expect(changesBetween(null, hostile)).toEqual([{ field: "__proto__.x", before: undefined, after: 1 }]);
});
