// Recorded terminals: read page by page, or live while their session is open.

import type { RecordedEvent } from "../engines/replay/recording";
import { api, unwrap } from "./client";

const FIRST_PAGE = 100; // events: a replay shows its first picture soon
const PAGE = 10_000; // the gateway looks for the place of a page from the beginning of its file: fewer pages, less work

interface Page {
  events: RecordedEvent[];
  /** Of the next page, if there is one. */
  cursor: string | undefined;
}

let ahead: { id: string; page: Promise<Page> } | null = null;

/** Read the first page of a recorded terminal while the code of the replay is loaded. Returns what gives it up. */
export function readAhead(id: string): () => void {
  const stop = new AbortController();
  const own = { id, page: readPage(id, undefined, stop.signal) };
  own.page.catch(() => {}); // whoever takes it says what failed
  ahead = own;
  return () => {
    stop.abort();
    if (ahead === own) ahead = null;
  };
}

/** Read the events of a recorded terminal, a page at a time. */
export async function* readEvents(id: string, signal: AbortSignal): AsyncGenerator<RecordedEvent[]> {
  let pending = ahead?.id === id ? ahead.page : readPage(id, undefined, signal);
  ahead = null;
  while (!signal.aborted) {
    const { events, cursor } = await pending;
    yield events;
    if (cursor === undefined) return;
    pending = readPage(id, cursor, signal);
  }
}

async function readPage(id: string, cursor: string | undefined, signal: AbortSignal): Promise<Page> {
  const query = {
    expand: ["event_stream"],
    events: ["o", "e", "r"],
    limit: cursor ? PAGE : FIRST_PAGE,
    ...(cursor && { cursor }),
  };
  const pending = api.GET("/api/sessions/{session_id}", { params: { path: { session_id: id }, query }, signal });
  const session = (await unwrap(pending)) as { event_stream: RecordedEvent[] | null };
  const next = (await pending).response.headers.get("Next-Cursor") ?? undefined;
  return { events: session.event_stream ?? [], cursor: next };
}

interface WatchHandlers {
  onEvents: (events: RecordedEvent[]) => void;
  /** The session ended. */
  onEnd: () => void;
  /** Watching ended before the session did. */
  onCut: (reason: string) => void;
}

/** Watch a session; call what this returns to stop. */
export function watchSession(id: string, { onEvents, onEnd, onCut }: WatchHandlers): () => void {
  const source = new EventSource(`/api/sessions/${encodeURIComponent(id)}/stream`);
  const take = (message: MessageEvent<string>) => {
    const event = JSON.parse(message.data) as { time: number; type: string; payload: string };
    onEvents([[event.time, event.type, event.payload]]);
  };
  source.addEventListener("event", take);
  source.addEventListener("size", take);
  source.addEventListener("session_end", () => {
    source.close();
    onEnd();
  });
  source.addEventListener("cut", (message: MessageEvent<string>) => {
    source.close();
    onCut(String((JSON.parse(message.data) as { reason?: unknown }).reason ?? ""));
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) onCut("");
  });
  return () => source.close();
}
