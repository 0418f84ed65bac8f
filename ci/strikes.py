# SPDX-License-Identifier: Apache-2.0
"""What lockstep-chaos.log says of a strike, held against the finding of it and the flights.

The law. A finding is of the strike where all of this holds:
1. Its verdict is that of the kind, and the line that replays it has the processes, the chaos and the strike's case, or
   what that goes on from: the suite redistribute asks more of a case than the case says.
2. Ranks part in the struck exchange: in one of its groups, at its number there. Where it was left out what comes next may
   fit for a while: at a later number then. Where connections were lost, in any: what was sent before may be lost as well.
   Of two that wait for each other's ranks at one op either may have been left out, and both are named.
   Who is killed or stopped may take with it what it had sent before and gloo had not yet: an earlier one then, to which
   the struck rank came earlier, and has nothing more to wait for. Who is gone while it waits may have sent it all, and
   the others have done with it: the next for which they wait for its ranks then, none of whom came. Where exchanges
   overlap it may have begun more before it waited for that one: then that is among those it has not left.
3. Blamed are ranks that the struck process hosts, and no other: those who did not come or do not wait, who sends what
   does not fit. Of ranks that say different things it is one side, and the other says what the strike left out. Who only
   waits is blamed of nothing: words then name whom it waits for, and why, and that is a rank of the struck process.
4. Each rank elsewhere that came to the struck exchange names its collective, and the op that asked for it; the struck
   rank that number among its own at which it was struck: of a swap that at which another came in its place.
5. Each rank names process, host and log; those of the struck process name it, and no other does. Of a process that is
   gone the finding says so, by its log.
Where a failure did not repeat itself and what the second run came to stands behind it, both hold it, each of the strike on
its own run. The flights show the same, of the strike's case."""
import re

# kind: whether it must be found, and the word of the verdict.
KINDS = {"kill": "crashed", "stop": "hung", "disconnect": "different", "slow": None, "skip": "different",
         "swap": "different", "shape": "different", "dtype": "different", "bit": "different"}
STRIKE = re.compile(r"chaos: (?P<kind>\w+) strikes rank (?P<rank>\d+) at its exchange (?P<number>\d+), (?P<op>\w+), asked "
                    r"by (?P<asker>.+?)(?P<groups>(?:; exchange \d+ of ranks [\d,]+)+); process (?P<process>\d+) hosts "
                    r"ranks (?P<hosted>[\d,]+); case (?P<token>\S+)")
PARTS = re.compile(r"ranks part in exchange (\d+) of ranks ([\d,]+), (\w*): (.*)")
OTHER = re.compile(r"ranks? [\d,]+ did not come, or ranks? (?P<absent>[\d,]+) to exchange (?P<at>\d+) of ranks (?P<ranks>[\d,]+)")
TURN = re.compile(r"^ *rank (\d+): (.*)\n *process (\d+) on (\S+), log (\S+)$", re.M)
CAME = re.compile(r"(\w+), (begun|waited|done), asked by (.*?), its exchange (\d+), sends ")
LAST = re.compile(r"did not come; its last is (\w+), exchange (\d+) of ranks ([\d,]+), (\w+), asked by (.*?)"
                  r"(?:; nor has it left (.*))?$")
NOT_LEFT = re.compile(r"(\w+), exchange ([\d,]+) of ranks ([\d,]+), asked by (.*?)(?= and \w+, exchange |$)")
WAITS = r"rank (\d+) \(process (\d+) [^)]*\) waits for rank (\d+) \(process (\d+) [^)]*\), which has ended: "
AGAIN = "\n    it ran again: "
UNSENT = ("kill", "stop")
# Of a rank that is blamed by words alone: what they say of it.
WORDS = {"disconnect": "its connection is lost", "bit": "a message of it arrived with other bits than it left with"}


def numbers(text):
    return frozenset(map(int, text.split(",")))


class Strike:
    """A line of the log."""

    def __init__(self, line):
        told = STRIKE.fullmatch(line)
        if not told:
            raise ValueError(f"the log of chaos says what is no strike: {line}")
        self.kind, self.op, self.asker, self.token = told["kind"], told["op"], told["asker"], told["token"]
        self.rank, self.number, self.process = int(told["rank"]), int(told["number"]), int(told["process"])
        self.hosted = numbers(told["hosted"])
        self.groups = {ranks: int(at) for at, ranks in re.findall(r"exchange (\d+) of ranks ([\d,]+)", told["groups"])}

    def is_not(self, chaos):
        """What of the drawn chaos it is not: a list of sentences."""
        kind, *words = chaos.split(",")
        asked = dict(word.split("=") for word in words)
        wrong = [] if kind == self.kind else [f"{self.kind} strikes, not {kind}"]
        if self.rank != int(asked["rank"]) or self.rank not in self.hosted:
            wrong.append(f"rank {self.rank} is struck, in the process of {sorted(self.hosted)}, not rank {asked['rank']}")
        if self.number < int(asked["exchange"]):
            wrong.append(f"exchange {self.number} is struck, before {asked['exchange']}")
        if self.op != asked.get("op", self.op):
            wrong.append(f"{self.op} is struck, not {asked['op']}")
        return wrong


