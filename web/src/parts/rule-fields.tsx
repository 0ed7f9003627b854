import { useConnections } from "../api/lists";
import { useNames } from "../api/names";
import { tagsOf } from "../engines/coverage";
import { common } from "../messages/common";
import { Coverage } from "./coverage";
import { Field } from "./field";
import { Fields } from "./form";
import { Names, Pairs } from "./names";

interface NameDraft {
  name: string;
  description: string;
}

/** The name of a rule, and what it is for. */
export function NameFields({ draft, set }: { draft: NameDraft; set: (part: Partial<NameDraft>) => void }) {
  return (
    <>
      <Field label={common.name} value={draft.name} onChange={(name) => set({ name })} maxLength={128} isRequired />
      <Field
        label={common.description}
        value={draft.description}
        onChange={(description) => set({ description })}
        maxLength={10_000}
      />
    </>
  );
}

interface GroupsProps {
  draft: { groups: string[] };
  set: (part: { groups: string[] }) => void;
  text: { groups: string; groupsHint: string };
}

/** The groups that a rule is for. */
export function GroupsField({ draft, set, text }: GroupsProps) {
  return (
    <Names
      label={text.groups}
      hint={text.groupsHint}
      options={useNames("/api/users/groups")}
      value={draft.groups}
      onChange={(groups) => set({ groups })}
      allowsOthers
    />
  );
}

interface CoverageDraft {
  connection_names: string[];
  tags: [string, string][];
}

interface CoverageProps {
  draft: CoverageDraft;
  set: (part: Partial<CoverageDraft>) => void;
  text: { connectionsTitle: string; names: string; namesHint: string; tagsHint: string };
}

/** Which connections a rule covers: by name and by tags, with those that it covers now. */
export function CoverageFields({ draft, set, text }: CoverageProps) {
  const names = useConnections().map(({ name }) => name);
  return (
    <Fields title={text.connectionsTitle}>
      <Names
        label={text.names}
        hint={text.namesHint}
        options={names}
        value={draft.connection_names}
        onChange={(connection_names) => set({ connection_names })}
        allowsOthers={false}
      />
      <Pairs
        label={common.tags}
        nameLabel={common.tagKey}
        valueLabel={common.tagValue}
        value={draft.tags}
        onChange={(tags) => set({ tags })}
      />
      <p className="secondary">{text.tagsHint}</p>
      <Coverage rule={{ connection_names: draft.connection_names, connection_tags: tagsOf(draft.tags) }} />
    </Fields>
  );
}
