import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { FALLBACK_INTERVAL } from "../../api/changes";
import { api, unwrap } from "../../api/client";
import { type Place, usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { exactTime } from "../../engines/times";
import { language } from "../../messages";
import { common } from "../../messages/common";
import { Chip } from "../../parts/chip";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Page } from "../../parts/page";
import { Search } from "../../parts/search";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { Views } from "../../parts/views";
import { NARROWING, type SessionSearch, sessionQuery, sessionSearch } from "./filters";
import { text } from "./messages";
import { SessionState } from "./session-state";

type Session = Pick<
  components["schemas"]["FoundAnswer"],
  "id" | "connection" | "user" | "user_name" | "verb" | "status" | "outcome" | "start_date"
>;

const COLUMNS: Column<Session>[] = [
  {
    title: text.list.connection,
    cell: ({ id, connection }) => (
      <Link to="/sessions/$id" params={{ id }} className="mono">
        <MarkedText text={connection} />
      </Link>
    ),
  },
  { title: text.list.user, cell: ({ user, user_name }) => <MarkedText text={user_name || user} /> },
  { title: text.list.verb, cell: ({ verb }) => common.verbs[verb] },
  { title: text.list.status, cell: (session) => <SessionState session={session} /> },
  { title: text.list.started, cell: ({ start_date }) => <Time at={start_date} /> },
];

/** The newest sessions first: own ones, or all for administrators and auditors. */
export function SessionsScreen() {
  const filters = sessionSearch(useSearch({ from: "/shell/sessions" }));
  const { search = "", only } = filters;
  const navigate = useNavigate({ from: "/sessions" });
  const read = (place: Place) =>
    unwrap(api.GET("/api/sessions", { params: { query: { ...place, ...sessionQuery(filters) } } }));
  const pages = usePages(["sessions", filters], read, { every: FALLBACK_INTERVAL });
  const find = (words: string) =>
    void navigate({ search: (before: SessionSearch) => ({ ...before, search: words || undefined }), replace: true });
  return (
    <Page title={text.list.title} aside={<Search label={text.list.search} value={search} onSearch={find} />}>
      <Views label={text.list.filters}>
        {([undefined, "open", "refused", "masked"] as const).map((name) => (
          <Link
            key={name ?? "all"}
            to="/sessions"
            search={(before: SessionSearch) => ({ ...before, only: name })}
            aria-current={only === name ? "page" : undefined}
          >
            {text.list.only[name ?? "all"]}
          </Link>
        ))}
      </Views>
      <Narrowing filters={filters} />
      <List
        label={text.list.title}
        pages={pages}
        columns={COLUMNS}
        keyOf={(row) => row.id}
        none={<Nothing filters={filters} />}
      />
    </Page>
  );
}

/** The filters that came with the address, each with a way to remove it. */
function Narrowing({ filters }: { filters: SessionSearch }) {
  const set = NARROWING.filter((name) => filters[name]);
  if (set.length === 0) return null;
  return (
    <ul className="row">
      {set.map((name) => (
        <li key={name} className="row">
          <Chip kind="info">
            {text.list.narrowing[name]}: <MarkedText text={wordsOf(name, filters[name] ?? "")} />
          </Chip>
          <Link to="/sessions" search={({ [name]: _, ...others }: SessionSearch) => others}>
            {common.remove(text.list.narrowing[name])}
          </Link>
        </li>
      ))}
    </ul>
  );
}

function wordsOf(name: (typeof NARROWING)[number], value: string): string {
  if (name === "start_date" || name === "end_date") return exactTime(value, language);
  return name === "verb" ? common.verbs[value as keyof typeof common.verbs] : value;
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
