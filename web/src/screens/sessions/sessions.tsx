import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { lazy } from "react";
import { FALLBACK_INTERVAL } from "../../api/changes";
import { api, unwrap } from "../../api/client";
import { type Place, usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { chosenColumns } from "../../engines/columns";
import { duration } from "../../engines/times";
import { language } from "../../messages";
import { common } from "../../messages/common";
import { FilterChips } from "../../parts/filter-chips";
import { List } from "../../parts/list";
import { ListViews } from "../../parts/list-views";
import { MarkedText } from "../../parts/marked-text";
import { MoreFilters } from "../../parts/more-filters";
import { Page } from "../../parts/page";
import { Search } from "../../parts/search";
import type { ListColumn } from "../../parts/table";
import { Time } from "../../parts/time";
import { Views } from "../../parts/views";
import { wordsOf } from "./filter-words";
import { inView, type SessionSearch, sessionQuery, sessionSearch, setFilters, VIEWS } from "./filters";
import { text } from "./messages";
import { SessionState } from "./session-state";

const SessionFilterDialog = lazy(async () => ({
  default: (await import("./session-filter-dialog")).SessionFilterDialog,
}));

type Session = Pick<
  components["schemas"]["FoundAnswer"],
  | ("id" | "connection" | "connection_subtype" | "connection_tags" | "type" | "user" | "user_name" | "verb" | "status")
  | ("outcome" | "start_date" | "end_date" | "review" | "correlation_id" | "integrations_metadata")
>;

const COLUMNS: ListColumn<Session>[] = [
  {
    name: "connection",
    title: text.list.connection,
    cell: ({ id, connection }) => (
      <Link to="/sessions/$id" params={{ id }} className="mono">
        <MarkedText text={connection} />
      </Link>
    ),
  },
  { name: "user", title: text.list.user, cell: ({ user, user_name }) => <MarkedText text={user_name || user} /> },
  { name: "verb", title: text.list.verb, cell: ({ verb }) => common.verbs[verb] },
  { name: "status", title: text.list.status, cell: (session) => <SessionState session={session} /> },
  { name: "started", title: text.list.started, cell: ({ start_date }) => <Time at={start_date} /> },
  { name: "duration", title: text.list.duration, cell: (session) => durationOf(session), isExtra: true },
  {
    name: "protocol",
    title: text.list.protocol,
    cell: ({ type, connection_subtype }) => connection_subtype || text.filter.types[type as "custom"],
    isExtra: true,
  },
  {
    name: "review",
    title: text.list.review,
    cell: ({ review }) =>
      review && (
        <Link to="/reviews/$id" params={{ id: review.id }}>
          {common.reviewStatuses[review.status]}
        </Link>
      ),
    isExtra: true,
  },
  { name: "tags", title: text.list.tags, cell: (session) => <MarkedText text={tagsOf(session)} />, isExtra: true },
  {
    name: "correlation_id",
    title: text.list.reference,
    cell: ({ correlation_id }) => correlation_id && <MarkedText text={correlation_id} />,
    isExtra: true,
  },
  { name: "issue", title: text.list.issue, cell: (session) => <MarkedText text={issueOf(session)} />, isExtra: true },
];

const ISSUE_KEY = "tracker_issue_key";
const LINKS = Object.keys(VIEWS) as (keyof typeof VIEWS)[];

/** The newest sessions first: own ones, or all for administrators and auditors. */
export function SessionsScreen() {
  const search = sessionSearch(useSearch({ from: "/shell/sessions" }));
  const { columns, ...filters } = search;
  const navigate = useNavigate({ from: "/sessions" });
  const read = (place: Place) =>
    unwrap(api.GET("/api/sessions", { params: { query: { ...place, ...sessionQuery(filters) } } }));
  const pages = usePages(["sessions", filters], read, { every: FALLBACK_INTERVAL });
  const go = (search: SessionSearch) => void navigate({ search, replace: true });
  const { search: words = "", ...narrowing } = filters;
  return (
    <Page
      title={text.list.title}
      aside={
        <Search
          label={text.list.search}
          value={words}
          onSearch={(typed) => go({ ...narrowing, ...(typed && { search: typed }), ...(columns && { columns }) })}
        />
      }
    >
      <Views label={text.list.filters}>
        {LINKS.map((name) => (
          <Link key={name} to="/sessions" search={inView(name, search)} activeOptions={{ exact: true }}>
            {text.list.views[name]}
          </Link>
        ))}
      </Views>
      <div className="row">
        <MoreFilters>{(close) => <SessionFilterDialog search={search} onChange={go} onClose={close} />}</MoreFilters>
        <ListViews
          list="sessions"
          search={search}
          columns={COLUMNS}
          onColumns={(names) => go({ ...filters, ...(names !== undefined && { columns: names }) })}
        />
      </div>
      <FilterChips
        label={common.filtersThatAreSet}
        chips={setFilters(search).map(({ name, value, without }) => ({
          label: text.filter.labels[name],
          words: wordsOf(name, value),
          onRemove: () => go(without),
        }))}
        onClear={() => go({ ...(words && { search: words }), ...(columns && { columns }) })}
      />
      <List
        label={text.list.title}
        pages={pages}
        columns={chosenColumns(COLUMNS, columns)}
        keyOf={(row) => row.id}
        none={<Nothing filters={filters} />}
      />
    </Page>
  );
}

function durationOf({ start_date, end_date }: Session): string {
  if (end_date === null) return text.list.running;
  const seconds = Math.round((Date.parse(end_date) - Date.parse(start_date)) / 1_000);
  return duration(seconds, language) || text.list.moment;
}

function tagsOf({ connection_tags }: Session): string {
  return Object.entries(connection_tags)
    .map(([key, value]) => (value ? `${key}=${value}` : key))
    .join(", ");
}

function issueOf({ integrations_metadata }: Session): string {
  return String(integrations_metadata[ISSUE_KEY] ?? "");
}

function Nothing({ filters: { search, ...others } }: { filters: SessionSearch }) {
  if (search) return <p>{text.list.noMatch(search)}</p>;
  if (Object.keys(others).length > 0) return <p>{common.nothingFits}</p>;
  return (
    <p>
      {text.list.none} {text.list.noneHint} <code>postern connect NAME</code>
    </p>
  );
}
