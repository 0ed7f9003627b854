// Makes recorded output of a terminal safe to show: only what is known to draw on the screen passes. What asks for an
// answer, or has effects outside of the screen, is discarded as a whole, wherever the input is split. The same list as
// that of the command line's replay (decision 0026).

export const ESC = "\u001b";
const LINE_CONTROLS = new Set("\b\t\n\v\f\r\u000e\u000f");
const ESCAPES = new Set("78DEMH"); // save and restore the cursor, index, next line, reverse index, set a tab stop
const STRINGS = new Set("]PX^_k"); // OSC, DCS, SOS, PM, APC, and the title of screen
const CHARSETS = new Set("()*+");
const CHARSET_NAMES = new Set("0AB");
const FINALS = new Set("@ABCDEFGHIJKLMPSTXZ`abdefgmr");
const SCREEN_MODES = new Set(["5", "6", "7", "12", "25", "47", "1047", "1048", "1049", "2026"]);
const PARAMETERS = /^[0-9;:]{0,128}$/;
const LARGEST = 9_999; // of a number in a sequence: more repetitions would keep the page busy
const LONGEST = 160; // characters of a sequence that are parsed
const PLAIN = /\P{Cc}+/uy;
const DIRECTION = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const RESET = `${ESC}[0m${ESC}[r${ESC}[2J${ESC}[H`; // instead of a full reset, which changes more than the screen

type State = "ground" | "escape" | "intermediate" | "csi" | "string";

export class ScreenFilter {
  private state: State = "ground";
  private sequence = "";
  private endsByEscape = false;

  /** Return what of the text can be shown. */
  feed(text: string): string {
    let shown = "";
    for (let at = 0; at < text.length; ) {
      if (this.state === "ground") {
        PLAIN.lastIndex = at;
        const plain = PLAIN.exec(text);
        if (plain !== null) {
          shown += plain[0];
          at = PLAIN.lastIndex;
          continue;
        }
      }
      shown += this.take(text[at] ?? "");
      at += 1;
    }
    return shown.replace(DIRECTION, "\ufffd");
  }

  private take(character: string): string {
    if (this.state === "string") return this.takeString(character);
    if (character === ESC) return this.begin("escape");
    if (character === "\u0018" || character === "\u001a") return this.begin("ground");
    if (character >= "\u0080" && character <= "\u009f") {
      this.begin("escape");
      return this.takeEscape(String.fromCharCode(character.charCodeAt(0) - 0x40));
    }
    if (character < " " || character === "\u007f") return LINE_CONTROLS.has(character) ? character : "";
    if (this.state === "escape") return this.takeEscape(character);
    if (this.state === "intermediate") return this.takeCharset(character);
    if (this.state === "csi") return this.takeCsi(character);
    return character;
  }

  private begin(state: State): "" {
    this.state = state;
    this.sequence = "";
    this.endsByEscape = false;
    return "";
  }

  /** Discard everything up to BEL or ST. */
  private takeString(character: string): string {
    if (this.endsByEscape) {
      this.begin("escape");
      if (character === "\\") return this.begin("ground");
      return this.take(character);
    }
    if (character === ESC) this.endsByEscape = true;
    else if (["\u0007", "\u0018", "\u001a", "\u009c"].includes(character)) this.begin("ground");
    return "";
  }

  private takeEscape(character: string): string {
    this.begin("ground");
    if (character === "[") return this.begin("csi");
    if (STRINGS.has(character)) return this.begin("string");
    if (character >= " " && character <= "/") {
      this.state = "intermediate";
      this.sequence = character;
      return "";
    }
    if (character === "c") return RESET;
    return ESCAPES.has(character) ? ESC + character : "";
  }

  private takeCharset(character: string): string {
    if (character >= " " && character <= "/") {
      this.sequence = "  "; // two intermediates select no sequence that passes
      return "";
    }
    const sequence = this.sequence;
    this.begin("ground");
    return CHARSETS.has(sequence) && CHARSET_NAMES.has(character) ? ESC + sequence + character : "";
  }

  private takeCsi(character: string): string {
    if (character < "@" || character > "~") {
      if (this.sequence.length <= LONGEST) this.sequence += character;
      return "";
    }
    const parameters = this.sequence;
    this.begin("ground");
    return filterSequence(parameters, character);
  }
}

function filterSequence(parameters: string, final: string): string {
  if (parameters.startsWith("?")) return filterPrivateSequence(parameters.slice(1), final);
  if (!PARAMETERS.test(parameters) || !isSmall(parameters)) return "";
  if ((final === "s" || final === "u") && parameters === "") return `${ESC}[${final}`; // save and restore the cursor
  const isInsertMode = (final === "h" || final === "l") && parameters === "4";
  return FINALS.has(final) || isInsertMode ? `${ESC}[${parameters}${final}` : "";
}

function filterPrivateSequence(parameters: string, final: string): string {
  if ((final === "J" || final === "K") && ["", "0", "1", "2"].includes(parameters))
    return `${ESC}[?${parameters}${final}`;
  if ((final !== "h" && final !== "l") || parameters.length > LONGEST) return "";
  const modes = parameters.split(";").filter((mode) => SCREEN_MODES.has(mode));
  return modes.length > 0 ? `${ESC}[?${modes.join(";")}${final}` : "";
}

function isSmall(parameters: string): boolean {
  return parameters.split(/[;:]/).every((number) => number.length <= 4 || Number(number) <= LARGEST);
}
