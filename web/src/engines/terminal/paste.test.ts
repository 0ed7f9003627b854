import { expect, test } from "vitest";
import { inspectPaste, LONGEST_PASTE } from "./paste";

test.each(["ls -la", "größe €", "a\tb", "👍 x", ""])("%j is sent at once", (text) => {
  expect(inspectPaste(text)).toMatchObject({ text, removed: 0, isSuspicious: false });
});

test.each([
  ["two lines", "one\ntwo", 2],
  ["a line that would run", "rm -rf /\n", 1],
  ["a carriage return", "a\rb", 2],
  ["an interrupt", "a\u0003b", 1],
  ["text of the other direction", "a\u202eb", 1],
  ["characters without width", "a\u200bb", 1],
])("%s is shown first, and sent as it is", (_, text, lines) => {
  expect(inspectPaste(text)).toMatchObject({ text, removed: 0, lines, isSuspicious: true });
});

test("the end of a bracketed paste cannot be pasted", () => {
  const paste = inspectPaste("ls \u001b[201~\u009b201~; rm x");
  expect(paste).toMatchObject({ text: "ls [201~201~; rm x", removed: 2, isSuspicious: true });
});

test("a paste that is too long is not sent", () => {
  expect(inspectPaste("x".repeat(LONGEST_PASTE)).isTooLong).toBe(false);
  expect(inspectPaste("x".repeat(LONGEST_PASTE + 1)).isTooLong).toBe(true);
});
