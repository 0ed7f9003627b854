import { useConnections } from "../api/lists";
import { type Covering, covers } from "../engines/coverage";
import { counted } from "../messages";
import { common } from "../messages/common";
import { Chip } from "./chip";
import { MarkedText } from "./marked-text";

const SHOWN = 20; // names; the rest is counted

/** The connections that a rule covers now, by their names or by their tags. */
export function Coverage({ rule }: { rule: Covering }) {
  const names = useConnections()
    .filter((connection) => covers(rule, connection))
    .map(({ name }) => name);
  return (
    <section aria-label={common.coversNow} className="stack">
      <p role="status" className="secondary">
        {common.coversNow}: {counted(common.connections, names.length)}
      </p>
      {names.length > 0 && (
        <ul className="row">
          {names.slice(0, SHOWN).map((name) => (
            <li key={name}>
              <Chip kind="off">
                <MarkedText text={name} />
              </Chip>
            </li>
          ))}
          {names.length > SHOWN && <li className="secondary">{common.andMore(names.length - SHOWN)}</li>}
        </ul>
      )}
    </section>
  );
}
