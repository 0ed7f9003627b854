import { useCallback, useEffect, useRef, useState } from "react";
import { continueScript, type Execution, followScript, readResults, type StatementResult } from "../api/scripts";
import { nextStep } from "../engines/run";

/**
 * How far a run is. `approved`: it was approved before this page followed it, and runs once the user says so.
 * `refused`: it never ran, as its review was rejected, withdrawn, or has expired.
 */
export type Phase = "none" | "starting" | "running" | "waiting" | "approved" | "ended" | "refused";

export interface Run {
  phase: Phase;
  state: Execution | null;
  /** Results of statements; null for a command, which prints a text. */
  results: StatementResult[] | null;
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
const NOTHING: Run = { phase: "none", state: null, results: null, error: null };
const BUSY = new Set<Phase>(["starting", "running", "waiting"]);

/** Run what `send` sends, one at a time. A run that waits for a review continues once that is approved. */
export function useRun<Request>(send: (request: Request) => Promise<Execution>): Runner<Request> {
  const [run, setRun] = useState(NOTHING);
  const current = useRef<{ session: string } | null>(null);

  const begin = useCallback((own: { session: string }, first: Promise<Execution>, isAsked: boolean) => {
    current.current = own;
    const isCurrent = () => current.current === own;
    const set = (part: Partial<Run>) => isCurrent() && setRun((before) => ({ ...before, ...part }));
    setRun({ ...NOTHING, phase: "starting" });
    follow(first, isAsked, isCurrent, set).catch((error: Error) => set({ error, phase: "ended" }));
  }, []);

  const start = useCallback(
    (request: Request, onBegun?: (session: string) => void) => {
      const own = { session: "" };
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
      if (current.current?.session !== session) begin({ session }, followScript(session, 0), false);
    },
    [begin],
  );

  const proceed = useCallback((session: string) => begin({ session }, continueScript(session), true), [begin]);

  useEffect(
    () => () => {
      current.current = null; // the page was left: its run is no longer followed, nor started after an approval
    },
    [],
  );

  return { ...run, isBusy: BUSY.has(run.phase), start, resume, proceed };
}

/** `isAsked`: whether the user wants it to run as soon as it can; who only opens a link does not. */
async function follow(
  first: Promise<Execution>,
  isAsked: boolean,
  isCurrent: () => boolean,
  set: (part: Partial<Run>) => void,
) {
  let state = await first;
  let waited = isAsked;
  while (isCurrent()) {
    const step = nextStep(state);
    if (step === "over") return set({ state, phase: "refused" });
    if (step === "results") return set({ state, results: await resultsOf(state), phase: "ended" });
    if (step === "continue" && !waited) return set({ state, phase: "approved" });
    waited = true;
    set({ state, phase: state.output_status === "waiting" ? "waiting" : "running" });
    await new Promise((resolve) => setTimeout(resolve, BETWEEN));
    if (!isCurrent()) return;
    state = await (step === "continue" ? continueScript : followScript)(state.session_id);
  }
}

function resultsOf(state: Execution): Promise<StatementResult[]> | null {
  return isCommand(state) ? null : readResults(state.session_id);
}

/** Whether it ran a command, which has streams, instead of statements. */
export function isCommand({ stdout }: Execution): boolean {
  return stdout !== null && stdout !== undefined;
}
