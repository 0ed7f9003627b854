import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type CatalogueRow, connectionsById, hasEditor, opensInBrowser } from "../../api/catalogue";
import { recentConnectionsQuery } from "../../api/home";
import { usePreferences } from "../../api/preferences";
import { common } from "../../messages/common";
import { AppLink } from "../../parts/app-link";
import { Chip } from "../../parts/chip";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { Pin } from "../../parts/pin";
import { Skeleton } from "../../parts/table";
import { Time } from "../../parts/time";
import styles from "./home.module.css";
import { text } from "./messages";

const SHOWN = 5;

/** The connections that the user pinned, then those that they used last. */
export function HomeConnections({ email }: { email: string }) {
  const { pins } = usePreferences();
  const pinned = useQuery(connectionsById(pins));
  const recent = useQuery(recentConnectionsQuery(email));
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
      {opensInBrowser(row) && <AppLink url={row.url} label={common.openApp} />}
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
