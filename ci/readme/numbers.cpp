// SPDX-License-Identifier: Apache-2.0
#include "ci/readme/numbers.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>

#include "dashboard/store/store.h"

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

Json command_and_commit(const Store& store, const std::string& path) {
  return {{"command", one_row(store, path, "SELECT command FROM v_summary" + kNewest)["command"]},
          {"commit", machine(store, path)["commit"]}};
}

// A part's command, and the commit that it was measured at, where that is not the one the section begins
// with.
std::string command_and_commit(const Json& numbers, const char* part) {
  const Json& of = numbers[part];
  const bool other = of.contains("commit") && of["commit"] != numbers["machine"]["commit"];
  return command_of(of) + (other ? ", commit " + text_of(of["commit"]).substr(0, 12) : "");
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

// "| 2 | 4.77e-07": how far a curve lies from its reference; NULL where a side is not a number.
std::string farthest(const Json& ulp, const Json& distance) {
  return "| " + (ulp.is_null() ? "NaN" : thousands(ulp)) + " | " +
         (distance.is_null() ? "NaN" : format("%.3g", distance)) + " ";
}

std::string curve_table(const Json& curves) {
  // Numbers from before the gradient norm's were read have none.
  const bool norms = curves.front().contains("max_grad_norm_ulp");
  std::string out =
      "| mesh | random policy | of | steps with equal bits | first difference | loss: largest ulp | largest "
      "difference |" +
      std::string(norms ? " gradient norm: largest ulp | largest difference |" : "") +
      "\n|---|---|---|--:|--:|--:|--:|" + (norms ? "--:|--:|" : "") + "\n";
  for (const auto& c : curves) {
    const auto& first = c["first_differing_step"];
    out += "| " + text_of(c["mesh"]) + " | " + text_of(c["policy"]) + " | " + text_of(c["variant"]) + " | " +
           text_of(c["identical_prefix"]) + " of " + text_of(c["steps"]) + " | " +
           (first.is_null() ? "none" : "step " + text_of(first)) + " " +
           farthest(c["max_loss_ulp"], c["max_loss_abs"]) +
           (norms ? farthest(c["max_grad_norm_ulp"], c["max_grad_norm_abs"]) : "") + "|\n";
  }
  return out;
}

std::string curve_section(const Json& numbers) {
  const Json& curves = numbers["curves"];
  const auto indexed = [](const Json& c) { return c["policy"] == "indexed"; };
  const bool any = std::any_of(curves["rows"].begin(), curves["rows"].end(), indexed);
  std::string out = command_and_commit(numbers, "curves") +
                    ": the loss against one device, plain libtorch on the same random stream" +
                    (any ? "; under the indexed policy, one device on the indexed numbers" : "") +
                    ". Equal bits and the first difference are of loss and gradient norm together.\n\n";
  if (curves.contains("picture"))
    out +=
        "![Loss under each random policy and its distance from one device: first values alone, dropout "
        "alone, "
        "both, indexed numbers](" +
        text_of(curves["picture"]) + ")\n\n";
  return out + curve_table(curves["rows"]) + "\n";
}

// "x0=f32[64x32]:…" in a token: the elements of its first input.
double elements_of(const std::string& token) {
  const size_t open = token.find('[', token.find("x0=")), close = token.find(']', open);
  std::istringstream sizes(token.substr(open + 1, close - open - 1));
  double elements = 1;
  for (std::string size; std::getline(sizes, size, 'x');) elements *= std::stod(size);
  return elements;
}

// The column of a tensor of so many float32: the largest name whose size it does not pass. Uneven tensors are
// a little smaller than their size.
struct GridSize {
  const char* name;
  double elements;
};
constexpr GridSize kGridSizes[] = {
    {"to 128 KB", 0x1p15}, {"262 KB", 0x1p16}, {"64 MB", 0x1p24}, {"1 GB", 0x1p28}, {"16 GB", 0x1p32}};

Json grid_rows(const Store& store, const std::string& path) {
  Json counts;
  // A case's text is not in a view: renderers of runs have no use for it.
  for (const auto& row :
       rows(store,
            "SELECT ops, token, verdict FROM cases WHERE suite = 'grid' AND run = (SELECT max(run_id) "
            "FROM v_summary)")) {
    const auto elements = elements_of(row["token"]);
    const auto* size = std::begin(kGridSizes);
    while (elements > size->elements) ++size;
    Json& cell = counts[text_of(row["ops"])][size->name];
    if (cell.is_null()) cell = {{"cases", 0}, {"equal", 0}};
    cell["cases"] = cell["cases"].get<int64_t>() + 1;
    cell["equal"] = cell["equal"].get<int64_t>() + (row["verdict"] == "equal" ? 1 : 0);
  }
  if (counts.is_null()) throw std::runtime_error(path + " has no case of the suite grid");
  return counts;
}

std::string grid_table(const Json& grid) {
  std::string head = "| operator |", line = "|---|", out;
  for (const auto& size : kGridSizes) {
    head += std::string(" ") + size.name + " |";
    line += "--:|";
  }
  for (const auto& [op, cells] : grid.items()) {
    out += "| `" + op + "` |";
    for (const auto& size : kGridSizes) {
      const Json cell = cells.value(size.name, Json{{"cases", 0}, {"equal", 0}});
      out += " " + text_of(cell["equal"]) + " of " + text_of(cell["cases"]) + " |";
    }
    out += "\n";
  }
  return head + "\n" + line + "\n" + out;
}

// Measurements named "init llama tiny tp:8 | policy | quantity".
Json init_rows(const Store& store, const std::string& path) {
  Json result;
  for (const auto& row : rows(store, "SELECT name, value FROM v_throughput" + kNewest +
                                         " AND kind = 'measurement' AND name LIKE 'init %'")) {
    const auto name = text_of(row["name"]);
    const size_t first = name.find(" | "), second = name.find(" | ", first + 3);
    result[name.substr(first + 3, second - first - 3)][name.substr(second + 3)] = row["value"];
  }
  if (result.is_null()) throw std::runtime_error(path + " does not hold a run of lockstep init");
  return result;
}

std::string init_table(const Json& init) {
  std::string out =
      "| random policy | elements that differ | of | largest difference | mean | deviation |\n"
      "|---|--:|--:|--:|--:|--:|\n";
  for (const auto& [policy, row] : init.items()) {
    if (!row.contains("deviation")) continue;
    out += "| " + policy + " | " + thousands(row["elements that differ"]) + " | " +
           thousands(row["elements"]) + " | " + format("%.3g", row["largest difference"]) + " | " +
           format("%.2g", row["mean"]) + " | " + format("%.4f", row["deviation"]) + " |\n";
  }
  return out;
}

// Of the ranks that drew their parameters alone: the most that one held.
std::string alone_line(const Json& alone) {
  double held = 0, most = 0, different = 0, seconds = 0;
  int ranks = 0;
  for (const auto& [name, row] : alone.items()) {
    if (!row.contains("held")) continue;
    ++ranks;
    held = std::max(held, row["held"].get<double>());
    most = std::max(most, row["most ever held"].get<double>());
    seconds = std::max(seconds, row["time"].get<double>());
    different += row["parameters that differ"].get<double>();
  }
  return "each of the " + std::to_string(ranks) + " ranks, drawn alone, holds up to " +
         format("%.2f", held / 1e9) + " GB, at most " + format("%.2f", most / 1e9) +
         " GB at once, in up to " + format("%.0f", seconds) + " s; " + format("%.0f", different) +
         " parameters differ from one device.";
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

std::string brief(double value) {
  return value < 1000 ? format("%.3g", value) : thousands(static_cast<int64_t>(value + 0.5));
}

// Ours and theirs side by side, for each series that both have.
std::string peers_table(const Json& peers) {
  std::string out = "| what | Lockstep | PyTorch | better by |\n|---|--:|--:|--:|\n";
  for (const auto& p : peers["rows"]) {
    const auto unit = " " + text_of(p["unit"]);
    const double ours = p["ours"], theirs = p["theirs"];
    const double better = p["better"] == "more" ? ours / theirs : theirs / ours;
    out += "| " + text_of(p["series"]) + " | " + brief(ours) + unit + " | " + brief(theirs) + unit + " | " +
           format("%.1f", better) + " |\n";
  }
  return out;
}

std::string peers_section(const Json& numbers) {
  if (!numbers.contains("peers")) return "";
  return "`ci/peers`: this engine and PyTorch's own DTensor of the same version, in turns on " +
         text_of(numbers["peers"]["machine"]["processor"]) +
         ". Dispatch is what an op takes above the plain op, each in its own language; a small case is three "
         "ops "
         "against one device, with all ranks hosted (LocalTensorMode there).\n\n" +
         peers_table(numbers["peers"]) + "\n";
}

// What `ci/serve_bench` wrote of a large store.
std::string scale_section(const Json& numbers) {
  if (!numbers.contains("scale")) return "";
  const Json& scale = numbers["scale"];
  std::string out = "`ci/serve_bench`: a database of " + thousands(scale["cases"]) +
                    " cases.\n\n| what | seconds | memory |\n|---|--:|--:|\n";
  for (const auto& row : scale["rows"])
    out += "| " + text_of(row["what"]) + " | " + format("%.1f", row["seconds"]) + " | " +
           format("%.0f", row["mib"]) + " MiB |\n";
  return out + "| the dashboard's slowest page | " +
         format("%.2f", scale["slowest_page_ms"].get<double>() / 1000) + " | " +
         format("%.0f", scale["server_mib"]) + " MiB |\n\n";
}

}  // namespace

Json measure_peers(const std::string& path) {
  const Store store = Store::open_reader(path);
  std::map<std::string, std::map<std::string, std::vector<double>>> values;
  for (const auto& s : rows(store, "SELECT series, arm, value FROM v_samples" + kNewest))
    values[text_of(s["series"])][text_of(s["arm"])].push_back(s["value"]);
  Json result = {{"machine", machine(store, path)}, {"rows", Json::array()}};
  for (const auto& s :
       rows(store, "SELECT series, unit, better FROM v_series" + kNewest + " ORDER BY area, series")) {
    auto& arms = values[text_of(s["series"])];
    if (arms["candidate"].empty() || arms["baseline"].empty()) continue;
    result["rows"].push_back({{"series", s["series"]},
                              {"unit", s["unit"]},
                              {"better", s["better"]},
                              {"ours", median(arms["candidate"])},
                              {"theirs", median(arms["baseline"])}});
  }
  if (result["rows"].empty()) throw std::runtime_error(path + " does not hold a run of ci/peers");
  return result;
}

Json measure_curves(const std::string& path) {
  const Store store = Store::open_reader(path);
  Json result = command_and_commit(store, path);
  result["rows"] =
      rows(store,
           "SELECT mesh, policy, variant, steps, identical_prefix, first_differing_step, max_loss_ulp, "
           "max_loss_abs, max_grad_norm_ulp, max_grad_norm_abs FROM v_curve_diff" +
               kNewest + " ORDER BY variant, policy DESC, length(mesh), mesh");
  if (result["rows"].empty()) throw std::runtime_error(path + " does not hold a run of lockstep curves");
  return result;
}

Json measure_runs(const std::string& run_path, const std::string& rate_path) {
  const Store run = Store::open_reader(run_path), rate = Store::open_reader(rate_path);
  Json numbers;
  numbers["machine"] = machine(run, run_path);
  numbers["run"] = one_row(run, run_path,
                           "SELECT command, seed, cases, self_checks, seconds, ops, equal, explained, "
                           "expected_exceptions, failures FROM v_summary" +
                               kNewest);
  numbers["faults"] = one_row(run, run_path,
                              "SELECT count(*) AS planted, sum(found) AS found, max(cases) AS most_cases, "
                              "max(shrunk_ops) AS largest_shrunk FROM v_faults" +
                                  kNewest + " HAVING count(*) > 0");
  numbers["rate"] =
      one_row(rate, rate_path,
              "SELECT s.command, t.value FROM v_summary s JOIN v_throughput t USING (run_id)" + kNewest +
                  " AND t.kind = 'measurement' AND t.name = 'cases per second per core'");
  return numbers;
}

Json measure_draws(const std::string& grid, const std::string& init, const std::string& alone) {
  Json numbers;
  const auto part = [&](const char* name, const std::string& path, auto&& rows_of) {
    const Store store = Store::open_reader(path);
    numbers[name] = command_and_commit(store, path);
    numbers[name]["rows"] = rows_of(store, path);
  };
  part("grid", grid, grid_rows);
  part("init", init, init_rows);
  part("alone", alone, init_rows);
  return numbers;
}

std::string render(const Json& numbers) {
  const Json& machine = numbers["machine"];
  return "Measured by `ci/numbers` on " + text_of(machine["cores"]) + " cores of " +
         text_of(machine["processor"]) + " with libtorch " + text_of(machine["libtorch"]) + ", commit " +
         text_of(machine["commit"]).substr(0, 12) + ".\n\n" + run_table(numbers) + "\n" +
         peers_section(numbers) + curve_section(numbers) + command_and_commit(numbers, "grid") +
         ": cases equal bit for bit, in 1 to 5 dimensions, each dimension cut and each pair, evenly and not. "
         "Up to "
         "128 KB whole, under devices of one and two blocks; beyond by samples, under 132x2048.\n\n" +
         grid_table(numbers["grid"]["rows"]) + "\n" + command_and_commit(numbers, "init") +
         ": the model's first values against one device.\n\n" + init_table(numbers["init"]["rows"]) + "\n" +
         command_and_commit(numbers, "alone") + ": " + alone_line(numbers["alone"]["rows"]) + "\n\n" +
         scale_section(numbers);
}

std::string replace_section(const std::string& page, const std::string& section) {
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    throw std::runtime_error("the page has no " + std::string(kBegin) + std::string(kEnd));
  return page.substr(0, begin + kBegin.size()) + "\n" + section + page.substr(end);
}

}  // namespace lockstep::readme
