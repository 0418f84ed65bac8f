// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "dashboard/report/drift.h"
#include "dashboard/store/bits.h"
#include "engine/values/error.h"

namespace lockstep::curves {
namespace {

// Calls use(left, right) for each step that either has; null where one lacks it.
template <class Points, class Use>
void each_step(Points& left, Points& right, Use use) {
  size_t i = 0, j = 0;
  while (i < left.size() || j < right.size()) {
    const bool from_left = j == right.size() || (i < left.size() && left[i].step <= right[j].step);
    const bool from_right = i == left.size() || (j < right.size() && right[j].step <= left[i].step);
    use(from_left ? &left[i] : nullptr, from_right ? &right[j] : nullptr);
    i += from_left ? 1 : 0;
    j += from_right ? 1 : 0;
  }
}

// The number as one for the order of representable values: neighbours differ by one.
int64_t order_of(uint64_t bits, const std::string& dtype) {
  const int width = dtype == "f64" ? 64 : dtype == "f32" ? 32 : 16;
  const uint64_t sign = uint64_t{1} << (width - 1);
  return bits & sign ? -static_cast<int64_t>(bits & ~sign) : static_cast<int64_t>(bits);
}

uint64_t ulps(const Number& a, const Number& b) {
  const auto x = order_of(a.bits, a.dtype), y = order_of(b.bits, b.dtype);
  return x > y ? static_cast<uint64_t>(x) - static_cast<uint64_t>(y)
               : static_cast<uint64_t>(y) - static_cast<uint64_t>(x);
}

std::string text_of(const Number& n) {
  return concat(dashboard::shortest(n.bits, n.dtype), " (", dashboard::hex(n.bits, n.dtype), ")");
}

// Steps as ranges; a range is unbroken where the other side has no step in between.
class Ranges {
 public:
  void add(int64_t step, bool broken) {
    if (open_ && !broken)
      last_ = step;
    else
      close(), first_ = last_ = step, open_ = true;
  }
  std::string text() {
    close();
    return text_;
  }