class Parting:
    """Where a finding, or what is shown of flights, says that ranks part."""

    def __init__(self, text):
        told = PARTS.search(text)
        self.text = text
        self.meeting, self.ranks, self.op, self.what = int(told[1]), told[2], told[3], told[4]
        self.other = OTHER.fullmatch(self.what)
        self.turns = {int(rank): (line, int(process)) for rank, line, process, *_ in TURN.findall(text[told.end():])}
        self.logs = {int(process): log for _, _, process, _, log in TURN.findall(text[told.end():])}

    def at(self, strike):
        """Whether it is the struck exchange."""
        return strike.groups.get(self.ranks) == self.meeting

    def or_at(self, strike):
        """Whether that is the one of two that wait for each other's ranks, and its ranks are blamed."""
        return bool(self.other) and strike.groups.get(self.other["ranks"]) == int(self.other["at"]) and numbers(
            self.other["absent"]) <= strike.hosted

    def before(self, strike):
        """Whether the struck process' ranks have done with it, before the strike, and others have not."""
        came = {rank: CAME.match(line) for rank, (line, _) in self.turns.items()}
        ours = [told for rank, told in came.items() if rank in strike.hosted]
        others = [told for rank, told in came.items() if rank not in strike.hosted]
        struck = came.get(strike.rank)
        meeting = strike.groups.get(self.ranks, self.meeting + 1)
        earlier = int(struck[4]) < strike.number if struck else self.meeting < meeting
        return earlier and bool(ours) and all(told and told[2] == "done" for told in ours) and any(
            told and told[2] != "done" for told in others)

    def after(self, strike):
        """Whether no rank of the struck process came to it, and the struck rank had begun the struck exchange last, or
        before others, and not left it."""
        ours = {rank: line for rank, (line, _) in self.turns.items() if rank in strike.hosted}
        last = {rank: LAST.match(line) for rank, line in ours.items()}
        meeting = strike.groups.get(self.ranks, self.meeting - 1)
        if not ours or not all(last.values()) or self.meeting <= meeting:
            return False
        if strike.rank not in ours:
            return True
        struck = last[strike.rank]
        if any((op, asker) == (strike.op, strike.asker) and strike.groups.get(ranks) in numbers(at)
               for op, at, ranks, asker in NOT_LEFT.findall(struck[6] or "")):
            return True
        return struck[1] == strike.op and strike.groups.get(struck[3]) == int(struck[2]) and struck[
            4] != "done" and struck[5] == strike.asker


def sides(what):
    """Of "not one exchange: barrier on rank 0, all_reduce on ranks 2,4" what each side says, and its ranks."""
    return [(said, numbers(ranks)) for said, ranks in re.findall(r"(?:: |, )(.+?) on ranks? ([\d,]*\d)", what)]


def named_by_words(strike, parting):
    """Whether whoever names another as lost names the struck process: of a connection either end may say so."""
    blames = [(int(who), int(whom)) for _, who, _, whom in re.findall(WAITS + WORDS[strike.kind], parting.text)]
    ends = [{whom, who} if strike.kind == "disconnect" else {whom} for who, whom in blames]
    return bool(ends) and all(strike.process in end for end in ends)


def took_its_place(strike, parting):
    """Whether what the struck process went on to is of the form of what it left out: it came there for others' exchange,
    with values of its own, which no flight tells from theirs."""
    came = {rank: CAME.match(line) for rank, (line, _) in parting.turns.items()}
    alike = {(told[1], told[3]) for told in came.values() if told}
    ours = came.get(strike.rank)
    return all(came.values()) and alike == {(strike.op, strike.asker)} and bool(ours) and int(ours[4]) == strike.number


def blamed_wrongly(strike, parting):
    what, hosted = parting.what, strike.hosted
    if absent := re.match(r"ranks? ([\d,]+) did not come", what):
        return not (parting.or_at(strike) or (numbers(absent[1]) <= hosted and (not parting.other or parting.at(strike))))
    if misfit := re.match(r"rank (\d+) sends .*, and rank (\d+) expects of it ", what):
        spoils = strike.kind in ("shape", "dtype")
        return not ({int(misfit[1])} if spoils else {int(misfit[1]), int(misfit[2])}) & hosted
    if what.startswith("not "):
        told = sides(what)
        whole = strike.op if what.startswith("not one exchange") else strike.asker
        elsewhere = [said for said, ranks in told if not ranks & hosted]
        left = strike.kind != "skip" or parting.at(strike)
        apart = len(told) > 1 and all(ranks <= hosted or not ranks & hosted for _, ranks in told)
        return not apart or not elsewhere or (left and elsewhere != [whole])
    idle = frozenset(map(int, re.findall(r"rank (\d+) has begun it and does not wait", what)))
    if idle and strike.kind not in WORDS:
        return not idle <= hosted
    if strike.kind in WORDS:
        return not named_by_words(strike, parting)
    if strike.kind == "skip" and took_its_place(strike, parting):
        return False
    return strike.kind not in UNSENT  # rule 5 names the process that is gone


