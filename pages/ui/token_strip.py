"""Tokens in reading order, coloured by bits: a component without an iframe, its text set as text alone.

Colour never speaks alone: every token's number is one hover or one arrow key away, can be printed below
it, and a bar at its foot grows with it. Whitespace is visible; the range of the colours is stated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from pages.ui.colour import STOPS
from pages.ui.format import visible

MAX_TOKENS = 20_000
PAGE_TOKENS = 3_000


@dataclass(frozen=True, slots=True)
class Strip:
    """What one page of the strip shows; all sequences are of equal length, one entry a token.

    Attributes:
        version: names this content: the same version is not drawn again.
        rows: row numbers in the report's token table, handed back when a token is picked.
        texts: the tokens' texts.
        token_ids: ids in the vocabulary.
        bits: surprisal, or None before a model has spoken.
        ranks: 0 is the likeliest.
        windows: the window of each token; a change starts a new line.
        labels: what each token belongs to, for the hover; "" for none.
        top: up to five (text, bits) for each token, likeliest first.
    """

    version: str
    rows: Sequence[int]
    texts: Sequence[str]
    token_ids: Sequence[int]
    bits: Sequence[float] | None = None
    ranks: Sequence[int] | None = None
    windows: Sequence[int] | None = None
    labels: Sequence[str] | None = None
    top: Sequence[Sequence[tuple[str, float]]] | None = None

    def payload(self, bits_range: tuple[float, float], selected: Sequence[int]) -> dict[str, Any]:
        """The JSON that the component draws; texts made visible, numbers rounded to what is shown."""
        breaks = np.flatnonzero(np.diff(self.windows, prepend=-1)).tolist() if self.windows is not None else []
        return {
            "version": self.version,
            "rows": [int(r) for r in self.rows],
            "texts": [visible(t) for t in self.texts],
            "newlines": [i for i, t in enumerate(self.texts) if t.endswith("\n")],
            "ids": [int(i) for i in self.token_ids],
            "bits": None if self.bits is None else [round(float(b), 2) for b in self.bits],
            "ranks": None if self.ranks is None else [int(r) for r in self.ranks],
            "breaks": [int(b) for b in breaks],
            "windows": [] if self.windows is None else [int(self.windows[b]) + 1 for b in breaks],
            "labels": None if self.labels is None else list(self.labels),
            "top": None
            if self.top is None
            else [[[visible(t), round(float(b), 2)] for t, b in alternatives] for alternatives in self.top],
            "selected": [int(s) for s in selected],
            "low": bits_range[0],
            "high": bits_range[1],
            "stops": list(STOPS),
        }


def show_token_strip(
    strip: Strip,
    bits_range: tuple[float, float],
    *,
    key: str,
    selected: Sequence[int] = (),
    on_pick: Callable[[int], None] | None = None,
) -> None:
    """Draws a strip; `on_pick` gets the row of a token that was clicked or chosen with Enter."""

    def picked() -> None:
        result = st.session_state.get(key)
        row = result.get("picked") if result is not None else None
        if row is not None and on_pick is not None:
            on_pick(int(row))

    _component()(key=key, data=strip.payload(bits_range, selected), on_picked_change=picked)


@functools.cache
def _component() -> Callable[..., Any]:
    return st.components.v2.component("lmgc_token_strip", html=_HTML, css=_CSS, js=_JS)


_HTML = """
<div class="head">
  <span class="legend" aria-hidden="true"><span class="low"></span><span class="ramp"></span><span class="high"></span></span>
  <label class="numbers"><input type="checkbox"> numbers below the tokens</label>
</div>
<div class="strip" role="listbox" tabindex="-1" aria-label="Tokens in reading order with their bits"></div>
<div class="tip" role="tooltip" hidden></div>
"""

_CSS = """
:host { display: block; position: relative; }
.head { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; align-items: center; font: .82rem var(--st-font, sans-serif);
  color: var(--st-text-color); margin-bottom: .35rem; }
