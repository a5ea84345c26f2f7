// Training in the background, what came of it, and files to take away.

import { $, attempt, command, count, el, get, percent, post, project, table } from "./common.js";

let open = () => {};
let drawn = "";

export function begin(whenOpened) {
  open = whenOpened;
  $("training").append(
    el("div", { id: "train-form" },
      el("h2", {}, "Train"),
      el("p", { class: "bar" },
        choice("method", "method", ["", "pr", "uem", "codl", "hard-em", "em", "supervised"]),
        choice("model_kind", "model", ["", "crf", "semi-crf", "hmm"]),
        el("label", {}, "rounds ", el("input", { id: "set-rounds", type: "number", min: 0, max: 1000, placeholder: "5" })),
        el("label", { class: "check" }, el("input", { id: "set-hard", type: "checkbox" }), " learned rules as hard ones"),
        el("label", {}, "cross-validation folds ", el("input", { id: "set-folds", type: "number", min: 0, max: 20, placeholder: "0", title: "Each fold trains one more model; 0: no cross-validation" })),
      ),
      el("p", { class: "bar" },
        el("button", { type: "button", id: "train", class: "main", onclick: () => attempt(train) }, "Train"),
        el("button", { type: "button", id: "cancel", hidden: true, onclick: () => attempt(() => post("cancel")) }, "Cancel"),
        el("span", { id: "run-said", role: "status" })),
      el("progress", { id: "run-bar", max: 1, value: 0, hidden: true }),
      el("details", { id: "run-log", hidden: true }, el("summary", {}, "Output of the commands"), el("pre", {}))),
    el("div", { id: "curve" }), el("div", { id: "models" }), el("div", { id: "fields" }), el("div", { id: "changes" }),
    el("div", { id: "errors" }),
  );
  const formats = [["jsonl", "JSON lines, with places and probabilities"], ["tsv", "columns, token and label"], ["csv", "CSV, a field per line"], ["spacy", "spaCy DocBin"]];
  const parts = [["both", "labels, and predictions where there are none"], ["labels", "labels"], ["predictions", "predictions"]];
  const pick = (id, said, options) => el("label", {}, `${said} `, el("select", { id }, options.map(([value, name]) => el("option", { value }, name))));
  $("export").append(el("h2", {}, "Export"), el("p", { class: "bar" }, pick("what", "what", parts), pick("format", "as", formats),
    el("button", { type: "button", class: "main", id: "download", onclick: () => attempt(download) }, "Download")), el("div", { id: "export-commands" }));
  $("what").addEventListener("change", commands);
  $("format").addEventListener("change", commands);
}

function choice(name, said, values) {
  return el("label", {}, `${said} `, el("select", { id: `set-${name}` }, values.map((value) => el("option", { value }, value || "default"))));
}

async function train() {
  const given = { hard: $("set-hard").checked, folds: Number($("set-folds").value) || 0 };
  for (const name of ["method", "model_kind"]) if ($(`set-${name}`).value) given[name] = $(`set-${name}`).value;
  if ($("set-rounds").value !== "") given.rounds = Number($("set-rounds").value);
  project.run = await post("train", given);
  showRun(project.run);
  document.dispatchEvent(new Event("look"));
}

export function showRun(run) {
  const running = run?.state === "running";
  $("train").disabled = running;
  $("cancel").hidden = !running;
  $("run-bar").hidden = !running;
  $("run-log").hidden = !run;
  if (!run) return;
  $("run-bar").value = (run.at + 0.5) / run.n;
  const said = { running: `${run.does} … ${run.progress}`, done: `Model ${run.name} is trained`, failed: "Failed", cancelled: "Cancelled" };
  $("run-said").textContent = `${said[run.state]} (${run.seconds} s)`;
  $("run-said").className = run.state === "failed" ? "bad" : "";
  $("run-log").querySelector("pre").textContent = run.said.join("\n");
  if (run.state === "failed") {
    const why = run.said.filter((line) => line.startsWith("Error")).at(-1) ?? run.said.at(-1) ?? "";
    $("run-said").textContent = `Failed: ${why}`;
    $("run-log").open = true;
  }
}

