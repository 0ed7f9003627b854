const DAY = 86_400;

/** How long something new is valid; `keep` leaves it as it is, `ever` sets no limit. */
export type Lifetime = "keep" | "month" | "quarter" | "year" | "ever";

const SECONDS: Record<Lifetime, number | null> = {
  keep: null,
  month: 30 * DAY,
  quarter: 90 * DAY,
  year: 365 * DAY,
  ever: null,
};

export function secondsOf(lifetime: Lifetime): number | null {
  return SECONDS[lifetime];
}

/** Return seconds as whole days, and back; null is a default. */
export const toDays = (seconds: number | null | undefined) => (seconds ? Math.round(seconds / DAY) : null);
export const fromDays = (days: number | null) => (days === null ? null : days * DAY);