 private:
  void close() {
    if (open_ && ++n_ <= 5)
      text_ += concat(text_.empty() ? "" : ", ", first_, first_ == last_ ? "" : concat(" to ", last_));
    else if (open_ && n_ == 6)
      text_ += ", …";
    open_ = false;
  }
  bool open_ = false;
  int64_t first_ = 0, last_ = 0, n_ = 0;
  std::string text_;
};

struct Measuring {
  Distance& out;
  std::vector<dashboard::DriftPoint> abs{}, ulp{};
};

void measure(Measuring& m, int64_t step, const Number& a, const Number& b, bool exact) {
  const bool same = a.bits == b.bits;
  const double distance = same ? 0 : std::abs(a.value() - b.value());
  const auto far = std::isfinite(distance) ? distance : std::numeric_limits<double>::infinity();
  if (far > m.out.max_abs) m.out.max_abs = far, m.out.max_abs_step = step;
  const bool nan = !same && (std::isnan(a.value()) || std::isnan(b.value()));
  if (nan) ++m.out.not_comparable;
  if (std::isfinite(a.value()) && std::isfinite(b.value()))
    m.abs.push_back({static_cast<double>(step), distance});
  if (!exact || nan) return;
  const auto apart = same ? 0 : ulps(a, b);
  m.out.max_ulp = std::max(m.out.max_ulp.value_or(0), apart);
  m.ulp.push_back({static_cast<double>(step), static_cast<double>(apart)});
}

template <class Use>
void each_number(Log& log, Use use) {
  for (auto& point : log.points)
    for (const auto field : kFields)
      if (point.at(field)) use(*point.at(field));
}

struct Forms {
  bool bits = false, decimals = false;
  std::set<std::string> dtypes{};
  std::set<int> after_point{};  // digits
  int fewest = kNoDigits, most = 0;
};

// Numbers that say nothing of how exactly they were written (NaN, infinities) take the form of the others.
Forms forms_of(Log& log) {
  Forms f;
  each_number(log, [&](const Number& n) {
    (n.exact() ? f.bits : f.decimals) = true;
    f.dtypes.insert(n.dtype);
    if (n.exact() || n.digits == kNoDigits) return;
    f.after_point.insert(n.decimals);
    f.fewest = std::min(f.fewest, n.digits);
    f.most = std::max(f.most, n.digits);
  });
  return f;
}

void check_alike(const Pair& pair, const Forms& a, const Forms& b) {
  const bool mixed =
      (a.bits && !a.decimals && b.decimals && !b.bits) || (b.bits && !b.decimals && a.decimals && !a.bits);
  if (!mixed) return;
  const auto& exact = a.decimals ? pair.candidate : pair.reference;
  const auto& text = a.decimals ? pair.reference : pair.candidate;
  throw Error(
      concat("[curves] ", exact.path, " holds every bit, ", text.path,
             " decimal digits: they would differ whatever the runs did. If the digits read back as the same "
             "bits (Python's repr, %.9g of f32, %.17g of f64), say --round-trip f32 or f64; else compare "
             "rounded numbers: --decimals 4"));
}

// Every f64 is the value of an f32, as a framework's `item()` gives it.
bool fits_f32(Log& log) {
  bool fits = true;
  each_number(log, [&](const Number& n) {
    fits = fits && (n.dtype == "f32" || widened(narrowed(n)).bits == n.bits);
  });
  return fits;
}

void to_one_dtype(Pair& pair, const Forms& a, const Forms& b) {
  auto both = a.dtypes;
  both.insert(b.dtypes.begin(), b.dtypes.end());
  const bool one_each = a.dtypes.size() == 1 && b.dtypes.size() == 1;
  const bool decimal = a.decimals || b.decimals;
  const auto all = [&](const auto& change) {
    for (auto* log : {&pair.reference, &pair.candidate}) each_number(*log, [&](Number& n) { n = change(n); });
  };
  if (!decimal && both.size() == 1) {
    pair.dtype = *both.begin();
  } else if (!decimal && both == std::set<std::string>{"f32", "f64"} &&
             (one_each || (fits_f32(pair.reference) && fits_f32(pair.candidate)))) {
    all(narrowed);
    pair.dtype = "f32";
    if (one_each)
      pair.note("the ", a.dtypes.contains("f64") ? "reference" : "candidate",
                " was written as f64, the other side as f32: rounded to f32 before comparing");
    else
      pair.note("numbers of f32 and f64, all of which are values of f32: compared as f32");
  } else {
    if (!decimal && !both.empty())
      pair.note("numbers of several dtypes: all widened to f64, which loses nothing");
    all(widened);
  }
}

// Which quantities both have, and where a step of one side lacks one.
void keep_common_fields(Pair& pair) {
  for (const auto field : kFields) {
    const auto has = [&](const Log& log) {
      return std::any_of(log.points.begin(), log.points.end(),
                         [&](const Point& p) { return p.at(field).has_value(); });
    };
    const bool a = has(pair.reference), b = has(pair.candidate);
    pair.has[field] = a && b;
    if (a != b && !pair.reference.points.empty() && !pair.candidate.points.empty())
      pair.note("only the ", a ? "reference" : "candidate", " has a ", kFieldNames[field], ": not compared");
    int64_t lonely = 0, absent = 0;
    each_step(pair.reference.points, pair.candidate.points, [&](const Point* left, const Point* right) {
      if (left == nullptr || right == nullptr) return;
      const int numbers = int{left->at(field).has_value()} + int{right->at(field).has_value()};
      lonely += numbers == 1 ? 1 : 0;
      absent += numbers == 0 ? 1 : 0;
    });
    if (a && b && lonely > 0)
      pair.note("at ", lonely, " steps only one side has a ", kFieldNames[field], ": not compared there");
    if (a && b && absent > 0) pair.note("at ", absent, " steps neither side has a ", kFieldNames[field]);
  }
}

// Leaves only numbers that have a counterpart, and points that have a number.
void strip(Pair& pair) {
  each_step(pair.reference.points, pair.candidate.points, [&](Point* left, Point* right) {
    for (const auto field : kFields) {
      const bool lonely =
          left != nullptr && right != nullptr && left->at(field).has_value() != right->at(field).has_value();
      if (pair.has[field] && !lonely) continue;
      for (auto* point : {left, right})
        if (point != nullptr) point->at(field).reset();
    }
  });
  for (auto* log : {&pair.reference, &pair.candidate})
    std::erase_if(log->points, [](const Point& p) { return !p.loss && !p.grad_norm; });
}

}  // namespace

std::string Pair::fields() const {
  return concat(has[0] ? "loss" : "", has[0] && has[1] ? " " : "", has[1] ? "grad_norm" : "");
}

std::string Pair::precision() const {
  if (!digits) return concat("the same bits (", dtype, ")");
  if (*digits == most_digits) return concat("the ", *digits, " digits that were written");
  return concat("the ", *digits, " to ", most_digits, " digits that were written");
}

Pair paired(Log reference, Log candidate, std::optional<int> decimals) {
  Pair pair{.reference = std::move(reference), .candidate = std::move(candidate)};
  if (decimals) {
    for (auto* log : {&pair.reference, &pair.candidate})
      each_number(*log, [&](Number& n) { n = rounded(n, *decimals); });
    pair.note("both were rounded to ", *decimals, " digits after the point before comparing");
  }
  const auto a = forms_of(pair.reference), b = forms_of(pair.candidate);
  check_alike(pair, a, b);
  if (a.after_point.size() == 1 && b.after_point.size() == 1 && a.after_point != b.after_point) {
    const int x = *a.after_point.begin(), y = *b.after_point.begin();
    pair.note("the reference was written with ", x, " digits after the point, the candidate with ", y,
              ": they may differ for that alone; --decimals ", std::min(x, y),
              " rounds both before comparing");
  }
  to_one_dtype(pair, a, b);
  if (a.decimals || b.decimals) {
    pair.most_digits = std::max({a.most, b.most, 1});
    pair.digits = std::min({a.fewest, b.fewest, pair.most_digits});
    if (pair.most_digits >= 15)
      pair.note("some numbers have 15 digits or more: if the writer promises that they read back as the ",
                "same bits (Python's repr, json.dumps), say --round-trip f64 (or f32)");
  }
  keep_common_fields(pair);
  strip(pair);
  return pair;
}

Comparison compare(const Pair& pair) {
  Comparison c;
  Ranges only_reference, only_candidate;
  int side = 0;  // of the step before: 0 both, 1 reference alone, 2 candidate alone
  Measuring measured[] = {{c.distances[0]}, {c.distances[1]}};
  each_step(pair.reference.points, pair.candidate.points, [&](const Point* left, const Point* right) {
    if (right == nullptr) ++c.only_reference, only_reference.add(left->step, side != 1);
    if (left == nullptr) ++c.only_candidate, only_candidate.add(right->step, side != 2);
    side = right == nullptr ? 1 : left == nullptr ? 2 : 0;
    if (side != 0) return;
    bool equal = true;
    for (const auto field : kFields) {
      const auto &a = left->at(field), &b = right->at(field);
      if (!a || !b) continue;
      measure(measured[field], left->step, *a, *b, !pair.digits);
      if (a->bits == b->bits) continue;
      if (equal && !c.first_difference)
        c.first_field = kFieldNames[field], c.first_expected = text_of(*a), c.first_got = text_of(*b);
      equal = false;
    }
    ++c.steps;
    if (!equal && !c.first_difference) c.first_difference = left->step;
    c.identical_prefix += c.first_difference ? 0 : 1;
    c.different += equal ? 0 : 1;
  });
  for (auto& m : measured) m.out.drift = dashboard::drift(m.abs), m.out.ulp_drift = dashboard::drift(m.ulp);
  c.only_reference_steps = only_reference.text();
  c.only_candidate_steps = only_candidate.text();
  return c;
}

}  // namespace lockstep::curves
