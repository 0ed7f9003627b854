// What both sides of a terminal's connection say, without the connection itself. See docs/how-to/web-terminals.md.

import {
  EXIT,
  type Exit,
  encodeCredit,
  encodeInput,
  encodeSize,
  FrameReader,
  joinBytes,
  readExit,
  STDERR,
  STDOUT,
  WAITS,
} from "./frames";
import { pendingReview } from "./screen-text";

const KEPT_NOTICE = 4_000; // characters of the gateway's messages

export interface Closing {
  /** That of the gateway; null if the connection was lost. */
  code: number | null;
  /** Why, in the gateway's words; empty if it said nothing. */
  message: string;
}

export interface TerminalEnd extends Closing {
  /** How the program ended, if it began. */
  exit: Exit | null;
  /** The last message of the gateway within the terminal, such as that the session was killed; empty without one. */
  notice: string;
}

export interface ChannelHandlers {
  onOpened: () => void;
  /** Call `processed` once the terminal has drawn the bytes: the gateway sends more only then. */
  onOutput: (bytes: Uint8Array, processed: () => void) => void;
  /** The program waits for a review: its identifier, empty if that is unknown; null once it is approved. */
  onWaits: (review: string | null) => void;
}

export interface Size {
  columns: number;
  rows: number;
}

export class TerminalChannel {
  private readonly reader = new FrameReader();
  private readonly text = new TextDecoder();
  private notice = "";
  private exit: Exit | null = null;
  private closing: Closing | null = null;
  private opened = false;

  /** `size` is what the gateway was told at first. */
  constructor(
    private size: Size,
    private readonly send: (frame: Uint8Array<ArrayBuffer>) => void,
    private readonly handlers: ChannelHandlers,
  ) {}

  get isOpened(): boolean {
    return this.opened;
  }

  /** Why the gateway closed it, if it said so. */
  get closedBy(): Closing | null {
    return this.closing;
  }

  type(bytes: Uint8Array): void {
    if (this.opened) for (const frame of encodeInput(bytes)) this.send(frame);
  }

  resize(size: Size): void {
    this.size = size;
    if (this.opened) this.send(encodeSize(size.columns, size.rows));
  }

  /** Take a text message: the first and the last of the gateway. */
  takeStatus(text: string): void {
    const status = JSON.parse(text) as { status: string; code?: number; message?: string };
    if (status.status === "closed") this.closing = { code: Number(status.code), message: String(status.message ?? "") };
    if (status.status !== "opened") return;
    this.opened = true;
    this.resize(this.size); // it may have changed since the request
    this.handlers.onOpened();
  }

  /** Take a binary message. Throws RangeError if it breaks the protocol. */
  takeFrames(message: Uint8Array): void {
    const output: Uint8Array[] = [];
    for (const { kind, payload } of this.reader.feed(message)) {
      if (kind === STDOUT || kind === STDERR) output.push(payload);
      if (kind === STDERR) this.keepNotice(payload);
      if (kind === EXIT) this.exit = readExit(payload);
      if (kind === WAITS) this.handlers.onWaits(payload[0] === 1 ? (pendingReview(this.notice) ?? "") : null);
    }
    if (output.length === 0) return;
    const bytes = joinBytes(output);
    this.handlers.onOutput(bytes, () => this.send(encodeCredit(bytes.length)));
  }

  endOf(closing: Closing): TerminalEnd {
    const lines = this.notice.split(/\r?\n/).filter(Boolean);
    return { ...closing, exit: this.exit, notice: (lines.at(-1) ?? "").replace(/^postern: /, "") };
  }

  private keepNotice(payload: Uint8Array): void {
    this.notice = (this.notice + this.text.decode(payload, { stream: true })).slice(-KEPT_NOTICE);
  }
}
