// Clicks on links to applications. An application sends the browser back here for a code, in a new tab: a click on a link
// of ours just before shows that the user meant it. Other sites cannot write into this storage.

const KEY = "postern.opened-app";
const LIFE = 60_000; // ms

/** Remember that the user has clicked on the link to the application at this host. */
export function rememberClick(host: string, now = Date.now()): void {
  try {
    localStorage.setItem(KEY, JSON.stringify([host, now]));
  } catch {
    // without a storage, the page asks
  }
}

/** Return whether the user has just clicked on the link to this host. */
export function wasClicked(host: string, now = Date.now()): boolean {
  try {
    const [clicked, at] = JSON.parse(localStorage.getItem(KEY) ?? "[]") as [string?, number?];
    return clicked === host && typeof at === "number" && now - at >= 0 && now - at < LIFE;
  } catch {
    return false;
  }
}
