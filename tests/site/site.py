# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: it builds without warnings, and a browser finds nothing wrong with its pages.

    site.py TREE    TREE: the Python package of a build tree; the command is in ../bin

Ends with 77 where MkDocs, doxygen or a browser is missing."""

import ast
import functools
import html
import http.server
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "view" / "page"))

import webdriver  # noqa: E402

TREE = ""
PHONE = 360
LONGEST = 20 * 1024  # bytes of a page, without what is generated into it
GENERATED = re.compile(r"<!-- [^>]* writes[^>]*-->.*?(<!-- end -->|\Z)", re.S)
REFERENCE = ["reference/engine/communicator.hpp/", "reference/core/mesh.hpp/", "reference/c/", "reference/python/rankmesh.torch/"]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def trouble():
    """Why the site is not tested here, as words; "" if it is."""
    found = {
        "mkdocs-material": importlib.util.find_spec("material"),
        "mkdocstrings-python": importlib.util.find_spec("mkdocstrings_handlers"),
        "doxygen": shutil.which("doxygen"),
    }
    lacking = [name for name, there in found.items() if not there]
    return " and ".join(lacking) + " missing" if lacking else webdriver.trouble()


def build(folder):
    """Builds the site into a folder; returns what was said."""
    environment = dict(os.environ, RANKMESH_PYTHON_TREE=TREE, NO_MKDOCS_2_WARNING="1", PYTHONDONTWRITEBYTECODE="1")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="rankmesh-site-")))
        cls.built = build(str(cls.folder))
        handler = functools.partial(Quiet, directory=str(cls.folder))
        server = cls.enterClassContext(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.shutdown)
        cls.root = f"http://127.0.0.1:{server.server_port}/"
        cls.browser = cls.enterClassContext(webdriver.Browser())
        cls.browser.ask("POST", "/timeouts", {"script": 120_000})

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    def visit(self, page):
        self.browser.ask("POST", "/url", {"url": self.root + page})

    def back(self):
        return self.browser.run("return getComputedStyle(document.body).backgroundColor")

    def test_builds_without_warnings(self):
        self.assertEqual(self.built.returncode, 0, self.built.stderr)
        self.assertEqual([line for line in self.built.stderr.splitlines() if not line.startswith("INFO")], [])

    def test_has_every_page_of_docs(self):
        for page in (ROOT / "docs").rglob("*.md"):
            place = page.relative_to(ROOT / "docs").with_suffix("")
            self.assertTrue((self.folder / place / "index.html").exists(), page)

    def text(self, page):
        """The words of a page, without tags."""
        return html.unescape(re.sub(r"<[^>]*>", "", (self.folder / page / "index.html").read_text(encoding="utf-8")))

    def test_reference_has_every_public_name(self):
        declared = (ROOT / "include/rankmesh/rankmesh.h").read_text(encoding="utf-8")
        functions = set(re.findall(r"^RANKMESH_C_API [^;]*?\b(rankmesh_\w+)\(", declared, re.M))
        self.assertGreater(len(functions), 90)
        self.assertEqual(functions - set(re.findall(r"\w+", self.text("reference/c"))), set())
        for header in (ROOT / "include/rankmesh").rglob("*.hpp"):
            page = f"reference/{header.relative_to(ROOT / 'include/rankmesh')}"
            if "detail" not in header.parts:
                for name in re.findall(r"^(?:class|struct) RANKMESH_EXPORT (\w+)", header.read_text(encoding="utf-8"), re.M):
                    self.assertRegex(self.text(page), rf"\b{name}\b", header)
        for module in ("rankmesh", "rankmesh.torch"):
            source = pathlib.Path(TREE, *module.split("."), "__init__.py").read_text(encoding="utf-8")
            (names,) = [each.value for each in ast.parse(source).body if isinstance(each, ast.Assign) and each.targets[0].id == "__all__"]
            built = (self.folder / "reference/python" / module / "index.html").read_text(encoding="utf-8")
            names = set(ast.literal_eval(names)) - {"__version__"}
            names = {name for name in names if not (self.folder / f"reference/python/{module}.{name}").exists()}  # no modules
            missing = [name for name in names if f'id="{module}.{name}"' not in built]
            self.assertEqual(missing, [], module)

    def test_has_no_page_that_is_too_long(self):
        for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
            text = GENERATED.sub("", page.read_text(encoding="utf-8"))
            self.assertLessEqual(len(text.encode()), LONGEST, page)

    def test_follows_light_and_dark(self):
        self.visit("")
        seen = []
        for scheme in ("light", "dark", "light"):
            self.browser.prefers(scheme)
            red, green, blue = (int(part) for part in self.back().strip("rgba()").split(",")[:3])
            seen.append((red + green + blue) / 3)
        self.assertGreater(seen[0], 200)
        self.assertLess(seen[1], 60)
        self.assertEqual(seen[0], seen[2])

    def test_loads_nothing_from_elsewhere(self):
        self.visit("python/")
        names = self.browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        self.assertEqual({urllib.parse.urlsplit(name).netloc for name in names}, {urllib.parse.urlsplit(self.root).netloc})

    def test_finds_a_word_by_the_search_box(self):
        for word, place in (("survivors", "elastic/"), ("partition_in_order", "reference/core/mesh.hpp/"), ("RANKMESH_STORE", "stores/")):
            with self.subTest(word=word):
                self.visit("")
                self.browser.type("input.md-search__input", word)
                script = """const [place, done] = arguments;
                            const paths = () => [...document.querySelectorAll('a.md-search-result__link')].map((a) => a.pathname);
                            const wait = (n) => paths().includes(place) || !n ? done(paths()) : setTimeout(wait, 50, n - 1);
                            wait(2000)"""
                self.assertIn("/" + place, self.browser.ask("POST", "/execute/async", {"script": script, "args": ["/" + place]}))

    def test_scrolls_no_page_sideways_on_a_phone(self):
        pages = sorted(str(page.parent.relative_to(self.folder)) + "/" for page in self.folder.rglob("index.html"))
        pages = [page for page in pages if not page.startswith(("source/", "reference/"))]
        sized = {"width": PHONE, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        self.visit("")
        self.browser.ask("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": sized})
        script = """const wide = [];
                    const next = async (pages) => {
                        for (const page of pages) {
                            const text = await (await fetch('/' + page)).text();
                            const parsed = new DOMParser().parseFromString(text, 'text/html');
                            const old = document.querySelector('article'), fresh = parsed.querySelector('article');
                            for (const image of fresh.querySelectorAll('img')) image.src = new URL(image.getAttribute('src'), location.origin + '/' + page).href;
                            old.replaceWith(document.adoptNode(fresh));
                            await Promise.all([...fresh.querySelectorAll('img')].map((image) => image.decode()));
                            if (document.documentElement.scrollWidth > innerWidth) wide.push([page, document.documentElement.scrollWidth]);
                        }
                        return wide;
                    };
                    next(arguments[0]).then(arguments[1], (error) => arguments[1](String(error)))"""
        self.assertEqual(self.browser.ask("POST", "/execute/async", {"script": script, "args": [pages + REFERENCE]}), [])
        self.browser.ask("POST", "/goog/cdp/execute", {"cmd": "Emulation.clearDeviceMetricsOverride", "params": {}})


if __name__ == "__main__":
    TREE = sys.argv.pop(1)
    if reason := trouble():
        print("skipped: no site of the documentation: " + reason)
        sys.exit(77)
    unittest.main()
