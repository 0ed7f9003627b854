import { beforeEach, expect, test, vi } from "vitest";
import { rememberClick, wasClicked } from "./app-clicks";

const HOST = "grafana.apps.example.com:8443";

beforeEach(() => {
  const stored = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, value: string) => void stored.set(key, value),
  });
});

test.each([
  ["at once", HOST, 0, true],
  ["after 59 seconds", HOST, 59_000, true],
  ["after a minute", HOST, 60_000, false],
  ["by a clock that went back", HOST, -1, false],
  ["of another host", "other.apps.example.com:8443", 0, false],
])("a click %s", (_, host, later, counts) => {
  rememberClick(HOST, 1_000_000);
  expect(wasClicked(host, 1_000_000 + later)).toBe(counts);
});

test("without a click, and with what is no click, the page asks", () => {
  expect(wasClicked(HOST)).toBe(false);
  localStorage.setItem("postern.opened-app", "{");
  expect(wasClicked(HOST)).toBe(false);
});

test("without a storage the page asks", () => {
  vi.stubGlobal("localStorage", undefined);
  rememberClick(HOST);
  expect(wasClicked(HOST)).toBe(false);
});
