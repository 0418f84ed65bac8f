// SPDX-License-Identifier: Apache-2.0
// What surrounds every page: head, skip link, navigation, main, footer, and the data of its charts.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::dashboard {

struct Frame {
  std::string title{};       // HTML
  std::string home{};        // where the name at the top leads, for an attribute
  std::string navigation{};  // links, HTML
  std::string main{};        // HTML
  std::string footer{};      // HTML
  bool alone = false;        // style and scripts inside the page, which then may load nothing
};

// Law: the page has one h1 if `main` has, every text lies in a landmark, and what the charts hold cannot end
// the script that carries it.
std::string framed(const Frame& frame, const nlohmann::json& charts);

// One section of a page, named by its title.
std::string section(const std::string& id, const std::string& title, const std::string& body);

// Of the style and the scripts: changes when one of them does, so that a browser may keep them for ever.
const std::string& assets_version();

}  // namespace lockstep::dashboard
