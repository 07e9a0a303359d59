// Hover, live refresh, keyboard and theme. Every page works without it.
"use strict";

const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
const find = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const read = (name) => find(`meta[name="relight-${name}"]`).content;

// before the first paint, so that no page flashes in the wrong colours
try { root.dataset.theme = localStorage.getItem("relight-theme") ?? ""; } catch { /* none stored */ }

const acts = {
  help: () => find("#help").showModal(),
  theme: () => {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
    root.dataset.theme = isDark ? "light" : "dark";
    try { localStorage.setItem("relight-theme", root.dataset.theme); } catch { /* not stored */ }
  },
  copy: async (button) => {
    try { await navigator.clipboard.writeText(button.dataset.copy); button.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(button.previousElementSibling); }
  },
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-act]");
  if (button) acts[button.dataset.act](button);
});

// --- filters: submitted on change, without empty ones ---
// a date is complete only when its year is: it waits for the button
document.addEventListener("change", (event) => event.target.form?.matches(".filters") && event.target.type !== "date" && event.target.form.requestSubmit());
document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-filters]")) return;
  // of two fields of one name the last that is not empty counts
  const last = new Map([...event.target.elements].filter((field) => field.value).map((field) => [field.name, field]));
  for (const field of event.target.elements) if (last.get(field.name) !== field || (field.name === "since" && field.value === "30d")) field.disabled = true;
});
addEventListener("pageshow", () => all("[data-filters] :disabled").forEach((field) => { field.disabled = false; }));

// the days close like a menu
document.addEventListener("click", (event) => all(".days[open]").forEach((days) => { days.open = days.contains(event.target); }));
document.addEventListener("keydown", (event) => event.key === "Escape" && all(".days[open]").forEach((days) => { days.open = false; }));

// --- hover ---
function showTip(target, x, y) {
  const tip = find("#tip");
  tip.hidden = !target;
  if (!target) return;
  tip.textContent = target.dataset.tip || target.getAttribute("aria-label");
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18}px`;
}
document.addEventListener("pointermove", (event) => showTip(event.target.closest?.("[data-tip]"), event.clientX, event.clientY));
document.addEventListener("pointerleave", () => showTip(null));
document.addEventListener("focusin", (event) => {
  const box = event.target.getBoundingClientRect();
  if (event.target.matches(":focus-visible")) showTip(event.target.closest("[data-tip]"), box.left, box.bottom - 12);
});

// --- keyboard ---
let going = 0;
function step(by) {
  const rows = all("main [data-row]");
  focusOn(rows[Math.max(0, Math.min(rows.indexOf(document.activeElement) + by, rows.length - 1))]);
}
function focusOn(row) {
  row?.focus();
  row?.scrollIntoView({ block: "nearest" });
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (find("#help").open) return;
  const isGoing = Date.now() - going < 1500;
  going = event.key === "g" ? Date.now() : 0;
  if (isGoing) {
    const page = all("[data-go]").find((one) => one.dataset.go === event.key);
    if (page) page.click();
  } else if (event.key === "/" && find("#search")) { event.preventDefault(); find("#search").select(); }
  else if (event.key === "?") acts.help();
  else if (event.key === "d") acts.theme();
  else if (find(".trace") && jumps[event.key]) { event.preventDefault(); jumps[event.key](); }
  else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "Escape") showTip(null);
  else if ("ynuz".includes(event.key.toLowerCase())) labelling = labelling.then(() => label(event)).catch(() => {});
});

// --- labels: y, n and u for the row in focus; with Shift for a session; z takes them back, the last one first ---
// keys are taken one after another, so that each means the row that is in focus by then
const LABELS = { y: "success", n: "failure", u: "unknown" };
const labelled = [];
let labelling = Promise.resolve();
async function label(event) {
  const row = document.activeElement.closest("[data-label]") ?? find("main form[data-label]");
  const key = event.key.toLowerCase(), isUndo = key === "z", isRow = row?.matches("[data-row]");
  const outcome = isUndo ? "clear" : (isRow || event.shiftKey) && LABELS[key];
  const address = isUndo ? labelled.at(-1) : row?.dataset.label;
  if (!outcome || !address) return;
  const place = all("main [data-row]").indexOf(row);
  const answer = await fetch(address, {
    method: "POST", body: JSON.stringify({ outcome }),
    headers: { "content-type": "application/json", "x-relight-secret": read("secret") },
  });
  const said = await answer.json();
  if (answer.ok && isUndo) labelled.pop();
  else if (answer.ok) labelled.push(address);
  find("#said").textContent = !answer.ok ? said.error : isUndo ? "The label is removed." : `Labelled ${outcome}. z takes it back.`;
  const page = await fetch(location.href);
  if (page.ok) replace(await page.text());
  if (!answer.ok || !(isRow || isUndo)) return;
  const rows = all("main [data-row]"), same = rows.findIndex((one) => one.dataset.label === address);
  // a list of sessions without an outcome no longer has the row: the next one stands in its place
  focusOn(isUndo ? rows[same] : rows[Math.min(same < 0 ? place : same + 1, rows.length - 1)]);
}

// --- a session: jumps from step to step, addresses of steps, texts that are loaded when opened ---
function reveal(one) {
  for (let up = one.closest("details"); up; up = up.parentElement.closest("details")) up.open = true;
}
function goTo(one) {
  reveal(one);
  all(".step.at").forEach((other) => other.classList.remove("at"));
  one.classList.add("at");
  one.scrollIntoView({ block: "start" });
  one.focus({ preventScroll: true });
  if (one.id) history.replaceState(null, "", `#${one.id}`);
}
function jump(kind, by) {
  const rows = all(`.steps > .step.${kind}`).filter((one) => one.id && !one.parentElement.matches(".child .steps"));
  const here = document.activeElement?.closest?.(".step");
  const isAfter = (one) => here ? here.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING : one.getBoundingClientRect().top > 62;
  const next = by > 0 ? rows.find(isAfter) : rows.findLast((one) => one !== here && !isAfter(one));
  if (next) return goTo(next);
  const beyond = find(".whole .steps").dataset[`${by > 0 ? "next" : "last"}${kind === "prompt" ? "Prompt" : "Error"}`];
  if (beyond) location.href = beyond;
}
const jumps = {
  n: () => jump("prompt", 1),
  p: () => jump("prompt", -1),
  e: () => jump("broken", 1),
  E: () => jump("broken", -1),
  f: () => find("#find-here").select(),
};
function openAddress() {
  const number = /^#step-(\d+)$/.exec(location.hash)?.[1];
  if (!number || !find(".trace")) return;
  const one = document.getElementById(`step-${number}`);
  const address = new URL(location.href);
  if (one) goTo(one);
  else if (address.searchParams.get("step") !== number) {
    address.searchParams.set("step", number);
    location.replace(address);
  }
}
addEventListener("hashchange", openAddress);
document.addEventListener("toggle", async (event) => {
  const box = event.target;
  if (!box.open || !box.dataset?.load) return;
  const address = box.dataset.load;
  delete box.dataset.load;
  try {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(answer.statusText);
    const loaded = new DOMParser().parseFromString(await answer.text(), "text/html");
    const wait = find(".wait", box), open = listOpen(wait);
    wait.replaceWith(...find("#fragment", loaded).childNodes);
    box.dataset.loaded = "";
    reopen(open);
  } catch { box.dataset.load = address; }
}, true);

