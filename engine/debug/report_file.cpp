// SPDX-License-Identifier: Apache-2.0
#include "engine/debug/report_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "engine/values/error.h"

namespace lockstep::debug {

void write_text(const std::string& who, const std::string& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  LOCKSTEP_CHECK(out.good(), "[", who, "] ", file, ": ", std::strerror(errno),
                 "; name a file that can be written");
}

}  // namespace lockstep::debug
