// SPDX-License-Identifier: Apache-2.0
#include "suites/golden/golden.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "engine/values/text.h"

namespace lockstep::suites {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "lockstep random goldens 1";
constexpr Origin kOrigins[] = {Origin::kRecorded, Origin::kPublished, Origin::kComputed};

std::string hex16(uint64_t word) {
  char text[17];
  std::snprintf(text, sizeof text, "%016lx", word);
  return text;
}

// A number that is the whole text; 64 bits, so JSON holds it as text.
uint64_t number(const std::string& text, int base) {
  uint64_t value = 0;
  const auto* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, base);
  LOCKSTEP_CHECK(!text.empty() && error == std::errc() && rest == end, "'", text, "' is not a number");
  return value;
}

Json to_json(const Golden& g) {
  const auto& c = g.cell;
  Json json = {{"op", c.op},
               {"dtype", dtype_name(c.form.dtype)},
               {"shape", shape_text(c.form.shape)},
               {"device_model", to_string(c.device)},
               {"seed", std::to_string(c.state.seed)},
               {"offset", std::to_string(c.state.offset)}};
  if (!g.source.empty()) json["source"] = g.source;
  if (!c.arguments.empty()) json["arguments"] = c.arguments;
  if (c.form.stride != contiguous_strides(c.form.shape)) json["stride"] = join(c.form.stride, 'x');
  if (g.offset_after) json["offset_after"] = std::to_string(*g.offset_after);
  if (g.fnv1a64) json["fnv1a64"] = hex16(*g.fnv1a64);
  if (!g.sum.empty()) json["sum"] = g.sum;
  if (!g.at.empty()) json["at"] = g.at;
  if (!g.printed.empty()) json["printed"] = g.printed;
  if (!g.bits.empty()) json["bits"] = g.bits;
  return json;
}

// A key that this version does not know is an error: what it says would go unchecked.
void check_keys(const Json& json) {
  static const std::vector<std::string> known = {"op",      "dtype",  "shape",   "stride", "device_model",
                                                 "seed",    "offset", "source",  "sum",    "offset_after",
                                                 "fnv1a64", "at",     "printed", "bits",   "arguments"};
  for (const auto& [key, value] : json.items())
    LOCKSTEP_CHECK(std::find(known.begin(), known.end(), key) != known.end(), "there is no key '", key, "'");
}

void check_values(const Golden& g) {
  const auto count = g.at.size();
  LOCKSTEP_CHECK(g.printed.empty() || g.printed.size() == count, g.printed.size(), " printed values for ",
                 count, " elements");
  LOCKSTEP_CHECK(g.bits.empty() || g.bits.size() == count, g.bits.size(), " values in bits for ", count,
                 " elements");
  LOCKSTEP_CHECK(g.at.empty() || !g.printed.empty() || !g.bits.empty(), "elements without values");
  LOCKSTEP_CHECK(!g.at.empty() || g.fnv1a64 || !g.sum.empty(), "it holds no value to compare with");
}

Golden golden_of(const Json& json, Origin origin) {
  check_keys(json);
  Golden g;
  g.origin = origin;
  g.source = json.value("source", "");
  g.cell.op = json.at("op").get<std::string>();
  find_stock_op(g.cell.op);
  g.cell.arguments = json.value("arguments", Arguments{});
  g.cell.form.dtype = parse_dtype(json.at("dtype").get<std::string>());
  g.cell.form.shape = parse_shape(json.at("shape").get<std::string>());
  g.cell.form.stride = contiguous_strides(g.cell.form.shape);
  if (json.contains("stride")) {
    const auto stride = parse_integers(json["stride"].get<std::string>(), 'x');
    LOCKSTEP_CHECK(stride && stride->size() == g.cell.form.shape.size(), "stride ", json["stride"].dump());
    g.cell.form.stride = *stride;
  }
  g.cell.device = parse_device_model(json.at("device_model").get<std::string>());
  g.cell.state = {number(json.at("seed").get<std::string>(), 10),
                  number(json.at("offset").get<std::string>(), 10)};
  if (json.contains("offset_after")) g.offset_after = number(json["offset_after"].get<std::string>(), 10);
  if (json.contains("fnv1a64")) g.fnv1a64 = number(json["fnv1a64"].get<std::string>(), 16);
  g.sum = json.value("sum", "");
  g.at = json.value("at", std::vector<int64_t>{});
  g.printed = json.value("printed", std::vector<std::string>{});
  g.bits = json.value("bits", std::vector<std::string>{});
  check_values(g);
  return g;
}

