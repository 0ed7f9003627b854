import { expect, test } from "vitest";
import { durationsUpTo, firstDuration, timeWindow } from "./access-times";

test("durations end with the longest allowed one", () => {
  expect(durationsUpTo(7_200)).toEqual([1_800, 3_600, 7_200]);
  expect(durationsUpTo(3_600)).toEqual([1_800, 3_600]);
  expect(durationsUpTo(60)).toEqual([60]);
  expect(durationsUpTo(null).at(-1)).toBe(48 * 3_600);
  expect([firstDuration(null), firstDuration(600), firstDuration(86_400)]).toEqual([3_600, 600, 3_600]);
});

test("a window needs both times", () => {
  expect(timeWindow({ start: "22:00", end: "06:30", zone: "Europe/Berlin" })?.configuration).toEqual({
    start_time: "22:00",
    end_time: "06:30",
    time_zone: "Europe/Berlin",
  });
  expect(timeWindow({ start: "22:00", end: "", zone: "" })).toBeNull();
  expect(timeWindow({ start: "25:00", end: "06:00", zone: "" })).toBeNull();
});
