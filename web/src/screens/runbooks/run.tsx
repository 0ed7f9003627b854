import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useEffect, useState } from "react";
import { useUser } from "../../api/account";
import { useConnections } from "../../api/lists";
import { type Runbook, runbookQuery, startRunbook } from "../../api/runbooks";
import { returnsRows, sessionReturnsRows } from "../../api/scripts";
import { defaultsOf, missing, sentValues, shortCommit, splitPath } from "../../engines/runbooks";
import { Field } from "../../parts/field";
import { Fields, Form } from "../../parts/form";
import { LinkButton } from "../../parts/link-button";
import { MarkedText } from "../../parts/marked-text";
import { NameChoice } from "../../parts/name-choice";
import { Pairs } from "../../parts/names";
import { Failure, Notice } from "../../parts/notice";
import { Page } from "../../parts/page";
import { Skeleton } from "../../parts/table";
import { useRun } from "../../parts/use-run";
import { Code } from "./code";
import { text } from "./messages";
import { Outcome } from "./outcome";
import { ParameterFields } from "./parameter-fields";
import styles from "./runbooks.module.css";
import { RUNS_KEY, Runs } from "./runs";
import { type DryRun, useDryRun } from "./use-dry-run";

const HIDDEN = new Set(["password", "file"]); // types whose values the gateway does not show

/** A runbook as a form: its parameters, what would run, and what came of it. */
export function RunScreen() {
  const { repository = "", file = "", connection = "", session = "" } = useSearch({ from: "/shell/runbooks/run" });
  const query = useQuery(runbookQuery(repository, file));
  const runbook = query.data;
  const title = file ? text.run.title(splitPath(file).file) : text.run.noFile;
  return (
    <Page title={title} aside={<Aside runbook={runbook} connection={connection} />}>
      {!file && <p>{text.run.choose}</p>}
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {file && query.isPending && <Skeleton />}
      {runbook && (
        <>
          <p className="secondary mono">
            <MarkedText text={runbook.name} /> ·{" "}
            <MarkedText text={text.run.from(runbook.repository, shortCommit(runbook.commit))} />
          </p>
          <Runnable
            key={`${runbook.repository} ${runbook.name}`}
            runbook={runbook}
            asked={connection}
            session={session}
          />
          <Runs repository={runbook.repository} file={runbook.name} />
        </>
      )}
    </Page>
  );
}

function Aside({ runbook, connection }: { runbook: Runbook | undefined; connection: string }) {
  const isAuditor = useUser().role === "auditor";
  const canRun = !isAuditor && runbook && runbook.error === null && runbook.connections.length > 0;
  return (
    <div className="row">
      {canRun && (
        <LinkButton
          to="/runbooks/schedules/new"
          search={{ repository: runbook.repository, file: runbook.name, ...(connection && { connection }) }}
        >
          {text.run.schedule}
        </LinkButton>
      )}
      <Link to="/runbooks">{text.run.all}</Link>
    </div>
  );
}

interface RunnableProps {
  runbook: Runbook;
  /** The connection in the address; one where the runbook cannot run is not chosen. */
  asked: string;
  /** The session of the run in the address; empty without one. */
  session: string;
}

function Runnable(props: RunnableProps) {
  const { runbook } = props;
  if (runbook.error !== null)
    return (
      <Notice kind="refused">
        <p>{text.run.cannot}</p>
        <p>
          <MarkedText text={runbook.error} />
        </p>
      </Notice>
    );
  if (runbook.connections.length === 0)
    return (
      <Notice kind="held">
        <p>{text.run.noConnections}</p>
      </Notice>
    );
  return <RunForm {...props} />;
}

