// SPDX-License-Identifier: Apache-2.0
// TensorBoard event files, or a folder of them.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>

#include "ci/curves/events.h"
#include "ci/curves/lines.h"
#include "ci/curves/read.h"
#include "ci/curves/tfrecord.h"
#include "engine/values/error.h"

namespace lockstep::curves {
namespace {

namespace fs = std::filesystem;

struct File {
  std::string path;
  double began = 0;  // wall time of its first event
  bool cut_short = false;
};

void each_event(File& file, const std::function<void(const Event&)>& use) {
  TfRecords records(file.path);
  for (std::string data; records.next(data);) {
    const auto event = parse_event(data);
    LOCKSTEP_CHECK(
        event, "[curves] ", file.path, ": record ", records.count(),
        " has right checksums and is no event of TensorBoard; say --format for another kind of file");
    use(*event);
  }
  file.cut_short = records.cut_short();
}

bool is_event_file(const fs::directory_entry& entry) {
  return entry.is_regular_file() && entry.path().filename().string().find("tfevents") != std::string::npos;
}

// The folder itself, not what lies below: two runs often lie side by side.
std::vector<File> files_of(const std::string& path) {
  if (!fs::is_directory(path)) return {{path}};
  std::vector<File> files;
  std::string below;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (is_event_file(entry)) files.push_back({entry.path().string()});
    if (!entry.is_directory()) continue;
    for (const auto& inner :
         fs::directory_iterator(entry.path(), fs::directory_options::skip_permission_denied))
      if (is_event_file(inner)) {
        below += (below.empty() ? "" : ", ") + entry.path().string();
        break;
      }
  }
  LOCKSTEP_CHECK(!files.empty(), "[curves] ", path, " holds no event file",
                 below.empty() ? "; name a folder with files such as events.out.tfevents.1"
                               : "; these below it do: " + below);
  for (auto& file : files) {
    bool first = true;
    each_event(file, [&](const Event& event) {
      if (first) file.began = event.wall_time;
      first = false;
    });
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::tie(a.began, a.path) < std::tie(b.began, b.path);
  });
  return files;
}

using Tags = std::map<std::string, int64_t, std::less<>>;

std::string listed(const Tags& tags) {
  std::string text;
  int64_t n = 0;
  for (const auto& [tag, count] : tags) {
    if (++n > 20) return text + concat(", and ", tags.size() - 20, " more");
    text += (text.empty() ? "" : ", ") + in_quotes(tag);
  }
  return text.empty() ? "no scalars" : text;
}

std::string tag_of(const std::string& path, const Tags& tags, const std::string& asked, Field field) {
  LOCKSTEP_CHECK(asked.empty() || tags.contains(asked), "[curves] ", path, " has no tag ", in_quotes(asked),
                 " for the ", name(field), "; it has ", listed(tags));
  if (!asked.empty()) return asked;
  for (const char* usual_name : usual(field))
    if (tags.contains(usual_name)) return usual_name;
  return "";
}

}  // namespace

Log read_tensorboard(const std::string& path, const ReadOptions& options) {
  Log log;
  Tags tags;
  int64_t others = 0;
  auto files = files_of(path);
  for (auto& file : files) {
    each_event(file, [&](const Event& event) {
      for (const auto& scalar : event.scalars) ++tags[std::string(scalar.tag)];
      others += event.others;
    });
    if (file.cut_short)
      log.notes.push_back(concat(file.path, " ends within a record: what is left of it is left out"));
  }
  if (others > 0) log.notes.push_back(concat(others, " values are no scalars: left out"));
  if (files.size() > 1)
    log.notes.push_back(concat(files.size(), " event files were read, in the order of their times"));
  const std::string chosen[] = {tag_of(path, tags, options.loss, Field::kLoss),
                                tag_of(path, tags, options.grad_norm, Field::kGradNorm)};
  if (tags.empty()) return log;
  LOCKSTEP_CHECK(!chosen[0].empty() || !chosen[1].empty(), "[curves] ", path,
                 " has no tag with a usual name; say --tag loss=NAME. It has ", listed(tags));
  Collector collector;
  for (auto& file : files)
    each_event(file, [&](const Event& event) {
      for (const auto& scalar : event.scalars)
        for (const auto field : {Field::kLoss, Field::kGradNorm})
          if (scalar.tag == chosen[static_cast<size_t>(field)])
            collector.add(event.step, field, scalar.value);
    });
  for (const auto field : {Field::kLoss, Field::kGradNorm})
    if (const auto& tag = chosen[static_cast<size_t>(field)]; !tag.empty())
      log.notes.push_back(concat(name(field), " is the tag ", in_quotes(tag)));
  std::move(collector).finish(log);
  return log;
}

}  // namespace lockstep::curves
