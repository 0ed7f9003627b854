import { expect, test } from "vitest";
import { errorRange, unitsOf, wordAt } from "./positions";

test.each([
  ["abc", 2, 2],
  ["😀b", 1, 2],
  ["a😀b", 2, 3],
  ["ab", 9, 2],
])("in %j, %i characters are %i units", (text, characters, units) => {
  expect(unitsOf(text, characters)).toBe(units);
});

const marked = (script: string, error: { text?: string; position?: number; line_text?: string; detail?: string }) => {
  const range = errorRange(script, { text: "", position: null, line_text: null, ...error });
  return range && script.slice(range.from, range.to);
};

test.each([
  ["select '😀';\nselect nothing from t", 20, "select nothing from t", "nothing"],
  ["select 1 +* 2", 10, "select 1 +* 2", "+"],
  ["select (1", 10, "select (1", "1"],
  ["select 1\n", 10, "", "1"],
])("the error of %j at %i", (script, position, line_text, word) => {
  expect(marked(script, { position, line_text })).toBe(word);
});

test("a line that was changed meanwhile is not marked", () => {
  expect(marked("select 1, nothing", { position: 8, line_text: "select nothing" })).toBeNull();
});

test("MySQL's quotation is found if it is there once", () => {
  const text = "You have an error in your SQL syntax; check the manual near 'fro t' at line 1";
  expect(marked("select 1;\nselect a fro t", { text })).toBe("fro");
  expect(marked("select a fro t; select a fro t", { text })).toBeNull();
  expect(marked("select 1", { text })).toBeNull();
  expect(marked("select 1", { text: "Table 'x' does not exist" })).toBeNull();
});

test.each([
  ["select 1\n  select * from missing\n", "Invalid object name 'missing'.", "Line 2", "missing"],
  ["select 1\n  select 1/0 as a \n", "Divide by zero error encountered.", "Line 2", "select 1/0 as a"],
  ["exec p", "Invalid object name 'missing'.", "Procedure p, Line 1", undefined],
  ["select 1\nGO\nselect * from missing", "Invalid object name 'missing'.", "Line 1", undefined],
  ["select 1", "Incorrect syntax near 'x'.", "Line 7", undefined],
])("the line of SQL Server's error in %j: %s", (script, text, detail, place) => {
  expect(marked(script, { text, detail }) ?? undefined).toBe(place);
});

test("the word at the end of an empty text", () => {
  expect(wordAt("", 0)).toEqual({ from: 0, to: 0 });
});
