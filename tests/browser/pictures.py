# SPDX-License-Identifier: Apache-2.0
"""The pictures of the README: five answers of a real receipt, a report, the dashboard light and dark."""
import subprocess

from chromium import BrowserError
from served import ROOT, Serve

FOLDER = ROOT / "docs" / "pictures"
MOST_BYTES = 150_000
WIDTH, HEIGHT = 1000, 700
LEAST_HEIGHT = 300


def save(page, name, top=0, height=HEIGHT):
    """The page from `top` on; less of it where it would be too large a file."""
    while True:
        data = page.picture({"x": 0, "y": top, "width": WIDTH, "height": height})
        if len(data) < MOST_BYTES:
            break
        height -= 50
        if height < LEAST_HEIGHT:
            raise BrowserError(f"{name} has {len(data)} bytes at {height + 50} px, at most {MOST_BYTES} are wanted")
    file = FOLDER / name
    file.write_bytes(data)
    print(f"wrote {file.relative_to(ROOT)}: {len(data)} bytes, {WIDTH} x {height}")


def top_of_heading(page, text):
    """Where the section begins, in px from the top of the page, and how high it is."""
    place = page.evaluate(
        "(() => { const h = Array.from(document.querySelectorAll('h2')).find(e => e.innerText === '" + text + "');"
        "if (!h) return null; let end = h.nextElementSibling; while (end && end.tagName !== 'H2') "
        "end = end.nextElementSibling; const y = e => e.getBoundingClientRect().top + scrollY;"
        "return [y(h), (end ? y(end) : document.documentElement.scrollHeight) - y(h)]; })()")
    if not place:
        raise BrowserError(f"the page has no heading {text!r}")
    return place


def take_pictures(program, runs, work, page):
    FOLDER.mkdir(exist_ok=True)
    page.size(WIDTH, HEIGHT)
    page.scheme("light")
    file = work / "report.html"
    subprocess.run([program, "report", str(runs / "one"), str(runs / "two"), "--out", str(file)], check=True, cwd=ROOT,
                   capture_output=True)
    page.goto(file.as_uri())
    save(page, "report.png")
    with Serve(program, runs, work) as server:
        page.goto(server.url + "runs/mesh")
        top, height = top_of_heading(page, "Five answers")
        save(page, "receipt.png", top - 10, min(height + 10, HEIGHT))
        for scheme in ("light", "dark"):
            page.scheme(scheme)
            page.goto(server.url + "runs/one")
            save(page, f"dashboard-{scheme}.png")
    page.scheme("light")
