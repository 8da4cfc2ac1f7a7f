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

/** Reads a lesson. The part after the heading "Answer" is visible after a prediction. */
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

/** Text with `code` and **emphasis**. */
function inlined(text: string): ComponentChildren {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((part, i) => {
    if (part.startsWith("`")) return <code key={i}>{part.slice(1, -1)}</code>;
    if (part.startsWith("**")) return <strong key={i}>{part.slice(2, -2)}</strong>;
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
  const [predicted, setPredicted] = useState<number | null>(null);
  const answer = lesson.blocks.findIndex((b) => b.kind === "heading" && b.text === "Answer");
  const visible = predicted === null && answer >= 0 ? lesson.blocks.slice(0, answer) : lesson.blocks;
  return (
    <section class="lesson" aria-label={`Lesson: ${lesson.title}`}>
      <div class="bar">
        <h2>{lesson.title}</h2>
        <button type="button" onClick={close}>Close the lesson</button>
      </div>
      {visible.map((block, i) => {
        switch (block.kind) {
          case "heading":
            return <h3 key={i}>{block.text}</h3>;
          case "paragraph":
            return <p key={i}>{inlined(block.text)}</p>;
          case "item":
            return <p key={i} class="item">{inlined(block.text)}</p>;
          case "choice":
            return (
              <label key={i} class={`choice${predicted !== null && block.right ? " right" : ""}`}>
                <input type="radio" name={`prediction-${lesson.name}`} checked={predicted === i}
                  onChange={() => setPredicted(i)} />
                <span>{inlined(block.text)}
                  {predicted !== null && block.right ? " (this is what happens)" : ""}</span>
              </label>
            );
          case "map":
            return <PublishedMap key={i} block={block.map} load={load} />;
          case "scenario":
            return (
              <p key={i}>
                <button type="button" class="primary" onClick={() => load(block.text)}>{block.title}</button>
              </p>
            );
        }
      })}
      {predicted === null && answer >= 0 && <p class="hint">Choose a prediction to see the answer.</p>}
    </section>
  );
}
