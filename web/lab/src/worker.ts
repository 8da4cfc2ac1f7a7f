// The worker: it runs the engine in slices, so that a newer request can replace a run.

import { Engine, type Answer } from "./engine";
import type { Catalogue, Description, Names, Progress, Reply, Request, ScenarioError, Setup, Table }
  from "./protocol";

/** Duration of a slice, in milliseconds: short, so that a change interrupts a run quickly. */
const SLICE_MS = 20;

const module = fetch(self.name || "engine.wasm").then(async (response) => {
  if (!response.ok) throw new Error(`engine.wasm: ${response.status}`);
  return WebAssembly.compile(await response.arrayBuffer());
});
let engine: Engine | null = null;
/** The latest request that runs; an older one stops at the end of its slice. */
let current = 0;
/** Start of the next window that the traced run can still give, and its set-up. */
let traced: { key: string; now_s: number } | null = null;

const post = (reply: Reply): void => postMessage(reply);
/** The next task: messages that have arrived are handled before it. */
const channel = new MessageChannel();
const turn = (): Promise<void> => new Promise((resolve) => {
  channel.port1.onmessage = () => resolve();
  channel.port2.postMessage(null);
});

function failed(id: number, answer: Answer): boolean {
  const { errors, error } = answer.json;
  if (errors) post({ id, kind: "refused", errors: errors as unknown as ScenarioError[] });
  else if (error) post({ id, kind: "failed", message: String(error) });
  return Boolean(errors ?? error);
}

async function run(of: Engine, id: number, setup: Setup): Promise<void> {
  const started = of.call({ op: "start", ...setup });
  if (failed(id, started)) return;
  const names = started.json as unknown as Names;
  post({ id, kind: "started", names });
  // The first slice is short: a path of 10 Tbit/s has a million packets in a millisecond.
  let slice_s = Math.min(names.duration_s / 60, 1e-3);
  for (;;) {
    const before = performance.now();
    const answer = of.call({ op: "advance", slice_s });
    if (failed(id, answer)) return;
    const progress = answer.json as unknown as Progress;
    post({ id, kind: "rows", progress, tables: answer.tables, heap: of.heap });
    if (progress.finished) break;
    const took = Math.max(performance.now() - before, 0.1);
    slice_s = Math.min(slice_s * Math.min(SLICE_MS / took, 4), names.duration_s / 8);
    await turn();
    if (current !== id) return;
  }
  const answer = of.call({ op: "finish" });
  if (failed(id, answer)) return;
  const progress = answer.json as unknown as Progress;
  post({ id, kind: "rows", progress, tables: answer.tables, heap: of.heap });
}

/** The packets of an interval. A later interval of the same run continues the run. */
async function trace(of: Engine, id: number, setup: Setup, from_s: number, until_s: number): Promise<void> {
  const key = JSON.stringify(setup);
  if (traced === null || traced.key !== key || traced.now_s > from_s) {
    traced = null;
    if (failed(id, of.call({ op: "start", ...setup }))) return;
    traced = { key, now_s: 0 };
  }
  let most_s = 1e-3;
  const step = async (to: number): Promise<boolean> => {
    while (traced !== null && to - traced.now_s > 1e-9) {
      const slice_s = Math.min(to - traced.now_s, most_s);
      const before = performance.now();
      const answer = of.call({ op: "advance", slice_s });
      const took = Math.max(performance.now() - before, 0.1);
      most_s = Math.min(slice_s * Math.min(SLICE_MS / took, 4), 2);
      if (failed(id, answer)) {
        traced = null;
        return false;
      }
      traced.now_s += slice_s;
      if ((answer.json as unknown as Progress).finished) return true;
      await turn();
      if (current !== id) return false;
    }
    return true;
  };
  if (!(await step(from_s))) return;
  if (failed(id, of.call({ op: "window", trace: { from_s, until_s } }))) return;
  if (!(await step(until_s))) return;
  const answer = of.call({ op: "trace" });
  if (failed(id, answer)) return;
  const packets = answer.tables["packets"] as Table;
  post({ id, kind: "traced", packets, left_out: Number(answer.json["left_out"]) });
}

onmessage = async ({ data }: MessageEvent<Request>) => {
  const { id } = data;
  try {
    engine ??= new Engine(await module);
    switch (data.kind) {
      case "list": {
        const answer = engine.call({ op: "list" });
        post({ id, kind: "listed", catalogue: answer.json as unknown as Catalogue });
        break;
      }
      case "check": {
        const answer = engine.call({ op: "check", ...data.setup });
        if (failed(id, answer)) break;
        post({ id, kind: "checked", description: answer.json as unknown as Description });
        break;
      }
      case "cancel":
        current = id;
        break;
      case "run":
        current = id;
        await run(engine, id, data.setup);
        break;
      case "trace":
        current = id;
        await trace(engine, id, data.setup, data.from_s, data.until_s);
        break;
    }
  } catch (error) {
    post({ id, kind: "failed", message: String(error) });
  }
};
