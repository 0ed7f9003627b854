import { expect, test } from "vitest";
import { allRows, findRows, nextSort, sortRows } from "./row-order";

/** Return the values of a column in the order of the column. */
function sorted(values: (string | null)[], type: string | null, isDescending = false): (string | null)[] {
  const rows = values.map((value) => ["x", value]);
  const order = sortRows(rows, allRows(rows.length), { column: 1, isDescending }, type);
  return [...order].map((row) => values[row] ?? null);
}

test.each([
  ["int4", ["10", "9", null, "-2"], ["-2", "9", "10", null]],
  ["text", ["10", "9", null, "-2"], ["-2", "10", "9", null]],
  ["text", ["b", "B", "a", "ä", ""], ["", "B", "a", "b", "ä"]],
  ["float8", ["NaN", "1e3", "Infinity", "-Infinity", "2.5"], ["-Infinity", "2.5", "1e3", "Infinity", "NaN"]],
  ["numeric(10,2)", ["***", "2.10", "", "11.00"], ["2.10", "11.00", "", "***"]],
  ["money", ["$1,000.50", "-$3.00", "$20.00"], ["-$3.00", "$20.00", "$1,000.50"]],
  ["bigint(20) unsigned", ["9007199254740993", "9007199254740992"], ["9007199254740992", "9007199254740993"]],
  ["numeric", ["-0.10000000000000000002", "-0.10000000000000000001"], null],
  ["int4[]", ["{9}", "{10}"], ["{10}", "{9}"]],
])("values of the type %s", (type, values, expected) => {
  expect(sorted(values, type)).toEqual(expected ?? values);
});

test("descending, NULL stays last and equal values stay as they came", () => {
  const rows = [["a"], [null], ["b"], ["a"], [null]];
  expect([...sortRows(rows, allRows(5), { column: 0, isDescending: true }, "text")]).toEqual([2, 0, 3, 1, 4]);
  expect([...sortRows(rows, allRows(5), { column: 0, isDescending: false }, "text")]).toEqual([0, 3, 2, 1, 4]);
});

test("a column is sorted ascending, descending, and no more", () => {
  const first = nextSort(null, 3);
  expect(first).toEqual({ column: 3, isDescending: false });
  const second = nextSort(first, 3);
  expect(second).toEqual({ column: 3, isDescending: true });
  expect(nextSort(second, 3)).toBeNull();
  expect(nextSort(second, 1)).toEqual({ column: 1, isDescending: false });
});

test("rows are found by any part of a cell, which is no pattern", () => {
  const rows = [
    ["a.c", null],
    ["ABC", "x"],
    ["d", "Ünder"],
  ];
  expect([...findRows(rows, "a.c")]).toEqual([0]);
  expect([...findRows(rows, "b")]).toEqual([1]);
  expect([...findRows(rows, "ü")]).toEqual([2]);
  expect([...findRows(rows, "(")]).toEqual([]);
  expect([...sortRows(rows, findRows(rows, "c"), { column: 0, isDescending: false }, "text")]).toEqual([1, 0]);
});

test.each([
  ["int4", (row: number) => String((row * 7_919) % 100_003)],
  ["text", (row: number) => `name ${(row * 7_919) % 100_003} of a user`],
])("20,000 rows of the type %s are sorted with a few looks at each cell", (type, value) => {
  let looks = 0;
  const rows = Array.from({ length: 20_000 }, (_, row) =>
    Object.defineProperty([], 0, {
      get: () => {
        looks += 1;
        return value(row);
      },
    }),
  ) as unknown as string[][];
  const order = sortRows(rows, allRows(rows.length), { column: 0, isDescending: false }, type);
  expect(looks).toBeLessThan(40 * rows.length);
  expect(new Set(order).size).toBe(rows.length);
});
