import { useQueryClient } from "@tanstack/react-query";
import type { Terminal } from "@xterm/xterm";
import { useCallback, useState } from "react";
import { watchSession } from "../../api/recordings";
import { RecordingReader } from "../../engines/replay/recording";
import { Button } from "../../parts/button";
import { Notice } from "../../parts/notice";
import { TerminalView } from "../../parts/terminal-view";
import { text } from "./messages";

/** What an open terminal shows, as it comes. */
export function WatchTab({ id }: { id: string }) {
  const queries = useQueryClient();
  const [cut, setCut] = useState<string | null>(null);
  const watch = useCallback(
    (terminal: Terminal) => {
      const reader = new RecordingReader();
      return watchSession(id, {
        onEvents: (events) => {
          for (const chunk of reader.read(events)) {
            if (chunk.kind === "output") terminal.write(chunk.text);
            else terminal.resize(chunk.size.columns, chunk.size.rows);
          }
        },
        onEnd: () => void queries.invalidateQueries({ queryKey: ["session", id] }),
        onCut: setCut,
      });
    },
    [id, queries],
  );
  return (
    <section aria-label={text.watch.title} className="stack">
      {cut === null ? (
        <TerminalView label={text.watch.screen} onReady={watch} />
      ) : (
        <Notice kind="held">
          <p>{cut || text.watch.cut}</p>
          <Button onPress={() => setCut(null)}>{text.watch.again}</Button>
        </Notice>
      )}
    </section>
  );
}
