import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { lazy } from "react";
import { FALLBACK_INTERVAL } from "../../api/changes";
import { api, unwrap } from "../../api/client";
import { type Place, usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { chosenColumns } from "../../engines/columns";
import { common } from "../../messages/common";
import { FilterChips } from "../../parts/filter-chips";
import { List } from "../../parts/list";
import { ListViews } from "../../parts/list-views";
import { MarkedText } from "../../parts/marked-text";
import { MoreFilters } from "../../parts/more-filters";
import { Page } from "../../parts/page";
import type { ListColumn } from "../../parts/table";
import { Time } from "../../parts/time";
import { Views } from "../../parts/views";
import { text } from "./messages";
import { RequestKind, ReviewClient } from "./review-client";
import { ReviewState } from "./review-state";
import { type ReviewFilter, type ReviewSearch, reviewFilters, reviewQuery, reviewSearch, VIEWS } from "./views";

const ReviewFilterDialog = lazy(async () => ({
  default: (await import("./review-filter-dialog")).ReviewFilterDialog,
}));

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

const COLUMNS: ListColumn<Listed>[] = [
  {
    name: "connection",
    title: text.list.connection,
    cell: ({ id, connection }) => (
      <Link to="/reviews/$id" params={{ id }} className="mono">
        <MarkedText text={connection} />
      </Link>
    ),
  },
  {
    name: "requester",
    title: text.list.requester,
    cell: ({ owner }) => <MarkedText text={owner.name || owner.email} />,
  },
  { name: "kind", title: text.list.kind, cell: (review) => <RequestKind review={review} /> },
  { name: "client", title: text.list.client, cell: (review) => <ReviewClient review={review} /> },
  { name: "state", title: text.list.state, cell: (review) => <ReviewState review={review} /> },
  { name: "requested", title: text.list.requested, cell: ({ created_at }) => <Time at={created_at} /> },
];

/** The inbox: what waits for the user's decision, what the user requested, and all that the user can see. */
export function ReviewsScreen() {
  const search = reviewSearch(useSearch({ from: "/shell/reviews" }));
  const { columns, ...filters } = search;
  const { view = "waiting" } = search;
  const navigate = useNavigate({ from: "/reviews" });
  const read = (place: Place) =>
    unwrap(api.GET("/api/reviews", { params: { query: { ...place, ...reviewQuery(search) } } }));
  const pages = usePages(["reviews", filters], read, { every: FALLBACK_INTERVAL });
  const go = (search: ReviewSearch) => void navigate({ search, replace: true });
  const set = reviewFilters(search).filter((name) => search[name]);
  return (
    <Page title={text.list.title}>
      <Views label={text.list.views}>
        {VIEWS.map((name) => (
          <Link
            key={name}
            to="/reviews"
            search={{ ...search, view: name }}
            activeProps={{}}
            aria-current={view === name ? "page" : undefined}
          >
            {text.list.view[name]}
          </Link>
        ))}
      </Views>
      <div className="row">
        <MoreFilters>{(close) => <ReviewFilterDialog search={search} onChange={go} onClose={close} />}</MoreFilters>
        <ListViews
          list="reviews"
          search={search}
          columns={COLUMNS}
          onColumns={(names) => go({ ...filters, ...(names !== undefined && { columns: names }) })}
        />
      </div>
      <FilterChips
        label={common.filtersThatAreSet}
        chips={set.map((name) => {
          const { [name]: value = "", ...without } = search;
          return { label: text.list.filters[name], words: wordsOf(name, value), onRemove: () => go(without) };
        })}
      />
      <List
        label={text.list.title}
        pages={pages}
        columns={chosenColumns(COLUMNS, columns)}
        keyOf={(row) => row.id}
        none={<p>{set.length > 0 ? common.nothingFits : text.list.none[view]}</p>}
      />
    </Page>
  );
}

function wordsOf(name: ReviewFilter, value: string): string {
  if (name === "type") return common.reviewKinds[value as keyof typeof common.reviewKinds];
  return name === "status" ? common.reviewStatuses[value as keyof typeof common.reviewStatuses] : value;
}
