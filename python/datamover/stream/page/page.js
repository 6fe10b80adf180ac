// SPDX-License-Identifier: BSD-3-Clause
// Viewer of a running stream: grants frames to the server, has the worker check them, draws them.
"use strict";

const AHEAD = 2; // frames that the server may send before one of them is drawn
const RETRY_MS = 1000;
const VIEW_MS = 120; // between two changes of the view
const WINDOW_MS = 2000; // that rates are taken over

const $ = (id) => document.getElementById(id);
const field = $("field").getContext("2d", { alpha: false }); // what it covers need not be drawn
const worker = new Worker("worker.js");

let socket = null;
let arrays = [];
let state = { state: "connecting", words: "", view: null, number: 0 };
let owners = null;
let shown = null; // the frame on the canvas
let next = null; // the frame that is drawn next
let granted = 0;
let paused = false;
let image = null;
let pointer = null;
let wish = null;
let table = null;
const counts = { skipped: 0, damaged: 0, last: 0, view: 0 };
const checking = []; // what the frames show that the worker has
const log = []; // [time, bytes, ms of checking, ms of drawing]

// The token comes behind #, which no request holds, and stays in this tab.
if (location.hash.length > 1) {
  sessionStorage.setItem("token", decodeURIComponent(location.hash.slice(1)));
  history.replaceState(null, "", location.pathname);
}

function connect() {
  socket = new WebSocket(`ws://${location.host}/frames`);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => {
    granted = 0;
    say({ type: "hello", token: sessionStorage.getItem("token") || "" });
    grant();
  };
  socket.onmessage = (event) => {
    if (typeof event.data === "string") hear(JSON.parse(event.data));
    else {
      checking.push(state.view); // told before the first frame of it
      worker.postMessage(event.data, [event.data]);
    }
  };
  socket.onclose = (event) => {
    const isRefused = event.code === 1008;
    const why = `${event.reason || "the viewer has gone"}; trying again`;
    const words = isRefused ? `refused: ${event.reason}` : why;
    showState({ ...state, state: "failed", words });
    if (!isRefused) setTimeout(connect, RETRY_MS);
  };
}

function say(words) {
  if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(words));
}

function grant(again = false) {
  if (paused || granted >= AHEAD) return;
  say({ type: "grant", frames: AHEAD - granted, again });
  granted = AHEAD;
}

function hear(said) {
  if (said.type === "arrays") showArrays(said);
  else if (said.type === "state") showState(said);
  else if (said.type === "owners") {
    owners = said;
    drawOverlay();
  } else if (said.type === "figures") showFigures(said);
}

// Frames.

worker.onmessage = (event) => {
  const frame = event.data;
  frame.view = checking.shift();
  granted = Math.max(granted - 1, 0); // one of the connection before may come late
  if (frame.damaged) {
    counts.damaged += 1;
    showErrors();
    grant(true);
    return;
  }
  if (frame.viewNumber !== counts.view) counts.last = frame.count - 1;
  counts.view = frame.viewNumber;
  counts.skipped += Math.max(frame.count - counts.last - 1, 0);
  counts.last = frame.count;
  frame.time = performance.now();
  if (next === null) requestAnimationFrame(draw);
  next = frame;
};

function draw() {
  if (next === null) return;
  if (paused) return; // drawn when it goes on
  const begin = performance.now();
  shown = next;
  next = null;
  showWhat();
  paint();
  log.push([shown.time, shown.bytes, shown.checkedMs, performance.now() - begin]);
  $("step").textContent = shown.step;
  document.body.dataset.drawn = Number(document.body.dataset.drawn || 0) + 1;
  grant();
}

function paint() {
  if (shown === null) return;
  const { rows, columns, elems } = shown;
  const canvas = $("field");
  if (image === null || canvas.width !== columns || canvas.height !== rows) {
    canvas.width = columns;
    canvas.height = rows;
    image = field.createImageData(columns, rows);
    image.pixels = new Uint32Array(image.data.buffer);
    fit();
  }
  const [low, high] = range();
  const scale = high > low ? 256 / (high - low) : 0;
  const [pixels, nan] = [image.pixels, pixelOfColor(NAN_COLOR)];
  const areWithin = shown.areFinite && low <= shown.low && high >= shown.high;
  const end = elems.length;
  if (areWithin) { // nothing to compare: less than half the time
    for (let i = 0; i < end; i++) pixels[i] = table[((elems[i] - low) * scale) | 0];
  } else for (let i = 0; i < end; i++) {
    const value = elems[i];
    const place = (value - low) * scale;
    pixels[i] = value !== value ? nan : table[place > 0 ? (place < 255 ? place | 0 : 255) : 0];
  }
  field.putImageData(image, 0, 0);
  $("nothing").hidden = true;
  showScale(low, high);
  showValue();
}

function range() {
  if ($("automatic").checked) {
    $("low").value = brief(shown.low);
    $("high").value = brief(shown.high);
    return [shown.low, shown.high];
  }
  const [low, high] = [Number($("low").value), Number($("high").value)];
  return Number.isFinite(low) && Number.isFinite(high) ? [low, high] : [shown.low, shown.high];
}

