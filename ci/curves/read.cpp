// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/read.h"

#include <sys/stat.h>

#include "ci/curves/lines.h"
#include "engine/values/error.h"

namespace lockstep::curves {
namespace {

bool is_folder(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

bool blank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

// By the first lines: a brace begins JSONL; a header with a usual name for the steps begins CSV; a line with
// step: and loss: is torchtitan's, however much was logged before it.
std::string guessed(const std::string& path, const ReadOptions& options) {
  LOCKSTEP_CHECK(!is_folder(path) && path.find("tfevents") == std::string::npos, "[curves] ", path,
                 " is TensorBoard's: `ci/tensorboard ", path, " >FILE.jsonl` makes JSON lines of it");
  Lines lines(path);
  bool first = true;
  for (Line line; lines.next(line);) {
    if (blank(line.text)) continue;
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

std::span<const char* const> usual_steps() {
  static constexpr const char* kNames[] = {"step", "_step", "global_step", "iteration", "iter"};
  return kNames;
}

std::span<const char* const> usual(Field field) {
  static constexpr const char* kLoss[] = {"loss",          "train/loss", "train_loss",
                                          "training_loss", "Loss/train", "loss/train",
                                          "lm loss",       "lm_loss",    "loss_metrics/global_avg_loss"};
  static constexpr const char* kGradNorm[] = {"grad_norm", "train/grad_norm", "gradient_norm", "grad-norm",
                                              "train_grad_norm"};
  return field == Field::kLoss ? std::span<const char* const>(kLoss) : kGradNorm;
}

const std::string& asked(const ReadOptions& options, Field field) {
  return field == Field::kLoss ? options.loss : options.grad_norm;
}

Log read(const std::string& path, const ReadOptions& options) {
  const auto format = options.format == "auto" ? guessed(path, options) : options.format;
  Log log;
  if (format == "jsonl")
    log = read_jsonl(path, options);
  else if (format == "csv")
    log = read_csv(path, options);
  else if (format == "torchtitan")
    log = read_torchtitan(path, options);
  else
    LOCKSTEP_CHECK(
        format == "empty", "[curves] there is no format '", format,
        "'; write auto, jsonl, csv or torchtitan (`ci/tensorboard` makes JSON lines of event files)");
  log.path = path;
  log.format = format;
  if (log.points.empty())
    log.notes.push_back(format == "empty" ? "the file is empty" : "no step with a number was found");
  return log;
}

}  // namespace lockstep::curves
