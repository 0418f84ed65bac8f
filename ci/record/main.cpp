// SPDX-License-Identifier: Apache-2.0
// golden_record [-o FOLDER] [--device N]: records what stock torch.cuda draws over the matrix of goldens.
// Exit codes: 0 recorded, and equal to what Lockstep draws; 1 recorded, with differences; 2 usage; 3 it could
// not be written or CUDA failed; 77 no device: nothing recorded.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "ci/record/record.h"
#include "engine/values/error.h"

namespace lockstep::record {
namespace {

constexpr int kDifferent = 1, kUsage = 2, kFailed = 3, kSkipped = 77;

void write(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw Broken(concat("cannot write ", path, "; name a folder that may be written by -o"));
}

int record(const std::string& folder, int64_t index) {
  const auto found = find_cuda_device(index);
  if (!found.device) {
    std::printf("no device: nothing recorded (%s)\n", found.why_not.c_str());
    return kSkipped;
  }
  auto cells = suites::golden_matrix(found.device->stock.model);
  const auto giants = suites::golden_giants(found.device->stock.model);
  cells.insert(cells.end(), giants.begin(), giants.end());
  const auto recording = record_cells(*found.device, cells);
  const auto path = (std::filesystem::path(folder) / file_name(found.device->name)).string();
  write(path, recording.text);
  for (const auto& text : recording.different) std::printf("different: %s\n", text.c_str());
  std::printf(
      "%s: of the draws recorded, %ld are equal to Lockstep's, %ld agree to four digits, %zu differ\n",
      path.c_str(), recording.equal, recording.to_digits, recording.different.size());
  return recording.different.empty() ? 0 : kDifferent;
}

int main(int argc, char** argv) {
  CLI::App app("Records the goldens of the random stream on the CUDA device of this machine.",
               "golden/record");
  std::string folder = LOCKSTEP_RECORD_FOLDER;
  int64_t index = 0;
  app.add_option("-o", folder, "Folder for the file (default: golden/rng of the source tree)");
  app.add_option("--device", index, "Number of the CUDA device (default 0)");
  app.footer(
      "Exit codes: 0 recorded and equal; 1 recorded, with differences; 2 usage; 3 failed; 77 no device.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kUsage;
  }
  try {
    return record(folder, index);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "golden/record: %s\n", e.what());
    return kFailed;
  }
}

}  // namespace
}  // namespace lockstep::record

int main(int argc, char** argv) {
  return lockstep::record::main(argc, argv);
}
