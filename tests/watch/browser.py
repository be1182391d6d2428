"""browser.py LOCKSTEP - the page of `lockstep watch` in Chromium: curves grow while a run is recorded, controls work,
nothing in the logs runs. Skipped where playwright or Chromium is missing; PYTHON_TORCH may name an interpreter that has
playwright."""
import atexit
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

if importlib.util.find_spec("playwright") is None:
    other = os.environ.pop("PYTHON_TORCH", None)
    if other:
        os.execv(other, [other] + sys.argv)
    print("SKIP watch_browser: playwright is not installed")
    sys.exit(77)
chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if not chromium:
    print("SKIP watch_browser: there is no Chromium")
    sys.exit(77)

from playwright.sync_api import sync_playwright

lockstep = sys.argv[1]
passed = failed = 0


def check(name, right, detail=""):
    global passed, failed
    passed, failed = passed + bool(right), failed + (not right)
    if not right:
        print(f"FAIL {name}: {detail}")


def record(folder, name, steps, settings, begin=1):
    os.makedirs(f"{folder}/{name}", exist_ok=True)
    with open(f"{folder}/{name}/values.jsonl", "a") as file:
        for step in range(begin, begin + steps):
            row = {"step": step, "time": 1.79e9 + step / 2, "loss": 1 / step, "eval/<img src=x onerror=evil()>": step}
            file.write(json.dumps(row) + "\n")
    with open(f"{folder}/{name}/config.json", "w") as file:
        json.dump(settings, file)


def live(folder, name, waits):
    """Signs of life of two processes, one of which has been waiting for the other."""
    ranks = [{"rank": rank, "process": 40 + rank, "state": "running", "memory": 3 << 30, "waits": w,
              "last": "all-reduce sum of <i>5</i> f32 (ls_backward, call 7)"} for rank, w in enumerate((waits, 0))]
    status = {"state": "running", "error": None, "began": time.time() - 60, "time": time.time(), "host": "here", "world": 2,
              "step": 80, "steps_per_second": 2, "samples_per_second": 128, "device_memory": 1, "device_memory_peak": 2,
              "ranks": ranks, "checkpoints": [{"name": "checkpoint_3", "time": 1.79e9}]}
    with open(f"{folder}/{name}/status.part", "w") as file:
        json.dump(status, file)
    os.rename(f"{folder}/{name}/status.part", f"{folder}/{name}/status.json")
    with open(f"{folder}/{name}/system.jsonl", "w") as file:
        file.write('{"step": 80, "time": 1790000040, "memory MB": 6144}\n')


def wait_for(page, expression):
    """Until it is true. The page's policy forbids playwright's own way, which evaluates text in the page."""
    while not page.evaluate(expression):
        page.wait_for_timeout(50)


def try_bad_runs(page, folder):
    """One bad run after the other: each is named, and the others go on. Afterwards they are deleted."""
    strange = os.fsencode(folder) + b"/z\xff"
    for path in (strange, os.fsencode(folder) + b"/z\xfe"):
        os.mkdir(path)
        with open(path + b"/values.jsonl", "w") as file:
            file.write('{"step": 1, "loss": 7}\n')
    wait_for(page, "[...state.runs.values()].filter((run) => run.series).length === 4")
    check("names_that_are_not_utf8_are_told_apart", page.locator("#runs .name").all_inner_texts()[2:] == ["z\ufffd"] * 2)
    for wrong in ('{"ranks": [null], "checkpoints": []}', '"text"', json.dumps({
            "state": "running", "time": time.time(), "host": "here", "world": 1, "step": 1, "checkpoints": [],
            "ranks": [{"rank": 0, "process": 1, "state": "running", "memory": "much"}]})):
        before = page.evaluate("state.runs.get('z%FF').life") or ""
        with open(strange + b"/status.part", "w") as file:
            file.write(wrong)
        os.rename(strange + b"/status.part", strange + b"/status.json")
        wait_for(page, "(state.runs.get('z%FF').life || '') !== '" + before + "'")
        said = page.locator("#runs .state").all_inner_texts()[3]
        check("a_wrong_status_is_named", said == "status.json is not one of Lockstep's", said)
        check("the_others_go_on", page.locator("#pulse").inner_text() == "live")
    shutil.rmtree(strange)
    shutil.rmtree(os.fsencode(folder) + b"/z\xfe")
    wait_for(page, "state.runs.size === 2")
    wait_for(page, "state.charts.get('loss').curves.length === 2")
    check("runs_that_are_deleted_are_dropped", page.locator("#pulse").inner_text() == "live")


# The page's own curves, as it would draw them.
CURVES = "key => state.charts.get(key).curves.map(c => [c.name, c.x.length, c.line[c.line.length - 1]])"
# Pixels of a colour in a canvas: does the curve appear?
COLOURED = """([key, red, green, blue]) => {
    const canvas = state.charts.get(key).canvas, g = canvas.getContext("2d");
    const data = g.getImageData(0, 0, canvas.width, canvas.height).data;
    let count = 0;
    for (let i = 0; i < data.length; i += 4)
        count += Math.abs(data[i] - red) + Math.abs(data[i + 1] - green) + Math.abs(data[i + 2] - blue) < 40
                 && data[i + 3] > 100;
    return count;
}"""
WHERE = "key => { const r = state.charts.get(key).canvas.getBoundingClientRect(); return [r.x, r.y, r.width, r.height] }"


