import { expect, test } from "vitest";
import { isWithin, rangeOf, valuesOf } from "./grid-range";

const ROWS = [
  ["a", "b", "c"],
  ["d", "e", "f"],
  ["g", "h", "i"],
];

test.each([
  [[0, 0], [0, 0], [["a"]]],
  [
    [0, 1],
    [1, 2],
    [
      ["b", "c"],
      ["e", "f"],
    ],
  ],
  [
    [2, 2],
    [1, 1],
    [
      ["e", "f"],
      ["h", "i"],
    ],
  ],
  [[0, 2], [2, 0], ROWS],
] as [[number, number], [number, number], string[][]][])("cells from %j to %j", (one, other, values) => {
  const range = rangeOf(one, other);
  expect(valuesOf(ROWS, range)).toEqual(values);
  const inside = ROWS.flatMap((row, at) => row.filter((_, column) => isWithin(range, at, column)));
  expect(inside).toEqual(values.flat());
});
