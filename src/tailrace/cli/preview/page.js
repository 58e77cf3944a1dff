"use strict";
// Every chat as it was at a time. Without this script the page shows the end.
const recording = JSON.parse(document.getElementById("frames").textContent);
const player = document.querySelector(".player");
const slider = player.querySelector("input[type=range]");
const clock = player.querySelector("output");
const playing = player.querySelector("[data-do=play]");
const speed = player.querySelector("select");

const channels = recording.map((channel, nth) => {
  // A version says what it keeps of an earlier one, and how it goes on.
  const versions = [];
  for (const [base, kept, rest] of channel.versions) versions.push((versions[base] ?? "").slice(0, kept) + rest);
  const column = document.querySelectorAll(".channel")[nth];
  const rows = [...column.querySelectorAll(".calls tbody tr")].map((row) => ({ row, at: Number(row.dataset.at) }));
  return { frames: channel.frames, versions, rows, chat: column.querySelector(".chat"), shown: -1 };
});
const times = [...new Set(channels.flatMap(({ frames }) => frames.map(([at]) => at)))].sort((a, b) => a - b);

function show(now) {
  clock.value = `${now.toFixed(2)} s`;
  for (const channel of channels) {
    const nth = channel.frames.findLastIndex(([at]) => at <= now);
    if (nth !== channel.shown) {
      channel.shown = nth;
      channel.chat.innerHTML = nth < 0 ? "" : channel.frames[nth][1].map((version) => channel.versions[version]).join("");
      channel.chat.scrollTop = channel.chat.scrollHeight;
    }
    const current = channel.rows.findLastIndex(({ at }) => at <= now);
    channel.rows.forEach(({ row }, at) => {
      row.classList.toggle("later", at > current);
      row.classList.toggle("now", at === current);
    });
  }
}

function go(to) {
  slider.value = to;
  show(Number(slider.value));
}

let last = null;
function tick(time) {
  if (last === null) return;
  const now = Number(slider.value) + ((time - last) / 1000) * Number(speed.value);
  last = time;
  go(now);
  if (now >= Number(slider.max)) pause();
  else requestAnimationFrame(tick);
}
function pause() {
  last = null;
  playing.textContent = "Play";
}
function play() {
  if (Number(slider.value) >= Number(slider.max)) go(0);
  last = performance.now();
  playing.textContent = "Pause";
  requestAnimationFrame(tick);
}

player.addEventListener("click", ({ target }) => {
  const now = Number(slider.value);
  switch (target.dataset.do) {
    case "play":
      return last === null ? play() : pause();
    case "back":
      pause();
      return go(times.findLast((at) => at < now - 0.005) ?? 0);
    case "on":
      pause();
      return go(times.find((at) => at > now + 0.005) ?? slider.max);
  }
});
slider.addEventListener("input", () => {
  pause();
  show(Number(slider.value));
});
for (const { rows } of channels)
  for (const { row, at } of rows) {
    const cell = row.cells[0];
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = cell.textContent;
    button.title = "Show the chats at this time";
    button.addEventListener("click", () => {
      pause();
      go(at);
    });
    cell.replaceChildren(button);
  }

document.documentElement.classList.add("with-script");
player.hidden = false;
slider.value = slider.max;
