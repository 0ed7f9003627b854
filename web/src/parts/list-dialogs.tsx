import { useState } from "react";
import { type ChoosableColumn, chosenColumns, namesOfColumns } from "../engines/columns";
import { LONGEST_NAME, type SavedView } from "../engines/saved-views";
import { common } from "../messages/common";
import { Button } from "./button";
import { Toggle } from "./choice";
import { Dialog } from "./dialog";
import { Field } from "./field";
import { Form } from "./form";
import type { StoreViews } from "./list-views";
import styles from "./views.module.css";

interface ManageProps {
  views: readonly SavedView[];
  store: StoreViews;
  onClose: () => void;
}

/** Renames and deletes saved views, all at once. */
export function ManageDialog({ views, store, onClose }: ManageProps) {
  // Each has its stored name beside it: what another browser saved meanwhile stays.
  const [draft, setDraft] = useState(() => views.map((view) => ({ stored: view.name, name: view.name })));
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const known = new Set(views.map(({ name }) => name));
  const names = new Map(draft.map(({ stored, name }) => [stored, name.trim()]));
  const changed = (before: readonly SavedView[]) =>
    before
      .filter(({ name }) => names.has(name) || !known.has(name))
      .map((view) => ({ ...view, name: names.get(view.name) ?? view.name }));
  const save = async () => {
    setBusy(true);
    try {
      await store(changed);
      onClose();
    } catch (failure) {
      setError(failure as Error);
      setBusy(false);
    }
  };
  return (
    <Dialog title={common.views.manage} isOpen onClose={onClose}>
      <Form
        submit={common.save}
        onSubmit={() => void save()}
        isBusy={isBusy}
        error={error}
        more={<Button onPress={onClose}>{common.cancel}</Button>}
      >
        {draft.map(({ stored, name }) => (
          <div key={stored} className={styles.view}>
            <Field
              label={common.views.nameOf(stored)}
              value={name}
              onChange={(typed) =>
                setDraft(draft.map((view) => (view.stored === stored ? { stored, name: typed } : view)))
              }
              maxLength={LONGEST_NAME}
              isRequired
            />
            <Button onPress={() => setDraft(draft.filter((view) => view.stored !== stored))}>
              {common.remove(stored)}
            </Button>
          </div>
        ))}
      </Form>
    </Dialog>
  );
}

interface ColumnProps {
  columns: readonly (ChoosableColumn & { title: string })[];
  names: string | undefined;
  onChange: (names: string | undefined) => void;
  onClose: () => void;
}

/** The columns of a list, each on or off. A choice counts at once. */
export function ColumnDialog({ columns, names, onChange, onClose }: ColumnProps) {
  const chosen = chosenColumns(columns, names).map(({ name }) => name);
  const set = (column: string, isOn: boolean) =>
    onChange(namesOfColumns(columns, isOn ? [...chosen, column] : chosen.filter((name) => name !== column)));
  return (
    <Dialog title={common.views.columns} isOpen onClose={onClose}>
      <p className="secondary">{common.views.columnsHint}</p>
      <fieldset className={styles.columns} aria-label={common.views.columns}>
        {columns.map(({ name, title }, index) => (
          <Toggle
            key={name}
            label={title}
            isOn={chosen.includes(name)}
            onChange={(isOn) => set(name, isOn)}
            isDisabled={index === 0}
          />
        ))}
      </fieldset>
      <div className="row">
        <Button kind="primary" onPress={onClose}>
          {common.done}
        </Button>
        <Button onPress={() => onChange(undefined)} isDisabled={names === undefined}>
          {common.views.allColumns}
        </Button>
      </div>
    </Dialog>
  );
}
