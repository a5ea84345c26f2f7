// The list of texts: only the rows in view exist, and only pages near them are fetched.

import { $, attempt, colour, count, el, inOrder, later, project, runsOf } from "./common.js";
import { read } from "./saving.js";

const HEIGHT = 68;
const PAGE = 50;
const KEPT = 40;
const PREVIEW = 360;

const asked = { filter: "all", rule: "", search: "", order: "file" };
let pages = new Map();
let fetching = new Set();
let total = 0;
let generation = 0;
const current = { id: null, at: -1, gone: false }; // gone: not in the list any more; the one after it is in its place
let opening = 0;
let open = () => {};

const FILTERS = [
  ["all", "all"], ["unlabelled", "unlabelled"], ["labelled", "labelled"], ["partly", "partly labelled"],
  ["disagree", "labels and predictions differ"], ["changed", "changed by the last training"], ["relaxed", "rules were relaxed"],
];

export function begin(whenOpened) {
  open = whenOpened;
  $("list").addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(draw).observe($("list"));
  $("search").addEventListener("input", later(() => ask({ search: $("search").value }), 120));
  $("order").addEventListener("change", () => ask({ order: $("order").value }));
  $("filter").addEventListener("change", () => {
    const [filter, rule] = JSON.parse($("filter").value);
    ask({ filter, rule });
  });
  $("list").addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (by === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    inOrder(() => step(by));
  });
}

/** The choices of filters: with how many texts each has, and a group for the rules. */
export function fillFilters() {
  const box = $("filter");
  const before = JSON.stringify([asked.filter, asked.rule]);
  const option = (filter, rule, said) => el("option", { value: JSON.stringify([filter, rule]) }, said);
  const counts = project.counts;
  const groups = [
    ["a rule is violated", "broken"], ["the labels violate a rule", "broken-labels"], ["a rule applies", "applies"],
  ];
  box.replaceChildren(
    ...FILTERS.map(([filter, said]) => option(filter, "", counts[filter] === undefined ? said : `${said} (${counts[filter]})`)),
    ...groups.map(([said, filter]) =>
      el("optgroup", { label: said }, project.rules.filter(Boolean).map((rule) => option(filter, rule, `${said}: ${rule}`)))),
  );
  box.value = before;
  if (box.selectedIndex < 0) box.append(option(asked.filter, asked.rule, `${asked.filter}: ${asked.rule}`)), (box.value = before);
}

export function ask(changes) {
  Object.assign(asked, changes);
  Object.assign(current, { at: -1, gone: false });
  $("list").scrollTop = 0;
  fillFilters();
  return reload();
}

/** Everything is fetched anew: something has changed. */
export async function reload() {
  generation += 1;
  fetching = new Set();
  const first = Math.floor($("list").scrollTop / HEIGHT / PAGE);
  await fetchPage(first, generation, true);
}

async function fetchPage(number, mine, fresh = false) {
  if (fetching.has(number)) return;
  fetching.add(number);
  const found = await attempt(() => read("texts", { ...asked, first: number * PAGE, n: PAGE }));
  if (mine !== generation) return;
  fetching.delete(number);
  if (found === undefined) return;
  if (fresh) pages = new Map();
  total = found.total;
  pages.set(number, found.texts);
  while (pages.size > KEPT) pages.delete(pages.keys().next().value);
  $("total").textContent = count(total, "text");
  $("rows").style.height = `${total * HEIGHT}px`;
  if (fresh && current.id !== null) {
    const at = found.texts.findIndex((one) => one.id === current.id);
    if (at >= 0) Object.assign(current, { at: at + number * PAGE, gone: false });
    else if (Math.floor(current.at / PAGE) === number) current.gone = true;
  }
  draw();
}

function draw() {
  const box = $("list");
  const first = Math.max(0, Math.floor(box.scrollTop / HEIGHT) - 4);
  const last = Math.min(total, Math.ceil((box.scrollTop + box.clientHeight) / HEIGHT) + 4);
  const made = [];
  for (let at = first; at < last; at++) {
    const page = pages.get(Math.floor(at / PAGE));
    if (page === undefined) fetchPage(Math.floor(at / PAGE), generation);
    const text = page?.[at % PAGE];
    const row = text ? rowOf(text, at) : el("div", { class: "row" }, "…");
    row.style.transform = `translateY(${at * HEIGHT}px)`;
    made.push(row);
  }
  $("rows").replaceChildren(...made);
}

