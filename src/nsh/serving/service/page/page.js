// Search by image: everything the page knows comes from the service that it came from.
"use strict";

const HITS = 48;
const find = (id) => document.getElementById(id);
const seen = []; // {code, source, name, id, file} of every query shown, for the browser's Back
let info = null;
let current = null; // the query that is shown: {code, source, name, id, file}
let asking = null; // AbortController of the search under way
let waiting = 0; // timer of the slider

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    throw new Error("The service does not answer. Is it still running?");
  }
  if (response.ok) return response.json();
  const problem = await response.json().catch(() => ({}));
  throw new Error(problem.title ? `${problem.title}: ${problem.detail}` : `The service answered ${response.status}.`);
}

function thumbnail(id) {
  return `v1/thumbnail?id=${encodeURIComponent(id)}`;
}

// body: what is sent; shown: {source, name, id, file} of the query; remember: whether Back should come here again
async function search(body, type, shown, { remember = false, keep = false } = {}) {
  asking?.abort();
  const mine = (asking = new AbortController());
  const radius = Number(find("radius").value);
  const limit = radius < info.bits ? `&radius=${radius}` : "";
  const rerank = body === shown.file && find("rerank").checked ? "&rerank=true" : "";
  begin(shown, keep);
  try {
    const found = await ask(`v1/search?k=${HITS}${limit}${rerank}`, {
      method: "POST",
      headers: { "Content-Type": type },
      body,
      signal: mine.signal,
    });
    if (mine !== asking) return;
    current = { ...shown, code: found.code };
    if (remember) history.pushState({ place: seen.push(current) - 1 }, "");
    show(found);
  } catch (failure) {
    if (failure.name === "AbortError" || mine !== asking) return;
    fail(failure.message);
  }
}

function searchFile(file) {
  if (!info) return;
  if (file.size > info.limits.body_bytes) {
    const most = (info.limits.body_bytes / 2 ** 20).toFixed(0);
    begin({ source: null, name: file.name, id: null, file: null }, false);
    fail(`This file has ${(file.size / 2 ** 20).toFixed(1)} MiB; the service takes ${most} MiB. Make it smaller.`);
    return;
  }
  sendFile({ source: URL.createObjectURL(file), name: file.name || "pasted image", id: null, file }, { remember: true });
}

function sendFile(shown, options) {
  const type = shown.file.type.startsWith("image/") ? shown.file.type : "application/octet-stream";
  search(shown.file, type, shown, options);
}

// The same query once more. Its code is enough, but only an image has what re-ranking needs.
function searchAgain(shown, options) {
  if (shown.file && find("rerank").checked) sendFile(shown, options);
  else search(JSON.stringify({ code: shown.code }), "application/json", shown, options);
}

function searchItem(id) {
  const shown = { source: info.thumbnails ? thumbnail(id) : null, name: id, id, file: null };
  search(JSON.stringify({ id }), "application/json", shown, { remember: true });
  find("results").focus({ preventScroll: true });
  window.scrollTo({ top: 0 });
}

function begin(shown, keep) {
  find("error").hidden = true;
  find("empty").hidden = true;
  find("hits").setAttribute("aria-busy", "true");
  if (keep) return;
  current = null;
  find("status").textContent = "searching …";
  if (shown.source) find("preview").src = shown.source;
  find("preview").alt = `the image searched from: ${shown.name}`;
  showPreview(Boolean(shown.source));
  find("name").hidden = false;
  find("name").textContent = shown.name;
  if (!find("hits").children.length) showGhosts();
}

function showPreview(visible) {
  find("preview").hidden = !visible;
  find("invitation").hidden = visible;
  find("replace").hidden = !visible;
  find("drop").classList.toggle("filled", visible);
}

function showGhosts() {
  const ghosts = Array.from({ length: 12 }, () => {
    const item = find("hit").content.cloneNode(true);
    item.querySelector("li").setAttribute("aria-hidden", "true");
    item.querySelector("button").disabled = true;
    item.querySelector("button").classList.add("ghost");
    item.querySelector("img").hidden = true;
    return item;
  });
  find("hits").replaceChildren(...ghosts);
}

