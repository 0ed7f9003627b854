import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useUser } from "../../api/account";
import { addressOf } from "../../api/resource";
import { ownZone } from "../../engines/periods";
import { Confirm } from "../../parts/confirm";
import { Facts } from "../../parts/facts";
import { MarkedText } from "../../parts/marked-text";
import { Notice } from "../../parts/notice";
import { Page } from "../../parts/page";
import { ResourceEditor } from "../../parts/resource-editor";
import { Time } from "../../parts/time";
import {
  blankSchedule,
  type Schedule,
  type ScheduleDraft,
  scheduleBody,
  scheduleDraft,
  schedules,
  statusQuery,
} from "./data";
import { text } from "./messages";
import { Runs } from "./runs";
import { ScheduleActions } from "./schedule-actions";
import { ScheduleFields } from "./schedule-fields";
import { ScheduleTimes } from "./schedule-times";
import { ScheduleState } from "./schedules";

export function NewScheduleScreen() {
  const { repository = "", file = "", connection = "" } = useSearch({ from: "/shell/runbooks/schedules/new" });
  const blank = { ...blankSchedule(ownZone()), repository, file, connection };
  return (
    <Page title={text.schedule.newTitle} aside={<Link to="/runbooks/schedules">{text.schedule.all}</Link>}>
      <p className="secondary">{text.schedule.about}</p>
      <Editor name={undefined} blank={blank} isReadOnly={useUser().role === "auditor"} />
    </Page>
  );
}

/** A schedule: when it runs, what came of its runs, and its settings, which only its owner can change. */
export function ScheduleScreen() {
  const { name } = useParams({ from: "/shell/runbooks/schedules/$name" });
  const user = useUser();
  const schedule = useQuery(statusQuery(name)).data;
  const isOwner = schedule?.owner === user.email;
  return (
    <Page title={text.schedule.title(name)} aside={<Link to="/runbooks/schedules">{text.schedule.all}</Link>}>
      {schedule && (
        <>
          <Facts facts={factsOf(schedule)} />
          {!isOwner && (
            <Notice kind="info">
              <p>
                <MarkedText text={text.schedule.notYours(schedule.owner || text.schedules.noOwner)} />
              </p>
            </Notice>
          )}
          <div className="row">
            <ScheduleActions schedule={schedule} isOwner={isOwner} isAdmin={user.is_admin} />
            {!isOwner && user.is_admin && <Deletion schedule={schedule} />}
          </div>
        </>
      )}
      <Editor key={name} name={name} blank={blankSchedule("UTC")} isReadOnly={!isOwner} />
      {schedule && <Runs repository={schedule.repository} file={schedule.file_name} schedule={schedule.name} />}
    </Page>
  );
}

function factsOf(schedule: Schedule) {
  const { next_at, last_at, last_session_id, last_error } = schedule;
  const facts: [string, ReactNode][] = [
    [text.schedules.state, <ScheduleState key="state" schedule={schedule} />],
    [text.schedules.next, next_at ? <Time key="next" at={next_at} /> : text.schedule.never],
    [
      text.schedule.lastRun,
      last_session_id ? (
        <Link key="last" to="/sessions/$id" params={{ id: last_session_id }}>
          {last_at ? <Time at={last_at} /> : text.schedule.openSession}
        </Link>
      ) : (
        text.schedule.never
      ),
    ],
  ];
  if (last_error) facts.push([text.schedule.lastError, <MarkedText key="error" text={last_error} />]);
  return facts;
}

interface EditorProps {
  name: string | undefined;
  blank: ScheduleDraft;
  isReadOnly: boolean;
}

function Editor({ name, blank, isReadOnly }: EditorProps) {
  const navigate = useNavigate();
  const moved = (next: string | null) =>
    void (next === null
      ? navigate({ to: "/runbooks/schedules" })
      : navigate({ to: "/runbooks/schedules/$name", params: { name: next } }));
  return (
    <ResourceEditor
      resource={schedules}
      name={name}
      blank={blank}
      draftOf={scheduleDraft}
      bodyOf={scheduleBody}
      nameOf={addressOf}
      onMoved={moved}
      isReadOnly={isReadOnly}
      verbs={text.schedule.verbs}
      deletion={{
        label: text.schedule.delete,
        title: text.schedule.deleteTitle(name ?? ""),
        text: text.schedule.deleteText,
      }}
      beside={({ cron, zone, enabled }) => <ScheduleTimes cron={cron} zone={zone} isOn={enabled} />}
    >
      {(draft, set, saved) => <ScheduleFields draft={draft} set={set} saved={saved} isReadOnly={isReadOnly} />}
    </ResourceEditor>
  );
}

/** An administrator deletes what somebody else left behind. */
function Deletion({ schedule }: { schedule: Schedule }) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const leave = () => {
    void navigate({ to: "/runbooks/schedules" });
    void queries.invalidateQueries({ queryKey: [schedules.path, "list"] });
  };
  return (
    <Confirm
      label={text.schedule.delete}
      title={text.schedule.deleteTitle(schedule.name)}
      action={() => schedules.remove(schedule.id)}
      onDone={leave}
    >
      {text.schedule.deleteText}
    </Confirm>
  );
}
