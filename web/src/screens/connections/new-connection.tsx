import { Link, useNavigate } from "@tanstack/react-router";
import { Page } from "../../parts/page";
import { ConnectionForm } from "./connection-form";
import { text } from "./messages";

/** Create a connection; afterwards its page shows how to open it. */
export function NewConnectionScreen() {
  const navigate = useNavigate();
  return (
    <Page title={text.newTitle} aside={<Link to="/connections">{text.title}</Link>}>
      <ConnectionForm
        name={undefined}
        onMoved={(name) =>
          void (name ? navigate({ to: "/connections/$name", params: { name } }) : navigate({ to: "/connections" }))
        }
      />
    </Page>
  );
}