function RunForm({ runbook, asked, session }: RunnableProps) {
  const { metadata, connections, repository, name, commit } = runbook;
  const navigate = useNavigate({ from: "/runbooks/run" });
  const isReadOnly = useUser().role === "auditor";
  const [values, setValues] = useState(() => defaultsOf(metadata));
  const [reason, setReason] = useState("");
  const [issueFields, setIssueFields] = useState<[string, string][]>([]);
  const connection = connections.includes(asked) ? asked : connections.length === 1 ? (connections[0] ?? "") : "";
  const details = useConnections().find((other) => other.name === connection);
  const unfilled = missing(metadata, values);
  const isReady = !isReadOnly && connection !== "" && unfilled.length === 0;
  const filling = { repository, file: name, connection, parameters: sentValues(metadata, values) };
  const dryRun = useDryRun(isReady ? filling : null);
  useNewerCommit(commit, dryRun);
  const run = useAddressedRun(session);
  const choose = (connection: string) =>
    void navigate({ search: (before) => ({ ...before, connection }), replace: true });
  const remember = (session: string) =>
    void navigate({ search: (before) => ({ ...before, connection, session }), replace: true });
  const start = () => {
    const fields = Object.fromEntries(issueFields.filter(([field]) => field.trim()));
    const request = {
      ...filling,
      commit: dryRun.rendered?.commit ?? commit, // of what the user has read, which can be newer than the form
      reason,
      issueFields: fields,
      returnsRows: returnsRows(details?.subtype ?? ""),
    };
    if (isReady) run.start(request, remember);
  };
  return (
    <>
      <div className={styles.split}>
        <Form
          submit={text.run.start}
          onSubmit={start}
          isBusy={run.isBusy || !isReady}
          error={null}
          isReadOnly={isReadOnly}
        >
          <NameChoice
            label={text.run.connection}
            hint={text.run.chooseConnection}
            value={connection}
            options={connections}
            onChange={choose}
          />
          <Fields title={text.run.parameters}>
            <ParameterFields
              metadata={metadata}
              values={values}
              onChange={(name, value) => setValues((before) => ({ ...before, [name]: value }))}
            />
          </Fields>
          {details?.tracker_issue_template_id && (
            <Pairs
              label={text.run.issueFields}
              nameLabel={text.run.issueField}
              valueLabel={text.run.issueValue}
              value={issueFields}
              onChange={setIssueFields}
            />
          )}
          <Field
            label={text.run.reason}
            value={reason}
            onChange={setReason}
            maxLength={1000}
            hint={details && details.reviewers.length > 0 ? text.run.needsReview(details.reviewers) : undefined}
          />
        </Form>
        <ScriptPanel runbook={runbook}>
          {isReadOnly ? (
            <p>{text.run.readOnly}</p>
          ) : (
            <DryRunPanel runbook={runbook} dryRun={dryRun} connection={connection} unfilled={unfilled} />
          )}
        </ScriptPanel>
      </div>
      <Outcome run={run} />
    </>
  );
}

/** Run the runbook, and show its rows while they come; a command prints text. The address has the session of its run, so that a reload follows it. */
function useAddressedRun(session: string) {
  const queries = useQueryClient();
  const run = useRun(startRunbook, sessionReturnsRows);
  const { phase, resume } = run;
  useEffect(() => {
    if (session) resume(session);
  }, [session, resume]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a run that goes on is a row that has changed
  useEffect(() => {
    void queries.invalidateQueries({ queryKey: [RUNS_KEY] });
  }, [phase, queries]);
  return run;
}

/** Read the runbook again once the gateway fills in a newer commit of it: the form is that of the older one. */
function useNewerCommit(commit: string, { rendered }: DryRun) {
  const queries = useQueryClient();
  const newest = rendered?.commit;
  useEffect(() => {
    if (newest !== undefined && newest !== commit) void queries.invalidateQueries({ queryKey: ["runbooks"] });
  }, [newest, commit, queries]);
}

/** What would run, above the runbook with its placeholders. */
function ScriptPanel({ runbook, children }: { runbook: Runbook; children: ReactNode }) {
  return (
    <section className={styles.dryRun} aria-label={text.run.dryRun}>
      <h2>{text.run.dryRun}</h2>
      {children}
      <details>
        <summary>{text.run.template}</summary>
        <Code label={text.run.template}>
          <MarkedText text={runbook.text ?? ""} />
        </Code>
      </details>
    </section>
  );
}

interface PanelProps {
  runbook: Runbook;
  dryRun: DryRun;
  connection: string;
  unfilled: string[];
}

function DryRunPanel({ runbook, dryRun, connection, unfilled }: PanelProps) {
  const hasSecrets = Object.values(runbook.metadata).some(({ type }) => HIDDEN.has(type));
  return (
    <>
      <p className="secondary">{text.run.dryRunHint}</p>
      {!connection && <p>{text.run.waitsForConnection}</p>}
      {connection && unfilled.length > 0 && (
        <p>
          <MarkedText text={text.run.waitsFor(unfilled)} />
        </p>
      )}
      {connection && unfilled.length === 0 && <Script dryRun={dryRun} hasSecrets={hasSecrets} />}
    </>
  );
}

function Script({ dryRun: { rendered, error, isOld }, hasSecrets }: { dryRun: DryRun; hasSecrets: boolean }) {
  if (error && !isOld) return <Failure error={error} />;
  if (!rendered) return <p className="secondary">{text.run.rendering}</p>;
  return (
    <>
      {isOld && (
        <p role="status" className="secondary">
          {text.run.outdated}
        </p>
      )}
      <Code label={text.run.script} isOld={isOld}>
        <MarkedText text={rendered.text} />
      </Code>
      {rendered.variables.length > 0 && (
        <p>
          <MarkedText text={text.run.variables(rendered.variables)} />
        </p>
      )}
      {hasSecrets && <p className="secondary">{text.run.hidden}</p>}
    </>
  );
}
