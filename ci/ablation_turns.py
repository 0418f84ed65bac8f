# SPDX-License-Identifier: Apache-2.0
"""veScale-FSDP's Table 2, measured: `lockstep train` of a small model with GPT-OSS's proportions under fully_shard and
8-bit AdamW, whole and without its parts, in turns: 32 ranks in one process, 4 in processes over Gloo. Prints one JSON
object for ci/numbers --ablation; fails where copies change a bit of the losses, or a run does not train.
usage: ablation_turns.py ROUNDS STEPS; `lockstep` is on the PATH"""
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
from statistics import median

TOKENS = 1024  # of a step
EIGHT_BIT = ["mixtral", "--preset", "gpt-oss", "--optimizer", "adamw-8bit"]
MUON = ["llama", "--optimizer", "muon"]
WARM = 2  # steps that decide placements
VARIANTS = ["nothing", "dbuffer", "planning"]
PLACES = {"32 ranks, one process": ["--mesh", "fsdp:32", "--batch", "32", "--sequence", "32"],
          "4 processes, Gloo": ["--mesh", "fsdp:4", "--batch", "8", "--sequence", "128", "--world", "gloo", "--ranks", "4"]}


def fail(what):
    sys.exit(f"ablation_turns.py: {what}")


def train(without, steps, place, model=EIGHT_BIT):
    database = pathlib.Path("turn.db")
    database.unlink(missing_ok=True)
    subprocess.run(["lockstep", "train", *model, "--numerics", "fast", "--dropout", "0", "--steps", str(steps), "--without",
                    without, "--db", str(database), *place], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "OMP_NUM_THREADS": "1"})
    rows = list(sqlite3.connect(database).execute(
        "SELECT loss_bits, loss, tokens_per_second, peak_bytes FROM curve_point ORDER BY step"))
    if rows[-1][1] >= rows[0][1]:
        fail(f"without {without} it does not train: {[row[1] for row in rows]}")
    return {"losses": [row[0] for row in rows], "rate": median(row[2] for row in rows[WARM:]),
            "bytes": max(row[3] for row in rows)}


def measured(place, rounds, steps):
    """Rates beside the whole one's of the same round, and the most memory."""
    turns = [{without: train(without, steps, PLACES[place]) for without in VARIANTS} for _ in range(rounds)]
    for turn in turns:
        if turn["dbuffer"]["losses"] != turn["nothing"]["losses"]:
            fail(f"{place}: without a DBuffer the losses have other bits")
    return [{"without": without, "ms": median(1e3 * TOKENS / turn[without]["rate"] for turn in turns),
             "share": median(turn[without]["rate"] / turn["nothing"]["rate"] for turn in turns),
             "bytes": max(turn[without]["bytes"] for turn in turns)} for without in VARIANTS]


def overlap(rounds, steps):
    """Muon's step beside one that waits for each collective at once, of the same round."""
    place = PLACES["4 processes, Gloo"]
    turns = [{without: train(without, steps, place, MUON) for without in ("nothing", "overlap")} for _ in range(rounds)]
    if any(turn["nothing"]["losses"] != turn["overlap"]["losses"] for turn in turns):
        fail("without overlap Muon's losses have other bits")
    return {"ms": median(1e3 * TOKENS / turn["nothing"]["rate"] for turn in turns),
            "waiting_ms": median(1e3 * TOKENS / turn["overlap"]["rate"] for turn in turns),
            "ratio": median(turn["nothing"]["rate"] / turn["overlap"]["rate"] for turn in turns)}


def main(rounds, steps):
    print(json.dumps({"rounds": int(rounds), "steps": int(steps),
                      "overlap": overlap(int(rounds), int(steps)),
                      "places": {place: measured(place, int(rounds), int(steps)) for place in PLACES}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
