"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const rows = [...document.querySelectorAll("#rows details")];

  $("search").addEventListener("input", () => {
    const words = $("search").value.toLowerCase().split(/\s+/);
    for (const row of rows) {
      const text = row.firstElementChild.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    const left = rows.filter((row) => !row.hidden).length;
    $("found").textContent = left === rows.length ? "" : `${left} of ${rows.length} rows`;
  });

  $("output")?.addEventListener("change", (event) => {
    for (const part of document.querySelectorAll("[data-output]")) {
      part.hidden = part.dataset.output !== event.target.value;
    }
  });
})();
