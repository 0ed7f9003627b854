import { useQuery } from "@tanstack/react-query";
import { useConnections } from "../../api/lists";
import { useNames } from "../../api/names";
import { Button } from "../../parts/button";
import { Field } from "../../parts/field";
import { Fields } from "../../parts/form";
import { NameChoice } from "../../parts/name-choice";
import { Names } from "../../parts/names";
import { Notice } from "../../parts/notice";
import { RuleEditor } from "../../parts/rule-editor";
import { NameFields } from "../../parts/rule-fields";
import { BLANK_RULE, type RuleDraft, repositoriesQuery, ruleBody, ruleDraft, rules } from "./data";
import { text } from "./messages";
import styles from "./runbooks.module.css";

export function RuleScreen() {
  return (
    <RuleEditor
      path="/runbooks/rules"
      text={text.rule}
      deleteText={text.rule.deleteText}
      resource={rules}
      blank={BLANK_RULE}
      draftOf={ruleDraft}
      bodyOf={ruleBody}
    >
      {(draft, set, saved) => (
        <>
          {saved?.nowhere && (
            <Notice kind="held">
              <p>{text.rule.nowhere}</p>
            </Notice>
          )}
          <RuleFields draft={draft} set={set} />
        </>
      )}
    </RuleEditor>
  );
}

interface FieldsProps {
  draft: RuleDraft;
  set: (part: Partial<RuleDraft>) => void;
}

function RuleFields({ draft, set }: FieldsProps) {
  const connections = useConnections().map(({ name }) => name);
  return (
    <>
      <NameFields draft={draft} set={set} />
      <Patterns draft={draft} set={set} />
      <Names
        label={text.rule.connections}
        hint={text.rule.connectionsHint}
        options={connections}
        value={draft.connections}
        onChange={(connections) => set({ connections })}
        allowsOthers={false}
      />
      <Names
        label={text.rule.groups}
        hint={text.rule.groupsHint}
        options={useNames("/api/users/groups")}
        value={draft.groups}
        onChange={(groups) => set({ groups })}
        allowsOthers
      />
    </>
  );
}

/** Which runbooks: those of a repository whose path begins in a certain way. */
function Patterns({ draft: { runbooks }, set }: FieldsProps) {
  const names = (useQuery(repositoriesQuery).data ?? []).map(({ repository }) => repository);
  const change = (index: number, part: Partial<RuleDraft["runbooks"][number]>) =>
    set({ runbooks: runbooks.map((other, place) => (place === index ? { ...other, ...part } : other)) });
  return (
    <Fields title={text.rule.runbooks}>
      {runbooks.map(({ repository, name }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows have no identity but their place while they are typed
        // biome-ignore lint/a11y/useSemanticElements: a fieldset in a fieldset would need a legend of its own
        <div key={index} role="group" aria-label={text.rule.pattern(index + 1)} className={styles.pattern}>
          <NameChoice
            label={text.rule.repository}
            value={repository}
            options={[...new Set([...(repository ? [repository] : []), ...names])]}
            onChange={(repository) => change(index, { repository })}
          />
          <Field
            label={text.rule.prefix}
            hint={text.rule.prefixHint}
            value={name}
            onChange={(name) => change(index, { name })}
          />
          {runbooks.length > 1 && (
            <Button
              kind="quiet"
              aria-label={text.rule.removePattern(index + 1)}
              onPress={() => set({ runbooks: runbooks.filter((_, place) => place !== index) })}
            >
              ×
            </Button>
          )}
        </div>
      ))}
      <div>
        <Button onPress={() => set({ runbooks: [...runbooks, { repository: "", name: "" }] })}>
          {text.rule.addPattern}
        </Button>
      </div>
    </Fields>
  );
}
