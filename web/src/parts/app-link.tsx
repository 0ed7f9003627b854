import { rememberClick } from "../engines/app-clicks";

/** A link that opens an application in a new tab. The page on the way then needs not to ask whether that was meant. */
export function AppLink({ url, label }: { url: string; label: string }) {
  return (
    <a href={`${url}/`} target="_blank" rel="noreferrer" onClick={() => rememberClick(new URL(url).host)}>
      {label}
    </a>
  );
}
