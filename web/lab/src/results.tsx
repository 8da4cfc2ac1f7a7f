// The results of a run: live charts, states, and the metrics at the end.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { colourOf, palette } from "../../src/theme";
import { Chart } from "./chart";
import type { Description } from "./protocol";
import { MOST_LINES, type Line, type Rows } from "./rows";

interface Props {
  rows: Rows | null;
  beside: Rows | null;
  description: Description | null;
  /** Grows with every new row. */
  version: number;
}

const sync = uPlot.sync("lab");

function queueLines(rows: Rows, description: Description | null, delay: boolean): Line[] {
  const lines: Line[] = [];
  for (const [i, queue] of rows.queues.entries()) {
    const hop = description?.hops[i];
    if (!queue || (delay && !hop?.rate_mbit)) continue;
    const rate = hop?.rate_mbit ?? 1;
    lines.push({
      label: hop?.name ?? `queue ${i + 1}`, flow: rows.queues.length > 1 ? i : null, x: queue.x,
      y: delay ? queue.bytes.map((bytes) => (bytes * 8e-3) / rate) : queue.packets,
    });
  }
  return lines;
}

interface Picture {
  key: string;
  title: string;
  unit: string;
  help: string;
  lines: (rows: Rows, description: Description | null) => Line[];
}

const PICTURES: Picture[] = [
  { key: "goodput", title: "Goodput", unit: "Mbit/s", help: "Payload delivered in order, per flow",
    lines: (rows) => rows.lines("goodput_mbit") },
  { key: "rtt", title: "RTT", unit: "ms", help: "Smoothed round-trip time of each sender; pings after the run",
    lines: (rows) => [...rows.lines("rtt_ms"),
      ...rows.pings.map((ping, i) => ({ label: `ping ${i + 1}`, flow: null, ...ping }))] },
  { key: "cwnd", title: "Congestion window", unit: "packets", help: "Packets that the sender may have in flight",
    lines: (rows) => rows.lines("cwnd_packets") },
  { key: "pacing", title: "Pacing rate", unit: "Mbit/s", help: "Rate at which the sender spaces or sizes its bursts",
    lines: (rows) => rows.lines("pacing_mbit") },
  { key: "queue", title: "Queue depth", unit: "packets", help: "Packets that wait at each hop",
    lines: (rows, description) => queueLines(rows, description, false) },
  { key: "delay", title: "Drain time of the queue", unit: "ms", help: "Backlog over the rate of the link: the delay of a packet that arrives now, in a FIFO queue",
    lines: (rows, description) => queueLines(rows, description, true) },
];

function Picture({ picture, rows, beside, description, version }: Props & { picture: Picture }): JSX.Element {
  const root = useRef<HTMLDivElement>(null);
  const chart = useRef<Chart | null>(null);
  useEffect(() => () => chart.current?.destroy(), []);
  useEffect(() => {
    if (!root.current || !rows) return;
    chart.current ??= new Chart(root.current, picture.unit, sync, () => undefined);
    chart.current.draw({
      lines: picture.lines(rows, description),
      beside: beside ? picture.lines(beside, description).map((l) => ({ ...l, label: `pinned ${l.label}` })) : [],
      duration_s: Math.max(rows.names.duration_s, beside?.names.duration_s ?? 0),
    });
  }, [rows, beside, version]);
  return (
    <figure class="chart" title={picture.help}>
      <figcaption>{picture.title} ({picture.unit})</figcaption>
      <div ref={root} role="img" data-picture={picture.key} aria-label="No values yet" />
    </figure>
  );
}

/** The colours of the states, in the order in which they occur. */
const SHADES = ["#b9d7ea", "#f6d5a8", "#bfe3d0", "#e9c4da", "#e8dfa0", "#d3c6ec", "#d9d9d9"];

/** States of the congestion controls as bands over time. */
function States({ rows, version }: { rows: Rows | null; version: number }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const words = [...new Set(rows?.flows.flatMap((f) => f.bands.map((b) => b.word)) ?? [])];
  const shade = (word: string): string => SHADES[words.indexOf(word) % SHADES.length] ?? "#ccc";
  useEffect(() => {
    const c = canvas.current?.getContext("2d");
    if (!canvas.current || !c || !rows) return;
    const flows = rows.flows.slice(0, MOST_LINES);
    const width = Math.max(canvas.current.parentElement?.clientWidth ?? 400, 200);
    const height = flows.length * 20 + 4;
    const scale = devicePixelRatio || 1;
    canvas.current.width = width * scale;
    canvas.current.height = height * scale;
    canvas.current.style.width = `${width}px`;
    canvas.current.style.height = `${height}px`;
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.font = "11px system-ui, sans-serif";
    const left = 54;
    const x = (t: number): number => left + ((width - left - 8) * t) / rows.names.duration_s;
    for (const [i, flow] of flows.entries()) {
      const y = i * 20 + 3;
      c.fillStyle = palette().text;
      c.textAlign = "right";
      c.fillText((rows.names.flows[i] ?? "").slice(0, 8), left - 5, y + 11);
      c.textAlign = "left";
      for (const band of flow.bands) {
        const [from, to] = [x(band.from), x(band.until)];
        c.fillStyle = shade(band.word);
        c.fillRect(from, y, Math.max(to - from, 0.5), 15);
        if (c.measureText(band.word).width < to - from - 6) {
          c.fillStyle = "#222";
          c.fillText(band.word, from + 3, y + 11);
        }
      }
    }
  }, [rows, version]);
  return (
    <figure class="chart wide">
      <figcaption>State of each congestion control</figcaption>
      <div class="legend">
        {words.map((word) => <span key={word}><i style={{ background: shade(word) }} />{word}</span>)}
      </div>
      <canvas ref={canvas} role="img" data-picture="states"
        aria-label={`States over time: ${words.join(", ") || "none yet"}`} />
    </figure>
  );
}

