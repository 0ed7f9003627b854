import { Link } from "@tanstack/react-router";
import { common } from "../../messages/common";
import { Copy } from "../../parts/copy";
import type { Connection } from "./connection-form";
import { text } from "./messages";

/** The ways to connect once one may. */
export function HowToConnect({ connection: { name } }: { connection: Connection }) {
  return (
    <div className="stack">
      <p>
        <Link to="/connections/$name" params={{ name }} search={{ tab: "open" }}>
          {text.connectHere}
        </Link>
      </p>
      <Copy label={common.commandLine} text={`postern connect ${name}`} />
    </div>
  );
}
