import type { Terminal } from "@xterm/xterm";
import { useCallback, useEffect, useRef, useState } from "react";
import { readEvents } from "../../api/recordings";
import keyFrameWorker from "../../engines/replay/key-frame-worker.ts?worker&url";
import type { KeyFrame } from "../../engines/replay/key-frames";
import { Player } from "../../engines/replay/player";
import { momentsOf, RecordingReader } from "../../engines/replay/recording";
import { startWorker } from "../../engines/replay/worker";

export const SHORT_PAUSE = 2_000; // milliseconds
const KNOWN = 250; // milliseconds between two updates of the page while it plays; the terminal has each frame

interface State {
  position: number;
  duration: number;
  isPlaying: boolean;
  isLoaded: boolean;
  error: Error | null;
}

export interface Replay extends State {
  /** Give it the terminal that it draws on. */
  attach: (terminal: Terminal) => () => void;
  play: () => void;
  pause: () => void;
  seek: (position: number) => void;
  setSpeed: (speed: number) => void;
  setSkipsPauses: (isOn: boolean) => void;
  find: (words: string) => number[];
  /** Go to a moment of the recording, in milliseconds since its start. */
  goTo: (moment: number) => void;
  recordedAt: () => number;
}

const START: State = { position: 0, duration: 0, isPlaying: false, isLoaded: false, error: null };

/** Load a recorded terminal, and play it. `start` is the moment to begin at. */
export function useReplay(id: string, start: number): Replay {
  const player = useRef<Player | null>(null);
  const speed = useRef(1);
  const [state, setState] = useState(START);
  const show = useCallback((part: Partial<State> = {}) => {
    const { position = 0, duration = 0 } = player.current ?? {};
    setState((before) => ({ ...before, position, duration, ...part }));
  }, []);

  const attach = useCallback(
    (terminal: Terminal) => {
      const own = new Player(screenOf(terminal), SHORT_PAUSE);
      player.current = own;
      const stop = load(id, own, start, show);
      return () => {
        stop();
        player.current = null;
      };
    },
    [id, start, show],
  );

  useEffect(() => {
    if (!state.isPlaying) return;
    return animate((elapsed, isDue) => {
      const current = player.current;
      if (current === null) return;
      current.advance(elapsed * speed.current);
      if (current.isAtEnd) show({ isPlaying: false });
      else if (isDue) show();
    });
  }, [state.isPlaying, show]);

  const change = (action: (current: Player) => void, part: Partial<State> = {}) => {
    if (player.current !== null) action(player.current);
    show(part);
  };
  return {
    ...state,
    attach,
    play: () => change((current) => current.isAtEnd && current.seek(0), { isPlaying: true }),
    pause: () => change(() => {}, { isPlaying: false }),
    seek: (position) => change((current) => current.seek(position)),
    goTo: (moment) => change((current) => current.seekRecorded(moment), { isPlaying: false }),
    setSpeed: (value) => {
      speed.current = value;
    },
    setSkipsPauses: (isOn) =>
      change((current) => current.setLongestPause(isOn ? SHORT_PAUSE : Number.POSITIVE_INFINITY)),
    find: (words) => momentsOf(player.current?.all ?? [], words),
    recordedAt: () => player.current?.recordedAt ?? 0,
  };
}

function screenOf(terminal: Terminal) {
  return {
    write: (text: string) => terminal.write(text),
    resize: ({ columns, rows }: { columns: number; rows: number }) => terminal.resize(columns, rows),
    reset: () => terminal.reset(),
  };
}

/** Read all pages of a recording; a worker makes the pictures for seeking meanwhile. Returns what stops it. */
function load(id: string, player: Player, start: number, show: (part?: Partial<State>) => void): () => void {
  const stop = new AbortController();
  const worker = startWorker(new URL(keyFrameWorker, window.location.href));
  worker.addEventListener("message", (event: MessageEvent<KeyFrame[]>) => player.addFrames(event.data));
  const read = async () => {
    const reader = new RecordingReader();
    let isFirst = true;
    for await (const events of readEvents(id, stop.signal)) {
      const chunks = reader.read(events);
      worker.postMessage(chunks);
      player.addChunks(chunks);
      if (isFirst || player.recordedAt < start) player.seekRecorded(start);
      isFirst = false;
      show();
    }
    show({ isLoaded: true });
  };
  read().catch((error: Error) => {
    if (!stop.signal.aborted) show({ error });
  });
  return () => {
    stop.abort();
    worker.terminate();
  };
}

/** Call `step` for each picture of the screen, with the milliseconds since the last; returns what ends it. */
function animate(step: (elapsed: number, isDue: boolean) => void): () => void {
  let before = performance.now();
  let due = before;
  let request = requestAnimationFrame(function draw(now) {
    const isDue = now >= due;
    if (isDue) due = now + KNOWN;
    step(now - before, isDue);
    before = now;
    request = requestAnimationFrame(draw);
  });
  return () => cancelAnimationFrame(request);
}
