// The states of one run of a script, also of one that needs a review: a state in, the next step out.

/** The fields of an answer that decide the next step. */
export interface RunState {
  output_status: "success" | "failed" | "running" | "waiting";
  exit_code: number | null;
  review: { status: string; outcome: string | null } | null;
}

const NEVER_RAN = new Set(["rejected", "revoked", "expired", "withdrawn", "unused"]);

/**
 * `follow`: it runs, or waits for a decision; ask again. `continue`: its review is approved; run it. `results`: it has
 * ended, well or not. `over`: it never ran.
 */
export type Step = "follow" | "continue" | "results" | "over";

/** Return the next step after this state of a run. */
export function nextStep(state: RunState): Step {
  if (state.output_status === "running") return "follow";
  if (state.output_status === "success") return "results";
  if (state.output_status === "failed") return NEVER_RAN.has(state.review?.outcome ?? "") ? "over" : "results";
  switch (state.review?.status) {
    case "APPROVED":
      return "continue";
    case "PENDING":
    case "PROCESSING":
      return "follow";
    default:
      return "over";
  }
}
