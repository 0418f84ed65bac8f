#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The numbers of the README: read from stores, part by part, frozen in golden/numbers.json; the README's section is a
function of that file. What stands there was measured, or the check fails. ci/numbers calls it.

usage: readme.py runs RUN_DB RATE_DB | draws GRID_DB INIT_DB ALONE_DB | curves DB | peers DB | scale JSON |
                  hosted DB JSON | planner JSON | fsdp JSON | step WEAK_JSON STRONG_JSON |
                  mutants ENGINE_JSON JUDGE_JSON | worlds LOCAL_DB GLOO_DB |
                  optimizers ADAMW_DB ADAMW_8BIT_DB MUON_DB | ablation JSON BENCH_DB | zoo LLAMA_DB MIXTRAL_DB GPT2_DB |
                  dispatch TURNS_DB COUNTED_DB REDUCTIONS_DB | training BENCH_DB TURNS_JSON
                                    of a part: writes golden/numbers.json and README.md, the other parts stay
       readme.py render            writes README.md from golden/numbers.json; nothing is measured
       readme.py check             1 if the README is not what golden/numbers.json renders to"""
import json, math, pathlib, re, sqlite3, sys
from statistics import median
from urllib.parse import quote
import dispatch_numbers, mutant_numbers, optimizer_numbers, training_numbers, zoo_numbers

ROOT = pathlib.Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- numbers:begin -->\n", "<!-- numbers:end -->"
NEWEST = " WHERE run_id = (SELECT max(run_id) FROM v_summary)"


class Missing(Exception):
    """A store does not hold what the README needs."""


class Store:
    """The views of a database; rows are dictionaries."""
    def __init__(self, path):
        self.path = path
        self.db = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
        self.db.row_factory = sqlite3.Row

    def rows(self, query, *values):
        return [dict(row) for row in self.db.execute(query, values)]

    def some(self, query, what):
        return self.rows(query) or self.lacks(what)

    def one(self, query):
        found = self.rows(query)
        return found[0] if len(found) == 1 else self.lacks(query)

    def lacks(self, what):
        raise Missing(f"{self.path} does not hold what the README needs: {what}")

    def machine(self):
        return {name: self.one(f"SELECT value FROM v_environment{NEWEST} AND name = '{name}'")["value"]
                for name in ("processor", "cores", "libtorch", "commit")}

    def command_and_commit(self):
        return {**self.one("SELECT command FROM v_summary" + NEWEST), "commit": self.machine()["commit"]}


# Measuring: each takes the newest run of its stores.

def measure_runs(run_path, rate_path):
    run, rate = Store(run_path), Store(rate_path)
    return {"machine": run.machine(),
            "run": run.one("SELECT command, seed, cases, self_checks, seconds, ops, equal, explained, "
                           "expected_exceptions, failures FROM v_summary" + NEWEST),
            "faults": run.one("SELECT count(*) AS planted, sum(found) AS found, max(cases) AS most_cases, "
                              f"max(shrunk_ops) AS largest_shrunk FROM v_faults{NEWEST} HAVING count(*) > 0"),
            "rate": rate.one("SELECT s.command, t.value FROM v_summary s JOIN v_throughput t USING (run_id)" + NEWEST +
                             " AND t.kind = 'measurement' AND t.name = 'cases per second per core'")}


# The columns of the grid: tensors of at most so many float32. Uneven tensors are a little smaller than their size.
GRID_SIZES = {"to 128 KB": 2**15, "262 KB": 2**16, "64 MB": 2**24, "1 GB": 2**28, "16 GB": 2**32}


def elements_of(token):
    """Of the first input of a token: "x0=f32[64x32]:…"."""
    return math.prod(map(int, re.search(r"x0=\w+\[([\dx]+)\]", token)[1].split("x")))


def grid_rows(store):
    counts = {}
    # A case's text is not in a view: renderers of runs have no use for it.
    for row in store.some("SELECT ops, token, verdict FROM cases WHERE suite = 'grid' AND run = (SELECT max(run_id) "
                          "FROM v_summary) ORDER BY id", "a case of the suite grid"):
        size = next(name for name, most in GRID_SIZES.items() if elements_of(row["token"]) <= most)
        cell = counts.setdefault(row["ops"], {}).setdefault(size, {"cases": 0, "equal": 0})
        cell["cases"] += 1
        cell["equal"] += row["verdict"] == "equal"
    return counts


def init_rows(store):
    """Measurements named "init llama tiny tp:8 | policy | quantity"."""
    found = {}
    for row in store.some("SELECT name, value FROM v_throughput" + NEWEST +
                          " AND kind = 'measurement' AND name LIKE 'init %'", "a run of lockstep init"):
        _, policy, quantity = row["name"].split(" | ", 2)
        found.setdefault(policy, {})[quantity] = row["value"]
    return found


def measure_draws(grid, init, alone):
    return {name: {**store.command_and_commit(), "rows": rows(store)} for name, store, rows in (
        ("grid", Store(grid), grid_rows), ("init", Store(init), init_rows), ("alone", Store(alone), init_rows))}


def measure_curves(path):
    store = Store(path)
    found = {**store.command_and_commit(), "rows": store.some(
        "SELECT mesh, policy, variant, steps, identical_prefix, first_differing_step, max_loss_ulp, max_loss_abs, "
        f"max_grad_norm_ulp, max_grad_norm_abs FROM v_curve_diff{NEWEST} "
        "ORDER BY variant, policy DESC, length(mesh), mesh", "a run of lockstep curves")}
    if (ROOT / "golden/curves.png").exists():
        found["picture"] = "golden/curves.png"
    return {"curves": found}


def measure_peers(path):
    store, rows = Store(path), []
    for s in store.rows(f"SELECT series, unit, better FROM v_series{NEWEST} ORDER BY area, series"):
        ours, theirs = ([x["value"] for x in store.db.execute(
            f"SELECT value FROM v_samples{NEWEST} AND series = ? AND arm = ?", (s["series"], arm))]
            for arm in ("candidate", "baseline"))
        if ours and theirs:
            rows.append({**s, "ours": median(ours), "theirs": median(theirs)})
    return {"peers": {"machine": store.machine(), "rows": rows or store.lacks("a run of ci/peers")}}


def measure_scale(path):
    return {"scale": json.loads(pathlib.Path(path).read_text())}


def measure_worlds(local, gloo):
    """Cases a second of one worker: in one thread, and in processes."""
    stores = Store(local), Store(gloo)
    return {"worlds": {"machine": stores[0].machine(), "rows": [
        {**store.command_and_commit(), **store.one(
            f"SELECT value FROM v_throughput{NEWEST} AND kind = 'measurement' AND name = 'cases per second per core'")}
        for store in stores]}}


# suites/bench/scaling.cpp
STEP = re.compile(r"hosted ranks, (?P<way>[a-z ]+), (?P<ranks>\d+) of them: a step")


def measure_optimizers(adamw, adamw_8bit, muon):
    return {"optimizers": optimizer_numbers.measure(
        {"adamw": Store(adamw), "adamw-8bit": Store(adamw_8bit), "muon": Store(muon)})}


def measure_zoo(llama, mixtral, gpt2):
    return {"zoo": zoo_numbers.measure({"llama": Store(llama), "mixtral": Store(mixtral), "gpt2": Store(gpt2)})}


def measure_dispatch(turns, counted, reductions):
    return {"dispatch": dispatch_numbers.measure(Store(turns), Store(counted), Store(reductions))}


def measure_training(bench, turns):
    return {"training": training_numbers.measure(Store(bench), json.loads(pathlib.Path(turns).read_text()))}


def measure_ablation(turns, bench):
    return {"ablation": optimizer_numbers.measure_ablation(json.loads(pathlib.Path(turns).read_text()), Store(bench))}


def measure_hosted(path, facts):
    """`facts`: JSON of what is not in a store, [[what, number, unit, goal], …]."""
    store = Store(path)
    medians = {s["series"]: median(x["value"] for x in store.rows(
        f"SELECT value FROM v_samples{NEWEST} AND series = ?", s["series"]))
               for s in store.some(f"SELECT series FROM v_series{NEWEST} ORDER BY area DESC, series",
                                   "a run of lockstep bench --series 'hosted ranks'")}
    steps = {name: value for name, value in medians.items() if STEP.fullmatch(name)}
    rows = [[name, value, "", 1.15 if "exponent" in name else 1.5]
            for name, value in medians.items() if name not in steps]
    return {"hosted": {**store.command_and_commit(), "machine": store.machine(), "steps": steps,
                       "rows": rows + json.loads(pathlib.Path(facts).read_text())}}


SHOWN_RANKS = (8, 64, 256, 512, 1024)


def measure_planner(path):
    """A line a plan: the model, whose plan, and the padding at SHOWN_RANKS, beside what no order can go below, and
    that of the group that has most."""
    planner = json.loads(pathlib.Path(path).read_text())

    def cell(at):
        if at["padding"] is None:
            return "refused"
        text, least = f"{at['padding']:.2%}", f"{at.get('least', at['padding']):.2%}"
        worst = f"{at.get('worst', at['padding']):.2%}"
        return text + (f" ({least})" if text != least else "") + (f", worst {worst}" if text != worst else "")
    return {"planner": {**planner, "rows": [
        [row["model"], row["of"], *(cell(at) for at in row["at"] if at["ranks"] in SHOWN_RANKS)]
        for row in planner["rows"]]}}


def measure_fsdp(path):
    return {"fsdp": json.loads(pathlib.Path(path).read_text())}


def measure_step(weak, strong):
    """Answers of lockstep show buffer --step --scaling --calibrate."""
    return {"step": [json.loads(pathlib.Path(path).read_text()) for path in (weak, strong)]}


def measure_mutants(engine, judge):
    return {"mutants": {"engine": json.loads(pathlib.Path(engine).read_text()),
                        "judge": json.loads(pathlib.Path(judge).read_text())}}


# Rendering: Markdown, without the markers.

def table(head, rows, left=1):
    cells = [head, ["---"] * left + ["--:"] * (len(head) - left), *rows]
    return "".join("|" + "|".join(row) + "|\n" if row is cells[1] else "| " + " | ".join(row) + " |\n" for row in cells)


def command_of(part):
    """As a reader would type it: where the store was written is of no interest."""
    return f"`{part['command'].split(' --db ')[0]}`"


def command_and_commit(numbers, part):
    """A part's command, and the commit that it was measured at, where that is not the one the section begins with."""
    commit = numbers[part].get("commit", numbers["machine"]["commit"])
    return command_of(numbers[part]) + (f", commit {commit[:12]}" if commit != numbers["machine"]["commit"] else "")


