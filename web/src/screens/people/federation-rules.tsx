import { usePages } from "../../api/pages";
import { counted } from "../../messages";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { NewRuleButton, NoRules, nameColumn } from "../../parts/rule-list";
import type { Column } from "../../parts/table";
import { text } from "./federation-messages";
import { type FederationRule, federationRules, pairsOf } from "./federation-rule-data";
import { PeoplePage } from "./people-page";

const PATH = "/people/federation-rules";

const COLUMNS: Column<FederationRule>[] = [
  nameColumn(PATH),
  { title: text.list.issuer, cell: ({ issuer_url }) => <MarkedText text={issuer_url} /> },
  { title: text.list.account, cell: ({ service_account }) => <MarkedText text={service_account} /> },
  {
    title: text.list.claims,
    cell: ({ claims }) => (
      <span className="mono">
        <MarkedText
          text={pairsOf(claims)
            .map((pair) => pair.join("="))
            .join(", ")}
        />
      </span>
    ),
  },
];

/** Which programs log in with tokens of an external issuer. */
export function FederationRulesScreen() {
  const pages = usePages([federationRules.path, "list"], (place) => federationRules.list(place));
  return (
    <PeoplePage title={text.list.title} aside={<NewRuleButton path={PATH}>{text.list.create}</NewRuleButton>}>
      <List
        label={text.list.title}
        pages={pages}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        count={(total) => counted(text.list.count, total)}
        none={
          <NoRules
            path={PATH}
            create={text.list.create}
            command="postern admin federation-rules create deploy --service-account deployer --issuer https://token.actions.githubusercontent.com --claim repository=acme/shop"
          >
            {text.list.none}
          </NoRules>
        }
      />
    </PeoplePage>
  );
}
