import { useSyncExternalStore } from "react";
import { exactTime, relativeTime } from "../engines/times";
import { language } from "../messages";

const TICK = 10_000; // milliseconds

/** A time, relative to now; the exact one is in its tooltip, or in its place where records are compared. */
export function Time({ at, isExact = false }: { at: string; isExact?: boolean }) {
  const exact = exactTime(at, language);
  return (
    <time dateTime={at} title={exact}>
      {isExact ? exact : <Relative at={at} />}
    </time>
  );
}

function Relative({ at }: { at: string }) {
  useSyncExternalStore(followClock, tickNow);
  return relativeTime(at, Date.now(), language);
}

const followers = new Set<() => void>();
let ticks = 0;
let timer: ReturnType<typeof setInterval> | undefined;

/** One clock for all times on the page, so that they stay true while nothing else changes. */
function followClock(onTick: () => void): () => void {
  followers.add(onTick);
  timer ??= setInterval(tick, TICK);
  return () => {
    followers.delete(onTick);
    if (followers.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

function tick(): void {
  ticks += 1;
  for (const follower of followers) follower();
}

function tickNow(): number {
  return ticks;
}
