import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { FALLBACK_INTERVAL } from "../../api/changes";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { common } from "../../messages/common";
import { FilterChips } from "../../parts/filter-chips";
import { type Filter, Filters } from "../../parts/filters";
import { type ConnectionSearch, tagsOf, withTags } from "./filters";
import { text } from "./messages";

type Facets = Record<string, components["schemas"]["FacetAnswer"]>;
type Name = "type" | "subtype" | "status" | "tag";

interface Props {
  filters: ConnectionSearch;
  onChange: (filters: ConnectionSearch) => void;
}

/** What the list is narrowed to: each filter offers the values that there are, with how many connections have them. */
export function ConnectionFilters({ filters, onChange }: Props) {
  const { search, type, subtype, status } = filters;
  const facets = useFacets(search ?? "");
  const tags = tagsOf(filters);
  const set = ({ tag, ...values }: { [name in Name]?: string }) => {
    const chosen = tag && !tags.includes(tag) ? [...tags, tag] : tags;
    onChange(withTags({ ...(search && { search }), ...values } as ConnectionSearch, chosen));
  };
  return (
    <>
      <Filters
        filters={filtersOf(facets, filters, tags)}
        values={{ ...(type && { type }), ...(subtype && { subtype }), ...(status && { status }) }}
        onChange={set}
      />
      <FilterChips
        label={text.chosenTags}
        chips={tags.map((tag) => ({
          words: tag,
          onRemove: () =>
            onChange(
              withTags(
                filters,
                tags.filter((other) => other !== tag),
              ),
            ),
        }))}
      />
    </>
  );
}

/** The values of the connections that fit the search. Other filters do not narrow them: each can still be changed. */
function useFacets(search: string): Facets {
  const facets = useQuery({
    queryKey: ["connections", "facets", search],
    placeholderData: keepPreviousData,
    refetchInterval: FALLBACK_INTERVAL,
    queryFn: async () => {
      const query = { limit: 1, facets: ["type", "subtype", "status", "tag"], ...(search && { search }) };
      return (await unwrap(api.GET("/api/connections", { params: { query } }))).facets ?? {};
    },
  });
  return facets.data ?? {};
}

function filtersOf(facets: Facets, filters: ConnectionSearch, tags: string[]): Filter<Name>[] {
  const options = (name: Name, chosen: string | undefined, words = (value: string) => value) => {
    const values = facets[name]?.values.filter(({ value }) => value) ?? [];
    const known = values.map(({ value, count }) => [value, text.valueCount(words(value), count)] as const);
    const isMissing = chosen !== undefined && !values.some(({ value }) => value === chosen);
    return isMissing ? [...known, [chosen, words(chosen)] as const] : known;
  };
  const stateWords = (status: string) => (status === "online" ? common.online : common.offline);
  const tagOptions = options("tag", undefined).filter(([tag]) => !tags.includes(tag));
  return [
    { name: "type", label: text.type, options: options("type", filters.type, typeWords) },
    { name: "subtype", label: text.protocol, options: options("subtype", filters.subtype) },
    { name: "status", label: text.status, options: options("status", filters.status, stateWords) },
    { name: "tag", label: text.tag, none: tags.length > 0 ? text.addTag : common.any, options: tagOptions },
  ];
}

function typeWords(type: string): string {
  const words: Record<string, string> = text.types;
  return words[type] ?? type;
}
