# SPDX-License-Identifier: Apache-2.0
"""The page of `rankmesh draw` in a real browser: what it says, and what it does on clicks, keys and searches.

    page.py COMMAND

Ends with 77 where there is no browser."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import webdriver

COMMAND = ""
MESHES = [
    (["pp=2 dp=2 tp=2", "--on", "node:1 gpu:8"], [0, 5, 7]),
    (["pp=4 dp=8 tp=8"], [0, 67, 255]),
    (["pp=2 cp=1 dp=5 tp=1", "--on", "rack:2 node:3 gpu:4"], [0, 6, 9]),
    (["pp=2:32 dp=4:8 @64", "--on", "node:20 gpu:8"], [64, 88, 120]),
    (["a=(2,2):(8,1) b=4:2"], [0, 9, 13]),
    (["a=1"], [0]),
    (["a-b=2 a.c=2 a_d=2"], [6]),
    (["dp=7 tp=2", "--on", "node[a01-a03]:4 node[b1]:3 gpu"], [0, 5, 11, 13]),
    (["dp=7 tp=2", "--on", "rack:2 node[n1,n4]:8 node[n2-n3]:1 gpu"], [0, 8, 9, 13]),
    (["a=2 b=4 @[3,1,2,0,7,6,5,4]", "--on", "node:2 gpu:4"], [0, 3, 7]),
    (["a=2 b=2 @[30,1,2,10]"], [30, 10]),
    (["pp=16 dp=256 cp=2 tp=8", "--on", "rack:64 node:128 gpu:8"], [0, 40000, 65535]),
]


def command(*words):
    return subprocess.run([COMMAND, *words], check=True, capture_output=True, text=True).stdout


def ranks_of(notation):
    """The ranks of `{0..3, 8, 10, ..., 16}`, and how many more there are."""
    ranks = []
    more = 0
    words = notation.strip("{}").split(", ")
    for i, word in enumerate(words):
        if word == "...":
            step = ranks[-1] - ranks[-2]
            ranks += range(ranks[-1] + step, int(words[i + 1]), step)
        elif ".." in word:
            first, last = map(int, word.split(".."))
            ranks += range(first, last + 1)
        elif word.startswith("…"):
            more = int(word.split()[1])
        else:
            ranks.append(int(word))
    return ranks, more


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = cls.enterClassContext(webdriver.Browser())
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="rankmesh-page-")))

    def open(self, *words):
        path = self.folder / "mesh.html"
        command("draw", *words, "--out", str(path))
        self.browser.open(path)
        self.browser.prefers("light")

    def tearDown(self):
        # Chromium advises those who read pixels as often as these tests do.
        self.assertEqual([text for text in self.browser.complaints() if "willReadFrequently" not in text], [])

    # --- What stands on the page

    def find(self, text):
        self.browser.type("#wanted", text)
        self.browser.press("Enter")
        return self.browser.text("#answer")

    def middle(self):
        return self.browser.run("const c = document.getElementById('map'); return [c.clientWidth / 2, c.clientHeight / 2]")

    def pixel(self, x, y):
        """The colour of the canvas, as CSS writes it."""
        script = """const c = document.getElementById('map'), r = c.width / c.clientWidth;
                    const [a, b, d] = c.getContext('2d').getImageData(arguments[0] * r, arguments[1] * r, 1, 1).data;
                    return `rgb(${a}, ${b}, ${d})`"""
        return self.browser.run(script, x, y)

    def cell(self):
        """The colour of the cell in the middle, beside its number."""
        x, y = self.middle()
        return self.pixel(x - 24, y)

    def swatches(self):
        return self.browser.run("return [...document.querySelectorAll('#legend i')].map((i) => [i.innerText, i.style.background])")

    def places(self):
        """Of each of four ranks a point of its cell beside its number, and the colours of cells that are not dimmed."""
        self.browser.run("document.activeElement.blur()")
        x, y = self.middle()
        bright = {color for _, color in self.swatches()}
        places = {}
        for at in range(int(x) - 100, int(x) + 100, 12):
            for down in range(int(y) - 110, int(y) + 90, 40):
                if len(places) < 4 and self.pixel(at, down) in bright and self.pixel(at - 12, down) not in bright:
                    self.browser.move(at, down)
                    places.setdefault(self.browser.text("#status").split(" · ")[0], (at, down))
                    self.browser.move(2, 2)
        self.assertEqual(set(places), {f"rank {rank}" for rank in range(4)})
        return places, bright

    def panel(self):
        """What the page tells of the selected rank, as `rank --json` does."""
        script = """const rows = [...document.querySelectorAll('#rank tbody tr')];
                    return rows.map((row) => [...row.cells].map((cell) => cell.innerText))"""
        number = lambda text: None if text == "-" else int(text)  # noqa: E731
        told = {"coord": {}, "groups": {}, "neighbors": {}}
        told["rank"] = int(self.browser.text("#rank h2").split()[1])
        for axis, index, before, after, group in self.browser.run(script):
            told["coord"][axis] = int(index)
            told["neighbors"][axis] = {"prev": number(before), "next": number(after)}
            told["groups"][axis] = ranks_of(group)
        host = self.browser.text("#host")
        if host is not None:
            told["host"] = {level: int(i) for level, i in (word.split("=") for word in host.split())}
        if (name := self.browser.text("#unit")) is not None:
            told["host_name"] = name
        self.assertEqual(self.browser.text("#coordinate"), " ".join(f"{a}={i}" for a, i in told["coord"].items()))
        return told

    def assert_tells(self, words, rank):
        told = self.panel()
        expected = json.loads(command("rank", words[0], str(rank), *words[1:], "--json"))
        del expected["mesh"]
        for axis, (ranks, more) in told["groups"].items():
            whole = expected["groups"][axis]
            self.assertEqual(len(ranks) + more, len(whole))
            told["groups"][axis] = whole if ranks == whole[: len(ranks)] else ranks
        self.assertEqual(told, expected)

    # --- Tests

    def test_tells_of_every_rank_what_the_command_tells(self):
        for words, ranks in MESHES:
            self.open(*words)
            for rank in ranks:
                with self.subTest(words=words, rank=rank):
                    self.assertEqual(self.find(str(rank)), f"rank {rank}")
                    self.assert_tells(words, rank)
                    # The rank is in the middle now, and a click selects it again.
                    self.browser.press("Escape")
                    self.assertIsNone(self.browser.text("#rank h2"))
                    self.browser.move(*self.middle(), press=True)
                    self.assert_tells(words, rank)
                    # By its coordinate it is the same rank.
                    coordinate = self.browser.text("#coordinate")
                    self.browser.press("Escape")
                    self.assertEqual(self.find(coordinate), f"rank {rank}")
                    self.assert_tells(words, rank)

    def test_is_the_same_however_it_is_arranged(self):
        for words, ranks in MESHES:
            if "--on" not in words:
                continue
            self.open(*words)
            self.browser.click("#arrange option[value=mesh]")
            for rank in ranks:
                with self.subTest(words=words, rank=rank):
                    self.find(str(rank))
                    self.browser.move(*self.middle(), press=True)
                    self.assert_tells(words, rank)

    def test_names_the_machine_that_has_a_name(self):
        self.open("dp=7 tp=2", "--on", "node[a01-a03]:4 node[b1]:3 gpu")
        for rank, name in ((0, "a01"), (4, "a02"), (11, "a03"), (12, "b1"), (13, "b1")):
            self.find(str(rank))
            self.assertEqual(self.browser.text("#unit"), name)
            self.assertTrue(self.browser.text("#status").endswith(" · " + name))

    def test_selects_the_rank_that_the_command_was_told(self):
        words = ["pp=4 dp=8 tp=8", "--on", "node:32 gpu:8"]
        self.open(*words, "--rank", "pp=1,dp=0,tp=3")
        self.assert_tells(words, 67)

    def test_loads_nothing_and_says_what_it_shows(self):
        self.open("pp=4 dp=8 tp=8", "--on", "node:32 gpu:8")
        self.assertEqual(self.browser.run("return performance.getEntriesByType('resource').length"), 0)
        self.assertEqual(self.browser.text("#mesh"), "pp=4 dp=8 tp=8")
        self.assertEqual(self.browser.text("#summary"), "256 ranks on node:32 gpu:8")
        self.assertEqual(self.browser.run("return document.title"), "pp=4 dp=8 tp=8")

    def test_colours_each_rank_by_its_index_on_the_axis_that_is_chosen(self):
        self.open("pp=2 dp=3 tp=8", "--on", "node:6 gpu:8")
        for rank in (0, 13, 30, 47):
            self.find(str(rank))
            coordinate = self.panel()["coord"]
            self.browser.press("Escape")
            for axis, size in (("pp", 2), ("dp", 3), ("tp", 8)):
                self.browser.click(f"#axes input[type=radio][value={axis}]")
                self.browser.painted()
                swatches = self.swatches()
                self.assertEqual([int(text) for text, _ in swatches], list(range(size)))
                self.assertEqual(len({color for _, color in swatches}), size)
                self.assertEqual(self.cell(), swatches[coordinate[axis]][1], (rank, axis))

    def test_colours_by_the_axis_that_the_command_was_told(self):
        self.open("pp=2 dp=2 tp=4", "--color-by", "dp")
        self.assertTrue(self.browser.run("return document.querySelector('#axes input[value=dp]').checked"))
        self.assertEqual([text for text, _ in self.swatches()], ["0", "1"])

    def test_lights_the_group_that_is_pointed_at_and_dims_the_others(self):
        self.open("a=2 b=2", "--on", "gpu:4")
        places, bright = self.places()
        for axes, groups in (("b", [{0, 1}, {2, 3}]), ("a", [{0, 2}, {1, 3}]), ("", [{0}, {1}, {2}, {3}])):
            for axis in "ab":
                if self.browser.run("return document.querySelector(arguments[0]).checked", f"#axes input[type=checkbox][value={axis}]") != (axis in axes):
                    self.browser.click(f"#axes input[type=checkbox][value={axis}]")
            for rank in range(4):
                self.browser.move(*places[f"rank {rank}"])
                lit = {other for other in range(4) if self.pixel(*places[f"rank {other}"]) in bright}
                self.assertEqual(lit, next(group for group in groups if rank in group), (axes, rank))
            self.browser.move(2, 2)
            for where in places.values():
                self.assertIn(self.pixel(*where), bright)

    def test_does_not_dim_the_groups_of_the_selected_rank(self):
        self.open("a=2 b=2", "--on", "gpu:4")
        places, bright = self.places()
        for rank, dimmed in ((0, 3), (1, 2), (3, 0)):
            self.browser.move(*places[f"rank {rank}"], press=True)
            self.browser.move(2, 2)
            self.browser.painted()
            seen = {other for other in range(4) if self.pixel(*places[f"rank {other}"]) in bright}
            self.assertEqual(seen, set(range(4)) - {dimmed})

    def test_rings_the_rank_that_the_command_was_told_among_a_million(self):
        # The most pixels in the colour of the text that lie in a square of 32.
        script = """const c = document.getElementById('map');
                    const bytes = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
                    const counts = new Map();
                    for (let i = 0; i < bytes.length; i += 4) {
                        if (Math.max(bytes[i], bytes[i + 1], bytes[i + 2]) > 60) continue;
                        const key = (((i / 4) % c.width) >> 5) + 1000 * (Math.floor(i / 4 / c.width) >> 5);
                        counts.set(key, (counts.get(key) ?? 0) + 1);
                    }
                    return Math.max(0, ...counts.values())"""
        words = ["pp=16 dp=8192 tp=8", "--on", "node:131072 gpu:8", "--color-by", "tp"]
        self.open(*words, "--rank", "500000")
        self.browser.painted()
        self.assert_tells(words[:3], 500000)
        self.assertGreater(self.browser.run(script), 60)
        self.browser.press("Escape")
        self.assertLess(self.browser.run(script), 60)

    def test_groups_of_several_axes_are_those_of_the_command(self):
        self.open("pp=2 dp=4 tp=4")
        self.find("13")
        self.assertIsNone(self.browser.text("#set"))
        self.browser.click("#axes input[type=checkbox][value=dp]")
        axes, notation = self.browser.text("#set").split(" ", 1)
        self.assertEqual(axes, "dp,tp")
        groups = json.loads(command("groups", "pp=2 dp=4 tp=4", "dp,tp", "--json"))["groups"]
        self.assertEqual(ranks_of(notation), (next(group for group in groups if 13 in group), 0))

    def test_goes_to_a_neighbour_that_is_clicked(self):
        words = ["pp=4 dp=8 tp=8", "--on", "node:32 gpu:8"]
        self.open(*words)
        self.find("67")
        self.browser.click("#rank button[aria-label='rank 131, the next along pp']")
        self.assert_tells(words, 131)

    def test_is_used_by_keys_alone(self):
        words = ["pp=2 dp=2 tp=2", "--on", "node:1 gpu:8"]
        self.open(*words)
        self.browser.press("Tab")
        self.assertEqual(self.browser.run("return document.activeElement.id"), "map")
        status = lambda: self.browser.text("#status").split(" · ")[0]  # noqa: E731
        self.browser.press("Right")
        self.assertEqual(status(), "rank 0")
        # Four columns, two rows; past an edge nothing moves.
        for key, rank in [("Right", 1), ("Down", 5), ("Down", 5), ("Left", 4), ("Left", 4), ("Up", 0), ("Up", 0)]:
            self.browser.press(key)
            self.assertEqual(status(), f"rank {rank}", key)
        self.browser.press("Right", "Enter")
        self.assert_tells(words, 1)
        self.browser.press("Escape")
        self.assertIsNone(self.browser.text("#rank h2"))
        self.assertEqual(self.browser.text("#status"), "")
        self.browser.press("/")
        self.assertEqual(self.browser.run("return document.activeElement.id"), "wanted")
        self.browser.press("6", "Enter")
        self.assert_tells(words, 6)

    def test_every_control_has_a_name_and_can_be_reached(self):
        self.open("pp=2 dp=2 tp=2", "--on", "node:1 gpu:8", "--rank", "5")
        script = """return [...document.querySelectorAll('canvas, button, input, select, [role=img]')].map((one) =>
                        one.getAttribute('aria-label') || one.labels?.[0]?.innerText || one.innerText)"""
        for name in self.browser.run(script):
            self.assertTrue(name)
        reached = set()
        for _ in range(30):
            self.browser.press("Tab")
            reached.add(self.browser.run("return document.activeElement.id || document.activeElement.tagName"))
        self.assertTrue({"map", "in", "out", "fit", "wanted", "arrange", "BUTTON", "INPUT", "SUMMARY"} <= reached, reached)

    def test_a_search_for_part_of_a_coordinate_counts_the_ranks(self):
        self.open("pp=4 dp=8 tp=8")
        self.assertEqual(self.find("pp=1"), "64 ranks: {64..127}")
        self.assertEqual(self.find("tp=3, pp=0"), "8 ranks: {3, 11, ..., 59}")

    def test_a_search_in_vain_says_why(self):
        self.open("pp=4 dp=8 tp=8")
        for text, answer in [
            ("256", "rank 256 is not in this mesh of 256 ranks up to 255"),
            ("-1", "'-1' is neither a rank nor an index such as pp=0"),
            ("<b>", "'<b>' is neither a rank nor an index such as pp=0"),
            ("ttp=0", "no axis 'ttp'; the axes are pp, dp, tp"),
            ("tp=8", "tp=8: indices of tp are 0 to 7"),
            ("tp=1 tp=2", "tp is given twice"),
            ("", "Type a rank such as 7, or a coordinate such as pp=0 dp=0 tp=0"),
        ]:
            self.assertEqual(self.find(text), answer)

    def test_drags_and_zooms_where_the_pointer_is(self):
        self.open("pp=16 dp=256 cp=2 tp=8", "--on", "rack:64 node:128 gpu:8")
        self.find("40000")
        self.browser.press("Escape")
        x, y = self.middle()
        pointed = lambda: self.browser.text("#status").split(" · ")[0]  # noqa: E731
        self.browser.move(x, y, press=True, to=(x - 150, y + 90))
        self.browser.move(x - 150, y + 90)
        self.assertEqual(pointed(), "rank 40000")
        for by in (-300, 120, -60):
            self.browser.wheel(x - 150, y + 90, by)
            self.browser.move(x - 150, y + 90)
            self.assertEqual(pointed(), "rank 40000")

        def ranks_on_a_line():
            seen = set()
            for at in range(0, int(2 * x), 20):
                self.browser.move(at, y + 90)
                seen.add(self.browser.text("#status"))
            return len(seen)

        near = ranks_on_a_line()
        self.browser.click("#out")
        self.browser.click("#out")
        self.assertGreater(ranks_on_a_line(), near)

    def test_shows_all_ranks_when_it_is_fitted(self):
        for words in (["pp=4 dp=8 tp=8"], ["dp=7", "--on", "node:1 gpu:7"]):
            self.open(*words)
            self.find("0")
            self.browser.click("#fit")
            self.browser.press("Escape")
            self.browser.painted()
            back = self.browser.run("return getComputedStyle(document.body).backgroundColor")
            script = """const c = document.getElementById('map'), [x, y, width, height] = arguments;
                        const bytes = c.getContext('2d').getImageData(x, y, width, height).data;
                        const colors = new Set();
                        for (let i = 0; i < bytes.length; i += 4) colors.add(`rgb(${bytes[i]}, ${bytes[i + 1]}, ${bytes[i + 2]})`);
                        return [...colors]"""
            width, height = self.browser.run("const c = document.getElementById('map'); return [c.width, c.height]")
            for edge in ((0, 0, width, 8), (0, height - 8, width, 8), (0, 0, 8, height), (width - 8, 0, 8, height)):
                self.assertEqual(self.browser.run(script, *edge), [back])
            # Nor is it small: it comes near two opposite edges.
            near = [self.browser.run(script, *edge) for edge in ((0, 0, 40, height), (0, 0, width, 40))]
            self.assertTrue(any(len(colors) > 1 for colors in near) or words[0] == "dp=7")

    def test_paints_the_ranks_at_every_scale(self):
        # The share of the canvas that has a colour, which frames and text have not.
        script = """const c = document.getElementById('map');
                    const bytes = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
                    let colored = 0;
                    for (let i = 0; i < bytes.length; i += 4)
                        colored += Math.max(...bytes.slice(i, i + 3)) - Math.min(...bytes.slice(i, i + 3)) > 40;
                    return colored / (c.width * c.height)"""
        for words in (["pp=8 dp=1 tp=4", "--on", "node:8 gpu:4"], ["pp=8 dp=9 tp=64", "--on", "rack:64 tray:18 gpu:4"], ["pp=8 dp=1024 tp=8"]):
            self.open(*words, "--color-by", "pp")
            self.browser.painted()
            x, y = self.middle()
            for step in range(9):
                with self.subTest(words=words, step=step):
                    self.assertGreater(self.browser.run(script), 0.1)
                self.browser.wheel(x + 3, y + 3, -250)

    def test_follows_light_and_dark(self):
        self.open("pp=2 dp=2 tp=2")
        seen = set()
        for scheme in ("light", "dark", "light"):
            self.browser.prefers(scheme)
            back = self.browser.run("return getComputedStyle(document.body).backgroundColor")
            self.assertEqual(self.pixel(2, 2), back)
            seen.add(back)
        self.assertEqual(len(seen), 2)


if __name__ == "__main__":
    COMMAND = sys.argv.pop(1)
    if trouble := webdriver.trouble():
        print("skipped: no browser to look at the page with: " + trouble)
        sys.exit(77)
    unittest.main()
