import { expect, test } from "vitest";
import { ScreenFilter } from "./screen-filter";

const filter = (text: string) => new ScreenFilter().feed(text);

test.each([
  "a\r\nb\tc\b",
  "\u001b[31;1mred\u001b[0m",
  "\u001b[38:2::1:2:3m",
  "\u001b[2J\u001b[H",
  "\u001b[?25l\u001b[?1049h",
  "\u001b(0lqk\u001b(B",
  "äöü€😀",
])("%j draws, and passes", (text) => {
  expect(filter(text)).toBe(text);
});

test.each([
  ["a question for the cursor", "\u001b[6n"],
  ["a question for the terminal", "\u001b[c"],
  ["the clipboard", "\u001b]52;c;c2VjcmV0\u0007"],
  ["a title", "\u001b]0;title\u001b\\"],
  ["a link", "\u001b]8;;https://evil.example\u0007"],
  ["a request for settings", "\u001bP$qm\u001b\\"],
  ["the window", "\u001b[8;1000;1000t"],
  ["reports of the mouse", "\u001b[?1000h"],
  ["a repetition that never ends", "\u001b[2147483647b"],
  ["an 8-bit sequence", "\u009b6n"],
])("%s is discarded", (_, text) => {
  expect(filter(`x${text}y`)).toBe("xy");
});

test("characters that turn the direction of text are replaced", () => {
  expect(filter("a\u202eb")).toBe("a\ufffdb");
});

test("it does not matter where the output is cut", () => {
  const text = "a\u001b]0;title\u0007b\u001b[31mc\u001b[?1000;25hd\u001bcE\u009d0;x\u009cf";
  for (let cut = 0; cut <= text.length; cut += 1) {
    const screen = new ScreenFilter();
    expect(screen.feed(text.slice(0, cut)) + screen.feed(text.slice(cut))).toBe(filter(text));
  }
});
