#!/usr/bin/env python3
"""The notebooks of examples/notebooks/, run by nbconvert: what they show is what their text promises.

    examples.py COMMAND        (lockstep)
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import jupyter

jupyter.need("nbconvert", "jupyter_client")
import nbformat
from nbconvert.preprocessors import ExecutePreprocessor

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "notebooks")


def outputs(name):
    """Run a notebook; what each of its code cells shows, as text."""
    notebook = nbformat.read(os.path.join(FOLDER, name), as_version=4)
    ExecutePreprocessor(timeout=300, kernel_name="lockstep").preprocess(notebook, {})
    shown = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            shown.append("\n".join(str(o.get("text") or o.get("data") or o.get("evalue")) for o in cell.outputs))
    return shown


class Examples(unittest.TestCase):
    def test_every_notebook_is_tested(self):
        self.assertEqual(sorted(os.listdir(FOLDER)), ["crash.ipynb", "first_cells.ipynb"])

    def test_first_cells(self):
        mean, tensor, module, curve = outputs("first_cells.ipynb")
        self.assertIn("1.726667", mean)
        self.assertIn("[2,3] f32", tensor)
        self.assertIn("2 parameters", module)
        self.assertIn("image/svg+xml", curve)
        self.assertIn("weight 3.00, bias 2.00", curve)

    def test_crash(self):
        first, crash, after, launched, last = outputs("crash.ipynb")
        self.assertIn("70", first)
        self.assertIn("Segmentation fault", crash)
        self.assertIn("'70'", after)
        self.assertIn("rank 0 of 2: balance 60", launched)
        self.assertIn("rank 1 of 2: balance 50", launched)
        self.assertIn("'70'", last)


if __name__ == "__main__":
    folder = jupyter.install(sys.argv.pop(1))
    unittest.main(verbosity=1)
