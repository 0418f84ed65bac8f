// SPDX-License-Identifier: Apache-2.0
// readme_numbers runs RUN_DB RATE_DB ROOT
// readme_numbers draws GRID_DB INIT_DB ALONE_DB ROOT
// readme_numbers curves CURVES_DB ROOT
// readme_numbers peers PEERS_DB ROOT
// readme_numbers scale SCALE_JSON ROOT
//     reads a part's stores, writes golden/numbers.json and README.md; the other parts stay
// readme_numbers render ROOT
//     writes README.md from golden/numbers.json; nothing is measured
// readme_numbers check ROOT
//     1 if the README is not what golden/numbers.json renders to
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "ci/readme/numbers.h"

namespace {

using namespace lockstep::readme;

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

void freeze(const Json& numbers, const std::string& root) {
  write(root + "/README.md", replace_section(read(root + "/README.md"), render(numbers)));
  write(root + "/golden/numbers.json", numbers.dump(1) + "\n");
}

// The curves, and their picture, where ci/numbers drew it.
Json curves(const std::string& store, const std::string& root) {
  Json found = measure_curves(store);
  const std::string picture = "golden/curves.png";
  if (std::ifstream(root + "/" + picture)) found["picture"] = picture;
  return {{"curves", std::move(found)}};
}

struct Part {
  const char* name;
  size_t stores;
  Json (*measure)(const std::vector<std::string>& stores, const std::string& root);
};
using Stores = std::vector<std::string>;
const Part kParts[] = {
    {"runs", 2, [](const Stores& s, const std::string&) { return measure_runs(s[0], s[1]); }},
    {"draws", 3, [](const Stores& s, const std::string&) { return measure_draws(s[0], s[1], s[2]); }},
    {"curves", 1, [](const Stores& s, const std::string& root) { return curves(s[0], root); }},
    {"peers", 1,
     [](const Stores& s, const std::string&) {
       return Json{{"peers", measure_peers(s[0])}};
     }},
    {"scale", 1,
     [](const Stores& s, const std::string&) {
       return Json{{"scale", Json::parse(read(s[0]))}};
     }},
};

int check(const std::string& root) {
  const Json numbers = Json::parse(read(root + "/golden/numbers.json"));
  const std::string page = read(root + "/README.md");
  if (replace_section(page, render(numbers)) == page) return 0;
  std::fprintf(stderr, "the numbers in README.md are not those of golden/numbers.json: run ci/numbers\n");
  return 1;
}

int render_again(const std::string& root) {
  freeze(Json::parse(read(root + "/golden/numbers.json")), root);
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 2 && arguments[0] == "render") return render_again(arguments[1]);
  if (arguments.size() == 2 && arguments[0] == "check") return check(arguments[1]);
  for (const Part& part : kParts) {
    if (arguments.size() != part.stores + 2 || arguments[0] != part.name) continue;
    const std::string& root = arguments.back();
    Json numbers = Json::parse(read(root + "/golden/numbers.json"));
    numbers.update(part.measure({arguments.begin() + 1, arguments.end() - 1}, root));
    freeze(numbers, root);
    return 0;
  }
  std::fprintf(stderr,
               "usage: readme_numbers runs RUN_DB RATE_DB ROOT | draws GRID_DB INIT_DB ALONE_DB ROOT |\n"
               "       curves CURVES_DB ROOT | peers PEERS_DB ROOT | scale SCALE_JSON ROOT | render ROOT |\n"
               "       check ROOT\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "readme_numbers: %s\n", e.what());
    return 3;
  }
}
