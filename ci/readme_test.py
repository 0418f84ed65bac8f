#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From rows in a store to the text of the README."""
import json, pathlib, re, sqlite3, struct, tempfile, unittest
import dispatch_numbers, readme, training_numbers, training_turns, zoo_numbers
from testing_store import insert, insert_run, new_store

README = """a
<!-- numbers:begin -->

Measured by `ci/numbers` on 2 cores of Test CPU with libtorch 2.11.0, commit c0ffee.

| what | number |
|---|---|
| `lockstep run --seed 7`, seed 7 | 3 generated cases over 1 operators in 90 s |
| equal, bit for bit | 2 |
| different, and explained by both proofs | 1 |
| on the list of exceptions | 0 |
| unexplained differences, crashes, hangs | 0 |
| planted faults found | 2 of 2, each within 1,234 cases, shrunk to at most 3 operators |
| `lockstep run --seed 7` | 321 cases a second and core |

`ci/peers`: this engine and PyTorch's own DTensor of the same version, in turns on Test CPU. Dispatch is what an op \
takes above the plain op, each in its own language; a small case is three ops against one device, with all ranks \
hosted (LocalTensorMode there).

| what | Lockstep | PyTorch | better by |
|---|--:|--:|--:|
| dispatch add, cached, 1 rank | 1 us | 8.25 us | 8.2 |
| small cases, 4 ranks | 6,000 1/s | 150 1/s | 40.0 |

`lockstep curves llama`: the loss against one device, plain libtorch on the same random stream. Equal bits and the \
first difference are of loss and gradient norm together.

| mesh | random policy | of | steps with equal bits | first difference | loss: largest ulp | largest difference | \
gradient norm: largest ulp | largest difference |
|---|---|---|--:|--:|--:|--:|--:|--:|
| tp:2 | single-device | init+dropout | 1 of 2 | step 2 | 0 | 0 | 2 | 2.38e-07 |
| tp:4 | single-device | init+dropout | 1 of 2 | step 2 | 1 | 2.38e-07 | 0 | 0 |

`lockstep run --suite grid`: cases equal bit for bit, in 1 to 5 dimensions, each dimension cut and each pair, evenly \
and not. Up to 128 KB whole, under devices of one and two blocks; beyond by samples, under 132x2048.

| operator | to 128 KB | 262 KB | 64 MB | 1 GB | 16 GB |
|---|--:|--:|--:|--:|--:|
| `aten::uniform_` | 2 of 2 | 1 of 1 | 0 of 0 | 0 of 0 | 0 of 1 |

`lockstep init llama --mesh tp:2`: the model's first values against one device.

| random policy | elements that differ | of | largest difference | mean | deviation |
|---|--:|--:|--:|--:|--:|
| single-device | 0 | 1,234 | 0 | 0.25 | 1.5000 |

`lockstep init llama --mesh tp:2`: each of the 2 ranks, drawn alone, holds up to 2.00 GB, at most 3.00 GB at once, in \
up to 4 s; 0 parameters differ from one device.

<!-- numbers:end -->
b
"""


def bits(x):
    return struct.unpack("<i", struct.pack("<f", x))[0]


