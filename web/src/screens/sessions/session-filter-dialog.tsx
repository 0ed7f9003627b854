import { useUser } from "../../api/account";
import { useConnections } from "../../api/lists";
import { type DialogFilter, FilterDialog } from "../../parts/filter-dialog";
import { CHOICE_WORDS } from "./filter-words";
import { FILTERS, type SessionFilter, type SessionSearch, sessionSearch } from "./filters";
import { text } from "./messages";

interface Props {
  search: SessionSearch;
  onChange: (search: SessionSearch) => void;
  onClose: () => void;
}

/** All filters of the list of sessions, but for the search. */
export function SessionFilterDialog({ search, onChange, onClose }: Props) {
  const connections = useConnections();
  const { role } = useUser();
  const { search: words, columns, ...filters } = search;
  const suggestions = {
    connection: connections.map(({ name }) => name),
    subtype: [...new Set(connections.map(({ subtype }) => subtype).filter(Boolean))].sort(),
  };
  const seesHolds = role === "admin" || role === "auditor"; // the gateway refuses it to others
  return (
    <FilterDialog
      title={text.filter.title}
      filters={FILTERS.filter((name) => name !== "held" || seesHolds).map((name) => filterOf(name, suggestions))}
      values={Object.fromEntries(
        Object.entries(filters).map(([name, value]) => [name, typeof value === "number" ? String(value) : value]),
      )}
      onChange={(values) =>
        onChange(sessionSearch({ ...values, ...(words && { search: words }), ...(columns && { columns }) }))
      }
      onClose={onClose}
    />
  );
}

function filterOf(name: SessionFilter, suggestions: Record<string, string[]>): DialogFilter<SessionFilter> {
  const { hints } = text.filter;
  const shared = { name, label: text.filter.labels[name] };
  switch (name) {
    case "connection":
    case "subtype":
      return {
        ...shared,
        kind: "suggestions",
        suggestions: suggestions[name] ?? [],
        ...(name === "connection" && { hint: hints.connection }),
      };
    case "start_date":
    case "end_date":
      return { ...shared, kind: "instant", hint: hints[name] };
    case "min_duration":
    case "max_duration":
      return { ...shared, kind: "number", hint: hints.duration };
    case "label":
    case "metadata":
      return { ...shared, kind: "list", hint: hints.pairs };
    case "user":
    case "tags":
    case "issue":
      return { ...shared, kind: "text", hint: hints[name] };
    case "correlation_id":
      return { ...shared, kind: "text" };
    default:
      return { ...shared, kind: "choice", options: Object.entries(CHOICE_WORDS[name]) };
  }
}
