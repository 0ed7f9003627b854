import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { FALLBACK_INTERVAL } from "../../api/changes";
import { api, unwrap } from "../../api/client";
import { type Place, usePages } from "../../api/pages";
import { useUser } from "../../app/user";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Copy } from "../../parts/copy";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Page } from "../../parts/page";
import { Search } from "../../parts/search";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { AgentStatus } from "./agent-status";
import { AGENTS, type Agent, useConnectionCounts } from "./agents-data";
import { text } from "./messages";
import { NewAgent } from "./new-agent";

const columnsWith = (counts: Map<string, number> | undefined): Column<Agent>[] => [
  {
    title: common.name,
    cell: ({ name }) => (
      <Link to="/agents/$name" params={{ name }} className="mono">
        <MarkedText text={name} />
      </Link>
    ),
  },
  { title: text.status, cell: ({ status }) => <AgentStatus status={status} /> },
  { title: text.version, cell: ({ version }) => <MarkedText text={version ?? ""} /> },
  { title: text.host, cell: ({ hostname }) => <MarkedText text={hostname ?? ""} /> },
  { title: text.lastSeen, cell: ({ last_seen }) => (last_seen ? <Time at={last_seen} /> : text.never) },
  { title: text.connections, cell: ({ name }) => counts && (counts.get(name) ?? 0) },
];

/** All agents, by name, with their state. */
export function AgentsScreen() {
  const { search = "" } = useSearch({ from: "/shell/agents" });
  const navigate = useNavigate({ from: "/agents" });
  const user = useUser();
  const counts = useConnectionCounts();
  const read = (place: Place) =>
    unwrap(api.GET("/api/agents", { params: { query: { ...place, ...(search && { search }) } } }));
  const pages = usePages([AGENTS, "list", search], read, { every: FALLBACK_INTERVAL });
  const find = (value: string) => void navigate({ search: value ? { search: value } : {}, replace: true });
  return (
    <Page title={text.title} aside={user.is_admin && <NewAgent />}>
      <Search label={text.search} value={search} onSearch={find} />
      <List
        label={text.title}
        pages={pages}
        columns={columnsWith(counts)}
        keyOf={(row) => row.id}
        count={(total) => counted(text.count, total)}
        none={search ? <p>{common.noMatch(search)}</p> : <NoAgents />}
      />
    </Page>
  );
}

function NoAgents() {
  return (
    <div className="stack">
      <p>{text.none}</p>
      <Copy label={common.commandLine} text="postern admin agents create edge" />
    </div>
  );
}
