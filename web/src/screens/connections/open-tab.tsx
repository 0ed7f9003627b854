import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Facts } from "../../parts/facts";
import { MarkedText } from "../../parts/marked-text";
import { Notice } from "../../parts/notice";
import type { Connection } from "./connection-form";
import { text } from "./messages";
import { OwnClient } from "./own-client";
import { Status, Tags } from "./status";

/** The ways to open the connection that its settings allow. */
export function OpenTab({ connection }: { connection: Connection }) {
  const canConnect = connection.access_mode_connect === "enabled";
  const canRun = connection.access_mode_exec === "enabled" && connection.type === "database";
  const hasRunbooks = connection.access_mode_runbooks === "enabled";
  const hasTerminal = canConnect && connection.access_mode_web_terminal === "enabled";
  return (
    <>
      <Facts facts={factsOf(connection)} />
      {connection.status !== "online" && (
        <Notice kind="held">
          <p>{text.agentAway(connection.agent_name)}</p>
        </Notice>
      )}
      <div className="row">
        {canRun && (
          <Link to="/sql/$connection" params={{ connection: connection.name }}>
            {text.openEditor}
          </Link>
        )}
        {hasRunbooks && (
          <Link to="/runbooks" search={{ connection: connection.name }}>
            {text.openRunbooks}
          </Link>
        )}
        {hasTerminal && (
          <Link to="/terminal/$connection" params={{ connection: connection.name }}>
            {text.openTerminal}
          </Link>
        )}
      </div>
      {canConnect && <OwnClient connection={connection} />}
      {!canConnect && !canRun && !hasRunbooks && <p>{text.nothingEnabled}</p>}
    </>
  );
}

function factsOf(connection: Connection): [string, ReactNode][] {
  const facts: [string, ReactNode][] = [
    [text.kind, connection.subtype || connection.type],
    [text.agent, <MarkedText key="agent" text={connection.agent_name} />],
    [text.status, <Status key="status" connection={connection} />],
  ];
  if (Object.keys(connection.connection_tags).length > 0)
    facts.push([text.tags, <Tags key="tags" tags={connection.connection_tags} />]);
  if (connection.reviewers.length > 0) facts.push([text.reviewers, connection.reviewers.join(", ")]);
  return facts;
}
