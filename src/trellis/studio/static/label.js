// One text: its labels and predictions, labelling by drag and by keyboard, undo, and rules from a selection.

import { $, attempt, colour, el, get, percent, post, project, runsOf, toast, told } from "./common.js";
import * as texts from "./texts.js";

let text = null;
let selected = null; // [first, last), the end that moves, and the one that stays
let anchor = 0;
let head = 0;
let guesses = true;
let saving = Promise.resolve();
let waiting = 0; // labels that are on their way
const done = []; // what can be undone: {id, before}
let lastLabel = null;
let suggestions = null;
let afterRule = () => {};

export function begin(whenRuleAdded) {
  afterRule = whenRuleAdded;
  document.addEventListener("keydown", pressed);
  document.addEventListener("pointerup", () => (dragging = false));
}

let dragging = false;

export function show(given) {
  const same = text !== null && text.id === given.id;
  text = given;
  if (!same) {
    selected = null;
    suggestions = null;
    anchor = head = 0;
  } else if (selected && selected[1] > text.spans.length) {
    selected = null;
  }
  draw();
}

export const shown = () => text;

/** The text again, as the server has it now. */
export async function refresh() {
  if (text === null) return;
  const id = text.id;
  await saving;
  try {
    const found = await get("text", { id });
    if (text !== null && text.id === id) show(found);
  } catch {
    // it is gone: the list says so
  }
}

function draw() {
  const box = $("editor");
  const typing = box.contains(document.activeElement) && document.activeElement.closest("#tokens") !== null;
  box.replaceChildren(
    el("div", { class: "bar" },
      el("strong", {}, `Text ${text.number}`),
      el("span", { class: "soft" }, state()),
      el("label", { class: "check" }, el("input", { type: "checkbox", id: "guesses", checked: guesses, onchange: (event) => {
        guesses = event.target.checked;
        draw();
      } }), " predictions"),
    ),
    palette(),
    tokens(),
    el("div", { class: "bar actions" },
      button("Accept predictions", "a", accept, !text.predicted),
      project.labels.includes("O") ? button("Rest is O", "o", restOutside) : null,
      button("Clear", "Backspace", () => assign(null)),
      button("Undo", "u", undo, done.length === 0),
      button("Next to label", "n", next),
    ),
    remarks(),
    suggester(),
  );
  if (typing) $("tokens").focus({ preventScroll: true });
}

function state() {
  const known = text.labels ? text.labels.filter((label) => label !== null).length : 0;
  const parts = [text.labels ? `${known} of ${text.spans.length} tokens labelled` : "not labelled"];
  if (text.doubt !== null) parts.push(`doubt ${text.doubt.toFixed(2)}`);
  return parts.join(", ");
}

function button(said, key, action, off = false) {
  return el("button", { type: "button", disabled: off, onclick: () => attempt(action), "data-act": key }, said, " ", el("kbd", {}, key));
}

function palette() {
  return el("div", { class: "palette", role: "group", "aria-label": "Labels" }, project.labels.map((label, at) =>
    el("button", {
      type: "button", class: `told ${colour(label)}${label === lastLabel ? " last" : ""}`, "data-label": label,
      onclick: () => attempt(() => assign(label)), title: `Label the selected words as ${label}`,
    }, label, at < 9 ? el("kbd", {}, String(at + 1)) : null)));
}

/** The tokens, with the text between them; labels are solid, predictions dashed. */
function tokens() {
  const n = text.spans.length;
  const own = text.labels ?? new Array(n).fill(null);
  const guess = new Array(n).fill(null);
  if (guesses && text.predicted) {
    for (const [label, first, last, p] of text.predicted) for (let i = first; i < last; i++) guess[i] = [label, first, last, p];
  }
  const box = el("div", {
    id: "tokens", tabindex: "0", role: "group",
    "aria-label": "Words of the text. Arrow keys move, with Shift they select, digits label.",
    onpointermove: (event) => {
      if (dragging) moveTo(tokenAt(event), true);
    },
  });
  let before = 0;
  const ends = new Map(runsOf(own).map(([label, , last]) => [last - 1, label]));
  for (let i = 0; i < n; i++) {
    const [start, end] = text.spans[i];
    const between = text.text.slice(before, start);
    const [begins, label] = told(own[i]);
    const inner = i > 0 && !begins && label !== null && told(own[i - 1])[1] === label;
    const guessInner = i > 0 && guess[i] && guess[i - 1] && guess[i][1] === guess[i - 1][1] && label === null && own[i - 1] === null;
    if (between) box.append(el("span", { class: inner ? `told ${colour(label)} gap` : guessInner ? `guess ${colour(guess[i][0])} gap` : "gap" }, between));
    const classes = ["token"];
    if (label !== null) classes.push("told", colour(label));
    else if (guess[i]) classes.push("guess", colour(guess[i][0]));
    if (selected && i >= selected[0] && i < selected[1]) classes.push("selected");
    if (i === head) classes.push("head");
    const differs = label !== null && guesses && text.predicted && (guess[i]?.[0] ?? "O") !== label;
    if (differs) classes.push("differs");
    const said = differs ? `${label}, predicted ${guess[i]?.[0] ?? "O"}` : label ?? (guess[i] ? `${guess[i][0]} predicted${guess[i][3] === null ? "" : `, ${percent(guess[i][3], 0)} %`}` : "");
    box.append(el("span", { class: classes.join(" "), "data-at": i, title: said, onpointerdown: press }, text.text.slice(start, end)));
    if (ends.has(i) && ends.get(i) !== "O") box.append(el("sub", { class: `tag ${colour(ends.get(i))}` }, ends.get(i)));
    else if (guess[i] && guess[i][2] === i + 1 && label === null) {
      box.append(el("sub", { class: `tag guessed ${colour(guess[i][0])}` }, guess[i][0], guess[i][3] === null ? "" : ` ${percent(guess[i][3], 0)}`));
    }
    before = end;
  }
  box.append(text.text.slice(before));
  return box;
}

