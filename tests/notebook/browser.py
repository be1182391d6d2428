#!/usr/bin/env python3
"""A person with a browser: opens Jupyter, chooses "C (Lockstep)", and goes through the pets notebook.

    browser.py COMMAND [PICTURE]        (lockstep; where to write a picture of the notebook)

Skipped where JupyterLab, playwright or Chromium is missing.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import jupyter

jupyter.need("jupyterlab", "playwright")
from playwright.sync_api import sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NOTEBOOKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "notebooks")
CURVE = ".jp-RenderedSVG"
MINUTES = 10 * 60 * 1000 # milliseconds: for busy machines


class Server:
    """JupyterLab in a folder of its own."""

    def __init__(self, folder):
        # Cells out of sight shall be in the page, too, and no question about news in front of it.
        for name, setting in (("notebook-extension/tracker", '{"windowingMode": "none"}'),
                              ("apputils-extension/notification", '{"fetchNews": "false"}')):
            path = "%s/settings/@jupyterlab/%s.jupyterlab-settings" % (folder, name)
            os.makedirs(os.path.dirname(path))
            with open(path, "w") as file:
                file.write(setting)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=0", "--IdentityProvider.token=",
             "--ServerApp.root_dir=" + folder],
            stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, HOME=folder, JUPYTER_CONFIG_DIR=folder + "/config",
                     JUPYTERLAB_SETTINGS_DIR=folder + "/settings"))
        for line in self.process.stderr:
            if "http://localhost:" in line:
                self.url = line[line.index("http://"):].split()[0].split("/lab")[0]
                break

    def end(self):
        self.process.terminate()
        self.process.communicate()


class Browser(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.server = Server(self.folder.name)
        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        self.page = self.browser.new_page(viewport={"width": 1200, "height": 1400})
        self.page.set_default_timeout(MINUTES)

    def tearDown(self):
        self.browser.close()
        self.playwright.stop()
        self.server.end()
        self.folder.cleanup()

    def test_a_new_notebook_runs_c(self):
        self.page.goto(self.server.url + "/lab")
        self.page.locator('.jp-LauncherCard[data-category="Notebook"][title="C (Lockstep)"]').click()
        self.page.locator(".jp-Notebook .cm-content").first.click()
        self.page.keyboard.type("6 * 7")
        self.page.keyboard.press("Shift+Enter")
        output = self.page.locator(".jp-OutputArea-executeResult .jp-OutputArea-output").first
        output.wait_for()
        self.assertEqual(output.inner_text().strip(), "42")

    def prompt(self, cell):
        return cell.locator(".jp-InputPrompt").inner_text().strip()

    def begin(self, cell):
        """Shift-Enter; again where it came before the kernel was ready."""
        while self.prompt(cell) == "[ ]:":
            cell.locator(".cm-content").click(position={"x": 2, "y": 2})
            self.page.keyboard.press("Shift+Enter")
            self.page.wait_for_timeout(500)

    def test_the_pets_notebook_goes_through(self):
        shutil.copy(os.path.join(NOTEBOOKS, "pets.ipynb"), self.folder.name)
        self.page.goto(self.server.url + "/doc/tree/pets.ipynb")
        self.page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
        cells = self.page.locator(".jp-Notebook .jp-CodeCell")
        launched = cells.filter(has_text="ls_launch(train, &mine")
        with open(os.path.join(NOTEBOOKS, "pets.ipynb")) as file:
            count = sum(cell["cell_type"] == "code" for cell in json.load(file)["cells"])
        while cells.count() < count: # the page fills up
            self.page.wait_for_timeout(100)
        for i in range(count):
            self.begin(cells.nth(i))
            if "ls_launch" in cells.nth(i).inner_text():
                self.page.locator(CURVE).wait_for()
                self.assertEqual(self.prompt(launched), "[*]:", "the curve is there while the training runs")
            while self.prompt(cells.nth(i)) == "[*]:":
                self.page.wait_for_timeout(100)
        for words in ("Launching training on 2 CPUs.", "train 100%", "epoch 9: "):
            self.assertIn(words, launched.inner_text())
        if PICTURE:
            launched.scroll_into_view_if_needed()
            self.page.wait_for_timeout(1000)
            self.page.screenshot(path=PICTURE)
        self.assertEqual(cells.filter(has_text="const char *photos").locator("img").count(), 3)
        self.assertTrue(os.path.exists(self.folder.name + "/pets_model/model.safetensors"))


if __name__ == "__main__":
    command = os.path.abspath(sys.argv.pop(1))
    PICTURE = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].endswith(".png") else None
    if not CHROMIUM:
        print("SKIP browser.py: there is no Chromium")
        sys.exit(77)
    os.environ["PATH"] += ":" + os.path.join(os.path.dirname(command), "examples")
    folder = jupyter.install(command)
    unittest.main(verbosity=1)
