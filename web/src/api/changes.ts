// What changes at the gateway, as it happens: one event stream for all tabs of a browser, because browsers open only
// six connections to a host. One tab holds the stream and tells the others; each reads again what it shows.

import type { Query, QueryClient } from "@tanstack/react-query";
import { type Change, changeOf, everything, isAbout, SUBJECTS } from "../engines/live-queries";
import { canRead, timeSinceWrite } from "./client";

/** Milliseconds between two requests for what events keep current, in case an event is lost. */
export const FALLBACK_INTERVAL = 60_000;

/** Milliseconds in which what was read before it is shown is not read again; an event still has it read. */
export const JUST_READ = 5_000;

const STREAM = "/api/events/stream";
const LOCK = "postern changes";
const CHANNEL = "postern changes";
const GATHERED = 250; // milliseconds in which changes are gathered before pages read again
const BETWEEN = 2_000; // milliseconds between two rounds of reading
const LONGEST = 10_000; // milliseconds for which a round is waited for: some requests wait by themselves
const FIRST_PAUSE = 1_000; // milliseconds before the stream is opened again; each failure doubles it
const LONGEST_PAUSE = 60_000;

/** Keep the data of this tab current from now on. Call what this returns to stop. `position` is the gateway's place in
 * its changes before this tab read anything. */
export function followChanges(queries: QueryClient, position: string | null): () => void {
  const stop = new AbortController();
  const refresher = new Refresher(queries);
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = (event: MessageEvent<Change>) => refresher.add(event.data);
  const tell = (change: Change) => {
    if (stop.signal.aborted) return;
    channel.postMessage(change);
    refresher.add(change);
  };
  void lead(stop.signal, position, tell);
  return () => {
    stop.abort();
    channel.close();
  };
}

/** Wait until no other tab holds the stream, then hold it. */
async function lead(signal: AbortSignal, position: string | null, tell: (change: Change) => void): Promise<void> {
  const hold = () => new Promise<void>((resolve) => holdStream(signal, position, tell, resolve));
  // Browsers offer locks only to pages that came by HTTPS or from this machine. Without them, each tab has a stream.
  if (navigator.locks === undefined) return hold();
  await navigator.locks.request(LOCK, { signal }, hold).catch(() => {}); // it is stopped while it waits
}

function holdStream(
  signal: AbortSignal,
  position: string | null,
  tell: (change: Change) => void,
  onEnd: () => void,
): void {
  let stream: EventSource | null = null;
  let pause = FIRST_PAUSE;
  let timer = 0;
  const reopen = () => {
    stream?.close();
    clearTimeout(timer);
    timer = window.setTimeout(() => void reopenIfLoggedIn(), pause);
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  };
  const reopenIfLoggedIn = async () => {
    const session = await fetch("/api/login/session", { credentials: "same-origin" }).catch(() => null);
    await session?.text().catch(() => ""); // an answer that is not read keeps its connection
    if (signal.aborted) return;
    if (session?.ok) return open(null);
    if (session?.status === 401) tell({ subject: "login", id: null, session_id: null });
    reopen();
  };
  const open = (after: string | null) => {
    const opened = new EventSource(after === null ? STREAM : `${STREAM}?after=${encodeURIComponent(after)}`);
    let isContinued = after !== null; // the browser reconnects with the last event's position: then nothing is missed
    stream = opened;
    opened.addEventListener("ready", () => {
      pause = FIRST_PAUSE;
      if (!isContinued) tell(everything);
      isContinued = true;
    });
    opened.addEventListener("resync", () => tell(everything));
    opened.addEventListener("cut", reopen);
    opened.onerror = () => {
      if (opened.readyState === EventSource.CLOSED) reopen();
    };
    for (const subject of SUBJECTS)
      opened.addEventListener(subject, (event: MessageEvent<string>) => tell(changeOf(subject, event.data)));
  };
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    stream?.close();
    onEnd();
  });
  open(position);
}

/** Reads again what changes are about, in rounds: a busy gateway must not interrupt a request by the next one. */
class Refresher {
  private changes: Change[] = [];
  private isBusy = false;

  constructor(private readonly queries: QueryClient) {}

  add(change: Change): void {
    this.changes.push(change);
    if (!this.isBusy) void this.work();
  }

  private async work(): Promise<void> {
    this.isBusy = true;
    try {
      await pauseFor(GATHERED);
      await ownWrites();
      while (this.changes.length > 0) {
        await Promise.race([this.refresh(this.changes.splice(0)), pauseFor(LONGEST)]);
        await pauseFor(BETWEEN);
        await ownWrites();
      }
    } finally {
      this.isBusy = false;
    }
  }

  private async refresh(changes: Change[]): Promise<void> {
    if (!canRead()) return;
    if (changes.some(({ subject }) => subject === "login" || subject === "everything")) {
      await this.queries.invalidateQueries({ queryKey: ["user"] });
      if (!this.queries.getQueryData(["user"]) || !canRead()) return; // the login has ended
    }
    await this.queries.invalidateQueries({
      predicate: (query) => !isFixed(query) && changes.some((change) => isAbout(change, query.queryKey)),
      refetchType: document.hidden ? "none" : "active", // a hidden page reads again when it is looked at
    });
  }
}

/**
 * Wait until this page's own writes are answered, and it shows what comes after them: it would read again what it has
 * just deleted.
 */
async function ownWrites(): Promise<void> {
  const latest = performance.now() + LONGEST;
  while (timeSinceWrite() < GATHERED && performance.now() < latest) await pauseFor(GATHERED);
}

/** What never becomes old: records of what has ended, and what somebody is editing. */
function isFixed(query: Query): boolean {
  return query.observers.some(({ options }) => options.staleTime === Number.POSITIVE_INFINITY);
}

const pauseFor = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));
