"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const MINUS = "\u2212";

  // Text is always set as text, never as HTML.
  const make = (tag, props = {}, ...inside) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) {
      if (name === "style") Object.assign(element.style, value);
      else element.setAttribute(name, value);
    }
    element.append(...inside);
    return element;
  };
  // Red or blue as the text of a number has a sign; what rounds to zero has none.
  const side = (said) => (said.startsWith("+") ? "raise" : said.startsWith(MINUS) ? "lower" : "");
  const percent = (share) => `${(100 * Math.min(Math.max(share, 0), 1)).toFixed(2)}%`;

  // -- one row ---------------------------------------------------------------------------------
  const player = (row, number) => {
    const value = row.values[number];
    return value ? `${data.players[number]} = ${value}` : data.players[number];
  };
  const cell = (...inside) => make("td", { class: "bar", "aria-hidden": "true" }, make("div", { class: "track" }, ...inside));

  // Numbers come with their text: what a page says of a number is said by the same words anywhere.
  function lines(row, of) {
    const [count, sum, words] = of.rest;
    const found = of.steps.slice(0, of.lines).map(([number, value, error, said, off]) => ({ name: player(row, number), value, error, said, off, rest: false }));
    if (count > 0) found.push({ name: `${count} other feature${count > 1 ? "s" : ""}`, value: sum, error: null, said: words, off: "", rest: true });
    return found;
  }

  function drawSteps(row, of) {
    const steps = lines(row, of);
    let end = of.base;
    for (const step of [...steps].reverse()) {
      step.from = end;
      end += step.value;
      step.to = end;
    }
    const reach = steps.flatMap((step) => [step.from, step.to, step.to - 2 * (step.error || 0), step.to + 2 * (step.error || 0)]);
    const low = Math.min(of.base, ...reach), high = Math.max(of.base, ...reach);
    const at = (value) => (high > low ? 0.01 + 0.98 * (value - low) / (high - low) : 0.5);
    const mark = (name, value, words) => make("tr", { class: "end" }, make("th", { scope: "row" }, name),
      cell(make("span", { class: "mark", style: { left: percent(at(value)) } })),
      make("td", { class: "number" }, words), make("td", { class: "number" }));
    const body = $("steps").tBodies[0];
    body.replaceChildren(mark("prediction", end, of.said[1]));
    for (const step of steps) {
      const left = Math.min(at(step.from), at(step.to)), width = Math.abs(at(step.to) - at(step.from));
      const kind = step.rest ? "rest" : step.value >= 0 ? "plus" : "";
      const bars = [make("u", { style: { left: percent(at(of.base)) } }), make("i", { class: kind, style: { left: percent(left), width: percent(width) } })];
      if (step.error > 0) {
        const [one, other] = [at(step.to - 2 * step.error), at(step.to + 2 * step.error)];
        bars.push(make("b", { style: { left: percent(one), width: percent(other - one) } }));
      }
      body.append(make("tr", {}, make("th", { scope: "row" }, step.name), cell(...bars),
        make("td", { class: `number ${step.rest ? "" : side(step.said)}` }, step.said),
        make("td", { class: "number" }, step.off)));
    }
    body.append(mark("base", of.base, of.said[0]));
  }

  function drawPairs(row, k) {
    if (!$("pairs")) return;
    const found = row.pairs[k], largest = Math.max(1e-300, ...found.map((pair) => Math.abs(pair[2])));
    $("pairs").tBodies[0].replaceChildren(...found.map(([one, other, value, , said, off]) =>
      make("tr", {}, make("th", { scope: "row" }, `${data.players[one]} × ${data.players[other]}`),
        cell(make("i", { class: value >= 0 ? "plus" : "", style: { left: 0, width: percent(Math.abs(value) / largest) } })),
        make("td", { class: `number ${side(said)}` }, said),
        make("td", { class: "number" }, off))));
  }

  function drawWords(row, of) {
    const place = $("passage");
    if (!place) return;
    const values = new Map(of.steps.map((step) => [step[0], [step[1], step[3]]]));
    const limit = Math.max(1e-300, ...of.steps.map((step) => Math.abs(step[1])));
    const largest = of.steps.length ? of.steps[0][3].replace(/^[+\u2212]/, "") : "0";
    place.replaceChildren();
    for (const [before, text, number] of row.words) {
      place.append(before);
      if (!values.has(number)) place.append(text);
      else {
        const [value, said] = values.get(number);
        const colour = value >= 0 ? "{{ colours.RAISES }}" : "{{ colours.LOWERS }}";
        const opacity = Math.round({{ opacity }} * Math.abs(value) / limit).toString(16).padStart(2, "0");
        place.append(make("span", { title: said, style: { background: colour + opacity } }, text));
      }
    }
    $("low").textContent = MINUS + largest;
    $("high").textContent = "+" + largest;
  }

  function drawPath(row) {
    if (!data.classes) return;
    const line = (step, number) => make("tr", { class: step.norm === undefined ? "end" : "" },
      make("th", { scope: "row" }, step.norm === undefined ? step.name : `${number}: ${step.player === undefined ? step.name : player(row, step.player)}`,
        make("span", { class: "hidden" }, ": " + step.shares.map((share, k) => `${data.classes[k].name} ${share.toFixed(2)}`).join(", "))),
      make("td", { class: "bar", "aria-hidden": "true" }, make("div", { class: "stack" },
        ...step.shares.map((share, k) => make("i", { title: `${data.classes[k].name}: ${share.toFixed(3)}`, style: { width: percent(share), background: data.classes[k].colour } })))),
      make("td", { class: "number" }, step.said || ""),
      make("td", { class: "towards" }, step.towards || ""));
    $("path").tBodies[0].replaceChildren(...row.path.map(line).reverse());
  }

  function drawCurves(row) {
    if (!row.curves) return;
    const { names, ends, lines, time, others } = row.curves, place = $("curves"), count = names.length;
    place.querySelector(".channels").replaceChildren(...names.map((name, k) =>
      make("div", {}, make("span", {}, ends[k][1]), name, make("span", {}, ends[k][0]))));
    const svg = place.querySelector("svg");
    const draw = (tag, props) => {
      const part = document.createElementNS(svg.namespaceURI, tag);
      for (const [name, value] of Object.entries(props)) part.setAttribute(name, value);
      svg.append(part);
    };
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 1000 ${100 * count}`);
    place.querySelector(".drawn").style.height = `calc(${count} * var(--high))`;
    lines.forEach((points, k) => {
      for (const kind of ["halo", "ink"]) draw("polyline", { points, class: kind, transform: `translate(0 ${100 * k})` });
      if (k > 0) draw("line", { x1: 0, x2: 1000, y1: 100 * k, y2: 100 * k });
    });
    const power = 10 ** Math.max(0, Math.floor(Math.log10(time / 4)));
    const step = power * [1, 2, 5, 10].find((many) => time <= 6 * many * power);
    const at = Array.from({ length: Math.ceil(time / step) }, (_, k) => k * step);
    place.querySelector(".ticks").replaceChildren(...at.map((point) =>
      make("span", { style: { left: percent((point + 0.5) / time) } }, point ? String(point) : "time 0")));
    $("other-channels").hidden = !others;
    $("other-channels").textContent = others === 1 ? "1 further channel has smaller values." : `${others} further channels have smaller values.`;
  }

  let current = -1;
  function drawOutput() {
    const row = data.rows[current], k = Math.max(0, $("row-output").selectedIndex), of = row.outputs[k];
    const name = data.outputs[of.output];
    $("sentence").textContent = `Predicted ${name}: ${of.said[1]}. The base, the average prediction, is ${of.said[0]}; the values below share out the difference.`;
    drawSteps(row, of);
    drawPairs(row, k);
    drawWords(row, of);
    const label = row.label;
    if (row.curves) {
      $("map").src = row.curves.maps[k];
      $("map").alt = `Curves of row ${label} on the colours of its Shapley values for ${name}: red stretches raise it, blue ones lower it`;
    } else if ($("map")) {
      $("picture").src = document.querySelector(`#rows tr[data-row="${current}"] img`).src;
      $("picture").alt = `Picture of row ${label}`;
      $("map").src = row.maps[k];
      $("map").alt = `Map of the Shapley values of row ${label} for ${name}: red pixels raise it, blue ones lower it`;
    }
  }

  function choose(number, told) {
    current = number;
    const row = data.rows[number];
    $("detail").hidden = false;
    for (const line of $("rows").tBodies[0].rows) {
      const chosen = Number(line.dataset.row) === number;
      line.toggleAttribute("data-chosen", chosen);
      line.querySelector("button").setAttribute("aria-pressed", chosen);
    }
    $("chosen").textContent = `Row ${row.label}`;
    $("row-output").replaceChildren(...row.outputs.map((of) => make("option", {}, data.outputs[of.output])));
    drawOutput();
    drawPath(row);
    drawCurves(row);
    if (told) $("status").textContent = `Row ${row.label} is chosen; its values follow below the table.`;
  }

  $("rows").tBodies[0].addEventListener("click", (event) => {
    const line = event.target.closest("tr");
    if (line) choose(Number(line.dataset.row), true);
  });
  $("row-output").addEventListener("change", drawOutput);

  // -- all rows together -----------------------------------------------------------------------
  $("output")?.addEventListener("change", (event) => {
    for (const part of document.querySelectorAll("[data-output]")) part.hidden = part.dataset.output !== event.target.value;
  });

  choose(0, false);
})();
