import { addDays, dayAt, endOfDay, isDate, isZone, startOfDay } from "../../engines/periods";
import { choiceOf, textsOf } from "../../engines/search";

export const INTERVALS = ["hour", "day", "week", "month"] as const;
export type Interval = (typeof INTERVALS)[number];
export const MASKED_BY = ["connection", "user", "type", "verb"] as const;
export type MaskedBy = (typeof MASKED_BY)[number];

/** What a report is about; the address says it, so that others see the same. */
export interface ReportSearch {
  /** First and last day; without them the last 30 days. */
  from?: string;
  to?: string;
  /** Time zone of the days; without it UTC. */
  zone?: string;
  connection?: string;
  user?: string;
  by?: Interval;
  group?: MaskedBy;
}

export type ReportFilter = "from" | "to" | "zone" | "connection" | "user";

const DEFAULT_DAYS = 30;

export function reportSearch(search: Record<string, unknown>): ReportSearch {
  const { from, to, zone, ...texts } = textsOf(search, ["from", "to", "zone", "connection", "user"]);
  return {
    ...texts,
    ...(isDate(from) && { from }),
    ...(isDate(to) && { to }),
    ...(isZone(zone) && { zone }),
    ...choiceOf(search, "by", INTERVALS),
    ...choiceOf(search, "group", MASKED_BY),
  };
}

export interface Period {
  from: string;
  to: string;
  zone: string;
}

export function periodOf({ from, to, zone = "UTC" }: ReportSearch, now = Date.now()): Period {
  const last = to ?? dayAt(now, zone);
  return { from: from ?? addDays(last, 1 - DEFAULT_DAYS), to: last, zone };
}

/** Return the last days up to today as parts of an address. */
export function lastDays(days: number, { zone = "UTC" }: ReportSearch, now = Date.now()): ReportSearch {
  const to = dayAt(now, zone);
  return { from: addDays(to, 1 - days), to };
}

/** Return the query of the API for a period. Its last day is the day after. */
export function periodQuery({ from, to, zone }: Period) {
  return { start_date: from, end_date: addDays(to, 1), time_zone: zone };
}

/** Return the same period for the list of sessions, as instants. */
export function sessionsIn({ from, to, zone }: Period) {
  return { start_date: startOfDay(from, zone), end_date: endOfDay(to, zone) };
}
