# SPDX-License-Identifier: Apache-2.0
"""The statistics of verdicts on speed; decisions/0001 says why they are what they are. Values are logarithms of
ratios; nothing here knows a store. Needs only Python's own library."""
import bisect, functools, math, random
from dataclasses import dataclass, field
from statistics import NormalDist, median

INFINITY = math.inf
NORMAL = NormalDist()
EXACT = 60  # rounds up to which the signed-rank distribution is counted, not approximated


@dataclass
class Policy:
    alpha: float = 0.01  # chance that a night without any change raises an alarm, all series together
    batch_p: float = 0.02  # and what each of the two batches must reach by itself, few series or many
    floor: float = 0.02  # smaller effects are no alarm, however sure
    max_detectable: float = 0.10  # a series that would not show this effect is not measured
    power: float = 0.95  # share of trials in which an effect must be found to be called detectable
    max_false_alarms: float = 0.05  # a series that blames its own binary more often is not measured
    resamples: int = 400  # trials from which detectable and false_alarms of a series are counted
    history_least: int = 10  # points of history below which nothing is said
    history_most: int = 30  # newest points of history that are looked at


@dataclass
class Verdict:
    """`finding`: None (not measured, for the reason), "same", "more" or "less". Effects are log ratios."""
    finding: str = None
    reason: str = ""
    rounds: int = 0  # pairs, confirmation included; points of history
    effect: float = 0
    low: float = -INFINITY
    high: float = INFINITY
    p: float = None  # corrected
    detectable: float = INFINITY
    false_alarms: float = 0
    wants_second: bool = False
    confirmed: bool = False


# Wilcoxon's signed-rank statistic without an effect: the sum of those ranks 1..n whose coin shows heads.

@functools.cache
def _chances(n):
    counts = [1]
    for rank in range(1, n + 1):
        longer = counts + [0] * rank
        for w, count in enumerate(counts):
            longer[w + rank] += count
        counts = longer
    total, sums = 0, []
    for count in counts:
        total += count
        sums.append(total / 2**n)
    return sums


def at_most(n, w):
    """P(W <= w); beyond EXACT rounds a normal distribution of the same mean and variance, with continuity."""
    greatest = n * (n + 1) // 2
    if w < 0 or w >= greatest:
        return float(w >= greatest)
    if n <= EXACT:
        return _chances(n)[w]
    return NORMAL.cdf((w + 0.5 - greatest / 2) / math.sqrt(n * (n + 1) * (2 * n + 1) / 24))


