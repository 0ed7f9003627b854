import { Link, useSearch } from "@tanstack/react-router";
import { useUser } from "../../api/account";
import { useConnections } from "../../api/lists";
import { usePages } from "../../api/pages";
import { addressOf } from "../../api/resource";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Copy } from "../../parts/copy";
import { LinkButton } from "../../parts/link-button";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Page } from "../../parts/page";
import type { Column } from "../../parts/table";
import { type MaskingRule, maskingRules } from "./masking-data";
import { text } from "./messages";

const NAMED = 3; // connections that a row names

const COLUMNS: Column<MaskingRule>[] = [
  {
    title: common.name,
    cell: (rule) => (
      <Link to="/masking/$name" params={{ name: addressOf(rule) }}>
        <MarkedText text={rule.name} />
      </Link>
    ),
  },
  { title: common.description, cell: ({ description }) => <MarkedText text={description} /> },
  { title: text.list.masks, cell: whatItMasks },
  { title: text.list.strategy, cell: ({ strategy }) => text.strategies[strategy] },
  { title: text.list.strictness, cell: ({ strictness }) => text.list.strict[strictness] },
  { title: text.list.appliesTo, cell: ({ connection_ids }) => <AppliesTo ids={connection_ids} /> },
];

/** All masking rules, or those that apply to the connection in the address. */
export function MaskingRulesScreen() {
  const { connection } = useSearch({ from: "/shell/masking" });
  const { is_admin } = useUser();
  const pages = usePages([maskingRules.path, "list", connection], (place) =>
    maskingRules.list(place, connection ? { connection } : {}),
  );
  return (
    <Page title={text.list.title} aside={is_admin && <NewButton />}>
      {connection && (
        <p>
          {text.list.of(connection)} <Link to="/masking">{text.list.all}</Link>
        </p>
      )}
      <List
        label={text.list.title}
        pages={pages}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        count={(total) => counted(text.list.count, total)}
        none={<Nothing connection={connection} />}
      />
    </Page>
  );
}

function whatItMasks({ columns, supported_entity_types, custom_entity_types }: MaskingRule): string {
  const types =
    supported_entity_types.reduce((sum, { entity_types }) => sum + entity_types.length, 0) + custom_entity_types.length;
  const parts = [
    columns.length > 0 && counted(text.list.columns, columns.length),
    types > 0 && counted(text.list.types, types),
  ];
  return parts.filter(Boolean).join(", ") || common.none;
}

function AppliesTo({ ids }: { ids: string[] }) {
  const names = new Map(useConnections().map(({ id, name }) => [id, name]));
  if (ids.length === 0) return <span className="secondary">{text.list.nothing}</span>;
  const shown = ids.slice(0, NAMED).map((id) => names.get(id) ?? "…");
  return (
    <>
      <MarkedText text={shown.join(", ")} />
      {ids.length > NAMED && ` ${common.andMore(ids.length - NAMED)}`}
    </>
  );
}

function NewButton() {
  return (
    <LinkButton kind="primary" to="/masking/new">
      {text.list.create}
    </LinkButton>
  );
}

function Nothing({ connection }: { connection: string | undefined }) {
  const { is_admin } = useUser();
  return (
    <div className="stack">
      <p>{connection ? text.list.noneOf(connection) : text.list.none}</p>
      {is_admin && (
        <>
          <div>
            <NewButton />
          </div>
          <Copy
            label={text.list.command}
            text={'postern masking create "customer data" --preset recommended --connection NAME'}
          />
        </>
      )}
    </div>
  );
}
