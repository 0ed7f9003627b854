import {
  autocompletion,
  type CompletionContext,
  type CompletionResult,
  closeCompletion,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab, isolateHistory } from "@codemirror/commands";
import { MSSQL, MySQL, PLSQL, PostgreSQL, type SQLDialect, sql } from "@codemirror/lang-sql";
import { HighlightStyle, type Language, syntaxHighlighting } from "@codemirror/language";
import { EditorState, type Extension } from "@codemirror/state";
import {
  EditorView,
  highlightSpecialChars,
  keymap,
  layer,
  lineNumbers,
  placeholder,
  RectangleMarker,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { type RefObject, useEffect, useImperativeHandle, useRef } from "react";
import { hasCommands, suggestCommands } from "../../engines/sql/commands";
import { type Names, quoteName, suggest } from "../../engines/sql/completion";
import { type SqlDialect, sqlDialectOf } from "../../engines/sql/dialects";
import { type ErrorPlace, errorRange, type Range } from "../../engines/sql/positions";
import { statementAt } from "../../engines/sql/scan";
import { suggestShell } from "../../engines/sql/shell";
import { type Judged, judgedMarks } from "./judged";
import { goTo, haveMarksChanged, markKeys, marks, ranOf, type ShownMark, setMarks, setRan, shownMarks } from "./marks";
import { text as words } from "./messages";
import { commandLanguage, requestLanguage } from "./request-language";
import { shellLanguage } from "./shell-language";

/** A part of the script, and where it begins. */
export interface Piece {
  text: string;
  from: number;
}

interface Props {
  label: string;
  initial: string;
  /** Where what ran last is in it. */
  initialRan: Range | null;
  /** Whether it takes the keyboard when it appears. */
  isFocused: boolean;
  dialect: string;
  /** The names of the database, for completion. */
  names: Names | null;
  handle: RefObject<EditorHandle | null>;
  /** The text as it is now, and where what runs, or ran last, is in it. */
  onChange: (text: string, ran: Range | null) => void;
  /** What is selected; null without a selection. */
  onSelect: (selected: Piece | null) => void;
  /** Run this: the selection, a statement, or all. */
  onRun: (piece: Piece) => void;
  onMarks: (marks: ShownMark[]) => void;
  onFormat: () => void;
}

/** What others can do with the text. */
export interface EditorHandle {
  /** Put a text at the cursor, instead of what is selected. */
  insert: (text: string) => void;
  replace: (text: string) => void;
  /** Note what runs from now on: errors are counted from its beginning, and those of the last run go. */
  noteRun: (piece: Piece) => void;
  /** Mark where the run failed, if that is known. */
  markError: (error: ErrorPlace) => void;
  /** Mark what the preview says about statements, if it is about the text that is there. */
  markJudged: (judged: Judged | null) => void;
  goTo: (mark: ShownMark) => void;
  /** The selection, or all. */
  piece: () => Piece;
  /** Put a text instead of a piece, unless that was changed meanwhile. */
  change: (piece: Piece, text: string) => void;
}

const COLOURS = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--held)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--info)" },
  { tag: tags.comment, color: "var(--text-3)", fontStyle: "italic" },
]);

const THEME = EditorView.theme({
  "&": { backgroundColor: "var(--surface)", color: "var(--text)", fontSize: "13px", height: "100%" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--text-3)", border: "none" },
  ".cm-line::selection, .cm-line ::selection": { backgroundColor: "transparent" },
  ".cm-specialChar": { color: "var(--held)" },
  ".cm-signs": { minWidth: "1.4em", textAlign: "center", fontWeight: 700 },
  ".cm-sign-error, .cm-sign-deny": { color: "var(--refused)" },
  ".cm-sign-hold, .cm-sign-unreadable": { color: "var(--held)" },
  ".cm-sign-warn": { color: "var(--info)" },
  ".cm-mark": { textDecoration: "underline wavy 1px", textUnderlineOffset: "3px", textDecorationSkipInk: "none" },
  ".cm-mark-error, .cm-mark-deny": { textDecorationColor: "var(--refused)" },
  ".cm-mark-hold, .cm-mark-unreadable": { textDecorationColor: "var(--held)" },
  ".cm-mark-warn": { textDecorationColor: "var(--info)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--info-soft)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", borderColor: "var(--border)", color: "var(--text)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--accent)",
    color: "var(--on-accent)",
  },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: 600 },
});

