// SPDX-License-Identifier: Apache-2.0
#include "engine/debug/console.h"

#include <ATen/ATen.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <sstream>

#include "engine/debug/words.h"
#include "engine/layout/layout.h"
#include "engine/layout/sharding_table.h"
#include "engine/tensor/dtensor_impl.h"
#include "engine/tensor/plain_guard.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"

namespace lockstep::debug {
namespace {

using Arguments = std::vector<std::string>;

constexpr int kBeat = 200;     // milliseconds, after which the others hear that there is no command yet
constexpr int64_t kShown = 8;  // elements of a local tensor along each dimension

const at::Tensor& named(const Stopped& stopped, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [known, tensor] : stopped.tensors) {
    if (known == name) return tensor;
    names.push_back(known);
  }
  throw Error(concat("[breakpoint] there is no tensor '", name, "'", did_you_mean(name, names)));
}

const Spec& spec_of(const Stopped& stopped, const std::string& name) {
  const auto& tensor = named(stopped, name);
  LOCKSTEP_CHECK(tensor.defined() && is_dtensor(tensor), "[breakpoint] '", name,
                 "' is no DTensor; show and local take plain tensors, too");
  return spec(tensor);
}

std::string form_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  if (is_dtensor(tensor)) return to_string(spec(tensor));
  return concat(dtype_name(tensor.scalar_type()), "[", shape_text(tensor.sizes().vec()), "], plain");
}

void list(const Stopped& stopped, const Arguments&, std::ostream& out) {
  for (const auto& [name, tensor] : stopped.tensors) out << name << ": " << form_of(tensor) << '\n';
}

void show(const Stopped& stopped, const Arguments& arguments, std::ostream& out) {
  const auto& tensor = named(stopped, arguments[0]);
  out << arguments[0] << ": " << form_of(tensor) << '\n';
  if (!tensor.defined()) return;
  out << "  shape [" << shape_text(tensor.sizes().vec()) << "], dtype " << dtype_name(tensor.scalar_type())
      << ", strides [" << shape_text(tensor.strides().vec()) << "]"
      << (tensor.requires_grad() ? ", requires grad" : "") << '\n';
  if (!is_dtensor(tensor)) return;
  const auto& of = spec(tensor);
  out << "  mesh " << of.mesh() << ", placements " << of.placements() << '\n';
  for (int64_t p = 0; p < of.mesh().size(); ++p)
    out << "  rank " << of.mesh().ranks()[as_size(p)] << " at (" << join(of.mesh().coordinate(p), ',')
        << "): local shape [" << shape_text(local_shape(of, p)) << "]\n";
}

// Its first elements along each dimension.
void print(const at::Tensor& local, std::ostream& out) {
  auto part = local;
  for (int64_t d = 0; d < local.dim(); ++d) part = part.narrow(d, 0, std::min(kShown, local.size(d)));
  if (part.numel() < local.numel()) out << "  the first " << kShown << " along each dimension:\n";
  out << part << '\n';
}

void local(const Stopped& stopped, const Arguments& arguments, std::ostream& out) {
  const auto& tensor = named(stopped, arguments[0]);
  const auto rank = parse_integer(arguments[1]);
  LOCKSTEP_CHECK(rank.has_value(), "[breakpoint] '", arguments[1], "' is no rank; write for example: local ",
                 arguments[0], " 0");
  LOCKSTEP_CHECK(tensor.defined(), "[breakpoint] '", arguments[0], "' is undefined");
  if (!is_dtensor(tensor)) {
    out << arguments[0] << " is a plain tensor, here that of rank 0\n";
    return print(tensor, out);
  }
  const auto& ranks = spec(tensor).mesh().ranks();
  const auto at = std::find(ranks.begin(), ranks.end(), *rank);
  LOCKSTEP_CHECK(at != ranks.end(), "[breakpoint] rank ", *rank, " is not in the mesh ", spec(tensor).mesh(),
                 " of '", arguments[0], "', which has the ranks ", join(ranks, ','));
  dtensor_impl(tensor)->check_memory("breakpoint");
  const auto found = local_at(tensor, at - ranks.begin());
  if (found.defined()) print(found, out);
}

std::string interval(const IndexList& list) {
  std::string text;
  for (const auto& [start, length] : list)
    text += concat(text.empty() ? "" : ",", start, ":", start + length);
  return text.empty() ? "none" : text;
}

void layout(const Stopped& stopped, const Arguments& arguments, std::ostream& out) {
  const auto& of = spec_of(stopped, arguments[0]);
  if (of.ndim() == 1 || of.ndim() == 2) {
    out << visualize_sharding(of);
    return;
  }
  for (int64_t p = 0; p < of.mesh().size(); ++p) {
    out << "rank " << of.mesh().ranks()[as_size(p)] << " holds";
    for (const auto& piece : pieces(owned_by(of, p))) {
      out << " [";
      for (size_t d = 0; d < piece.lists.size(); ++d) out << (d > 0 ? ", " : "") << interval(piece.lists[d]);
      out << "]";
    }
    out << '\n';
  }
}

