// Labels that are not on the disk yet. Each belongs to its text, and what is given last is written last.

import { $, get, later, post } from "./common.js";

const waiting = new Map(); // id of a text -> its labels as given last, and the version that they replace
const asking = new Set(); // of each answer that is awaited: the texts that were saved meanwhile

const lookSoon = later(() => document.dispatchEvent(new Event("look")), 400);

/** Keep the labels of a text; the text as the server has it after the last of them. */
export function keep({ id, version }, labels) {
  const own = waiting.get(id);
  if (own !== undefined) {
    own.labels = labels;
    return own.work;
  }
  const made = { labels, version };
  waiting.set(id, made);
  $("status").textContent = $("status").dataset.saving = "saving …";
  made.work = write(id, made);
  return made.work;
}

async function write(id, own) {
  try {
    for (;;) {
      const { labels } = own;
      const found = await post("label", { id, labels, version: own.version });
      own.version = found.version;
      for (const newer of asking) newer.set(id, found);
      if (own.labels === labels) return found;
    }
  } finally {
    waiting.delete(id);
    if (!waiting.size) {
      delete $("status").dataset.saving;
      lookSoon();
    }
  }
}

/** A text with the labels that were given to it last, saved or not. */
function current(text) {
  const own = waiting.get(text.id);
  return own === undefined ? text : { ...text, labels: own.labels.every((label) => label === null) ? null : own.labels };
}

/** A text or a list of texts; labels that were given after the question are not lost to an answer from before. */
export async function read(name, asked) {
  const newer = new Map();
  asking.add(newer);
  try {
    const found = await get(name, asked);
    const now = (text) => current(newer.get(text.id) ?? text);
    return found.texts ? { ...found, texts: found.texts.map(now) } : now(found);
  } finally {
    asking.delete(newer);
  }
}

/** Wait until labels are written, or have been refused; id : of one text, or all. */
export async function settled(id = null) {
  const works = [...waiting].filter(([own]) => id === null || own === id).map(([, own]) => own.work);
  await Promise.allSettled(works);
}

window.addEventListener("beforeunload", (event) => waiting.size && event.preventDefault());
