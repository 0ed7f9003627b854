import { Link } from "@tanstack/react-router";
import type { Execution } from "../../api/scripts";
import { RunOutcome } from "../../parts/run-outcome";
import type { Runner } from "../../parts/use-run";
import { text } from "./messages";
import styles from "./sql.module.css";

interface Props<Request> {
  run: Runner<Request>;
  /** How many statements the script has. */
  statements: number;
}

/** What came of the run, with its session. */
export function Outcome<Request>({ run, statements }: Props<Request>) {
  return (
    <div className={styles.outcome}>
      <RunOutcome run={run} statements={statements} />
      {run.state && run.phase !== "waiting" && (
        <Summary state={run.state} hasResults={run.phase === "ended" && run.results !== null} />
      )}
    </div>
  );
}

function Summary({ state, hasResults }: { state: Execution; hasResults: boolean }) {
  const id = state.session_id;
  return (
    <p className={styles.summary}>
      {hasResults && text.took(state.execution_time)}{" "}
      {hasResults && (
        <a href={`/api/sessions/${id}/results?format=csv&safe=true`} download={`results-${id}.csv`}>
          {text.download}
        </a>
      )}{" "}
      <Link to="/sessions/$id" params={{ id }}>
        {text.session}
      </Link>
    </p>
  );
}