def run_section(numbers):
    run, faults = numbers["run"], numbers["faults"]
    return table(["what", "number"], [
        [f"{command_of(run)}, seed {run['seed']}", f"{run['cases'] + run['self_checks']:,} generated cases over "
         f"{run['ops']} operators in {run['seconds']:.0f} s"],
        ["equal, bit for bit", f"{run['equal']:,}"],
        ["different, and explained by both proofs", f"{run['explained']:,}"],
        ["on the list of exceptions", f"{run['expected_exceptions']:,}"],
        ["unexplained differences, crashes, hangs", f"{run['failures']:,}"],
        ["planted faults found", f"{faults['found']} of {faults['planted']}, each within {faults['most_cases']:,} "
         f"cases, shrunk to at most {faults['largest_shrunk']} operators"],
        [command_of(numbers["rate"]), f"{numbers['rate']['value']:.0f} cases a second and core"]], 2) + "\n"


def brief(x):
    return f"{x:.3g}" if x < 1000 else f"{int(x + 0.5):,}"


def peers_section(numbers):
    if "peers" not in numbers:
        return ""
    rows = [[p["series"], f"{brief(p['ours'])} {p['unit']}", f"{brief(p['theirs'])} {p['unit']}",
             f"{p['ours'] / p['theirs'] if p['better'] == 'more' else p['theirs'] / p['ours']:.1f}"]
            for p in numbers["peers"]["rows"]]
    return ("`ci/peers`: this engine and PyTorch's own DTensor of the same version, in turns on "
            f"{numbers['peers']['machine']['processor']}. Dispatch is what an op takes above the plain op, each in its "
            "own language; a small case is three ops against one device, with all ranks hosted (LocalTensorMode "
            "there).\n\n"
            + table(["what", "Lockstep", "PyTorch", "better by"], rows) + "\n")


