import { type RefObject, useCallback, useState } from "react";
import { isSql } from "../../engines/sql/dialects";
import type { FormatProblem } from "../../engines/sql/format";
import type { EditorHandle } from "./editor";

/** Whether there is a formatter for scripts of this dialect. */
export function canFormat(dialect: string): boolean {
  return isSql(dialect);
}

/** Format the selection or all of an editor; `problem` says why it stayed as it was. */
export function useFormat(handle: RefObject<EditorHandle | null>, dialect: string) {
  const [problem, setProblem] = useState<FormatProblem | "failed" | null>(null);
  const format = useCallback(async () => {
    const piece = handle.current?.piece();
    if (!piece?.text.trim()) return;
    const engine = await import("../../engines/sql/format").catch(() => null);
    if (engine === null) return setProblem("failed");
    const { text, problem } = engine.formatScript(piece.text, dialect);
    setProblem(problem);
    if (text !== null) handle.current?.change(piece, text);
  }, [handle, dialect]);
  return { format: () => void format(), problem };
}