function press(event) {
  if (event.button !== 0) return;
  event.preventDefault();
  // on a touch screen, let moves go to the words that are passed
  if (event.target.hasPointerCapture(event.pointerId)) event.target.releasePointerCapture(event.pointerId);
  dragging = true;
  $("tokens").focus({ preventScroll: true });
  moveTo(Number(event.currentTarget.dataset.at), event.shiftKey);
}

function tokenAt(event) {
  const found = document.elementFromPoint(event.clientX, event.clientY)?.closest?.(".token");
  return found ? Number(found.dataset.at) : head;
}

function moveTo(at, extend) {
  const next = Math.min(Math.max(at, 0), text.spans.length - 1);
  if (next < 0 || (extend && next === head && selected)) return;
  head = next;
  if (!extend) anchor = head;
  selected = [Math.min(anchor, head), Math.max(anchor, head) + 1];
  suggestions = null;
  for (const one of document.querySelectorAll("#tokens .token")) {
    const i = Number(one.dataset.at);
    one.classList.toggle("selected", i >= selected[0] && i < selected[1]);
    one.classList.toggle("head", i === head);
  }
  $("editor").querySelector(".suggester")?.replaceWith(suggester());
}

function pressed(event) {
  if (text === null || $("texts").hidden || event.ctrlKey || event.metaKey || event.altKey) {
    if ((event.ctrlKey || event.metaKey) && event.key === "z" && !$("texts").hidden && !inField(event.target)) {
      event.preventDefault();
      attempt(undo);
    }
    return;
  }
  if (inField(event.target)) return;
  const inTokens = event.target.closest?.("#tokens") !== null && event.target.closest?.("#tokens") !== undefined;
  if (inTokens && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
    event.preventDefault();
    return moveTo(head + (event.key === "ArrowRight" ? 1 : -1), event.shiftKey);
  }
  if (inTokens && (event.key === "Home" || event.key === "End")) {
    event.preventDefault();
    return moveTo(event.key === "Home" ? 0 : text.spans.length - 1, event.shiftKey);
  }
  const digit = Number(event.key);
  if (event.key >= "1" && event.key <= "9" && project.labels[digit - 1] !== undefined) return act(event, () => assign(project.labels[digit - 1]));
  const keys = {
    Backspace: () => assign(null), Delete: () => assign(null), 0: () => assign(null), a: accept, o: restOutside, u: undo, n: next,
    j: () => texts.step(1), k: () => texts.step(-1), s: suggest,
    e: () => $("tokens").focus(),
  };
  if (keys[event.key] !== undefined) act(event, keys[event.key]);
}

function act(event, action) {
  event.preventDefault();
  attempt(action);
}

const inField = (target) => ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName) && target.type !== "checkbox";

const labelsNow = () => (text.labels ? [...text.labels] : new Array(text.spans.length).fill(null));

async function assign(label) {
  if (!selected) {
    toast("Select words first: drag over them, or use the arrow keys with Shift");
    return;
  }
  const labels = labelsNow();
  const [first, last] = selected;
  const cut = last < labels.length ? told(labels[last]) : [false, null];
  for (let i = first; i < last; i++) labels[i] = label;
  if (cut[1] !== null && labels[last].startsWith("I-")) labels[last] = `B-${cut[1]}`; // what is left of a field begins anew
  if (label !== null) lastLabel = label;
  await save(labels);
}

async function accept() {
  if (!text.predicted) return;
  const labels = labelsNow();
  const guess = new Array(labels.length).fill(null);
  for (const i of text.outside ?? []) guess[i] = "O";
  for (const [label, first, last] of text.predicted) {
    for (let i = first; i < last; i++) guess[i] = label;
    if (first > 0 && guess[first - 1] === label) guess[first] = `B-${label}`;
  }
  const [first, last] = selected && selected[1] - selected[0] > 1 ? selected : [0, labels.length];
  for (let i = first; i < last; i++) if (labels[i] === null) labels[i] = guess[i];
  await save(labels);
}

async function restOutside() {
  if (!project.labels.includes("O")) return;
  await save(labelsNow().map((label) => label ?? "O"));
}

