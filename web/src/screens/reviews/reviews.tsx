import { Link, useSearch } from "@tanstack/react-router";
import { FALLBACK_INTERVAL } from "../../api/changes";
import { api, unwrap } from "../../api/client";
import { type Place, usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Page } from "../../parts/page";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { Views } from "../../parts/views";
import { text } from "./messages";
import { RequestKind, ReviewClient } from "./review-client";
import { ReviewState } from "./review-state";
import { VIEWS } from "./views";

type Listed = Pick<
  components["schemas"]["ReviewAnswer"],
  | "id"
  | "connection"
  | "owner"
  | "type"
  | "client_address"
  | "credential"
  | "in_advance"
  | "status"
  | "outcome"
  | "created_at"
>;

const COLUMNS: Column<Listed>[] = [
  {
    title: text.list.connection,
    cell: ({ id, connection }) => (
      <Link to="/reviews/$id" params={{ id }} className="mono">
        <MarkedText text={connection} />
      </Link>
    ),
  },
  { title: text.list.requester, cell: ({ owner }) => <MarkedText text={owner.name || owner.email} /> },
  { title: text.list.kind, cell: (review) => <RequestKind review={review} /> },
  { title: text.list.client, cell: (review) => <ReviewClient review={review} /> },
  { title: text.list.state, cell: (review) => <ReviewState review={review} /> },
  { title: text.list.requested, cell: ({ created_at }) => <Time at={created_at} /> },
];

/** The inbox: what waits for the user's decision, what the user requested, and all that the user can see. */
export function ReviewsScreen() {
  const { view = "waiting" } = useSearch({ from: "/shell/reviews" });
  const filter = view === "waiting" ? { waiting_for_me: true } : view === "mine" ? { owner: "self" } : {};
  const read = (place: Place) => unwrap(api.GET("/api/reviews", { params: { query: { ...place, ...filter } } }));
  const pages = usePages(["reviews", view], read, { every: FALLBACK_INTERVAL });
  return (
    <Page title={text.list.title}>
      <Views label={text.list.views}>
        {VIEWS.map((name) => (
          <Link key={name} to="/reviews" search={{ view: name }} activeOptions={{ includeSearch: true }}>
            {text.list.view[name]}
          </Link>
        ))}
      </Views>
      <List
        label={text.list.title}
        pages={pages}
        columns={COLUMNS}
        keyOf={(row) => row.id}
        none={<p>{text.list.none[view]}</p>}
      />
    </Page>
  );
}
