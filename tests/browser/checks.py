# SPDX-License-Identifier: Apache-2.0
"""What must hold of the dashboard in a browser. Each check is a function of a Room; what it returns is said beside its
name, and an exception is its failure."""
import json
import shutil
import subprocess
import time

from chromium import BrowserError
from served import ROOT, LiveRun, Serve, copy_run

MANY_RUNS = 1000
MOST_PAINT_MS = 1000.0
SMALL_SCREEN = (360, 740)


class Room:
    """What checks share: the program, real runs, a folder to work in, a tab."""

    def __init__(self, program, runs, work, page):
        self.program, self.runs, self.work, self.page = program, runs, work, page

    def folder(self, name):
        path = self.work / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def serve(self, runs):
        """From an empty tab on: the page before still looks for its own server."""
        self.page.goto("about:blank")
        self.page.errors()
        return Serve(self.program, runs, self.work)


def require(condition, why):
    if not condition:
        raise BrowserError(why)


def require_text(page, parts, selector="body"):
    text = page.text(selector)
    missing = [part for part in parts if part not in text]
    require(not missing, f"{selector} has no {missing}; it says:\n{text[:1500]}")


def require_no_errors(page, where):
    errors = page.errors()
    require(not errors, f"{where}: the page complains: {errors}")


def js(text):
    return json.dumps(text)


# ---- The checks


def empty_folder(room):
    page = room.page
    runs = room.folder("empty")
    with room.serve(runs) as server:
        page.goto(server.url)
        require_text(page, ["There are no runs in", "megacpp train recipes/"])
        for path in ("compare", "ceilings", "catalog"):
            page.goto(server.url + path)
            require(page.evaluate("document.querySelectorAll('main h1').length") == 1, f"/{path} has no heading")
        page.goto(server.url)
        require_no_errors(page, "an empty folder")
        page.evaluate("window.stays = 1")
        copy_run(room.runs / "one", runs / "first")
        page.wait_for("document.querySelector('#runs').innerText.includes('first')", "the first run on the open page")
        require(page.evaluate("window.stays") == 1, "the page was loaded again instead of being pushed to")
    return "the first run comes by itself"


def list_of_runs(room):
    page = room.page
    with room.serve(room.runs) as server:
        page.goto(server.url)
        require_text(page, ["4 of 4 runs", "one", "two", "both", "mesh", "finished", "120/120"], "#runs")
        page.press("/")
        require(page.evaluate("document.activeElement.id") == "filter", "the key / does not go to the filter")
        page.forget("Page.loadEventFired")
        page.evaluate("document.activeElement.value = 'mesh'; document.activeElement.form.requestSubmit()")
        page.wait_for_load("the filtered list")
        require_text(page, ["1 of 4 runs", "mesh"], "#runs")
        require_no_errors(page, "the list")
    return ""


def sweep_above_its_runs(room):
    page = room.page
    runs = room.folder("swept")
    for name in ("1-1-1", "2-2-1"):
        copy_run(room.runs / "one", runs / "sweep" / "runs" / name)
    (runs / "sweep" / "recipe.yaml").write_text("name: swept\n")
    (runs / "sweep" / "sweep.json").write_text('{"axis": "train.batch", "values": ["1", "2"], "repeats": 1, "trials": []}')
    with room.serve(runs) as server:
        page.goto(server.url)
        require_text(page, ["2 of 2 runs", "sweep: train.batch=1,2", "0 of 2 runs", "sweep/runs/2-2-1"], "#runs")
        page.forget("Page.loadEventFired")
        page.evaluate("document.querySelector('#runs a').click()")
        page.wait_for_load("the page of a run of the sweep")
        require_text(page, ["120 of 120 steps"])
        page.wait_for("document.querySelector('#live').innerText === ''", "no word that a finished run is live")
        require_no_errors(page, "a sweep")
    return ""


def compare_by_ticks(room):
    page = room.page
    with room.serve(room.runs) as server:
        page.goto(server.url)
        for name in ("one", "two"):
            page.evaluate(f"document.querySelector('input[name=run][value={name}]').click()")
        page.forget("Page.loadEventFired")
        page.evaluate("document.querySelector('form[action=\"/compare\"] button').click()")
        page.wait_for_load("the comparison")
        require(page.evaluate("location.pathname") == "/compare", "the button does not lead to the comparison")
        text = page.text("main")
        require("E4001" not in text, f"one axis is called confounded:\n{text[:1500]}")
        require("layout.tensor_parallel" in text, f"the axis is not named:\n{text[:1500]}")
        banner = page.text("main .banner")
        require(any(word in banner for word in ("takes", "no difference", "E4002")), f"no result and no reason: {banner}")
        require_no_errors(page, "a comparison")
    return banner


