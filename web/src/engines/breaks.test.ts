import { expect, test } from "vitest";
import { breakable } from "./breaks";

test.each([
  ["bob@example.com", ["bob@", "example.", "com"]],
  ["/var/log/post_gres.log", ["/", "var/", "log/", "post_", "gres.", "log"]],
  ["team=blue,env=prod", ["team=", "blue,", "env=", "prod"]],
  ["takes 1.5 s at 09:30:15", ["takes 1.5 s at 09:30:15"]],
  ["10.0.0.1", ["10.0.0.1"]],
  ["", [""]],
  ["shop", ["shop"]],
])("%s breaks after its separators", (text, pieces) => {
  expect(breakable(text)).toEqual(pieces);
});

test("a long word breaks into pieces, and no character is lost or halved", () => {
  const hash = "0123456789abcdef".repeat(4);
  expect(breakable(hash)).toEqual(Array(4).fill("0123456789abcdef"));
  const emoji = "🙂".repeat(20);
  expect(breakable(emoji).join("")).toBe(emoji);
  expect(breakable(emoji).every((piece) => !piece.includes("\ufffd") && piece.length % 2 === 0)).toBe(true);
});

test("a long text stays whole", () => {
  expect(breakable("a.b".repeat(100))).toHaveLength(1);
});