def try_page(page, folder):
    wait_for(page, "state.charts.has('loss')")
    check("both_runs_are_overlaid", page.evaluate(CURVES, "loss") == [["<b>bold</b>", 50, 1 / 50], ["plain", 50, 1 / 50]],
          page.evaluate(CURVES, "loss"))
    check("curves_are_drawn", page.evaluate(COLOURED, ["loss", 0xE8, 0x59, 0x0C]) > 100)
    check("names_are_text", page.locator("#runs b").count() == 0 and page.locator("img").count() == 0)
    check("names_are_shown", page.locator("#runs .name").all_inner_texts() == ["<b>bold</b>", "plain"])
    differing = page.locator("#tables tr.differs").all_inner_texts()
    check("settings_that_differ_are_marked", len(differing) == 1 and "0.001" in differing[0], differing)

    record(folder, "plain", 30, {"lr": 0.002, "note": "<script>evil()</script>"}, begin=51)
    wait_for(page, "state.charts.get('loss').curves[1].x.length === 80")
    check("curves_grow", True)

    try_bad_runs(page, folder)
    live(folder, "plain", 0.5)
    wait_for(page, "document.querySelectorAll('#tables td.good').length === 2")
    said = page.locator("#runs .state").all_inner_texts()[1]
    check("rates_are_shown", said == "step 80 · 128 samples/s", said)
    live(folder, "plain", 25)
    wait_for(page, "document.querySelectorAll('#tables td.bad').length === 1")
    row = page.locator("#tables tr:has(td.bad)").inner_text()
    check("a_rank_that_waits_is_marked", row.startswith("0\twaiting\t3 GB\t40\tall-reduce sum of <i>5</i> f32"), row)
    check("checkpoints_are_listed", "checkpoint_3" in page.locator("#tables").inner_text())
    check("memory_is_a_curve", page.evaluate(CURVES, "system/memory MB") == [["plain", 1, 6144]])
    page.locator("#runs input").first.uncheck()
    check("a_run_can_be_hidden", [c[0] for c in page.evaluate(CURVES, "loss")] == ["plain"])
    page.locator("#smooth").fill("0.9")
    check("smoothing_averages", page.evaluate(CURVES, "loss")[0][2] > 1.05 / 80, page.evaluate(CURVES, "loss"))
    page.locator("#smooth").fill("0")
    limits = page.evaluate("state.charts.get('loss').limits()")
    page.locator("#log-y").check()
    logarithmic = page.evaluate("state.charts.get('loss').limits()")
    check("the_axis_becomes_logarithmic", limits["y0"] < 0 < logarithmic["y0"], (limits, logarithmic))
    page.locator("#over").select_option("time")
    check("time_can_be_the_axis", abs(page.evaluate("state.charts.get('loss').limits().x1") - 39.5) < 0.01)
    page.locator("#over").select_option("step")

    x, y, width, height = page.evaluate(WHERE, "loss")
    page.mouse.move(x + width / 2, y + height / 2)
    check("the_pointer_shows_values", "plain" in page.locator("#tip").inner_text())
    page.mouse.down()
    page.mouse.move(x + width * 0.7, y + height / 2, steps=3)
    page.mouse.up()
    zoomed = page.evaluate("state.charts.get('loss').limits()")
    check("dragging_zooms", 20 < zoomed["x0"] < zoomed["x1"] < 70, zoomed)
    page.mouse.dblclick(x + width / 2, y + height / 2)
    check("a_double_click_shows_all", page.evaluate("state.charts.get('loss').limits().x1") == 80)

    page.locator("#find-key").fill("loss")
    check("values_can_be_found", page.locator("#charts .card").count() == 1)
    page.locator("#find-key").fill("")
    back = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(back)
    page.locator("#theme").click()
    check("it_can_be_dark", page.evaluate(back) != light)


def try_failed_requests(page, folder):
    """Of a run that is hidden: it is asked for again."""
    said = "document.querySelectorAll('#runs .state')[0].textContent"
    live(folder, "<b>bold</b>", 0)
    wait_for(page, said + " === 'step 80 · 128 samples/s'")
    page.route(lambda url: "api/status" in url, lambda route: route.fulfill(status=500))
    live(folder, "<b>bold</b>", 0)
    wait_for(page, said + " === 'the server answers 500'")
    page.unroute_all()
    wait_for(page, said + " === 'step 80 · 128 samples/s'")
    check("a_failed_request_is_repeated", True)


def try_exported(page, path):
    page.goto("file://" + os.path.abspath(path))
    check("the_file_shows_the_same", page.evaluate(CURVES, "loss")[1] == ["plain", 80, 1 / 80])
    check("the_file_names_its_time", page.locator("#pulse").inner_text().startswith("as of "))


with tempfile.TemporaryDirectory() as folder, sync_playwright() as p:
    record(folder, "plain", 50, {"lr": 0.002, "note": "<script>evil()</script>"})
    record(folder, "<b>bold</b>", 50, {"lr": 0.001, "note": "<script>evil()</script>"})
    server = subprocess.Popen([lockstep, "watch", folder, "--port", "0"], stdout=subprocess.PIPE, text=True)
    atexit.register(server.kill)  # also after a failure here
    address = server.stdout.readline().strip()
    browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    complaints = []
    page = browser.new_page(color_scheme="light")
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: complaints.append(str(e)))
    page.goto(address)
    try_page(page, folder)
    exported = os.path.join(folder, "page.html")
    check("a_page_is_exported", subprocess.run([lockstep, "watch", folder, "--export", exported]).returncode == 0)
    check("the_browser_has_no_complaints", not complaints, complaints)
    try_failed_requests(page, folder)
    server.terminate()
    check("a_signal_ends_it_cleanly", server.wait() == 0)
    wait_for(page, "document.getElementById('pulse').className === 'gone'")
    complaints.clear()
    try_exported(page, exported)
    check("the_browser_has_no_complaints_about_the_file", not complaints, complaints)
    browser.close()

print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed != 0)