Origin parse_origin(const std::string& text) {
  for (const auto origin : kOrigins)
    if (text == name(origin)) return origin;
  throw Error(concat("origin '", text, "' is none of recorded, published, computed"));
}

}  // namespace

std::string to_string(const RandomCell& c) {
  std::string text = c.op;
  for (const auto& [key, value] : c.arguments)
    text += concat(text.size() == c.op.size() ? "(" : ", ", key, "=", value);
  if (!c.arguments.empty()) text += ")";
  text += concat(" ", dtype_name(c.form.dtype), "[", shape_text(c.form.shape), "]");
  if (c.form.stride != contiguous_strides(c.form.shape)) text += " stride " + join(c.form.stride, 'x');
  return text + concat(", seed ", c.state.seed, ", offset ", c.state.offset, ", ", to_string(c.device));
}

const char* name(Origin origin) {
  static constexpr std::array kNames = {"recorded", "published", "computed"};
  return kNames.at(static_cast<size_t>(origin));
}

std::string goldens_text(Origin origin, const std::vector<std::pair<std::string, std::string>>& provenance,
                         const std::vector<Golden>& goldens) {
  // One golden a line: a change of one is a change of one line.
  std::string text = concat("{\n \"format\": ", Json(kFormat).dump(),
                            ",\n \"origin\": ", Json(name(origin)).dump(), ",\n \"provenance\": {");
  for (const auto& [key, value] : provenance)
    text += concat(&key == &provenance.front().first ? "" : ",", "\n  ", Json(key).dump(), ": ",
                   Json(value).dump());
  text += "\n },\n \"goldens\": [";
  for (const auto& g : goldens) text += concat(&g == &goldens.front() ? "" : ",", "\n  ", to_json(g).dump());
  return text + "\n ]\n}\n";
}

std::vector<Golden> parse_goldens(std::string_view text, const std::string& file) {
  const auto fail = [&](const std::string& where, const std::string& what) {
    return Broken(concat("[golden] ", file, ": ", where, what,
                         "; restore the file from the repository, or record it again"));
  };
  std::vector<Golden> goldens;
  std::string where;
  try {
    const auto json = Json::parse(text);
    LOCKSTEP_CHECK(json.at("format") == kFormat, "format ", json.at("format").dump(), ", not \"", kFormat,
                   "\"");
    const auto origin = parse_origin(json.at("origin").get<std::string>());
    for (const auto& golden : json.at("goldens")) {
      where = concat("golden ", goldens.size(), ": ");
      goldens.push_back(golden_of(golden, origin));
    }
  } catch (const Json::exception& e) {
    throw fail(where, e.what());
  } catch (const Error& e) {
    throw fail(where, e.what());
  }
  return goldens;
}

std::vector<Golden> read_goldens(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> files;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".json") files.push_back(it->path().string());
  if (error)
    throw Broken(concat("[golden] ", folder, ": ", error.message(),
                        "; restore the folder, or name another one by LOCKSTEP_GOLDEN"));
  std::sort(files.begin(), files.end());
  std::vector<Golden> all;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    if (!in || !text) throw Broken(concat("[golden] cannot read ", file, "; make it readable"));
    for (auto& golden : parse_goldens(text.str(), file)) all.push_back(std::move(golden));
  }
  return all;
}

std::string golden_folder() {
  if (const char* named = std::getenv("LOCKSTEP_GOLDEN"); named != nullptr && *named != '\0') {
    std::error_code none;
    LOCKSTEP_CHECK(std::filesystem::is_directory(named, none), "[golden] LOCKSTEP_GOLDEN names ", named,
                   ", where no folder is; name one, or unset it for the goldens that ship");
    return named;
  }
  return std::filesystem::exists(LOCKSTEP_GOLDEN_FOLDER) ? LOCKSTEP_GOLDEN_FOLDER : LOCKSTEP_INSTALLED_GOLDEN;
}

}  // namespace lockstep::suites
