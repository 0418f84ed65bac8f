// SPDX-License-Identifier: Apache-2.0
#include "suites/core/case_forms.h"

#include <algorithm>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"

namespace lockstep::suites {
namespace {

template <class List, class F>
std::string joined(const List& list, char by, const F& text_of) {
  std::string text;
  for (const auto& one : list) text += (text.empty() ? "" : std::string(1, by)) + text_of(one);
  return text;
}

std::string text_of(const Placement& p) {
  const auto* ragged = std::get_if<RaggedShard>(&p);
  if (ragged == nullptr) return concat(p);
  auto text = concat("G", ragged->dims.size());
  const auto each = ragged->units.size() / as_size(ragged->lists);
  for (size_t i = 0; i < ragged->units.size(); ++i)
    text += concat(i > 0 && i % each == 0 ? 'l' : '_', ragged->units[i]);
  return text;
}

Placement parse_one(const char* suite, std::string_view text) {
  if (!text.starts_with('G')) return parse_placement(text);
  const auto dims = parse_integer(text.substr(1, text.find('_') - 1));
  RaggedShard ragged{{}, {}, 0};
  bool fits = dims && *dims >= 0 && *dims <= 3 && text.find('_') != std::string_view::npos;
  for (const auto list :
       fits ? split(text.substr(text.find('_') + 1), 'l') : std::vector<std::string_view>()) {
    const auto units = parse_integers(list, '_');
    fits =
        fits && units && (ragged.lists == 0 || as_size(ragged.lists) * units->size() == ragged.units.size());
    if (!fits) break;
    ragged.units.insert(ragged.units.end(), units->begin(), units->end());
    ++ragged.lists;
  }
  LOCKSTEP_CHECK(fits, "[", suite, "] the cut '", text,
                 "' is not of the form G2_1_0_3: dimensions, and the blocks of each rank; or G2_1_3l2_2");
  ragged.dims = up_to(*dims);
  return ragged;
}

}  // namespace

std::string shapes_text(const std::vector<std::vector<int64_t>>& shapes) {
  return joined(shapes, '-',
                [](const std::vector<int64_t>& shape) { return shape.empty() ? "s" : join(shape, 'x'); });
}

std::vector<std::vector<int64_t>> parse_shapes(const char* suite, const std::string& text, int64_t most) {
  std::vector<std::vector<int64_t>> shapes;
  for (const auto part : split(text, '-')) {
    const auto shape = part == "s" ? std::vector<int64_t>() : parse_integers(part, 'x');
    const auto fits = [&](int64_t n) { return n >= 0 && n <= most; };
    LOCKSTEP_CHECK(shape && std::ssize(*shape) <= 3 && std::all_of(shape->begin(), shape->end(), fits), "[",
                   suite, "] the shape '", part, "' is not s, or up to three sizes of at most ", most,
                   ", as in 6x10");
    shapes.push_back(*shape);
  }
  return shapes;
}

std::string cut_text(const Placements& placements) {
  return joined(placements, '.', text_of);
}

Placements parse_cut(const char* suite, std::string_view text) {
  Placements placements;
  for (const auto part : split(text, '.')) placements.push_back(parse_one(suite, part));
  return placements;
}

std::string cuts_text(const std::vector<Placements>& cuts) {
  return joined(cuts, '-', cut_text);
}

std::vector<Placements> parse_cuts(const char* suite, const std::string& text) {
  std::vector<Placements> cuts;
  for (const auto one : split(text, '-')) cuts.push_back(parse_cut(suite, one));
  return cuts;
}

}  // namespace lockstep::suites
