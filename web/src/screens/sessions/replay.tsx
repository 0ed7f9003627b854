import { useNavigate, useSearch } from "@tanstack/react-router";
import { Pause, Play } from "lucide-react";
import { useState } from "react";
import { clockTime } from "../../engines/times";
import { counted } from "../../messages";
import { Button } from "../../parts/button";
import { Choice, Toggle } from "../../parts/choice";
import { Failure } from "../../parts/notice";
import { Search } from "../../parts/search";
import { TerminalView } from "../../parts/terminal-view";
import { text } from "./messages";
import styles from "./replay.module.css";
import { type Replay, useReplay } from "./use-player";

const SPEEDS = ["0.5", "1", "2", "4", "8", "16"] as const;
const STEP = 5_000; // milliseconds that an arrow key moves the replay

/** Play a recorded terminal: with speed, seeking, search, and long pauses skipped. */
export function ReplayTab({ id }: { id: string }) {
  const { t } = useSearch({ from: "/shell/sessions/$id" });
  const navigate = useNavigate({ from: "/sessions/$id" });
  const [start] = useState((t ?? 0) * 1_000);
  const replay = useReplay(id, start);
  const share = () => {
    replay.pause();
    const seconds = Math.round(replay.recordedAt() / 100) / 10;
    void navigate({ search: (before) => ({ ...before, t: seconds }), replace: true });
  };
  return (
    <section aria-label={text.replay.title} className="stack">
      {replay.error && <Failure error={replay.error} />}
      <TerminalView label={text.replay.screen} onReady={replay.attach} />
      <Controls replay={replay} onShare={share} />
      <Finder replay={replay} />
    </section>
  );
}

function Controls({ replay, onShare }: { replay: Replay; onShare: () => void }) {
  const [speed, setSpeed] = useState<(typeof SPEEDS)[number]>("1");
  const [skips, setSkips] = useState(true);
  const words = `${clockTime(replay.position)} / ${clockTime(replay.duration)}`;
  return (
    <div className={styles.controls}>
      <Button kind="primary" onPress={replay.isPlaying ? onShare : replay.play}>
        {replay.isPlaying ? <Pause size={14} aria-hidden="true" /> : <Play size={14} aria-hidden="true" />}
        {replay.isPlaying ? text.replay.pause : text.replay.play}
      </Button>
      <input
        type="range"
        className={styles.seek}
        aria-label={text.replay.position}
        aria-valuetext={words}
        min={0}
        max={Math.ceil(replay.duration)}
        step={Math.min(STEP, Math.max(replay.duration / 50, 1))}
        value={replay.position}
        onChange={(event) => replay.seek(Number(event.target.value))}
      />
      <span className="mono">
        {words}
        {!replay.isLoaded && ` ${text.replay.loading}`}
      </span>
      <Choice
        label={text.replay.speed}
        value={speed}
        options={SPEEDS.map((value) => [value, `${value}×`] as const)}
        onChange={(value) => {
          setSpeed(value);
          replay.setSpeed(Number(value));
        }}
      />
      <Toggle
        label={text.replay.skipPauses}
        isOn={skips}
        onChange={(isOn) => {
          setSkips(isOn);
          replay.setSkipsPauses(isOn);
        }}
      />
    </div>
  );
}

/** Find a text in what was shown, and go to the moments. */
function Finder({ replay }: { replay: Replay }) {
  const [words, setWords] = useState("");
  const moments = words ? replay.find(words) : [];
  return (
    <div className="stack">
      <Search label={text.replay.search} value={words} onSearch={setWords} />
      {words && <p role="status">{counted(text.replay.found, moments.length)}</p>}
      {moments.length > 0 && (
        <ul className="row" aria-label={text.replay.moments}>
          {moments.map((moment) => (
            <li key={moment}>
              <Button onPress={() => replay.goTo(moment)}>{clockTime(moment)}</Button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
