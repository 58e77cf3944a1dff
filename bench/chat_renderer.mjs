// Feeds a text to the renderer of the `chat` package and renders it at each edit, as the adapters of that package do.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const work = JSON.parse(readFileSync(0, "utf8"));
const { StreamingMarkdownRenderer } = await import(pathToFileURL(work.chat));

const begin = process.hrtime.bigint();
const renderer = new StreamingMarkdownRenderer();
let start = 0;
let size = 0;
for (const end of work.edits) {
  renderer.push(work.text.slice(start, end));
  start = end;
  size += renderer.render().length;
}
renderer.push(work.text.slice(start));
size += renderer.finish().length;
const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
console.log(JSON.stringify({ seconds, size }));
