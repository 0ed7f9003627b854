import { text } from "./messages";

const FORMATS = [
  ["timeline", "format=timeline"],
  ["asciicast", "format=asciicast"],
  ["json", "extension=json"],
  ["csv", "extension=csv"],
  ["text", "extension=txt"],
] as const;

/** The recording as files, in the formats that fit it. */
export function FilesTab({ id, isTerminal }: { id: string; isTerminal: boolean }) {
  return (
    <div className="stack">
      <p>{text.files.lead}</p>
      <ul className="stack">
        {FORMATS.filter(([format]) => isTerminal || format !== "asciicast").map(([format, query]) => (
          <li key={format}>
            <a href={`/api/sessions/${id}/export?${query}`} download>
              {text.files[format]}
            </a>
          </li>
        ))}
      </ul>
    </div>
  );
}
