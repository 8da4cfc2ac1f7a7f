// The scenario as text, with the errors of the engine under their lines.

import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import type { ScenarioError } from "./protocol";

interface Props {
  text: string;
  errors: ScenarioError[];
  notices: string[];
  change: (text: string) => void;
}

export function Editor({ text, errors, notices, change }: Props): JSX.Element {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  const lines = text.split("\n");
  const wrong = new Set(errors.map((error) => error.line));
  const show = (error: ScenarioError): void => {
    if (!area.current || error.line === null) return;
    const from = lines.slice(0, error.line - 1).join("\n").length + (error.line > 1 ? 1 : 0);
    area.current.focus();
    area.current.setSelectionRange(from, from + (lines[error.line - 1]?.length ?? 0));
  };
  return (
    <div class="editor">
      <div class="code">
        <div class="gutter" ref={gutter} aria-hidden="true">
          {lines.map((_, i) => <div key={i} class={wrong.has(i + 1) ? "wrong" : ""}>{i + 1}</div>)}
        </div>
        <textarea ref={area} aria-label="Scenario in TOML" spellcheck={false} autocapitalize="off" wrap="off"
          aria-invalid={errors.length > 0} aria-describedby="errors" value={text}
          onScroll={(e) => { if (gutter.current) gutter.current.scrollTop = e.currentTarget.scrollTop; }}
          onInput={(e) => change(e.currentTarget.value)} />
      </div>
      <div id="errors" role="status">
        {errors.map((error, i) => (
          <div class="error" key={i}>
            {error.line !== null && (
              <button type="button" onClick={() => show(error)}>Line {error.line}</button>
            )}
            <pre>{error.line === null ? "" : `${lines[error.line - 1] ?? ""}\n`}{error.text}</pre>
          </div>
        ))}
        {errors.length === 0 && notices.map((notice, i) => <p class="notice" key={i}>{notice}</p>)}
      </div>
    </div>
  );
}