class Numbers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        readme.ROOT, root = self.folder, readme.ROOT  # where no picture lies
        self.addCleanup(setattr, readme, "ROOT", root)
        for write in (self.write_run, self.write_curves, self.write_grid, self.write_init, self.write_peers):
            db = new_store(self.path(write.__name__.removeprefix("write_")))
            write(db)
            db.close()

    def path(self, name):
        return str(self.folder / f"{name}.db")

    def write_run(self, db):
        run = insert_run(db, command="lockstep run --seed 7", seed=7, ended_ms=90_000)
        for i, verdict in enumerate(("equal", "equal", "explained")):
            insert(db, "cases", run=run, key=bytes([i]), suite="ops", verdict=verdict)
        insert(db, "coverage", run=run, op="aten::mm", verdict="equal", hits=1)
        for name, cases, ops in (("lost_partial", 1234, 2), ("stale_offset", 7, 3)):
            insert(db, "planted_fault", run=run, name=name, found=1, cases=cases, shrunk_ops=ops)
        self.sample(db, run, "cases per second per core", "", 321.4)

    def sample(self, db, run, series, arm, value, seq=0):
        insert(db, "measurement", run=run, series=series, arm=arm, value=value, seq=seq, unit="1/s")

    def write_curves(self, db):
        run = insert_run(db, command="lockstep curves llama")
        for mesh, loss, norm in (("", 2.25, 1), ("tp:2", 2.25, 1.0000002), ("tp:4", 2.2500002, 1)):
            curve = insert(db, "curve", run=run, name=mesh, model="llama tiny", variant="init+dropout", mesh=mesh,
                           policy="single-device", lane="exact", dtype="f32", reference=int(mesh == ""))
            for step, values in ((1, (2.5, 0)), (2, (loss, norm))):
                exact = [struct.unpack("<f", struct.pack("<f", x))[0] for x in values]
                insert(db, "curve_point", curve=curve, step=step, loss_bits=bits(values[0]),
                       grad_norm_bits=bits(values[1]), loss=exact[0], grad_norm=exact[1], chain=bytes(16))

    def write_grid(self, db):
        run = insert_run(db, command="lockstep run --suite grid")
        for i, (shape, verdict) in enumerate((("256", "equal"), ("31x33x32", "equal"), ("65535", "equal"),
                                              ("65536x65536", "different"))):
            insert(db, "cases", run=run, key=bytes([i]), suite="grid", ops="aten::uniform_", verdict=verdict,
                   token=f"v1:grid;mesh=2;x0=f32[{shape}]:zeros@[S0];v0=aten::uniform_(x0)#0")

    def write_init(self, db):
        run = insert_run(db, command="lockstep init llama --mesh tp:2 --db init.db")
        values = {"single-device": {"elements": 1234, "elements that differ": 0, "largest difference": 0, "mean": 0.25,
                                    "deviation": 1.5}}
        values |= {f"rank {i} alone": {"held": 2e9, "most ever held": 3e9, "parameters that differ": 0, "time": 4}
                   for i in range(2)}
        for policy, quantities in values.items():
            for quantity, value in quantities.items():
                self.sample(db, run, f"init llama tiny tp:2 | {policy} | {quantity}", "", value)

    def write_peers(self, db):
        run = insert_run(db)
        for name, area, better, unit in (("dispatch add, cached, 1 rank", "dispatch", "less", "us"),
                                         ("small cases, 4 ranks", "harness", "more", "1/s")):
            insert(db, "series", run=run, name=name, area=area, kind="timed", better=better, unit=unit)
        for seq, noise in enumerate((0, 0.25, 9)):
            for series, arm, value in (("dispatch add, cached, 1 rank", "candidate", 0.75 + noise),
                                       ("dispatch add, cached, 1 rank", "again", 0.5),
                                       ("dispatch add, cached, 1 rank", "baseline", 8 + noise),
                                       ("small cases, 4 ranks", "candidate", 6000),
                                       ("small cases, 4 ranks", "baseline", 150)):
                self.sample(db, run, series, arm, value, seq)
        db.execute("UPDATE measurement SET unit = (SELECT unit FROM series WHERE name = series)")

    def test_optimizers_end_where_ddp_and_fsdp_do(self):
        """Catches: a step in the middle taken for the last, judgements that are not counted."""
        names = "adamw", "adamw-8bit", "muon"
        for name in names:
            db = new_store(self.path(name))
            run = insert_run(db, command="lockstep curves llama")
            for mesh, last in (("", 2.25), ("dp:4", 2.5), ("fsdp:4", 2.75)):
                curve = insert(db, "curve", run=run, name=f"{mesh} single-device", model="llama tiny",
                               variant="init+dropout", mesh=mesh, policy="single-device", lane="exact",
                               dtype="f32", reference=int(mesh == ""))
                for step, loss in ((1, 3.0), (2, last)):
                    insert(db, "curve_point", curve=curve, step=step, loss_bits=bits(loss), grad_norm_bits=0, loss=loss,
                           grad_norm=0, chain=bytes(16), peak_bytes=step * 1_000_000,
                           verdict="explained" if mesh and step == 1 else None)
            run = insert_run(db, name="training", command="lockstep train llama")
            for mesh in ("dp:4", "fsdp:4"):
                curve = insert(db, "curve", run=run, name=f"{mesh} single-device", model="llama tiny",
                               variant="init+dropout", mesh=mesh, policy="single-device", lane="exact",
                               dtype="f32", reference=0)
                insert(db, "curve_point", curve=curve, step=1, loss_bits=bits(3), grad_norm_bits=0, loss=3, grad_norm=0,
                       chain=bytes(16), peak_bytes=1_500_000)
            db.close()
        text = readme.optimizers_section(readme.measure_optimizers(*map(self.path, names)))
        self.assertIn("| muon | 2.2500000 | 2.5000000 | 2.7500000 | 0.25 | 2 of 2 | 1.5 MB | 1.5 MB |", text)
        self.assertIn("| llama tiny | adamw | dp:4 | single-device | 1 of 2 |", text)

    def test_zoo_is_every_model_under_every_plan(self):
        """Catches: a plan of another model's, a step that nobody judged, comments counted as lines of a plan."""
        self.addCleanup(setattr, zoo_numbers, "PLANS", zoo_numbers.PLANS)
        zoo_numbers.PLANS = self.folder
        for model in zoo_numbers.MODELS:
            db = new_store(self.path(model))
            run = insert_run(db, command=f"lockstep curves {model}")
            for mesh in ("", *zoo_numbers.MESHES.values()):
                if not zoo_numbers.applies(model, mesh):
                    continue
                curve = insert(db, "curve", run=run, name=f"{mesh} single-device", model=model, variant="init+dropout",
                               mesh=mesh, policy="single-device", lane="exact", dtype="f32", reference=int(mesh == ""))
                for step, verdict in ((1, "equal"), (2, "explained"), (3, "different")):
                    insert(db, "curve_point", curve=curve, step=step, loss_bits=bits(2), grad_norm_bits=0, loss=2,
                           grad_norm=0, chain=bytes(16), verdict=verdict if mesh else None)
                if mesh:
                    zoo_numbers.plan_file(model, mesh).write_text("# lockstep show plan\n\na row\n another\n")
            db.close()
        text = zoo_numbers.section(readme.measure_zoo(*map(self.path, zoo_numbers.MODELS)), readme.table)
        one = "1 equal, 1 explained, 1 not; 0"
        self.assertIn(f"| TP | `sp:1,tp:2` | 2 | {one} | {one} | {one} |\n", text)
        self.assertIn(f"| EP | `ep:2` | 2 | N/A: no experts | {one} | N/A: no experts |\n", text)
        self.assertIn(f"| DP x ZeRO-3 x SP x TP | `dp_replicate:2,fsdp:2,sp:2,tp:2` | 16 | {one} |", text)
        self.assertIn("| EP | N/A: no experts | 2 | N/A: no experts |\n", text)
        self.assertIn("| veScale, each of its models | 29 to 38 |", text)
        db = sqlite3.connect(self.path("gpt2"))
        db.execute("UPDATE curve_point SET verdict = NULL WHERE step = 2")
        db.commit()
        with self.assertRaisesRegex(readme.Missing, "a verdict on each step of gpt2"):
            readme.measure_zoo(*map(self.path, zoo_numbers.MODELS))

    def test_ablation_is_beside_the_papers(self):
        """Catches: counts of another part, throughput the other way round."""
        db = new_store(self.path("ablation"))
        run = insert_run(db, command="lockstep bench")
        for what, factor in (("nothing", 1), ("dbuffer", 2), ("planning", 3)):
            for count, value in (("bytes", 1e6), ("collectives", 10), ("tensor allocations", 100)):
                name = f"training step, mixtral gpt-oss on fsdp:4, without {what}: {count}"
                insert(db, "series", run=run, name=name, area="training", kind="counted", better="less", unit="1")
                insert(db, "measurement", run=run, series=name, arm="", seq=0, unit="1", value=factor * value)
        db.close()
        places = {place: [{"without": what, "ms": 10 / share, "share": share, "bytes": 5e6}
                          for what, share in (("nothing", 1), ("dbuffer", .5), ("planning", .25))] for place in "ab"}
        pathlib.Path(self.path("turns")).write_text(json.dumps({
            "rounds": 3, "steps": 8, "places": places, "overlap": {"ms": 90, "waiting_ms": 100, "ratio": 1.11}}))
        text = readme.ablation_section(readme.measure_ablation(self.path("turns"), self.path("ablation")))
        self.assertIn("| planning: tiles are cut, and gathered in each step | 40 ms, 25.0% | 40 ms, 25.0% | 65.4% "
                      "| 3.00 MB | 30 | 300 | 5.0 MB | 5.0 MB |", text)

    def dispatch_stores(self):
        """A microsecond for each rung, ten and a hundred for PyTorch's; two rounds."""
        paths = [self.path(name) for name in ("turns", "counted", "reductions")]
        turns, counted, reductions = map(new_store, paths)
        run = insert_run(turns)
        for op in dispatch_numbers.OPS:
            at = {rung: ("candidate", 1 + i) for i, rung in enumerate(dispatch_numbers.RUNGS)}
            at |= {"static": ("candidate", 0.05), "cached": ("candidate", 0.5)}
            if op in dispatch_numbers.NOT_STATIC:
                del at["static"]
            if op in dispatch_numbers.NO_BARE:
                del at["bare fallback"]
            rows = [(rung, *of) for rung, of in at.items()]
            if op not in dispatch_numbers.NO_RULE:
                rows += [("cached", "baseline", 10), ("new shape", "baseline", 100)]
            for rung, arm, value in rows:
                for seq in (0, 1):
                    self.sample(turns, run, f"dispatch {op}, {rung}, 1 rank", arm, value, seq)
        run = insert_run(counted)
        for op in dispatch_numbers.OPS:
            self.sample(counted, run, f"dispatch {op}, cached, 1 rank: instructions", "", 1234)
        run = insert_run(reductions)
        for i, way in enumerate(dispatch_numbers.WAYS):
            for what, value in (("", 12 / (1 + i)), (": collectives", 38), (": bytes", 2.5e6)):
                self.sample(reductions, run, dispatch_numbers.REDUCTION + way + what, "", value)
        return paths

    def test_of_dispatch(self):
        """Catches: PyTorch's time in the place of ours, a rung under another's name, a goal that is missed and told
        met, or the other way round, a number where there is none."""
        paths = self.dispatch_stores()
        part = readme.measure_dispatch(*paths)
        text = dispatch_numbers.section(part, readme.table)
        rungs = "1.00 | 2.00 | 3.00 | 0.50 | N/A"
        self.assertIn("| op | PyTorch | neither cache nor bypass | bypass alone | cache alone | cached | C++ core | "
                      "static | bare fallback | new shape | PyTorch's new shape | instructions |\n", text)
        self.assertIn(f"| `mm` | 10.00 | {rungs} | 0.05 | 6.00 | 7.00 | 100.00 | 1,234 |\n", text)
        self.assertIn(f"| `nonzero` | N/A: no rule | {rungs} | N/A: values say how large it is | 6.00 | 7.00 | "
                      "N/A: no rule | 1,234 |\n", text)
        self.assertIn(f"| `dropout` | 10.00 | {rungs} | N/A: draws | N/A: draws | 7.00 | 100.00 | 1,234 |\n", text)
        self.assertIn("| mm, cached: of PyTorch's; of the bare fallback | 0.050; 0.08 | at most 0.05, or 1.3 | yes |\n"
                      "| mm, new shape: of PyTorch's | 0.070 | at most 0.4 | yes |\n"
                      "| mm, static | 0.050 us | below 0.1 us | yes |\n", text)
        self.assertIn("| nonzero, cached: of PyTorch's; of the bare fallback | N/A; 0.08 | at most 0.05, or 1.3 | "
                      "yes |\n", text)
        self.assertIn("| dropout, cached: of PyTorch's | 0.050 | at most 0.04 | no |\n", text)
        self.assertIn("| equal, bypass alone: of cache alone | 0.67 | below 1 | yes |\n", text)
        self.assertIn("| one by one | 12.0 ms | 1.0 | 38 | 2.5 MB |\n", text)
        self.assertIn("| in a bucket, along both mesh dimensions at once | 4.0 ms | 3.0 | 38 | 2.5 MB |\n", text)
        row = part["dispatch"]["rows"]["mm"]
        row |= {"cached": 8, "static": 0.1, "new shape": 40.1}
        self.assertIn("| 0.800; 1.33 | at most 0.05, or 1.3 | no |", dispatch_numbers.section(part, readme.table))
        self.assertIn("| mm, static | 0.100 us | below 0.1 us | no |", dispatch_numbers.section(part, readme.table))
        self.assertIn("| mm, new shape: of PyTorch's | 0.401 | at most 0.4 | no |",
                      dispatch_numbers.section(part, readme.table))
        row["cached"] = 7.8
        self.assertIn("| 0.780; 1.30 | at most 0.05, or 1.3 | yes |", dispatch_numbers.section(part, readme.table))

    def test_dispatch_has_the_ops_that_are_measured(self):
        """Catches: an op that is measured and not shown, a reason against a static op that there is none for."""
        source = (pathlib.Path(__file__).parents[1] / "suites/bench/dispatch_ops.cpp").read_text()
        measured = re.split(r'^      \{"(\w+)"', source[:source.index("return all;")], flags=re.M)[1:]
        entries = dict(zip(measured[::2], measured[1::2]))
        self.assertEqual(sorted(entries), sorted(dispatch_numbers.OPS))
        self.assertEqual({op for op, entry in entries.items() if "kNotStatic" in entry},
                         set(dispatch_numbers.NOT_STATIC))
        self.assertEqual({op for op, entry in entries.items() if "nullptr" in entry}, set(dispatch_numbers.NO_BARE))

    def test_dispatch_without_valgrind_or_a_rung(self):
        """Catches: a table without a reason where nothing was counted, a rung that is gone and passes for N/A."""
        paths = self.dispatch_stores()
        for path, series in ((1, "%instructions"), (0, "dispatch mm, cache alone, 1 rank")):
            db = sqlite3.connect(paths[path])
            db.execute("DELETE FROM measurement WHERE series LIKE ?", (series,))
            db.commit()
            if path == 1:
                text = dispatch_numbers.section(readme.measure_dispatch(*paths), readme.table)
                self.assertIn("| 7.00 | 100.00 | N/A: valgrind is not installed |\n", text)
        with self.assertRaisesRegex(readme.Missing, "cache alone of mm"):
            readme.measure_dispatch(*paths)

    def test_of_training(self):
        """Catches: a rung under another's name, a ratio beside the wrong peer, a goal at its bound told wrong."""
        db = new_store(self.path("training"))
        run = insert_run(db)
        for model in training_numbers.MODELS:
            for i, rung in enumerate(training_numbers.RUNGS):
                self.sample(db, run, f"training step of {model}, {rung}", "", 10 + i)
            ratio = 1.031 if model == "llama wide" else 1.03
            self.sample(db, run, f"training step of {model}, {training_numbers.TIMES}", "", ratio)
        db.close()
        rounds = [{"Lockstep, one process": 3, "Lockstep, Gloo": 8, "PyTorch, threaded": threaded, "PyTorch, gloo": 16,
                   "PyTorch, plain": 2} for threaded in (30, 60, 15)]
        turns = {"rounds": 3, "steps": 8,
                 "models": {model: training_turns.summary(rounds) for model in training_numbers.MODELS}}
        pathlib.Path(self.path("turns.json")).write_text(json.dumps(turns))
        text = training_numbers.section(readme.measure_training(self.path("training"), self.path("turns.json")),
                                        readme.table)
        self.assertIn("| model | plain libtorch | neither cache nor bypass | cached | C++ core | static |\n", text)
        self.assertIn("| llama tiny | 10.0 ms | 11.0 ms | 12.0 ms | N/A | 13.0 ms |\n", text)
        self.assertIn("| llama tiny, static: times plain libtorch | 1.030 | at most 1.03 | yes |\n"
                      "| llama wide, static: times plain libtorch | 1.031 | at most 1.03 | no |\n", text)
        self.assertIn("| model | Lockstep, one process | Lockstep, Gloo | PyTorch, threaded | PyTorch, gloo | "
                      "PyTorch, plain | ratio, PyTorch, threaded | ratio, PyTorch, gloo |\n", text)
        self.assertIn("| mixtral tiny | 3.0 ms | 8.0 ms | 30.0 ms | 16.0 ms | 2.0 ms | 0.10 | 0.50 |\n", text)

    def measured(self):
        return {**readme.measure_runs(self.path("run"), self.path("run")),
                **readme.measure_draws(self.path("grid"), self.path("init"), self.path("init")),
                **readme.measure_curves(self.path("curves")), **readme.measure_peers(self.path("peers"))}

    def test_are_read_from_the_stores_and_rendered(self):
        """Catches: a renamed view or column, a verdict class counted in the wrong row, a section that loses the
        page."""
        page = "a\n<!-- numbers:begin -->\nold\n<!-- numbers:end -->\nb\n"
        self.maxDiff = None
        self.assertEqual(readme.replace_section(page, readme.render(self.measured())), README)

    def test_of_curves(self):
        """Catches: indexed curves whose reader takes them for curves of the stock stream, a picture that is drawn and
        not shown, a page of older numbers that can no longer be checked or shows columns of nothing."""
        numbers = self.measured()
        for row in numbers["curves"]["rows"]:
            del row["max_grad_norm_ulp"], row["max_grad_norm_abs"]
        self.assertIn("| loss: largest ulp | largest difference |\n|---|---|---|--:|--:|--:|--:|\n"
                      "| tp:2 | single-device | init+dropout | 1 of 2 | step 2 | 0 | 0 |\n", readme.render(numbers))
        numbers["curves"] |= {"commit": "0123456789abcdef", "picture": "golden/c.png"}
        numbers["curves"]["rows"][1]["policy"] = "indexed"
        text = readme.render(numbers)
        self.assertIn("`lockstep curves llama`, commit 0123456789ab: the loss", text)
        self.assertIn("; under the indexed policy, one device on the indexed numbers. Equal bits", text)
        self.assertIn("](golden/c.png)\n\n| mesh |", text)

    def test_of_a_large_store(self):
        """Catches: a large store's numbers that are lost, or stand in the wrong column."""
        numbers = self.measured()
        without = readme.render(numbers)
        numbers["scale"] = {"cases": 1000000, "rows": [{"what": "merge", "seconds": 7.26, "mib": 60}],
                            "slowest_page_ms": 120, "server_mib": 99}
        self.assertEqual(readme.render(numbers), without + "`ci/serve_bench`: a database of 1,000,000 cases.\n\n"
                         "| what | seconds | memory |\n|---|--:|--:|\n| merge | 7.3 | 60 MiB |\n"
                         "| the dashboard's slowest page | 0.12 | 99 MiB |\n\n")

    def test_of_worlds(self):
        """Catches: the number of one World in the place of the other."""
        numbers = self.measured()
        without = readme.render(numbers)
        numbers |= readme.measure_worlds(self.path("run"), self.path("run"))
        numbers["worlds"]["rows"][1] |= {"command": "lockstep run --world gloo --db g.db", "value": 12.3}
        self.assertTrue(readme.render(numbers).endswith(
            "| one worker | cases a second | goal | met |\n|---|--:|--:|--:|\n| `lockstep run --seed 7` | 321 |  |  |\n"
            "| `lockstep run --world gloo` | 12 | at least 60 | no |\n\n"))
        numbers["worlds"]["rows"][1]["value"] = 60
        self.assertIn("| 60 | at least 60 | yes |", readme.render(numbers))
        self.assertGreater(len(readme.render(numbers)), len(without))

    def test_of_hosted_ranks(self):
        """Catches: a goal that is missed and passes for met, a unit that is lost, a step under other ranks."""
        numbers = self.measured()
        without = readme.render(numbers)
        numbers["hosted"] = {"command": "lockstep bench --series 'hosted ranks' --db h.db", "rows": [
            ["exponent", 1.1499, "", 1.15], ["a step", 4.2, "GB", 4]],
            "steps": {"hosted ranks, tp, 4 of them: a step": 12.34, "hosted ranks, tp, 1024 of them: a step": 5678.9,
                      "hosted ranks, dp and tp, 4 of them: a step": 23.4}}
        text = readme.render(numbers)
        self.assertTrue(text.startswith(without + "`lockstep bench --series 'hosted ranks'`: one process"))
        self.assertIn("| exponent | 1.15 | at most 1.15 | yes |\n| a step | 4.2 GB | at most 4 GB | no |\n", text)
        self.assertTrue(text.endswith("| ranks | tp, ms | dp and tp, ms |\n|---|--:|--:|\n"
                                      "| 4 | 12.3 | 23.4 |\n| 1,024 | 5,678.9 | - |\n\n"))

    def test_hosted_ranks_are_read_from_the_store(self):
        """Catches: a series that is not found by its name, a step that is taken for a goal."""
        db = new_store(self.path("hosted"))
        run = insert_run(db, command="lockstep bench --series 'hosted ranks'")
        of_way = "hosted ranks, 4 to 256 of tp: exponent of a step's time"
        for name, values in ((of_way, (0.9, 1.2, 1.0)), ("hosted ranks, tp, 4 of them: a step", (12, 11, 13))):
            insert(db, "series", run=run, name=name, area="hosted", kind="timed", better="less", unit="")
            for seq, value in enumerate(values):
                self.sample(db, run, name, "", value, seq)
        pathlib.Path(self.path("facts")).write_text('[["a route", 3, "ms", 50]]')
        hosted = readme.measure_hosted(self.path("hosted"), self.path("facts"))["hosted"]
        self.assertEqual(hosted["rows"], [[of_way, 1.0, "", 1.15], ["a route", 3, "ms", 50]])
        self.assertEqual(hosted["steps"], {"hosted ranks, tp, 4 of them: a step": 12})

    def test_of_planners(self):
        """Catches: ranks under others, a bound that is lost, a goal that is missed and passes for met."""
        numbers = self.measured()
        at = [{"ranks": n, "padding": n / 1e5, "least": 64 / 1e5} for n in (8, 16, 64, 256, 512)]
        at[2]["worst"] = 0.012
        at.append({"ranks": 1024, "padding": None})
        times = [{"model": "m", "ms": 1.234, "each_ms": 29}, {"model": "n", "ms": 1, "each_ms": 30}]
        said = {"goals": [["a", 0.02001, 0.02], ["b", 0.02, 0.02]], "times": times, "many_groups_ms": 2000,
                "rows": [{"model": "m", "of": "16 rows", "at": at}], "against_all_orders": {"command": "c", "ratio": 2}}
        path = self.path("planner.json")
        pathlib.Path(path).write_text(json.dumps(said))
        text = readme.render(numbers | readme.measure_planner(path))
        self.assertIn("| m | 16 rows | 0.01% (0.06%) | 0.06%, worst 1.20% | 0.26% (0.06%) | 0.51% (0.06%) | "
                      "refused |\n", text)
        self.assertIn("| a | 2.00% | at most 2% | no |\n| b | 2.00% | at most 2% | yes |\n", text)
        self.assertIn("Beside the best order of the same tensors, their own may need 2.0 times as much: "
                      "`c`", text)
        self.assertIn("| slowest plan, equal groups once | 1.2 ms | below 5 ms | yes |\n"
                      "| slowest plan, each group by itself | 30 ms | below 30 ms | no |\n"
                      "| 500 groups like DeepSeek-V3's on 131,072 ranks, from its 62 | 2,000 ms "
                      "| below 2,000 ms | no |\n", text)
        self.assertIn("| m | 1.2 ms | 29 ms |\n| n | 1 ms | 30 ms |\n", text)

    def test_of_fsdp(self):
        """Catches: times in the place of bytes, a goal at its bound that is told wrong."""
        row = {"ranks": 4, "ours_ms": 12.3, "theirs_ms": 12.4, "ratio": 1.0, "ours_bytes": 3e6, "theirs_bytes": 3e6}
        path = self.path("fsdp.json")
        pathlib.Path(path).write_text(json.dumps({"rounds": 5, "steps": 7, "rows": [row]}))
        text = readme.render(self.measured() | readme.measure_fsdp(path))
        self.assertIn("in 5 turns of 7 steps", text)
        self.assertIn("| fsdp:4 | 12 ms | 12 ms | 1.00 | 3.0 MB | 3.0 MB |\n", text)
        self.assertIn("| fsdp:4, time | 1.00 | at most 1 | yes |\n| fsdp:4, memory | 1.00 | below 1 | no |\n", text)

    def test_of_step(self):
        """Catches: a goal that is missed and told met, one scaling's rows under the name of the other, a prediction
        that does not say that it is one."""
        def answer(kind, error):
            return {"model": "m", "dtype": "f32", "param_dtype": "bf16", "reduce_dtype": "f32",
                    "calibration": {"ranks": 64, "predicted_seconds": 0.5, "measured_seconds": 0.25, "error": error,
                                    "goal": 0.2, "met": abs(error) <= 0.2},
                    "scaling": {"kind": kind, "rows": [{"ranks": 1024, "tokens": 4096, "rank_bytes": 2.5e9,
                                                        "peak_bytes": 3e9, "efficiency": 0.5}]}}
        paths = self.path("weak.json"), self.path("strong.json")
        for path, asked in zip(paths, (answer("weak", -0.2), answer("strong", 1.0))):
            pathlib.Path(path).write_text(json.dumps(asked))
        text = readme.render(self.measured() | readme.measure_step(*paths))
        self.assertIn("| 64 ranks | 500 ms | 250 ms | -20.0% | at most 20% | yes |\n"
                      "| 64 ranks | 500 ms | 250 ms | 100.0% | at most 20% | no |\n", text)
        weak, strong = text.split("**Prediction, nothing of it was run**: ")[1:]
        self.assertTrue(weak.startswith("weak scaling of m, ") and strong.startswith("strong scaling of m, "))
        self.assertIn("| 1,024 | 4,096 | 2.5 GB | 3.0 GB | 50% |\n", strong)

    def test_of_mutants(self):
        """Catches: a class whose share is of other mutants, a column in the place of another."""
        numbers = self.measured()
        without = readme.render(numbers)
        lines = [{"of": "rules", "mutants": 40, "equivalent": 2, "found": 39, "tests": 3, "later": 1,
                  "cases": 31.5, "ops": 1, "names an op": 20, "names it rightly": 19},
                 {"of": "none", "mutants": 0, "equivalent": 0, "found": 0, "tests": 0, "later": 0,
                  "cases": None, "ops": None, "names an op": 0, "names it rightly": 0}]
        engine = {"commits": ["0123456789abcdef", "f"], "woven": 587, "lines": lines,
                  "goals": [["all", False], ["one", True]]}
        numbers["mutants"] = {"engine": engine, "judge": {**engine, "woven": 8, "commits": ["e"], "lines": lines[1:]}}
        text = readme.render(numbers)
        self.assertTrue(text.startswith(without + "`ci/mutate run`: mutants found, each by itself"))
        self.assertIn("0 of 587 slips in the sources of engine and kernels, tried on 0123456789ab, f.\n", text)
        self.assertIn("| rules | 40 | 39 | 3 | 98% | 1 | 2 | 32 | 1 | 19 of 20 |\n| none |", text)
        self.assertEqual(text.count("| all | no |\n| one | yes |\n"), 2)
        self.assertIn("0 of 8 slips in the oracle", text)
        self.assertTrue(text.endswith("tried on e.\n\n" + text[text.index("| class |"):text.index("| rules |")]
                                      + "| none | 0 | 0 | 0 | - | 0 | 0 | - | - | 0 of 0 |\n\n"
                                      + text[text.index("| promised of"):text.index("0 of 8 slips")]))

    def test_missing_ones_are_an_error(self):
        """Catches: a README written from a store that does not hold the numbers."""
        run, curves, grid, init = map(self.path, ("run", "curves", "grid", "init"))
        for measure, stores in ((readme.measure_runs, (curves, run)), (readme.measure_runs, (run, curves)),
                                (readme.measure_draws, (run, init, init)), (readme.measure_draws, (grid, run, init)),
                                (readme.measure_draws, (grid, init, run)), (readme.measure_curves, (run,)),
                                (readme.measure_peers, (run,)), (readme.replace_section, ("no markers", ""))):
            self.assertRaises(readme.Missing, measure, *stores)


if __name__ == "__main__":
    unittest.main()
