import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type Execution, stopScript } from "../../api/scripts";
import { outputParts } from "../../engines/runbooks";
import { Button } from "../../parts/button";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { RunOutcome } from "../../parts/run-outcome";
import { Section } from "../../parts/section";
import { isCommand, type Phase, type Runner } from "../../parts/use-run";
import { Code } from "./code";
import { text } from "./messages";
import styles from "./runbooks.module.css";

/** What came of a run: rows or text, an error where it happened, or whom it waits for. */
export function Outcome<Request>({ run }: { run: Runner<Request> }) {
  const { phase, state, results } = run;
  if (phase === "none") return null;
  const hasPrinted = results === null || (results.length === 0 && !state?.error && state?.output);
  return (
    <Section title={text.run.outcome}>
      <div className={styles.outcome}>
        <RunOutcome run={run} />
        {phase === "running" && state && <Stop id={state.session_id} />}
        {phase === "ended" && state && hasPrinted && <Printed state={state} />}
        {state && phase !== "waiting" && <Summary state={state} phase={phase} />}
      </div>
    </Section>
  );
}

function Stop({ id }: { id: string }) {
  const stop = useMutation({ mutationFn: () => stopScript(id) });
  return (
    <div className="row">
      <Button onPress={() => stop.mutate()} isDisabled={stop.isPending}>
        {text.run.stop}
      </Button>
      {stop.error && <Failure error={stop.error} />}
    </div>
  );
}

/** What a command printed, in order; its error output and the gateway's words are marked as such. */
function Printed({ state }: { state: Execution }) {
  const parts = outputParts(state.output, state.output_streams ?? null);
  if (parts.length === 0) return <p className="secondary">{text.run.noOutput}</p>;
  return (
    <>
      <Code label={text.run.output}>
        {parts.map(({ stream, text: printed }, index) => (
          <span
            // biome-ignore lint/suspicious/noArrayIndexKey: parts have no identity but their place
            key={index}
            className={stream === "stdout" ? undefined : `${styles.part} ${styles[stream]}`}
            title={text.run.streams[stream]}
          >
            <MarkedText text={printed} />
          </span>
        ))}
      </Code>
      {state.truncated && <p className="secondary">{text.run.cut}</p>}
    </>
  );
}

function Summary({ state, phase }: { state: Execution; phase: Phase }) {
  const { session_id, exit_code, execution_time } = state;
  const code = isCommand(state) ? exit_code : null;
  return (
    <p className="secondary">
      {phase === "ended" && text.run.ended(code, execution_time)}{" "}
      <Link to="/sessions/$id" params={{ id: session_id }}>
        {text.run.session}
      </Link>
    </p>
  );
}
