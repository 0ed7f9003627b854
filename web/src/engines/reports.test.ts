import { expect, test } from "vitest";
import { formatBytes } from "./numbers";
import { sumGroups, sumTypes } from "./reports";

const row = (group: string | null, sessions: number, refused = 0) => ({
  ...{ group, sessions, refused },
  ...{ failed: 0, killed: 1, masked: 2 },
});

test("a group's rows of several months are one, and most sessions come first", () => {
  const sums = sumGroups([row("a", 1), row("b", 5, 1), row("a", 2, 3)]);
  expect(sums.map(({ group, sessions, refused, killed }) => [group, sessions, refused, killed])).toEqual([
    ["b", 5, 1, 1],
    ["a", 3, 3, 2],
  ]);
});

test("groups named like properties of objects are counted as others", () => {
  expect(sumGroups([row("__proto__", 1), row("constructor", 2), row(null, 3)]).map(({ group }) => group)).toEqual([
    "",
    "constructor",
    "__proto__",
  ]);
});

test("information types are summed over resources", () => {
  const rows = [
    { info_type: "EMAIL", redact_total: 2 },
    { info_type: "IBAN", redact_total: 9 },
    { info_type: "EMAIL", redact_total: 3 },
  ];
  expect(sumTypes(rows)).toEqual([
    { type: "IBAN", count: 9 },
    { type: "EMAIL", count: 5 },
  ]);
});

test.each([
  [0, "0 byte"],
  [999, "999 byte"],
  [1_500, "1.5 kB"],
  [2_345_000_000, "2.3 GB"],
])("%i bytes are %s", (bytes, text) => {
  expect(formatBytes(bytes, "en")).toBe(text);
});
