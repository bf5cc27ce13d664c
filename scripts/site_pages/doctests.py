# SPDX-License-Identifier: Apache-2.0
"""An extension of griffe: the doctests of a docstring become fenced code."""

import re

import griffe

DOCTEST = re.compile(r"^( *)>>> .*(?:\n(?!\s*\n|\s*$).+)*", re.M)


def fenced(text):
    return DOCTEST.sub(lambda found: f"```pycon\n{re.sub(r'  # doctest:.*', '', found[0])}\n```", text)


class Doctests(griffe.Extension):
    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
