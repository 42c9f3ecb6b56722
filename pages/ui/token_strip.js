const states = new WeakMap();
const narrow = "\u202f";

function shade(stops, banded, f) {
  const x = f * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(x)), r = banded ? Math.round(x - i) : x - i;
  const rgb = [1, 3, 5].map(k => Math.round(
    parseInt(stops[i].slice(k, k + 2), 16) * (1 - r) + parseInt(stops[i + 1].slice(k, k + 2), 16) * r));
  const lin = rgb.map(c => { c /= 255; return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; });
  const dark = .2126 * lin[0] + .7152 * lin[1] + .0722 * lin[2] < .179;
  return [`rgb(${rgb})`, dark ? "#fff" : "#000"];
}

function ramp(stops, banded) {
  const n = stops.length;
  const parts = banded ? stops.map((c, i) => `${c} ${100 * i / n}% ${100 * (i + 1) / n}%`) : stops;
  return `linear-gradient(to right, ${parts.join(", ")})`;
}

function line(parent, tag, text) {
  const node = document.createElement(tag);
  node.textContent = text;
  parent.appendChild(node);
  return node;
}

function tipFor(state, i) {
  const d = state.data, tip = state.tip;
  tip.replaceChildren();
  const first = line(tip, "div", "");
  line(first, "code", d.texts[i]);
  first.append(`  token id ${d.ids[i]}`);
  if (d.labels && d.labels[i]) line(tip, "div", d.labels[i]);
  if (d.bits) line(tip, "div", `${d.bits[i].toFixed(2)}${narrow}bits paid` + (d.ranks ? `, rank ${d.ranks[i] + 1}` : ""));
  if (d.top && d.top[i].length) {
    if (d.shown) line(tip, "div", `colour: ${d.shown[i]} (${d.words})`);
    line(tip, "div", "the model's likeliest:");
    const table = line(tip, "table", "");
    for (const [text, bits] of d.top[i]) {
      const row = line(table, "tr", "");
      line(line(row, "td", ""), "code", text);
      line(row, "td", `${(100 * 2 ** -bits).toPrecision(3)}${narrow}%`);
      line(row, "td", `${bits.toFixed(2)}${narrow}bits`);
    }
  }
}

function show(state, node) {
  const i = Number(node.dataset.i);
  tipFor(state, i);
  state.tip.hidden = false;
  const host = state.host.getBoundingClientRect(), at = node.getBoundingClientRect();
  const width = state.tip.offsetWidth, left = Math.min(Math.max(0, at.left - host.left), Math.max(0, host.width - width));
  state.tip.style.left = `${left}px`;
  state.tip.style.top = `${at.bottom - host.top + 4}px`;
}

function draw(state) {
  const d = state.data, strip = state.strip, fragment = document.createDocumentFragment();
  const starts = new Map(d.breaks.map((b, k) => [b, d.windows[k]])), lines = new Set(d.newlines);
  state.nodes = [];
  for (let i = 0; i < d.texts.length; i++) {
    if (starts.has(i)) { const w = line(fragment, "span", `window ${starts.get(i)}`); w.className = "window"; }
    const node = document.createElement("span");
    node.className = d.bits ? "t" : "t bare";
    node.dataset.i = i;
    node.textContent = d.texts[i];
    node.tabIndex = i === 0 ? 0 : -1;
    node.setAttribute("role", "option");
    let spoken = d.texts[i];
    if (d.bits) {
      const f = d.shades[i], [back, front] = shade(d.stops, d.banded, f);
      node.style.background = back;
      node.style.color = front;
      node.style.setProperty("--f", f.toFixed(3));
      const number = line(node, "span", d.shown[i]);
      number.className = "n";
      spoken += `, ${d.bits[i].toFixed(2)} bits`;
    }
    node.setAttribute("aria-label", spoken);
    node.setAttribute("aria-selected", "false");
    state.nodes.push(node);
    fragment.appendChild(node);
    if (lines.has(i)) fragment.appendChild(document.createElement("br"));
  }
  strip.replaceChildren(fragment);
  state.at = 0;
}

function mark(state) {
  const chosen = new Set(state.data.selected);
  let first = null;
  state.nodes.forEach((node, i) => {
    const on = chosen.has(state.data.rows[i]);
    node.classList.toggle("sel", on);
    node.setAttribute("aria-selected", on ? "true" : "false");
    if (on && first === null) first = node;
  });
  const sign = state.data.selected.join();
  if (first && sign !== state.sign) {
    const top = first.offsetTop - state.strip.offsetTop;
    if (top < state.strip.scrollTop || top > state.strip.scrollTop + state.strip.clientHeight - 30)
      state.strip.scrollTop = Math.max(0, top - 60);
  }
  state.sign = sign;
}

function move(state, to) {
  to = Math.min(state.nodes.length - 1, Math.max(0, to));
  state.nodes[state.at].tabIndex = -1;
  state.at = to;
  state.nodes[to].tabIndex = 0;
  state.nodes[to].focus();
}

export default function(component) {
  const { data, parentElement, setTriggerValue } = component;
  let state = states.get(parentElement);
  if (!state || !state.strip.isConnected) {
    state = { host: parentElement.host || parentElement, strip: parentElement.querySelector(".strip"),
      tip: parentElement.querySelector(".tip"), version: null, sign: "", nodes: [], at: 0 };
    states.set(parentElement, state);
    const of = event => event.target.closest ? event.target.closest(".t") : null;
    state.strip.addEventListener("mouseover", e => { const n = of(e); if (n) show(state, n); });
    state.strip.addEventListener("mouseleave", () => { state.tip.hidden = true; });
    state.strip.addEventListener("focusin", e => { const n = of(e); if (n) show(state, n); });
    state.strip.addEventListener("focusout", () => { state.tip.hidden = true; });
    state.strip.addEventListener("scroll", () => { state.tip.hidden = true; });
    state.strip.addEventListener("click", e => {
      const n = of(e);
      if (!n) return;
      move(state, Number(n.dataset.i));
      state.pick(state.data.rows[Number(n.dataset.i)]);
    });
    state.strip.addEventListener("keydown", e => {
      const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 20, ArrowUp: -20, Home: -1e9, End: 1e9 };
      if (e.key in steps) { e.preventDefault(); move(state, state.at + steps[e.key]); }
      if (e.key === "Enter" || e.key === " ") { e.preventDefault(); state.pick(state.data.rows[state.at]); }
      if (e.key === "Escape") state.tip.hidden = true;
    });
    parentElement.querySelector(".numbers input").addEventListener("change",
      e => state.strip.classList.toggle("show", e.target.checked));
  }
  state.data = data;
  state.pick = row => setTriggerValue("picked", row);
  if (state.version !== data.version) {
    draw(state);
    state.version = data.version;
    state.sign = "";
    const legend = parentElement.querySelector(".legend");
    legend.hidden = !data.bits;
    legend.style.display = data.bits ? "" : "none";
    parentElement.querySelector(".numbers").style.display = data.bits ? "" : "none";
    parentElement.querySelector(".low").textContent = data.ends[0];
    parentElement.querySelector(".high").textContent = data.ends[1];
    parentElement.querySelector(".ramp").style.background = ramp(data.stops, data.banded);
  }
  mark(state);
}
