import { useConnections } from "../../api/lists";
import { common } from "../../messages/common";
import { type DialogFilter, FilterDialog } from "../../parts/filter-dialog";
import { text } from "./messages";
import { type ReviewFilter, type ReviewSearch, reviewFilters, reviewSearch } from "./views";

interface Props {
  search: ReviewSearch;
  onChange: (search: ReviewSearch) => void;
  onClose: () => void;
}

/** The filters of the list of reviews. */
export function ReviewFilterDialog({ search, onChange, onClose }: Props) {
  const { view, columns, ...values } = search;
  const connections = useConnections().map(({ name }) => name);
  const { filters: labels } = text.list;
  const fields: Record<ReviewFilter, DialogFilter<ReviewFilter>> = {
    connection: { name: "connection", label: labels.connection, kind: "suggestions", suggestions: connections },
    type: { name: "type", label: labels.type, kind: "choice", options: Object.entries(common.reviewKinds) },
    status: { name: "status", label: labels.status, kind: "choice", options: Object.entries(common.reviewStatuses) },
  };
  return (
    <FilterDialog
      title={text.list.filterTitle}
      filters={reviewFilters(search).map((name) => fields[name])}
      values={{ ...values }}
      onChange={(set) => onChange(reviewSearch({ ...set, ...(view && { view }), ...(columns && { columns }) }))}
      onClose={onClose}
    />
  );
}
