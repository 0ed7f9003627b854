import { useQuery } from "@tanstack/react-query";
import { tagsQuery, useConnections } from "../api/lists";
import { common } from "../messages/common";
import { Choice } from "./choice";
import { Names } from "./names";

const NONE = ""; // no tag is empty

interface Props {
  label: string;
  hint?: string;
  /** Identifiers of connections. */
  value: string[];
  onChange: (ids: string[]) => void;
}

/** Connections that a rule is attached to: chosen by name, or all at once that have a tag now. */
export function ConnectionIds({ label, hint, value, onChange }: Props) {
  const connections = useConnections();
  const names = new Map(connections.map(({ id, name }) => [id, name]));
  const ids = new Map(connections.map(({ id, name }) => [name, id]));
  const addTagged = (tag: string) => {
    const tagged = connections.filter(({ connection_tags }) =>
      Object.entries(connection_tags).some(([key, text]) => `${key}=${text}` === tag),
    );
    onChange([...new Set([...value, ...tagged.map(({ id }) => id)])]);
  };
  return (
    <>
      <Names
        label={label}
        {...(hint === undefined ? {} : { hint })}
        options={connections.map(({ name }) => name)}
        value={value.map((id) => names.get(id) ?? id)}
        onChange={(chosen) => onChange(chosen.map((name) => ids.get(name) ?? name))}
        allowsOthers={false}
      />
      <TagChoice onChoose={addTagged} />
    </>
  );
}

function TagChoice({ onChoose }: { onChoose: (tag: string) => void }) {
  const tags = useQuery(tagsQuery).data ?? [];
  if (tags.length === 0) return null;
  const options = tags.map(({ key, value, connection_count }) => {
    const tag = `${key}=${value}`;
    return [tag, common.tagged(tag, connection_count)] as const;
  });
  return (
    <Choice
      label={common.addTagged}
      value={NONE}
      options={[[NONE, common.chooseTag], ...options]}
      onChange={(tag) => tag !== NONE && onChoose(tag)}
    />
  );
}
