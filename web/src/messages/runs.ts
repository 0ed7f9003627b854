import { common } from "./common";
import { counted } from "./index";

/** Words about a script that runs, waits for a review, or has ended. */
export const runs = {
  starting: "Starting…",
  running: "Running…",
  /** `all`: how many statements the script has, if that is known. */
  progress: (done: number, all: number, count: number) =>
    `Statement ${done + 1}${all > done ? ` of ${all}` : ""}, ${counted(common.rowsSoFar, count)}.`,
  held: (groups: string[]) => `This script waits for approval by ${groups.join(", ")}.`,
  continues: "Keep this page open: the script runs here as soon as it is approved.",
  statementHeld: (groups: string[]) => `A statement of this script waits for approval by ${groups.join(", ")}.`,
  statementContinues: "The script goes on here once it is approved. If it is rejected, the statement does not run.",
  approved: "This script is approved, and has not run yet.",
  proceed: "Run approved script",
  openReview: "Open the review",
  withdraw: "Withdraw",
  notApproved: (state: string) => `This script did not run. Its review: ${state.toLowerCase()}.`,
};
