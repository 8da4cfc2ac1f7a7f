// The page: set-up, path, charts, lessons.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { onTheme, toggleTheme } from "../../src/theme";
import { Animation } from "./animation";
import { embedded, onScenario, store } from "./assets";
import { Client } from "./client";
import { Controls } from "./controls";
import { Editor } from "./editor";
import { LESSONS, parse, Tour, type Lesson } from "./lessons";
import type { Catalogue, Description, ScenarioError, Setup } from "./protocol";
import { Results } from "./results";
import { Rows } from "./rows";
import { Seeds } from "./seeds";
import { fromHash, History, toHash, type Shared } from "./share";

export interface Shipped {
  /** Texts of scenarios by their path below `scenarios/`. */
  scenarios: Record<string, string>;
  /** Files that scenarios name, by that name. */
  files: Record<string, string>;
}

/** Times of the last run in milliseconds since its change, for tests. */
export interface Timing {
  first_ms: number;
  complete_ms: number;
}

declare global {
  interface Window {
    lab?: { timing: Timing | null; json: string | null; heap: number; failed: string | null; load: (text: string) => void };
  }
}

/** The message for a link whose end or middle is missing. */
export const DAMAGED = "The link is damaged, so its set-up cannot be read.";
/** Pause after a change before the engine checks and runs the text. */
const PAUSE_MS = 30;

