// One text: its labels and predictions, labelling by drag and by keyboard, undo, and rules from a selection.

import { $, attempt, colour, count, el, get, inOrder, percent, post, project, Refused, runsOf, toast, told } from "./common.js";
import { keep, read, settled } from "./saving.js";
import * as texts from "./texts.js";

let text = null;
let selected = null; // [first, last), the end that moves, and the one that stays
let anchor = 0;
let head = 0;
let guesses = true;
let done = []; // what can be undone: {id, before, after}
let drawn = "";
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
  if (!same || drawn !== JSON.stringify([text, project.labels])) draw();
}

export const shown = () => text;

/** The text again, as the server has it now. */
export async function refresh() {
  if (text === null) return;
  const { id } = text;
  try {
    const found = await read("text", { id });
    if (text.id === id) show(found);
  } catch {
    // it is gone: the list says so
  }
}

function draw() {
  const box = $("editor");
  const focus = box.contains(document.activeElement) ? document.activeElement : null;
  const act = focus?.dataset.act;
  drawn = JSON.stringify([text, project.labels]);
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
      button("Accept predictions", "a", accept, !text.predicted || !labelsNow().includes(null)),
      project.labels.includes("O") ? button("Rest is O", "o", restOutside, !labelsNow().includes(null)) : null,
      button("Clear", "Backspace", () => assign(null)),
      button("Undo", "u", undo, done.length === 0, inOrder),
      button("Next to label", "n", next, false, inOrder),
    ),
    remarks(),
    suggester(),
  );
  const again = act ? box.querySelector(`[data-act="${act}"]:enabled`) : null;
  if (focus !== null) (again ?? $("tokens")).focus({ preventScroll: true });
}

function state() {
  if (!text.spans.length && text.text.length > 50000) return "too long to be labelled: split it; this is how it begins";
  const known = text.labels ? text.labels.filter((label) => label !== null).length : 0;
  const parts = [text.labels ? `${known} of ${count(text.spans.length, "token")} labelled` : "not labelled"];
  if (text.doubt !== null) parts.push(`uncertainty ${text.doubt.toFixed(2)}`);
  return parts.join(", ");
}

function button(said, key, action, off = false, run = attempt) {
  return el("button", { type: "button", disabled: off, onclick: () => run(action), "data-act": key }, said, " ", el("kbd", {}, key));
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
  if (text === null || $("texts").hidden || inField(event.target)) return;
  const action = actionOf(event);
  if (action === undefined) return;
  event.preventDefault();
  inOrder(action);
}

/** What a key does. */
function actionOf({ key, target, shiftKey, ctrlKey, metaKey, altKey }) {
  if ((ctrlKey || metaKey) && key === "z") return undo;
  if (ctrlKey || metaKey || altKey) return undefined;
  if (target.closest?.("#tokens")) {
    if (key === "ArrowLeft") return () => moveTo(head - 1, shiftKey);
    if (key === "ArrowRight") return () => moveTo(head + 1, shiftKey);
    if (key === "Home") return () => moveTo(0, shiftKey);
    if (key === "End") return () => moveTo(text.spans.length - 1, shiftKey);
  }
  const label = key >= "1" && key <= "9" ? project.labels[Number(key) - 1] : undefined;
  if (label !== undefined) return () => assign(label);
  return {
    Backspace: () => assign(null), Delete: () => assign(null), 0: () => assign(null), a: accept, o: restOutside, u: undo, n: next,
    j: () => texts.step(1), k: () => texts.step(-1), s: () => suggest(), e: () => $("tokens").focus(),
  }[key];
}

const inField = (target) => ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName) && target.type !== "checkbox";

const labelsNow = () => (text.labels ? [...text.labels] : new Array(text.spans.length).fill(null));

function assign(label) {
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
  set(labels);
}

function accept() {
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
  set(labels);
}

function restOutside() {
  if (!project.labels.includes("O")) return;
  set(labelsNow().map((label) => label ?? "O"));
}

const equal = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** Label the text that is shown; what was there before can be brought back. Nothing waits until it is saved. */
function set(labels) {
  const before = labelsNow();
  if (equal(before, labels)) return;
  done.push({ id: text.id, before, after: labels });
  if (done.length > 500) done.shift();
  attempt(() => save(text, labels));
}

/** Keep the labels of a text. If they cannot be kept, the text is shown as it is on the disk. */
async function save(of, labels) {
  const work = keep(of, labels);
  put({ ...of, labels: labels.every((label) => label === null) ? null : labels });
  try {
    put(await work);
  } catch (error) {
    done = done.filter((one) => one.id !== of.id);
    const now = error.answer?.text ?? (await read("text", { id: of.id }).catch(() => null));
    put(now ?? of);
    throw error instanceof TypeError ? new Refused("The labels are not saved: the studio does not answer. Is it still running?") : error;
  }
}

function put(row) {
  texts.put(row);
  if (text.id === row.id) show(row);
}

async function undo() {
  const last = done.pop();
  if (last === undefined) return true;
  await settled(last.id);
  const now = await read("text", { id: last.id });
  if (!equal(now.labels ?? new Array(now.spans.length).fill(null), last.after)) {
    draw();
    throw new Refused("The labels of this text were changed elsewhere; there is nothing to undo.");
  }
  if (text.id !== last.id && !(await texts.openId(last.id))) return false;
  attempt(() => save(now, last.before));
  draw();
  return true;
}

/** Open the text to label next; false if there is none. */
export async function next() {
  await settled();
  const found = await get("next", { after: text?.id ?? "" });
  if (found.id === null) {
    toast("All other texts are labelled");
    return false;
  }
  const opened = await texts.openId(found.id);
  $("tokens")?.focus({ preventScroll: true });
  return opened;
}

function remarks() {
  const box = el("div", { class: "remarks" });
  for (const rule of text.broken.labels) box.append(el("p", { class: "bad" }, "The labels violate the rule ", el("q", {}, rule)));
  for (const rule of text.broken.predictions) box.append(el("p", {}, "The prediction violates the rule ", el("q", {}, rule)));
  for (const rule of text.relaxed) box.append(el("p", {}, "Not all hard rules can hold here; relaxed: ", el("q", {}, rule)));
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
    const said = found === null ? "" : `${count(found.places, "place")} in ${found.texts} of ${count(suggestions.n, "text")}` +
      (found.tested ? `; labels violate it in ${found.n_broken} of ${found.tested}` : "");
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
  const { id } = text;
  const found = await post("rules/suggest", { id, first, last, label: wanted });
  if (text.id !== id || !selected || selected[0] !== first || selected[1] !== last) return; // somebody has moved on
  suggestions = { ...found, label: wanted };
  $("editor").querySelector(".suggester").replaceWith(suggester());
  $("editor").querySelector(".suggester summary")?.focus({ preventScroll: true });
}

async function addRule(one) {
  const { version } = await get("rules");
  await post("rules/add", { toml: one.toml, version });
  if (suggestions?.rules.includes(one)) {
    suggestions.rules = suggestions.rules.filter((other) => other !== one);
    $("editor").querySelector(".suggester").replaceWith(suggester());
    $("tokens").focus({ preventScroll: true });
  }
  toast(`Added: ${one.about}`);
  afterRule();
}
