#!/usr/bin/env python3
"""The notebooks of examples/notebooks/, run by nbconvert: every cell shows what the text around it promises.

    examples.py COMMAND        (lockstep)
"""
import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import jupyter

jupyter.need("nbconvert", "jupyter_client")
import nbformat
from nbconvert.preprocessors import ExecutePreprocessor

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "notebooks")
PICTURE, CURVE, TABLE = "<image/png>", "<image/svg[+]xml>", "<text/html>"


def bar(steps):
    return r"^train 100%% \[=+\] %d/%d .*loss \d" % (steps, steps)


# What each code cell shows: regular expressions, each of which must be found; nothing where there are none. Text stands
# for itself, everything else for its richest form.
EXPECTED = {
    "first_cells": [["1.726667"], [TABLE], ["2 parameters"], [CURVE, "weight 3.00, bias 2.00"]],
    "crash": [["^70$"], ["Segmentation fault", "as it was before the cell"], ["^70$"],
              ["^rank 0 of 2: balance 60", "rank 1 of 2: balance 50"], ["^70$"]],
    "launch": [[], [],
               [CURVE, "^rank 0 of 2: 16 batches", r"^\[rank 1\] rank 1 of 2", "^slope 3.0, height 2.0",
                r"^\[rank 1\] slope 3.0, height 2.0", "^0$"],
               [], ["^a model of 10 numbers", r"^\[rank 1\] a model of 10 numbers", "^0$"], [],
               ["first cause: rank 1 .* was killed by SIGABRT", "restart 1 of 1", "^attempt 1 succeeds", "^0$"]],
    "mnist": [["drawn digits"], [], [], [PICTURE], ["9,098"], [], [CURVE, bar(40), r"epoch 2: ([89]\d|100)"],
              [PICTURE, TABLE], ["^0$"]],
    "glue": [[], [], ["320 reviews to learn from, 64 to test with", TABLE], [r"\d+ parameters"],
             [CURVE, r"epoch 3: accuracy (0.9|1)"], ["^0$"]],
    "pets": [["^600 pictures of 6 kinds of pets", "^0$"], ["^600 photos", "^0 abyssinian_cat", "^5 tortoise", PICTURE],
             [PICTURE], [], [], [],
             ["^Launching training on 2 CPUs", CURVE, bar(30), r"^epoch 0: \d", r"^epoch 9: [4-9]\d", "^0$"],
             ["resnet10t", "78,017"], [PICTURE, r"^images/goldfish_3.jpg: \w+ \(\d+ %\)"], ["^0$"]],
}


def shown(output):
    """One output of a cell as text."""
    if output.output_type == "stream":
        return output.text.rstrip("\n")
    if output.output_type == "error":
        return output.evalue
    rich = [form for form in output.data if form != "text/plain"]
    return "<%s>" % rich[0] if rich else output.data["text/plain"]


def run(name):
    """Run a notebook in a folder of its own; what each of its code cells shows."""
    notebook = nbformat.read(os.path.join(FOLDER, name + ".ipynb"), as_version=4)
    with tempfile.TemporaryDirectory() as place:
        ExecutePreprocessor(timeout=600, kernel_name="lockstep").preprocess(notebook, {"metadata": {"path": place}})
    return ["\n".join(map(shown, cell.outputs)) + "\n" for cell in notebook.cells if cell.cell_type == "code"]


class Examples(unittest.TestCase):
    def test_every_notebook_is_tested(self):
        self.assertEqual(sorted(os.listdir(FOLDER)), sorted(name + ".ipynb" for name in EXPECTED))

    def test_notebooks_are_stored_without_output(self):
        for name in EXPECTED:
            notebook = nbformat.read(os.path.join(FOLDER, name + ".ipynb"), as_version=4)
            nbformat.validate(notebook)
            self.assertFalse(any(cell.get("outputs") for cell in notebook.cells), name)

    def test_cells_show_what_they_promise(self):
        for name, expected in EXPECTED.items():
            cells = run(name)
            self.assertEqual(len(cells), len(expected), name)
            for number, (text, promises) in enumerate(zip(cells, expected), 1):
                place = "%s, code cell %d" % (name, number)
                self.assertEqual(bool(promises), bool(text.strip()), "%s shows:\n%s" % (place, text))
                for promise in promises:
                    self.assertRegex(text, re.compile(promise, re.M), place)


if __name__ == "__main__":
    command = sys.argv.pop(1)
    os.environ["PATH"] += ":" + os.path.join(os.path.dirname(os.path.abspath(command)), "examples")
    folder = jupyter.install(command)
    unittest.main(verbosity=1)
