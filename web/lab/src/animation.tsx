// The drawing of the path with its controls: play, pause, step, scrub, speed.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { onTheme } from "../../src/theme";
import { Client } from "./client";
import { Drawing, scene, type Scene } from "./packets";
import type { Description, Setup } from "./protocol";

/** About the number of packets of the link in one scene; later ones come with the next scene. */
const PACKETS = 4000;
const SPEEDS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1];

interface Props {
  setup: Setup;
  description: Description | null;
}

const reduced = matchMedia("(prefers-reduced-motion: reduce)");

/** A time with so many digits that a step of this length changes it, but at least three. */
function seconds(t: number, step: number): string {
  return `${t.toFixed(Math.max(3, -Math.floor(Math.log10(step))))} s`;
}

export function Animation({ setup, description }: Props): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const client = useRef<Client | null>(null);
  const drawing = useRef<Drawing | null>(null);
  /** The instant of the drawing, and the time of the last frame; frames do not render the page. */
  const clock = useRef({ t: 0, last: 0 });
  const shown = useRef<Scene | null>(null);
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(0.03);
  const [message, setMessage] = useState("");
  const scrub = useRef<HTMLInputElement>(null);
  const time = useRef<HTMLOutputElement>(null);
  const duration_s = description?.duration_s ?? 1;
  const rate = description?.path.rate_mbit ?? 10;
  /** The transmission time of a full packet. */
  const step_s = 1514 * 8e-6 / Math.max(rate, 1e-3);
  const window_s = Math.min(Math.max(PACKETS * step_s, 1e-5), duration_s);
  const key = JSON.stringify(setup);
  const wanted = useRef(-1);

  const draw = (): void => {
    if (!canvas.current || !description) return;
    drawing.current ??= new Drawing(canvas.current);
    const { t } = clock.current;
    const count = drawing.current.draw(shown.current, description.hops, t);
    if (scrub.current) scrub.current.value = String(Math.round((10000 * t) / duration_s));
    if (time.current) {
      time.current.textContent = `${seconds(t, step_s)}: ${count.waiting} in queues, ${count.flying} on links, `
        + `${count.returning} in reverse`;
    }
  };

  /** Loads the packets from `from_s` on, unless they are loaded or on their way. */
  const load = (from_s: number): void => {
    if (!description || wanted.current === from_s) return;
    wanted.current = from_s;
    client.current ??= new Client();
    const until_s = Math.min(from_s + window_s, duration_s);
    client.current.send({ kind: "trace", setup, from_s, until_s }, (reply) => {
      if (reply.kind === "traced") {
        const flows = description.flows.map((f) => f.id);
        shown.current = scene(reply.packets, description.hops, flows, from_s, until_s);
        setMessage(reply.left_out > 0 ? "This part has more packets than the drawing shows." : "");
        if (canvas.current) canvas.current.dataset["packets"] = String(shown.current.moving.length);
        draw();
      } else if (reply.kind === "failed") {
        setMessage(reply.message);
      }
    });
  };

  const seek = (t: number): void => {
    clock.current.t = Math.min(Math.max(t, 0), duration_s);
    const { current } = shown;
    const at = clock.current.t;
    if (!current || at < current.from_s || at >= current.until_s) {
      load(Math.max(at - window_s / 20, 0));
    }
    draw();
  };

  // A new set-up: the drawing begins after three fifths, where flows have started and queues are full.
  useEffect(() => {
    shown.current = null;
    wanted.current = -1;
    if (!description) return;
    const timer = setTimeout(() => seek(Math.min(clock.current.t || duration_s * 0.6, duration_s * 0.95)), 250);
    draw();
    return () => clearTimeout(timer);
  }, [key, description]);

  useEffect(() => {
    if (!playing) return;
    let frame = 0;
    clock.current.last = performance.now();
    const step = (now: number): void => {
      const passed = Math.min(now - clock.current.last, 100) / 1e3;
      clock.current.last = now;
      const { current } = shown;
      const next = clock.current.t + passed * speed;
      if (current && next < current.until_s) {
        clock.current.t = next;
      } else if (current && current.until_s >= duration_s) {
        setPlaying(false);
        return;
      } else if (current) {
        load(current.until_s - Math.min(window_s / 20, 0.2));
      }
      draw();
      frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [playing, speed, key, description]);

  useEffect(() => {
    const redraw = (): void => draw();
    addEventListener("resize", redraw);
    onTheme(redraw);
    return () => removeEventListener("resize", redraw);
  }, [description]);

  return (
    <section class="panel" aria-label="Path">
      <h2>Path</h2>
      <canvas ref={canvas} role="img" aria-label="Packets on the path; the text below counts them" />
      <div class="bar">
        <button type="button" class="primary" title="Move the packets at the selected speed" onClick={() => { if (clock.current.t >= duration_s * 0.999) seek(0); setPlaying(!playing); }}
          disabled={!description}>
          {playing ? "Pause" : reduced.matches ? "Play (motion)" : "Play"}
        </button>
        <button type="button" title="Back by the transmission time of one packet"
          onClick={() => { setPlaying(false); seek(clock.current.t - step_s); }}>Step back</button>
        <button type="button" title="Forward by the transmission time of one packet"
          onClick={() => { setPlaying(false); seek(clock.current.t + step_s); }}>Step</button>
        <label title="Speed of the drawing, as a part of real time">Speed <select value={String(speed)} onChange={(e) => setSpeed(Number(e.currentTarget.value))}>
          {SPEEDS.map((s) => <option key={s} value={String(s)}>{s === 1 ? "real time" : `1/${Math.round(1 / s)}`}</option>)}
        </select></label>
        <input ref={scrub} type="range" class="scrub" min="0" max="10000" title="Time in the run" aria-label="Time in the run"
          onInput={(e) => { seek((Number(e.currentTarget.value) / 10000) * duration_s); }} />
      </div>
      <output ref={time} class="hint" aria-live="off" />
      <p class="hint">Each bar is a packet in the colour of its flow{description && description.probes > 0 ? ", grey for pings" : ""}.
        ✕: dropped, ▼: marked. {message}</p>
    </section>
  );
}
