import { expect, test } from "vitest";
import { clockTime, duration, instantOf, localMinute, relativeTime, zonedTime } from "./times";

test.each([
  [0, "0:00"],
  [65_400, "1:05"],
  [3_723_000, "1:02:03"],
])("%i ms are %s on a player", (milliseconds, shown) => {
  expect(clockTime(milliseconds)).toBe(shown);
});

test("times are said relative to now, durations in their largest units", () => {
  const now = Date.parse("2026-11-28T12:00:00Z");
  expect(relativeTime("2026-11-28T10:00:00Z", now, "en")).toBe("2 hours ago");
  expect(relativeTime("2026-11-28T12:05:00Z", now, "en")).toBe("in 5 minutes");
  expect(relativeTime("2026-11-29T16:00:00Z", now, "en")).toBe("in 28 hours");
  expect(relativeTime("2026-11-25T12:00:00Z", now, "en")).toBe("3 days ago");
  expect(duration(9_000, "en")).toBe("2 hr, 30 min");
});

test("a time is said by the clocks of its zone", () => {
  expect(zonedTime("2026-11-30T01:30:00Z", "Europe/Berlin", "en")).toMatch(/Monday, November 30, 2026.* 02:30 GMT\+1$/);
  expect(zonedTime("2026-11-30T01:30:00Z", "UTC", "en")).toMatch(/ 01:30 UTC$/);
});

test("an instant becomes the local minute of a field, and back", () => {
  const local = localMinute("2026-01-31T09:30:15.000Z");
  expect(local).toMatch(/^2026-0[12]-\d\dT\d\d:\d\d$/);
  expect(instantOf(local)).toBe("2026-01-31T09:30:00.000Z");
  expect(localMinute("soon")).toBe("");
  expect(instantOf("")).toBe("");
});