def farthest(ulp, distance):
    """How far a curve lies from its reference; None where a side is not a number."""
    return ["NaN" if ulp is None else f"{ulp:,}", "NaN" if distance is None else f"{distance:.3g}"]


def curve_section(numbers):
    curves = numbers["curves"]
    norms = "max_grad_norm_ulp" in curves["rows"][0]  # numbers from before they were read have none
    head = ["mesh", "random policy", "of", "steps with equal bits", "first difference", "loss: largest ulp",
            "largest difference"] + (["gradient norm: largest ulp", "largest difference"] if norms else [])
    rows = [[c["mesh"], c["policy"], c["variant"], f"{c['identical_prefix']} of {c['steps']}",
             "none" if c["first_differing_step"] is None else f"step {c['first_differing_step']}",
             *farthest(c["max_loss_ulp"], c["max_loss_abs"]),
             *(farthest(c["max_grad_norm_ulp"], c["max_grad_norm_abs"]) if norms else [])] for c in curves["rows"]]
    indexed = any(c["policy"] == "indexed" for c in curves["rows"])
    text = (command_and_commit(numbers, "curves")
            + ": the loss against one device, plain libtorch on the same random stream"
            + ("; under the indexed policy, one device on the indexed numbers" if indexed else "")
            + ". Equal bits and the first difference are of loss and gradient norm together.\n\n")
    if "picture" in curves:
        text += ("![Loss under each random policy and its distance from one device: first values alone, dropout alone, "
                 f"both, indexed numbers]({curves['picture']})\n\n")
    return text + table(head, rows, 3) + "\n"


