import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { api, unwrap } from "../../api/client";
import { isOpaque } from "../../api/scripts";
import { common } from "../../messages/common";
import { AppLink } from "../../parts/app-link";
import { Copy } from "../../parts/copy";
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
  const passesBytes = isOpaque(connection.subtype);
  const tcp = useQuery({
    queryKey: ["serverinfo", "tcp"],
    enabled: passesBytes,
    queryFn: async () => (await unwrap(api.GET("/api/serverinfo"))).tcp_proxy_enabled,
  });
  const hasRunbooks = connection.access_mode_runbooks === "enabled" && !passesBytes;
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
        {canConnect && connection.url && <AppLink url={connection.url} label={text.openApp} />}
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
      {canConnect && passesBytes && <Copy label={common.commandLine} text={`postern connect ${connection.name}`} />}
      {canConnect && (!passesBytes || tcp.data) && <OwnClient connection={connection} />}
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
