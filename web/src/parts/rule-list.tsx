import { Link } from "@tanstack/react-router";
import { useUser } from "../api/account";
import { useConnections } from "../api/lists";
import { usePages } from "../api/pages";
import { addressOf, type Resource } from "../api/resource";
import type { Covering } from "../engines/coverage";
import { type Counted, counted } from "../messages";
import { common } from "../messages/common";
import { Copy } from "./copy";
import { LinkButton } from "./link-button";
import { List } from "./list";
import { MarkedText } from "./marked-text";
import { Page } from "./page";
import type { RulesPath } from "./rule-editor";
import type { Column } from "./table";

const NAMED = 3; // connections that a row names

interface Named {
  id: string;
  name: string;
}

interface Props<Item, Body> {
  path: RulesPath;
  resource: Resource<Item, Body>;
  columns: Column<Item>[];
  /** A line that creates such a rule. */
  command: string;
  /** Only the rules for this connection. */
  connection: string | undefined;
  text: {
    title: string;
    create: string;
    count: Counted;
    of: (connection: string) => string;
    all: string;
    none: string;
    noneOf: (connection: string) => string;
  };
}

/** All rules of one kind, or those for one connection. */
export function RuleList<Item extends Named, Body>(props: Props<Item, Body>) {
  const { path, resource, columns, command, connection, text } = props;
  const pages = usePages([resource.path, "list", connection], (place) =>
    resource.list(place, connection ? { connection } : {}),
  );
  return (
    <Page title={text.title} aside={<NewRuleButton path={path}>{text.create}</NewRuleButton>}>
      {connection && (
        <p>
          {text.of(connection)} <Link to={path}>{text.all}</Link>
        </p>
      )}
      <List
        label={text.title}
        pages={pages}
        columns={columns}
        keyOf={({ id }) => id}
        count={(total) => counted(text.count, total)}
        none={
          <NoRules path={path} create={text.create} command={command}>
            {connection ? text.noneOf(connection) : text.none}
          </NoRules>
        }
      />
    </Page>
  );
}

/** The first column: the name, which leads to the rule. */
export function nameColumn(path: RulesPath): Column<Named> {
  return { title: common.name, cell: (rule) => <RuleLink path={path} rule={rule} /> };
}

export function RuleLink({ path, rule }: { path: RulesPath; rule: Named }) {
  return (
    <Link to={`${path}/$name`} params={{ name: addressOf(rule) }}>
      <MarkedText text={rule.name} />
    </Link>
  );
}

/** Leads to the form of a new rule, for administrators. */
export function NewRuleButton({ path, children }: { path: RulesPath; children: string }) {
  if (!useUser().is_admin) return null;
  return (
    <LinkButton kind="primary" to={`${path}/new`}>
      {children}
    </LinkButton>
  );
}

interface NoRulesProps {
  path: RulesPath;
  create: string;
  command: string;
  children: string;
}

/** Says that there are no rules, and to administrators how to create one. */
export function NoRules({ path, create, command, children }: NoRulesProps) {
  const { is_admin } = useUser();
  return (
    <div className="stack">
      <p>{children}</p>
      {is_admin && (
        <>
          <div>
            <NewRuleButton path={path}>{create}</NewRuleButton>
          </div>
          <Copy label={common.commandLine} text={command} />
        </>
      )}
    </div>
  );
}

/** What a rule covers: connections by name, and those with all of its tags. `none`: what it covers without either. */
export function Covers({ rule, none = "" }: { rule: Covering; none?: string }) {
  const { connection_names, connection_tags } = rule;
  const tags = Object.entries(connection_tags).map(([key, value]) => `${key}=${value}`);
  const parts = [...connection_names, ...(tags.length > 0 ? [common.allWith(tags.join(", "))] : [])];
  return parts.length > 0 ? <MarkedText text={parts.join(", ")} /> : none;
}

/** The names of the first connections that a rule applies to. */
export function AppliesTo({ ids }: { ids: string[] }) {
  const names = new Map(useConnections().map(({ id, name }) => [id, name]));
  if (ids.length === 0) return <span className="secondary">{common.noConnection}</span>;
  const shown = ids.slice(0, NAMED).map((id) => names.get(id) ?? "…");
  return (
    <>
      <MarkedText text={shown.join(", ")} />
      {ids.length > NAMED && ` ${common.andMore(ids.length - NAMED)}`}
    </>
  );
}
