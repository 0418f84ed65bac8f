// SPDX-License-Identifier: Apache-2.0
#include "engine/layout/sharding_table.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

struct Box {
  Interval rows, columns;
};

std::vector<Box> boxes_of(const Spec& spec, int64_t position) {
  std::vector<Box> boxes;
  for (const auto& piece : pieces(owned_by(spec, position))) {
    const auto& columns = piece.lists.back();
    const auto rows = piece.lists.size() == 1 ? IndexList{{0, 1}} : piece.lists.front();
    for (const auto& r : rows)
      for (const auto& c : columns)
        if (r.length > 0 && c.length > 0) boxes.push_back({r, c});
  }
  return boxes;
}

std::vector<Interval> between(const std::set<int64_t>& cuts) {
  std::vector<Interval> parts;
  for (auto end = std::next(cuts.begin()); end != cuts.end(); ++end) {
    const int64_t start = *std::prev(end);
    parts.push_back({start, *end - start});
  }
  return parts;
}

bool holds(const Interval& outer, const Interval& inner) {
  return outer.start <= inner.start && inner.start + inner.length <= outer.start + outer.length;
}

std::string text_of(const char* what, const Interval& part) {
  if (part.length == 1) return concat(what, " ", part.start);
  return concat(what, "s ", part.start, "-", part.start + part.length - 1);
}

std::string text_of(const std::vector<int64_t>& ranks) {
  std::string text;
  for (const auto rank : ranks) text += concat(text.empty() ? "" : ", ", rank);
  return text;
}

std::string pending(const Spec& spec) {
  std::string text;
  for (int64_t d = 0; d < spec.mesh().ndim(); ++d)
    if (const auto& p = spec.placements()[as_size(d)]; is_partial(p))
      text += concat(text.empty() ? "" : ", ", p, " along ",
                     spec.mesh().has_names() ? spec.mesh().names()[as_size(d)] : concat("dimension ", d));
  return text.empty() ? "" : concat("each rank's is a term: ", text, "\n");
}

// The same lists of ranks have the same colour, others another, as far as hues reach.
std::string colour_of(std::map<std::vector<int64_t>, size_t>& known, const std::vector<int64_t>& ranks) {
  const auto number = known.emplace(ranks, known.size()).first->second;
  return concat("hsl(", number * 137 % 360, ",60%,82%)");
}

}  // namespace

ShardingTable sharding_table(const Spec& spec) {
  const auto dims = spec.shape().size();
  LOCKSTEP_CHECK(dims == 1 || dims == 2, "[visualize_sharding] a tensor of shape ",
                 at::IntArrayRef(spec.shape()), "; it is for tensors of one or two dimensions");
  std::set<int64_t> rows{0, dims == 1 ? 1 : spec.shape()[0]}, columns{0, spec.shape().back()};
  std::vector<std::vector<Box>> held;
  for (int64_t position = 0; position < spec.mesh().size(); ++position) {
    held.push_back(boxes_of(spec, position));
    for (const auto& [r, c] : held.back()) {
      rows.insert({r.start, r.start + r.length});
      columns.insert({c.start, c.start + c.length});
    }
  }
  ShardingTable table{between(rows), between(columns), {}};
  for (const auto& row : table.rows) {
    auto& of_row = table.ranks.emplace_back();
    for (const auto& column : table.columns) {
      auto& ranks = of_row.emplace_back();
      for (size_t p = 0; p < held.size(); ++p)
        if (std::any_of(held[p].begin(), held[p].end(),
                        [&](const Box& box) { return holds(box.rows, row) && holds(box.columns, column); }))
          ranks.push_back(spec.mesh().ranks()[p]);
      std::sort(ranks.begin(), ranks.end());
    }
  }
  return table;
}

std::string visualize_sharding(const Spec& spec) {
  const auto table = sharding_table(spec);
  std::vector<std::vector<std::string>> cells{{""}};
  for (const auto& column : table.columns) cells[0].push_back(text_of("column", column));
  for (size_t r = 0; r < table.rows.size(); ++r) {
    auto& row = cells.emplace_back(1, spec.shape().size() == 1 ? "" : text_of("row", table.rows[r]));
    for (const auto& ranks : table.ranks[r]) row.push_back(text_of(ranks));
  }
  std::string text;
  for (const auto& row : cells) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      size_t width = 0;
      for (const auto& other : cells) width = std::max(width, other[c].size());
      line += row[c] + std::string(width - row[c].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text + pending(spec);
}

std::string visualize_sharding_html(const Spec& spec) {
  const auto table = sharding_table(spec);
  std::map<std::vector<int64_t>, size_t> colours;
  std::string html = "<table class=\"sharding\"><tr><th></th>";
  for (const auto& column : table.columns) html += concat("<th>", text_of("column", column), "</th>");
  html += "</tr>\n";
  for (size_t r = 0; r < table.rows.size(); ++r) {
    html += concat("<tr><th>", spec.shape().size() == 1 ? "" : text_of("row", table.rows[r]), "</th>");
    for (const auto& ranks : table.ranks[r])
      html += concat("<td style=\"background:", colour_of(colours, ranks), "\">", text_of(ranks), "</td>");
    html += "</tr>\n";
  }
  return html + "</table>\n" + pending(spec);
}

}  // namespace lockstep
