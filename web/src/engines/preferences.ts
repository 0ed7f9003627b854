// What the user chose for this application, as the gateway stores it: any client of theirs can have written it.

import { type SavedViews, savedViewsOf } from "./saved-views";

export const THEMES = ["system", "light", "dark"] as const;
export const DENSITIES = ["comfortable", "compact"] as const;
export type Theme = (typeof THEMES)[number];
export type Density = (typeof DENSITIES)[number];

export interface Preferences {
  theme: Theme;
  density: Density;
  /** Whether single letters are keys of the application. */
  hasLetterKeys: boolean;
  /** Identifiers of connections, in the order in which they were pinned. */
  pins: string[];
  isJourneyDismissed: boolean;
  views: SavedViews;
}

export type StoredObject = Readonly<Record<string, unknown>>;

const PART = "web"; // other clients of the user have parts of their own
const MOST_PINS = 50;
const IDENTIFIER = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

/** Return the preferences in a stored object. What is missing or unknown is as if nothing had been chosen. */
export function preferencesOf(stored: StoredObject): Preferences {
  const part = objectOf(stored[PART]);
  const pins = Array.isArray(part.pins) ? part.pins : [];
  return {
    theme: THEMES.find((theme) => theme === part.theme) ?? "system",
    density: DENSITIES.find((density) => density === part.density) ?? "comfortable",
    hasLetterKeys: part.letter_keys !== false,
    pins: [...new Set(pins.filter(isIdentifier))].slice(0, MOST_PINS),
    isJourneyDismissed: part.journey_dismissed === true,
    views: savedViewsOf(part.views),
  };
}

/** Return what to store after a change. Whatever else is stored stays. */
export function withPreferences(stored: StoredObject, change: Partial<Preferences>): StoredObject {
  const { theme, density, hasLetterKeys, pins, isJourneyDismissed, views } = { ...preferencesOf(stored), ...change };
  const part = { theme, density, letter_keys: hasLetterKeys, pins, journey_dismissed: isJourneyDismissed, views };
  return { ...stored, [PART]: { ...objectOf(stored[PART]), ...part } };
}

/** Return the pins with this one added at the end, or taken away if it is there. */
export function togglePin(pins: readonly string[], id: string): string[] {
  return pins.includes(id) ? pins.filter((pin) => pin !== id) : [...pins, id].slice(-MOST_PINS);
}

function objectOf(value: unknown): StoredObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as StoredObject) : {};
}

function isIdentifier(value: unknown): value is string {
  return typeof value === "string" && IDENTIFIER.test(value);
}