// --- live: when the store has changed, the page is fetched again and replaces the one shown ---
const isBusy = () => find("dialog[open], [data-failed]") || find("main :is(input, select, textarea):focus") || !getSelection().isCollapsed;
const listOpen = (within) => all("details[id][open]", within).map((one) => one.id);
const reopen = (ids) => ids.forEach((id) => { const one = document.getElementById(id); if (one) one.open = true; });
// a selector of the element in focus that is also right in the page that replaces this one
function nameFocus(one, main) {
  if (!main.contains(one)) return "";
  if (one.id) return `[id="${CSS.escape(one.id)}"]`;
  if (one.matches("details[id] > summary")) return `[id="${CSS.escape(one.parentElement.id)}"] > summary`;
  return one.hasAttribute("href") ? `a[href="${CSS.escape(one.getAttribute("href"))}"]` : "";
}
function replace(text) {
  const next = new DOMParser().parseFromString(text, "text/html");
  if (!find("main", next)) return;
  const main = find("main"), focused = document.activeElement;
  const open = listOpen(main), at = find(".step.at", main)?.id;
  const known = new Set(all("[data-row]", main).map((one) => one.href));
  const held = nameFocus(focused, main), place = held ? all(held, main).indexOf(focused) : 0;
  const scrolled = all(".scroll", main).map((one) => one.scrollLeft);
  // what was loaded stays until it has been loaded again, so that nothing below it moves
  const loaded = all("details[id][open][data-loaded]", main).map((one) => [one.id, [...one.children].slice(1)]);
  main.replaceChildren(...find("main", next).childNodes);
  for (const [id, parts] of loaded) find(`[id="${CSS.escape(id)}"] > .wait`, main)?.replaceChildren(...parts);
  reopen(open);
  all(".scroll", main).forEach((one, number) => { one.scrollLeft = scrolled[number] ?? 0; });
  if (at) document.getElementById(at)?.classList.add("at");
  if (held) all(held, main)[place]?.focus({ preventScroll: true });
  all("tr [data-row]", main).filter((one) => !known.has(one.href)).forEach((one) => one.closest("tr").classList.add("fresh"));
  find('meta[name="relight-version"]').content = find('meta[name="relight-version"]', next).content;
}
// the state is announced when it changes; how long ago the folders were read is only shown
function showLive(kind, words, ago) {
  const dot = find("#live"), [state, age] = all(".words > span", dot);
  dot.className = `live ${kind}`;
  if (state.textContent !== words) state.textContent = words;
  age.textContent = ago == null ? "" : `, read ${ago < 90 ? `${Math.round(ago)} s` : `${Math.round(ago / 60)} min`} ago`;
  dot.dataset.tip = words === "live" ? "New turns appear by themselves" : words;
}
const kinds = { live: "on", reading: "on", failing: "off" };
async function look() {
  if (document.hidden || !read("version")) return;
  try {
    const answer = await fetch("/api/live", { signal: AbortSignal.timeout(10_000) });
    const live = await answer.json();
    if (!answer.ok) { showLive("off", `not live: ${live.error}`); return; }
    if (live.version !== read("version") && !isBusy()) {
      const page = await fetch(location.href);
      if (page.ok && !isBusy()) replace(await page.text());
    }
    showLive(kinds[live.state] ?? "", live.words, live.read_seconds);
  } catch { showLive("off", "no answer"); }
}
async function keepLooking() {
  await look();
  setTimeout(keepLooking, 750);
}
document.addEventListener("DOMContentLoaded", () => {
  openAddress();
  find("nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  keepLooking();
});

// --- search everything: Ctrl-K opens a box, hits appear while one types, Enter opens a step ---
const hunt = { number: 0, shown: 0, chosen: 0, timer: 0 };
function choose(at) {
  const hits = all("#find-hits [role=option]");
  hunt.chosen = hits.length ? (at + hits.length) % hits.length : 0;
  hits.forEach((one, number) => one.setAttribute("aria-selected", number === hunt.chosen));
  const field = find("#find-query");
  if (hits.length) field.setAttribute("aria-activedescendant", hits[hunt.chosen].id);
  else field.removeAttribute("aria-activedescendant");
  hits[hunt.chosen]?.scrollIntoView({ block: "nearest" });
}
function showHits(hits, note) {
  hunt.shown = hunt.number;
  find("#find-hits").replaceChildren(...hits.map((hit, number) => {
    const one = document.createElement("div");
    Object.assign(one, { id: `find-${number}`, role: "option" });
    one.dataset.href = `/sessions/${hit.session_id.split("/").map(encodeURIComponent).join("/")}?step=${hit.step}#step-${hit.step}`;
    const [title, about, snippet] = ["b", "span", "bdi"].map((tag) => document.createElement(tag));
    title.textContent = (hit.title ?? hit.session_id).slice(0, 200);
    about.textContent = ["step", hit.step, hit.kind, hit.tool].filter(Boolean).join(" ");
    hit.snippet.split(/[⟦⟧]/).forEach((part, at) => {
      const piece = document.createElement(at % 2 ? "mark" : "span");
      piece.textContent = part;
      snippet.append(piece);
    });
    one.append(title, about, snippet);
    return one;
  }));
  find("#find-hits").hidden = !hits.length;
  find("#find-query").setAttribute("aria-expanded", hits.length > 0);
  find("#find-note").textContent = note;
  choose(0);
}
async function lookFor(query) {
  const number = ++hunt.number;
  if (!query.trim()) return showHits([], "");
  try {
    const answer = await fetch(`/api/search?limit=12&q=${encodeURIComponent(query)}`);
    const found = await answer.json();
    if (number !== hunt.number) return; // a later query has been typed
    if (!answer.ok) return showHits([], [found.error, found.hint].filter(Boolean).join(": "));
    showHits(found.hits, found.hits.length ? `${found.hits.length} of ${found.total} hits` : found.note);
    if (found.total > found.hits.length) {
      const link = document.createElement("a");
      Object.assign(link, { href: `/search?q=${encodeURIComponent(query)}`, textContent: "more on a page" });
      find("#find-note").append(" · ", link);
    }
  } catch { if (number === hunt.number) showHits([], "no answer"); }
}
acts.find = () => { find("#find").showModal(); find("#find-query").select(); };
document.addEventListener("keydown", (event) => {
  const box = find("#find");
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    if (box.open) box.close(); else acts.find();
  } else if (box?.open && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    event.preventDefault();
    choose(hunt.chosen + (event.key === "ArrowDown" ? 1 : -1));
  } else if (box?.open && event.key === "Enter") {
    const hit = find("#find-hits [aria-selected=true]");
    // hits of an earlier query are not what was asked for: the form leads to the page of all hits
    if (hit && hunt.timer === 0 && hunt.shown === hunt.number) { event.preventDefault(); box.close(); location.assign(hit.dataset.href); }
  }
});
document.addEventListener("input", (event) => {
  if (event.target.id !== "find-query") return;
  clearTimeout(hunt.timer);
  hunt.timer = setTimeout(() => { hunt.timer = 0; lookFor(event.target.value); }, 120);
});
document.addEventListener("click", (event) => {
  const hit = event.target.closest("#find-hits [role=option]");
  if (hit) { find("#find").close(); location.assign(hit.dataset.href); }
});
