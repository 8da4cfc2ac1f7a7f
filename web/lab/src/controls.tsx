// The controls: generated from the keys and parameters that the engine lists.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { addTable, quote, removeTable, setKey, written } from "./toml";
import type { Catalogue, Description, Json, Key, Model, Param, Section } from "./protocol";

interface Props {
  catalogue: Catalogue;
  description: Description;
  text: string;
  /** A new text; `merge` if it is a part of one drag. */
  change: (text: string, merge: boolean) => void;
}

interface Slider {
  low: number;
  high: number;
  logarithmic: boolean;
  read: (value: string) => number | null;
  write: (value: number) => string;
}

const RATES: Record<string, number> = { bit: 1e-6, kbit: 1e-3, Mbit: 1, Gbit: 1e3, Tbit: 1e6 };
const TIMES: Record<string, number> = { ns: 1e-6, us: 1e-3, ms: 1, s: 1e3, min: 6e4, h: 3.6e6 };

function quantity(units: Record<string, number>): (value: string) => number | null {
  return (value) => {
    const [, number, unit] = /^([\d.]+)\s*([A-Za-z]+)$/.exec(value) ?? [];
    const factor = unit === undefined ? undefined : units[unit];
    return factor === undefined ? null : Number(number) * factor;
  };
}

const short = (value: number): string => String(Number(value.toPrecision(value < 100 ? 2 : 3)));

const SLIDERS: Record<string, Slider> = {
  rate: { low: 0.1, high: 1000, logarithmic: true, read: quantity(RATES),
    write: (v) => (v < 1 ? `${short(v * 1000)}kbit` : `${short(v)}Mbit`) },
  rtt: { low: 1, high: 1000, logarithmic: true, read: quantity(TIMES), write: (v) => `${short(v)}ms` },
  buffer: { low: 0.05, high: 50, logarithmic: true,
    read: (v) => (v.endsWith("bdp") ? Number(v.slice(0, -3)) : null), write: (v) => `${short(v)}bdp` },
  loss: { low: 0, high: 20, logarithmic: false,
    read: (v) => (v.endsWith("%") ? Number(v.slice(0, -1)) : Number(v) * 100), write: (v) => `${short(v)}%` },
  duration: { low: 1, high: 300, logarithmic: true,
    read: (v) => { const ms = quantity(TIMES)(v); return ms === null ? null : ms / 1e3; },
    write: (v) => `${Math.round(v)}s` },
};

/** A value of a scenario as a control shows it. */
function shown(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "object") return inline(value);
  return String(value);
}

