import { expect, test } from "vitest";
import { preferencesOf, togglePin, withPreferences } from "./preferences";

const A = "0b7e7a52-0000-4000-8000-000000000001";
const B = "0b7e7a52-0000-4000-8000-000000000002";

test("what is missing or unknown is the default", () => {
  const blank = preferencesOf({});
  expect(blank).toEqual({
    theme: "system",
    density: "comfortable",
    hasLetterKeys: true,
    pins: [],
    isJourneyDismissed: false,
    views: {},
  });
  const odd = { theme: "<b>", density: 3, letter_keys: "no", pins: [A, "x", null, A], journey_dismissed: 1 };
  expect(preferencesOf({ web: odd })).toEqual({ ...blank, pins: [A] });
  expect(preferencesOf({ web: [] })).toEqual(blank);
});

test("a change keeps what others have stored", () => {
  const stored = { cli: { color: true }, web: { theme: "dark", later: 1 } };
  const changed = withPreferences(stored, { density: "compact" });
  expect(changed).toMatchObject({ cli: { color: true }, web: { theme: "dark", density: "compact", later: 1 } });
  expect(preferencesOf(changed)).toEqual({ ...preferencesOf(stored), density: "compact" });
});

test("saved views are part of them", () => {
  const views = { sessions: [{ name: "Open", search: { status: "open" } }] };
  const changed = withPreferences({ web: { theme: "dark" } }, { views });
  expect(preferencesOf(changed)).toMatchObject({ theme: "dark", views });
});

test("a pin is added at the end, and taken away the second time", () => {
  expect(togglePin([A], B)).toEqual([A, B]);
  expect(togglePin([A, B], A)).toEqual([B]);
});
