// A terminal in the browser: a WebSocket with frames. It ends with the page, and cannot be resumed.

import {
  type ChannelHandlers,
  type Closing,
  type Size,
  TerminalChannel,
  type TerminalEnd,
} from "../engines/terminal/channel";
import { boundSize } from "../engines/terminal/frames";
import { api, unwrap } from "./client";
import { ApiError } from "./errors";
import { noteLogin } from "./login-keeper";

export type { TerminalEnd } from "../engines/terminal/channel";

// Codes with which terminals are closed; others are in docs/how-to/web-terminals.md.
export const ENDED = 1000; // by its program
export const NOT_LOGGED_IN = 4401;
export const MUST_STEP_UP = 4428;
const PROTOCOL_ERROR = 4400;
const OF_STATUS = 4000; // plus an HTTP status

const SUBPROTOCOL = "postern.terminal.v1";
const USE_A_WEBSOCKET = 426;
const LOST: Closing = { code: null, message: "" };

export interface TerminalRequest extends Size {
  reason: string;
  duration: number | null;
  tracker_fields: Record<string, string>;
}

export interface TerminalHandlers extends ChannelHandlers {
  onEnd: (end: TerminalEnd) => void;
}

/** Open a terminal. All that goes wrong is its end. */
export function openTerminal(connection: string, request: TerminalRequest, handlers: TerminalHandlers): OpenTerminal {
  const terminal = new OpenTerminal(connection, request, handlers);
  void terminal.open();
  return terminal;
}

export class OpenTerminal {
  private readonly channel: TerminalChannel;
  private socket: WebSocket | null = null;
  private isOver = false;

  constructor(
    private readonly connection: string,
    private readonly request: TerminalRequest,
    private readonly handlers: TerminalHandlers,
  ) {
    this.channel = new TerminalChannel(request, (frame) => this.send(frame), handlers);
  }

  async open(): Promise<void> {
    try {
      const session = await unwrap(api.GET("/api/login/session"));
      noteLogin(session);
      if (!this.isOver) this.connect(session.csrf_token ?? "");
    } catch (error) {
      const code = error instanceof ApiError ? OF_STATUS + error.status : null;
      this.end({ code, message: (error as Error).message });
    }
  }

  type(bytes: Uint8Array): void {
    this.channel.type(bytes);
  }

  resize(size: Size): void {
    this.channel.resize(size);
  }

  /** End it without telling its handlers. */
  close(): void {
    this.isOver = true;
    this.socket?.close();
  }

  private connect(csrfToken: string): void {
    const { columns, rows, reason, duration, tracker_fields } = this.request;
    const url = new URL(`/api/connections/${encodeURIComponent(this.connection)}/terminal`, window.location.href);
    url.protocol = url.protocol === "http:" ? "ws:" : "wss:";
    const socket = new WebSocket(url, SUBPROTOCOL);
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      const size = { columns: boundSize(columns), rows: boundSize(rows) };
      socket.send(
        JSON.stringify({ csrf_token: csrfToken, ...size, name: "xterm-256color", reason, duration, tracker_fields }),
      );
    };
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => this.take(data);
    socket.onclose = () => void this.explainEnd();
  }

  private send(frame: Uint8Array<ArrayBuffer>): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(frame);
  }

  private take(data: string | ArrayBuffer): void {
    if (this.isOver) return;
    try {
      if (typeof data === "string") this.channel.takeStatus(data);
      else this.channel.takeFrames(new Uint8Array(data));
    } catch (error) {
      this.end({ code: PROTOCOL_ERROR, message: (error as Error).message });
      this.socket?.close();
    }
  }

  /** The browser hides why a handshake failed; the same address says it without a WebSocket. */
  private async explainEnd(): Promise<void> {
    if (this.isOver || this.channel.closedBy !== null || this.channel.isOpened)
      return this.end(this.channel.closedBy ?? LOST);
    try {
      const params = { path: { nameOrID: this.connection } };
      await unwrap(api.GET("/api/connections/{nameOrID}/terminal", { params }));
      this.end(LOST);
    } catch (error) {
      const isOnlyBlocked = error instanceof ApiError && error.status === USE_A_WEBSOCKET;
      this.end(isOnlyBlocked ? LOST : { code: null, message: (error as Error).message });
    }
  }

  private end(closing: Closing): void {
    if (this.isOver) return;
    this.isOver = true;
    this.handlers.onEnd(this.channel.endOf(closing));
  }
}
