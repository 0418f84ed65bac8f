# SPDX-License-Identifier: Apache-2.0
"""`lockstep train MODEL --mesh sp:1,tp:2`, with both ranks in one process and over Gloo, and PyTorch's DTensor
(peers_training.py), the same models, ranks, dtype and optimizer, in turns. Prints one JSON object for
ci/numbers --training; fails where a run does not train, has other parameters, or where Lockstep's losses over Gloo
are not those of one process, bit for bit.
usage: training_turns.py PYTHON_OF_PYTORCH ROUNDS STEPS; `lockstep` is on the PATH"""
import json
import math
import os
import pathlib
import sqlite3
import subprocess
import sys
from statistics import median

RANKS, BATCH, SEQUENCE, VOCABULARY, WARM = 2, 2, 32, 257, 3
# The elements of all parameters: suites/train/model_options.h.
MODELS = {"llama tiny": 356_736, "llama wide": 29_694_720, "mixtral tiny": 560_000}
WORLDS = {"one process": [], "Gloo": ["--world", "gloo", "--ranks", str(RANKS)]}
# Beside which of ours each of PyTorch's stands; the plain one beside none.
PEERS = {"threaded": "one process", "gloo": "Gloo", "plain": None}


def fail(what):
    sys.exit(f"training_turns.py: {what}")


def lockstep(model, steps, world):
    database = pathlib.Path("turn.db")
    database.unlink(missing_ok=True)
    architecture, preset = model.split()
    subprocess.run(["lockstep", "train", architecture, "--preset", preset, "--mesh", f"sp:1,tp:{RANKS}", "--numerics",
                    "fast", "--dropout", "0", "--steps", str(steps), "--batch", str(BATCH), "--sequence", str(SEQUENCE),
                    "--db", str(database), *world], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "OMP_NUM_THREADS": "1"})
    rows = list(sqlite3.connect(database).execute("SELECT loss, tokens_per_second FROM curve_point ORDER BY step"))
    return {"losses": [row[0] for row in rows], "ms": [1e3 * BATCH * SEQUENCE / row[1] for row in rows]}


def pytorch(python, model, place, steps):
    words = [model, place, str(RANKS), str(steps), str(BATCH), str(SEQUENCE)]
    script = pathlib.Path(__file__).with_name("peers_training.py")
    result = json.loads(subprocess.run([python, script, *words], check=True, stdout=subprocess.PIPE,
                                       text=True).stdout.splitlines()[-1])
    if result["parameters"] != MODELS[model]:
        fail(f"PyTorch's {model} has {result['parameters']} parameters, not {MODELS[model]}")
    return result


def check(who, losses):
    if not (abs(losses[0] - math.log(VOCABULARY)) < 0.5 and min(losses) < losses[0]):
        fail(f"{who} does not train: losses {losses}")


def one_round(python, model, steps):
    """Of each place the median milliseconds of a step."""
    runs = {f"Lockstep, {place}": lockstep(model, steps, world) for place, world in WORLDS.items()}
    if runs["Lockstep, Gloo"]["losses"] != runs["Lockstep, one process"]["losses"]:
        fail(f"over Gloo the losses of {model} are not those of one process")
    runs |= {f"PyTorch, {place}": pytorch(python, model, place, steps) for place in PEERS}
    for who, run in runs.items():
        check(f"{who}: {model}", run["losses"])
    return {who: median(run["ms"][WARM:]) for who, run in runs.items()}


def summary(rounds):
    """The medians of all rounds; ratios are of one."""
    found = {who: {"ms": median(one[who] for one in rounds)} for who in rounds[0]}
    for place, ours in PEERS.items():
        if ours is not None:
            found[f"PyTorch, {place}"]["ratio"] = median(
                one[f"Lockstep, {ours}"] / one[f"PyTorch, {place}"] for one in rounds)
    return found


def main(python, rounds, steps):
    models = {model: summary([one_round(python, model, int(steps)) for _ in range(int(rounds))]) for model in MODELS}
    print(json.dumps({"rounds": int(rounds), "steps": int(steps), "models": models}))


if __name__ == "__main__":
    main(*sys.argv[1:])
