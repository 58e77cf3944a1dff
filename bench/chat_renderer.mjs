// Feeds a text to the `chat` package's renderer and has it rendered at each edit, as its adapters do.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const work = JSON.parse(readFileSync(0, "utf8"));
const { StreamingMarkdownRenderer } = await import(pathToFileURL(work.chat));

const begin = process.hrtime.bigint();
const renderer = new StreamingMarkdownRenderer();
let told = 0;
let size = 0;
for (const end of work.edits) {
  renderer.push(work.text.slice(told, end));
  told = end;
  size += renderer.render().length;
}
renderer.push(work.text.slice(told));
size += renderer.finish().length;
const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
console.log(JSON.stringify({ seconds, size }));
