import { useEffect, useState } from "react";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { addLines } from "../../engines/log-lines";
import type { LogSearch } from "./levels";

export type LogLine = components["schemas"]["LogLineAnswer"];
export type LogState = "connecting" | "live" | "lost" | "ended";

export const MOST = 2_000; // lines that the page keeps
const FIRST = 200;
const AT_ONCE = 250; // milliseconds that new lines are collected before the page shows them

export interface Log {
  lines: LogLine[];
  state: LogState;
  error: Error | null;
}

/** Follow the server's log: its last lines, then new ones. The stream is opened first, so that no line is missed. */
export function useLog({ level, process }: LogSearch): Log {
  const [log, setLog] = useState<Log>({ lines: [], state: "connecting", error: null });
  useEffect(() => {
    setLog({ lines: [], state: "connecting", error: null });
    const query = { ...(level && { level }), ...(process && { process }) };
    const add = (lines: LogLine[]) => setLog((log) => ({ ...log, lines: addLines(log.lines, lines, MOST) }));
    const set = (part: Partial<Log>) => setLog((log) => ({ ...log, ...part }));
    let collected: LogLine[] = [];
    const timer = setInterval(() => {
      if (collected.length > 0) add(collected);
      collected = [];
    }, AT_ONCE);
    const stream = new EventSource(`/api/server-logs/stream?${new URLSearchParams(query)}`);
    stream.addEventListener("log", (event) => collected.push(JSON.parse(event.data) as LogLine));
    stream.onopen = () => {
      set({ state: "live" });
      readLast(query).then(add, (error: Error) => set({ error }));
    };
    stream.onerror = () => {
      const isOver = stream.readyState === EventSource.CLOSED;
      set({ state: isOver ? "ended" : "lost" });
      if (isOver) readLast(query).then(add, (error: Error) => set({ error }));
    };
    return () => {
      clearInterval(timer);
      stream.close();
    };
  }, [level, process]);
  return log;
}

async function readLast(query: LogSearch): Promise<LogLine[]> {
  return (await unwrap(api.GET("/api/server-logs", { params: { query: { ...query, limit: FIRST } } }))).data;
}
