import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { Page } from "../../parts/page";
import { ResourceEditor } from "../../parts/resource-editor";
import { text } from "./messages";
import { SigningSecret } from "./signing-secret";
import { blankSink, draftOfSink, type Sink, sinks } from "./sink-draft";
import { SinkFields } from "./sink-fields";

/** Creates a sink. A webhook's secret is shown before the page goes on. */
export function NewSinkScreen() {
  const { kind = "webhook" } = useSearch({ from: "/shell/integrations/sinks/new" });
  const navigate = useNavigate();
  const [created, setCreated] = useState<Sink | null>(null);
  const open = (name: string) => void navigate({ to: "/integrations/sinks/$name", params: { name } });
  const moved = (name: string | null, sink: Sink | null) => {
    if (sink?.secret) setCreated(sink);
    else if (name !== null) open(name);
  };
  return (
    <Page title={text.sink.newTitle} aside={<Link to="/integrations">{text.sink.back}</Link>}>
      <ResourceEditor
        resource={sinks}
        verbs={text.sink.submit}
        name={undefined}
        blank={blankSink(kind)}
        draftOf={draftOfSink}
        nameOf={(sink) => sink.name}
        onMoved={moved}
        deletion={{ label: text.sink.delete, title: "", text: text.sink.deleteText }}
      >
        {(draft, set) => <SinkFields draft={draft} set={set} saved={null} />}
      </ResourceEditor>
      <SigningSecret secret={created?.secret ?? null} onClose={() => created && open(created.name)} />
    </Page>
  );
}
