// Lessons: Markdown with a question, predictions of the reader, a scenario and an answer.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { mapBlock, PublishedMap, type MapBlock } from "./map";

export interface Lesson {
  name: string;
  title: string;
  blocks: Block[];
}

export type Block =
  | { kind: "heading" | "paragraph" | "item"; text: string }
  | { kind: "choice"; text: string; right: boolean }
  | { kind: "scenario"; title: string; text: string }
  | { kind: "map"; map: MapBlock };

/** Reads a lesson. Runs are visible after a prediction, and the part after the heading "Answer" after a run. */
export function parse(name: string, markdown: string): Lesson {
  const blocks: Block[] = [];
  const lines = markdown.split("\n");
  let title = name;
  let paragraph: string[] = [];
  const flush = (): void => {
    if (paragraph.length > 0) blocks.push({ kind: "paragraph", text: paragraph.join(" ") });
    paragraph = [];
  };
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i] ?? "";
    const fence = /^```(scenario|map)\s*(.*)$/.exec(line);
    const heading = /^##+\s+(.*)$/.exec(line)?.[1];
    const choice = /^- \[([ x])\] (.*)$/.exec(line);
    if (fence) {
      flush();
      const end = lines.indexOf("```", i + 1);
      const text = lines.slice(i + 1, end < 0 ? lines.length : end).join("\n");
      blocks.push(fence[1] === "map" ? { kind: "map", map: mapBlock(fence[2] || "Map", text) }
        : { kind: "scenario", title: fence[2] || "Run this scenario", text: `${text}\n` });
      i = end < 0 ? lines.length : end;
    } else if (line.startsWith("# ")) {
      title = line.slice(2).trim();
    } else if (heading !== undefined) {
      flush();
      blocks.push({ kind: "heading", text: heading });
    } else if (choice) {
      flush();
      blocks.push({ kind: "choice", text: choice[2] ?? "", right: choice[1] === "x" });
    } else if (line.startsWith("- ")) {
      flush();
      blocks.push({ kind: "item", text: line.slice(2) });
    } else if (line.trim() === "") {
      flush();
    } else {
      paragraph.push(line.trim());
    }
  }
  flush();
  return { name, title, blocks };
}

/** Text with `code`, **strong** and *light* emphasis. */
function inlined(text: string): ComponentChildren {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*]+\*)/).map((part, i) => {
    if (part.startsWith("`")) return <code key={i}>{part.slice(1, -1)}</code>;
    if (part.startsWith("**")) return <strong key={i}>{part.slice(2, -2)}</strong>;
    if (part.startsWith("*") && part.length > 2) return <em key={i}>{part.slice(1, -1)}</em>;
    return part;
  });
}

const sources = import.meta.glob<string>("../lessons/*.md", { query: "?raw", import: "default", eager: true });

export const LESSONS: Lesson[] = Object.entries(sources)
  .map(([file, text]) => parse(file.replace(/^.*\/|\.md$/g, ""), text))
  .sort((a, b) => a.name.localeCompare(b.name));

interface Props {
  lesson: Lesson;
  load: (text: string, beside?: string) => void;
  close: () => void;
}

export function Tour({ lesson, load, close }: Props): JSX.Element {
  const [chosen, setChosen] = useState<number | null>(null);
  const [predicted, setPredicted] = useState(false);
  const [ran, setRan] = useState(false);
  const answer = lesson.blocks.findIndex((b) => b.kind === "heading" && b.text === "Answer");
  const first = lesson.blocks.findIndex((b) => b.kind === "scenario");
  const before = first < 0 || first > answer;
  const end = !predicted && answer >= 0 ? Math.min(answer, first < 0 ? answer : first)
    : !ran && answer >= 0 && !before ? answer : lesson.blocks.length;
  const run = (at: number, text: string): void => {
    const start = lesson.blocks[first];
    load(text, at > first && start?.kind === "scenario" ? start.text : undefined);
    setRan(true);
    // On a narrow screen, the results are below.
    if (matchMedia("(max-width: 820px)").matches) document.querySelector(".view")?.scrollIntoView({ behavior: "smooth" });
  };
  return (
    <section class="lesson" aria-label={`Lesson: ${lesson.title}`}>
      <div class="bar">
        <h2>{lesson.title}</h2>
        <button type="button" onClick={close}>Close the lesson</button>
      </div>
      {lesson.blocks.slice(0, end).map((block, i) => {
        switch (block.kind) {
          case "heading":
            return <h3 key={i}>{block.text}</h3>;
          case "paragraph":
            return <p key={i}>{inlined(block.text)}</p>;
          case "item":
            return <p key={i} class="item">{inlined(block.text)}</p>;
          case "choice":
            return (
              <label key={i} class={`choice${predicted && (ran || before) && block.right ? " right" : ""}`}>
                <input type="radio" name={`prediction-${lesson.name}`} checked={chosen === i} disabled={predicted}
                  onChange={() => setChosen(i)} />
                <span>{inlined(block.text)}
                  {predicted && (ran || before) && block.right ? " (this is what happens)" : ""}</span>
              </label>
            );
          case "map":
            return <PublishedMap key={i} block={block.map} load={load} />;
          case "scenario":
            return (
              <p key={i}>
                <button type="button" class="primary" onClick={() => run(i, block.text)}>{block.title}</button>
              </p>
            );
        }
      })}
      {!predicted && answer >= 0 && (
        <p><button type="button" class="primary" disabled={chosen === null} onClick={() => setPredicted(true)}>
          This is my prediction</button></p>
      )}
      {predicted && end <= answer && <p class="hint">Run the scenario, and look at the drawing and the charts. The answer
        appears here.</p>}
    </section>
  );
}
