// The path as a drawing with moving packets.
//
// Each row of the trace is an event of one packet. A row "departs" contains the time at which the
// packet entered the queue and the time at which it left. The drawing adds the transmission time and
// the propagation delay of the hop. Variations of propagation (jitter, reordering) are not drawn.

import { colourOf, palette } from "../../src/theme";
import type { Hop, Table } from "./protocol";

/** Events of a trace, as the engine numbers them. */
const [ENTERS_NEAR, ENTERS_FAR, DEPARTS, DROPPED, MARKED] = [0, 1, 4, 5, 6];

interface Moving {
  entered: number;
  departs: number;
  gone: number;
  hop: number;
  flow: number;
}

interface Mark {
  t: number;
  hop: number;
  flow: number;
  marked: boolean;
}

export interface Scene {
  hops: Hop[];
  flows: string[];
  from_s: number;
  until_s: number;
  moving: Moving[];
  marks: Mark[];
  /** The most packets that wait in a queue of this scene, for the scale. */
  deepest: number;
}

/** Time in which a packet of this size leaves the link of a hop. */
function transmission(hop: Hop, bytes: number): number {
  return hop.rate_mbit ? (bytes * 8e-6) / hop.rate_mbit : 0;
}

/** Builds the scene of a trace. */
export function scene(packets: Table, hops: Hop[], flows: string[], from_s: number, until_s: number): Scene {
  const { t_s, event, hop, flow, bytes, entered_s } = packets as Record<string, Float64Array | undefined>;
  const moving: Moving[] = [];
  const marks: Mark[] = [];
  const back = hops.reduce((sum, h) => sum + (h.back_s ?? 0), 0);
  const reverse = hops.findIndex((h) => h.reverse === true);
  const wifi = hops.some((h) => h.wifi === true);
  for (let i = 0; i < (t_s?.length ?? 0); i++) {
    const t = t_s?.[i] ?? 0;
    const what = event?.[i] ?? -1;
    const at = { hop: hop?.[i] ?? 0, flow: flow?.[i] ?? 0 };
    const spec = hops[at.hop];
    if (what === DEPARTS && spec) {
      const entered = entered_s?.[i] ?? NaN;
      const travel = transmission(spec, bytes?.[i] ?? 0) + (spec.reverse ? back : spec.delay_s ?? 0);
      moving.push({ ...at, entered: Number.isNaN(entered) ? t : entered, departs: t, gone: t + travel });
    } else if (what === ENTERS_FAR && reverse < 0 && !wifi) {
      moving.push({ hop: -1, flow: at.flow, entered: t, departs: t, gone: t + back });
    } else if (what === DROPPED || what === MARKED) {
      marks.push({ ...at, t, marked: what === MARKED });
    } else if (what === ENTERS_NEAR) {
      continue;
    }
  }
  moving.sort((a, b) => a.departs - b.departs);
  const changes = moving.filter((p) => p.hop >= 0)
    .flatMap((p) => [[p.entered, 1, p.hop], [p.departs, -1, p.hop]] as [number, number, number][])
    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const depth: number[] = [];
  let deepest = 8;
  for (const [, change, at] of changes) {
    depth[at] = (depth[at] ?? 0) + change;
    deepest = Math.max(deepest, depth[at]);
  }
  return { hops, flows, from_s, until_s, moving, marks, deepest };
}

/** Numbers of packets in the drawing at an instant, for the text beside it. */
export interface Count {
  waiting: number;
  flying: number;
  returning: number;
  dropped: number;
}

export class Drawing {
  private readonly context: CanvasRenderingContext2D;
  private width = 0;
  private readonly height = 190;

  constructor(private readonly canvas: HTMLCanvasElement) {
    const context = canvas.getContext("2d");
    if (!context) throw new Error("This browser has no canvas.");
    this.context = context;
  }

  resize(): void {
    const width = Math.max(this.canvas.parentElement?.clientWidth ?? 600, 240);
    const scale = devicePixelRatio || 1;
    if (width === this.width && this.canvas.width === Math.round(width * scale)) return;
    this.width = width;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
  }

  draw(scene: Scene | null, hops: Hop[], t: number): Count {
    this.resize();
    const c = this.context;
    const { text, grid } = palette();
    c.clearRect(0, 0, this.width, this.height);
    c.font = "12px system-ui, sans-serif";
    c.lineWidth = 1;
    const wide = this.width >= 500;
    const margin = wide ? 62 : 30;
    const forward = hops.filter((h) => h.reverse !== true);
    const span = (this.width - 2 * margin) / Math.max(forward.length, 1);
    const top = 62;
    const bottom = 148;
    const box = span * (forward.some((h) => h.wifi) ? 0.8 : 0.38);
    this.host(margin, wide ? "sender" : "S", top, bottom, text, false);
    this.host(this.width - margin, wide ? "receiver" : "R", top, bottom, text, true);
    for (const [i, hop] of forward.entries()) {
      this.hop(margin + i * span, span, box, top, hop, text, grid);
    }
    const reverse = hops.findIndex((h) => h.reverse === true);
    const right = this.width - margin;
    c.strokeStyle = grid;
    c.beginPath();
    c.moveTo(margin, bottom);
    c.lineTo(right, bottom);
    c.stroke();
    c.fillStyle = text;
    c.textAlign = "center";
    const spec = hops[reverse];
    const title = spec ? `reverse hop: ${spec.queue ?? ""}, ${spec.rate_mbit ?? ""} Mbit/s`
      : "reverse path: acknowledgements";
    c.fillText(title, this.width / 2, bottom + 28);
    if (spec) {
      c.strokeStyle = text;
      c.strokeRect(right - box, bottom - 12, box, 24);
    }
    return scene ? this.packets(scene, t, { margin, span, box, top, bottom, right, reverse }) 
      : { waiting: 0, flying: 0, returning: 0, dropped: 0 };
  }

