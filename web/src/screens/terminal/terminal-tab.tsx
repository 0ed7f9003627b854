import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useUser } from "../../api/account";
import { MUST_STEP_UP } from "../../api/terminal";
import { Notice } from "../../parts/notice";
import { StepUp } from "../../parts/step-up";
import { LiveTerminal } from "./live-terminal";
import { text } from "./messages";
import type { Needs } from "./needs";
import { BLANK, type Draft, StartForm } from "./start-form";
import { type LineState, OPENING, type Phase, type Request } from "./use-line";

/** What the row of tabs shows of a terminal. */
export interface TabState {
  phase: Phase | "form";
  title: string;
}

interface Props {
  connection: string;
  number: number;
  needs: Needs;
  /** Whether it was asked for already, so that nothing is left to choose. */
  opensAtOnce: boolean;
  fontSize: number;
  onChange: (part: Partial<TabState>) => void;
  onClose: () => void;
}

/** The content of one tab: what a terminal needs, then the terminal, as often as it is opened again. */
export function TerminalTab({ connection, number, needs, opensAtOnce, fontSize, onChange, onClose }: Props) {
  const [draft, setDraft] = useState<Draft>(BLANK);
  const [attempt, setAttempt] = useState(opensAtOnce ? 1 : 0);
  const [state, setState] = useState<LineState>(OPENING);
  const [isProving, setProving] = useState(false);
  const follow = (next: LineState) => {
    setState(next);
    onChange({ phase: next.phase });
    if (next.end?.code === MUST_STEP_UP) setProving(true);
  };
  const open = () => {
    setProving(false);
    follow(OPENING);
    onChange({ title: "" });
    setAttempt((before) => before + 1);
  };
  const change = () => {
    onChange({ phase: "form", title: "" });
    setAttempt(0);
  };
  const hasFields = needs.review !== null || needs.prompts.length > 0;
  if (attempt === 0 && needs.hindrance !== null) return <Hindrance connection={connection} needs={needs} />;
  if (attempt === 0) return <StartForm needs={needs} draft={draft} onChange={setDraft} onOpen={open} />;
  return (
    <>
      <LiveTerminal
        key={attempt}
        connection={connection}
        number={number}
        request={requestOf(draft)}
        fontSize={fontSize}
        state={state}
        onState={follow}
        onTitle={(title) => onChange({ title })}
        onAgain={open}
        onChange={hasFields ? change : undefined}
        onClose={onClose}
      />
      {isProving && <StepUp onDone={open} onClose={() => setProving(false)} />}
    </>
  );
}

function Hindrance({ connection, needs }: { connection: string; needs: Needs }) {
  const user = useUser();
  return (
    <Notice kind="held">
      <p>{needs.hindrance}</p>
      {needs.isSetting && user.is_admin && (
        <Link to="/connections/$name" params={{ name: connection }} search={{ tab: "settings" }}>
          {text.enable}
        </Link>
      )}
    </Notice>
  );
}

function requestOf({ reason, minutes, issue }: Draft): Request {
  const filled = [...issue].filter(([, value]) => value);
  return { reason, duration: minutes === null ? null : minutes * 60, tracker_fields: Object.fromEntries(filled) };
}
