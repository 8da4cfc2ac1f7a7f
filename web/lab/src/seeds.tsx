// Several seeds as small multiples, and the 95 % confidence interval of the mean goodput.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { colourOf, palette } from "../../src/theme";
import { Client } from "./client";
import type { Setup } from "./protocol";
import { Rows } from "./rows";

const SEEDS = 8;
/** The 97.5 % quantile of Student's t for 7 degrees of freedom. */
const QUANTILE = 2.365;

function Small({ rows, seed }: { rows: Rows; seed: number }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const c = canvas.current?.getContext("2d");
    if (!canvas.current || !c) return;
    const [width, height] = [150, 60];
    canvas.current.width = width * 2;
    canvas.current.height = height * 2;
    c.setTransform(2, 0, 0, 2, 0, 0);
    const lines = rows.lines("goodput_mbit");
    const top = Math.max(...lines.flatMap((l) => l.y.map((y) => y ?? 0)), 1e-9);
    c.strokeStyle = palette().grid;
    c.strokeRect(0.5, 0.5, width - 1, height - 1);
    for (const line of lines) {
      c.strokeStyle = colourOf(line.flow, 0);
      c.beginPath();
      line.y.forEach((y, i) => {
        if (y !== null) c.lineTo(((line.x[i] ?? 0) / rows.names.duration_s) * width, height - (y / top) * (height - 4));
      });
      c.stroke();
    }
  }, [rows]);
  const total = rows.metrics?.flows.reduce((sum, f) => sum + (f.goodput_mbit ?? 0), 0) ?? 0;
  return (
    <figure class="small">
      <canvas ref={canvas} role="img" aria-label={`Goodput with seed ${seed}`} />
      <figcaption>seed {seed}: {Number(total.toPrecision(4))} Mbit/s</figcaption>
    </figure>
  );
}

/** Mean, and half of the width of its confidence interval; "" if the width is only an error of rounding. */
function interval(values: number[]): string {
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const variance = values.reduce((a, b) => a + (b - mean) ** 2, 0) / (values.length - 1);
  const half = QUANTILE * Math.sqrt(variance / values.length);
  return `${Number(mean.toPrecision(4))}${half > 1e-9 * mean ? ` ± ${Number(half.toPrecision(2))}` : ""}`;
}

export function Seeds({ setup }: { setup: Setup }): JSX.Element {
  const client = useRef<Client | null>(null);
  const [runs, setRuns] = useState<Rows[]>([]);
  const [busy, setBusy] = useState(false);
  const key = JSON.stringify(setup);
  useEffect(() => {
    client.current?.cancel();
    setRuns([]);
    setBusy(false);
  }, [key]);
  const start = (): void => {
    client.current ??= new Client();
    setRuns([]);
    setBusy(true);
    const next = (seed: number, done: Rows[]): void => {
      if (seed > SEEDS) return setBusy(false);
      let rows: Rows | null = null;
      client.current?.run({ ...setup, seed }, (reply) => {
        if (reply.kind === "started") rows = new Rows(reply.names);
        if (reply.kind === "failed" || reply.kind === "refused") setBusy(false);
        if (reply.kind !== "rows" || !rows) return;
        rows.add(reply.progress, reply.tables);
        if (!rows.finished) return;
        const all = [...done, rows];
        setRuns(all);
        next(seed + 1, all);
      });
    };
    next(1, []);
  };
  const flows = runs[0]?.names.flows.slice(0, 12) ?? [];
  return (
    <section class="panel" aria-label="Seeds">
      <h2>Seeds</h2>
      <p class="hint">Runs with other random numbers show how much a result varies. Each flow starts at a random
        time, as with <code>narrows run --seeds</code>.</p>
      <button type="button" title="Run the scenario with the seeds 1 to 8" onClick={start} disabled={busy}>Run {SEEDS} seeds</button>
      <div class="smalls">{runs.map((rows, i) => <Small key={i} rows={rows} seed={i + 1} />)}</div>
      {runs.length === SEEDS && (
        <ul>
          {flows.map((id, flow) => {
            const mean = interval(runs.map((r) => r.metrics?.flows[flow]?.goodput_mbit ?? 0));
            return <li key={id}>{id}: {mean} Mbit/s (mean goodput, 95 % confidence interval)</li>;
          })}
        </ul>
      )}
    </section>
  );
}