void stack(const Stopped& stopped, const Arguments&, std::ostream& out) {
  if (stopped.stack.empty()) out << "no module runs\n";
  for (const auto& path : stopped.stack) out << path << '\n';
}

void help(const Stopped& stopped, const Arguments& arguments, std::ostream& out);

struct Command {
  std::string name, arguments, what;
  void (*run)(const Stopped&, const Arguments&, std::ostream&);  // null: it ends the stop, so
  GoOn go_on = GoOn::kContinue;
};

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"list", "", "tensors by name: the module's inputs, parameters, buffers, and what the program named",
       list},
      {"show", "NAME", "shape, dtype, mesh, placements, and the shape of each rank's part", show},
      {"local", "NAME RANK", "the values that this rank holds", local},
      {"layout", "NAME", "which rank holds which elements", layout},
      {"stack", "", "the modules that run, outermost first", stack},
      {"continue", "", "go on to where it stops next", nullptr, GoOn::kContinue},
      {"detach", "", "go on, and stop no more; so does the end of input", nullptr, GoOn::kDetach},
      {"quit", "", "end the program, on all ranks", nullptr, GoOn::kQuit},
      {"help", "", "this list", help},
  };
  return all;
}

void help(const Stopped&, const Arguments&, std::ostream& out) {
  for (const auto& command : commands()) {
    const auto usage =
        command.arguments.empty() ? command.name : concat(command.name, " ", command.arguments);
    out << "  " << usage << std::string(20 - std::min<size_t>(19, usage.size()), ' ') << command.what << '\n';
  }
}

// The one of this name, or the only one that begins so.
const Command& command_of(const std::string& word) {
  std::vector<std::string> names;
  const Command* found = nullptr;
  size_t begin_so = 0;
  for (const auto& command : commands()) {
    if (command.name == word) return command;
    names.push_back(command.name);
    if (!command.name.starts_with(word)) continue;
    found = &command;
    ++begin_so;
  }
  LOCKSTEP_CHECK(begin_so == 1, "[breakpoint] ",
                 begin_so == 0 ? "there is no command '" : "several begin with '", word, "'",
                 begin_so == 0 ? did_you_mean(word, names) : "; help lists them");
  return *found;
}

const Command& parsed(const Arguments& words) {
  const auto& command = command_of(words[0]);
  std::istringstream given(command.arguments);
  const auto wanted = static_cast<size_t>(
      std::distance(std::istream_iterator<std::string>(given), std::istream_iterator<std::string>()));
  LOCKSTEP_CHECK(words.size() - 1 == wanted, "[breakpoint] ", words.size() - 1, " words after ", command.name,
                 "; write: ", command.name, wanted == 0 ? "" : " ", command.arguments);
  return command;
}

}  // namespace

std::string Console::read_line(int milliseconds) {
  for (;;) {
    if (const auto end = read_.find('\n'); end != std::string::npos) {
      auto line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line.empty() ? " " : line;
    }
    pollfd wanted{in_, POLLIN, 0};
    if (poll(&wanted, 1, milliseconds) <= 0) return "";  // or a signal came
    char some[256];
    const auto n = ::read(in_, some, sizeof some);
    if (n > 0) {
      read_.append(some, as_size(n));
      continue;
    }
    if (read_.empty()) return "detach";
    return std::exchange(read_, "");
  }
}

std::string Console::next(const WorldPtr& world) {
  if (leads(world)) out_ << "(lockstep) " << std::flush;
  for (;;) {
    const auto words = told(world, leads(world) ? read_line(kBeat) : "");
    if (words.empty()) continue;
    if (leads(world) && isatty(in_) == 0) out_ << words << '\n';  // as a terminal shows what is typed
    return words;
  }
}

GoOn Console::ask(const Stopped& stopped) {
  const PlainGuard plain;
  std::ostream nowhere(nullptr);
  auto& out = leads(stopped.world) ? out_ : nowhere;
  out << "stopped " << stopped.where << "; help lists the commands\n";
  for (;;) {
    std::istringstream line(next(stopped.world));
    const Arguments words{std::istream_iterator<std::string>(line), std::istream_iterator<std::string>()};
    if (words.empty()) continue;
    try {
      const auto& command = parsed(words);
      if (command.run == nullptr) return command.go_on;
      command.run(stopped, {words.begin() + 1, words.end()}, out);
    } catch (const std::exception& e) {
      out << e.what() << '\n';
    }
  }
}

Console& terminal() {
  static Console console(STDIN_FILENO, std::cout);
  return console;
}

}  // namespace lockstep::debug
