import { Link } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { useChangePreferences, usePreferences, usePreferencesAreKnown } from "../api/preferences";
import type { ChoosableColumn } from "../engines/columns";
import { LONGEST_NAME, problemOf, type SavedView, withView } from "../engines/saved-views";
import { common } from "../messages/common";
import { Button } from "./button";
import { Field } from "./field";
import { FormDialog } from "./form-dialog";
import { MarkedText } from "./marked-text";
import styles from "./views.module.css";

const ColumnDialog = lazy(async () => ({ default: (await import("./list-dialogs")).ColumnDialog }));
const ManageDialog = lazy(async () => ({ default: (await import("./list-dialogs")).ManageDialog }));

interface Props {
  /** What names the list in the preferences. */
  list: string;
  /** The search of the list's address, with its columns. */
  search: { columns?: string };
  columns: readonly (ChoosableColumn & { title: string })[];
  /** The columns for the address from now on; undefined for those without a choice. */
  onColumns: (names: string | undefined) => void;
}

/** The user's saved views of a list, each a link, and what changes them: filters and columns under a name. */
export function ListViews({ list, search, columns, onColumns }: Props) {
  const views = usePreferences().views[list] ?? [];
  const [dialog, setDialog] = useState<"columns" | "manage" | null>(null);
  const store = useStoreViews(list);
  const close = () => setDialog(null);
  return (
    <div className={styles.saved}>
      {views.length > 0 && (
        <nav className="row" aria-label={common.views.saved}>
          {views.map((view) => (
            <Link key={view.name} to="." search={() => view.search as never} activeOptions={{ exact: true }}>
              <MarkedText text={view.name} />
            </Link>
          ))}
        </nav>
      )}
      <SaveView search={search} store={store} />
      {views.length > 0 && (
        <Button kind="quiet" onPress={() => setDialog("manage")}>
          {common.views.manage}
        </Button>
      )}
      <Button kind="quiet" onPress={() => setDialog("columns")}>
        {common.views.columns}
      </Button>
      <Suspense fallback={null}>
        {dialog === "manage" && <ManageDialog views={views} store={store} onClose={close} />}
        {dialog === "columns" && (
          <ColumnDialog columns={columns} names={search.columns} onChange={onColumns} onClose={close} />
        )}
      </Suspense>
    </div>
  );
}

export type StoreViews = (change: (views: readonly SavedView[]) => readonly SavedView[]) => Promise<unknown>;

/** Return a function that stores the views of a list. It throws an error with words if they cannot be stored. */
function useStoreViews(list: string): StoreViews {
  const { views } = usePreferences();
  const change = useChangePreferences();
  return async (changed) => {
    const problem = problemOf(changed(views[list] ?? []));
    if (problem) throw new Error(common.views.problems[problem]);
    return change.mutateAsync(({ views }) => ({ views: { ...views, [list]: changed(views[list] ?? []) } }));
  };
}

function SaveView({ search, store }: { search: object; store: StoreViews }) {
  const [name, setName] = useState("");
  const areKnown = usePreferencesAreKnown();
  return (
    <FormDialog
      label={common.views.save}
      title={common.views.saveTitle}
      submit={common.save}
      kind="quiet"
      onOpen={() => setName("")}
      action={() => store((before) => withView(before, name, search))}
      isDisabled={!areKnown}
    >
      <Field
        label={common.name}
        hint={common.views.saveHint}
        value={name}
        onChange={setName}
        maxLength={LONGEST_NAME}
        isRequired
        autoFocus
      />
    </FormDialog>
  );
}
