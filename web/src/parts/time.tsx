import { exactTime, relativeTime } from "../engines/times";
import { language } from "../messages";

/** A time, relative to now; the exact one is in its tooltip, or in its place where records are compared. */
export function Time({ at, isExact = false }: { at: string; isExact?: boolean }) {
  const exact = exactTime(at, language);
  return (
    <time dateTime={at} title={exact}>
      {isExact ? exact : relativeTime(at, Date.now(), language)}
    </time>
  );
}
