import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useUser } from "../../api/account";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { Chip } from "../../parts/chip";
import { Confirm } from "../../parts/confirm";
import { Failure } from "../../parts/notice";
import { type Column, Skeleton, Table } from "../../parts/table";
import { text } from "./messages";
import { SettingsPage } from "./settings-page";

type Feature = components["schemas"]["FeatureAnswer"];

const COLUMNS: Column<Feature>[] = [
  { title: text.features.name, cell: ({ name }) => <code>{name}</code> },
  { title: text.features.meaning, cell: ({ description }) => description },
  {
    title: text.features.state,
    cell: ({ enabled }) => <Chip kind={enabled ? "ok" : "off"}>{enabled ? text.features.on : text.features.off}</Chip>,
  },
];

/** What the organisation can do, and what it switched off. */
export function FeaturesScreen() {
  const isAdmin = useUser()?.role === "admin";
  const query = useQuery({
    queryKey: ["features"],
    queryFn: () => unwrap(api.GET("/api/feature-flags", { params: { query: { limit: 100 } } })),
  });
  const action = { title: text.features.action, cell: (feature: Feature) => <Switch feature={feature} /> };
  return (
    <SettingsPage path="/settings/features">
      <p className="secondary">{text.features.about}</p>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {query.data && (
        <Table
          label={text.views.features}
          columns={isAdmin ? [...COLUMNS, action] : COLUMNS}
          rows={query.data.data}
          keyOf={({ name }) => name}
        />
      )}
    </SettingsPage>
  );
}

function Switch({ feature: { name, enabled, description } }: { feature: Feature }) {
  const queries = useQueryClient();
  const change = () => {
    const params = { path: { name } };
    return unwrap(api.PUT("/api/feature-flags/{name}", { params, body: { enabled: !enabled } }));
  };
  return (
    <Confirm
      label={enabled ? text.features.disable(name) : text.features.enable(name)}
      title={enabled ? text.features.disableTitle(name) : text.features.enableTitle(name)}
      action={change}
      onDone={() => void queries.invalidateQueries()}
    >
      {enabled ? text.features.disableText(description) : text.features.enableText(description)}
    </Confirm>
  );
}
