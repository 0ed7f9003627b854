/**
 * Move to the gateway's own address if this page was opened at another one, such as 127.0.0.1 instead of localhost:
 * cookies, the check of origins and security keys are bound to that address. Returns whether it moves.
 */
export function moveToOwnAddress(): boolean {
  const url = document.querySelector<HTMLMetaElement>('meta[name="postern-url"]')?.content ?? "";
  if (!URL.canParse(url) || new URL(url).origin === window.location.origin) return false;
  const { pathname, search, hash } = window.location;
  window.location.replace(new URL(url).origin + pathname + search + hash);
  return true;
}