export async function load() {
  const [training, results, errors] = await Promise.all([get("training"), get("results"), get("errors")]);
  showRun(project.run); // an answer that was asked for before may be older
  const now = JSON.stringify([training.models, training.model, results, errors, project.counts]);
  if (now === drawn) return;
  drawn = now;
  models(training);
  curve(results.curve);
  fields(results);
  changes(results);
  mistakes(errors);
  commands();
}

function models({ models: all, model }) {
  if (!all.length) {
    $("models").replaceChildren(el("p", { class: "hint" }, "No model yet. Label a few texts, add rules, then train."));
    return;
  }
  const score = (one, kind) => percent(one.scores?.[kind]?.accuracy);
  $("models").replaceChildren(el("h2", {}, "Models"), table(
    ["model", "labelled", "settings", "dev accuracy", "cross-validated", "seconds", ""],
    all.slice().reverse().map((one) => [
      el("details", {}, el("summary", {}, one.name), (one.commands ?? []).map(command), (one.said ?? []).map((line) => el("p", { class: "soft" }, line))),
      String(one.labelled), Object.entries(one.settings ?? {}).filter(([, value]) => value).map(([name, value]) => `${name === "model_kind" ? "model" : name} ${value}`).join(", ") || "default",
      score(one, "dev"), score(one, "cv"), String(one.seconds ?? ""),
      one.name === model ? "shown" : el("button", { type: "button", onclick: () => attempt(async () => {
        await post("use", { model: one.name });
        document.dispatchEvent(new Event("look"));
      }) }, "Show"),
    ]), [0, 2]));
}

/** Accuracy of all models by the number of labelled texts. */
function curve(points) {
  const box = $("curve");
  const kinds = ["dev", "cv"].filter((kind) => points.some((one) => one.scores[kind]?.accuracy != null));
  if (points.length < 2 || !kinds.length) return box.replaceChildren();
  const W = 560, H = 190, L = 44, B = 30, T = 14;
  const svg = (kind, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const shown = points.filter((one) => kinds.some((kind) => one.scores[kind]?.accuracy != null));
  const xs = shown.map((one) => one.labelled);
  const ys = shown.flatMap((one) => kinds.map((kind) => one.scores[kind]?.accuracy).filter((value) => value != null));
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  const [y0, y1] = [Math.floor(Math.min(...ys) * 20) / 20, Math.min(1, Math.ceil(Math.max(...ys) * 20) / 20)];
  const x = (value) => L + 10 + ((W - L - 30) * (x1 > x0 ? (value - x0) / (x1 - x0) : 0.5));
  const y = (value) => T + (H - T - B) * (y1 > y0 ? 1 - (value - y0) / (y1 - y0) : 0.5);
  const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "Accuracy by labelled texts" });
  for (const value of [y0, (y0 + y1) / 2, y1]) {
    picture.append(svg("line", { x1: L, x2: W - 10, y1: y(value), y2: y(value), class: "grid" }), svg("text", { x: L - 6, y: y(value) + 4, "text-anchor": "end" }, String(Math.round(1000 * value) / 10)));
  }
  for (const value of new Set([x0, x1])) picture.append(svg("text", { x: x(value), y: H - 10, "text-anchor": "middle" }, String(value)));
  for (const kind of kinds) {
    const own = shown.filter((one) => one.scores[kind]?.accuracy != null);
    picture.append(svg("polyline", { points: own.map((one) => `${x(one.labelled)},${y(one.scores[kind].accuracy)}`).join(" "), class: kind }));
    for (const one of own) picture.append(svg("circle", { cx: x(one.labelled), cy: y(one.scores[kind].accuracy), r: 4, class: kind }, svg("title", {}, `model ${one.name}: ${percent(one.scores[kind].accuracy)} %`)));
  }
  const names = { dev: "development set", cv: "cross-validated" };
  box.replaceChildren(el("h2", {}, "Accuracy by labelled texts, %"), el("figure", {}, picture,
    el("figcaption", {}, kinds.map((kind) => el("span", { class: `key ${kind}` }, names[kind])))));
}

