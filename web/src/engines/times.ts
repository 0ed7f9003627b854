// Times and durations in the reader's language and time zone.

import { once } from "./once";

const DAY = 86_400; // seconds

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", DAY],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];

const relative = once((language) => new Intl.RelativeTimeFormat(language, { numeric: "auto" }));
const exact = once((language) => new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "long" }));
const list = once((language) => new Intl.ListFormat(language, { type: "unit" }));
const units = once((language, unit) => new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "short" }));

/**
 * Return how far a time is from `now`: "2 hours ago", "in 5 minutes". Days are counted from two on: 30 hours can end
 * tomorrow, or on the day after.
 */
export function relativeTime(iso: string, now: number, language: string): string {
  const seconds = (Date.parse(iso) - now) / 1_000;
  const isFit = (size: number) => Math.abs(seconds) >= (size === DAY ? 2 * DAY : size);
  const [unit, size] = UNITS.find(([, size]) => isFit(size)) ?? ["second", 1];
  return relative(language).format(Math.round(seconds / size), unit);
}

/** Return a time to the second with its zone, for tooltips and details. */
export function exactTime(iso: string, language: string): string {
  return exact(language).format(new Date(iso));
}

/** Return a time with its day of the week as the clocks of a zone show it, and the name of the zone's time. */
export function zonedTime(iso: string, timeZone: string, language: string): string {
  return new Intl.DateTimeFormat(language, {
    ...({ weekday: "long", day: "numeric", month: "long", year: "numeric" } as const),
    ...({ hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short", timeZone } as const),
  }).format(new Date(iso));
}

/** Return a duration in seconds as the largest units that say it: "2 hr, 30 min". */
export function duration(seconds: number, language: string): string {
  const parts = [];
  let rest = seconds;
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count) parts.push(units(language, unit).format(count));
  }
  return list(language).format(parts);
}

/** Return milliseconds as a player shows them: "1:05", or "1:02:03" from an hour on. */
export function clockTime(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1_000);
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60];
  const parts = hours ? [String(hours), String(minutes).padStart(2, "0")] : [String(minutes)];
  return [...parts, String(seconds % 60).padStart(2, "0")].join(":");
}

/** Return an instant as a field for date and time has it, by the clocks of the browser: "2026-01-31T09:30". */
export function localMinute(iso: string): string {
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return "";
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** Return the instant that a field for date and time says; "" for what is none. */
export function instantOf(local: string): string {
  const time = new Date(local);
  return Number.isNaN(time.getTime()) ? "" : time.toISOString();
}
