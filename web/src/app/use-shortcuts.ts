import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { Shortcuts } from "../engines/shortcuts";

type Opened = "palette" | "help" | null;

/**
 * Listen to the keys of the whole application; return which dialog they opened. Users who speak to their machine, or
 * whose hands slip, can switch single letters off.
 */
export function useShortcuts(hasLetterKeys: boolean): [Opened, (opened: Opened) => void] {
  const [opened, setOpened] = useState<Opened>(null);
  const navigate = useNavigate();
  useEffect(() => {
    const shortcuts = new Shortcuts();
    const listen = (event: KeyboardEvent) => {
      const isTyped = isField(event.target) || event.altKey || !hasLetterKeys;
      const shortcut = shortcuts.read({ key: event.key, isCommand: event.ctrlKey || event.metaKey, isTyped });
      if (shortcut === null || document.querySelector('[role="dialog"]') !== null) return;
      event.preventDefault();
      if (shortcut.kind === "go") void navigate({ to: shortcut.to });
      else if (shortcut.kind === "search") document.querySelector<HTMLInputElement>('input[type="search"]')?.focus();
      else setOpened(shortcut.kind);
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, [navigate, hasLetterKeys]);
  return [opened, setOpened];
}

/** Return whether keys that are pressed there are text. */
function isField(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}
