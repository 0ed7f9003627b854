import { expect, test } from "vitest";
import { addDays, dayAt, daysBetween, endOfDay, isDate, isZone, startOfDay } from "./periods";

test.each([
  ["2026-01-31", "UTC", "2026-01-31T00:00:00.000Z"],
  ["2026-01-31", "Europe/Berlin", "2026-01-30T23:00:00.000Z"],
  ["2026-07-01", "Europe/Berlin", "2026-06-30T22:00:00.000Z"],
  ["2026-03-30", "Europe/Berlin", "2026-03-29T22:00:00.000Z"], // the day after the clock changed
  ["2026-01-31", "Asia/Kolkata", "2026-01-30T18:30:00.000Z"],
  ["2026-01-31", "America/Los_Angeles", "2026-01-31T08:00:00.000Z"],
])("%s in %s begins at %s", (date, zone, instant) => {
  expect(startOfDay(date, zone)).toBe(instant);
});

test("a day of 25 hours ends when the next begins", () => {
  expect(endOfDay("2026-10-25", "Europe/Berlin")).toBe("2026-10-25T22:59:59.999Z");
});

test("days are counted and moved over the ends of months", () => {
  expect(addDays("2026-02-28", 1)).toBe("2026-03-01");
  expect(daysBetween("2026-02-28", "2026-03-01")).toBe(2);
  expect(dayAt(Date.parse("2026-01-01T02:00:00Z"), "America/New_York")).toBe("2025-12-31");
});

test.each(["2026-13-01", "31.1.2026", "", 7, "2026-01-01T00:00"])("%j is not a date", (text) => {
  expect(isDate(text)).toBe(false);
});

test("only zones that exist are zones", () => {
  expect(isZone("Europe/Berlin")).toBe(true);
  expect(isZone("Mars/Base")).toBe(false);
});