function fields({ fields: found }) {
  const parts = [];
  for (const [kind, said] of [["dev", "on the development set"], ["cv", "cross-validated"]]) {
    if (!found[kind]) continue;
    parts.push(el("h2", {}, `Fields, ${said}`), table(["field", "precision", "recall", "F1", "gold", "found"],
      Object.entries(found[kind]).map(([name, one]) => [name, percent(one.precision), percent(one.recall), percent(one.f1), String(one.n_gold), String(one.n_found)])));
  }
  $("fields").replaceChildren(...parts);
}

function changes({ changes: found, before }) {
  if (!before) return $("changes").replaceChildren();
  $("changes").replaceChildren(el("h2", {}, `Changed since model ${before}`),
    el("p", {}, el("button", { type: "button", class: "link", onclick: () => open("changed", "") }, count(project.counts.changed, "text")), ` ${project.counts.changed === 1 ? "has" : "have"} other predictions. Number of fields:`),
    table(["field", "before", "now"], Object.entries(found).sort().map(([name, [was, is]]) => [name, String(was), String(is)])));
}

function mistakes({ confusions, held }) {
  if (!project.model) return $("errors").replaceChildren();
  const about = held ? "Each text was predicted by a model trained without it." : "On the labelled texts that the model was trained on; cross-validation (folds) shows more.";
  $("errors").replaceChildren(el("h2", {}, "Errors"), el("p", { class: "soft" }, confusions.length ? about : `None. ${about}`),
    ...confusions.map((one) => el("details", {},
      el("summary", {}, `${one.gold} taken for ${one.found}: ${count(one.tokens, "token")} in ${count(one.places, "place")}`),
      el("ul", {}, one.examples.map((place) => el("li", {}, el("button", { type: "button", class: "link place", onclick: () => open("id", place.id) }, place.excerpt)))))),
    command(held ? `trellis extract errors models/${project.model}.cv-gold.jsonl models/${project.model}.cv.jsonl`
      : `trellis extract errors labels.jsonl models/${project.model}.labels.jsonl`));
}

/** What the command line makes of the same texts. */
function commands() {
  const model = project.model ?? "N";
  const form = $("format").value;
  const lines = [];
  if ($("what").value !== "labels") lines.push(`trellis extract predict -m models/${model}.trellis text.txt -o predictions.${form === "spacy" ? "jsonl" : form}`);
  if ($("what").value !== "predictions" && ["tsv", "csv"].includes(form)) lines.push(`trellis extract convert labels.jsonl -o labels.${form}`);
  if (form === "spacy") lines.push(`python -c "from trellis.data.text_files import read_labelled as read; from trellis.interop.spacy import to_docbin; to_docbin(read('${$("what").value === "labels" ? "labels" : "predictions"}.jsonl')).to_disk('out.spacy')"`);
  $("export-commands").replaceChildren(
    el("p", { class: "soft" }, "Labels are in labels.jsonl, rules in rules.toml, models and their predictions in models/. On the command line:"),
    ...lines.map(command), command(`trellis evaluate labels.jsonl models/${model}.labels.jsonl`), command(`trellis serve models/${model}.trellis`));
}

async function download() {
  const asked = new URLSearchParams({ what: $("what").value, format: $("format").value });
  const response = await fetch(`${location.pathname}export?${asked}`);
  if (!response.ok) throw new Error((await response.json()).error);
  const link = el("a", { href: URL.createObjectURL(await response.blob()), download: `${$("what").value}.${$("format").value}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
