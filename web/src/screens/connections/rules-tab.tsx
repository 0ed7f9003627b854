import { Link } from "@tanstack/react-router";
import { usePages } from "../../api/pages";
import { addressOf, resource } from "../../api/resource";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import type { Connection } from "./connection-form";
import { text } from "./messages";

interface Rule {
  id: string;
  name: string;
  description?: string | null;
}

const KINDS = [
  [text.guardrails, resource<Rule, never>("/api/guardrails"), "/guardrails/$name"],
  [text.maskingRules, resource<Rule, never>("/api/datamasking-rules"), "/masking/$name"],
  [text.reviewRules, resource<Rule, never>("/api/access-requests/rules"), "/review-rules/$name"],
] as const;

/** The rules that cover the connection, by their own choice or by the connection's settings. */
export function RulesTab({ connection }: { connection: Connection }) {
  return KINDS.map(([title, rules, screen]) => (
    <Rules key={title} title={title} connection={connection.name} rules={rules} screen={screen} />
  ));
}

interface RulesProps {
  title: string;
  connection: string;
  rules: (typeof KINDS)[number][1];
  screen: (typeof KINDS)[number][2];
}

function Rules({ title, connection, rules, screen }: RulesProps) {
  const pages = usePages([rules.path, "of", connection], (place) => rules.list(place, { connection }));
  return (
    <section aria-label={title} className="stack">
      <h2>{title}</h2>
      <List
        label={title}
        pages={pages}
        columns={[
          { title: text.name, cell: (rule) => <RuleLink rule={rule} screen={screen} /> },
          { title: text.description, cell: (rule) => <MarkedText text={rule.description ?? ""} /> },
        ]}
        keyOf={({ id }) => id}
        none={<p className="secondary">{text.noRules}</p>}
      />
    </section>
  );
}

function RuleLink({ rule, screen }: { rule: Rule; screen: RulesProps["screen"] }) {
  return (
    <Link to={screen} params={{ name: addressOf(rule) }}>
      <MarkedText text={rule.name} />
    </Link>
  );
}
