// Messages between the page and the worker, and the layout of the engine's output.

/** A table of samples: columns of equal length, by name. */
export type Table = Record<string, Float64Array>;

export interface ScenarioError {
  line: number | null;
  column: number | null;
  key: string;
  fix: string | null;
  text: string;
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Section = { [key: string]: Json };

export interface Hop {
  name: string;
  wifi?: boolean;
  queue?: string;
  reverse?: boolean;
  rate_mbit?: number;
  delay_s?: number;
  back_s?: number;
}

/** A valid scenario, as the engine describes it. */
export interface Description {
  tree: Section;
  full: Section;
  notices: string[];
  path: { rate_mbit: number; rtt_ms: number; buffer_bdp: number | null };
  title: string;
  duration_s: number;
  warmup_s: number;
  seed: number;
  flows: { id: string; cc: string | null; up: boolean }[];
  probes: number;
  hops: Hop[];
}

/** Names of a run that has started. */
export interface Names {
  flows: string[];
  probes: number;
  seed: number;
  duration_s: number;
  warmup_s: number;
  interval_s: number | null;
  phases: string[];
  verdicts: string[];
  reasons: string[];
  delays_of: string[];
}

export interface Progress {
  now_s: number;
  finished: boolean;
  events: number;
  words: string[];
  verdicts_left_out?: number;
  /** The metrics as `narrows run --json` prints them; with the last progress only. */
  run?: string;
}

export interface Param {
  name: string;
  kind: string;
  default: Json;
  min?: Json;
  max?: Json;
  words?: string[];
  help: string;
  source: string;
}

export interface Model {
  name: string;
  help: string;
  source: string;
  params: Param[];
}

export interface Key {
  section: string;
  name: string;
  takes: string;
  default: string;
  range: string;
  help: string;
  supported: boolean;
}

/** The models and keys of the engine. */
export interface Catalogue {
  version: string;
  list: { scenario: Key[]; cc: Model[]; queue: Model[]; [kind: string]: unknown };
}

export interface Setup {
  text: string;
  files: Record<string, string>;
  seed?: number;
}

export type Request =
  | { id: number; kind: "list" }
  | { id: number; kind: "check"; setup: Setup }
  | { id: number; kind: "run"; setup: Setup }
  | { id: number; kind: "cancel" }
  | { id: number; kind: "trace"; setup: Setup; from_s: number; until_s: number };

export type Reply =
  | { id: number; kind: "listed"; catalogue: Catalogue }
  | { id: number; kind: "checked"; description: Description }
  | { id: number; kind: "refused"; errors: ScenarioError[] }
  | { id: number; kind: "failed"; message: string }
  | { id: number; kind: "started"; names: Names }
  | { id: number; kind: "rows"; progress: Progress; tables: Record<string, Table>; heap: number }
  | { id: number; kind: "traced"; packets: Table; left_out: number };
