import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { formatNumber } from "../engines/numbers";
import { language } from "../messages";
import styles from "./time-chart.module.css";

export interface TimeSeries {
  title: string;
  /** The second is dashed, so that it can be told from the first without its colour. */
  color: "accent" | "refused" | "masked" | "held" | "info";
  values: number[];
}

interface Props {
  /** What it shows, in words: for those who do not see it. The numbers are in a table beside it. */
  label: string;
  /** Seconds since 1970. */
  times: number[];
  series: TimeSeries[];
  /** How a time is written below the axis and for the place under the pointer. */
  formatTime: (seconds: number) => string;
}

const HEIGHT = 220;
const DARK = "(prefers-color-scheme: dark)";

/** Values over time. The pointer, or a touch, shows those of a time. */
export function TimeChart({ label, times, series, formatTime }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const [index, setIndex] = useState<number | null>(null);
  const scheme = useColorScheme();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the scheme changes what the tokens' colours are
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const plot = new uPlot(
      optionsOf(element, series, formatTime, setIndex),
      [times, ...series.map(({ values }) => values)],
      element,
    );
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [times, series, formatTime, scheme]);
  const time = index === null ? undefined : times[index];
  return (
    <figure className={styles.chart}>
      <figcaption className={styles.legend}>
        {series.map(({ title, color, values }) => (
          <span key={title} className={styles[color]}>
            {title}
            {index !== null && `: ${formatNumber(values[index] ?? 0, language)}`}
          </span>
        ))}
        <span>{time !== undefined && formatTime(time)}</span>
      </figcaption>
      <div ref={place} role="img" aria-label={label} className={styles.plot} />
    </figure>
  );
}

function optionsOf(
  element: HTMLElement,
  series: TimeSeries[],
  formatTime: (seconds: number) => string,
  onCursor: (index: number | null) => void,
): uPlot.Options {
  const color = (name: string) => colorOf(element, name);
  const axis = {
    stroke: color("text-2"),
    font: `12px ${getComputedStyle(element).fontFamily}`,
    grid: { stroke: color("border"), width: 1 },
    ticks: { stroke: color("border"), width: 1 },
  };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    hooks: { setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)] },
    scales: { y: { range: (_, __, largest) => [0, Math.max(largest * 1.1, 1)] } },
    axes: [
      { ...axis, values: (_, splits) => splits.map(formatTime), space: 90 },
      {
        ...axis,
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000, 1_000_000],
        size: 50,
      },
    ],
    series: [
      {},
      ...series.map(({ title, color: name }, place) => ({
        label: title,
        stroke: color(name),
        width: 2,
        points: { show: true, size: 5, fill: color(name) },
        ...(place > 0 && { dash: [6, 4] }),
      })),
    ],
  };
}

/** Return what a token's colour is now: the canvas knows neither variables nor light-dark(). */
function colorOf(element: HTMLElement, token: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(--${token})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** The theme that is shown: the user's choice, or else the system's. */
function useColorScheme(): string {
  const [scheme, setScheme] = useState(currentScheme);
  useEffect(() => {
    const query = window.matchMedia(DARK);
    const update = () => setScheme(currentScheme());
    const observer = new MutationObserver(update);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    query.addEventListener("change", update);
    return () => {
      observer.disconnect();
      query.removeEventListener("change", update);
    };
  }, []);
  return scheme;
}

function currentScheme(): string {
  return document.documentElement.dataset.theme ?? (window.matchMedia(DARK).matches ? "dark" : "light");
}
