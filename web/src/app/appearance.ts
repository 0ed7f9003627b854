import type { Preferences } from "../engines/preferences";

const STORED = "postern appearance"; // read by public/start.js before anything is painted

/** Show the page in the theme and density that the user chose, and remember them for the next visit. */
export function applyAppearance({ theme, density }: Pick<Preferences, "theme" | "density">): void {
  const { dataset } = document.documentElement;
  if (theme === "system") delete dataset.theme;
  else dataset.theme = theme;
  if (density === "comfortable") delete dataset.density;
  else dataset.density = density;
  try {
    if (theme === "system" && density === "comfortable") localStorage.removeItem(STORED);
    else localStorage.setItem(STORED, JSON.stringify({ theme, density }));
  } catch {
    // Without storage, the next visit begins as the system is.
  }
}
