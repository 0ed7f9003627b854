import { useSuspenseQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { userQuery } from "../../api/account";
import { type CatalogueRow, EXPAND, hasEditor, opensInBrowser } from "../../api/catalogue";
import { FALLBACK_INTERVAL } from "../../api/changes";
import { api, unwrap } from "../../api/client";
import { type Place, usePages } from "../../api/pages";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { AppLink } from "../../parts/app-link";
import { Button } from "../../parts/button";
import { LinkButton } from "../../parts/link-button";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Page } from "../../parts/page";
import { Pin } from "../../parts/pin";
import { Search } from "../../parts/search";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { Uses } from "../../parts/uses";
import { ConnectionFilters } from "./connection-filters";
import styles from "./connections.module.css";
import { type ConnectionSearch, connectionQuery, connectionSearch } from "./filters";
import { text } from "./messages";
import { Status, Tags } from "./status";

const COLUMNS: Column<CatalogueRow>[] = [
  { title: text.name, cell: (row) => <Name row={row} /> },
  { title: text.kind, cell: ({ type, subtype }) => <span className={styles.whole}>{subtype || type}</span> },
  { title: text.status, cell: (connection) => <Status connection={connection} /> },
  { title: text.youCan, cell: ({ access }) => access && <Uses access={access} /> },
  {
    title: text.open,
    cell: (row) => (
      <>
        {hasEditor(row) && (
          <Link to="/sql/$connection" params={{ connection: row.name }}>
            {common.openSql}
          </Link>
        )}
        {opensInBrowser(row) && <AppLink url={row.url} label={common.openApp} />}
      </>
    ),
  },
  { title: common.lastUsed, cell: (row) => <Activity row={row} /> },
];

/** The connections that the user can see, by name: what they may do with each, and when they used it. */
export function ConnectionsScreen() {
  const filters = connectionSearch(useSearch({ from: "/shell/connections" }));
  const { data: user } = useSuspenseQuery(userQuery);
  const navigate = useNavigate({ from: "/connections" });
  const read = (place: Place) => {
    const query = { ...place, ...connectionQuery(filters), expand: EXPAND };
    return unwrap(api.GET("/api/connections", { params: { query } }));
  };
  const pages = usePages(["connections", "list", filters], read, { every: FALLBACK_INTERVAL });
  const go = (search: ConnectionSearch) => void navigate({ search, replace: true });
  const find = (words: string) => {
    const { search: _, ...others } = filters;
    go(words ? { ...others, search: words } : others);
  };
  return (
    <Page
      title={text.title}
      aside={
        <div className="row">
          <Search label={text.search} value={filters.search ?? ""} onSearch={find} />
          {user?.is_admin && <LinkButton to="/connections/new">{text.create}</LinkButton>}
        </div>
      }
    >
      <ConnectionFilters filters={filters} onChange={go} />
      <List
        label={text.title}
        pages={pages}
        columns={COLUMNS}
        keyOf={(row) => row.id}
        count={(total) => counted(text.count, total)}
        none={<Nothing filters={filters} onClear={() => go({})} />}
      />
    </Page>
  );
}

function Name({ row: { id, name, description, connection_tags } }: { row: CatalogueRow }) {
  return (
    <div className={styles.name}>
      <Pin id={id} name={name} />
      <div>
        <Link to="/connections/$name" params={{ name }} className="mono">
          <MarkedText text={name} />
        </Link>
        {description && (
          <p className={styles.description}>
            <MarkedText text={description} />
          </p>
        )}
        <Tags tags={connection_tags} />
      </div>
    </div>
  );
}

/**
 * The user's last use, and open sessions: their own, for administrators and auditors those of all users. The link leads
 * to what is counted.
 */
function Activity({ row: { name, activity } }: { row: CatalogueRow }) {
  if (!activity) return null;
  const { own, all } = activity;
  const { open_sessions } = all ?? own;
  return (
    <div className={styles.whole}>
      <p>{own.last_used ? <Time at={own.last_used} /> : common.neverUsed}</p>
      {open_sessions > 0 && (
        <Link to="/sessions" search={{ connection: name, status: "open" }}>
          {counted(text.openSessions, open_sessions)}
        </Link>
      )}
    </div>
  );
}

function Nothing({ filters, onClear }: { filters: ConnectionSearch; onClear: () => void }) {
  if (Object.keys(filters).length > 0)
    return (
      <p>
        {filters.search ? text.noMatch(filters.search) : common.nothingFits}{" "}
        <Button kind="quiet" onPress={onClear}>
          {filters.search ? text.clear : common.clearFilters}
        </Button>
      </p>
    );
  return (
    <div>
      <p>{text.none}</p>
      <p>
        {text.noneHint} <code>postern admin connections create --help</code>
      </p>
    </div>
  );
}
