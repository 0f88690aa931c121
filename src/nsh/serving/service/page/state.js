// What the page shows, and its address: each is made from the other, so that a reload or a shared link shows the same.

const KINDS = ["id", "code", "logits"]; // of a query
const FILTERS = { prefix: "", column: "", value: "" };

// {query: {id}, {code} or {logits, encoder_identity}, name, radius or null, prefix, column, value, rerank}; null if nothing is searched
export function read(address) {
  const given = new URLSearchParams(address);
  const kind = KINDS.find((name) => given.get(name));
  if (!kind) return null;
  const text = given.get(kind);
  const origin = given.get("encoder") ? { encoder_identity: given.get("encoder") } : {};
  const filters = Object.fromEntries(Object.keys(FILTERS).map((name) => [name, given.get(name) ?? ""]));
  return {
    query: { [kind]: kind === "logits" ? unpack(text) : text, ...origin },
    name: given.get("name") ?? (kind === "id" ? text : "a shared search"),
    radius: given.get("radius") === null ? null : Number(given.get("radius")),
    rerank: kind === "logits" && given.has("rerank"),
    ...filters,
  };
}

export function address(state) {
  const [kind, value] = Object.entries(state.query)[0];
  const given = new URLSearchParams({ [kind]: kind === "logits" ? pack(value) : value });
  if (kind !== "id") given.set("name", state.name);
  if (state.query.encoder_identity) given.set("encoder", state.query.encoder_identity);
  if (state.radius !== null) given.set("radius", state.radius);
  for (const name of Object.keys(FILTERS)) if (state[name]) given.set(name, state[name]);
  if (state.rerank) given.set("rerank", "");
  return `?${given}`;
}

// What the service is asked besides the query
export function question(state, count) {
  const asked = new URLSearchParams({ k: count });
  if (state.radius !== null) asked.set("radius", state.radius);
  if (state.prefix) asked.set("id_prefix", state.prefix);
  if (state.column && state.value) {
    asked.set("column", state.column);
    asked.set("value", state.value);
  }
  if (state.rerank) asked.set("rerank", "true");
  return `v1/search?${asked}`;
}

// Four bytes for each real value, low byte first, in the base64 of addresses
function pack(logits) {
  const view = new DataView(new ArrayBuffer(4 * logits.length));
  logits.forEach((logit, place) => view.setFloat32(4 * place, logit, true));
  const text = btoa(String.fromCharCode(...new Uint8Array(view.buffer)));
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function unpack(text) {
  try {
    const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Array.from({ length: Math.floor(bytes.length / 4) }, (_, place) => view.getFloat32(4 * place, true));
  } catch {
    return []; // the service says what it needs
  }
}