function rowOf(text, at) {
  const marks = [];
  if (text.labels) marks.push(text.labels.includes(null) ? ["◐", "partly labelled"] : ["●", "labelled"]);
  else marks.push(["○", "not labelled"]);
  if (text.disagrees) marks.push(["≠", "labels and prediction differ"]);
  if (text.changed) marks.push(["Δ", "changed by the last training"]);
  if (text.broken.labels.length || text.broken.predictions.length) {
    marks.push(["!", `violated: ${[...new Set([...text.broken.labels, ...text.broken.predictions])].join(", ")}`]);
  }
  const doubt = text.doubt === null || text.labels ? null : el("meter", { min: 0, max: 1, value: text.doubt, title: `uncertainty ${text.doubt.toFixed(2)}` });
  return el("div", {
    class: `row${text.id === current.id ? " chosen" : ""}`, role: "option", "aria-selected": text.id === current.id ? "true" : "false",
    onclick: () => openAt(at), "data-id": text.id,
  },
    el("div", { class: "about" }, el("span", { class: "number" }, String(text.number)),
      marks.map(([sign, said]) => el("span", { class: "mark", title: said, role: "img", "aria-label": said }, sign)), doubt),
    el("div", { class: "preview" }, preview(text)),
  );
}

/** The beginning of a text, labels in solid colours and predictions underlined. */
function preview(text) {
  const fields = text.labels
    ? runsOf(text.labels).filter(([label]) => label !== "O").map(([label, first, last]) => [label, first, last, "told"])
    : (text.predicted ?? []).map(([label, first, last]) => [label, first, last, "guess"]);
  const pieces = [];
  let at = 0;
  for (const [label, first, last, kind] of fields) {
    const start = text.spans[first][0];
    if (start > PREVIEW) break;
    const end = text.spans[last - 1][1];
    pieces.push(text.text.slice(at, start));
    pieces.push(el("span", { class: `${kind} ${colour(label)}`, title: label }, text.text.slice(start, end)));
    at = end;
  }
  pieces.push(text.text.slice(at, Math.max(at, PREVIEW)));
  return pieces;
}

/** Open a row of the list; of several in a row the last one. */
async function openAt(at) {
  const mine = ++opening;
  const number = Math.floor(at / PAGE);
  if (!pages.has(number)) await fetchPage(number, generation);
  const text = pages.get(number)?.[at % PAGE];
  if (!text || mine !== opening) return false;
  return chosen(text, at);
}

function chosen(text, at) {
  Object.assign(current, { id: text.id, at, gone: false });
  draw();
  open(text);
  return true;
}

/** Open the row that many rows below. */
export function step(by) {
  const from = current.gone && by > 0 ? current.at - 1 : current.at;
  const at = Math.min(Math.max(from + by, 0), total - 1);
  if (at < 0) return false;
  const box = $("list");
  if (at * HEIGHT < box.scrollTop) box.scrollTop = at * HEIGHT;
  if ((at + 1) * HEIGHT > box.scrollTop + box.clientHeight) box.scrollTop = (at + 1) * HEIGHT - box.clientHeight;
  return openAt(at);
}

/** Open a text by its id, wherever it is in the list. */
export async function openId(id) {
  const mine = ++opening;
  const text = await attempt(() => read("text", { id }));
  if (!text || mine !== opening) return false;
  let found = -1;
  for (const [number, page] of pages) {
    const at = page.findIndex((one) => one.id === id);
    if (at >= 0) found = number * PAGE + at;
  }
  if (found < 0 && asked.filter === "all" && !asked.search && asked.order === "file") {
    found = text.number - 1;
    $("list").scrollTop = Math.max(0, (found - 2) * HEIGHT);
  }
  return chosen(text, found);
}

/** A row whose text has changed. */
export function put(text) {
  for (const page of pages.values()) {
    const at = page.findIndex((one) => one.id === text.id);
    if (at >= 0) page[at] = text;
  }
  draw();
}