function fit() {
  if (shown === null) return;
  const stage = $("stage");
  const rows = shown.rows * shown.every;
  const columns = shown.columns * shown.every;
  const [width, height] = [stage.clientWidth - 2, stage.clientHeight - 2];
  const scale = Math.min(width / columns, height / rows);
  const thin = Math.min(56, height);
  $("frame").style.width = `${Math.max(columns * scale, Math.min(thin, width))}px`;
  $("frame").style.height = `${Math.max(rows * scale, thin)}px`;
  drawOverlay();
}

// Who owns what.

function drawOverlay() {
  const canvas = $("overlay");
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  if (!owners || !$("show-owners").checked || !width) return;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const { rows, columns } = owners;
  const x = (j) => (columns[j] / columns[columns.length - 1]) * width;
  const y = (i) => (rows[i] / rows[rows.length - 1]) * height;
  const across = columns.length - 1;
  const owner = (i, j) => owners.owners[i * across + j];
  const lines = new Path2D();
  for (let i = 0; i < rows.length - 1; i++) {
    for (let j = 0; j < across; j++) {
      if (j > 0 && owner(i, j) !== owner(i, j - 1)) {
        lines.moveTo(x(j), y(i));
        lines.lineTo(x(j), y(i + 1));
      }
      if (i > 0 && owner(i, j) !== owner(i - 1, j)) {
        lines.moveTo(x(j), y(i));
        lines.lineTo(x(j + 1), y(i));
      }
    }
  }
  for (const [color, thick] of [["rgba(0, 0, 0, 0.55)", 3], ["rgba(255, 255, 255, 0.95)", 1.5]]) {
    context.strokeStyle = color;
    context.lineWidth = thick;
    context.stroke(lines);
  }
}

function ownerAt(row, column) {
  if (!owners) return -1;
  const place = (cuts, index) => cuts.findLastIndex((cut) => cut <= index);
  return owners.owners[place(owners.rows, row) * (owners.columns.length - 1) +
    place(owners.columns, column)];
}

// The value under the pointer.

function showValue() {
  if (shown === null || pointer === null) {
    $("value").textContent = shown === null ? "" : "Point at the picture to read a value.";
    return;
  }
  const at = (where, n) => Math.min(Math.max(Math.floor(where * n), 0), n - 1);
  const [row, column] = [at(pointer[1], shown.rows), at(pointer[0], shown.columns)];
  const value = shown.elems[row * shown.columns + column];
  const [down, right] = [row * shown.every, column * shown.every];
  const index = [...(shown.view?.at || [0, 0])];
  const axes = shown.view?.axes || [0, 1];
  index[axes[axes.length - 1]] = right;
  if (axes.length > 1) index[axes[0]] = down;
  const owner = ownerAt(down, right);
  const whose = owner >= 0 ? `, process ${owner}${owners.exact ? "" : " or beside"}` : "";
  $("value").textContent = `${shown.name}[${index.join(", ")}] = ${precise(value)}${whose}`;
}

const brief = (value) => String(Number(value.toPrecision(4)));
const precise = (value) => (Number.isFinite(value) ? Number(value.toPrecision(7)) : value);

// What is said of the stream.

const STATES = {
  connecting: "waiting for the stream",
  waiting: "waiting for the first step",
  running: "running",
  ended: "the stream has ended",
};

function showState(said) {
  state = said;
  const shownState = paused && said.state === "running" ? "paused" : said.state;
  const isOver = said.state === "ended" || said.state === "failed";
  $("pause").disabled = isOver && !paused; // nothing comes that could be held
  $("state").dataset.state = shownState;
  $("state").textContent = shownState === "paused" ? "paused" : STATES[said.state] || said.words;
  showView();
}

function showArrays(said) {
  arrays = said.arrays;
  $("address").textContent = said.address;
  const options = arrays.map(({ name, why_not: title }) =>
    Object.assign(new Option(name, name), { disabled: title !== "", title }));
  $("name").replaceChildren(...options);
  showView();
}

const arrayOf = (view) => arrays.find((array) => view && array.name === view.name);
const current = () => arrayOf(state.view);

// Says what is on the canvas, which is not what is wanted until a frame of that has come.
function showWhat() {
  const view = shown?.view || state.view;
  const array = arrayOf(view);
  if (!array) return;
  const { axes, at } = view;
  // In a narrow window lines end between these, not within them.
  const cut = at.map((place, d) => (axes.includes(d) ? ":" : place)).join(",\u00a0");
  const plane = at.length > axes.length ? `\u200b[${cut}]` : "";
  const extents = array.shape.join("\u00a0×\u00a0");
  $("what").textContent = `${array.name}${plane}, ${extents}\u00a0${array.dtype}`;
  const many = array.nprocs === 1 ? "1 process" : `${array.nprocs} processes`;
  $("layout").textContent = `${many}: ${array.layout}`;
  document.title = `${array.name} – datamover stream`;
}