function show(found) {
  const hits = found.hits.filter((hit) => hit.id !== current.id);
  find("hits").replaceChildren(...hits.map(makeHit));
  find("hits").setAttribute("aria-busy", "false");
  find("controls").hidden = false;
  find("rerank-choice").hidden = !current.file; // of an item only the code is known
  showCode(found.code);
  const radius = Number(find("radius").value);
  const within = radius < info.bits ? ` within ${radius} bits` : "";
  const more = within && found.hits.length === HITS ? " or more" : "";
  find("status").textContent = `${hits.length || "none"}${more}${within}`;
  find("empty").hidden = hits.length > 0;
  find("empty-text").textContent = info.items ? `Nothing lies within ${radius} of ${info.bits} bits. Move the radius up.`
    : "The index is empty: add images with “nsh index add”.";
}

function makeHit(hit) {
  const item = find("hit").content.cloneNode(true);
  const button = item.querySelector("button");
  const labels = Object.entries(hit.metadata).map(([name, value]) => `${name}: ${value}`);
  const scores = "score" in hit ? [`score: ${hit.score.toPrecision(5)}`] : [];
  button.setAttribute("aria-label", `${[hit.id, `distance ${hit.distance}`, ...scores].join(", ")}. Search from it`);
  button.title = [hit.id, ...scores, ...labels].join("\n");
  button.addEventListener("click", () => searchItem(hit.id));
  item.querySelector(".id").textContent = hit.id.split("/").slice(-2).join("/");
  item.querySelector(".distance").textContent = hit.distance;
  item.querySelector(".meter i").style.setProperty("--share", `${(100 * hit.distance) / info.bits}%`);
  const image = item.querySelector("img");
  const absent = item.querySelector(".absent");
  image.addEventListener("error", () => {
    image.hidden = true;
    absent.hidden = false;
  });
  if (info.thumbnails) {
    image.src = thumbnail(hit.id);
  } else {
    image.hidden = true;
    absent.hidden = false;
  }
  return item;
}

function showCode(code) {
  const bits = [...code].flatMap((digit) => [...parseInt(digit, 16).toString(2).padStart(4, "0")]).slice(0, info.bits);
  const squares = bits.map((bit) => {
    const square = document.createElement("i");
    square.className = bit === "1" ? "one" : "";
    return square;
  });
  find("bits").replaceChildren(...squares);
  find("bits").setAttribute("aria-label", `${info.bits} bits, in hexadecimal ${code}`);
  find("bits").title = code;
}

function fail(message) {
  find("error").textContent = message;
  find("error").hidden = false;
  find("hits").replaceChildren();
  find("hits").setAttribute("aria-busy", "false");
  find("status").textContent = "";
  if (current) return;
  find("controls").hidden = true; // there is no code to move a radius around
  showPreview(false);
}

function showRadius() {
  const radius = Number(find("radius").value);
  const text = radius < info.bits ? `at most ${radius} of ${info.bits} bits differ` : "any distance";
  find("radius-text").textContent = text;
  find("radius").setAttribute("aria-valuetext", text);
}

function listen() {
  find("file").addEventListener("change", (event) => {
    if (event.target.files.length) searchFile(event.target.files[0]);
    event.target.value = ""; // the same file may be chosen again
  });
  find("preview").addEventListener("error", () => showPreview(false)); // a format that the browser does not know
  find("radius").addEventListener("input", () => {
    showRadius();
    clearTimeout(waiting);
    waiting = setTimeout(() => current && searchAgain(current, { keep: true }), 120);
  });
  find("rerank").addEventListener("change", () => current && searchAgain(current, { keep: true }));
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    find("drop").classList.add("over");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) find("drop").classList.remove("over");
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    find("drop").classList.remove("over");
    if (event.dataTransfer.files.length) searchFile(event.dataTransfer.files[0]);
  });
  document.addEventListener("paste", (event) => {
    if (event.clipboardData.files.length) searchFile(event.clipboardData.files[0]);
  });
  window.addEventListener("popstate", (event) => {
    const shown = seen[event.state?.place];
    if (shown) searchAgain(shown);
  });
}

async function start() {
  try {
    info = await ask("v1/info");
  } catch (failure) {
    fail(failure.message);
    return;
  }
  const items = info.items.toLocaleString("en");
  find("summary").textContent = `${items} images · ${info.bits} bits · ${info.method}, ${info.backbone}`;
  find("radius").max = info.bits;
  find("radius").value = info.bits;
  showRadius();
  listen();
  document.documentElement.dataset.ready = "";
}

start();
