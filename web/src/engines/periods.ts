// Periods of whole days, in a time zone. A day is a text such as 2026-01-31.

const DAY = 86_400_000;
const DATE = /^\d{4}-\d{2}-\d{2}$/;

export function isDate(text: unknown): text is string {
  return typeof text === "string" && DATE.test(text) && !Number.isNaN(Date.parse(text));
}

export function isZone(text: unknown): text is string {
  if (typeof text !== "string" || text === "") return false;
  try {
    return Boolean(new Intl.DateTimeFormat("en", { timeZone: text }));
  } catch {
    return false;
  }
}

/** Return the time zone of the browser. */
export function ownZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
}

/** Return the day at this time in the zone. */
export function dayAt(time: number, zone: string): string {
  const parts = partsAt(time, zone);
  return `${parts.year}-${parts.month}-${parts.day}`;
}

export function addDays(date: string, days: number): string {
  return new Date(Date.parse(date) + days * DAY).toISOString().slice(0, 10);
}

/** Return how many days a period has; both days are part of it. */
export function daysBetween(first: string, last: string): number {
  return Math.round((Date.parse(last) - Date.parse(first)) / DAY) + 1;
}

/** Return the instant at which a day begins in the zone. */
export function startOfDay(date: string, zone: string): string {
  const midnight = Date.parse(date);
  // The offset at the guess can differ from that at the result, if the clock changes between them.
  const guess = midnight - offsetAt(midnight, zone);
  return new Date(midnight - offsetAt(guess, zone)).toISOString();
}

/** Return the last millisecond of a day in the zone. */
export function endOfDay(date: string, zone: string): string {
  return new Date(Date.parse(startOfDay(addDays(date, 1), zone)) - 1).toISOString();
}

function offsetAt(time: number, zone: string): number {
  const { year, month, day, hour, minute, second } = partsAt(time, zone);
  return Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`) - Math.floor(time / 1_000) * 1_000;
}

function partsAt(time: number, timeZone: string) {
  const format = new Intl.DateTimeFormat("en-CA", {
    timeZone,
    hourCycle: "h23",
    ...({ year: "numeric", month: "2-digit", day: "2-digit" } as const),
    ...({ hour: "2-digit", minute: "2-digit", second: "2-digit" } as const),
  });
  const part = Object.fromEntries(format.formatToParts(time).map(({ type, value }) => [type, value]));
  return part as Record<"year" | "month" | "day" | "hour" | "minute" | "second", string>;
}