@functools.cache
def two_sided(n, w):
    """min(1, 2 P(W >= w)): of a sum w on the side of the effect."""
    return min(1.0, 2 * at_most(n, n * (n + 1) // 2 - w))


@functools.cache
def cut(n, level):
    """The largest k with 2 P(W <= k - 1) <= level; 0: none. The k-th smallest and the k-th largest average of pairs
    bound the effect with confidence 1 - level."""
    return bisect.bisect_right(range(1, n * (n + 1) // 4 + 2), level, key=lambda k: 2 * at_most(n, k - 1))


@dataclass
class Paired:
    n: int = 0
    effect: float = 0  # Hodges and Lehmann's: the median of the averages of all pairs
    low: float = -INFINITY
    high: float = INFINITY
    p: float = 1


def compare(differences, level):
    """Law: P(low <= true effect <= high) >= 1 - level and, without an effect, P(p <= x) <= x, for every symmetric
    noise. An average of exactly zero supports neither side: ties count against a finding."""
    n, d = len(differences), sorted(differences)
    if n == 0:
        return Paired()
    averages = sorted([(x + y) / 2 for i, x in enumerate(d) for y in d[i:]])
    count, k = len(averages), cut(n, level)
    below, above = bisect.bisect_left(averages, 0), count - bisect.bisect_right(averages, 0)
    found = Paired(n, (averages[(count - 1) // 2] + averages[count // 2]) / 2, p=two_sided(n, max(below, above)))
    if k > 0:
        found.low, found.high = averages[k - 1], averages[count - k]
    return found


def holm(p, family):
    """Law (Holm, Scandinavian Journal of Statistics 6, 1979): the chance that any series without an effect has a
    corrected p <= alpha is at most alpha. `family` may be larger than the list: members judged elsewhere."""
    corrected, greatest = [0.0] * len(p), 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        greatest = max(greatest, min(1.0, (max(family, len(p)) - rank) * p[i]))
        corrected[i] = greatest
    return corrected


# Dependence: how rounds resemble the round before them.

def resemblance(batches):
    """Sums of an estimate of correlation: product of neighbours, square, values, batches. Values are cut at three
    deviations, or one outlier would be all of the square."""
    total = [0.0, 0.0, 0, 0]
    for batch in batches:
        if not batch:
            continue
        center = median(batch)
        limit = 3 * 1.4826 * median(abs(x - center) for x in batch)  # the deviation is 1.4826 such medians
        if limit <= 0:
            continue
        cut_off = [min(1.0, max(-1.0, (x - center) / limit)) for x in batch]
        total[0] += sum(map(float.__mul__, cut_off, cut_off[1:]))
        total[1] += sum(x * x for x in cut_off)
        total[2] += len(batch)
        total[3] += 1
    return total


def dependence(sums, limit):
    """The variance of a mean of such rounds over that of independent ones: (1 + r) / (1 - r); 1 unless r is beyond
    `limit` standard errors. The bias of r is -(1 + 3 r) / n for a batch of n (Kendall, Biometrika 41, 1954)."""
    product, square, values, batches = sums
    if square == 0 or values <= 4 * batches:
        return 1.0
    bias, r = batches / values, product / square
    if r + bias <= limit / math.sqrt(values):
        return 1.0
    corrected = min(0.9, (r + bias) / (1 - 3 * bias))
    return (1 + corrected) / (1 - corrected)


def scaled(p, factor):
    """The two-sided p whose z is `factor` times that of p."""
    return p if factor == 1 else 2 * _below(_z(p / 2) * factor)


def _below(z):
    return math.erfc(-z / math.sqrt(2)) / 2


def _z(p):
    return -INFINITY if p <= 0 else NORMAL.inv_cdf(p)


def _drawn(same, turn, source):
    """A batch of blocks of neighbours, from anywhere on the circle, each with its sign or turned."""
    n, block, circle, batch = len(same), math.ceil(len(same) ** (1 / 3)), same + same, []
    while len(batch) < n:
        start = int(source.random() * n)
        part = circle[start:start + min(block, n - len(batch))]
        batch += [-x for x in part] if turn and source.random() < 0.5 else part
    return batch


def resample(same, level, policy, seed):
    """(detectable, false_alarms): the least shift that both batches, drawn anew from `same`, find in `policy.power` of
    the trials; and the share of trials in which they agree on an alarm without a shift. Signs are kept where `same`
    itself is displaced beyond doubt."""
    n = len(same)
    if n == 0:
        return INFINITY, 0.0
    source, itself = random.Random(seed), compare(same, level)
    sure = max(policy.alpha / 10, two_sided(n, n * (n + 1) // 2))
    turn = not (itself.p <= sure and abs(itself.effect) > policy.floor)
    needed, alarms = [], 0
    for _ in range(policy.resamples):
        pair = [compare(_drawn(same, turn, source), level) for _ in range(2)]
        needed.append(max(0.0, *(max(-x.low, policy.floor - x.effect) for x in pair)))
        alarms += all(x.low > 0 and x.effect > policy.floor for x in pair) or all(
            x.high < 0 and x.effect < -policy.floor for x in pair)
    return sorted(needed)[math.ceil(policy.power * len(needed)) - 1], alarms / policy.resamples


# Series whose binaries were measured in turns.

@dataclass
class Turns:
    """Log ratios of the rounds of one series; `confirm` is empty where no second batch was measured."""
    name: str  # seeds the resampling
    effect: list = field(default_factory=list)  # log(candidate / baseline)
    same: list = field(default_factory=list)  # log(candidate / again)
    confirm: list = field(default_factory=list)


TOGETHER, ALONE = 2, 1.5  # standard errors beyond which a resemblance is believed: of all series, of one


def batch_level(family, policy):
    """What both batches have to reach for the most doubted series of the family."""
    return min(policy.batch_p, math.sqrt(policy.alpha / max(family, 1)))


def least_rounds(family, policy):
    """Rounds below which nothing can be said: not even one sign in every round would be enough."""
    level, n = min(policy.alpha, batch_level(family, policy)), 1
    while cut(n, level) == 0:
        n += 1
    return n


def _batch(values, depends, policy):
    found = compare(values, scaled(policy.alpha, math.sqrt(depends)))
    found.p = scaled(found.p, 1 / math.sqrt(depends))
    return found


def _alarms(batch, policy):
    return batch.p <= policy.batch_p and abs(batch.effect) > policy.floor


def _joint_p(first, second, wanted):
    """Of two batches that must both speak: the square of the larger. A first batch without an alarm stands alone."""
    if not wanted:
        return first.p
    agree = second.n > 0 and (first.effect > 0) == (second.effect > 0)
    return max(first.p, second.p) ** 2 if agree else 1.0


def _reason(v, unsteady, confirming, policy):
    """Of a series with enough rounds or points; `confirming`: whether there is a second batch."""
    if unsteady:
        return "unsteady"
    if v.confirmed:
        return ""
    if v.wants_second and not confirming:
        return "unconfirmed"
    return "noise" if v.detectable > math.log1p(policy.max_detectable) else ""


def _decided(v):
    if v.reason in ("unsteady", "few"):
        v.detectable = INFINITY
    if not v.reason:
        v.finding = ("more" if v.effect > 0 else "less") if v.confirmed else "same"
    return v


def judge_turns(series, family=0, policy=Policy()):
    """Law: with noise alone, the chance that any series is "more" or "less" is at most alpha. A series is "same" only
    where an effect of max_detectable would have shown: its resampled noise says so, and the interval, of level alpha,
    excludes it. Whether a second batch is wanted does not depend on it. `family`: the timed series of the night."""
    family = max(family, len(series))
    least, level = least_rounds(family, policy), batch_level(family, policy)
    together = dependence(resemblance([b for t in series for b in (t.effect, t.same)]), TOGETHER)
    depends = [max(together, dependence(resemblance([t.effect, t.same]), ALONE)) for t in series]
    firsts = [_batch(t.effect, d, policy) for t, d in zip(series, depends)]
    few = [min(len(t.effect), len(t.same)) < least for t in series]
    hopes = holm([first.p**2 for first in firsts], family)
    wanted = [not f and hope <= policy.alpha and _alarms(first, policy)
              for f, hope, first in zip(few, hopes, firsts)]
    seconds = [Paired() if not t.confirm else
               _batch(t.confirm, max(d, dependence(resemblance([t.effect, t.same, t.confirm]), ALONE)), policy)
               for t, d in zip(series, depends)]
    corrected = holm([_joint_p(*of) for of in zip(firsts, seconds, wanted)], family)
    verdicts = []
    for i, t in enumerate(series):
        judged = seconds[i] if seconds[i].n else firsts[i]
        v = Verdict(rounds=firsts[i].n + seconds[i].n, effect=judged.effect, low=judged.low, high=judged.high,
                    p=corrected[i], wants_second=wanted[i])
        v.detectable, v.false_alarms = resample(t.same, scaled(level, math.sqrt(depends[i])), policy, t.name)
        v.confirmed = wanted[i] and v.p <= policy.alpha and _alarms(judged, policy)
        if not v.confirmed:  # what the interval still allows was not excluded
            v.detectable = max(v.detectable, judged.high, -judged.low)
        unsteady = v.false_alarms > policy.max_false_alarms
        v.reason = "few" if few[i] else _reason(v, unsteady, seconds[i].n > 0, policy)
        verdicts.append(_decided(v))
    return verdicts


# Series that were measured without their baseline: the newest point beside what the same machine measured before.

@dataclass
class History:
    points: list  # oldest first, positive
    newest: float
    second: float = None  # of the second batch of the newest run


BEFORE = 5  # points whose median a point is compared with: one outlier among them moves nothing
THIRD, RANGE = 1.150, 0.832  # of the size of a standard normal value: third quartile, interquartile range


def _deviation(points, at, value):
    return math.log(value / median(points[max(0, at - BEFORE):at]))


def _quantile(ordered, q):
    at = q * (len(ordered) - 1)
    i = int(at)
    return ordered[i] + (at - i) * (ordered[min(i + 1, len(ordered) - 1)] - ordered[i])


def student_quantile(tail, freedom):
    """The upper quantile of Student's t, in Fisher's expansion."""
    z = -_z(tail)
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return z + sum(term / freedom ** (i + 1) for i, term in enumerate(terms))


def _ranges(family, deviations, alpha):
    """Interquartile ranges beyond the third quartile: three, or as many as keep `family` normal series below alpha
    together. A range of n values knows the deviation as well as 0.37 n squares do."""
    return max(3.0, (student_quantile(alpha / max(family, 1) / 2, 0.37 * deviations) - THIRD) / RANGE)


def _fence(ordered, ranges):
    third = _quantile(ordered, 0.75)
    return third + ranges * (third - _quantile(ordered, 0.25))


def _sizes(points):
    """How far each point lies from those before it, ascending."""
    return sorted(abs(_deviation(points, i, points[i])) for i in range(1, len(points)))


def _beyond(sizes, family, policy):
    """Sizes beyond the limit that the others set."""
    ranges = _ranges(family, len(sizes) - 1, policy.alpha)
    return sum(size > max(policy.floor, _fence(sizes[:i] + sizes[i + 1:], ranges)) for i, size in enumerate(sizes))


def judge_histories(series, family=0, policy=Policy()):
    """Law: a point within the band, or within the floor, raises no alarm; one beyond raises it if the second batch of
    the same run lies beyond on the same side. Where the points of all series together lie beyond their bands more
    than half as often as two batches may agree by chance, the machine is unsteady, and nothing is said of any."""
    family = max(family, len(series))
    recent = [h.points[-policy.history_most:] for h in series]
    sizes = [_sizes(points) if len(points) >= max(3, policy.history_least) else [] for points in recent]
    beyond = [_beyond(s, family, policy) if s else 0 for s in sizes]
    total = sum(map(len, sizes))
    rate = sum(beyond) / total if total else 0
    # One real change of level puts three points beyond, until the median has followed.
    unsteady = sum(beyond) > math.sqrt(policy.alpha / max(family, 1)) / 2 * total + 3
    verdicts = []
    for h, points, size, out in zip(series, recent, sizes, beyond):
        v = Verdict(rounds=len(points), effect=_deviation(points, len(points), h.newest) if points else 0)
        v.reason = "few"
        if size:
            band = _fence(size, _ranges(family, len(size), policy.alpha))
            limit = max(band, policy.floor)
            v.low, v.high = v.effect - band, v.effect + band
            v.detectable = limit + _quantile(size, 2 * policy.power - 1)  # unless its own noise is that far inwards
            v.false_alarms = max(rate, out / len(size))
            v.wants_second = not unsteady and abs(v.effect) > limit
            if v.wants_second and h.second is not None:
                again = _deviation(points, len(points), h.second)
                v.confirmed = abs(again) > limit and (again > 0) == (v.effect > 0)
            v.reason = _reason(v, unsteady, h.second is not None, policy)
        verdicts.append(_decided(v))
    return verdicts
