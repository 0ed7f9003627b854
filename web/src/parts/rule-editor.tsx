import { Link, useNavigate, useParams } from "@tanstack/react-router";
import type { ComponentProps } from "react";
import { useUser } from "../api/account";
import { addressOf } from "../api/resource";
import { Page } from "./page";
import { ResourceEditor } from "./resource-editor";

/** Where the rules of one kind are listed; each rule is below it, by its name. */
export type RulesPath =
  | "/access-rules"
  | "/guardrails"
  | "/masking"
  | "/network-rules"
  | "/people/federation-rules"
  | "/review-rules"
  | "/runbooks/rules";

type EditorProps<Item, Draft, Body> = ComponentProps<typeof ResourceEditor<Item, Draft, Body>>;

interface Props<Item, Draft, Body>
  extends Pick<EditorProps<Item, Draft, Body>, "resource" | "blank" | "draftOf" | "bodyOf" | "beside" | "children"> {
  path: RulesPath;
  text: {
    newTitle: string;
    title: (name: string) => string;
    all: string;
    verbs: { create: string; save: string };
    delete: string;
    deleteTitle: (name: string) => string;
  };
  /** What the deletion of a rule changes. */
  deleteText: NonNullable<EditorProps<Item, Draft, Body>["deletion"]>["text"];
}

/** The screen of one rule, or of a new one where the address has no name. Only administrators can change it. */
export function RuleEditor<Item extends { id: string; name: string }, Draft, Body>({
  path,
  text,
  deleteText,
  ...editor
}: Props<Item, Draft, Body>) {
  const { name } = useParams({ strict: false });
  const { is_admin } = useUser();
  const navigate = useNavigate();
  const moved = (next: string | null) =>
    void (next === null
      ? navigate({ to: path })
      : navigate({ to: `${path}/$name`, params: { name: next }, search: true }));
  return (
    <Page title={name === undefined ? text.newTitle : text.title(name)} aside={<Link to={path}>{text.all}</Link>}>
      <ResourceEditor
        key={name}
        {...editor}
        name={name}
        nameOf={addressOf}
        onMoved={moved}
        isReadOnly={!is_admin}
        verbs={text.verbs}
        deletion={{ label: text.delete, title: text.deleteTitle(name ?? ""), text: deleteText }}
      />
    </Page>
  );
}
