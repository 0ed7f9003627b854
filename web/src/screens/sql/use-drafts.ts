import { useCallback, useEffect, useState } from "react";
import { type Draft, isBlank, lastUsed, neighbourOf } from "../../engines/sql/drafts";
import { DraftKeeper, type DraftProblem } from "./draft-keeper";

/** Open the drafts of a connection as long as its page is there; null until they are read. */
export function useDraftKeeper(user: string, connection: string): DraftKeeper | null {
  const [keeper, setKeeper] = useState<DraftKeeper | null>(null);
  useEffect(() => {
    let own: DraftKeeper | null = null;
    let isLeft = false;
    const flush = () => void own?.flush();
    void DraftKeeper.open(user, connection).then((made) => {
      if (isLeft) return made.close();
      own = made;
      setKeeper(made);
    });
    addEventListener("pagehide", flush);
    return () => {
      isLeft = true;
      removeEventListener("pagehide", flush);
      void own?.close();
      setKeeper(null);
    };
  }, [user, connection]);
  return keeper;
}

export interface DraftTabs {
  tabs: Draft[];
  selected: string;
  /** The tab that was closed last and can come back. */
  closed: Draft | undefined;
  problem: DraftProblem | null;
  /** The tab whose editor has the keyboard when it appears. */
  focused: string;
  select: (id: string) => void;
  add: () => void;
  close: (id: string) => void;
  reopen: () => void;
  rename: (id: string, name: string) => void;
}

/** The tabs of the editor. What is typed in them goes to the keeper, and not through here. */
export function useDraftTabs(keeper: DraftKeeper): DraftTabs {
  const [tabs, setTabs] = useState(() => keeper.list);
  const [selected, setSelected] = useState(() => lastUsed(keeper.list)?.id ?? "");
  const [focused, setFocused] = useState(selected);
  const [closed, setClosed] = useState<Draft[]>([]);
  const [problem, setProblem] = useState(keeper.problem);
  useEffect(() => {
    keeper.onProblem = setProblem;
  }, [keeper]);
  const show = useCallback(
    ({ id }: Draft) => {
      setTabs(keeper.list);
      setSelected(id);
      setFocused(id);
    },
    [keeper],
  );
  const close = (id: string) => {
    const draft = keeper.remove(id);
    if (draft === undefined) return;
    const next = neighbourOf(
      tabs.map((tab) => tab.id),
      id,
    );
    if (!isBlank(draft)) setClosed((before) => [...before, draft]);
    if (next === undefined) return show(keeper.add());
    setTabs(keeper.list);
    if (id === selected) setSelected(next);
  };
  const reopen = () => {
    const draft = closed.at(-1);
    if (draft === undefined) return;
    setClosed(closed.slice(0, -1));
    keeper.restore(draft);
    show(draft);
  };
  return {
    tabs,
    selected,
    focused,
    problem,
    closed: closed.at(-1),
    close,
    reopen,
    add: () => show(keeper.add()),
    select: (id) => {
      setSelected(id);
      keeper.change(id, {}); // it was used
    },
    rename: (id, name) => {
      keeper.change(id, { name });
      setTabs(keeper.list);
    },
  };
}
