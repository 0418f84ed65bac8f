# SPDX-License-Identifier: Apache-2.0
"""`lockstep train llama --mesh fsdp:N --world gloo` and PyTorch's FSDP2 (peers_fsdp.py), the same model, ranks, dtype and
optimizer, in turns. Prints one JSON object for ci/numbers --fsdp; fails where a run does not train, or where
Lockstep's losses over Gloo are not those of one process, bit for bit.
usage: fsdp_turns.py PYTHON_OF_PYTORCH ROUNDS STEPS; `lockstep` is on the PATH"""
import json
import math
import os
import pathlib
import sqlite3
import subprocess
import sys
from statistics import median

TOKENS, VOCABULARY, PARAMETERS, WARM = 8 * 128, 257, 356_736, 3


def fail(what):
    sys.exit(f"fsdp_turns.py: {what}")


def lockstep(ranks, steps, *world):
    database = pathlib.Path("turn.db")
    database.unlink(missing_ok=True)
    subprocess.run(["lockstep", "train", "llama", "--mesh", f"fsdp:{ranks}", "--numerics", "fast", "--dropout", "0",
                    "--steps", str(steps), "--db", str(database), *world], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "OMP_NUM_THREADS": "1"})
    rows = list(sqlite3.connect(database).execute(
        "SELECT loss, tokens_per_second, peak_bytes FROM curve_point ORDER BY step"))
    return {"losses": [row[0] for row in rows], "ms": [1e3 * TOKENS / row[1] for row in rows],
            "bytes": max(row[2] for row in rows)}


def pytorch(python, ranks, steps):
    script = pathlib.Path(__file__).with_name("peers_fsdp.py")
    out = subprocess.run([python, script, str(ranks), str(steps)], check=True, capture_output=True, text=True).stdout
    result = json.loads(out.splitlines()[-1])
    if result["parameters"] != PARAMETERS:
        fail(f"PyTorch's model has {result['parameters']} parameters, not {PARAMETERS}")
    return result


def check(who, losses):
    if not (abs(losses[0] - math.log(VOCABULARY)) < 0.3 and losses[-1] < losses[0]):
        fail(f"{who} does not train: losses {losses}")


def turns(python, ranks, rounds, steps):
    alone = lockstep(ranks, steps)["losses"]
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(lockstep(ranks, steps, "--world", "gloo", "--ranks", str(ranks)))
        theirs.append(pytorch(python, ranks, steps))
        if ours[-1]["losses"] != alone:
            fail(f"over Gloo the losses on fsdp:{ranks} are not those of one process")
        check("Lockstep", ours[-1]["losses"])
        check("PyTorch", theirs[-1]["losses"])

    def step(one):
        return median(one["ms"][WARM:])
    return {"ranks": ranks, "ours_ms": median(map(step, ours)), "theirs_ms": median(map(step, theirs)),
            "ratio": median(step(a) / step(b) for a, b in zip(ours, theirs)),
            "ours_bytes": max(one["bytes"] for one in ours), "theirs_bytes": max(one["bytes"] for one in theirs)}


def main(python, rounds, steps):
    print(json.dumps({"rounds": int(rounds), "steps": int(steps),
                      "rows": [turns(python, ranks, int(rounds), int(steps)) for ranks in (2, 4)]}))


main(*sys.argv[1:])
