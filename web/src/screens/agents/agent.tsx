import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { api, unwrap } from "../../api/client";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { useUser } from "../../app/user";
import { common } from "../../messages/common";
import { Confirm } from "../../parts/confirm";
import { Facts } from "../../parts/facts";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Failure, Notice } from "../../parts/notice";
import { Page } from "../../parts/page";
import { Section } from "../../parts/section";
import { Skeleton } from "../../parts/table";
import { Time } from "../../parts/time";
import { AgentStatus } from "./agent-status";
import { AGENTS, type Agent, type IssuedAgentKey, useAgent } from "./agents-data";
import { text } from "./messages";
import { AgentKeyDialog } from "./new-agent";

type Connection = components["schemas"]["ConnectionAnswer"];

/** One agent: whether it is there, what it serves, and its key. */
export function AgentScreen() {
  const { name } = useParams({ from: "/shell/agents/$name" });
  const { is_admin } = useUser();
  const query = useAgent(name);
  const agent = query.data;
  return (
    <Page title={name} aside={<Link to="/agents">{text.all}</Link>}>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {agent && (
        <>
          <Facts facts={factsOf(agent)} />
          {is_admin && agent.mode !== "gateway" && <Actions agent={agent} />}
          <Connections agent={agent} />
        </>
      )}
    </Page>
  );
}

function factsOf(agent: Agent): [string, ReactNode][] {
  const facts: [string, ReactNode][] = [
    [text.status, <AgentStatus key="status" status={agent.status} />],
    [text.mode, text.modes[agent.mode]],
    [text.lastSeen, agent.last_seen ? <Time key="seen" at={agent.last_seen} /> : text.never],
  ];
  const told: [string, string | null][] = [
    [text.version, agent.version],
    [text.host, agent.hostname],
    [text.platform, [agent.platform, agent.kernel_version].filter(Boolean).join(" ")],
    [text.python, agent.python_version],
    [text.machine, agent.machine_id],
  ];
  for (const [label, value] of told) if (value) facts.push([label, <MarkedText key={label} text={value} />]);
  facts.push([common.createdAt, <Time key="created" at={agent.created_at} />]);
  return facts;
}

function Actions({ agent }: { agent: Agent }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [issued, setIssued] = useState<IssuedAgentKey | null>(null);
  const [isDraining, setDraining] = useState(false);
  const params = { path: { nameOrID: agent.id } };
  const refresh = () => void queries.invalidateQueries({ queryKey: [AGENTS] });
  const renew = async () => setIssued(await unwrap(api.POST("/api/agents/{nameOrID}/key", { params })));
  return (
    <>
      <div className="row">
        <Confirm label={text.renew} title={text.renewTitle(agent.name)} action={renew} onDone={refresh}>
          {text.renewText}
        </Confirm>
        <Confirm
          label={text.drain}
          title={text.drainTitle(agent.name)}
          action={() => unwrap(api.POST("/api/agents/{nameOrID}/drain", { params }))}
          onDone={() => setDraining(true)}
          isDisabled={agent.status !== "CONNECTED"}
        >
          {text.drainText}
        </Confirm>
        <Confirm
          label={text.delete}
          title={text.deleteTitle(agent.name)}
          action={() => unwrap(api.DELETE("/api/agents/{nameOrID}", { params }))}
          onDone={() => {
            void navigate({ to: "/agents" });
            void queries.invalidateQueries({ queryKey: [AGENTS, "list"] });
          }}
        >
          {text.deleteText}
        </Confirm>
      </div>
      {isDraining && agent.status === "CONNECTED" && (
        <Notice kind="held">
          <p>{text.drained}</p>
        </Notice>
      )}
      <AgentKeyDialog issued={issued} onClose={() => setIssued(null)} />
    </>
  );
}

function Connections({ agent }: { agent: Agent }) {
  const pages = usePages<Connection>([AGENTS, "connections", agent.id], (place) =>
    unwrap(api.GET("/api/connections", { params: { query: { ...place, agent_id: agent.id } } })),
  );
  return (
    <Section title={text.connections}>
      <List
        label={text.connections}
        pages={pages}
        keyOf={(row) => row.id}
        none={<p>{text.noConnections}</p>}
        columns={[
          {
            title: common.name,
            cell: ({ name }) => (
              <Link to="/connections/$name" params={{ name }} className="mono">
                <MarkedText text={name} />
              </Link>
            ),
          },
          { title: text.subtype, cell: ({ type, subtype }) => subtype || type },
        ]}
      />
    </Section>
  );
}
