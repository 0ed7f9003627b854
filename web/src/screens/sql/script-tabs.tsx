import { useState } from "react";
import type { Names } from "../../engines/sql/completion";
import { type Draft, LONGEST_TITLE, MOST_TABS } from "../../engines/sql/drafts";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { Field } from "../../parts/field";
import { Form } from "../../parts/form";
import { MarkedText } from "../../parts/marked-text";
import { Notice } from "../../parts/notice";
import { Tabs } from "../../parts/tabs";
import type { DraftKeeper } from "./draft-keeper";
import { text } from "./messages";
import { type Connection, ScriptTab } from "./script-tab";
import type { HandleOf } from "./sql";
import styles from "./sql.module.css";
import { useDraftTabs } from "./use-drafts";

interface Props {
  connection: Connection;
  names: Names | null;
  keeper: DraftKeeper;
  handleOf: HandleOf;
}

/** The scripts of one connection. A tab has an editor once it was looked at, or if its run goes on. */
export function ScriptTabs({ connection, names, keeper, handleOf }: Props) {
  const { tabs, selected, focused, closed, problem, ...actions } = useDraftTabs(keeper);
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  if (!opened.has(selected)) setOpened(new Set([...opened, selected]));
  const current = tabs.find(({ id }) => id === selected);
  return (
    <>
      <Tabs
        label={text.scripts}
        tabs={tabs.map((draft) => ({ ...draft, title: <Title draft={draft} /> }))}
        selected={selected}
        onSelect={actions.select}
        onDelete={actions.close}
        actions={
          <div className={styles.actions}>
            <Button kind="quiet" onPress={actions.add} isDisabled={tabs.length >= MOST_TABS}>
              {text.newScript}
            </Button>
            {current && <Rename key={selected} draft={current} onRename={(name) => actions.rename(selected, name)} />}
            <Button kind="quiet" onPress={() => actions.close(selected)}>
              {text.closeScript}
            </Button>
          </div>
        }
      >
        {(draft) =>
          (opened.has(draft.id) || (draft.run !== null && !draft.run.isOver)) && (
            <ScriptTab
              connection={connection}
              names={names}
              initial={draft}
              keeper={keeper}
              handle={handleOf(draft.id, draft.id === selected)}
              isSelected={draft.id === selected}
              isFocused={draft.id === focused}
            />
          )
        }
      </Tabs>
      {tabs.length >= MOST_TABS && <p className="secondary">{text.mostScripts(MOST_TABS)}</p>}
      {closed && <Closed draft={closed} onUndo={actions.reopen} />}
      {problem && <Notice kind="held">{text.draftProblems[problem]}</Notice>}
    </>
  );
}

export function titleOf({ name, number }: Draft): string {
  return name || text.script(number);
}

function Title({ draft }: { draft: Draft }) {
  return (
    <bdi className={styles.title}>
      <MarkedText text={titleOf(draft)} />
    </bdi>
  );
}

/** A script that was closed comes back, with its run. */
function Closed({ draft, onUndo }: { draft: Draft; onUndo: () => void }) {
  const isRunning = draft.run !== null && !draft.run.isOver;
  return (
    <Notice kind="info">
      <div className="row">
        <span>
          <MarkedText text={(isRunning ? text.closedRunning : text.closed)(titleOf(draft))} />
        </span>
        <Button onPress={onUndo}>{text.reopen}</Button>
      </div>
    </Notice>
  );
}

function Rename({ draft, onRename }: { draft: Draft; onRename: (name: string) => void }) {
  const [name, setName] = useState<string | null>(null);
  const close = () => setName(null);
  const save = () => {
    onRename((name ?? "").trim());
    close();
  };
  return (
    <>
      <Button kind="quiet" onPress={() => setName(draft.name)}>
        {text.rename}
      </Button>
      <Dialog title={text.renameTitle(titleOf(draft))} isOpen={name !== null} onClose={close}>
        <Form submit={common.save} onSubmit={save} isBusy={false} error={null}>
          <Field
            label={common.name}
            hint={text.renameHint}
            value={name ?? ""}
            onChange={setName}
            maxLength={LONGEST_TITLE}
            autoFocus
          />
        </Form>
      </Dialog>
    </>
  );
}
