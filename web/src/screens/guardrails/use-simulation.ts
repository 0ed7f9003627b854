import { useCallback, useEffect, useRef, useState } from "react";
import { api, unwrap } from "../../api/client";
import { readLines } from "../../api/lines";
import type { components, operations } from "../../api/schema";

export type Simulation = operations["simulate_draft"]["responses"][200]["content"]["application/x-ndjson"];
export type SimulationRequest = components["schemas"]["SimulationRequest"];

/** One run: of the rules in the form, and of the saved ones if they are compared. */
export interface SimulationRun {
  draft: Simulation | null;
  saved: Simulation | null;
  isRunning: boolean;
  error: Error | null;
}

const IDLE: SimulationRun = { draft: null, saved: null, isRunning: false, error: null };

/** Simulate rules on recorded sessions, with progress. Leaving the page or stopping ends it at the gateway, too. */
export function useSimulation() {
  const [run, setRun] = useState(IDLE);
  const current = useRef<AbortController | null>(null);
  const stop = useCallback(() => {
    current.current?.abort();
    current.current = null;
    setRun((before) => ({ ...before, isRunning: false }));
  }, []);

  const start = useCallback((body: SimulationRequest, savedId: string | null) => {
    current.current?.abort();
    const controller = new AbortController();
    current.current = controller;
    const { signal } = controller;
    const show = (part: Partial<SimulationRun>) => {
      if (!signal.aborted) setRun((before) => ({ ...before, ...part }));
    };
    setRun({ ...IDLE, isRunning: true });
    const work = async () => {
      const draft = unwrap(api.POST("/api/guardrails/simulate", { body, parseAs: "stream", signal }));
      for await (const line of readLines<Simulation>(await streamOf(draft))) show({ draft: line });
      if (savedId !== null) {
        const params = { path: { nameOrID: savedId } };
        const rest = { ...body, guardrail: null };
        const saved = unwrap(
          api.POST("/api/guardrails/{nameOrID}/simulate", { params, body: rest, parseAs: "stream", signal }),
        );
        for await (const line of readLines<Simulation>(await streamOf(saved))) show({ saved: line });
      }
    };
    work()
      .catch((error: Error) => show({ error }))
      .finally(() => show({ isRunning: false }));
  }, []);

  useEffect(() => () => current.current?.abort(), []);
  return { run, start, stop };
}

async function streamOf(answer: Promise<unknown>): Promise<ReadableStream<Uint8Array>> {
  return (await answer) as ReadableStream<Uint8Array>;
}
