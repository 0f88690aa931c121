// Search by image: everything the page knows comes from the service that it came from.
import { bits, drawCode, drawGhosts, drawHit, thumbnail } from "./hits.js";
import { address, question, read } from "./state.js";

const STEP = 48; // hits that are asked for at first, and more of when the last is in sight
const PAUSE = 150; // milliseconds without a change after which the service is asked
const find = (id) => document.getElementById(id);
const pictures = new Map(); // of queries by their code: the images that were chosen here
let info = null;
let state = null; // what is shown, as state.js has it
let found = null; // the service's answer to it
let asked = 0; // hits that were asked for
let asking = null; // AbortController of the search under way
let waiting = 0; // timer of a change

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

// done: what is done with the answer, unless another search has begun; failed: with what went wrong
async function send(path, body, type, done, failed = fail) {
  asking?.abort();
  const mine = (asking = new AbortController());
  find("error").hidden = true;
  find("hits").setAttribute("aria-busy", "true");
  try {
    const answer = await ask(path, { method: "POST", headers: { "Content-Type": type }, body, signal: mine.signal });
    if (mine === asking) done(answer);
  } catch (failure) {
    if (failure.name !== "AbortError" && mine === asking) failed(failure.message);
  }
}

function search(count = STEP) {
  const before = asked < count ? found : null; // an answer whose hits are the first of these
  asked = count;
  const path = question(state, count);
  send(path, JSON.stringify(state.query), "application/json", (answer) => show(answer, before), before ? keep : fail);
}

function searchFile(file) {
  const named = { query: {}, name: file.name || "pasted image" };
  if (file.size > info.limits.body_bytes) {
    const most = (info.limits.body_bytes / 2 ** 20).toFixed(0);
    state = null;
    begin(named, null);
    fail(`This file has ${(file.size / 2 ** 20).toFixed(1)} MiB; the service takes ${most} MiB. Make it smaller.`);
    return;
  }
  const chosen = { ...named, ...controls() };
  const picture = URL.createObjectURL(file);
  state = null;
  asked = STEP;
  begin(chosen, picture);
  const type = file.type.startsWith("image/") ? file.type : "application/octet-stream";
  send(question(chosen, STEP), file, type, (answer) => {
    pictures.set(answer.code, picture);
    state = { ...chosen, query: { logits: answer.logits, encoder_identity: answer.encoder_identity } };
    history.pushState(null, "", address(state));
    show(answer, null);
  });
}

function searchItem(id) {
  state = { query: { id }, name: id, ...controls(), rerank: false };
  history.pushState(null, "", address(state));
  begin(state, info.thumbnails ? thumbnail(id) : null);
  search();
  find("results").focus({ preventScroll: true });
  window.scrollTo({ top: 0 });
}

// The page's address has changed: by Back, by a link, or because it was opened
function follow() {
  state = read(location.search);
  if (!state) {
    clear();
    return;
  }
  find("radius").value = state.radius ?? info.bits;
  for (const name of ["prefix", "column", "value"]) find(name).value = state[name];
  find("rerank").checked = state.rerank;
  if (state.prefix || state.column || state.rerank) find("more").open = true;
  showRadius();
  begin(state, "id" in state.query && info.thumbnails ? thumbnail(state.query.id) : null);
  search();
}

function controls() {
  const radius = Number(find("radius").value);
  return {
    radius: radius < info.bits ? radius : null,
    prefix: find("prefix").value,
    column: find("column").value,
    value: find("value").value,
    rerank: find("rerank").checked,
  };
}

function change() {
  showRadius();
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    if (!state) return;
    state = { ...state, ...controls(), rerank: "logits" in state.query && find("rerank").checked };
    history.replaceState(null, "", address(state));
    search();
  }, PAUSE);
}

function begin(shown, picture) {
  found = null;
  find("empty").hidden = true;
  find("status").textContent = "searching …";
  showPreview(picture, shown.name);
  find("name").hidden = false;
  find("name").textContent = shown.name;
  if (!find("hits").children.length) drawGhosts();
}

function showPreview(picture, name) {
  if (picture) find("preview").src = picture;
  find("preview").alt = `the image searched from: ${name}`;
  find("preview").hidden = !picture;
  find("invitation").hidden = Boolean(picture);
  find("replace").hidden = !picture;
  find("drop").classList.toggle("filled", Boolean(picture));
}

