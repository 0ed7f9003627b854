import { Link } from "@tanstack/react-router";
import { FALLBACK_INTERVAL } from "../../api/changes";
import { api, unwrap } from "../../api/client";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { common } from "../../messages/common";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { text } from "./messages";

type Session = Pick<
  components["schemas"]["FoundAnswer"],
  "id" | "user" | "user_name" | "verb" | "status" | "start_date"
>;

const COLUMNS: Column<Session>[] = [
  {
    title: text.started,
    cell: ({ id, start_date }) => (
      <Link to="/sessions/$id" params={{ id }}>
        <Time at={start_date} />
      </Link>
    ),
  },
  { title: text.user, cell: ({ user, user_name }) => <MarkedText text={user_name || user} /> },
  { title: text.verbTitle, cell: ({ verb }) => common.verbs[verb] },
];

/** The sessions of the connection that the user can see, newest first. */
export function ActivityTab({ name }: { name: string }) {
  const pages = usePages(
    ["sessions", "of", name],
    (place) => unwrap(api.GET("/api/sessions", { params: { query: { ...place, connection: name } } })),
    { every: FALLBACK_INTERVAL, limit: 50 },
  );
  return (
    <List
      label={text.tab.activity}
      pages={pages}
      columns={COLUMNS}
      keyOf={({ id }) => id}
      none={<p>{text.noActivity}</p>}
    />
  );
}
