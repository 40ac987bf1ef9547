// The search of the manual. Its index is a script, search/index.js, so that it also works for pages that are opened from disk.
(function () {
  "use strict";
  const form = document.getElementById("manual-search");
  const field = form.querySelector("input");
  const toggle = document.getElementById("__search");
  const note = document.querySelector(".md-search-result__meta");
  const list = document.querySelector(".md-search-result__list");
  const MOST = 15;

  function loadIndex() {
    if (document.getElementById("manual-index")) return;
    const script = document.createElement("script");
    script.id = "manual-index";
    script.src = form.dataset.base + "/search/index.js";
    script.onload = showResults;
    document.head.append(script);
  }

  // Every word must begin a word of the section; words of titles count most.
  function scoreSection(section, words) {
    let score = 0;
    for (const word of words) {
      const begins = new RegExp("(^|[^\\p{L}\\p{N}])" + word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu");
      const inTitle = (section.title.match(begins) || []).length;
      const inText = (section.text.match(begins) || []).length;
      if (!inTitle && !inText) return 0;
      score += 20 * Math.min(inTitle, 1) + Math.min(inText, 10);
    }
    if (section.title.toLowerCase().includes(words.join(" "))) score *= 3;
    // The page before its sections, and both before the reference of the code.
    return score * (section.location.includes("#") ? 1 : 2) * (/^(reference\/api|changelog|mistakes)/.test(section.location) ? 0.3 : 1);
  }

  function cutText(text, word) {
    const start = Math.max(0, text.toLowerCase().indexOf(word) - 60);
    return (start ? "… " : "") + text.slice(start, start + 180) + (start + 180 < text.length ? " …" : "");
  }

  function makeElement(kind, className, text) {
    const element = document.createElement(kind);
    element.className = className;
    element.textContent = text;
    return element;
  }

  function showResults() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    list.replaceChildren();
    if (!words.length || !window.manualIndex) return;
    const hits = window.manualIndex
      .map((section) => ({ section: section, score: scoreSection(section, words) }))
      .filter((hit) => hit.score > 0)
      .sort((first, second) => second.score - first.score);
    note.textContent = hits.length ? hits.length + (hits.length === 1 ? " section" : " sections") : "No section has these words";
    for (const hit of hits.slice(0, MOST)) {
      const link = makeElement("a", "md-search-result__link", "");
      link.href = form.dataset.base + "/" + hit.section.location;
      const article = makeElement("article", "md-search-result__article md-typeset", "");
      article.append(makeElement("h2", "", hit.section.title), makeElement("p", "", cutText(hit.section.text, words[0])));
      link.append(article);
      link.addEventListener("click", () => (toggle.checked = false));
      const item = makeElement("li", "md-search-result__item", "");
      item.append(link);
      list.append(item);
    }
  }

  field.addEventListener("focus", () => {
    toggle.checked = true;
    loadIndex();
  });
  field.addEventListener("input", showResults);
  toggle.addEventListener("change", () => toggle.checked && field.focus());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const first = list.querySelector("a");
    if (first) location.href = first.href;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      toggle.checked = false;
      field.blur();
    } else if (event.key === "/" && !/^(input|textarea)$/i.test(document.activeElement.tagName)) {
      event.preventDefault();
      field.focus();
    }
  });
})();
