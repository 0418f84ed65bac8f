// SPDX-License-Identifier: Apache-2.0
// readme_numbers measure RUN_DB RATE_DB CURVES_DB GRID_DB INIT_DB ALONE_DB PEERS_DB ROOT
//     reads the stores, writes golden/numbers.json and README.md
// readme_numbers curves CURVES_DB ROOT
// readme_numbers peers PEERS_DB ROOT
// readme_numbers scale SCALE_JSON ROOT
//     the same for these alone
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

// The curves drawn, where ci/numbers drew them.
void add_picture(Json& numbers, const std::string& root) {
  const std::string picture = "golden/curves.png";
  if (std::ifstream(root + "/" + picture)) numbers["curves"]["picture"] = picture;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 9 && arguments[0] == "measure") {
    auto numbers = measure(
        {arguments[1], arguments[2], arguments[3], arguments[4], arguments[5], arguments[6], arguments[7]});
    add_picture(numbers, arguments[8]);
    freeze(numbers, arguments[8]);
    return 0;
  }
  if (arguments.size() == 3 && arguments[0] == "curves") {
    auto numbers = Json::parse(read(arguments[2] + "/golden/numbers.json"));
    numbers["curves"] = measure_curves(arguments[1]);
    add_picture(numbers, arguments[2]);
    freeze(numbers, arguments[2]);
    return 0;
  }
  if (arguments.size() == 3 && arguments[0] == "peers") {
    auto numbers = Json::parse(read(arguments[2] + "/golden/numbers.json"));
    numbers["peers"] = measure_peers(arguments[1]);
    freeze(numbers, arguments[2]);
    return 0;
  }
  if (arguments.size() == 3 && arguments[0] == "scale") {
    auto numbers = Json::parse(read(arguments[2] + "/golden/numbers.json"));
    numbers["scale"] = Json::parse(read(arguments[1]));
    freeze(numbers, arguments[2]);
    return 0;
  }
  if (arguments.size() == 2 && arguments[0] == "check") {
    const std::string page = read(arguments[1] + "/README.md");
    if (!std::ifstream(arguments[1] + "/golden/numbers.json")) {
      if (page.find("Not measured yet: run `ci/numbers`.") != std::string::npos) return 0;
      std::fprintf(stderr, "README.md states numbers, but there is no golden/numbers.json: run ci/numbers\n");
      return 1;
    }
    const Json numbers = Json::parse(read(arguments[1] + "/golden/numbers.json"));
    if (replace_section(page, render(numbers)) == page) return 0;
    std::fprintf(stderr, "the numbers in README.md are not those of golden/numbers.json: run ci/numbers\n");
    return 1;
  }
  std::fprintf(
      stderr,
      "usage: readme_numbers measure RUN_DB RATE_DB CURVES_DB GRID_DB INIT_DB ALONE_DB PEERS_DB ROOT |\n"
      "                      curves CURVES_DB ROOT | peers PEERS_DB ROOT | scale SCALE_JSON ROOT | check "
      "ROOT\n");
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
