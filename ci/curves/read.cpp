// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/read.h"

#include <filesystem>
#include <map>

#include "ci/curves/lines.h"
#include "engine/values/error.h"

namespace lockstep::curves {
namespace {

// By the first lines: a brace begins JSONL; a header with a usual name for the steps begins CSV; a line with
// step: and loss: is torchtitan's, however much was logged before it.
std::string guessed(const std::string& path, const ReadOptions& options) {
  std::error_code unknown;
  LOCKSTEP_CHECK(!std::filesystem::is_directory(path, unknown) && path.find("tfevents") == std::string::npos,
                 "[curves] ", path, " is TensorBoard's: `ci/tensorboard ", path,
                 " >FILE.jsonl` makes JSON lines of it");
  Lines lines(path);
  bool first = true;
  for (Line line; lines.next(line);) {
    if (line.text.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (first && line.text.find_first_not_of(' ') == line.text.find('{')) return "jsonl";
    if (first && line.text.find_first_of(",;\t") != std::string::npos) {
      if (!options.step.empty() && line.text.find(options.step) != std::string::npos) return "csv";
      for (const char* step : usual_steps())
        if (line.text.find(step) != std::string::npos && line.text.find(':') == std::string::npos)
          return "csv";
    }
    first = false;
    const auto at = line.text.find("step:");
    if (at != std::string::npos && line.text.find("loss:", at) != std::string::npos) return "torchtitan";
  }
  LOCKSTEP_CHECK(first, "[curves] ", path,
                 " is in no format that is known here; say --format jsonl, csv or torchtitan, or "
                 "write JSONL: {\"step\":1,\"loss\":7.25}");
  return "empty";
}

}  // namespace

void Log::note_other_name(Field field, const char* what, const std::string& name) {
  if (name != kFieldNames[field]) note(kFieldNames[field], " is the ", what, " ", in_quotes(name));
}

void Collector::add(int64_t step, Field field, const Number& number) {
  auto& point = points_[step];
  point.step = step;
  auto& slot = point.at(field);
  auto& last = last_[field];
  if (slot) {
    ++again_;
    if (slot->bits != number.bits || slot->dtype != number.dtype) ++changed_;
  } else if (last && step < *last) {
    ++late_;
  }
  slot = number;
  last = step;
}

void Collector::finish(Log& log) && {
  for (auto& [step, point] : points_) log.points.push_back(std::move(point));
  log.note_if(again_, " numbers were given again for a step that had one (a resumed run, or several ranks): ",
              "the last counts; ", changed_, " of them changed the number");
  log.note_if(late_, " numbers came after one of a later step: put in the order of steps");
}

std::span<const char* const> usual_steps() {
  static constexpr const char* kNames[] = {"step", "_step", "global_step", "iteration", "iter"};
  return kNames;
}

std::span<const char* const> usual(Field field) {
  static constexpr const char* kLosses[] = {"loss",          "train/loss", "train_loss",
                                            "training_loss", "Loss/train", "loss/train",
                                            "lm loss",       "lm_loss",    "loss_metrics/global_avg_loss"};
  static constexpr const char* kNorms[] = {"grad_norm", "train/grad_norm", "gradient_norm", "grad-norm",
                                           "train_grad_norm"};
  return field == kLoss ? std::span<const char* const>(kLosses) : kNorms;
}

const std::string& asked(const ReadOptions& options, Field field) {
  return field == kLoss ? options.loss : options.grad_norm;
}

Log read(const std::string& path, const ReadOptions& options) {
  static const std::map<std::string, Log (*)(const std::string&, const ReadOptions&)> kReaders = {
      {"jsonl", read_jsonl}, {"csv", read_csv}, {"torchtitan", read_torchtitan}};
  const auto format = options.format == "auto" ? guessed(path, options) : options.format;
  const auto reader = kReaders.find(format);
  LOCKSTEP_CHECK(
      reader != kReaders.end() || format == "empty", "[curves] there is no format '", format,
      "'; write auto, jsonl, csv or torchtitan (`ci/tensorboard` makes JSON lines of event files)");
  Log log = format == "empty" ? Log{} : reader->second(path, options);
  log.path = path;
  log.format = format;
  if (log.points.empty())
    log.note(format == "empty" ? "the file is empty" : "no step with a number was found");
  return log;
}

}  // namespace lockstep::curves