def draws_section(numbers):
    none = {"cases": 0, "equal": 0}
    grid = [[f"`{op}`"] + ["{equal} of {cases}".format(**cells.get(size, none)) for size in GRID_SIZES]
            for op, cells in numbers["grid"]["rows"].items()]
    init = [[policy, f"{int(row['elements that differ']):,}", f"{int(row['elements']):,}",
             f"{row['largest difference']:.3g}", f"{row['mean']:.2g}", f"{row['deviation']:.4f}"]
            for policy, row in numbers["init"]["rows"].items() if "deviation" in row]
    ranks = [row for row in numbers["alone"]["rows"].values() if "held" in row]
    held, most, seconds = (max(row[name] for row in ranks) for name in ("held", "most ever held", "time"))
    different = sum(row["parameters that differ"] for row in ranks)
    return (command_and_commit(numbers, "grid") + ": cases equal bit for bit, in 1 to 5 dimensions, each dimension cut "
            "and each pair, evenly and not. Up to 128 KB whole, under devices of one and two blocks; beyond by "
            "samples, under 132x2048.\n\n" + table(["operator", *GRID_SIZES], grid) + "\n"
            + command_and_commit(numbers, "init") + ": the model's first values against one device.\n\n"
            + table(["random policy", "elements that differ", "of", "largest difference", "mean", "deviation"], init)
            + "\n" + command_and_commit(numbers, "alone")
            + f": each of the {len(ranks)} ranks, drawn alone, holds up to "
            f"{held / 1e9:.2f} GB, at most {most / 1e9:.2f} GB at once, in up to {seconds:.0f} s; {different:.0f} "
            "parameters differ from one device.\n\n")


def scale_section(numbers):
    if "scale" not in numbers:
        return ""
    scale = numbers["scale"]
    rows = [[row["what"], f"{row['seconds']:.1f}", f"{row['mib']:.0f} MiB"] for row in scale["rows"]]
    rows.append(["the dashboard's slowest page", f"{scale['slowest_page_ms'] / 1000:.2f}",
                 f"{scale['server_mib']:.0f} MiB"])
    return f"`ci/serve_bench`: a database of {scale['cases']:,} cases.\n\n" + table(
        ["what", "seconds", "memory"], rows) + "\n"


def steps_table(steps):
    """How many ranks one process hosts, by how they share the work: milliseconds of processor time of a step."""
    told = {name: STEP.fullmatch(name) for name in steps}
    ways = sorted({m["way"] for m in told.values()}, key=[m["way"] for m in told.values()].index)
    at = {(m["way"], int(m["ranks"])): steps[name] for name, m in told.items()}
    return table(["ranks", *(f"{way}, ms" for way in ways)],
                 [[f"{n:,}", *(f"{at[way, n]:,.1f}" if (way, n) in at else "-" for way in ways)]
                  for n in sorted({n for _, n in at})])


def hosted_section(numbers):
    if "hosted" not in numbers:
        return ""
    rows = [[what, f"{value:.3g} {unit}".strip(), f"at most {goal:g} {unit}".strip(), "yes" if value <= goal else "no"]
            for what, value, unit, goal in numbers["hosted"]["rows"]]
    return (command_and_commit(numbers, "hosted") + ": one process that hosts many ranks. The model, or its batch, "
            "grows with the ranks; an exponent of 1 is a step whose processor time grows as they do.\n\n"
            + table(["what", "measured", "goal", "met"], rows)
            + "\nThe processor time of one step, all ranks together.\n\n"
            + steps_table(numbers["hosted"]["steps"]) + "\n")