.legend { display: inline-flex; align-items: center; gap: .4rem; }
.ramp { width: 8rem; height: .7rem; border-radius: 2px; }
.numbers { display: inline-flex; align-items: center; gap: .35rem; cursor: pointer; }
.strip { font: .86rem/1.25 var(--st-code-font, monospace); max-height: 19rem; overflow-y: auto; overflow-x: hidden;
  border: 1px solid var(--st-border-color, #8884); border-radius: 4px; padding: .5rem; background: var(--st-background-color);
  color: var(--st-text-color); scrollbar-gutter: stable; overflow-wrap: anywhere; }
.window { display: block; font: .75rem var(--st-font, sans-serif); opacity: .8; margin: .55rem 0 .2rem; }
.window:first-child { margin-top: 0; }
.t { display: inline-block; position: relative; padding: 1px 2px 4px; margin: 0 1px 3px 0; border-radius: 2px; cursor: pointer;
  unicode-bidi: isolate; text-align: center; white-space: pre-wrap; vertical-align: top; max-width: 100%; }
.t::after { content: ""; position: absolute; left: 1px; bottom: 1px; height: 2px; width: calc((100% - 2px) * var(--f, 0));
  background: currentColor; opacity: .75; }
.t.bare { background: var(--st-secondary-background-color); }
.t:focus-visible, .t.sel { outline: 2px solid var(--st-text-color); outline-offset: 1px; z-index: 1; }
.t.sel { outline-color: #e4572e; }
.n { display: none; font-size: .66rem; line-height: 1; }
.show .n { display: block; }
.tip { position: absolute; z-index: 20; max-width: 19rem; padding: .5rem .65rem; border-radius: 4px; pointer-events: none;
  font: .8rem/1.4 var(--st-font, sans-serif); background: var(--st-background-color); color: var(--st-text-color);
  border: 1px solid var(--st-border-color, #888); box-shadow: 0 2px 10px #0004; }
.tip table { border-collapse: collapse; margin-top: .25rem; }
.tip td { padding: 0 .7rem 0 0; font-variant-numeric: tabular-nums; }
.tip code { font-family: var(--st-code-font, monospace); }
"""

_JS = """
const states = new WeakMap();
const narrow = "\\u202f";

function shade(stops, low, high, bits) {
  const f = Math.min(1, Math.max(0, (bits - low) / ((high - low) || 1)));
  const x = f * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(x)), r = x - i;
  const rgb = [1, 3, 5].map(k => Math.round(
    parseInt(stops[i].slice(k, k + 2), 16) * (1 - r) + parseInt(stops[i + 1].slice(k, k + 2), 16) * r));
  const lin = rgb.map(c => { c /= 255; return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; });
  const dark = .2126 * lin[0] + .7152 * lin[1] + .0722 * lin[2] < .19;
  return [`rgb(${rgb})`, dark ? "#fff" : "#0b0f12", f];
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
  if (d.bits) line(tip, "div", `${d.bits[i].toFixed(2)}${narrow}bits` + (d.ranks ? `, rank ${d.ranks[i] + 1}` : ""));
  if (d.top && d.top[i].length) {
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
      const [back, front, f] = shade(d.stops, d.low, d.high, d.bits[i]);
      node.style.background = back;
      node.style.color = front;
      node.style.setProperty("--f", f.toFixed(3));
      const number = line(node, "span", d.bits[i].toFixed(1));
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
  if (state.version !== data.version + data.high) {
    draw(state);
    state.version = data.version + data.high;
    state.sign = "";
    const legend = parentElement.querySelector(".legend");
    legend.hidden = !data.bits;
    legend.style.display = data.bits ? "" : "none";
    parentElement.querySelector(".numbers").style.display = data.bits ? "" : "none";
    parentElement.querySelector(".low").textContent = `${data.low} bits`;
    parentElement.querySelector(".high").textContent = `${data.high} bits or more`;
    parentElement.querySelector(".ramp").style.background = `linear-gradient(to right, ${data.stops.join(", ")})`;
  }
  mark(state);
}
"""