def body_of(token):
    """What a token says of the case: the second run of a case by way of other meshes is one of the case."""
    return re.sub(r"^v\d:|;options=across:\d+", "", token.rsplit("#", 1)[0])


def is_of(strike, token):
    body = body_of(token)
    return strike.token == token or (body_of(strike.token) + ";").startswith(body + ";")


def is_late(strike, token, said=""):
    """Connections that are lost when nothing is to come any more are missed in the next case, or nowhere in particular:
    tried again the case loses them elsewhere."""
    return strike.kind == "disconnect" and (not is_of(strike, token) or "\nnondeterministic: case " in said)


def parting_is_wrong(strike, text, token, late=False):
    """What of the law (2 to 5) the text, of the case with this token, does not keep."""
    if not PARTS.search(text):
        return ["it does not say in which exchange ranks part"]
    parting, wrong = Parting(text), []
    late = late or is_late(strike, token)
    meeting = strike.groups.get(parting.ranks)
    later = strike.kind == "skip" and meeting is not None and parting.meeting > meeting
    gone = strike.kind in UNSENT and (parting.before(strike) or parting.after(strike))
    if strike.kind != "disconnect" and not later and not gone and not parting.at(strike) and not parting.or_at(strike):
        wrong.append(f"exchange {parting.meeting} of ranks {parting.ranks} is named, not the struck: {strike.groups}")
    # Words are the finding's own; flights have none.
    words = strike.kind in WORDS and "waits for rank" not in text
    if not words and blamed_wrongly(strike, parting):
        wrong.append(f"it does not blame ranks of {sorted(strike.hosted)}: {parting.what}")
    if set(parting.turns) != set(numbers(parting.ranks)):
        wrong.append("it does not name process, host and log of each rank")
    for rank, (line, process) in parting.turns.items():
        ours = rank in strike.hosted
        if not late and (process == strike.process) != ours:
            wrong.append(f"rank {rank} is said to be in process {process}")
        came = CAME.match(line)
        if late or not came or not parting.at(strike):
            continue
        if not ours and (came[1], came[3]) != (strike.op, strike.asker):
            wrong.append(f"rank {rank} is said to come to {came[1]}, asked by {came[3]}")
        if rank == strike.rank and strike.kind != "skip" and int(came[4]) != strike.number:
            wrong.append(f"rank {rank} is said to come to it as its exchange {came[4]}")
    return wrong


def finding_is_wrong(strikes, chaos, processes, said):
    """What of the law the finding in `said` does not keep, held against the strike that it fits best."""
    replay = re.search(rf"^ *replay: lockstep replay '(v\d:\S*)' --world gloo --ranks {processes} --chaos (\S+)$", said, re.M)
    if not replay or replay[2] != chaos:
        return ["it does not name a line that replays it"]
    first, *again = said.split(AGAIN)
    wrong = min((of_strike(strike, replay[1], first) for strike in strikes), key=len)
    for text in filter(PARTS.search, (text.partition(" cases in ")[0] for text in again)):  # and not the summary
        wrong = wrong + min((parting_is_wrong(strike, text, replay[1], True) for strike in strikes), key=len)
    return wrong


def of_strike(strike, token, said):
    late = is_late(strike, token, said)
    words = f"{KINDS[strike.kind]}|nondeterministic" if late else KINDS[strike.kind]
    wrong = [] if re.search(rf"^({words}): case ", said, re.M) else [f"its verdict is not {words}"]
    if not is_of(strike, token) and not late:
        wrong.append(f"it replays {token}, and {strike.token} was struck")
    wrong += parting_is_wrong(strike, said, token, late)
    if strike.kind in UNSENT and PARTS.search(said):
        log = Parting(said).logs.get(strike.process)
        gone = re.findall(r"process \d+ of \d+ \(log ([^)]*)\): the engine ", said)
        if not gone or set(gone) != {log}:
            wrong.append(f"it does not say that process {strike.process} is gone, by its log")
    return wrong


def flights_are_wrong(strikes, said, shown):
    """What is wrong with what `lockstep show flight` shows of the files, beside the finding."""
    case, told = re.search(r"^case (v\d:\S+?):?$", shown, re.M), PARTS.search(said)
    if not case or not told:
        return ["the flights are of no case, or the finding names none"]
    ours = [strike for strike in strikes if strike.token == case[1] or strike.kind == "disconnect"]
    if not ours:
        return [f"the flights are of a case that was not struck: {case[1]}"]
    return min((parting_is_wrong(strike, shown, case[1]) for strike in ours), key=len)
