/** Panel of the models: directions, version, scores, and training data with licences. */

import { element, make, sentenceCase } from "./dom.js";
import { language, languageName, t } from "./strings.js";

export class Models {
  #box = element("models");
  #button = element("models-button");
  #list = element("model-list");
  #server;

  constructor(server) {
    this.#server = server;
    this.#button.addEventListener("click", () => this.#toggle());
  }

  async #toggle() {
    this.#box.hidden = !this.#box.hidden;
    this.#button.ariaExpanded = String(!this.#box.hidden);
    if (this.#box.hidden) return;
    this.#list.replaceChildren(make("p", { className: "quiet", textContent: t("loading") }));
    this.#box.scrollIntoView({ block: "nearest" });
    try {
      const { models } = await this.#server.get("models");
      this.#list.replaceChildren(...models.map(shown), make("p", { className: "quiet", textContent: t("moreModels") }));
      this.#box.scrollIntoView({ block: "nearest" });
    } catch (error) {
      this.#list.replaceChildren(make("p", { className: "problem", textContent: error.message }));
    }
  }
}

function shown({ name, version, precision, directions, scores, data }) {
  const named = directions.map(({ source, target }) => `${sentenceCase(languageName(source))} → ${sentenceCase(languageName(target))}`);
  const about = t("modelAbout", { version, precision, directions: named.join(", ") });
  return make("article", { className: "model" },
    make("h3", { textContent: name }),
    make("p", { className: "quiet", textContent: about }),
    more(t("modelScores", { name }), ["testSet", "metric", "value"],
      scores.map((score) => [score.test_set, score.metric, score.value])),
    more(t("modelData", { name }), ["corpus", "licence", "sentencePairs"],
      data.map((corpus) => [corpus.name, corpus.licence, corpus.pairs])));
}

/** A table behind a toggle; nothing without rows. */
function more(caption, columns, rows) {
  if (!rows.length) return "";
  return make("details", {}, make("summary", { className: "quiet", textContent: caption }), table(caption, columns, rows));
}

function table(caption, columns, rows) {
  const cell = (value) => make("td", { textContent: typeof value === "number" ? value.toLocaleString(language) : value });
  return make("div", { className: "numbers", tabIndex: 0, role: "region", ariaLabel: caption }, make("table", {},
    make("caption", { textContent: caption }),
    make("thead", {}, make("tr", {}, ...columns.map((key) => make("th", { scope: "col", textContent: t(key) })))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(cell))))));
}
