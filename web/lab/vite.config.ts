// The lab: a folder of files for any static web server. `make lab` adds the engine.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { defineConfig, type Plugin } from "vite";

/** The scenarios of narrows, and the files that they name. */
function scenarios(): Plugin {
  return {
    name: "scenarios",
    generateBundle() {
      const root = join(import.meta.dirname, "../../scenarios");
      const shipped: { scenarios: Record<string, string>; files: Record<string, string> } = { scenarios: {}, files: {} };
      const visit = (folder: string): void => {
        for (const name of readdirSync(folder).sort()) {
          const path = join(folder, name);
          if (statSync(path).isDirectory()) visit(path);
          else if (name.endsWith(".toml")) shipped.scenarios[relative(root, path)] = readFileSync(path, "utf-8");
          else if (/\.(csv|pps|txt|remy)$/.test(name)) shipped.files[name] = readFileSync(path, "utf-8");
        }
      };
      visit(root);
      this.emitFile({ type: "asset", fileName: "scenarios.json", source: JSON.stringify(shipped) });
    },
  };
}

export default defineConfig({
  root: import.meta.dirname,
  base: "./",
  plugins: [scenarios()],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: process.env["NARROWS_LAB"] ?? "../../python/narrows/lab",
    emptyOutDir: false,
    modulePreload: false,
    target: "es2022",
    rollupOptions: {
      input: { index: join(import.meta.dirname, "index.html"), worker: join(import.meta.dirname, "src/worker.ts") },
      output: {
        entryFileNames: (chunk) => (chunk.name === "worker" ? "worker.js" : "lab.js"),
        chunkFileNames: "[name].js",
        assetFileNames: (asset) => (asset.names.some((n) => n.endsWith(".css")) ? "lab.css" : "[name][extname]"),
      },
    },
  },
});
