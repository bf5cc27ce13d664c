# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over WebDriver with what Python has."""

import base64
import json
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "Left": "\ue012", "Up": "\ue013", "Right": "\ue014", "Down": "\ue015"}


def missing():
    """What is not here of what a browser needs, as words."""
    found = {
        "chromium": shutil.which("chromium"),
        "chromedriver (Debian's chromium-driver)": shutil.which("chromedriver"),
    }
    return [name for name, path in found.items() if not path]


def trouble():
    """Why no browser starts here, as words; "" if one does."""
    if lacking := missing():
        return " and ".join(lacking) + " missing"
    try:
        with Browser():
            return ""
    except (AttributeError, OSError, RuntimeError) as error:
        return f"Chromium does not start here: {error}"


class Browser:
    """One Chromium with one window; it and its driver end with the `with` block."""

    def __init__(self, width=1280, height=800):
        self.size = (width, height)

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="rankmesh-browser-", ignore_cleanup_errors=True)
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                self.root = "http://127.0.0.1:" + line.rsplit(" ", 1)[1].strip().rstrip(".")
                break
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--renderer-process-limit=1"]
        arguments += ["--window-size={},{}".format(*self.size), "--user-data-dir=" + self.profile.name, "--no-first-run"]
        # Beside other work a browser starts in minutes.
        options = {"args": arguments, "binary": shutil.which("chromium"), "browserStartupTimeout": 600_000}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = ""
        try:
            self.session = "/session/" + self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            if self.session:
                self.ask("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(30)
            self.driver.stdout.close()
            self.profile.cleanup()

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        address = self.root + (path if path.startswith("/session") else self.session + path)
        request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=900) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {json.load(error)['value']['message']}") from None

    def open(self, path):
        self.ask("POST", "/url", {"url": path.as_uri()})

    def run(self, script, *arguments):
        """What a function with this body returns in the page."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def painted(self):
        """Waits for the page to have painted what it was told."""
        self.ask(
            "POST",
            "/execute/async",
            {"script": "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))", "args": []},
        )

    def text(self, selector):
        """The text of the first element, None without one."""
        return self.run("return document.querySelector(arguments[0])?.innerText ?? null", selector)

    def element(self, selector):
        return next(iter(self.ask("POST", "/element", {"using": "css selector", "value": selector}).values()))

    def click(self, selector):
        self.ask("POST", f"/element/{self.element(selector)}/click", {})

    def type(self, selector, text):
        self.ask("POST", f"/element/{self.element(selector)}/clear", {})
        self.ask("POST", f"/element/{self.element(selector)}/value", {"text": text})

    def press(self, *keys):
        """Presses keys where the focus is."""
        presses = [{"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")]
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": presses}]})
        self.painted()

    def move(self, x, y, *, press=False, to=None):
        """Moves the mouse to a point of the window, presses it there if asked, and lets it go at `to`."""
        at = [{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}]
        if press:
            at.append({"type": "pointerDown", "button": 0})
            if to:
                at.append({"type": "pointerMove", "duration": 50, "x": round(to[0]), "y": round(to[1])})
            at.append({"type": "pointerUp", "button": 0})
        self.ask("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": at}]})
        self.painted()

    def wheel(self, x, y, by):
        turn = {"type": "scroll", "x": round(x), "y": round(y), "deltaX": 0, "deltaY": by, "duration": 0, "origin": "viewport"}
        self.ask("POST", "/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [turn]}]})
        self.painted()

    def prefers(self, scheme):
        """Light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}})
        self.painted()

    def complaints(self):
        """What the page wrote to the console, or could not load."""
        return [entry["message"] for entry in self.ask("POST", "/se/log", {"type": "browser"})]

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.ask("GET", "/screenshot")))
