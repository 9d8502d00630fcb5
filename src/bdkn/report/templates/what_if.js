"use strict";
// What-if: form fields for the inputs on one side, the predicted distribution on the other.
const whatIf = (() => {
  const data = JSON.parse(document.getElementById("what-if-data").textContent);
  const predictMatrix = bdkn.modelOf(data.model), $ = (id) => document.getElementById(id);
  const PARTS = ["noise", "disagreement", "weights", "outside", "shape"], COVERAGE = 0.9, POINTS = 220, SHOWN = 8;
  const SVG = "http://www.w3.org/2000/svg";
  const state = { values: [], threshold: data.threshold, observed: null };
  const encode = bdkn.encoderOf(data.table);
  const predict = (values) => predictMatrix(encode(values));

  const tick = (value) => { if (Math.abs(value) >= 1e7) return value.toExponential().replace("-", "−").replace("+", ""); const text = String(Math.abs(Number(value.toPrecision(10)))), [whole, part] = text.split("."); return (value < 0 ? "−" : "") + (whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole) + (part ? `.${part}` : ""); };
  function number(value, digits = 3) {
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "–∞";
    if (Number.isInteger(value) && Math.abs(value) < 1e9) return tick(value);
    const size = Math.floor(Math.log10(Math.abs(value)));
    if (size >= 9 || size < -4) return value.toExponential(digits - 1).replace("-", "−");
    return tick(Number(value.toPrecision(digits)));
  }
  const percent = (share) => (share > 0.9995 ? "> 99.9" : share < 0.0005 ? "< 0.1" : (100 * share).toFixed(1)) + "\u202f%";
  function element(name, attributes = {}, parent = null, text = null) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== null) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }
  function ticks(low, high, most) {
    const raw = (high - low) / most, unit = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 2.5, 5, 10].map((f) => f * unit).find((s) => s >= raw * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(Number((k * step).toPrecision(12)));
    return found;
  }

  // ---- the density
  let scale = null;
  function drawn(dist, interval) {
    const far = [dist.ppf(0.003), dist.ppf(0.997)], room = 0.04 * (data.range[1] - data.range[0]);
    const low = Math.min(data.range[0] - room, Math.max(far[0], interval[0] - 2 * (interval[1] - interval[0])));
    const high = Math.max(data.range[1] + room, Math.min(far[1], interval[1] + 2 * (interval[1] - interval[0])));
    return [low, high];
  }
  function drawDensity({ dist }, interval, mean) {
    const place = $("density"), width = place.clientWidth, height = place.clientHeight, base = height - 42, top = 12;
    const [low, high] = drawn(dist, interval), x = (value) => (value - low) / (high - low) * width;
    const grid = new Set([state.threshold, mean].filter((v) => v > low && v < high));
    for (let k = 0; k <= POINTS; k++) grid.add(low + (high - low) * k / POINTS);
    const inner = dist.ppf(0.02), outer = dist.ppf(0.98);
    for (let k = 0; k <= POINTS / 2; k++) { const v = inner + (outer - inner) * k / (POINTS / 2); if (v > low && v < high) grid.add(v); }
    const xs = [...grid].sort((a, b) => a - b), ys = xs.map((value) => dist.pdf(value)), peak = Math.max(...ys) || 1;
    const y = (value) => base - value / peak * (base - top), points = xs.map((v, i) => [x(v), y(ys[i])]);
    const path = (list) => list.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)},${b.toFixed(1)}`).join("");
    const closed = (list) => (list.length ? `${path(list)}L${list[list.length - 1][0].toFixed(1)},${base}L${list[0][0].toFixed(1)},${base}Z` : "");
    const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": "density-title" });
    element("title", { id: "density-title" }, svg, `Predicted distribution of ${data.target}: expected ${number(mean)}, 90 % between ${number(interval[0])} and ${number(interval[1])}`);
    element("path", { class: "curve-area", d: closed(points) }, svg);
    element("path", { class: "curve-above", d: closed(points.filter((_, i) => xs[i] >= state.threshold)) }, svg);
    element("path", { class: "curve-line", d: path(points) }, svg);
    element("line", { class: "grid-line", x1: 0, x2: width, y1: base, y2: base }, svg);
    for (const value of ticks(low, high, Math.max(3, Math.floor(width / 80)))) {
      const at = x(value), anchor = at < 18 ? "start" : at > width - 18 ? "end" : "middle";
      element("text", { x: at, y: height - 6, "text-anchor": anchor }, svg, tick(value));
    }
    const bar = base + 10, clip = (v) => Math.min(Math.max(x(v), 2), width - 2);
    element("line", { class: "span", x1: clip(interval[0]), x2: clip(interval[1]), y1: bar, y2: bar }, svg);
    element("circle", { class: "centre", cx: clip(mean), cy: bar, r: 6 }, svg);
    if (state.observed !== null && state.observed >= low && state.observed <= high) {
      const seen = element("line", { class: "seen", x1: x(state.observed), x2: x(state.observed), y1: top, y2: base, "data-tip": `observed ${number(state.observed)}` }, svg);
      seen.setAttribute("pointer-events", "stroke");
    }
    const at = Math.min(Math.max(x(state.threshold), 0), width);
    element("line", { class: "at", x1: at, x2: at, y1: 4, y2: base }, svg);
    element("circle", { class: "handle", cx: at, cy: 5, r: 5 }, svg);
    place.replaceChildren(svg);
    scale = { low, high };
    const slider = $("threshold");
    slider.min = low; slider.max = high; slider.step = (high - low) / 400; slider.value = state.threshold;
  }
  function drawSplit(parts) {
    const whole = PARTS.reduce((sum, name) => sum + Math.max(parts[name] || 0, 0), 0) || 1, bar = $("split");
    bar.replaceChildren(...PARTS.filter((name) => name in parts).map((name) => {
      const made = document.createElement("div");
      made.className = `part-${name}`;
      made.style.width = `${100 * Math.max(parts[name], 0) / whole}%`;
      made.dataset.tip = `${name}: ${percent(Math.max(parts[name], 0) / whole)} of the variance`;
      return made;
    }));
    $("split-words").replaceChildren(...PARTS.filter((name) => Math.abs(parts[name] || 0) / whole > 0.005).map((name) => {
      const word = document.createElement("span"), sign = document.createElement("i");
      sign.className = `part-${name}`;
      word.append(sign, `${name} ${(100 * parts[name] / whole).toFixed(0).replace("-", "−")}\u202f%`);
      return word;
    }));
  }
  function drawPlace(place) {
    const seen = state.observed === null ? "" : ` Observed in this row: ${number(state.observed)} (dashed).`;
    $("place").style.color = "";
    if (!place) { $("place").textContent = seen; return; }
    const name = data.features[place.column];
    $("place").textContent = place.status === "inside" ? "Near rows that the model has learned from."
      : place.status === "outside" ? `Outside of the training rows, by ${name}: the interval is widened.` : `In a gap between training rows, by ${name}: the interval is widened.`;
    $("place").textContent += seen;
    $("place").style.color = place.status === "inside" ? "" : "var(--warn)";
  }
  // ---- along one column
  let along = null, later = 0;
  function choices(column) {
    if (column.kind === "menu") return column.values.slice(0, 10);
    const wide = column.high - column.low;
    return Array.from({ length: 37 }, (_, k) => ({ value: column.low + wide * k / 36 }));
  }
  function sweepSoon() { clearTimeout(later); later = setTimeout(drawSweep, 60); }
  function drawSweep() {
    const column = data.columns[along], place = $("sweep");
    if (!column || !["number", "menu"].includes(column.kind)) { place.replaceChildren(); $("sweep-words").textContent = ""; return; }
    const found = choices(column).map((choice) => {
      const values = [...state.values];
      values[along] = choice.value;
      const { dist } = predict(values);
      return { ...choice, mid: dist.ppf(0.5), ends: dist.interval(COVERAGE) };
    });
    const width = place.clientWidth, height = place.clientHeight, base = height - 24, top = 8;
    const ys = [...found.flatMap((f) => f.ends), ...data.range].filter(Number.isFinite), low = Math.min(...ys), high = Math.max(...ys);
    const left = 12 + 6.6 * Math.max(...ticks(low, high, 4).map((value) => tick(value).length));
    const y = (value) => base - (Math.min(Math.max(value, low), high) - low) / (high - low || 1) * (base - top);
    const menu = column.kind === "menu", n = found.length;
    const x = menu ? (k) => left + (k + 0.5) / n * (width - left) : (value) => left + (value - column.low) / (column.high - column.low) * (width - left);
    const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Prediction along ${column.name}` });
    for (const value of ticks(low, high, 4)) {
      element("line", { class: "grid-line", x1: left, x2: width, y1: y(value), y2: y(value) }, svg);
      element("text", { x: left - 7, y: y(value) + 4, "text-anchor": "end" }, svg, tick(value));
    }
    if (menu) {
      found.forEach((f, k) => {
        const tip = `${f.label}: ${number(f.mid)} (${number(f.ends[0])} to ${number(f.ends[1])})`, mark = { "data-tip": tip };
        element("line", { class: "span faint", x1: x(k), x2: x(k), y1: y(f.ends[0]), y2: y(f.ends[1]), ...mark }, svg);
        element("circle", { class: state.values[along] === f.value ? "handle" : "centre", cx: x(k), cy: y(f.mid), r: 5, ...mark }, svg);
        const room = (width - left) / n, word = f.label.length * 6.2 > room ? `${f.label.slice(0, Math.max(1, Math.floor(room / 6.2) - 1))}…` : f.label;
        element("text", { x: x(k), y: height - 5, "text-anchor": "middle" }, svg, word);
      });
    } else {
      const at = (f) => x(f.value).toFixed(1), up = found.map((f) => `${at(f)},${y(f.ends[1]).toFixed(1)}`), down = found.map((f) => `${at(f)},${y(f.ends[0]).toFixed(1)}`).reverse();
      element("polygon", { class: "curve-area", points: [...up, ...down].join(" ") }, svg);
      element("polyline", { class: "curve-line", points: found.map((f) => `${at(f)},${y(f.mid).toFixed(1)}`).join(" ") }, svg);
      for (const value of ticks(column.low, column.high, Math.max(3, Math.floor(width / 90)))) {
        const place = x(value), anchor = place > width - 16 ? "end" : "middle";
        element("text", { x: place, y: height - 5, "text-anchor": anchor }, svg, tick(value));
      }
      const now = state.values[along];
      if (now !== null && now >= column.low && now <= column.high) element("line", { class: "at", x1: x(now), x2: x(now), y1: top, y2: base }, svg);
    }
    place.replaceChildren(svg);
    $("sweep-words").textContent = `Along ${column.name}, all else as set: median and 90 % interval`;
  }
  function fill(slider) { slider.style.setProperty("--fill", `${100 * (slider.value - slider.min) / (slider.max - slider.min || 1)}%`); }
  function update() {
    const found = predict(state.values), interval = found.dist.interval(COVERAGE), mean = found.dist.mean();
    drawDensity(found, interval, mean);
    drawSplit(found.parts);
    drawPlace(found.place);
    sweepSoon();
    document.querySelectorAll("#what-if input[type=range]").forEach(fill);
    $("expected").textContent = number(mean);
    $("between").textContent = `${number(interval[0])} to ${number(interval[1])}`;
    $("above-label").textContent = `chance above ${number(state.threshold)}`;
    $("above").textContent = percent(1 - found.dist.cdf(state.threshold));
    if (document.activeElement !== $("threshold-number")) $("threshold-number").value = Number(state.threshold.toPrecision(4));
  }
  let waiting = false;
  function soon() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; update(); });
  }

  // ---- inputs
  const setters = [];
  function label(text, id) {
    const made = document.createElement("label"), words = document.createElement("span");
    words.textContent = text;
    made.htmlFor = id;
    made.appendChild(words);
    return made;
  }
  function changed(j, value) { state.values[j] = value; along = j; state.observed = null; $("start").value = ""; soon(); }
  function numberField(column, j, field) {
    const id = `input-${j}`, row = document.createElement("div"), slider = document.createElement("input"), box = document.createElement("input");
    row.className = "row";
    Object.assign(slider, { type: "range", id, min: column.low, max: column.high, step: column.step });
    Object.assign(box, { type: "number", step: "any" });
    if (column.missing) box.placeholder = "missing";
    box.setAttribute("aria-label", `${column.name} as a number`);
    slider.addEventListener("input", () => { box.value = Number(Number(slider.value).toPrecision(6)); slider.classList.remove("missing"); changed(j, Number(slider.value)); });
    box.addEventListener("input", () => {
      if (box.value === "" && !column.missing) return;
      slider.value = box.value;
      slider.classList.toggle("missing", box.value === "");
      changed(j, box.value === "" ? null : Number(box.value));
    });
    setters[j] = (value) => { slider.value = value; box.value = value === null ? "" : Number(Number(value).toPrecision(6)); slider.classList.toggle("missing", value === null); };
    row.append(slider, box);
    field.append(label(column.name, id), row);
  }
  function menuField(column, j, field) {
    const id = `input-${j}`, menu = document.createElement("select");
    menu.id = id;
    column.values.forEach((value, k) => menu.add(new Option(value.label, k)));
    menu.addEventListener("change", () => changed(j, column.values[menu.value].value));
    setters[j] = (value) => { menu.value = column.values.findIndex((other) => other.value === value); };
    field.append(label(column.name, id), menu);
  }
  function dateField(column, j, field) {
    const id = `input-${j}`, box = document.createElement("input");
    Object.assign(box, { type: column.hours ? "datetime-local" : "date", id });
    box.addEventListener("input", () => changed(j, box.value || null));
    setters[j] = (value) => { box.value = value === null ? "" : value.slice(0, column.hours ? 16 : 10); };
    field.append(label(column.name, id), box);
  }
  function fixedField(column, j, field) {
    const words = document.createElement("p"), value = document.createElement("span");
    words.textContent = column.name;
    value.className = "small";
    words.appendChild(value);
    setters[j] = (given) => { value.textContent = ` ${given.label.slice(0, 80)}`; };
    field.append(words);
  }
  const FIELDS = { number: numberField, menu: menuField, date: dateField, fixed: fixedField };
  function build() {
    const order = data.columns.map((_, j) => j).filter((j) => data.columns[j].kind !== "unused").sort((a, b) => data.columns[a].place - data.columns[b].place), form = $("inputs");
    const more = document.createElement("details"), summary = document.createElement("summary");
    more.className = "more";
    summary.textContent = `${order.length - SHOWN} more inputs`;
    more.appendChild(summary);
    order.forEach((j, k) => {
      const field = document.createElement("div");
      field.className = "field";
      FIELDS[data.columns[j].kind](data.columns[j], j, field);
      (k < SHOWN || order.length <= SHOWN + 2 ? form : more).appendChild(field);
    });
    if (order.length > SHOWN + 2) form.appendChild(more);
    form.addEventListener("submit", (event) => event.preventDefault());
    const start = $("start");
    start.add(new Option("values of your own", "", true));
    start.options[0].hidden = true;
    data.rows.forEach((row, k) => start.add(new Option(`${row.label} (${row.row})`, k)));
    start.addEventListener("change", () => set(data.rows[start.value]));
  }
  function set(row) {
    state.values = [...row.values];
    state.observed = row.observed;
    state.values.forEach((value, j) => { if (setters[j]) setters[j](value); });
    update();
  }
  function setThreshold(value) { if (Number.isFinite(value)) { state.threshold = value; soon(); } }
  $("threshold").addEventListener("input", (event) => setThreshold(Number(event.target.value)));
  $("threshold-number").addEventListener("input", (event) => { if (event.target.value !== "") setThreshold(Number(event.target.value)); });
  const density = $("density");
  const dragged = (event) => {
    const box = density.getBoundingClientRect(), share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    setThreshold(Number((scale.low + share * (scale.high - scale.low)).toPrecision(4)));
  };
  density.addEventListener("pointerdown", (event) => { density.setPointerCapture(event.pointerId); dragged(event); });
  density.addEventListener("pointermove", (event) => { if (event.buttons & 1) dragged(event); });
  build();
  along = data.columns.map((column, j) => [column.place, j]).filter(([, j]) => ["number", "menu"].includes(data.columns[j].kind)).sort((a, b) => a[0] - b[0]).map(([, j]) => j)[0] ?? null;
  $("start").value = "0";
  set(data.rows[0]);
  addEventListener("resize", soon);
  return { predict, state, data };
})();
