// SPDX-License-Identifier: Apache-2.0
// The names of gloo that libtorch's ProcessGroupGloo.hpp needs to be read. The wheel has that header and not
// gloo's own; no member of these classes is used here, so that no layout of theirs is either: see
// engine/decisions/0008-gloo-without-headers.md. CMake puts it where gloo's headers would be.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace transport {
class Device;
class UnboundBuffer;
}  // namespace transport

namespace rendezvous {
class Store {
 public:
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
};
}  // namespace rendezvous

}  // namespace gloo
