import { expect, test } from "vitest";
import { markedWords, withMarks } from "./marks";

const marked = (text: string) => withMarks(text).filter((piece) => piece.mark).length;

test.each([
  ["plain text", 0],
  ["a\u202eb", 1],
  ["a\u200bb", 1],
  ["a\u0000b", 1],
  ["a\u001b[31m", 1],
])("%j has %i marks", (text, count) => {
  expect(marked(text)).toBe(count);
});

test("nothing of a text is lost", () => {
  const text = "x\u202ey\u0007z";
  expect(
    withMarks(text)
      .filter((piece) => !piece.mark)
      .map((piece) => piece.text)
      .join(""),
  ).toBe("xyz");
});

test("marks are words where only a text can be shown", () => {
  expect(markedWords("a\u202eb")).toBe("aU+202Eb");
});