// Also bidirectional and zero-width characters are shown, so that a script is what it looks like.
const INVISIBLE = /[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

// What others put into the text is undone by itself, not together with what was typed just before.
const ONE_STEP = isolateHistory.of("full");

// What is selected stays visible while the keyboard is in another field, as "Run selection" runs it. The cursor is the
// browser's: drawing it (drawSelection) measures the page with each key, and its blinking is an animation.
const selectionLayer = layer({
  above: false,
  class: "cm-selectionLayer",
  update: ({ docChanged, selectionSet, viewportChanged }) => docChanged || selectionSet || viewportChanged,
  markers: (view) =>
    view.state.selection.ranges
      .filter(({ empty }) => !empty)
      .flatMap((range) => RectangleMarker.forRange(view, "cm-selectionBackground", range)),
});

/**
 * An editor of scripts. Ctrl+Enter or ⌘Enter runs the selection or all, with Shift the statement at the cursor. F8 goes to the
 * next mark, Shift+Alt+F formats. Tab indents, and Escape then Tab leaves the editor.
 */
export function SqlEditor({ label, initial, initialRan, isFocused, dialect, handle, ...handled }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const handlers = useRef(handled);
  handlers.current = handled;
  useImperativeHandle(handle, () => handleOf(() => view.current), []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: an editor keeps its text; a new connection is a new one
  useEffect(() => {
    if (place.current === null) return;
    const run = (pieceOf: (state: EditorState) => Piece) => (target: EditorView) => {
      closeCompletion(target);
      handlers.current.onRun(pieceOf(target.state));
      return true;
    };
    const format = () => {
      handlers.current.onFormat();
      return true;
    };
    const ownKeys = [
      { key: "Shift-Mod-Enter", run: run((state) => statementOf(state, dialect)) },
      { key: "Mod-Enter", run: run(selectionOrAll) },
      { key: "Shift-Alt-f", run: format },
      ...markKeys,
    ];
    const { language, extensions } = languageOf(dialect);
    const complete = (context: CompletionContext) => completeName(context, handlers.current.names, dialect);
    const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";
    const made = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: initial,
        extensions: [
          EditorView.cspNonce.of(nonce),
          EditorView.contentAttributes.of({ "aria-label": label }),
          EditorView.updateListener.of((update) => {
            const { state, startState, docChanged } = update;
            if (docChanged) handlers.current.onChange(state.doc.toString(), ranOf(state));
            if (update.selectionSet || docChanged) handlers.current.onSelect(selectionOf(state));
            if (haveMarksChanged(startState, state)) handlers.current.onMarks(shownMarks(state));
          }),
          keymap.of([...ownKeys, ...completionKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
          history(),
          selectionLayer,
          marks,
          lineNumbers(),
          highlightSpecialChars({ addSpecialChars: INVISIBLE }),
          autocompletion({ icons: false, activateOnTypingDelay: 25 }), // the default, 100 ms, is seen
          extensions,
          language.data.of({ autocomplete: complete }),
          syntaxHighlighting(COLOURS),
          EditorView.lineWrapping,
          THEME,
        ],
      }),
    });
    view.current = made;
    made.dispatch({ effects: setRan.of(initialRan) });
    if (isFocused) made.focus();
    return () => {
      view.current = null;
      made.destroy();
    };
  }, [dialect]);

  return <div ref={place} style={{ height: "100%", overflow: "auto" }} />;
}

const LANGUAGES: Record<SqlDialect, SQLDialect> = {
  postgres: PostgreSQL,
  mysql: MySQL,
  mssql: MSSQL,
  oracledb: PLSQL,
};

function languageOf(dialect: string): { language: Language; extensions: Extension } {
  const own = dialect === "mongodb" ? shellLanguage : dialect === "httpproxy" ? requestLanguage : null;
  const language = own ?? (hasCommands(dialect) ? commandLanguage : null);
  if (language) return { language, extensions: [language, placeholder(words.examples[dialect] ?? "")] };
  const support = sql({ dialect: LANGUAGES[sqlDialectOf(dialect)], upperCaseKeywords: false });
  return { language: support.language, extensions: support };
}

