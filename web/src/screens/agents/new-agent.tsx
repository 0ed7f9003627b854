import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { agentLines, hostOf, PLACES } from "../../engines/agent-lines";
import { common } from "../../messages/common";
import { Choice } from "../../parts/choice";
import { Copy } from "../../parts/copy";
import { ShownOnce } from "../../parts/dialog";
import { Field } from "../../parts/field";
import { FormDialog } from "../../parts/form-dialog";
import { MarkedText } from "../../parts/marked-text";
import { Notice } from "../../parts/notice";
import styles from "./agents.module.css";
import { AGENTS, type IssuedAgentKey, useAgent } from "./agents-data";
import { text } from "./messages";

type Mode = "standard" | "embedded";

/** Create an agent, show its key with the lines to paste, and wait until it is online. */
export function NewAgent() {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [mode, setMode] = useState<Mode>("standard");
  const [issued, setIssued] = useState<IssuedAgentKey | null>(null);
  const create = async () => {
    setIssued(await unwrap(api.POST("/api/agents", { body: { name: name.trim(), mode } })));
    void queries.invalidateQueries({ queryKey: [AGENTS, "list"] });
  };
  const clear = () => {
    setName("");
    setMode("standard");
  };
  const close = () => {
    const created = issued?.name ?? "";
    setIssued(null);
    void navigate({ to: "/agents/$name", params: { name: created } });
  };
  return (
    <>
      <FormDialog
        label={text.create}
        title={text.createTitle}
        submit={text.create}
        kind="primary"
        onOpen={clear}
        action={create}
      >
        <Field label={common.name} hint={text.nameHint} value={name} onChange={setName} isRequired />
        <Choice
          label={text.mode}
          value={mode}
          options={(["standard", "embedded"] as const).map((name) => [name, text.modes[name]] as const)}
          onChange={setMode}
        />
      </FormDialog>
      <AgentKeyDialog issued={issued} onClose={close} />
    </>
  );
}

/** A new key, and what to do with it. */
export function AgentKeyDialog({ issued, onClose }: { issued: IssuedAgentKey | null; onClose: () => void }) {
  return (
    <ShownOnce title={text.keyTitle(issued?.name ?? "")} isOpen={issued !== null} onClose={onClose}>
      {issued && <AgentSetup issued={issued} />}
    </ShownOnce>
  );
}

function AgentSetup({ issued }: { issued: IssuedAgentKey }) {
  const [place, setPlace] = useState<(typeof PLACES)[number]>("shell");
  const [image, setImage] = useState("registry.example.com/postern");
  const isEmbedded = issued.mode === "embedded";
  const lines = agentLines(place, { name: issued.name, key: issued.key, image: image.trim(), isEmbedded });
  return (
    <div className={styles.setup}>
      <Arrival name={issued.name} />
      <Copy label={text.key} text={issued.key} />
      <Choice
        label={text.place}
        value={place}
        options={PLACES.map((name) => [name, text.places[name]] as const)}
        onChange={setPlace}
      />
      {(place === "docker" || place === "kubernetes") && (
        <Field label={text.image} hint={text.imageHint} value={image} onChange={setImage} />
      )}
      {place === "shell" && <p>{text.linesShell}</p>}
      {isEmbedded && <p>{text.linesEmbedded}</p>}
      <Copy label={text.lines} text={lines} />
      <Addresses />
    </div>
  );
}

function Addresses() {
  const { data: server } = useQuery({
    queryKey: ["server info"],
    staleTime: 60_000,
    queryFn: () => unwrap(api.GET("/api/serverinfo")),
  });
  if (server === undefined) return null;
  return (
    <p className="secondary">
      {text.reaches(hostOf(server.grpc_url), hostOf(server.tunnel_url))} {server.ca_certificate && text.checks}
    </p>
  );
}

/** Say whether the agent has connected yet. */
function Arrival({ name }: { name: string }) {
  const { data: agent } = useAgent(name);
  if (agent?.status !== "CONNECTED")
    return (
      <Notice kind="info">
        <p>
          <MarkedText text={text.waiting(name)} />
        </p>
      </Notice>
    );
  return (
    <Notice kind="ok">
      <p>
        <MarkedText text={text.online(name)} />{" "}
        {agent.version && agent.hostname && <MarkedText text={text.onlineAt(agent.version, agent.hostname)} />}
      </p>
    </Notice>
  );
}
