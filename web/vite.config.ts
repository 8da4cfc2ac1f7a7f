// One page, nothing beside it: scripts and styles go into the HTML, so that it opens from a disk.
import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

function oneFile(): Plugin {
  return {
    name: "one-file",
    enforce: "post",
    generateBundle(_options, bundle) {
      const page = bundle["report.html"];
      if (page?.type !== "asset") throw new Error("no report.html in the bundle");
      let html = String(page.source).replace(/\s*<(?:script type="module"|link rel="stylesheet")[^>]*>(?:<\/script>)?/g, "");
      let style = "", script = "";
      for (const [name, part] of Object.entries(bundle)) {
        if (part === page) continue;
        if (part.type === "chunk") script += part.code;
        else if (name.endsWith(".css")) style += String(part.source);
        else throw new Error(`${name} has no place in the page`);
        delete bundle[name];
      }
      // Within a script only its end tag can end it. A function keeps `$&` and its like as they are.
      script = script.replaceAll("</script", "<\\/script");
      // What is built in keeps its licence.
      const licence = readFileSync("node_modules/uplot/LICENSE", "utf-8").trim();
      html = html.replace("<head>", () => `<!-- uPlot, which draws the charts:\n${licence}\n-->\n<head>`);
      html = html.replace("</head>", () => `<style>${style.trim()}</style>\n</head>`);
      html = html.replace("</body>", () => `<script type="module">${script.trim()}</script>\n</body>`);
      page.source = html;
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [oneFile()],
  build: {
    outDir: process.env["NARROWS_PAGES"] ?? "../python/narrows/pages",
    emptyOutDir: true,
    modulePreload: false,
    target: "es2022",
    rollupOptions: { input: "report.html" },
  },
});
