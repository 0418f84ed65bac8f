#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Findings of a strike, true and forged. Catches: a law of chaos that takes what blames somebody else, names another
exchange, another collective, another op, another case, or nobody, for a finding."""
import unittest
from strikes import KINDS, Strike, finding_is_wrong, flights_are_wrong

CASE = "v1:program;mesh=2;seed=5;x0=f32[4]:normal(1)@[R];v0=aten::neg(x0)#12345678"
LOG = "chaos: {kind} strikes rank 1 at its exchange 3, all_gather, asked by op 2 aten::mm; exchange 2 of ranks 0,1; " \
      "process 22 hosts ranks 1; case " + CASE
CAME = "{op}, {state}, asked by {asker}, its exchange {number}, sends nothing (0 bytes), expects 0:f32[4] (16 bytes)"
GONE = "process 1 of 2 (log /tmp/1.log): the engine closed its output: signal 9 (Killed)\n"
LOST = "[all_gather] exchange 2 of ranks 0,1: rank 0 (process 11 on one, log /tmp/0.log) waits for rank 1 " \
       "(process 22 on one, log /tmp/1.log), which has ended: {why}\n"
ABSENT = "did not come; its last is broadcast, exchange 1 of ranks 0,1, done, asked by op 0 aten::neg"


def came(op="all_gather", state="waited", asker="op 2 aten::mm", number=3):
    return CAME.format(op=op, state=state, asker=asker, number=number)


def parting(what, struck, other=None, meeting=2, op="all_gather", ranks="0,1"):
    return (f"    ranks part in exchange {meeting} of ranks {ranks}, {op}: {what}\n"
            f"      rank 0: {other or came()}\n        process 11 on one, log /tmp/0.log\n"
            f"      rank 1: {struck}\n        process 22 on one, log /tmp/1.log\n")


def chaos_of(kind):
    return f"{kind},rank=1,exchange=2,op=all_gather,when=begin"


def finding(kind, body, words="", token=CASE):
    return (f"{KINDS[kind]}: case 0 of suite program\n"
            f"  replay: lockstep replay '{token}' --world gloo --ranks 2 --chaos {chaos_of(kind)}\n"
            f"  explanation:\n    {words}{body}")


# Of each kind what is said of it.
TRUE = {
    "kill": (parting("rank 1 did not come", ABSENT), GONE),
    "stop": (parting("rank 1 has begun it and does not wait for it, rank 0 waits for it", came(state="begun")), GONE),
    "disconnect": (parting("rank 0 waits for it, rank 1 waits for it", came()),
                   LOST.format(why="its connection is lost: [pair.cc:547] closed")),
    "skip": (parting("rank 1 did not come", ABSENT), ""),
    "swap": (parting("not one exchange: barrier on rank 1, all_gather on rank 0", came(op="barrier")), ""),
    "shape": (parting("rank 1 sends f32[5], and rank 0 expects of it f32[4]", came()), ""),
    "dtype": (parting("rank 1 sends f64[4], and rank 0 expects of it f32[4]", came()), ""),
    "bit": (parting("rank 0 waits for it", came(state="done")),
            LOST.format(why="a message of it arrived with other bits than it left with")),
}


def wrong(kind, said):
    return finding_is_wrong([Strike(LOG.format(kind=kind))], chaos_of(kind), 2, said)


class Forged(unittest.TestCase):
    def reject(self, kind, old, new, said=None):
        true = finding(kind, *TRUE[kind]) if said is None else said
        self.assertIn(old, true)
        self.assertNotEqual(wrong(kind, true.replace(old, new)), [], f"{kind}: {old} -> {new}")

    def test_what_is_true_is_taken(self):
        for kind, said in TRUE.items():
            self.assertEqual(wrong(kind, finding(kind, *said)), [], kind)

    def test_another_rank(self):
        for kind in ("kill", "skip"):
            self.reject(kind, "rank 1 did not come", "rank 0 did not come")
            self.reject(kind, "rank 1 did not come", "ranks 0,1 did not come")
        self.reject("stop", "rank 1 has begun it", "rank 0 has begun it")
        for kind in ("shape", "dtype"):
            self.reject(kind, "rank 1 sends", "rank 0 sends")
        self.reject("swap", "barrier on rank 1, all_gather on rank 0", "barrier on rank 0, all_gather on rank 1")
        self.reject("bit", "waits for rank 1 (process 22", "waits for rank 0 (process 11")
        self.reject("disconnect", "waits for rank 1 (process 22", "waits for rank 2 (process 33")

    def test_another_process(self):
        for kind in TRUE:
            self.reject(kind, "      rank 1: ", "      rank 2: ")
            self.reject(kind, "process 22 on one, log /tmp/1.log\n", "process 11 on one, log /tmp/1.log\n")
            self.reject(kind, "        process 22 on one, log /tmp/1.log\n", "")
        for kind in ("kill", "stop"):
            self.reject(kind, "process 1 of 2 (log /tmp/1.log)", "process 0 of 2 (log /tmp/0.log)")

    def test_another_collective_or_op(self):
        for kind in TRUE:
            self.reject(kind, "rank 0: all_gather, ", "rank 0: broadcast, ")
            self.reject(kind, "asked by op 2 aten::mm", "asked by op 3 aten::mm")

    def test_another_number(self):
        for kind in TRUE:
            if kind != "disconnect":  # what was sent before is lost as well
                self.reject(kind, "ranks part in exchange 2", "ranks part in exchange 1")
        for kind in ("stop", "swap", "shape", "dtype", "bit", "disconnect"):
            self.reject(kind, "its exchange 3", "its exchange 4")

    def test_what_had_not_left_it(self):
        """Of a process that is gone what it had said before may be missed: of what it did, and of nothing else."""
        done, waits = came("broadcast", "done", number=2), came("broadcast", "waited", number=2)
        for kind in ("kill", "stop"):
            said = finding(kind, parting("rank 0 waits for it", done, waits, 1, "broadcast"), GONE)
            self.assertEqual(wrong(kind, said), [], kind)
            self.reject(kind, "rank 1: broadcast, done", "rank 1: broadcast, waited", said)
            self.reject(kind, "rank 0: broadcast, waited", "rank 0: broadcast, done", said)
            self.reject(kind, "its exchange 2", "its exchange 3", said)
            self.reject(kind, done, ABSENT, said)
        self.reject("skip", "", "", finding("skip", parting("rank 0 waits for it", done, waits, 1, "broadcast"), GONE))
        # Of another rank that the struck process hosts, too.
        log = LOG.format(kind="kill").replace("strikes rank 1", "strikes rank 5")
        log = log.replace("hosts ranks 1;", "hosts ranks 1,5;")
        said = finding("kill", parting("rank 0 waits for it", done, waits, 1, "broadcast"), GONE)
        chaos = chaos_of("kill")
        self.assertEqual(finding_is_wrong([Strike(log)], chaos, 2, said), [])
        for old, new in (("rank 1: broadcast, done", "rank 1: broadcast, waited"), (done, ABSENT),
                         ("exchange 1 of ranks 0,1, broadcast", "exchange 3 of ranks 0,1, broadcast")):
            self.assertIn(old, said)
            forged = said.replace(old, new)
            self.assertNotEqual(finding_is_wrong([Strike(log)], chaos, 2, forged), [], f"{old} -> {new}")

    def test_what_it_had_sent_in_full(self):
        """Of a process that is gone while it waits the others may have all they wait for: they miss it in the next."""
        last = "did not come; its last is all_gather, exchange 2 of ranks 0,1, begun, asked by op 2 aten::mm"
        next_one = came("broadcast", number=4)
        for kind in ("kill", "stop"):
            said = finding(kind, parting("rank 1 did not come", last, next_one, 3, "broadcast"), GONE)
            self.assertEqual(wrong(kind, said), [], kind)
            for old, new in (("rank 1 did not", "rank 0 did not"), ("exchange 2 of", "exchange 1 of"),
                             ("begun, asked", "done, asked"), ("is all_gather", "is broadcast"),
                             ("2 aten::mm", "3 aten::mm"), ("part in exchange 3", "part in exchange 1"),
                             ("rank 1: " + last, "rank 1: " + came("broadcast", "begun", number=4))):
                self.reject(kind, old, new, said)
            apart = said.replace("part in exchange 3 of ranks 0,1", "part in exchange 1 of ranks 1,0")
            self.assertEqual(wrong(kind, apart), [], kind)

    def test_what_it_had_begun_before_others(self):
        """Where exchanges overlap it stops before it waits for one, and has begun others since."""
        last = ("did not come; its last is broadcast, exchange 4 of ranks 0,1, begun, asked by op 3 aten::mul; nor has "
                "it left all_gather, exchange 1 of ranks 1,5, asked by no op and all_gather, exchange 2,3 of "
                "ranks 0,1, asked by op 2 aten::mm")
        next_one = came("broadcast", number=7)
        for kind in ("kill", "stop"):
            said = finding(kind, parting("rank 1 did not come", last, next_one, 5, "broadcast"), GONE)
            self.assertEqual(wrong(kind, said), [], kind)
            for old, new in (("rank 1 did not", "rank 0 did not"), ("exchange 2,3 of", "exchange 3 of"),
                             ("2,3 of ranks 0,1", "2,3 of ranks 0,5"), ("part in exchange 5", "part in exchange 1"),
                             (" and all_gather, exchange 2,3 of ranks 0,1, asked by op 2 aten::mm", ""),
                             ("and all_gather", "and broadcast"), ("2 aten::mm", "2 aten::mv")):
                self.reject(kind, old, new, said)

    def test_either_of_two(self):
        """Ranks that wait for each other in two exchanges of one op: the struck one is among the two."""
        said = finding("skip", parting("rank 0 did not come, or rank 1 to exchange 2 of ranks 0,1", came(number=4),
                                       ABSENT.replace("done", "waited"), 5, ranks="1,0"))
        self.assertEqual(wrong("skip", said), [])
        self.reject("skip", "or rank 1 to", "or rank 0 to", said)
        self.reject("skip", "to exchange 2 of", "to exchange 3 of", said)
        self.reject("skip", "of ranks 0,1\n", "of ranks 0,2\n", said)
        self.reject("skip", ", or rank 1 to exchange 2 of ranks 0,1", "", said)

    def test_what_took_the_place_of_what_was_left_out(self):
        """The next exchange has the form of the skipped one: all came, and nothing but the values tells them apart."""
        said = finding("skip", parting("rank 0 waits for it, rank 1 waits for it", came()))
        self.assertEqual(wrong("skip", said), [])
        self.reject("skip", "its exchange 3", "its exchange 4", said)
        self.reject("skip", "rank 1: all_gather", "rank 1: broadcast", said)
        self.reject("skip", "rank 1: " + came(), "rank 1: " + ABSENT, said)
        self.reject("skip", "exchange 2 of ranks", "exchange 1 of ranks", said)

    def test_a_failure_that_does_not_repeat_itself(self):
        """Its second run is struck in processes of its own."""
        def again(text):
            return text.replace("process 11", "process 33").replace("process 22", "process 44")
        body, words = TRUE["disconnect"]
        strikes = [Strike(text(LOG.format(kind="disconnect"))) for text in (str, again)]
        first = finding("disconnect", body, words).replace("different: case", "nondeterministic: case")
        whole = "\n" + first + "    it ran again: " + again(words + body)
        chaos = chaos_of("disconnect")
        self.assertEqual(finding_is_wrong(strikes, chaos, 2, whole), [])
        for old, new in (("rank 1 (process 44", "rank 2 (process 55"), ("rank 1 (process 22", "rank 2 (process 55")):
            self.assertNotEqual(finding_is_wrong(strikes, chaos, 2, whole.replace(old, new)), [], old)

    def test_no_case(self):
        for kind in TRUE:
            self.reject(kind, CASE, "")
            if kind != "disconnect":  # which the next case may miss
                self.reject(kind, CASE, CASE.replace("aten::neg", "aten::abs"))
            self.reject(kind, "rank=1,exchange=2", "rank=0,exchange=2")

    def test_another_verdict(self):
        for kind in TRUE:
            self.reject(kind, f"{KINDS[kind]}: case", "equal: case")

    def test_no_parting(self):
        for kind in TRUE:
            self.assertIn("it does not say in which exchange ranks part", wrong(kind, finding(kind, "", GONE)))

    def test_a_case_that_goes_on(self):
        longer = LOG.format(kind="kill").replace("#12345678", ";v1=aten::neg(v0)#87654321")
        said = finding("kill", *TRUE["kill"])
        by_way = longer.replace("v1:program;mesh=2;seed=5", "v2:program;mesh=2;seed=5;options=across:123")
        for token in (longer, by_way):
            self.assertEqual(finding_is_wrong([Strike(token)], chaos_of("kill"), 2, said), [])
        self.assertNotEqual(finding_is_wrong([Strike(by_way.replace("neg", "abs"))], chaos_of("kill"), 2, said), [])


class Drawn(unittest.TestCase):
    def test_a_strike_is_what_was_drawn(self):
        strike = Strike(LOG.format(kind="kill"))
        self.assertEqual(strike.is_not(chaos_of("kill")), [])
        for other in ("stop,rank=1,exchange=2,when=begin", "kill,rank=0,exchange=2,when=begin",
                      "kill,rank=1,exchange=4,when=begin", "kill,rank=1,exchange=2,op=broadcast,when=begin"):
            self.assertEqual(len(strike.is_not(other)), 1, other)


class Flights(unittest.TestCase):
    def wrong(self, shown):
        said = finding("kill", *TRUE["kill"])
        return flights_are_wrong([Strike(LOG.format(kind="kill"))], said, shown)

    def test_flights(self):
        shown = TRUE["kill"][0] + "case " + CASE + ":\n"
        self.assertEqual(self.wrong(shown), [])
        for old, new in (("rank 1 did", "rank 0 did"), ("exchange 2 of", "exchange 1 of"),
                         ("aten::neg(x0)", "aten::abs(x0)"), ("case v1", "case")):
            self.assertNotEqual(self.wrong(shown.replace(old, new)), [], old)


if __name__ == "__main__":
    unittest.main()