export function App({ shipped, first, notice }: { shipped: Shipped; first: Shared; notice: string }): JSX.Element {
  const history = useRef(new History(first.text));
  const [text, setText] = useState(first.text);
  const [files, setFiles] = useState<Record<string, string>>({ ...shipped.files, ...first.files });
  const [catalogue, setCatalogue] = useState<Catalogue | null>(null);
  const [description, setDescription] = useState<Description | null>(null);
  const [valid, setValid] = useState(first.text);
  const [errors, setErrors] = useState<ScenarioError[]>([]);
  const [failure, setFailure] = useState("");
  const [rows, setRows] = useState<Rows | null>(null);
  const [beside, setBeside] = useState<{ text: string; rows: Rows } | null>(null);
  const [version, setVersion] = useState(0);
  const [lesson, setLesson] = useState(first.lesson ?? "");
  /** Lessons of this page, then those that the reader has loaded. */
  const [lessons, setLessons] = useState(LESSONS);
  const [saved, setSaved] = useState(notice);
  const [stopped, setStopped] = useState(false);
  const client = useRef<Client | null>(null);
  const dragging = useRef(false);
  const open = useRef<HTMLInputElement>(null);

  const change = (next: string, merge = false): void => {
    history.current.change(next, merge && dragging.current);
    dragging.current = merge;
    setText(next);
  };
  const load = (next: string, other?: string): void => {
    dragging.current = false;
    change(next);
    setFailure("");
    setSaved("");
    if (other === undefined) unpin();
    else pin(other);
  };

  useEffect(() => {
    client.current = new Client();
    void client.current.ask({ kind: "list" }).then((reply) => {
      if (reply.kind === "listed") setCatalogue(reply.catalogue);
      else if (reply.kind === "failed") setFailure(reply.message);
    });
    onTheme(() => setVersion((v) => v + 1));
  }, []);

  // Each change: check the text, run it if it is valid, and store it in the address.
  useEffect(() => {
    let live = true;
    const changed = performance.now();
    const used = Object.fromEntries(Object.entries(files).filter(([name]) => text.includes(name)));
    const setup: Setup = { text, files: used };
    setStopped(false);
    const timer = setTimeout(() => {
      window.lab = { timing: null, json: null, heap: 0, failed: null, load };
      let timing: Timing = { first_ms: 0, complete_ms: 0 };
      void client.current?.ask({ kind: "check", setup }).then((reply) => {
        if (!live) return;
        if (reply.kind === "checked") {
          setErrors([]);
          setDescription(reply.description);
          setValid(text);
        } else if (reply.kind === "refused") {
          setErrors(reply.errors);
          if (window.lab) window.lab.failed = reply.errors.map((e) => e.text).join("\n");
          return;
        } else if (reply.kind === "failed") {
          setFailure(reply.message);
        }
        let run: Rows | null = null;
        let frame = 0;
        client.current?.run(setup, (part) => {
          if (!live) return;
          if (part.kind === "started") {
            setFailure("");
            run = new Rows(part.names);
          } else if (part.kind === "rows" && run) {
            run.add(part.progress, part.tables);
            const now = performance.now() - changed;
            if (timing.first_ms === 0) timing = { first_ms: now, complete_ms: 0 };
            if (run.finished && window.lab) {
              timing = { ...timing, complete_ms: now };
              Object.assign(window.lab, { timing, json: run.json, heap: part.heap });
            }
            const shown = run;
            cancelAnimationFrame(frame);
            frame = requestAnimationFrame(() => {
              setRows(shown);
              setVersion((v) => v + 1);
            });
          } else if (part.kind === "failed") {
            setFailure(part.message);
            if (window.lab) window.lab.failed = part.message;
          }
        });
      });
      const own = Object.entries(used).filter(([name, file]) => shipped.files[name] !== file);
      const shared: Shared = { text };
      if (own.length > 0) shared.files = Object.fromEntries(own);
      if (beside) shared.beside = beside.text;
      if (LESSONS.some((l) => l.name === lesson)) shared.lesson = lesson;
      void toHash(shared).then((hash) => {
        if (live) store(hash, text);
      });
    }, PAUSE_MS);
    return () => {
      live = false;
      clearTimeout(timer);
      client.current?.cancel();
    };
  }, [text, files, beside?.text, lesson]);

  // A link within the page, or the address typed anew.
  useEffect(() => {
    const listen = (): void => {
      void fromHash(location.hash).catch(() => null).then((shared) => {
        if (!shared) {
          if (location.hash !== "") setFailure(DAMAGED);
          return;
        }
        if (shared.files) setFiles({ ...files, ...shared.files });
        load(shared.text);
      });
    };
    addEventListener("hashchange", listen);
    return () => removeEventListener("hashchange", listen);
  }, [files]);

  // A scenario that the notebook sets.
  useEffect(() => onScenario((text) => load(text)), []);

  // The pinned set-up of a link.
  useEffect(() => {
    if (first.beside !== undefined) pin(first.beside);
  }, []);

  const pinning = useRef<Client | null>(null);
  const unpin = (): void => {
    pinning.current?.cancel();
    setBeside(null);
  };
  const pin = (of: string): void => {
    setBeside(null);
    const other = (pinning.current ??= new Client());
    let run: Rows | null = null;
    other.run({ text: of, files }, (reply) => {
      if (reply.kind === "started") run = new Rows(reply.names);
      if (reply.kind === "failed" || reply.kind === "refused") {
        const reason = reply.kind === "failed" ? reply.message : reply.errors.map((e) => e.text).join(" ");
        setFailure(`The pinned set-up cannot run. ${reason}`);
      }
      if (reply.kind !== "rows" || !run) return;
      run.add(reply.progress, reply.tables);
      if (run.finished) setBeside({ text: of, rows: run });
    });
  };

  const undo = (): void => { dragging.current = false; history.current.undo(); setText(history.current.text); };
  const redo = (): void => { dragging.current = false; history.current.redo(); setText(history.current.text); };
  useEffect(() => {
    const keys = (event: KeyboardEvent): void => {
      if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z") return;
      event.preventDefault();
      if (event.shiftKey) redo();
      else undo();
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);

  const save = (): void => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/toml" }));
    link.download = "scenario.toml";
    link.click();
    URL.revokeObjectURL(link.href);
    setSaved("The scenario is saved as scenario.toml.");
  };
  const teach = (one: Lesson): void => {
    setLessons((now) => [...now.filter((l) => l.name !== one.name), one]);
    unpin();
    setLesson(one.name);
    setSaved(`The lesson ${one.title} is loaded.`);
  };
  const read = async (list: FileList | null): Promise<void> => {
    for (const file of Array.from(list ?? [])) {
      const content = await file.text();
      if (file.name.endsWith(".toml")) load(content);
      else if (file.name.endsWith(".md")) teach(parse(file.name.slice(0, -3), content));
      else {
        setFiles((now) => ({ ...now, [file.name]: content }));
        setSaved(`${file.name} is loaded; a scenario can name it.`);
      }
    }
  };
  const share = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(location.href);
      setSaved("The link is copied. It contains the whole set-up.");
    } catch {
      setSaved("Copy the address of this page. It contains the whole set-up.");
    }
  };

  const used = Object.fromEntries(Object.entries(files).filter(([name]) => valid.includes(name)));
  const running = rows !== null && !rows.finished && !stopped && errors.length === 0;
  const tour = lessons.find((l) => l.name === lesson);
  const state = errors.length > 0 ? "The scenario has errors; the charts show the last valid one."
    : rows === null ? "The engine starts." : rows.finished ? `Complete: ${rows.names.duration_s} s simulated.`
    : stopped ? `Stopped at ${rows.now_s.toFixed(1)} of ${rows.names.duration_s} s.`
    : `Running: ${rows.now_s.toFixed(1)} of ${rows.names.duration_s} s.`;
  return (
    <>
      <header>
        <h1>narrows lab</h1>
        <label title="Open a scenario that narrows ships">Scenario <select value="" onChange={(e) => load(shipped.scenarios[e.currentTarget.value] ?? text)}>
          <option value="">{description?.title || "choose"}</option>
          {Object.keys(shipped.scenarios).map((name) => <option key={name} value={name}>{name}</option>)}
        </select></label>
        <label title="Open a lesson: a question, your prediction, the run and the answer">Lesson <select value={lesson} onChange={(e) => { unpin(); setLesson(e.currentTarget.value); }}>
          <option value="">none</option>
          {lessons.map((l) => <option key={l.name} value={l.name}>{l.title}</option>)}
        </select></label>
        <span class="buttons">
          <button type="button" onClick={undo} disabled={!history.current.canUndo} title="Undo (Ctrl+Z)">Undo</button>
          <button type="button" onClick={redo} disabled={!history.current.canRedo} title="Redo (Ctrl+Shift+Z)">Redo</button>
          <button type="button" disabled={!beside && rows?.finished !== true}
            onClick={() => (beside ? unpin() : rows && setBeside({ text: valid, rows }))}
            title="Keep this set-up as dashed lines, and compare the next changes with it">
            {beside ? "Unpin" : "Pin to compare"}</button>
          {!embedded() && <button type="button" onClick={() => void share()}
            title="Copy a link that contains the whole set-up">Copy link</button>}
          <button type="button" disabled={!running} onClick={() => { client.current?.cancel(); setStopped(true); }}
            title="Stop the run; the charts keep what it has computed">Stop</button>
          <button type="button" onClick={save} title="Save the scenario as a TOML file">Save</button>
          <button type="button" onClick={() => open.current?.click()}
            title="Load a scenario (TOML), files that it names, or a lesson (Markdown)">Load</button>
          <button type="button" onClick={toggleTheme} title="Switch between the light and the dark theme">Theme</button>
        </span>
        <input ref={open} type="file" multiple hidden aria-label="Scenario file" accept=".toml,.md,.csv,.pps,.txt,.remy"
          onChange={(e) => { void read(e.currentTarget.files); e.currentTarget.value = ""; }} />
      </header>
      {!tour && <p class="state">This page simulates network flows and queues. Start with a lesson, or change the set-up.</p>}
      <p class="state" role="status" id="state" data-finished={rows?.finished === true && errors.length === 0}>
        {failure || state} {saved}
      </p>
      <main>
        <div class="side">
          {tour && <Tour key={tour.name} lesson={tour} load={load} close={() => setLesson("")} />}
          <section class="panel" aria-label="Set-up">
            <h2>Set-up</h2>
            {errors.length > 0 && (
              <div class="error short" role="alert">
                <pre>{errors[0]?.text.split("\n")[0]}</pre>
                <button type="button" onClick={undo}>Undo this change</button>
              </div>
            )}
            {catalogue && description
              ? <Controls catalogue={catalogue} description={description} text={text} change={change} />
              : <p class="hint">The controls appear when the engine has read the scenario.</p>}
          </section>
          <section class="panel" aria-label="Scenario file">
            <h2>Scenario file</h2>
            <Editor text={text} errors={errors} notices={description?.notices ?? []} change={(next) => change(next)} />
          </section>
        </div>
        <div class="view">
          <Animation setup={{ text: valid, files: used }} description={description} />
          <Results rows={rows} beside={beside?.rows ?? null} description={description} version={version} />
          <Seeds setup={{ text: valid, files: used }} />
        </div>
      </main>
      <footer>
        <p>The engine of narrows {catalogue?.version ?? ""} runs in this page. No data leaves this device.</p>
      </footer>
    </>
  );
}