function showView() {
  showWhat();
  const array = current();
  if (!array) return;
  const { axes, at } = state.view;
  $("name").value = array.name;
  const dims = array.shape.length;
  $("axes-row").hidden = dims < 3;
  const pairs = [];
  for (let i = 0; i < dims; i++) for (let j = i + 1; j < dims; j++) pairs.push([i, j]);
  $("axes").replaceChildren(
    ...pairs.map((pair) => new Option(pair.join(" and "), pair.join())),
  );
  $("axes").value = axes.join();
  const hidden = at.map((_, d) => d).filter((d) => !axes.includes(d));
  if ($("planes").contains(document.activeElement) && $("planes").dataset.axes === axes.join()) return;
  $("planes").dataset.axes = axes.join();
  $("planes").replaceChildren(...hidden.map((d) => slider(array, d, at[d])));
}

function slider(array, d, place) {
  const label = document.createElement("label");
  label.innerHTML = `<span>index in dimension ${d}<output>${place}</output></span>
    <input type="range" data-dimension="${d}" max="${array.shape[d] - 1}" value="${place}">`;
  const input = label.querySelector("input");
  input.oninput = () => {
    label.querySelector("output").textContent = input.value;
    const at = [...(wish || state.view).at];
    at[d] = Number(input.value);
    want({ ...(wish || state.view), at });
  };
  return label;
}

function want(view) {
  if (wish === null) {
    setTimeout(() => {
      say({ type: "view", ...wish });
      wish = null;
    }, VIEW_MS);
  }
  wish = view;
  if (paused) togglePause();
}

// Figures.

function showScale(low, high) {
  $("scale").hidden = false;
  $("scale-low").textContent = brief(low);
  $("scale-high").textContent = brief(high);
  $("nans").hidden = shown.nans === 0;
  $("nans").lastElementChild.textContent = `${shown.nans} NaN`;
}

function showFigures(said) {
  const now = performance.now();
  while (log.length && log[0][0] < now - WINDOW_MS) log.shift();
  const sum = (which) => log.reduce((total, entry) => total + entry[which], 0);
  const seconds = WINDOW_MS / 1e3;
  if (shown !== null) {
    $("rate").textContent = rateOf(sum(1) / seconds);
    $("frames").textContent = `${(log.length / seconds).toFixed(1)} frames/s`;
  }
  if (log.length) {
    $("checked").textContent = rateOf((sum(1) * 1e3) / Math.max(sum(2), 0.1));
    $("drawn").textContent = `${(sum(3) / log.length).toFixed(1)} ms`;
  }
  $("skipped").textContent = counts.skipped;
  $("dropped").textContent = said.steps_dropped;
  counts.ofStream = said.checksum_errors;
  showErrors();
}

function rateOf(bytesPerSecond) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (bytesPerSecond >= size) return `${(bytesPerSecond / size).toFixed(1)} ${unit}/s`;
  }
  return `${bytesPerSecond.toFixed(0)} B/s`;
}

function showErrors() {
  const errors = counts.damaged + (counts.ofStream || 0);
  $("errors").textContent = errors;
  $("errors").classList.toggle("bad", errors > 0);
}

// What the user does.

function togglePause() {
  paused = !paused;
  $("pause").textContent = paused ? "Go on" : "Pause";
  $("pause").setAttribute("aria-pressed", paused);
  showState(state);
  if (!paused) {
    requestAnimationFrame(draw);
    grant();
  }
}

function chooseMap() {
  table = pixelsOfMap($("map").value);
  const bar = $("bar").getContext("2d");
  const colors = bar.createImageData(256, 1);
  new Uint32Array(colors.data.buffer).set(table.subarray(0, 256));
  bar.putImageData(colors, 0, 0);
  paint();
}

function chooseRange() {
  for (const id of ["low", "high"]) $(id).disabled = $("automatic").checked;
  paint();
}

$("pause").onclick = togglePause;
$("name").onchange = () => say({ type: "view", name: $("name").value });
$("axes").onchange = () => {
  const axes = $("axes").value.split(",").map(Number);
  const at = current().shape.map((n, d) => (axes.includes(d) ? 0 : n >> 1));
  want({ name: state.view.name, axes, at });
};
$("map").replaceChildren(...Object.keys(COLOR_MAPS).map((name) => new Option(name, name)));
$("map").onchange = chooseMap;
$("automatic").onchange = chooseRange;
$("low").oninput = $("high").oninput = paint;
$("show-owners").onchange = drawOverlay;
$("overlay").onpointermove = $("overlay").onpointerdown = (event) => {
  const box = $("overlay").getBoundingClientRect();
  pointer = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  showValue();
};
$("overlay").onpointerleave = () => {
  pointer = null;
  showValue();
};
onkeydown = (event) => {
  if (event.key === " " && event.target === document.body) {
    event.preventDefault();
    if (!$("pause").disabled) togglePause();
  }
};
new ResizeObserver(fit).observe($("stage"));
chooseMap();
showValue();
connect();
