import { Pin as PinIcon } from "lucide-react";
import { ToggleButton } from "react-aria-components";
import { useChangePreferences, usePreferences } from "../api/preferences";
import { togglePin } from "../engines/preferences";
import { common } from "../messages/common";
import styles from "./pin.module.css";

/** Pin a connection to the home page, or take it away from there. */
export function Pin({ id, name }: { id: string; name: string }) {
  const { pins } = usePreferences();
  const change = useChangePreferences();
  const isPinned = pins.includes(id);
  return (
    <ToggleButton
      className={styles.pin ?? ""}
      isSelected={isPinned}
      onChange={() => change.mutate((before) => ({ pins: togglePin(before.pins, id) }))}
      aria-label={common.pin(name)}
    >
      <PinIcon size={14} aria-hidden="true" fill={isPinned ? "currentColor" : "none"} />
    </ToggleButton>
  );
}
