// For how long, and at which hours, a user asks for access.

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const LONGEST = 48 * HOUR; // the gateway gives no more
const USUAL = [30 * MINUTE, HOUR, 4 * HOUR, 8 * HOUR, 24 * HOUR];
const CLOCK = /^([01]\d|2[0-3]):[0-5]\d$/;

/** Return durations in seconds to choose from, the longest allowed one among them. Null: no rule limits it. */
export function durationsUpTo(allowed: number | null): number[] {
  const longest = Math.min(allowed ?? LONGEST, LONGEST);
  return [...USUAL.filter((seconds) => seconds < longest), longest];
}

/** Return the duration that is chosen at first: an hour, or less if less is allowed. */
export function firstDuration(longest: number | null): number {
  return longest === null ? HOUR : Math.min(HOUR, longest);
}

export interface Hours {
  start: string;
  end: string;
  zone: string;
}

/** Return the time window as the gateway takes it; null while a time is missing. */
export function timeWindow({ start, end, zone }: Hours) {
  if (!CLOCK.test(start) || !CLOCK.test(end)) return null;
  const configuration = { start_time: start, end_time: end, time_zone: zone.trim() || "UTC" };
  return { type: "time_range" as const, configuration };
}