// before: an answer that is shown already and is the beginning of this one, or null
function show(answer, before) {
  const others = (hits) => hits.filter((hit) => hit.id !== state.query.id);
  const same = before && ["encoder_identity", "version"].every((name) => before[name] === answer[name]);
  const more = same ? others(before.hits).length : 0;
  const hits = others(answer.hits);
  const cards = hits.slice(more).map((hit) => drawHit(hit, info, searchItem));
  if (more) find("hits").append(...cards);
  else find("hits").replaceChildren(...cards);
  found = answer;
  find("hits").setAttribute("aria-busy", "false");
  find("controls").hidden = false;
  if (pictures.has(answer.code) && !("id" in state.query)) showPreview(pictures.get(answer.code), state.name);
  drawCode(answer.code, info.bits);
  find("rerank").disabled = !("logits" in state.query);
  tell(hits.length);
  if (find("end").getBoundingClientRect().top < innerHeight) goOn(); // the observer tells of changes alone
}

function tell(count) {
  const within = state.radius === null ? "" : ` within ${bits(state.radius)}`;
  find("status").textContent = `${count || "none"}${isWhole() ? "" : " or more"}${within}`;
  find("empty").hidden = count > 0;
  const narrowed = state.prefix || (state.column && state.value) ? " and the filter" : "";
  if (!info.items) find("empty-text").textContent = "The index is empty: add images with “nsh index add”.";
  else if (state.radius === null) find("empty-text").textContent = "No item matches the filter.";
  else find("empty-text").textContent = `No item matches the radius of ${bits(state.radius)}${narrowed}.`;
}

function isWhole() {
  return found.hits.length < asked;
}

function goOn() {
  if (!found || isWhole() || asked >= info.limits.hits || find("hits").getAttribute("aria-busy") === "true") return;
  search(Math.min(asked + STEP, info.limits.hits));
}

function complain(message) {
  find("error").textContent = message;
  find("error").hidden = false;
  find("hits").setAttribute("aria-busy", "false");
}

// No more hits came: those that are there stay, and scrolling asks again
function keep(message) {
  complain(message);
  asked = found.hits.length;
}

function fail(message) {
  complain(message);
  find("hits").replaceChildren();
  find("status").textContent = "";
  found = null;
  if (state) return;
  find("controls").hidden = true; // there is no query to change the range of
  showPreview(null, "");
}

function clear() {
  asking?.abort();
  for (const name of ["error", "controls", "name"]) find(name).hidden = true;
  find("hits").replaceChildren();
  find("hits").setAttribute("aria-busy", "false");
  find("status").textContent = "";
  find("empty").hidden = false;
  find("empty-text").textContent = "The images most like yours will appear here.";
  showPreview(null, "");
}

function showRadius() {
  const radius = Number(find("radius").value);
  const text = radius < info.bits ? `at most ${radius} of ${info.bits} bits differ` : "any distance";
  find("radius-text").textContent = text;
  find("radius").setAttribute("aria-valuetext", text);
  find("value").disabled = !find("column").value;
}

function listen() {
  find("file").addEventListener("change", (event) => {
    if (event.target.files.length) searchFile(event.target.files[0]);
    event.target.value = ""; // the same file may be chosen again
  });
  find("preview").addEventListener("error", () => showPreview(null, "")); // a format that the browser does not know
  for (const name of ["radius", "prefix", "column", "value", "rerank"]) find(name).addEventListener("input", change);
  new IntersectionObserver((entries) => entries[0].isIntersecting && goOn(), { rootMargin: "300px" }).observe(find("end"));
  window.addEventListener("popstate", follow);
  listenForDrops();
}

function listenForDrops() {
  const over = (event, there) => {
    event.preventDefault();
    find("drop").classList.toggle("over", there);
  };
  document.addEventListener("dragover", (event) => over(event, true));
  document.addEventListener("dragleave", (event) => over(event, event.relatedTarget !== null));
  document.addEventListener("drop", (event) => {
    over(event, false);
    if (event.dataTransfer.files.length) searchFile(event.dataTransfer.files[0]);
  });
  document.addEventListener("paste", (event) => {
    if (event.clipboardData.files.length) searchFile(event.clipboardData.files[0]);
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
  find("column").append(...info.columns.map((name) => new Option(name, name)));
  find("metadata").hidden = !info.columns.length;
  find("more").open = matchMedia("(min-width: 761px)").matches; // on a phone the hits come first
  showRadius();
  listen();
  if (location.search) follow();
  document.documentElement.dataset.ready = "";
}

start();
