import { useCallback, useEffect, useRef, useState } from "react";
import { continueScript, type Execution, followResults, followScript, readResults } from "../api/scripts";
import { type Progress, ResultStream, type ShownResult } from "../engines/results";
import { nextStep } from "../engines/run";

/**
 * How far a run is. `approved`: it was approved before this page followed it, and runs once the user says so.
 * `refused`: it never ran, as its review was rejected, withdrawn, or has expired.
 */
export type Phase = "none" | "starting" | "running" | "waiting" | "approved" | "ended" | "refused";

export interface Run {
  phase: Phase;
  state: Execution | null;
  /** Results of statements, growing while they run; null for a command, which prints a text. */
  results: ShownResult[] | null;
  /** How far its statements are, if that is followed. */
  progress: Progress | null;
  error: Error | null;
}

export interface Runner<Request> extends Run {
  isBusy: boolean;
  /** `onBegun` gets the session of the run. */
  start: (request: Request, onBegun?: (session: string) => void) => void;
  /** Follow a run that was started before, as after a reload. */
  resume: (session: string) => void;
  /** Run what is approved. */
  proceed: (session: string) => void;
}

const BETWEEN = 1_000; // milliseconds between two requests
const NOTHING: Run = { phase: "none", state: null, results: null, progress: null, error: null };
const BUSY = new Set<Phase>(["starting", "running", "waiting"]);

interface Followed {
  session: string;
  stop: AbortController;
}

/** Whether rows of a run are shown while they come: known from the start, or asked for each session. */
type ShowsRows = boolean | ((session: string) => Promise<boolean>);

/**
 * Run what `send` sends, one at a time. A run that waits for a review continues once that is approved. `showsRows`: it
 * runs statements on a database, whose rows are shown while they come. Give the same function at each call.
 */
export function useRun<Request>(
  send: (request: Request) => Promise<Execution>,
  showsRows: ShowsRows = false,
): Runner<Request> {
  const [run, setRun] = useState(NOTHING);
  const current = useRef<Followed | null>(null);

  const begin = useCallback(
    (own: Followed, first: Promise<Execution>, isAsked: boolean) => {
      current.current?.stop.abort();
      current.current = own;
      const { signal } = own.stop;
      const set = (part: Partial<Run>) => {
        if (!signal.aborted) setRun((before) => ({ ...before, ...part }));
      };
      setRun({ ...NOTHING, phase: "starting" });
      follow(first, { isAsked, showsRows, signal, set }).catch((error: Error) => set({ error, phase: "ended" }));
    },
    [showsRows],
  );

  const start = useCallback(
    (request: Request, onBegun?: (session: string) => void) => {
      const own = followed("");
      const first = send(request).then((state) => {
        own.session = state.session_id;
        if (current.current === own) onBegun?.(own.session);
        return state;
      });
      begin(own, first, true);
    },
    [begin, send],
  );

  const resume = useCallback(
    (session: string) => {
      if (current.current?.session !== session) {
        begin(followed(session), followScript(session, 0), false);
      }
    },
    [begin],
  );

  const proceed = useCallback(
    (session: string) => {
      const first = hasRows(showsRows, session).then((atOnce) => continueScript(session, atOnce));
      begin(followed(session), first, true);
    },
    [begin, showsRows],
  );

  useEffect(
    () => () => {
      current.current?.stop.abort(); // the page was left: its run is no longer followed, nor started after an approval
    },
    [],
  );

  return { ...run, isBusy: BUSY.has(run.phase), start, resume, proceed };
}

function followed(session: string): Followed {
  return { session, stop: new AbortController() };
}

async function hasRows(showsRows: ShowsRows, session: string): Promise<boolean> {
  return typeof showsRows === "boolean" ? showsRows : showsRows(session);
}

interface Following {
  /** Whether the user wants it to run as soon as it can; who only opens a link does not. */
  isAsked: boolean;
  showsRows: ShowsRows;
  /** Aborted when the page was left, or follows another run. */
  signal: AbortSignal;
  set: (part: Partial<Run>) => void;
}

async function follow(first: Promise<Execution>, { isAsked, showsRows, signal, set }: Following) {
  let state = await first;
  let waited = isAsked;
  let results: ShownResult[] | null = null;
  let isStreamed: boolean | null = null; // not known yet
  while (!signal.aborted) {
    const step = nextStep(state);
    if (step === "over") return set({ state, phase: "refused" });
    if (step === "results") return set({ state, results: results ?? (await resultsOf(state)), phase: "ended" });
    if (step === "continue" && !waited) return set({ state, phase: "approved" });
    waited = true;
    set({ state, phase: state.output_status === "waiting" ? "waiting" : "running" });
    isStreamed ??= await hasRows(showsRows, state.session_id);
    if (isStreamed && state.output_status === "running") {
      results = await rowsOf(state.session_id, signal, set);
    } else {
      await new Promise((resolve) => setTimeout(resolve, BETWEEN));
    }
    if (signal.aborted) return;
    const id = state.session_id;
    state = await (step === "continue" ? continueScript(id, isStreamed) : followScript(id));
  }
}

/** Show the rows of a script as they come: the first at once, then at most once for each frame. Return all of them. */
async function rowsOf(session: string, signal: AbortSignal, set: Following["set"]): Promise<ShownResult[]> {
  const stream = new ResultStream();
  let frame = 0;
  let hasRows = false;
  const show = () => {
    frame = 0;
    set({ results: stream.shown(), progress: stream.progress });
  };
  const onLine = () => {
    if (stream.from > 0 && !hasRows) {
      hasRows = true;
      show();
    } else if (frame === 0) frame = requestAnimationFrame(show);
  };
  try {
    await followResults(session, stream, onLine, signal);
  } finally {
    cancelAnimationFrame(frame);
    show(); // what has come stays, also after an error
  }
  return stream.shown();
}

function resultsOf(state: Execution): Promise<ShownResult[]> | null {
  return isCommand(state) ? null : readResults(state.session_id);
}

/** Whether it ran a command, which has streams, instead of statements. */
export function isCommand({ stdout }: Execution): boolean {
  return stdout !== null && stdout !== undefined;
}
