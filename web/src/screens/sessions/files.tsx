import { isHttp, isTerminal } from "../../api/scripts";
import { text } from "./messages";

const FORMATS = [
  ["timeline", "format=timeline"],
  ["har", "format=har"],
  ["asciicast", "format=asciicast"],
  ["json", "extension=json"],
  ["csv", "extension=csv"],
  ["text", "extension=txt"],
] as const;

/** The recording as files, in the formats that fit it. */
export function FilesTab({ id, subtype }: { id: string; subtype: string }) {
  const fits: Partial<Record<string, boolean>> = { asciicast: isTerminal(subtype), har: isHttp(subtype) };
  return (
    <div className="stack">
      <p>{text.files.lead}</p>
      <ul className="stack">
        {FORMATS.filter(([format]) => fits[format] ?? true).map(([format, query]) => (
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
