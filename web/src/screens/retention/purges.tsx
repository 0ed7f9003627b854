import { Link } from "@tanstack/react-router";
import { api, unwrap } from "../../api/client";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { Copy } from "../../parts/copy";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { text } from "./messages";
import { RetentionPage } from "./retention-page";

type Purge = components["schemas"]["PurgeAnswer"];

const OFTEN = 10_000; // milliseconds between two requests: attempts go on by themselves

const COLUMNS: Column<Purge>[] = [
  {
    title: text.purges.session,
    cell: ({ session_id }) => (
      <Link to="/sessions/$id" params={{ id: session_id }} className="mono">
        {session_id}
      </Link>
    ),
  },
  { title: text.purges.what, cell: ({ what }) => text.purges.scopes[what] },
  { title: text.purges.reason, cell: ({ reason }) => <MarkedText text={reason} /> },
  { title: text.purges.begun, cell: ({ begun_at }) => <Time at={begun_at} isExact /> },
  { title: text.purges.attempts, cell: ({ attempts }) => attempts },
  { title: text.purges.next, cell: ({ next_at }) => <Time at={next_at} /> },
  { title: text.purges.error, cell: ({ error }) => <MarkedText text={error} /> },
];

/** Purges that are not finished, with what keeps them from it. */
export function PurgesScreen() {
  const read = (place: object) => unwrap(api.GET("/api/retention/purges", { params: { query: place } }));
  const pages = usePages(["purges"], read, { every: OFTEN });
  return (
    <RetentionPage path="/retention/purges">
      <p className="secondary">{text.purges.about}</p>
      <List
        label={text.views.purges}
        pages={pages}
        columns={COLUMNS}
        keyOf={({ session_id, entry }) => `${session_id} ${entry}`}
        none={
          <>
            <p>{text.purges.none}</p>
            <Copy label={text.purges.none} text={text.purges.command} />
          </>
        }
      />
    </RetentionPage>
  );
}
