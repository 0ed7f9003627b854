import { duration, exactTime } from "../../engines/times";
import { language } from "../../messages";
import { common } from "../../messages/common";
import type { SessionFilter } from "./filters";
import { text } from "./messages";

const YES_OR_NO = { yes: common.yes, no: common.no };

/** The words of the values that can be chosen. */
export const CHOICE_WORDS = {
  type: text.filter.types,
  verb: common.verbs,
  status: text.list.statuses,
  end_reason: text.filter.endReasons,
  review: common.reviewStatuses,
  refused: YES_OR_NO,
  masked: YES_OR_NO,
  held: YES_OR_NO,
} as const satisfies Partial<Record<SessionFilter, Record<string, string>>>;

/** Return a value of a filter in words. */
export function wordsOf(name: SessionFilter, value: string): string {
  if (name === "start_date" || name === "end_date") return exactTime(value, language);
  if (name === "min_duration" || name === "max_duration") return duration(Number(value), language) || value;
  const words: Record<string, string> | undefined = name in CHOICE_WORDS ? CHOICE_WORDS[name as "type"] : undefined;
  return words?.[value] ?? value;
}
