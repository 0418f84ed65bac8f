// SPDX-License-Identifier: Apache-2.0
#include "ci/readme/numbers.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdio>
#include <stdexcept>

#include "dashboard/store.h"

namespace lockstep::readme {
namespace {

using dashboard::Store;

constexpr std::string_view kBegin = "<!-- numbers:begin -->\n";
constexpr std::string_view kEnd = "<!-- numbers:end -->";

Json value_of(const SQLite::Column& column) {
  if (column.isInteger()) return column.getInt64();
  if (column.isFloat()) return column.getDouble();
  if (column.isNull()) return nullptr;
  return column.getString();
}

// Each row as an object of column names.
Json rows(const Store& store, const std::string& query) {
  SQLite::Statement statement(store.database(), query);
  Json result = Json::array();
  while (statement.executeStep()) {
    Json row;
    for (int i = 0; i < statement.getColumnCount(); ++i)
      row[statement.getColumnName(i)] = value_of(statement.getColumn(i));
    result.push_back(row);
  }
  return result;
}

const std::string kNewest = " WHERE run_id = (SELECT max(run_id) FROM v_summary)";

Json one_row(const Store& store, const std::string& path, const std::string& query) {
  const Json found = rows(store, query);
  if (found.size() != 1) throw std::runtime_error(path + " does not hold what the README needs: " + query);
  return found[0];
}

Json machine(const Store& store, const std::string& path) {
  Json result;
  for (const auto name : {"processor", "cores", "libtorch", "commit"})
    result[name] = one_row(
        store, path, "SELECT value FROM v_environment" + kNewest + " AND name = '" + name + "'")["value"];
  return result;
}

std::string thousands(int64_t n) {
  std::string text = std::to_string(n);
  for (int64_t at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

std::string format(const char* form, double value) {
  char text[64];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// As a reader would type it: where the store was written is of no interest.
std::string command_of(const Json& run) {
  const auto command = text_of(run["command"]);
  return "`" + command.substr(0, command.find(" --db ")) + "`";
}

void row(std::string& out, const std::string& what, const std::string& number) {
  out += "| " + what + " | " + number + " |\n";
}

std::string run_table(const Json& numbers) {
  const Json& run = numbers["run"];
  const Json& faults = numbers["faults"];
  std::string out = "| what | number |\n|---|---|\n";
  row(out, command_of(run) + ", seed " + text_of(run["seed"]),
      thousands(run["cases"].get<int64_t>() + run["self_checks"].get<int64_t>()) + " generated cases over " +
          text_of(run["ops"]) + " operators in " + format("%.0f", run["seconds"]) + " s");
  row(out, "equal, bit for bit", thousands(run["equal"]));
  row(out, "different, and explained by both proofs", thousands(run["explained"]));
  row(out, "on the list of exceptions", thousands(run["expected_exceptions"]));
  row(out, "unexplained differences, crashes, hangs", thousands(run["failures"]));
  row(out, "planted faults found",
      text_of(faults["found"]) + " of " + text_of(faults["planted"]) + ", each within " +
          thousands(faults["most_cases"]) + " cases, shrunk to at most " + text_of(faults["largest_shrunk"]) +
          " operators");
  row(out, command_of(numbers["rate"]),
      format("%.0f", numbers["rate"]["value"]) + " cases a second and core");
  return out;
}

std::string curve_table(const Json& curves) {
  std::string out =
      "| mesh | random policy | of | steps with equal bits | first difference | largest ulp | largest "
      "difference |\n"
      "|---|---|---|--:|--:|--:|--:|\n";
  for (const auto& c : curves) {
    const auto& first = c["first_differing_step"];
    const auto& ulp = c["max_loss_ulp"];
    const auto& distance = c["max_loss_abs"];
    out += "| " + text_of(c["mesh"]) + " | " + text_of(c["policy"]) + " | " + text_of(c["variant"]) + " | " +
           text_of(c["identical_prefix"]) + " of " + text_of(c["steps"]) + " | " +
           (first.is_null() ? "none" : "step " + text_of(first)) + " | " +
           (ulp.is_null() ? "NaN" : thousands(ulp)) + " | " +
           (distance.is_null() ? "NaN" : format("%.3g", distance)) + " |\n";
  }
  return out;
}

}  // namespace

Json measure(const Stores& stores) {
  const Store run = Store::open_reader(stores.run), rate = Store::open_reader(stores.rate),
              curves = Store::open_reader(stores.curves);
  Json numbers;
  numbers["machine"] = machine(run, stores.run);
  numbers["run"] = one_row(run, stores.run,
                           "SELECT command, seed, cases, self_checks, seconds, ops, equal, explained, "
                           "expected_exceptions, failures FROM v_summary" +
                               kNewest);
  numbers["faults"] = one_row(run, stores.run,
                              "SELECT count(*) AS planted, sum(found) AS found, max(cases) AS most_cases, "
                              "max(shrunk_ops) AS largest_shrunk FROM v_faults" +
                                  kNewest + " HAVING count(*) > 0");
  numbers["rate"] =
      one_row(rate, stores.rate,
              "SELECT s.command, t.value FROM v_summary s JOIN v_throughput t USING (run_id)" + kNewest +
                  " AND t.kind = 'measurement' AND t.name = 'cases per second per core'");
  numbers["curves"]["command"] =
      one_row(curves, stores.curves, "SELECT command FROM v_summary" + kNewest)["command"];
  numbers["curves"]["rows"] =
      rows(curves,
           "SELECT mesh, policy, variant, steps, identical_prefix, first_differing_step, max_loss_ulp, "
           "max_loss_abs FROM v_curve_diff" +
               kNewest + " ORDER BY variant, policy DESC, length(mesh), mesh");
  return numbers;
}

std::string render(const Json& numbers) {
  const Json& machine = numbers["machine"];
  return "Measured by `ci/numbers` on " + text_of(machine["cores"]) + " cores of " +
         text_of(machine["processor"]) + " with libtorch " + text_of(machine["libtorch"]) + ", commit " +
         text_of(machine["commit"]).substr(0, 12) + ".\n\n" + run_table(numbers) + "\n" +
         command_of(numbers["curves"]) +
         ": the loss against one device, plain libtorch on the same random stream.\n\n" +
         curve_table(numbers["curves"]["rows"]) + "\n";
}

std::string replace_section(const std::string& page, const std::string& section) {
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    throw std::runtime_error("the page has no " + std::string(kBegin) + std::string(kEnd));
  return page.substr(0, begin + kBegin.size()) + "\n" + section + page.substr(end);
}

}  // namespace lockstep::readme
