// The page: views, what the server knows, and looking for changes.

import { $, attempt, count, el, get, inOrder, post, project } from "./common.js";
import * as label from "./label.js";
import * as rules from "./rules.js";
import * as texts from "./texts.js";
import * as training from "./training.js";

const VIEWS = ["start", "texts", "rules", "training", "export"];
let view = "";
let first = true;
let timer = 0;

function go(name) {
  view = name;
  for (const one of VIEWS) $(one).hidden = one !== name;
  for (const one of document.querySelectorAll("nav button")) {
    if (one.dataset.view === name) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  if (name !== "start") history.replaceState(null, "", `#${name}`);
  if (name === "rules") rules.load();
  if (name === "training" || name === "export") attempt(training.load);
  if (name === "texts") texts.reload();
}

/** Show texts of a filter, or one text. */
async function show(filter, what) {
  go("texts");
  if (filter === "id") await texts.openId(what);
  else await texts.ask({ filter, rule: what, search: "" });
}

let looking = Promise.resolve();

/** Look whether something has changed; one look after the other. */
function look() {
  looking = looking.then(lookOnce);
  return looking;
}

async function lookOnce() {
  clearTimeout(timer);
  try {
    const found = await get("state");
    const version = JSON.stringify([found.version, found.model, found.labels]);
    const changed = version !== project.version;
    const ended = project.run?.state === "running" && found.run?.state !== "running";
    Object.assign(project, found, { version });
    header(found);
    if (changed || ended) await fresh();
    if (found.run) training.showRun(found.run);
    document.body.classList.remove("lost");
  } catch {
    document.body.classList.add("lost");
    $("status").textContent = "The studio does not answer. Is it still running?";
  }
  timer = setTimeout(look, project.run?.state === "running" ? 700 : 2500);
}

function header(found) {
  $("folder").textContent = found.folder;
  const parts = [`${found.counts.labelled} of ${count(found.counts.all, "text")} labelled`];
  if (found.model) parts.push(`model ${found.model}`);
  if (found.run?.state === "running") parts.push(`${found.run.does} …`);
  $("status").textContent = $("status").dataset.saving ?? parts.join(" · ");
  $("faults").replaceChildren(...Object.entries(found.faults).map(([name, fault]) =>
    el("p", {}, `${name} cannot be read, and is not changed until it can: ${fault}`)));
}

async function fresh() {
  const empty = project.counts.all === 0;
  if (empty || view === "start") {
    if (empty) return go("start");
    go("texts");
  } else if (first) {
    const named = location.hash.slice(1);
    go(VIEWS.includes(named) && named !== "start" ? named : "texts");
  }
  first = false;
  texts.fillFilters();
  if (view === "texts") await texts.reload();
  if (view === "rules") await rules.load();
  if (view === "training" || view === "export") await attempt(training.load);
  await label.refresh();
}

async function create() {
  const said = $("create-said");
  said.textContent = "";
  try {
    const names = $("new-labels").value.split(",").map((name) => name.trim()).filter(Boolean);
    if (!$("new-texts").value.trim()) throw new Error("Give at least one text.");
    if (!names.length) throw new Error("Give at least one label.");
    await post("labels", { labels: names });
    await post("add-texts", { text: $("new-texts").value });
    await look();
  } catch (error) {
    said.textContent = error.message;
  }
}

$("create").addEventListener("click", create);
$("new-file").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (file) $("new-texts").value = await file.text();
});
for (const one of document.querySelectorAll("nav button")) one.addEventListener("click", () => project.counts.all && go(one.dataset.view));
document.addEventListener("look", look);
document.addEventListener("visibilitychange", () => document.hidden || look());
texts.begin((text) => label.show(text));
label.begin(look);
rules.begin(show);
training.begin(show);
document.addEventListener("keydown", (event) => {
  if (event.key === "n" && view === "texts" && label.shown() === null && !["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName)) {
    event.preventDefault();
    inOrder(label.next);
  }
});
look();
