import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useUser } from "../../api/account";
import { usePages } from "../../api/pages";
import { addressOf } from "../../api/resource";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Chip } from "../../parts/chip";
import { Copy } from "../../parts/copy";
import { LinkButton } from "../../parts/link-button";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Search } from "../../parts/search";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { type Schedule, schedules } from "./data";
import { text } from "./messages";
import { RunbooksPage } from "./runbooks-page";

/** The user's schedules by name; all of them for administrators and auditors. */
export function SchedulesScreen() {
  const { search = "" } = useSearch({ from: "/shell/runbooks/schedules" });
  const navigate = useNavigate({ from: "/runbooks/schedules" });
  const { role } = useUser();
  const pages = usePages([schedules.path, "list", search], (place) => schedules.list(place, search ? { search } : {}));
  const find = (value: string) => void navigate({ search: value ? { search: value } : {}, replace: true });
  return (
    <RunbooksPage path="/runbooks/schedules" title={text.schedules.title} aside={<NewButton />}>
      <Search label={text.schedules.search} value={search} onSearch={find} />
      <List
        label={text.schedules.title}
        pages={pages}
        columns={role === "standard" ? COLUMNS : [...COLUMNS, OWNER]}
        keyOf={({ id }) => id}
        count={(total) => counted(text.schedules.count, total)}
        none={search ? <p>{common.noMatch(search)}</p> : <Nothing />}
      />
    </RunbooksPage>
  );
}

const COLUMNS: Column<Schedule>[] = [
  {
    title: common.name,
    cell: (schedule) => (
      <Link to="/runbooks/schedules/$name" params={{ name: addressOf(schedule) }}>
        <MarkedText text={schedule.name} />
      </Link>
    ),
  },
  {
    title: text.schedules.runbook,
    cell: ({ file_name }) => (
      <span className="mono">
        <MarkedText text={file_name} />
      </span>
    ),
  },
  {
    title: text.schedules.connection,
    cell: ({ connection_name }) => (
      <span className="mono">
        <MarkedText text={connection_name} />
      </span>
    ),
  },
  {
    title: text.schedules.times,
    cell: ({ cron, timezone }) => (
      <>
        <code>
          <MarkedText text={cron} />
        </code>{" "}
        <span className="secondary">
          <MarkedText text={timezone} />
        </span>
      </>
    ),
  },
  { title: text.schedules.next, cell: ({ next_at }) => next_at && <Time at={next_at} /> },
  { title: text.schedules.state, cell: (schedule) => <ScheduleState schedule={schedule} /> },
];

const OWNER: Column<Schedule> = {
  title: text.schedules.owner,
  cell: ({ owner }) => (owner ? <MarkedText text={owner} /> : text.schedules.noOwner),
};

export function ScheduleState({ schedule }: { schedule: Schedule }) {
  return (
    <span className="row">
      <Chip kind={schedule.enabled ? "ok" : "off"}>{schedule.enabled ? text.schedules.on : text.schedules.off}</Chip>
      {schedule.last_error && <Chip kind="refused">{text.schedules.failed}</Chip>}
    </span>
  );
}

function NewButton() {
  const { role } = useUser();
  if (role === "auditor") return null;
  return (
    <LinkButton kind="primary" to="/runbooks/schedules/new">
      {text.schedules.create}
    </LinkButton>
  );
}

function Nothing() {
  return (
    <div className="stack">
      <p>{text.schedules.none}</p>
      <div>
        <NewButton />
      </div>
      <Copy label={common.commandLine} text={text.schedules.command} />
    </div>
  );
}
