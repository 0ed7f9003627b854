import { type EditorState, type Extension, RangeSet, StateEffect, StateField, type Text } from "@codemirror/state";
import { Decoration, EditorView, GutterMarker, gutter, type KeyBinding } from "@codemirror/view";
import type { Range } from "../../engines/sql/positions";
import { text } from "./messages";

export type MarkKind = keyof typeof text.marks;

/** Something to say about a part of the script. It moves with its text, and goes when that is deleted. */
export interface Mark extends Range {
  kind: MarkKind;
  message: string;
}

/** Who says it: the run, or the preview before it. */
export type MarkSource = "run" | "preview";
type Marks = Readonly<Record<MarkSource, readonly Mark[]>>;

interface State {
  marks: Marks;
  /** What runs, or ran last: errors are counted from its beginning. */
  ran: Range | null;
}

export const setMarks = StateEffect.define<Partial<Marks>>();
export const setRan = StateEffect.define<Range | null>();

const NOTHING: State = { marks: { run: [], preview: [] }, ran: null };

const field = StateField.define<State>({
  create: () => NOTHING,
  update(before, { changes, docChanged, effects }) {
    let { marks, ran } = before;
    if (docChanged) {
      const moved = <Part extends Range>(part: Part): Part => ({
        ...part,
        from: changes.mapPos(part.from, 1),
        to: changes.mapPos(part.to, -1),
      });
      const stay = (list: readonly Mark[]) => list.map(moved).filter(({ from, to }) => from < to);
      marks = { run: stay(marks.run), preview: stay(marks.preview) };
      ran = ran && moved(ran);
    }
    for (const effect of effects) {
      if (effect.is(setMarks)) marks = { ...marks, ...effect.value };
      if (effect.is(setRan)) ran = effect.value;
    }
    return marks === before.marks && ran === before.ran ? before : { marks, ran };
  },
});

/** Return all marks in their order; an error of the run comes first where it is at the same place. */
export function marksOf(state: EditorState): Mark[] {
  const { run, preview } = state.field(field).marks;
  return [...run, ...preview].sort((a, b) => a.from - b.from);
}

/** Return where what runs, or ran last, is by now. */
export function ranOf(state: EditorState): Range | null {
  return state.field(field).ran;
}

/** A mark with its line, from 1. */
export type ShownMark = Mark & { line: number };

/** Return all marks with their lines as they are now. */
export function shownMarks(state: EditorState): ShownMark[] {
  return marksOf(state).map((mark) => ({ ...mark, line: lineOf(state.doc, mark.from) }));
}

export function haveMarksChanged(before: EditorState, after: EditorState): boolean {
  if (before.field(field) === after.field(field)) return false;
  return JSON.stringify(shownMarks(before)) !== JSON.stringify(shownMarks(after));
}

function lineOf(doc: Text, at: number): number {
  return doc.lineAt(Math.min(at, doc.length)).number;
}

const UNDERLINES = Object.fromEntries(
  Object.keys(text.marks).map((kind) => [kind, `cm-mark cm-mark-${kind}`]),
) as Record<MarkKind, string>;

const underlines = EditorView.decorations.compute([field], (state) =>
  Decoration.set(
    marksOf(state).map(({ kind, message, from, to }) =>
      Decoration.mark({ class: UNDERLINES[kind], attributes: { title: message } }).range(from, to),
    ),
    true,
  ),
);

const SIGNS: Record<MarkKind, string> = { error: "✕", deny: "✕", unreadable: "?", hold: "‖", warn: "!" };
const ORDER = Object.keys(SIGNS); // the worst first

class Sign extends GutterMarker {
  constructor(
    private readonly kind: MarkKind,
    private readonly message: string,
  ) {
    super();
  }

  override eq(other: GutterMarker): boolean {
    return other instanceof Sign && other.kind === this.kind && other.message === this.message;
  }

  override toDOM(): Node {
    const sign = document.createElement("span");
    sign.className = `cm-sign-${this.kind}`;
    sign.title = this.message;
    sign.textContent = SIGNS[this.kind];
    return sign;
  }
}

/** Signs beside the lines, the worst of each line. */
const signs = gutter({
  class: "cm-signs",
  initialSpacer: () => new Sign("error", ""),
  markers: ({ state }) => {
    const byLine = new Map<number, Mark>();
    for (const mark of marksOf(state)) {
      const at = state.doc.lineAt(mark.from).from;
      const other = byLine.get(at);
      if (!other || ORDER.indexOf(mark.kind) < ORDER.indexOf(other.kind)) byLine.set(at, mark);
    }
    return RangeSet.of(
      [...byLine].map(([at, { kind, message }]) => new Sign(kind, message).range(at)),
      true,
    );
  },
});

/** Go to a mark, and say what it says. */
export function goTo(view: EditorView, mark: ShownMark): void {
  view.dispatch({
    selection: { anchor: mark.from },
    scrollIntoView: true,
    effects: EditorView.announce.of(text.markAt(mark.line, text.marks[mark.kind], mark.message)),
  });
  view.focus();
}

const next = (view: EditorView): boolean => {
  const marks = shownMarks(view.state);
  const mark = marks.find(({ from }) => from > view.state.selection.main.head) ?? marks[0];
  if (mark) goTo(view, mark);
  return mark !== undefined;
};

const previous = (view: EditorView): boolean => {
  const marks = shownMarks(view.state);
  const mark = marks.findLast(({ from }) => from < view.state.selection.main.head) ?? marks.at(-1);
  if (mark) goTo(view, mark);
  return mark !== undefined;
};

export const markKeys: KeyBinding[] = [{ key: "F8", run: next, shift: previous }];

export const marks: Extension = [field, underlines, signs];
