import { expect, test } from "vitest";
import { toCsv, toTsv } from "./csv";

test("fields with separators and quotes are quoted", () => {
  expect(
    toCsv(
      ["a", "b"],
      [
        ['say "hi"', "1,2"],
        ["two\nlines", null],
      ],
    ),
  ).toBe('a,b\r\n"say ""hi""","1,2"\r\n"two\nlines",\r\n');
});

test.each(["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1"])("%j is not a formula", (text) => {
  expect(toCsv(["x"], [[text]])).toContain(`'${text.slice(0, 2)}`);
});

test("negative numbers stay numbers", () => {
  expect(toCsv(["x"], [[-3], ["-1.5"]])).toBe("x\r\n-3\r\n-1.5\r\n");
});

test("copied cells are pasted into the same cells, and formulas as texts", () => {
  const rows = [
    ["a", null, "-5"],
    ["=1+1", "two\nlines", 'a\t"b"'],
  ];
  expect(toTsv(rows)).toBe('a\t\t-5\n\'=1+1\t"two\nlines"\t"a\t""b"""');
});