function number(value: number | null | undefined, unit: string): string {
  return value === null || value === undefined ? "–" : `${Number(value.toPrecision(4))} ${unit}`;
}

/** The metrics of a run, and of the run that it is compared with. */
function Summary({ rows, beside }: { rows: Rows | null; beside: Rows | null }): JSX.Element | null {
  const metrics = rows?.metrics;
  if (!metrics) return null;
  const flows = metrics.flows.slice(0, 50);
  const total = (m: typeof metrics): number => m.flows.reduce((sum, f) => sum + (f.goodput_mbit ?? 0), 0);
  const sentence = (m: typeof metrics): string => {
    const ping = m.probes[0]?.rtt_ms;
    return `The flows have a goodput of ${number(total(m), "Mbit/s")} together `
      + `on a path of ${number(m.path.rate_mbit, "Mbit/s")} with a base RTT of ${number(m.path.rtt_ms, "ms")}.`
      + (ping ? ` The ping RTT is ${number(ping.p50, "ms")} in the median and ${number(ping.p95, "ms")} at the 95th percentile.` : "")
      + (m.flows.length > 1 && m.fairness.jain !== null ? ` Jain's fairness index is ${number(m.fairness.jain, "").trim()}.` : "");
  };
  const other = beside?.metrics;
  return (
    <section class="panel" aria-label="Summary" id="summary">
      <h2>Summary</h2>
      <p>{sentence(metrics)}</p>
      {other && <p><strong>Pinned set-up:</strong> {sentence(other)}</p>}
      <div class="scroll" tabIndex={0} role="region" aria-label="Metrics of the flows">
        <table>
          <thead><tr><th scope="col">Flow</th><th scope="col">Congestion control</th><th scope="col">Goodput</th>
            <th scope="col">Median RTT</th><th scope="col">p95 RTT</th><th scope="col">Retransmission rate</th>
            {other && <th scope="col">Goodput, pinned</th>}</tr></thead>
          <tbody>
            {flows.map((flow, i) => (
              <tr key={i}>
                <th scope="row"><i class="dot" style={{ background: colourOf(i, 0) }} /> {flow.id}</th>
                <td>{flow.cc}</td>
                <td>{number(flow.goodput_mbit, "Mbit/s")}</td>
                <td>{number(flow.rtt_ms?.p50, "ms")}</td>
                <td>{number(flow.rtt_ms?.p95, "ms")}</td>
                <td>{number(flow.retransmit_rate == null ? null : flow.retransmit_rate * 100, "%")}</td>
                {other && <td>{number(other.flows[i]?.goodput_mbit, "Mbit/s")}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {metrics.flows.length > flows.length && <p class="hint">The first {flows.length} of {metrics.flows.length} flows.</p>}
    </section>
  );
}

export function Results(props: Props): JSX.Element {
  const { rows, beside, version } = props;
  const many = (rows?.flows.length ?? 0) > MOST_LINES;
  return (
    <>
      <section class="panel" aria-label="Charts">
        <h2>Charts</h2>
        <div class="legend">
          {rows?.names.flows.slice(0, MOST_LINES).map((id, i) => (
            <span key={id}><i style={{ background: colourOf(i, 0) }} />{id}</span>
          ))}
          {rows && rows.names.probes > 0 && <span><i style={{ background: palette().points }} />ping</span>}
          {beside && <span>dashed: pinned set-up</span>}
        </div>
        {many && <p class="hint">The charts show the first {MOST_LINES} of {rows?.flows.length} flows.</p>}
        <div class="charts">
          {PICTURES.map((picture) => <Picture key={picture.key} picture={picture} {...props} />)}
        </div>
        <States rows={rows} version={version} />
        <p class="hint">TCP delivers in order: data behind a lost packet counts when the retransmission arrives, all at
          once. The goodput of a moment can therefore exceed the rate of the link.</p>
      </section>
      <Summary rows={rows} beside={beside} />
    </>
  );
}
