import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import type { Versioned } from "../api/client";
import { ApiError } from "../api/errors";
import type { Resource } from "../api/resource";
import { common } from "../messages/common";
import { Button } from "./button";
import { Confirm } from "./confirm";
import { Form } from "./form";
import { Failure, Notice } from "./notice";
import styles from "./resource-editor.module.css";
import { Skeleton } from "./table";

interface Props<Item, Draft, Body> {
  resource: Resource<Item, Body>;
  /** Its name or identifier; without one, a new one is made. */
  name: string | undefined;
  blank: Draft;
  draftOf: (item: Item) => Draft;
  /** What to send; by default, what is typed is sent as it is. */
  bodyOf?: (draft: Draft) => Body;
  nameOf: (item: Item) => string;
  /** The fields, given what is typed so far; `item` is what is saved. */
  children: (draft: Draft, set: (part: Partial<Draft>) => void, item: Item | null) => ReactNode;
  /** After it was created, saved under another name, or deleted (null). */
  onMoved: (name: string | null, item: Item | null) => void;
  /** After a change was saved, with the answer: it can have secrets that are shown only once. */
  onSaved?: (item: Item) => void;
  /** Without it, nothing is deleted here. */
  deletion?: { label: string; title: string; text: ReactNode | ((item: Item) => ReactNode) };
  /** The button that creates, and that which saves: "Create guardrail". */
  verbs?: { create: string; save: string };
  /** What is shown beside the form about what is typed so far, such as a trial of it. */
  beside?: (draft: Draft, item: Item | null) => ReactNode;
  isReadOnly?: boolean;
}

/** Read one resource, for its editor and what is shown beside it. */
export function useResource<Item, Body>(resource: Resource<Item, Body>, name: string | undefined) {
  return useQuery({
    queryKey: [resource.path, "one", name],
    enabled: name !== undefined,
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY, // a newer version would take away what is being typed
    queryFn: () => resource.read(name ?? ""),
  });
}

/** Make, change and delete one resource. A change that somebody else made meanwhile is never overwritten. */
export function ResourceEditor<Item, Draft, Body = Draft>(props: Props<Item, Draft, Body>) {
  const { resource, name, blank } = props;
  const [isSaved, setSaved] = useState(false);
  const query = useResource(resource, name);
  const onSaved = (item: Item) => {
    setSaved(true);
    props.onSaved?.(item);
  };
  const shared = { ...props, isSaved, onSaved };
  if (name === undefined) return <Editor {...shared} saved={null} start={blank} onReload={() => {}} />;
  if (query.error) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  if (!query.data) return <Skeleton />;
  return (
    <Editor
      key={query.data.version}
      {...shared}
      saved={query.data}
      start={props.draftOf(query.data.item)}
      onReload={() => void query.refetch()}
    />
  );
}

interface EditorProps<Item, Draft, Body> extends Props<Item, Draft, Body> {
  saved: Versioned<Item> | null;
  start: Draft;
  isSaved: boolean;
  onSaved: (item: Item) => void;
  onReload: () => void;
}

function Editor<Item, Draft, Body>({
  resource,
  name,
  children,
  nameOf,
  bodyOf = (draft) => draft as unknown as Body,
  onMoved,
  deletion,
  verbs = { create: common.create, save: common.save },
  beside,
  isReadOnly = false,
  saved,
  start,
  isSaved,
  onSaved,
  onReload,
}: EditorProps<Item, Draft, Body>) {
  const queries = useQueryClient();
  const [draft, setDraft] = useState(start);
  const [unchanged] = useState(start); // `start` is another object in each rendering
  const refresh = () => queries.invalidateQueries({ queryKey: [resource.path] });
  const save = useMutation({
    mutationFn: () => {
      const body = bodyOf(draft);
      return saved === null || name === undefined ? resource.create(body) : resource.replace(name, body, saved.version);
    },
    onSuccess: async (item) => {
      if (nameOf(item) === name) {
        onSaved(item);
        await refresh();
      } else {
        onMoved(nameOf(item), item);
        void queries.invalidateQueries({ queryKey: [resource.path, "list"] });
      }
    },
  });
  const isStale = save.error instanceof ApiError && save.error.status === 412;
  const editor = (
    <div className={styles.editor}>
      <Form
        submit={saved ? verbs.save : verbs.create}
        onSubmit={() => save.mutate()}
        isBusy={save.isPending}
        isReadOnly={isReadOnly}
        error={isStale ? null : save.error}
        isSaved={isSaved && draft === unchanged}
      >
        <ManagedBy item={saved?.item} />
        {children(draft, (part) => setDraft((before) => ({ ...before, ...part })), saved?.item ?? null)}
        {isStale && (
          <Notice kind="held">
            <p>{common.changedMeanwhile}</p>
            <Button onPress={onReload}>{common.loadAgain}</Button>
          </Notice>
        )}
      </Form>
      {deletion && saved && name !== undefined && !isReadOnly && (
        <div>
          <Confirm
            label={deletion.label}
            title={deletion.title}
            action={() => resource.remove(name, saved.version)}
            onDone={() => {
              onMoved(null, null);
              void queries.invalidateQueries({ queryKey: [resource.path, "list"] });
            }}
          >
            {typeof deletion.text === "function" ? deletion.text(saved.item) : deletion.text}
          </Confirm>
        </div>
      )}
    </div>
  );
  if (!beside) return editor;
  return (
    <div className={styles.split}>
      {editor}
      <div className={styles.beside}>{beside(draft, saved?.item ?? null)}</div>
    </div>
  );
}

/** What manages the resource, if a configuration in files or an agent does. */
function ManagedBy({ item }: { item: unknown }) {
  const manager = (item as { managed_by?: string | null } | undefined)?.managed_by;
  if (!manager) return null;
  return (
    <Notice kind="info">
      <p>{manager.startsWith("agent:") ? common.managedByAgent(manager) : common.managedByFiles(manager)}</p>
    </Notice>
  );
}
