import { expect, test } from "vitest";
import { isNumeric, type MaskedCells, MaskFinder, type ResultField } from "./masks";

const HASHED = { rule: "people", strategy: "hash", info_types: [] };
const FOUND = { rule: null, strategy: "replace", info_types: ["CREDIT_CARD"] };
const FIELDS: ResultField[] = [
  { name: "id", type: "int4", masked: null },
  { name: "mail", type: "text", masked: { rule: "people", strategy: "hash" } },
  { name: "note", type: "text", masked: null },
];
const MASKED: MaskedCells = {
  masks: [HASHED, FOUND],
  cells: [
    [1, 0, 9, 0],
    [2, 8, 8, 1],
    [2, 2, 4, 1],
  ],
  incomplete_from: null,
};

test.each([
  [0, 0, null],
  [5, 1, HASHED],
  [1, 2, null],
  [2, 2, FOUND],
  [4, 2, FOUND],
  [5, 2, null],
  [8, 2, FOUND],
  [9, 2, null],
])("row %i, column %i", (row, column, mask) => {
  expect(new MaskFinder(MASKED, FIELDS).at(row, column)).toEqual(mask);
});

test("a column that a rule masks is masked where no run says it", () => {
  expect(new MaskFinder(null, FIELDS).at(3, 1)).toEqual(HASHED);
});

test("columns with masks are listed once", () => {
  expect(new MaskFinder(MASKED, FIELDS).columns()).toEqual([
    ["mail", [HASHED]],
    ["note", [FOUND]],
  ]);
});

test.each([
  ["int4", true],
  ["numeric(10,2)", true],
  ["int4[]", false],
  ["interval", false],
  ["varchar(20)", false],
  [null, false],
])("numbers are told by the type %s", (type, numeric) => {
  expect(isNumeric(type)).toBe(numeric);
});
