"use strict";

/* Translates while somebody types. One request is under way at most: a newer text aborts the
   older request, and the server then stops working on it. */

const PAUSE_MS = 250;
const RETRY_MS = 2000;
const REMEMBERED = "dragoman.languages";

const element = (id) => document.getElementById(id);
const sourceLanguage = element("source-language");
const targetLanguage = element("target-language");
const sourceText = element("source-text");
const targetText = element("target-text");
const swapButton = element("swap");
const clearButton = element("clear");
const copyButton = element("copy");

let languages = [];
let pause = 0;
let underWay = null;

async function ask(path, options) {
  const response = await fetch(path, options);
  const text = await response.text();
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    answer = { error: text };
  }
  if (!response.ok) {
    const error = new Error(answer.error || `The server answered with status ${response.status}.`);
    error.mayPass = response.status === 503;
    throw error;
  }
  return answer;
}

function show(problem) {
  element("problem").textContent = problem;
  element("problem").hidden = !problem;
}

/* Languages */

const named = (code) => languages.find((language) => language.code === code);
const targetsOf = (code) => (named(code)?.targets ?? []).filter((target) => target !== code);

function fill(select, codes, chosen) {
  select.replaceChildren(...codes.map((code) => {
    const name = named(code)?.name ?? code;
    return new Option(name.charAt(0).toUpperCase() + name.slice(1), code, false, code === chosen);
  }));
  select.disabled = codes.length === 0;
}

function choose(source, target) {
  const sources = languages.map((language) => language.code).filter((code) => targetsOf(code).length);
  fill(sourceLanguage, sources, source);
  fill(targetLanguage, targetsOf(sourceLanguage.value), target);
  sourceText.lang = sourceLanguage.value;
  targetText.lang = targetLanguage.value;
  swapButton.disabled = !targetsOf(targetLanguage.value).includes(sourceLanguage.value);
  try {
    localStorage.setItem(REMEMBERED, JSON.stringify([sourceLanguage.value, targetLanguage.value]));
  } catch { /* A browser may forbid storage; then nothing is remembered. */ }
}

function remembered() {
  try {
    return JSON.parse(localStorage.getItem(REMEMBERED)) ?? [];
  } catch {
    return [];
  }
}

async function loadLanguages() {
  try {
    languages = await ask("languages");
  } catch (error) {
    show(`${error.message.charAt(0).toUpperCase()}${error.message.slice(1)}. Trying again…`);
    setTimeout(loadLanguages, RETRY_MS);
    return;
  }
  show("");
  choose(...remembered());
  translate();
}

/* Translating */

function translateSoon() {
  clearTimeout(pause);
  const size = sourceText.value.length;
  element("count").textContent = `${size.toLocaleString()} ${size === 1 ? "character" : "characters"}`;
  clearButton.hidden = size === 0;
  targetText.classList.add("stale");
  pause = setTimeout(translate, PAUSE_MS);
}

async function translate() {
  clearTimeout(pause);
  underWay?.abort();
  underWay = null;
  const q = sourceText.value;
  if (!q.trim() || !targetLanguage.value) {
    finish("", "");
    return;
  }
  const request = new AbortController();
  underWay = request;
  element("state").textContent = "Translating…";
  try {
    const answer = await ask("translate", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ q, source: sourceLanguage.value, target: targetLanguage.value }),
      signal: request.signal,
    });
    finish(answer.translatedText, answer.truncated ? "A sentence was cut: it grew too long" : "");
  } catch (error) {
    if (request.signal.aborted) return;
    element("state").textContent = "";
    show(error instanceof TypeError ? "The server cannot be reached." : error.message);
    if (error.mayPass) pause = setTimeout(translate, RETRY_MS);
  } finally {
    if (underWay === request) underWay = null;
  }
}

function finish(translation, state) {
  targetText.value = translation;
  targetText.classList.remove("stale");
  copyButton.hidden = !translation;
  copyButton.textContent = "Copy";
  element("state").textContent = state;
  show("");
}

function swap() {
  if (swapButton.disabled) return;
  const translation = targetText.value;
  choose(targetLanguage.value, sourceLanguage.value);
  if (translation) sourceText.value = translation;
  translateSoon();
  sourceText.focus();
}

async function copy() {
  try {
    await navigator.clipboard.writeText(targetText.value);
  } catch {
    // The clipboard belongs to secure pages; on others the selection can still be copied.
    targetText.select();
    document.execCommand("copy");
  }
  copyButton.textContent = "Copied";
}

sourceText.addEventListener("input", translateSoon);
sourceLanguage.addEventListener("change", () => { choose(sourceLanguage.value, targetLanguage.value); translate(); });
targetLanguage.addEventListener("change", () => { choose(sourceLanguage.value, targetLanguage.value); translate(); });
swapButton.addEventListener("click", swap);
copyButton.addEventListener("click", copy);
clearButton.addEventListener("click", () => { sourceText.value = ""; translateSoon(); sourceText.focus(); });
document.addEventListener("keydown", (event) => {
  if (event.altKey && event.code === "KeyS") { event.preventDefault(); swap(); }
});

loadLanguages();