def milliseconds(ms):
    return f"{ms:,.0f} ms" if ms >= 10 else f"{ms:.2g} ms"


def planner_section(numbers):
    if "planner" not in numbers:
        return ""
    planner = numbers["planner"]
    goals = [[what, f"{worst:.2%}", f"at most {goal:.0%}", "yes" if worst <= goal else "no"]
             for what, worst, goal in planner["goals"]]
    for what, ms, goal in [
            ("slowest plan, equal groups once", max(one["ms"] for one in planner["times"]), 5),
            ("slowest plan, each group by itself", max(one["each_ms"] for one in planner["times"]), 30),
            ("500 groups like DeepSeek-V3's on 131,072 ranks, from its 62", planner["many_groups_ms"], 2000)]:
        goals.append([what, milliseconds(ms), f"below {goal:,} ms", "yes" if ms < goal else "no"])
    times = [[one["model"], milliseconds(one["ms"]), milliseconds(one["each_ms"])] for one in planner["times"]]
    return ("`lockstep show buffer`: the padding of the buffers that ranks share evenly, a layer each, where no rank "
            "cuts a block of so many rows of the experts' matrices (without experts the MLPs'); in brackets what no "
            "order of the tensors can go below, where that is less. Below, what others make of the same layers: FSDP2 "
            "and megatron-fsdp keep rows, of GPT-OSS's stacked experts an expert each, the others nothing. "
            "worst: of the group that has most, where that is more. "
            "Beside the best order of the same tensors, "
            f"their own may need {planner['against_all_orders']['ratio']:.1f} times as much: "
            f"`{planner['against_all_orders']['command']}`.\n\n"
            + table(["model", "blocks", *(f"{ranks:,} ranks" for ranks in SHOWN_RANKS)], planner["rows"], 2) + "\n"
            + table(["8 to 1,024 ranks", "worst", "goal", "met"], goals)
            + "\nThe slowest plan of each model, of 8 to 1,024 ranks.\n\n"
            + table(["model", "equal groups once", "each by itself"], times) + "\n")


def fsdp_section(numbers):
    if "fsdp" not in numbers:
        return ""
    rows, goals = [], []
    for row in numbers["fsdp"]["rows"]:
        mesh, share = f"fsdp:{row['ranks']}", row["ours_bytes"] / row["theirs_bytes"]
        rows.append([mesh, f"{row['ours_ms']:.0f} ms", f"{row['theirs_ms']:.0f} ms", f"{row['ratio']:.2f}",
                     f"{row['ours_bytes'] / 1e6:.1f} MB", f"{row['theirs_bytes'] / 1e6:.1f} MB"])
        goals += [[mesh + ", time", f"{row['ratio']:.2f}", "at most 1", "yes" if row["ratio"] <= 1 else "no"],
                  [mesh + ", memory", f"{share:.2f}", "below 1", "yes" if share < 1 else "no"]]
    turns = f"{numbers['fsdp']['rounds']} turns of {numbers['fsdp']['steps']} steps"
    return ("A training step of `lockstep train llama --world gloo --numerics fast --dropout 0` and of the same model "
            f"under PyTorch's FSDP2 over gloo, in {turns}: forward, backward, clipping and AdamW, a process a rank, "
            "one thread each. Memory: the most bytes that tensors of one rank held at once, by Lockstep's counter and "
            "by `FSDPMemTracker`; what either has on its way through gloo is not counted.\n\n"
            + table(["mesh", "Lockstep", "FSDP2", "ratio", "Lockstep's memory", "FSDP2's"], rows) + "\n"
            + table(["of FSDP2", "ratio", "goal", "met"], goals) + "\n")


