import { expect, test } from "vitest";
import { Shortcuts } from "./shortcuts";

const key = (name: string, more: { isCommand?: boolean; isTyped?: boolean } = {}) => ({
  key: name,
  isCommand: false,
  isTyped: false,
  ...more,
});

test("g and a letter lead to a screen", () => {
  const keys = new Shortcuts();
  expect(keys.read(key("g"))).toBeNull();
  expect(keys.read(key("s"))).toEqual({ kind: "go", to: "/sessions" });
  expect(keys.read(key("s"))).toBeNull();
});

test("letters in a field are text, but the palette opens there, too", () => {
  const keys = new Shortcuts();
  expect(keys.read(key("g", { isTyped: true }))).toBeNull();
  expect(keys.read(key("s"))).toBeNull();
  expect(keys.read(key("?", { isTyped: true }))).toBeNull();
  expect(keys.read(key("k", { isTyped: true, isCommand: true }))).toEqual({ kind: "palette" });
});

test.each([
  ["/", { kind: "search" }],
  ["?", { kind: "help" }],
  ["x", null],
])("the key %s", (name, shortcut) => {
  expect(new Shortcuts().read(key(name))).toEqual(shortcut);
});
