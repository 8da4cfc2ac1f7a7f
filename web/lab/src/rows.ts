// The rows of a run so far, as columns of a line per flow or queue.

import type { Names, Progress, Table } from "./protocol";

/** A line of a chart: times and values. */
export interface Line {
  label: string;
  /** Index of the flow, for its colour; null for other lines. */
  flow: number | null;
  x: number[];
  y: (number | null)[];
}

export interface Band {
  from: number;
  until: number;
  word: string;
}

/** The most lines of a chart. */
export const MOST_LINES = 12;

const FLOW_COLUMNS = ["goodput_mbit", "rtt_ms", "cwnd_packets", "pacing_mbit", "in_flight_packets"] as const;
export type FlowColumn = (typeof FLOW_COLUMNS)[number];

interface Flow {
  x: number[];
  columns: Record<FlowColumn, (number | null)[]>;
  bands: Band[];
  /** Whether the bands are modes of the congestion control, not states of the sender. */
  modes: boolean;
}

interface Queue {
  x: number[];
  packets: number[];
  bytes: number[];
}

export interface Metrics {
  flows: { id: string; cc: string; goodput_mbit: number | null; retransmit_rate?: number | null;
    rtt_ms?: { mean: number | null; p50: number | null; p95: number | null } | null }[];
  queue: { name: string; drops?: number; marks?: number };
  probes: { rtt_ms?: { p50: number | null; p95: number | null } | null }[];
  fairness: { jain: number | null };
  path: { rate_mbit: number; rtt_ms: number };
}

export class Rows {
  readonly flows: Flow[];
  readonly queues: Queue[] = [];
  readonly verdicts: { t: number[]; flow: number[]; verdict: number[] } = { t: [], flow: [], verdict: [] };
  readonly pings: { x: number[]; y: (number | null)[] }[] = [];
  now_s = 0;
  finished = false;
  /** The metrics of the run as JSON, at the end. */
  json: string | null = null;
  metrics: Metrics | null = null;

  constructor(readonly names: Names) {
    this.flows = names.flows.map(() => ({
      x: [], bands: [], modes: false,
      columns: { goodput_mbit: [], rtt_ms: [], cwnd_packets: [], pacing_mbit: [], in_flight_packets: [] },
    }));
  }

  add(progress: Progress, tables: Record<string, Table>): void {
    this.now_s = progress.now_s;
    this.modes(tables["modes"], progress.words);
    this.flowRows(tables["flows"]);
    this.queueRows(tables["queue"]);
    const { t_s, flow, verdict } = tables["verdicts"] ?? {};
    if (t_s && flow && verdict) {
      for (let i = 0; i < t_s.length; i++) {
        this.verdicts.t.push(t_s[i] as number);
        this.verdicts.flow.push(flow[i] as number);
        this.verdicts.verdict.push(verdict[i] as number);
      }
    }
    const pings = tables["pings"];
    if (pings?.["t_s"]) {
      for (let i = 0; i < pings["t_s"].length; i++) {
        const line = (this.pings[pings["probe"]?.[i] ?? 0] ??= { x: [], y: [] });
        const rtt = pings["rtt_ms"]?.[i] as number;
        line.x.push(pings["t_s"][i] as number);
        line.y.push(Number.isNaN(rtt) ? null : rtt);
      }
    }
    if (progress.run !== undefined) {
      this.finished = true;
      this.json = progress.run;
      this.metrics = JSON.parse(progress.run) as Metrics;
    }
  }

  private flowRows(table: Table | undefined): void {
    const { t_s, flow, phase } = table ?? {};
    if (!table || !t_s || !flow || !phase) return;
    for (let i = 0; i < t_s.length; i++) {
      const of = this.flows[flow[i] as number];
      if (!of) continue;
      const t = t_s[i] as number;
      of.x.push(t);
      for (const name of FLOW_COLUMNS) {
        const value = table[name]?.[i] ?? NaN;
        of.columns[name].push(Number.isNaN(value) || (name === "rtt_ms" && value === 0) ? null : value);
      }
      if (!of.modes) this.band(of, t, this.names.phases[phase[i] as number] ?? "");
    }
  }

  private modes(table: Table | undefined, words: string[]): void {
    const { t_s, flow, word } = table ?? {};
    if (!t_s || !flow || !word) return;
    for (let i = 0; i < t_s.length; i++) {
      const of = this.flows[flow[i] as number];
      if (!of) continue;
      if (!of.modes) of.bands = [];
      of.modes = true;
      this.band(of, t_s[i] as number, words[word[i] as number] ?? "");
    }
  }

  private band(of: Flow, t: number, word: string): void {
    const last = of.bands.at(-1);
    const step = this.names.interval_s ?? 0.1;
    if (last && t - last.until < 1.5 * step) {
      last.until = t;
      if (last.word === word) return;
    }
    of.bands.push({ from: Math.max(t - step, 0), until: t, word });
  }

  private queueRows(table: Table | undefined): void {
    const { t_s, queue, backlog_packets, backlog_bytes } = table ?? {};
    if (!t_s || !queue || !backlog_packets || !backlog_bytes) return;
    for (let i = 0; i < t_s.length; i++) {
      const of = (this.queues[queue[i] as number] ??= { x: [], packets: [], bytes: [] });
      of.x.push(t_s[i] as number);
      of.packets.push(backlog_packets[i] as number);
      of.bytes.push(backlog_bytes[i] as number);
    }
  }

  /** The lines of one column, a line per flow. */
  lines(column: FlowColumn): Line[] {
    return this.flows.slice(0, MOST_LINES).map((flow, i) => ({
      label: this.names.flows[i] ?? "", flow: i, x: flow.x, y: flow.columns[column],
    }));
  }
}