def step_section(numbers):
    if "step" not in numbers:
        return ""
    runs = [[f"{c['ranks']} ranks", f"{1e3 * c['predicted_seconds']:.0f} ms", f"{1e3 * c['measured_seconds']:.0f} ms",
             f"{c['error']:.1%}", f"at most {c['goal']:.0%}", "yes" if c["met"] else "no"]
            for c in (step["calibration"] for step in numbers["step"])]
    text = ("`lockstep show buffer --step --calibrate`: a training step of a small LLaMA under `fully_shard`, all "
            "ranks in one thread, predicted from steps on 4 and 8 ranks, and measured. Bytes and memory are predicted "
            "exactly; a test says so.\n\n"
            + table(["run", "predicted", "measured", "off by", "goal", "met"], runs) + "\n")
    for step in numbers["step"]:
        rows = [[f"{row['ranks']:,}", f"{row['tokens']:,.0f}", f"{row['rank_bytes'] / 1e9:.1f} GB",
                 f"{row['peak_bytes'] / 1e9:.1f} GB", f"{row['efficiency']:.0%}"] for row in step["scaling"]["rows"]]
        text += (f"**Prediction, nothing of it was run**: {step['scaling']['kind']} scaling of {step['model']}, shards "
                 f"in {step['dtype']}, gathered in {step['param_dtype']}, gradients reduced in {step['reduce_dtype']}. "
                 "What the busiest rank sends, what the fullest holds without activations and moments, and tokens a "
                 "second and rank against those on 8, of ranks with a core like this one and without a network.\n\n"
                 + table(["ranks", "tokens of a rank", "bytes of a rank", "memory", "efficiency"], rows) + "\n")
    return text


def worlds_section(numbers):
    if "worlds" not in numbers:
        return ""
    local, gloo = numbers["worlds"]["rows"]
    machine, met = numbers["worlds"]["machine"], "yes" if gloo["value"] >= 60 else "no"
    rows = [[command_of(local), f"{local['value']:.0f}", "", ""],
            [command_of(gloo), f"{gloo['value']:.0f}", "at least 60", met]]
    return ("The ranks of the same cases in one thread, and in processes that run one case after the other, on "
            f"{machine['processor']}, commit {machine['commit'][:12]}.\n\n"
            + table(["one worker", "cases a second", "goal", "met"], rows) + "\n")


def optimizers_section(numbers):
    return optimizer_numbers.section(numbers["optimizers"], table, farthest) if "optimizers" in numbers else ""


def ablation_section(numbers):
    return optimizer_numbers.ablation_section(numbers["ablation"], table) if "ablation" in numbers else ""


def render(numbers):
    m = numbers["machine"]
    return (f"Measured by `ci/numbers` on {m['cores']} cores of {m['processor']} with libtorch {m['libtorch']}, commit "
            f"{m['commit'][:12]}.\n\n" + run_section(numbers) + peers_section(numbers)
            + dispatch_numbers.section(numbers, table) + training_numbers.section(numbers, table)
            + curve_section(numbers)
            + draws_section(numbers) + zoo_numbers.section(numbers, table) + optimizers_section(numbers)
            + ablation_section(numbers)
            + worlds_section(numbers) + scale_section(numbers) + hosted_section(numbers)
            + planner_section(numbers) + fsdp_section(numbers) + step_section(numbers)
            + mutant_numbers.section(numbers, table))


def replace_section(page, section):
    """@post between the markers of the page stands exactly a line end and the section."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise Missing(f"the page has no {BEGIN}{END}")
    return before + begin + "\n" + section + end + after


PARTS = {"runs": measure_runs, "draws": measure_draws, "curves": measure_curves, "peers": measure_peers,
         "scale": measure_scale, "hosted": measure_hosted, "planner": measure_planner, "fsdp": measure_fsdp,
         "step": measure_step, "mutants": measure_mutants, "worlds": measure_worlds,
         "optimizers": measure_optimizers, "ablation": measure_ablation, "zoo": measure_zoo,
         "dispatch": measure_dispatch, "training": measure_training}


def main(command="", *stores):
    frozen, page = ROOT / "golden/numbers.json", ROOT / "README.md"
    numbers, text = json.loads(frozen.read_text()), page.read_text()
    if command == "check":
        same = replace_section(text, render(numbers)) == text
        if not same:
            print("the numbers in README.md are not those of golden/numbers.json: run ci/numbers", file=sys.stderr)
        return 0 if same else 1
    if command in PARTS and len(stores) == PARTS[command].__code__.co_argcount:
        numbers.update(PARTS[command](*stores))
    elif command != "render":
        print(__doc__, file=sys.stderr)
        return 2
    page.write_text(replace_section(text, render(numbers)))
    frozen.write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except (Missing, sqlite3.Error, OSError) as e:
        print(f"readme.py: {e}", file=sys.stderr)
        sys.exit(3)