/** A value as an inline table or list of TOML. */
function inline(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(inline).join(", ")}]`;
  if (value !== null && typeof value === "object") {
    return `{ ${Object.entries(value).map(([k, v]) => `${k} = ${inline(v)}`).join(", ")} }`;
  }
  return typeof value === "string" ? quote(value) : String(value);
}

interface RowProps {
  section: string;
  index: number;
  name: string;
  label: string;
  help: string;
  /** The value as written; undefined if the key is absent. */
  value: Json | undefined;
  /** The value or rule that applies if the key is absent. */
  fallback: string;
  options?: string[] | undefined;
  slider?: Slider | undefined;
  /** The text of the scenario. */
  source: string;
  /** Sets the value, and returns the new text of the scenario. */
  set: (value: string | null, merge: boolean) => string;
}

/** A key with its label, its explanation and its control. */
function Row(p: RowProps): JSX.Element {
  const id = `c-${p.section || "top"}-${p.index}-${p.name}`.replaceAll(".", "-");
  const text = shown(p.value);
  const commit = (value: string, merge = false): string =>
    p.set(value.trim() === "" ? null : written(value), merge);
  // Typed text remains while other parts of the page change, and until the engine has checked it.
  const [typed, setTyped] = useState<{ of: string; source: string; value: string } | null>(null);
  // During a drag, the slider is ahead of the scenario that the engine has checked.
  const [draft, setDraft] = useState<{ of: string; at: number } | null>(null);
  const number = p.slider?.read(text || p.fallback) ?? null;
  const { low, high, logarithmic } = p.slider ?? { low: 0, high: 1, logarithmic: false };
  const toPosition = (v: number): number => logarithmic
    ? (1000 * Math.log(Math.max(v, low) / low)) / Math.log(high / low)
    : (1000 * (v - low)) / (high - low);
  const fromPosition = (at: number): number => logarithmic
    ? low * (high / low) ** (at / 1000)
    : low + ((high - low) * at) / 1000;
  return (
    <div class="row" title={p.help}>
      <label for={id}>{p.label}</label>
      {p.slider && (
        <input type="range" min="0" max="1000" step="1" aria-label={`${p.label}, slider`} aria-valuetext={text || p.fallback}
          value={draft?.of === text ? draft.at : number === null || Number.isNaN(number) ? 0 : Math.round(toPosition(number))}
          data-key={p.name}
          onInput={(e) => {
            setDraft({ of: text, at: Number(e.currentTarget.value) });
            commit(p.slider?.write(fromPosition(Number(e.currentTarget.value))) ?? "", true);
          }}
          onChange={(e) => commit(p.slider?.write(fromPosition(Number(e.currentTarget.value))) ?? "")} />
      )}
      {p.options ? (
        <select id={id} value={text} aria-description={p.help} onChange={(e) => commit(e.currentTarget.value)}>
          <option value="">{p.fallback ? `default: ${p.fallback}` : "default"}</option>
          {text !== "" && !p.options.includes(text) && <option value={text}>{text}</option>}
          {p.options.map((option) => <option key={option} value={option}>{option}</option>)}
        </select>
      ) : (
        <input id={id} type="text" spellcheck={false} placeholder={p.fallback} aria-description={p.help}
          value={typed?.of === text && typed.source === p.source ? typed.value : text}
          onInput={(e) => setTyped({ of: text, source: p.source, value: e.currentTarget.value })}
          onChange={(e) => {
            const { value } = e.currentTarget;
            setTyped({ of: text, source: commit(value), value });
          }} />
      )}
    </div>
  );
}

function object(value: Json | undefined): Section {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
}

function list(value: Json | undefined): Section[] {
  return Array.isArray(value) ? value.map(object) : [];
}

/** Models of the catalogue that a key names. */
function models(catalogue: Catalogue, key: string): Model[] | undefined {
  const kind = key === "qdisc" ? "queue" : key;
  const found = catalogue.list[kind];
  return Array.isArray(found) && kind !== "scenario" ? (found as Model[]) : undefined;
}

function options(catalogue: Catalogue, key: Key): string[] | undefined {
  if (key.takes === "boolean") return ["true", "false"];
  if (key.takes === "choice") return key.range.split(", ");
  if (/^(name|\{ rate, burst \}) or \{/.test(key.takes)) return models(catalogue, key.name)?.map((m) => m.name);
  return undefined;
}

interface SectionProps extends Props {
  /** The section of the scenario, and of the keys in the catalogue. */
  section: string;
  keys: string;
  index: number;
  values: Section;
  /** Keys that are always visible; the others are behind a disclosure. */
  first: string[];
}

/** The kind of a value; a table without a kind is a policer of Linux. */
function kindOf(name: string, value: Json | undefined): Json | undefined {
  return object(value)["kind"] ?? (name === "policer" && typeof value === "object" ? "police" : undefined);
}

/** Rates and sizes without which a policer is an error, by its kind. */
const REQUIRED: Record<string, { rates: string[]; sizes: string[] }> = {
  police: { rates: ["rate"], sizes: ["burst"] },
  srtcm: { rates: ["cir"], sizes: ["cbs"] },
  trtcm: { rates: ["cir", "pir"], sizes: ["cbs", "pbs"] },
  cir: { rates: ["cir"], sizes: ["bc"] },
  car: { rates: ["cir"], sizes: ["bc"] },
};

/** The first value of a key: a policer begins with half of the rate of the path. */
function begun(name: string, value: string | null, rate_mbit: number): string | null {
  const needs = name === "policer" && value !== null ? REQUIRED[value.slice(1, -1)] : undefined;
  if (!needs) return value;
  const rates = needs.rates.map((key) => `${key} = ${quote(`${short(rate_mbit / 2)}Mbit`)}`);
  return `{ kind = ${value}, ${[...rates, ...needs.sizes.map((key) => `${key} = "50kB"`)].join(", ")} }`;
}

/** Changes the text of the scenario, and returns the new text. */
function changed(p: Props, next: string, merge: boolean): string {
  p.change(next, merge);
  return next;
}

/** The parameters of the model that a key names. */
function Parameters(p: SectionProps & { name: string }): JSX.Element | null {
  const value = p.values[p.name];
  const kind = typeof value === "string" ? value : kindOf(p.name, value);
  const model = models(p.catalogue, p.name)?.find((m) => m.name === kind);
  if (!model || model.params.length === 0) return null;
  const table = typeof value === "string" ? { kind: value } : object(value);
  const set = (param: Param, to: string | null, merge: boolean): string => {
    const others = Object.entries(table).filter(([k]) => k !== "kind" && k !== param.name);
    const entries = [`kind = ${quote(String(kind))}`, ...others.map(([k, v]) => `${k} = ${inline(v)}`)];
    if (to !== null) entries.push(`${param.name} = ${to}`);
    const only = entries.length === 1 ? quote(String(kind)) : `{ ${entries.join(", ")} }`;
    return changed(p, setKey(p.text, p.section, p.index, p.name, only), merge);
  };
  return (
    <details class="more">
      <summary title={model.help}>Parameters of {model.name}</summary>
      {model.params.map((param) => (
        <Row key={param.name} section={`${p.section}.${p.name}`} index={p.index} name={param.name} label={param.name}
          help={`${param.help} (${param.source})`} value={table[param.name]} fallback={shown(param.default)}
          options={param.kind === "bool" ? ["true", "false"] : param.kind === "word" ? param.words : undefined}
          source={p.text} set={(to, merge) => set(param, to, merge)} />
      ))}
    </details>
  );
}

function Keys(p: SectionProps): JSX.Element {
  const all = p.catalogue.list.scenario.filter((k) => k.section === p.keys && k.supported
    && !k.takes.includes("section"));
  const row = (key: Key): JSX.Element => {
    const value = p.values[key.name];
    const kind = kindOf(key.name, value);
    const choices = options(p.catalogue, key);
    return (
      <div key={key.name}>
        <Row section={p.section} index={p.index} name={key.name} label={key.name}
          help={`${key.help}. ${key.range ? `Values: ${key.range}.` : ""}`}
          value={choices && kind ? kind : value} fallback={key.default} options={choices}
          slider={p.keys === "host" ? undefined : SLIDERS[key.name]}
          source={p.text}
          set={(to, merge) => changed(p, setKey(p.text, p.section, p.index, key.name,
            begun(key.name, to, p.description.path.rate_mbit)), merge)} />
        {choices && <Parameters {...p} name={key.name} />}
      </div>
    );
  };
  const rest = all.filter((k) => !p.first.includes(k.name));
  return (
    <>
      {p.first.flatMap((name) => all.filter((k) => k.name === name)).map(row)}
      {rest.length > 0 && (
        <details class="more">
          <summary title="All other keys of this section">More settings</summary>
          {rest.map(row)}
        </details>
      )}
    </>
  );
}

interface ListProps extends Props {
  section: string;
  title: string;
  one: string;
  /** The explanation of the button that adds a table. */
  help: string;
  first: string[];
  fresh: Record<string, string>;
  /** The smallest number of tables. */
  least?: number;
}

/** An array of tables: flows, probes, hops, stations. */
function Tables(p: ListProps): JSX.Element {
  const [outer, inner] = p.section.split(".");
  const tree = p.description.tree;
  const values = inner === undefined ? list(tree[outer ?? ""]) : list(object(tree[outer ?? ""])[inner]);
  return (
    <div role="group" class="group" aria-label={p.title}>
      <h3>{p.title}</h3>
      {values.map((value, i) => (
        <fieldset key={i}>
          <legend>{p.one} {i + 1}</legend>
          <Keys {...p} keys={p.section === "path.hop" ? "path" : p.section} index={i} values={value} first={p.first} />
          {values.length > (p.least ?? 1) && (
            <button type="button" title={`Remove this ${p.one.toLowerCase()} from the scenario`}
              onClick={() => p.change(removeTable(p.text, p.section, i), false)}>
              Remove {p.one.toLowerCase()} {i + 1}
            </button>
          )}
        </fieldset>
      ))}
      <button type="button" title={p.help} onClick={() => p.change(addTable(p.text, p.section, p.fresh), false)}>
        Add {p.one.toLowerCase()}
      </button>
    </div>
  );
}

/** A name that no table has. */
function unused(stem: string, tables: Section[]): string {
  const names = new Set(tables.map((table) => table["name"]));
  for (let n = tables.length + 1; ; n++) if (!names.has(`${stem}-${n}`)) return `${stem}-${n}`;
}

const PATH = ["rate", "rtt", "buffer", "queue", "loss", "policer", "jitter"];
const HOP = ["rate", "rtt", "buffer", "queue"];

/** All controls of a valid scenario. */
export function Controls(props: Props): JSX.Element {
  const { tree } = props.description;
  const path = object(tree["path"]);
  const top = { ...props, section: "", keys: "", index: 0, values: tree, first: ["duration"] };
  return (
    <div class="controls">
      <div role="group" class="group" aria-label="Run">
        <h3>Run</h3>
        <Keys {...top} />
      </div>
      {tree["wifi"] !== undefined ? (
        <>
          <div role="group" class="group" aria-label="Wi-Fi">
            <h3>Wi-Fi</h3>
            <Keys {...props} section="wifi" keys="wifi" index={0} values={object(tree["wifi"])} first={["standard", "stack"]} />
          </div>
          <Tables {...props} section="wifi.station" title="Stations" one="Station" help="Add a Wi-Fi station" first={["name", "mcs", "rtt"]}
            fresh={{ name: quote(unused("station", list(object(tree["wifi"])["station"]))), mcs: "7", rtt: '"10ms"' }} />
        </>
      ) : path["hop"] !== undefined ? (
        <Tables {...props} section="path.hop" title="Hops" one="Hop" help="Add a link with a queue to the path" first={HOP}
          fresh={{ rate: '"100Mbit"', rtt: '"5ms"' }} />
      ) : (
        <div role="group" class="group" aria-label="Path">
          <h3>Path</h3>
          <Keys {...props} section="path" keys="path" index={0} values={path} first={PATH} />
        </div>
      )}
      {tree["wifi"] === undefined && path["hop"] === undefined && (
        <Tables {...props} section="path.steps" title="Changes while it runs" one="Change" help="Change the rate, the RTT or the loss at a time of the run" first={["at", "rate", "rtt", "loss"]}
          fresh={{ at: quote(`${Math.round(props.description.duration_s / 2)}s`), rate: quote(`${short(props.description.path.rate_mbit / 2)}Mbit`) }}
          least={0} />
      )}
      <Tables {...props} section="flow" title="Flows" one="Flow" help="Add a flow that starts at time zero" first={["cc", "count", "start", "size"]}
        fresh={{ cc: '"cubic"' }} />
      <Tables {...props} section="probe" title="Probes" one="Probe" help="Add a ping, which measures the RTT" first={["interval"]} fresh={{ kind: '"ping"' }} />
      <div role="group" class="group" aria-label="Hosts">
        <h3>Hosts</h3>
        <Keys {...props} section="host" keys="host" index={0} values={object(tree["host"])} first={["ecn"]} />
      </div>
    </div>
  );
}
