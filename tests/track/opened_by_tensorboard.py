"""opened_by_tensorboard.py PROGRAM - TensorBoard itself reads what a tracker writes: numbers, text, pictures, histograms,
hyperparameters. Skipped where it is not installed; PYTHON_TORCH may name an interpreter that has it."""
import importlib.util
import json
import logging
import os
import struct
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

if importlib.util.find_spec("tensorboard") is None:
    other = os.environ.pop("PYTHON_TORCH", None)
    if other:
        os.execv(other, [other] + sys.argv)
    print("SKIP track_tensorboard: tensorboard is not installed")
    sys.exit(77)
logging.disable(logging.WARNING)
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "*"

from tensorboard import default, program

passed = failed = 0


def check(name, right, detail=""):
    global passed, failed
    passed, failed = passed + bool(right), failed + (not right)
    if not right:
        print(f"FAIL {name}: {detail}")


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.argv[1], folder], check=True)
    board = program.TensorBoard(default.get_plugins())
    board.configure(argv=[None, "--logdir", folder, "--port", "0", "--load_fast", "false", "--reload_interval", "0"])
    address = board.launch()

    def ask(path, body=None, **query):
        url = urllib.parse.urljoin(address, "data/plugin/" + path) + ("?" + urllib.parse.urlencode(query) if query else "")
        data = json.dumps(body).encode() if body is not None else None
        with urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "application/json"})) as answer:
            return answer.read()

    while "one" not in json.loads(ask("scalars/tags")):  # it reads the folder in a thread
        pass
    scalars = [row[1:] for row in json.loads(ask("scalars/scalars", run="one", tag="loss"))]
    check("numbers", [s for s, _ in scalars] == [0, 1, 2] and abs(scalars[2][1] - 1 / 3) < 1e-6, scalars)
    text = json.loads(ask("text/text", run="one", tag="note"))
    check("text", len(text) == 1 and "<em>text</em>" in text[0]["text"], text)
    images = json.loads(ask("images/images", run="one", tag="samples", sample=0))
    check("a_picture_has_its_step", [i["step"] for i in images] == [2], images)
    png = ask("images/individualImage?" + images[0]["query"]) if images else b""
    check("a_picture_is_a_png", png[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", png[16:24]) == (18, 8))
    histogram = json.loads(ask("histograms/histograms", run="one", tag="weights"))
    bins = histogram[0][2] if histogram else []
    check("histograms", abs(sum(count for _, _, count in bins) - 48) < 1e-6 and bins[0][0] <= 0 and bins[-1][1] >= 1, bins)
    wanted = {"experimentName": "", "allowedStatuses": ["STATUS_SUCCESS", "STATUS_UNKNOWN", "STATUS_FAILURE",
              "STATUS_RUNNING"], "colParams": [], "startIndex": 0, "sliceSize": 10}
    groups = json.loads(ask("hparams/session_groups", wanted)).get("sessionGroups", [])
    check("hyperparameters", len(groups) == 1 and groups[0]["hparams"] == {"lr": 0.25, "batch": 64, "model": "small cnn"},
          groups)

print(f"{passed} passed, {failed} failed, 0 skipped")
os._exit(failed != 0)  # its server has threads of its own
