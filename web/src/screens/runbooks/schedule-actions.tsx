import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, unwrap } from "../../api/client";
import { Button } from "../../parts/button";
import { Confirm } from "../../parts/confirm";
import { Failure, Notice } from "../../parts/notice";
import { type Schedule, schedules } from "./data";
import { text } from "./messages";
import { RUNS_KEY } from "./runs";

interface Props {
  schedule: Schedule;
  isOwner: boolean;
  isAdmin: boolean;
}

/** Run it now, switch it off or on. An administrator only switches off what runs as somebody else. */
export function ScheduleActions({ schedule, isOwner, isAdmin }: Props) {
  const queries = useQueryClient();
  const refresh = () => void queries.invalidateQueries({ queryKey: [schedules.path] });
  const showRun = () => {
    void queries.invalidateQueries({ queryKey: [schedules.path, "status"] });
    void queries.invalidateQueries({ queryKey: [RUNS_KEY] });
  };
  const run = useMutation({
    mutationFn: () =>
      unwrap(api.POST("/api/runbooks/schedules/{nameOrID}/run", { params: { path: { nameOrID: schedule.id } } })),
    onSuccess: showRun,
  });
  const turn = (enabled: boolean) => schedules.change(schedule.id, { enabled });
  const switchOn = useMutation({ mutationFn: () => turn(true), onSuccess: refresh });
  const error = run.error ?? switchOn.error;
  return (
    <>
      {isOwner && (
        <Button onPress={() => run.mutate()} isDisabled={run.isPending}>
          {text.schedule.runNow}
        </Button>
      )}
      {schedule.enabled && (isOwner || isAdmin) && (
        <Confirm
          label={text.schedule.switchOff}
          title={text.schedule.switchOffTitle(schedule.name)}
          action={() => turn(false)}
          onDone={refresh}
        >
          {text.schedule.switchOffText}
        </Confirm>
      )}
      {!schedule.enabled && isOwner && (
        <Button onPress={() => switchOn.mutate()} isDisabled={switchOn.isPending}>
          {text.schedule.switchOn}
        </Button>
      )}
      {error && <Failure error={error} />}
      {run.data && !error && (
        <Notice kind={run.data.review_id ? "held" : "ok"}>
          <p>{run.data.review_id ? text.schedule.startedWaits : text.schedule.started}</p>
          <div className="row">
            <Link to="/sessions/$id" params={{ id: run.data.session_id }}>
              {text.schedule.openSession}
            </Link>
            {run.data.review_id && (
              <Link to="/reviews/$id" params={{ id: run.data.review_id }}>
                {text.schedule.openReview}
              </Link>
            )}
          </div>
        </Notice>
      )}
    </>
  );
}
