# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium by the DevTools protocol over a pipe: messages of JSON, each ended by a zero byte. Standard library
alone. One thread: replies are waited for, events are kept until somebody asks."""
import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio",
         "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe", "about:blank")


class BrowserError(Exception):
    """What the browser, or a page in it, has said or failed to say."""


def find_chromium():
    """The program, or None. CHROMIUM names one."""
    named = os.environ.get("CHROMIUM")
    for name in (named,) if named else NAMES:
        found = shutil.which(name)
        if found:
            return found
    return None


class Chromium:
    """The process. A context: leaving it ends the browser."""

    def __init__(self, program, folder):
        self.log = pathlib.Path(folder) / "chromium.log"
        commands, self.write_end = os.pipe()
        self.read_end, replies = os.pipe()
        # Where bash moves them from: beyond 3 and 4, which the browser reads from and writes to.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 30) for end in (commands, replies)]
        os.close(commands)
        os.close(replies)
        words = ["bash", "-c", f'exec "$@" 3<&{ends[0]} 4>&{ends[1]}', "bash", program,
                 f"--user-data-dir={pathlib.Path(folder) / 'profile'}", *FLAGS]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(words, pass_fds=ends, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for end in ends:
            os.close(end)
        self.buffer = b""
        self.events = []
        self.last_id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close", timeout=5)
        except BrowserError:
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)

    def version(self):
        return self.call("Browser.getVersion")["product"]

    def failed(self, why):
        tail = self.log.read_text(errors="replace")[-1500:] if self.log.exists() else ""
        return BrowserError(f"{why}\n  chromium's last words: {tail.strip() or '(none)'}")

    def send(self, message):
        data = json.dumps(message).encode() + b"\0"
        try:
            while data:
                data = data[os.write(self.write_end, data):]
        except BrokenPipeError as error:
            raise self.failed("the browser is gone") from error

    def receive(self, end):
        """The next message, or None once the time is up."""
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return None
            data = os.read(self.read_end, 1 << 16)
            if not data:
                raise self.failed("the browser is gone")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, params=None, session=None, timeout=30.0):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        self.send(message)
        end = time.monotonic() + timeout
        while True:
            reply = self.receive(end)
            if reply is None:
                raise self.failed(f"{method}: no reply within {timeout} s")
            if reply.get("id") != self.last_id:
                if "method" in reply:
                    self.events.append(reply)
                continue
            if "error" in reply:
                raise BrowserError(f"{method}: {reply['error'].get('message')}")
            return reply["result"]

    def take_event(self, method, session, timeout):
        """The first such event that nobody has taken; None once the time is up."""
        end = time.monotonic() + timeout
        while True:
            for event in self.events:
                if event["method"] == method and event.get("sessionId") == session:
                    self.events.remove(event)
                    return event["params"]
            message = self.receive(end)
            if message is None:
                return None
            if "method" in message:
                self.events.append(message)

    def new_page(self):
        return Page(self)


class Page:
    """A tab."""

    def __init__(self, browser):
        self.browser = browser
        target = browser.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session = browser.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        self.target = target
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.call("Page.bringToFront")
        self.size(1100, 800)

    def close(self):
        self.browser.call("Target.closeTarget", {"targetId": self.target})

    def call(self, method, params=None, timeout=30.0):
        return self.browser.call(method, params, self.session, timeout)

    def size(self, width, height, is_small=False):
        self.call("Emulation.setDeviceMetricsOverride",
                  {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_small})

    def scheme(self, name):
        """"light" or "dark"."""
        self.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})

    def goto(self, url, timeout=30.0):
        """Returns once the page is loaded."""
        self.forget("Page.loadEventFired")
        result = self.call("Page.navigate", {"url": url}, timeout)
        if result.get("errorText"):
            raise BrowserError(f"{url}: {result['errorText']}")
        self.wait_for_load(url, timeout)

    def wait_for_load(self, what, timeout=30.0):
        if self.browser.take_event("Page.loadEventFired", self.session, timeout) is None:
            raise BrowserError(f"{what}: not loaded within {timeout} s")

    def forget(self, method):
        self.browser.events = [event for event in self.browser.events
                               if event["method"] != method or event.get("sessionId") != self.session]

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(f"{expression}: {details.get('exception', {}).get('description') or details.get('text')}")
        return result["result"].get("value")

    def wait_for(self, expression, what, timeout=15.0):
        """The value of the expression once it is true."""
        end = time.monotonic() + timeout
        while True:
            value = self.evaluate(expression)
            if value:
                return value
            if time.monotonic() > end:
                raise BrowserError(f"{what}: not within {timeout} s; the page says:\n{self.text()[:1500]}")
            time.sleep(0.05)

    def text(self, selector="body"):
        return self.evaluate(f"(document.querySelector({json.dumps(selector)}) || {{}}).innerText || ''")

    def html(self):
        return self.evaluate("document.documentElement.outerHTML")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            params = {"type": kind, "key": key}
            if kind == "keyDown" and len(key) == 1:
                params["text"] = key
            self.call("Input.dispatchKeyEvent", params)

    def errors(self):
        """What the page has complained of since the last call: scripts, resources, the content security policy."""
        self.evaluate("1")  # events that are under way come before its reply
        found = []
        rest = []
        for event in self.browser.events:
            method, params = event["method"], event.get("params", {})
            if event.get("sessionId") != self.session:
                rest.append(event)
            elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            elif method == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details.get("text"))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
                found.append(" ".join(str(arg.get("value", arg.get("description"))) for arg in params["args"]))
            elif method not in ("Log.entryAdded", "Runtime.consoleAPICalled"):
                rest.append(event)
        self.browser.events = rest
        return found

    def picture(self, clip=None):
        """PNG bytes of what is seen, or of a rectangle {x, y, width, height} of the whole page."""
        params = {"format": "png"}
        if clip:
            params.update({"clip": {**clip, "scale": 1}, "captureBeyondViewport": True})
        return base64.b64decode(self.call("Page.captureScreenshot", params)["data"])
