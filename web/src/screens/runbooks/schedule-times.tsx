import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { isZone } from "../../engines/periods";
import { zonedTime } from "../../engines/times";
import { language } from "../../messages";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { useSettled } from "../../parts/use-settled";
import { timesQuery } from "./data";
import { text } from "./messages";
import styles from "./runbooks.module.css";

const PAUSE = 350; // milliseconds without a key after which the expression is read

interface Props {
  cron: string;
  zone: string;
  isOn: boolean;
}

/** When a schedule runs next, in words, as the clocks of its zone show it. */
export function ScheduleTimes({ cron, zone, isOn }: Props) {
  const expression = useSettled(cron.trim(), PAUSE);
  const query = useQuery({ ...timesQuery(expression, zone), placeholderData: keepPreviousData });
  // A zone that the gateway knows and the browser does not.
  const shown = isZone(zone) ? zone : "UTC";
  return (
    <section className="stack" aria-label={text.schedule.nextTimes}>
      <h2>{text.schedule.nextTimes}</h2>
      {!cron.trim() && <p className="secondary">{text.schedule.noTimes}</p>}
      {cron.trim() && query.error && <Failure error={query.error} />}
      {cron.trim() && query.data && !query.error && (
        <>
          <p role="status">
            {query.data.description} <MarkedText text={text.schedule.inZone(zone)} />
          </p>
          <ol className={styles.times}>
            {query.data.times.map((time) => (
              <li key={time}>
                <time dateTime={time}>{zonedTime(time, shown, language)}</time>
              </li>
            ))}
          </ol>
          {!isOn && <p className="secondary">{text.schedule.whileOff}</p>}
        </>
      )}
    </section>
  );
}
