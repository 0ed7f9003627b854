import {
  autocompletion,
  type CompletionContext,
  type CompletionResult,
  closeCompletion,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab, isolateHistory } from "@codemirror/commands";
import { MySQL, PostgreSQL, sql } from "@codemirror/lang-sql";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { type RefObject, useEffect, useImperativeHandle, useRef } from "react";
import { type Names, quoteName, suggest } from "../../engines/sql/completion";
import { statementAt } from "../../engines/sql/scan";

interface Props {
  label: string;
  initial: string;
  dialect: string;
  /** The names of the database, for completion. */
  names: Names | null;
  handle: RefObject<EditorHandle | null>;
  onChange: (text: string) => void;
  /** The text that is selected; empty without a selection. */
  onSelect: (text: string) => void;
  /** Run this text: the selection, a statement, or all. */
  onRun: (text: string) => void;
}

/** What others can do with the text. */
export interface EditorHandle {
  /** Put a text at the cursor, instead of what is selected. */
  insert: (text: string) => void;
  replace: (text: string) => void;
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
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-specialChar": { color: "var(--held)" },
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

/**
 * A SQL editor. Ctrl+Enter or ⌘Enter runs the selection or all, with Shift the statement at the cursor. Tab indents, and
 * Escape then Tab leaves the editor.
 */
export function SqlEditor({ label, initial, dialect, names, handle, onChange, onSelect, onRun }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const handlers = useRef({ onChange, onSelect, onRun, names });
  handlers.current = { onChange, onSelect, onRun, names };
  useImperativeHandle(handle, () => ({
    insert: (text) => {
      view.current?.dispatch(view.current.state.replaceSelection(text), { annotations: ONE_STEP });
      view.current?.focus();
    },
    replace: (text) => {
      const length = view.current?.state.doc.length ?? 0;
      view.current?.dispatch({ changes: { from: 0, to: length, insert: text }, annotations: ONE_STEP });
      view.current?.focus();
    },
  }));

  // biome-ignore lint/correctness/useExhaustiveDependencies: an editor keeps its text; a new connection is a new one
  useEffect(() => {
    if (place.current === null) return;
    const run = (textOf: (state: EditorState) => string) => (target: EditorView) => {
      closeCompletion(target);
      handlers.current.onRun(textOf(target.state));
      return true;
    };
    const runKeys = [
      { key: "Shift-Mod-Enter", run: run(statementOf) },
      { key: "Mod-Enter", run: run((state) => selectionOf(state) || state.doc.toString()) },
    ];
    const language = sql({ dialect: dialect === "mysql" ? MySQL : PostgreSQL, upperCaseKeywords: false });
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
            if (update.docChanged) handlers.current.onChange(update.state.doc.toString());
            if (update.selectionSet || update.docChanged) handlers.current.onSelect(selectionOf(update.state));
          }),
          keymap.of([...runKeys, ...completionKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
          history(),
          drawSelection(),
          lineNumbers(),
          highlightSpecialChars({ addSpecialChars: INVISIBLE }),
          autocompletion({ icons: false, activateOnTypingDelay: 25 }), // the default, 100 ms, is seen
          language,
          language.language.data.of({ autocomplete: complete }),
          syntaxHighlighting(COLOURS),
          EditorView.lineWrapping,
          THEME,
        ],
      }),
    });
    view.current = made;
    made.focus();
    return () => {
      view.current = null;
      made.destroy();
    };
  }, [dialect]);

  return <div ref={place} style={{ height: "100%", overflow: "auto" }} />;
}

function selectionOf(state: EditorState): string {
  const { from, to } = state.selection.main;
  return state.sliceDoc(from, to);
}

function statementOf(state: EditorState): string {
  const { start, end } = statementAt(state.doc.toString(), state.selection.main.head);
  return state.sliceDoc(start, end).trim();
}

/** Offer the names that fit at the cursor; they are written in quotes where they must be. */
function completeName(context: CompletionContext, names: Names | null, dialect: string): CompletionResult | null {
  if (names === null) return null;
  const word = context.matchBefore(/[\w$]*$/);
  const isQualified = context.matchBefore(/\.[\w$]*$/) !== null;
  if (!context.explicit && !isQualified && !word?.text) return null;
  const options = suggest(context.state.doc.toString(), context.pos, names).map(({ label, detail, kind }) => ({
    label,
    detail,
    type: kind,
    apply: quoteName(label, dialect),
    boost: kind === "column" ? 1 : 0,
  }));
  return { from: word?.from ?? context.pos, options, validFor: /^[\w$]*$/ };
}
