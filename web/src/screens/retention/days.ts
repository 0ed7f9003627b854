import { counted } from "../../messages";
import { text } from "./messages";

export function daysText(days: number | null): string {
  return days === null ? text.forever : counted(text.days, days);
}

export function keptText({ recording_days, session_days }: Days): string {
  return text.policy.kept(daysText(recording_days), daysText(session_days));
}

/** Days until the recording and the session's row are purged; null is never. */
export interface Days {
  recording_days: number | null;
  session_days: number | null;
}
