// SPDX-License-Identifier: Apache-2.0
// Failures by bucket: what differed, where, by how much, and the token that replays it.
#include "dashboard/report/panels.h"
#include "dashboard/store/bits.h"

namespace lockstep::dashboard {

using html::grouped;
using html::plural;

namespace {

constexpr int64_t kMostBuckets = 100;
constexpr int64_t kMostDiffs = 8;

std::string value_cell(const Row& r, int bits_column, const std::string& dtype) {
  const uint64_t bits = from_column(r.integer(bits_column));
  return "<b>" + shortest(bits, dtype) + "</b><br><code class=\"quiet\">" + hex(bits, dtype) + "</code>";
}

// Of float64 values the bits are in the tooltip: nobody compares them by eye.
std::string double_cell(const Row& r, int bits_column) {
  if (r.null(bits_column)) return "–";
  const uint64_t bits = from_column(r.integer(bits_column));
  return "<span title=\"" + hex(bits, "f64") + "\">" + shortest(bits, "f64") + "</span>";
}

std::string place_cell(const Row& r, int index_column, int rank_column) {
  std::string s = "<code>" + r.html(index_column) + "</code>";
  if (r.integer(rank_column) < 0) return s;
  return s + " <span class=\"quiet\">rank " + r.grouped(rank_column) + ", local " +
         r.grouped(rank_column + 1) + "</span>";
}

}  // namespace

std::string tensor_diffs(const Source& source, int64_t case_id, int64_t most) {
  html::Table table("Tensors that differ", {{"Value", "key"},
                                            {"Class"},
                                            {"Differ", "num"},
                                            {"Max ulp", "num"},
                                            {"Max |Δ|", "num"},
                                            {"First at"},
                                            {"One device", "num"},
                                            {"Sharded", "num"},
                                            {"float64", "num"},
                                            {"Bound", "num"}});
  const std::string from = " FROM v_diffs WHERE case_id = " + std::to_string(case_id);
  source.each(
      "SELECT value, bit_class, dtype, elements, different, max_ulp, max_abs_bits, first_index, rank, "
      "local_index, "
      "expected_bits, actual_bits, float64_bits, bound_bits" +
          from + " ORDER BY seq LIMIT " + std::to_string(most),
      [&](const Row& r) {
        const std::string dtype = r.text(2);
        table.row({"<code>" + r.html(0) + "</code> <span class=\"quiet\">" + html::escape(dtype) + "</span>",
                   r.html(1), r.grouped(4) + " of " + r.grouped(3), r.grouped(5),
                   html::brief(value_of(from_column(r.integer(6)), "f64")), place_cell(r, 7, 8),
                   value_cell(r, 10, dtype), value_cell(r, 11, dtype), double_cell(r, 12),
                   double_cell(r, 13)});
      });
  const int64_t all = source.integer("SELECT count(*)" + from);
  if (all == table.rows()) return table.html();
  return table.html() + "<p class=\"quiet\">" + grouped(all - table.rows()) +
         " more values differ in this case.</p>";
}

namespace {

// Columns: bucket, suite, law, verdict, op, placement, mesh, dtype, cases, token, program, ops, shrink_steps,
// budget_ended, explanation, case_id, replay, variant
std::string bucket_card(const Source& source, const Row& r, int64_t index) {
  const std::string id = "b" + std::to_string(index);
  std::string s = std::string("<details class=\"bucket\"") + (index < 3 ? " open" : "") + "><summary>" +
                  html::verdict_chip(r.text(3)) + "<span class=\"what\"><b>" + r.html(4) + "</b> on <code>" +
                  r.html(5) + "</code> · mesh " + r.html(6) + " · " + r.html(7) +
                  "</span><span class=\"count\">" + plural(r.integer(8), "case", "cases") +
                  "</span></summary><div class=\"body\">";
  s += "<p>" + (r.text(14).empty() ? "No explanation was recorded." : r.html(14)) +
       "</p><p class=\"quiet\">Suite " + r.html(1) + " · law: " + r.html(2) +
       (r.text(17).empty() ? "" : " · " + r.html(17)) + " · bucket " +
       source.link("<code>" + r.html(0) + "</code>", "bucket", {{"id", content_id(r.text(0))}}) + "</p>";
  s += tensor_diffs(source, r.integer(15), kMostDiffs);
  if (!r.text(10).empty()) {
    s += html::code_block(
        id + "p", r.null(11) ? "Program" : "Shrunk to " + plural(r.integer(11), "op", "ops"), r.text(10));
  }
  if (!r.null(12)) {
    s += "<p class=\"quiet\">" + plural(r.integer(12), "shrinking step", "shrinking steps") +
         (r.integer(13) ? "; the budget ended before the smallest was certain"
                        : "; no smaller case fails so") +
         ".</p>";
  }
  return s + html::code_block(id + "r", "Replay", r.text(16)) +
         html::code_block(id + "t", "Token", r.text(9)) + "</div></details>";
}

std::string unstable_table(const Source& source) {
  html::Table table("Cases that do not repeat themselves",
                    {{"Suite", "key"}, {"Outcomes", "num"}, {"Verdicts"}, {"Case"}});
  source.each(
      "SELECT suite, what, outcomes, verdicts FROM v_nondeterminism WHERE run_id IN shown ORDER BY 1, 2 "
      "LIMIT 50",
      [&](const Row& r) {
        table.row({r.html(0), r.grouped(2), r.html(3), "<code class=\"wrap\">" + r.html(1) + "</code>"});
      });
  if (table.rows() == 0) return "";
  return "<h3>Not deterministic</h3><p>The same build, seed and token came out in more than one way. Usual "
         "causes: "
         "order of pointers, time, iteration over an unordered container, a data race.</p>" +
         table.html();
}

}  // namespace

std::string render_failures(const Source& source, nlohmann::json&) {
  int64_t index = 0;
  std::string cards;
  source.each(
      "SELECT bucket, suite, law, verdict, op, placement, mesh, dtype, cases, token, program, ops, "
      "shrink_steps, budget_ended, "
      "explanation, case_id, replay, variant FROM v_failures f JOIN verdict v ON v.name = f.verdict WHERE "
      "run_id IN shown "
      "ORDER BY v.severity DESC, cases DESC, bucket LIMIT " +
          std::to_string(kMostBuckets),
      [&](const Row& r) { cards += bucket_card(source, r, index++); });
  const int64_t all = source.integer("SELECT count(*) FROM v_failures WHERE run_id IN shown");
  if (all == 0)
    cards =
        "<p class=\"empty good\">No failure. Nothing differs without an explanation, nothing crashed, "
        "nothing hung.</p>";
  if (all > index)
    cards += "<p class=\"quiet\">" + grouped(all - index) +
             " more buckets; the view v_failures lists them all.</p>";
  return cards + unstable_table(source);
}

}  // namespace lockstep::dashboard
