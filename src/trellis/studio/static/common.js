// What every part of the page uses. Text from outside is only ever set as text, never as HTML.

export const base = location.pathname;
export const project = { labels: [], counts: {}, rules: [], version: "", model: null, run: null, dev: null };

export class Refused extends Error {
  constructor(message, answer) {
    super(message);
    this.answer = answer;
  }
}

export async function get(name, asked = {}) {
  const query = new URLSearchParams(asked).toString();
  return read(await fetch(`${base}api/${name}${query ? "?" + query : ""}`));
}

export async function post(name, given = {}) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(given) };
  return read(await fetch(`${base}api/${name}`, options));
}

async function read(response) {
  let answer = {};
  try {
    answer = await response.json();
  } catch {
    // an answer of another program: the status says enough
  }
  if (!response.ok) throw new Refused(answer.error || `the studio answered ${response.status}`, answer);
  return answer;
}

/** An element: attributes, then children; strings become text. */
export function el(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const $ = (id) => document.getElementById(id);

let toastTimer = 0;
export function toast(message, bad = false) {
  const box = $("toast");
  box.textContent = message;
  box.className = bad ? "bad" : "";
  box.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => (box.hidden = true), bad ? 8000 : 3000);
}

/** Run an action of the user; what goes wrong is shown. */
export async function attempt(action) {
  try {
    return await action();
  } catch (error) {
    toast(error instanceof TypeError ? "The studio does not answer. Is it still running?" : error.message, true);
    if (!(error instanceof Refused) && !(error instanceof TypeError)) console.error(error);
    return undefined;
  }
}

const queue = [];

/** Actions one after the other: a key pressed after a move to another text is about that text, not about the one before. */
export async function inOrder(action) {
  queue.push(action);
  if (queue.length > 1) return;
  while (queue.length) {
    let fine = false;
    await attempt(async () => (fine = (await queue[0]()) !== false));
    if (fine) queue.shift();
    else queue.length = 0; // the move failed: what was meant for its text is dropped
  }
}

export function later(action, milliseconds) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...given), milliseconds);
  };
}

/** The class of the colour of a label. */
export function colour(label) {
  if (label === "O") return "lo";
  const at = project.labels.filter((one) => one !== "O").indexOf(label);
  return `l${at < 0 ? 0 : at % 16}`;
}

/** The label of a token without its mark, and whether a field begins there. */
export function told(label) {
  if (label === null || label === undefined) return [false, null];
  if (label.startsWith("B-")) return [true, label.slice(2)];
  if (label.startsWith("I-")) return [false, label.slice(2)];
  return [false, label];
}

/** Runs of tokens with one label: [label, first, last). */
export function runsOf(labels) {
  const found = [];
  let first = 0;
  let name = null;
  for (let at = 0; at <= labels.length; at++) {
    const [begins, here] = at < labels.length ? told(labels[at]) : [false, null];
    if (at && (begins || here !== name || at === labels.length)) {
      if (name !== null) found.push([name, first, at]);
      first = at;
    }
    name = here;
  }
  return found;
}

/** A number of things: "1 text", "20,000 texts". */
export const count = (n, thing) => `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`;

export const percent = (share, digits = 1) => (share === null || share === undefined ? "" : (100 * share).toFixed(digits));

/** A command line, with a button that copies it. */
export function command(line) {
  const said = el("code", {}, line);
  const button = el("button", { type: "button", class: "copy", title: "Copy this command" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(line);
      toast("Copied");
    } catch {
      getSelection().selectAllChildren(said);
    }
  });
  return el("div", { class: "command" }, said, button);
}

export function table(head, rows, words = [0]) {
  return el("div", { class: "wide" }, el("table", {},
    el("thead", {}, el("tr", {}, head.map((name, at) => el("th", { class: words.includes(at) ? "words" : null }, name)))),
    el("tbody", {}, rows.map((row) =>
      el("tr", {}, row.map((cell, at) => el("td", { class: words.includes(at) ? "words" : null }, cell ?? ""))))),
  ));
}