/** Keep labels; what was there before can be brought back. */
function save(labels, undoing = false) {
  const { id, version } = text;
  const before = labelsNow();
  if (JSON.stringify(before) === JSON.stringify(labels)) return Promise.resolve();
  text = { ...text, labels: labels.every((label) => label === null) ? null : labels };
  draw();
  $("status").dataset.saving = "saving …";
  waiting += 1;
  const work = saving.then(async () => {
    const known = text.id === id ? text.version : version;
    try {
      const found = await post("label", { id, labels, version: known });
      if (!undoing) done.push({ id, before });
      if (done.length > 500) done.shift();
      texts.put(found);
      if (text.id === id) show(waiting > 1 ? { ...text, version: found.version } : found); // what is newer stays
    } catch (error) {
      const now = error.answer?.text ?? (await get("text", { id }).catch(() => null));
      if (now) {
        texts.put(now);
        if (text.id === id) show(now);
      }
      throw error;
    } finally {
      waiting -= 1;
      if (!waiting) delete $("status").dataset.saving;
    }
  });
  saving = work.catch(() => {});
  return work;
}

async function undo() {
  await saving;
  const last = done.pop();
  if (!last) return;
  if (text.id !== last.id) await texts.openId(last.id);
  await save(last.before, true);
  draw();
}

export async function next() {
  await saving;
  const found = await get("next", { after: text?.id ?? "" });
  if (found.id === null) toast("Every text is labelled");
  else {
    await texts.openId(found.id);
    $("tokens")?.focus({ preventScroll: true });
  }
}

function remarks() {
  const box = el("div", { class: "remarks" });
  for (const rule of text.broken.labels) box.append(el("p", { class: "bad" }, "The labels break the rule ", el("q", {}, rule)));
  for (const rule of text.broken.predictions) box.append(el("p", {}, "The prediction breaks the rule ", el("q", {}, rule)));
  for (const rule of text.relaxed) box.append(el("p", {}, "Strict rules cannot all hold here; relaxed: ", el("q", {}, rule)));
  return box;
}

// Rules from a selection

function labelOfSelection() {
  if (!selected) return null;
  const own = text.labels ? told(text.labels[selected[0]])[1] : null;
  const guess = text.predicted?.find(([, first, last]) => selected[0] >= first && selected[0] < last)?.[0];
  return own ?? guess ?? lastLabel ?? project.labels[0] ?? null;
}

function suggester() {
  const box = el("div", { class: "suggester" });
  if (!selected || project.labels.length === 0) return box;
  const words = text.text.slice(text.spans[selected[0]][0], text.spans[selected[1] - 1][1]);
  box.append(el("h3", {}, "Rules from ", el("q", {}, words.length > 60 ? `${words.slice(0, 60)}…` : words)));
  const label = suggestions?.label ?? labelOfSelection();
  const choice = el("select", { id: "rule-label", "aria-label": "Label of the rules" },
    project.labels.map((one) => el("option", { value: one, selected: one === label }, one)));
  choice.addEventListener("change", () => attempt(() => suggest(choice.value)));
  box.append(el("p", { class: "bar" }, "label ", choice, button("Suggest rules", "s", () => suggest(choice.value))));
  if (suggestions === null) return box;
  if (suggestions.error) box.append(el("p", { class: "bad" }, suggestions.error));
  for (const one of suggestions.rules) {
    const found = one.found;
    const said = found === null ? "" : `${found.places} place${found.places === 1 ? "" : "s"} in ${found.texts} of ${suggestions.n} texts` +
      (found.tested ? `; labels break it in ${found.n_broken} of ${found.tested}` : "");
    box.append(el("details", { class: "suggestion" },
      el("summary", {}, one.about, " ", el("span", { class: found?.n_broken ? "bad" : "soft" }, said), " ",
        el("button", { type: "button", class: "add", onclick: (event) => {
          event.preventDefault();
          attempt(() => addRule(one));
        } }, "Add")),
      el("pre", {}, one.toml),
      found ? el("ul", {}, found.at.slice(0, 8).map((place) => el("li", {}, place.before, el("mark", {}, place.word), place.after))) : null,
    ));
  }
  return box;
}

async function suggest(label) {
  if (!selected) return;
  const [first, last] = selected;
  const wanted = typeof label === "string" ? label : labelOfSelection();
  if (wanted === null) return;
  $("editor").querySelector(".suggester").append(el("p", { class: "soft" }, "looking …"));
  const found = await post("rules/suggest", { id: text.id, first, last, label: wanted });
  suggestions = { ...found, label: wanted };
  $("editor").querySelector(".suggester").replaceWith(suggester());
  $("editor").querySelector(".suggester summary")?.focus({ preventScroll: true });
}

async function addRule(one) {
  const { version } = await get("rules");
  await post("rules/add", { toml: one.toml, version });
  suggestions.rules = suggestions.rules.filter((other) => other !== one);
  $("editor").querySelector(".suggester").replaceWith(suggester());
  toast(`Added: ${one.about}`);
  afterRule();
}
