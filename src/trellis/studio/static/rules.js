// Rules: what each does, and the file itself, tried while it is written.

import { $, attempt, command, count, el, get, later, post, project } from "./common.js";

let saved = { text: "", version: "" };
let show = () => {};
let tried = 0;

export function begin(whenShown) {
  show = whenShown;
  $("toml").addEventListener("input", () => {
    told();
    tryLater();
  });
  $("save-rules").addEventListener("click", () => attempt(save));
  $("revert-rules").addEventListener("click", () => {
    $("toml").value = saved.text;
    told();
    attempt(check);
  });
  $("toml").addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "s") {
      event.preventDefault();
      attempt(save);
    }
  });
  window.addEventListener("beforeunload", (event) => dirty() && event.preventDefault());
}

const tryLater = later(() => attempt(check), 400);
const dirty = () => $("toml").value !== saved.text;

function told(message = null) {
  $("rules-said").textContent = message ?? (dirty() ? "not saved" : "");
  $("save-rules").disabled = !dirty();
  $("revert-rules").disabled = !dirty();
}

export async function load() {
  const found = await attempt(() => get("rules"));
  if (!found) return;
  if (!dirty() || saved.version === "") {
    saved = { text: found.text, version: found.version };
    if ($("toml").value !== found.text) $("toml").value = found.text;
    told();
  } else if (found.version !== saved.version) {
    told("rules.toml was changed elsewhere: copy what you wrote, then revert");
  }
  list(found);
  $("rule-editor").querySelector(".command").replaceChildren(command("trellis extract check rules.toml labels.jsonl"));
  if (!$("rules").hidden) await check();
}

async function save() {
  const text = $("toml").value;
  const { version } = await post("rules", { text, version: saved.version });
  saved = { text: text.endsWith("\n") || !text ? text : `${text}\n`, version };
  $("toml").value = saved.text;
  told("saved");
  await load();
}

async function edit(path, given) {
  const { version } = await get("rules");
  await post(path, { ...given, version });
  await load();
}

function list(found) {
  const box = $("rule-list");
  const parts = [el("h2", {}, count(found.rules.length, "rule"))];
  if (found.error) parts.push(el("p", { class: "bad" }, found.error));
  if (found.conflict) parts.push(el("p", { class: "bad" }, "Hard rules conflict: ", found.conflict));
  if (found.rules.length === 0) {
    parts.push(el("p", { class: "hint" }, "Select words in a text and choose “Suggest rules”, or write one here."));
  }
  for (const rule of found.rules) parts.push(card(rule, found.predicted));
  box.replaceChildren(...parts);
}

function card(rule, predicted) {
  const own = rule.found;
  const facts = [];
  const link = (said, filter) => el("button", { type: "button", class: "link", onclick: () => show(filter, rule.name) }, said);
  if (own) {
    facts.push(el("li", {}, `applies in ${count(own.places, "place")} of `, link(count(own.texts, "text"), "applies")));
    if (rule.labels?.tested) {
      const bad = rule.labels.broken > 0;
      facts.push(el("li", { class: bad ? "bad" : "" }, "labels violate it in ",
        bad ? link(`${rule.labels.broken} of ${count(rule.labels.tested, "place")}`, "broken-labels") : `0 of ${count(rule.labels.tested, "place")}`));
    } else facts.push(el("li", { class: "soft" }, "no label tests it yet"));
    if (predicted) {
      facts.push(el("li", {}, "predictions violate it in ", own.broken ? link(count(own.broken, "text"), "broken-predictions") : "no text"));
    }
  }
  const report = rule.report;
  if (report) {
    if (report.penalty !== null) facts.push(el("li", {}, `penalty ${report.penalty >= 1e5 ? "∞" : report.penalty.toFixed(2)}`));
    if (report.dual !== null) facts.push(el("li", {}, `dual ${report.dual.toFixed(2)} (how hard it pulls in training)`));
    facts.push(el("li", {}, `violations: ${report.by_model} by the model alone, ${report.by_output} under the rules`));
  }
  return el("article", { class: `rule${rule.on ? "" : " off"}` },
    el("header", { class: "bar" },
      el("label", { class: "check" }, el("input", { type: "checkbox", checked: rule.on, "aria-label": `Use the rule ${rule.name}`,
        onchange: (event) => attempt(() => edit("rules/switch", { number: rule.number, on: event.target.checked })) })),
      el("h3", {}, rule.name || "(no name)"),
      own ? el("span", { class: "badge" }, own.strength) : null,
      el("button", { type: "button", class: "remove", title: "Remove this rule from rules.toml", onclick: () => {
        if (confirm(`Remove the rule “${rule.name}”?`)) attempt(() => edit("rules/remove", { number: rule.number }));
      } }, "Remove")),
    own ? el("p", { class: "soft" }, own.sentence) : rule.on ? null : el("p", { class: "soft" }, "switched off"),
    el("ul", { class: "facts" }, facts),
  );
}

/** What the rules in the editor would do. */
async function check() {
  const mine = ++tried;
  if (!project.counts.all) return;
  const found = await post("rules/check", { text: $("toml").value });
  if (mine !== tried) return;
  const box = $("tried");
  if (found.error) {
    box.replaceChildren(el("p", { class: "bad" }, found.error));
    if (found.line) mark(found.line);
    return;
  }
  const parts = [el("p", { class: "soft" }, `In ${count(found.n, "text")}, the labelled ones first:`)];
  if (found.conflict) parts.push(el("p", { class: "bad" }, "Hard rules conflict: ", found.conflict));
  for (const rule of found.rules) {
    const bad = rule.n_broken > 0;
    parts.push(el("details", { class: "suggestion", "data-rule": rule.name },
      el("summary", {}, rule.name, " ", el("span", { class: bad ? "bad" : "soft" }, `${count(rule.places, "place")} in ${count(rule.texts, "text")}`,
        rule.tested ? `; labels violate it in ${rule.n_broken} of ${rule.tested}` : "")),
      el("ul", {}, rule.at.slice(0, 20).map((place) => el("li", {}, el("button", { type: "button", class: "link place", onclick: () => show("id", place.id) },
        place.before, el("mark", {}, place.word), place.after)))),
    ));
  }
  box.replaceChildren(...parts);
}

/** Bring a line of the editor into view. */
function mark(line) {
  const lines = $("toml").value.split("\n");
  const share = (line - 1) / Math.max(lines.length, 1);
  if (document.activeElement !== $("toml")) $("toml").scrollTop = share * $("toml").scrollHeight - $("toml").clientHeight / 2;
}