def confounded_is_refused(room):
    page = room.page
    with room.serve(room.runs) as server:
        page.goto(server.url + "compare?run=one&run=both")
        require_text(page, ["E4001", "no winner is named", "train.batch", "layout.tensor_parallel", "Next:"], "main")
        text = page.text("main")
        require(" takes " not in text and "Cause: " not in text, f"a winner is named:\n{text[:1500]}")
        require_no_errors(page, "a refusal")
    return ""


def memory_map(room):
    page = room.page
    with room.serve(room.runs) as server:
        page.goto(server.url + "runs/mesh")
        require_text(page, ["Memory by chip, family and time", "The same by role.", "Measured peaks of 4 chips",
                            "Five answers", "Collectives"], "main")
        bars = page.evaluate("Array.from(document.querySelectorAll('main figure svg rect'), "
                             "r => r.getBoundingClientRect()).filter(r => r.width > 2 && r.height > 2).length")
        require(bars >= 4, f"{bars} bars are seen in the charts of memory")
        chips = page.evaluate("Array.from(document.querySelectorAll('main details')).filter(d => "
                              "d.querySelector('summary').innerText.startsWith('Measured peaks'))"
                              ".map(d => d.querySelector('tbody').rows.length)[0] || 0")
        require(chips == 4, f"{chips} chips are in the table of what was measured, 4 ran")
        require_no_errors(page, "a run")
    return f"{bars} bars, {chips} chips"


def live_update(room):
    page = room.page
    runs = room.folder("live")
    live = LiveRun(room.program, runs / "live", room.work)
    try:
        live.wait_for_steps(3)
        with room.serve(runs) as server:
            page.goto(server.url + "runs/live")
            page.evaluate("window.stays = 1")
            page.wait_for("document.querySelector('#live').innerText === 'live'", "the feed of the page")
            seen = [page.text("#progress")]
            start = time.monotonic()
            for _ in range(3):
                page.wait_for(f"document.querySelector('#progress').innerText !== {js(seen[-1])}", "the next step")
                seen.append(page.text("#progress"))
            seconds = (time.monotonic() - start) / 3
            require(all("running" in text for text in seen), f"it does not say that it runs: {seen}")
            require(page.evaluate("document.querySelectorAll('#charts polyline').length") >= 2, "no lines in the charts")
            live.kill()
            page.wait_for("document.querySelector('#progress').innerText.includes('killed')", "the word killed")
            page.wait_for("document.querySelector('#live').innerText === ''", "no word that a killed run is live")
            require(page.evaluate("window.stays") == 1, "the page was loaded again instead of being pushed to")
            require_no_errors(page, "a live run")
            shutil.rmtree(runs / "live")
            page.wait_for("document.querySelector('#live').innerText.includes('gone')", "a run that is gone")
            require(server.is_alive(), f"the server ended: {server.said()}")
    finally:
        live.kill()
    return f"pushed every {seconds:.2f} s, then killed, then gone"


def list_is_pushed(room):
    page = room.page
    runs = room.folder("pushed")
    live = LiveRun(room.program, runs / "grows", room.work)
    try:
        live.wait_for_steps(2)
        with room.serve(runs) as server:
            page.goto(server.url)
            first = page.wait_for("(document.querySelector('#runs').innerText.match(/(\\d+)\\/100000/) || [])[1]",
                                  "the steps in the list")
            page.evaluate("document.querySelector('input[name=run]').click()")
            page.wait_for("Number((document.querySelector('#runs').innerText.match(/(\\d+)\\/100000/) || [])[1]) > "
                          f"{int(first)}", "more steps in the list")
            require(page.evaluate("document.querySelector('input[name=run]').checked"), "a tick is lost when rows change")
            require_no_errors(page, "the list of a live run")
    finally:
        live.kill()
    return ""


