import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useUser } from "../../api/account";
import { useConnections } from "../../api/lists";
import { usePages } from "../../api/pages";
import { addressOf } from "../../api/resource";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import { Chip } from "../../parts/chip";
import { Confirm } from "../../parts/confirm";
import { Copy } from "../../parts/copy";
import { LinkButton } from "../../parts/link-button";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { Page } from "../../parts/page";
import type { Column } from "../../parts/table";
import { type Guardrail, guardrails } from "./guardrail-data";
import { text } from "./messages";

const NAMED = 3; // connections that a row names

/** All guardrails, or those that apply to the connection in the address. */
export function GuardrailsScreen() {
  const { connection } = useSearch({ from: "/shell/guardrails" });
  const { is_admin } = useUser();
  const pages = usePages([guardrails.path, "list", connection], (place) =>
    guardrails.list(place, connection ? { connection } : {}),
  );
  return (
    <Page title={text.list.title} aside={is_admin && <NewButton />}>
      {connection && (
        <p>
          {text.list.of(connection)} <Link to="/guardrails">{text.list.all}</Link>
        </p>
      )}
      <List
        label={text.list.title}
        pages={pages}
        columns={is_admin ? [...COLUMNS, SWITCH] : COLUMNS}
        keyOf={({ id }) => id}
        count={(total) => counted(text.list.count, total)}
        none={<Nothing connection={connection} />}
      />
    </Page>
  );
}

const COLUMNS: Column<Guardrail>[] = [
  {
    title: common.name,
    cell: (guardrail) => (
      <Link to="/guardrails/$name" params={{ name: addressOf(guardrail) }}>
        <MarkedText text={guardrail.name} />
      </Link>
    ),
  },
  { title: common.description, cell: ({ description }) => <MarkedText text={description} /> },
  {
    title: text.list.rules,
    cell: ({ input, output }) =>
      [
        input.rules.length > 0 && counted(text.list.input, input.rules.length),
        output.rules.length > 0 && counted(text.list.output, output.rules.length),
      ]
        .filter(Boolean)
        .join(", ") || common.none,
  },
  { title: text.list.appliesTo, cell: (guardrail) => <AppliesTo guardrail={guardrail} /> },
  { title: text.list.state, cell: (guardrail) => <State guardrail={guardrail} /> },
];

const SWITCH: Column<Guardrail> = { title: text.list.change, cell: (guardrail) => <Switch guardrail={guardrail} /> };

function AppliesTo({ guardrail }: { guardrail: Guardrail }) {
  const names = new Map(useConnections().map(({ id, name }) => [id, name]));
  const ids = guardrail.connection_ids;
  if (ids.length === 0) return <span className="secondary">{text.list.nothing}</span>;
  return (
    <>
      <MarkedText
        text={ids
          .slice(0, NAMED)
          .map((id) => names.get(id) ?? "…")
          .join(", ")}
      />
      {ids.length > NAMED && ` ${common.andMore(ids.length - NAMED)}`}
    </>
  );
}

function State({ guardrail }: { guardrail: Guardrail }) {
  if (!guardrail.enabled) return <Chip kind="off">{text.list.off}</Chip>;
  if (guardrail.connection_ids.length === 0) return <Chip kind="held">{text.list.unused}</Chip>;
  return <Chip kind="ok">{text.list.on}</Chip>;
}

function Switch({ guardrail }: { guardrail: Guardrail }) {
  const queries = useQueryClient();
  const refresh = () => queries.invalidateQueries({ queryKey: [guardrails.path] });
  const turn = (enabled: boolean) => guardrails.change(guardrail.id, { enabled });
  const switchOn = useMutation({ mutationFn: () => turn(true), onSuccess: refresh });
  if (guardrail.enabled)
    return (
      <Confirm
        label={text.list.switchOff}
        title={text.list.switchOffTitle(guardrail.name)}
        action={() => turn(false)}
        onDone={() => void refresh()}
      >
        {text.list.switchOffText(counted(common.connections, guardrail.connection_ids.length))}
      </Confirm>
    );
  return (
    <>
      <Button onPress={() => switchOn.mutate()} isDisabled={switchOn.isPending}>
        {text.list.switchOn}
      </Button>
      {switchOn.error && <Failure error={switchOn.error} />}
    </>
  );
}

function NewButton() {
  return (
    <LinkButton kind="primary" to="/guardrails/new">
      {text.list.create}
    </LinkButton>
  );
}

function Nothing({ connection }: { connection: string | undefined }) {
  const { is_admin } = useUser();
  return (
    <div className="stack">
      <p>{connection ? text.list.noneOf(connection) : text.list.none}</p>
      {is_admin && (
        <>
          <div>
            <NewButton />
          </div>
          <Copy
            label={text.list.command}
            text={'postern guardrails create "safe writes" --preset unsafe-writes --connection NAME'}
          />
        </>
      )}
    </div>
  );
}