/** Return what others can do with the editor. */
function handleOf(current: () => EditorView | null): EditorHandle {
  const put = (view: EditorView, { text, from }: Piece, insert: string) => {
    view.dispatch({ changes: { from, to: from + text.length, insert }, annotations: ONE_STEP });
    view.focus();
  };
  const withView = (act: (view: EditorView) => void) => {
    const view = current();
    if (view) act(view);
  };
  return {
    insert: (text) =>
      withView((view) => {
        view.dispatch(view.state.replaceSelection(text), { annotations: ONE_STEP });
        view.focus();
      }),
    replace: (text) => withView((view) => put(view, allOf(view.state), text)),
    noteRun: ({ text, from }) =>
      withView((view) =>
        view.dispatch({ effects: [setRan.of({ from, to: from + text.length }), setMarks.of({ run: [] })] }),
      ),
    markError: (error) =>
      withView((view) => {
        const ran = ranOf(view.state);
        const range = ran && errorRange(view.state.sliceDoc(ran.from, ran.to), error);
        if (!ran || !range) return;
        const [from, to] = [ran.from + range.from, ran.from + range.to];
        view.dispatch({ effects: setMarks.of({ run: [{ kind: "error", message: error.text, from, to }] }) });
      }),
    markJudged: (judged) =>
      withView((view) => {
        if (judged === null) return view.dispatch({ effects: setMarks.of({ preview: [] }) });
        const { text, from } = selectionOrAll(view.state);
        if (text !== judged.script) return; // it was changed, and is judged again
        view.dispatch({ effects: setMarks.of({ preview: judgedMarks(judged, from) }) });
      }),
    goTo: (mark) => withView((view) => goTo(view, mark)),
    piece: () => {
      const view = current();
      return view ? selectionOrAll(view.state) : { text: "", from: 0 };
    },
    change: (piece, text) =>
      withView((view) => {
        if (view.state.sliceDoc(piece.from, piece.from + piece.text.length) === piece.text) put(view, piece, text);
      }),
  };
}

function allOf(state: EditorState): Piece {
  return { text: state.doc.toString(), from: 0 };
}

/** Return what is selected, or null if that is nothing but white space. */
function selectionOf(state: EditorState): Piece | null {
  const { from, to } = state.selection.main;
  const text = state.sliceDoc(from, to);
  return text.trim() ? { text, from } : null;
}

function selectionOrAll(state: EditorState): Piece {
  return selectionOf(state) ?? allOf(state);
}

function statementOf(state: EditorState, dialect: string): Piece {
  const { start, end } = statementAt(state.doc.toString(), state.selection.main.head, dialect);
  const text = state.sliceDoc(start, end);
  return { text: text.trim(), from: start + text.length - text.trimStart().length };
}

/** Offer the names that fit at the cursor; they are written in quotes where they must be. */
function completeName(context: CompletionContext, names: Names | null, dialect: string): CompletionResult | null {
  if (hasCommands(dialect)) return completeCommand(context, names, dialect);
  if (names === null || dialect === "httpproxy") return null;
  if (dialect === "mongodb") return completeShell(context, names);
  const word = context.matchBefore(/[\w$]*$/);
  const isQualified = context.matchBefore(/\.[\w$]*$/) !== null;
  if (!context.explicit && !isQualified && !word?.text) return null;
  const options = suggest(context.state.doc.toString(), context.pos, names, dialect).map(({ label, detail, kind }) => ({
    label,
    detail,
    type: kind,
    apply: quoteName(label, dialect),
    boost: kind === "column" ? 1 : 0,
  }));
  return { from: word?.from ?? context.pos, options, validFor: /^[\w$]*$/ };
}

/** Offer commands and their options, tables and columns. */
function completeCommand(context: CompletionContext, names: Names | null, dialect: string): CompletionResult | null {
  const word = context.matchBefore(/[\w./#-]*$/);
  if (!context.explicit && !word?.text) return null;
  const options = suggestCommands(context.state.doc.toString(), context.pos, dialect, names).map(
    ({ label, detail, kind }) => ({ label, detail, type: kind, boost: kind === "method" ? 0 : 1 }),
  );
  return { from: word?.from ?? context.pos, options, validFor: /^[\w./#-]*$/ };
}

/** Offer collections and methods after a dot, and fields in documents. */
function completeShell(context: CompletionContext, names: Names): CompletionResult | null {
  if (!context.explicit && context.matchBefore(/[\w$."'][\w$]*$/) === null) return null;
  const offer = suggestShell(context.state.doc.toString(), context.pos, names);
  if (offer === null || (!context.explicit && offer.from === context.pos && context.matchBefore(/[."'$]$/) === null))
    return null;
  const options = offer.suggestions.map(({ label, detail, kind, apply }) => ({
    label,
    detail,
    type: kind,
    apply,
    boost: kind === "method" ? 0 : 1,
  }));
  return { from: offer.from, options, validFor: /^[\w$.]*$/ };
}
