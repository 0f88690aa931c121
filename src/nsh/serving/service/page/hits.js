// Draws what was found: a card for each hit, and empty cards while the service searches.

const find = (id) => document.getElementById(id);

export function thumbnail(id) {
  return `v1/thumbnail?id=${encodeURIComponent(id)}`;
}

export function bits(count) {
  return count === 1 ? "1 bit" : `${count} bits`;
}

export function drawGhosts() {
  const ghosts = Array.from({ length: 12 }, () => {
    const card = find("hit").content.cloneNode(true);
    card.querySelector("li").setAttribute("aria-hidden", "true");
    card.querySelector("button").disabled = true;
    card.querySelector("button").classList.add("ghost");
    card.querySelector("img").hidden = true;
    return card;
  });
  find("hits").replaceChildren(...ghosts);
}

// pick: what a click on a hit's picture does with its id
export function drawHit(hit, info, pick) {
  const card = find("hit").content.cloneNode(true);
  const button = card.querySelector("button");
  button.setAttribute("aria-label", `${hit.id}, ${bits(hit.distance)} differ. Search from it`);
  button.title = describe(hit).join("\n");
  button.addEventListener("click", () => pick(hit.id));
  card.querySelector(".id").textContent = hit.id;
  card.querySelector(".distance").textContent = bits(hit.distance);
  card.querySelector(".meter i").style.setProperty("--share", `${(100 * hit.distance) / info.bits}%`);
  drawPicture(card, info.thumbnails ? hit.id : null);
  return card;
}

function describe(hit) {
  const values = Object.entries(hit.metadata).map(([name, value]) => `${name}: ${value}`);
  return hit.score == null ? [hit.id, ...values] : [hit.id, `score: ${hit.score.toFixed(2)}`, ...values];
}

// id: null if the service has no pictures
function drawPicture(card, id) {
  const [image, actions, absent] = ["img", ".actions", ".absent"].map((part) => card.querySelector(part));
  const missing = () => {
    image.hidden = true;
    actions.hidden = true;
    absent.hidden = false;
  };
  if (id === null) {
    missing();
    return;
  }
  image.addEventListener("error", missing);
  image.src = thumbnail(id);
  const file = `v1/image?id=${encodeURIComponent(id)}`;
  const [open, download] = actions.querySelectorAll("a");
  open.href = file;
  open.setAttribute("aria-label", `Open ${id}`);
  download.href = `${file}&download=true`;
  download.setAttribute("aria-label", `Download ${id}`);
}

export function drawCode(code, length) {
  const ones = [...code].flatMap((digit) => [...parseInt(digit, 16).toString(2).padStart(4, "0")]).slice(0, length);
  const squares = ones.map((one) => {
    const square = document.createElement("i");
    square.className = one === "1" ? "one" : "";
    return square;
  });
  find("bits").replaceChildren(...squares);
  find("bits").setAttribute("aria-label", `${length} bits, in hexadecimal ${code}`);
  find("bits").title = code;
}
