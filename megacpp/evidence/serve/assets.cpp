// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/assets.h"

#include "megacpp/evidence/report/html.h"

namespace megacpp::serve {
namespace {

constexpr std::string_view kMoreStyle = R"css(
header { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; align-items: center; border-bottom: 1px solid var(--line); }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; } nav a { padding: .5rem .2rem; text-decoration: none; }
nav a[aria-current] { font-weight: 600; border-bottom: .2rem solid var(--s0); }
a { color: var(--s0); } #live { color: var(--soft); font-size: .85rem; }
a:focus-visible, input:focus-visible, select:focus-visible, button:focus-visible, summary:focus-visible {
  outline: .18rem solid var(--s1); outline-offset: .1rem; }
.skip { position: absolute; left: -100rem; } .skip:focus { position: static; }
form { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; margin: .8rem 0; } form > div { width: 100%; }
input, select, button { font: inherit; color: inherit; background: var(--shade); border: 1px solid var(--line);
  border-radius: .25rem; padding: .35rem .6rem; } input[type=checkbox] { width: 1.1rem; height: 1.1rem; }
button { cursor: pointer; } caption { text-align: left; color: var(--soft); padding: .2rem 0; }
progress { width: 100%; height: 1rem; accent-color: var(--s0); } pre { overflow-x: auto; font-size: .85rem; }
tbody tr:hover { background: var(--shade); } .problem { color: var(--bad); white-space: normal; display: inline-block; min-width: 16rem; }
@media (max-width: 40rem) { body { margin: .5rem auto; padding: 0 .6rem; } h1 { font-size: 1.25rem; }
  th, td { padding: .3rem .5rem; } }
)css";

constexpr std::string_view kScript = R"js("use strict";
// Replaces the parts of a page that the server pushes: an event has {"id": "html"}. Without it pages are as they were
// when they were loaded.
(function () {
  const url = document.body.dataset.events;
  const state = document.getElementById("live");
  let source = null;
  let isGone = false;

  function say(text) { if (state) state.textContent = text; }

  // Of a run that has ended the page says so: the server tells when somebody goes on with it.
  function sayLive() { say(document.querySelector("[data-ended]") ? "" : "live"); }

  function keyOf(element) { return element.value || element.getAttribute("href"); }

  // What a reader has ticked, and where the keyboard is, stays.
  function replace(place, html) {
    const ticked = new Set(Array.from(place.querySelectorAll("input:checked"), keyOf));
    const active = place.contains(document.activeElement) ? keyOf(document.activeElement) : null;
    place.innerHTML = html;
    for (const element of place.querySelectorAll("a, input, button")) {
      if (element.type === "checkbox") element.checked = ticked.has(keyOf(element));
      if (active !== null && keyOf(element) === active) element.focus({ preventScroll: true });
    }
  }

  function connect() {
    source = new EventSource(url);
    source.onopen = sayLive;
    source.addEventListener("update", (event) => {
      const parts = JSON.parse(event.data);
      for (const id of Object.keys(parts)) {
        const place = document.getElementById(id);
        if (place) replace(place, parts[id]);
      }
      sayLive();
    });
    source.addEventListener("gone", () => { isGone = true; source.close(); say("this run is gone"); });
    source.onerror = () => {
      say("not connected, trying again");
      if (source.readyState === EventSource.CLOSED) setTimeout(() => { if (!document.hidden) connect(); }, 5000);
    };
  }

  // Browsers allow few connections to one server: pages that nobody sees keep none.
  if (url) {
    document.addEventListener("visibilitychange", () => {
      if (source) source.close();
      if (!document.hidden && !isGone) connect();
    });
    if (!document.hidden) connect();
  }

  document.addEventListener("keydown", (event) => {
    const filter = document.getElementById("filter");
    if (event.key === "/" && filter && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      filter.focus();
      event.preventDefault();
    }
  });
})();
)js";

constexpr std::string_view kIcon =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\"><path fill=\"#3b6fb6\" d=\"M1 15V1h3l4 6 "
    "4-6h3v14h-3"
    "V6l-4 6-4-6v9z\"/></svg>\n";

}  // namespace

std::string style_sheet() { return std::string(report::style()) + std::string(kMoreStyle); }

std::string_view script() { return kScript; }

std::string_view icon() { return kIcon; }

}  // namespace megacpp::serve