  private host(x: number, name: string, top: number, bottom: number, text: string, right: boolean): void {
    const c = this.context;
    c.strokeStyle = text;
    c.fillStyle = text;
    c.strokeRect(right ? x + 4 : x - 10, top - 16, 6, bottom - top + 32);
    c.textAlign = "center";
    c.fillText(name, right ? Math.min(x + 14, this.width - 26) : Math.max(x - 14, 24), top - 24);
  }

  private hop(x: number, span: number, box: number, top: number, hop: Hop, text: string, grid: string): void {
    const c = this.context;
    c.strokeStyle = text;
    c.beginPath();
    c.moveTo(x + 6, top - 16);
    c.lineTo(x + box, top - 16);
    c.lineTo(x + box, top + 16);
    c.lineTo(x + 6, top + 16);
    c.stroke();
    c.strokeStyle = grid;
    c.beginPath();
    c.moveTo(x + box, top);
    c.lineTo(x + span, top);
    c.stroke();
    c.fillStyle = text;
    c.textAlign = "left";
    const label = hop.wifi ? `level: ${hop.name}` : `queue: ${hop.queue ?? ""}`;
    c.fillText(label, x + 8, top - 42);
    if (!hop.wifi && span > 190) {
      const delay = ((hop.delay_s ?? 0) * 1e3).toPrecision(3);
      c.fillText(`${Number(hop.rate_mbit?.toPrecision(4))} Mbit/s, ${Number(delay)} ms`, x + box + 10, top - 24);
    }
  }

  private packets(scene: Scene, t: number, at: { margin: number; span: number; box: number; top: number;
    bottom: number; right: number; reverse: number }): Count {
    const c = this.context;
    const count: Count = { waiting: 0, flying: 0, returning: 0, dropped: 0 };
    const forward = scene.hops.filter((h) => h.reverse !== true).length;
    const ahead: number[] = new Array<number>(scene.hops.length).fill(0);
    const slot = Math.min(9, (at.box - 14) / scene.deepest);
    const size = Math.max(Math.min(slot - 1, 8), 1.5);
    const colours = scene.flows.map((_, i) => colourOf(i, 0));
    const grey = palette().points;
    for (const p of scene.moving) {
      if (p.entered > t || p.gone <= t) continue;
      let x: number;
      let y = at.top;
      const back = p.hop < 0 || p.hop === at.reverse;
      if (back) y = at.bottom;
      if (p.departs > t) {
        const place = ahead[p.hop] ?? 0;
        ahead[p.hop] = place + 1;
        const from = (place + 1) * Math.max(slot, 1.5);
        count.waiting++;
        if (from > at.box) continue;
        x = back ? at.right - at.box + from - slot : at.margin + p.hop * at.span + at.box - from;
      } else {
        const share = (t - p.departs) / Math.max(p.gone - p.departs, 1e-9);
        const start = back ? (at.reverse >= 0 ? at.right - at.box : at.right)
          : at.margin + p.hop * at.span + at.box;
        const end = back ? at.margin : at.margin + Math.min(p.hop + 1, forward) * at.span;
        x = start + share * (end - start);
        if (back) count.returning++;
        else count.flying++;
      }
      c.fillStyle = colours[p.flow] ?? grey;
      c.fillRect(x - size / 2, y - (back ? 3 : 6), size, back ? 6 : 12);
    }
    // A drop or a mark stays visible for a twentieth of the scene.
    const shown = (scene.until_s - scene.from_s) / 20;
    c.textAlign = "center";
    for (const mark of scene.marks) {
      if (mark.t > t || t - mark.t > shown) continue;
      const age = (t - mark.t) / shown;
      const back = mark.hop === at.reverse;
      const x = back ? at.right - 6 : at.margin + mark.hop * at.span + (mark.marked ? at.box : 10);
      const y = (back ? at.bottom : at.top) + (mark.marked ? -22 : 20 + age * 26);
      c.fillStyle = colours[mark.flow] ?? grey;
      c.globalAlpha = 1 - age * 0.8;
      c.font = "bold 14px system-ui, sans-serif";
      c.fillText(mark.marked ? "▼" : "✕", x, y);
      c.globalAlpha = 1;
      if (!mark.marked) count.dropped++;
    }
    return count;
  }
}
