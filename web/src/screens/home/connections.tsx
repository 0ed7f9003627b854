import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type CatalogueRow, connectionsById, hasEditor } from "../../api/catalogue";
import { FALLBACK_INTERVAL } from "../../api/changes";
import { api, unwrap } from "../../api/client";
import { usePreferences } from "../../api/preferences";
import { common } from "../../messages/common";
import { Chip } from "../../parts/chip";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { Pin } from "../../parts/pin";
import { Skeleton } from "../../parts/table";
import { Time } from "../../parts/time";
import styles from "./home.module.css";
import { text } from "./messages";

const LOOKED_AT = 50; // own sessions, whose connections are the recent ones
const SHOWN = 5;

/** The connections that the user pinned, then those that they used last. */
export function HomeConnections({ email }: { email: string }) {
  const { pins } = usePreferences();
  const pinned = useQuery(connectionsById(pins));
  const recent = useRecent(email);
  const rows = pins.length > 0 ? (pinned.data ?? []) : [];
  const others = recent.data?.filter(({ name }) => !rows.some((row) => row.name === name)).slice(0, SHOWN) ?? [];
  const isPending = recent.isPending || (pins.length > 0 && pinned.isPending);
  return (
    <section className={styles.section} aria-label={text.connections}>
      <h2>{text.connections}</h2>
      {pinned.error && <Failure error={pinned.error} onRetry={() => void pinned.refetch()} />}
      {recent.error && <Failure error={recent.error} onRetry={() => void recent.refetch()} />}
      {isPending && <Skeleton rows={2} />}
      {!isPending && rows.length + others.length === 0 && <p className={styles.none}>{text.noConnections}</p>}
      <ul>
        {rows.map((row) => (
          <Pinned key={row.id} row={row} />
        ))}
        {others.map(({ name, at }) => (
          <li key={name}>
            <Name name={name} />
            <span className={styles.last}>
              {text.recent} <Time at={at} />
            </span>
          </li>
        ))}
      </ul>
      <p>
        <Link to="/connections">{text.allConnections}</Link>
      </p>
    </section>
  );
}

function Pinned({ row }: { row: CatalogueRow }) {
  return (
    <li>
      <Pin id={row.id} name={row.name} />
      <Name name={row.name} />
      {row.description && (
        <span className={styles.description}>
          <MarkedText text={row.description} />
        </span>
      )}
      {row.status !== "online" && <Chip kind="off">{common.offline}</Chip>}
      {hasEditor(row) && (
        <Link to="/sql/$connection" params={{ connection: row.name }}>
          {common.openSql}
        </Link>
      )}
      {row.activity?.own.last_used && (
        <span className={styles.last}>
          {text.recent} <Time at={row.activity.own.last_used} />
        </span>
      )}
    </li>
  );
}

function Name({ name }: { name: string }) {
  return (
    <Link to="/connections/$name" params={{ name }} className="mono">
      <MarkedText text={name} />
    </Link>
  );
}

/** The connections of the user's newest sessions, each once. */
function useRecent(email: string) {
  return useQuery({
    queryKey: ["sessions", "recent", email],
    refetchInterval: FALLBACK_INTERVAL,
    queryFn: async () => {
      const query = { user: email, limit: LOOKED_AT, count: "none" as const };
      const { data } = await unwrap(api.GET("/api/sessions", { params: { query } }));
      const seen = new Map<string, string>();
      for (const { connection, start_date } of data) if (!seen.has(connection)) seen.set(connection, start_date);
      return [...seen].map(([name, at]) => ({ name, at }));
    },
  });
}