def thousand_runs(room):
    page = room.page
    runs = room.folder("many")
    for number in range(MANY_RUNS):
        copy_run(room.runs / "one", runs / f"run-{number:04}")
        if number % 100 == 7:  # some are damaged
            receipt = runs / f"run-{number:04}" / "receipt.json"
            receipt.write_bytes(receipt.read_bytes()[:900])
    paints, answers = [], []
    with room.serve(runs) as server:
        for _ in range(3):
            page.goto(server.url)
            paints.append(page.wait_for("(performance.getEntriesByName('first-contentful-paint')[0] || {}).startTime",
                                        "the first paint"))
            answers.append(page.evaluate("performance.getEntriesByType('navigation')[0].responseEnd"))
        require_text(page, [f"{MANY_RUNS} of {MANY_RUNS} runs", "older"], "#runs")
        page.wait_for("!document.querySelector('#runs caption').innerText.includes('not read yet')",
                      "all receipts to be read", 60)
        page.goto(server.url + "?q=E1801")
        require_text(page, [f"{MANY_RUNS // 100} of {MANY_RUNS} runs", "E1801"], "#runs")
        require_no_errors(page, "many runs")
    said = ", ".join(f"{paint:.0f} ms (answered after {answer:.0f})" for paint, answer in zip(paints, answers))
    require(max(paints) < MOST_PAINT_MS, f"first paint after {said}, wanted: under {MOST_PAINT_MS:.0f} ms each")
    return f"first paint after {said}"


def small_screens_and_dark(room):
    page = room.page
    try:
        with room.serve(room.runs) as server:
            paths = ("", "runs/mesh", "compare?run=one&run=both", "ceilings", "catalog")
            page.size(*SMALL_SCREEN, is_small=True)
            for path in paths:
                page.goto(server.url + path)
                width = page.evaluate("document.documentElement.scrollWidth")
                require(width <= SMALL_SCREEN[0] + 1, f"/{path} is {width} px wide on a screen of {SMALL_SCREEN[0]}")
            page.size(1100, 800)
            colours = {}
            for scheme in ("light", "dark"):
                page.scheme(scheme)
                page.goto(server.url + "runs/mesh")
                colours[scheme] = page.evaluate(
                    "(s => [s.backgroundColor, s.color])(getComputedStyle(document.body)).join(' on ')")
            require(colours["light"] != colours["dark"], f"dark is as light: {colours}")
            require_no_errors(page, "other screens")
    finally:
        page.size(1100, 800)
        page.scheme("light")
    return json.dumps(colours)


def by_keyboard(room):
    page = room.page
    with room.serve(room.runs) as server:
        page.goto(server.url)
        page.evaluate("document.querySelector('.skip').focus()")
        require(page.evaluate("document.querySelector('.skip').getBoundingClientRect().left >= 0"),
                "the link that skips the menu is not seen when it has the focus")
        outlines = page.evaluate(
            "Array.from(document.querySelectorAll('a, button, input, select')).filter(e => e.tabIndex < 0).length")
        require(outlines == 0, f"{outlines} links or fields cannot be reached by keyboard")
        unnamed = page.evaluate("Array.from(document.querySelectorAll('input, select')).filter(e => !e.labels.length && "
                                "!e.getAttribute('aria-label')).length")
        require(unnamed == 0, f"{unnamed} fields have no name for screen readers")
    return ""


def report_offline(room):
    page = room.page
    file = room.work / "report.html"
    done = subprocess.run([room.program, "report", str(room.runs / "one"), str(room.runs / "two"), "--out", str(file)],
                          capture_output=True, text=True, check=False, cwd=ROOT)
    require(done.returncode == 0, f"megacpp report: exit status {done.returncode}\n{done.stderr[-1500:]}")
    page.goto("about:blank")
    page.errors()
    page.goto(file.as_uri())
    require(page.evaluate("document.querySelectorAll('svg').length") >= 3, "fewer than three pictures")
    loaded = page.evaluate("performance.getEntriesByType('resource').map(r => r.name)")
    require(not loaded, f"the page loads {loaded}")
    require_no_errors(page, "the report")
    return ""


ALL = (empty_folder, list_of_runs, sweep_above_its_runs, compare_by_ticks, confounded_is_refused, memory_map,
       live_update, list_is_pushed, thousand_runs, small_screens_and_dark, by_keyboard, report_offline)
