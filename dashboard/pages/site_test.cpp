// SPDX-License-Identifier: Apache-2.0
// Every page, on stores that are empty, ordinary and hostile, with every parameter.
#include "dashboard/pages/site.h"

#include <regex>
#include <set>

#include "dashboard/pages/pages.h"
#include "dashboard/report/panels.h"
#include "dashboard/store/testing_fill.h"

namespace lockstep::dashboard {
namespace {

using testing::fill;
using testing::sample_case;
using testing::sample_run;
using testing::TemporaryFolder;

bool has(const std::string& page, const std::string& text) {
  return page.find(text) != std::string::npos;
}

std::string decoded(std::string text) {
  for (const auto& [code, plain] :
       {std::pair("&amp;", "&"), std::pair("&#39;", "'"), std::pair("&quot;", "\"")})
    for (size_t at; (at = text.find(code)) != std::string::npos;)
      text.replace(at, std::string(code).size(), plain);
  return text;
}

// "/a?b=c%20d" as the server takes it apart.
Answer get(Site& site, const std::string& target) {
  const auto plain = [](const std::string& text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '%' && i + 2 < text.size()) {
        out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
        i += 2;
      } else {
        out += text[i];
      }
    }
    return out;
  };
  const size_t mark = target.find('?');
  Parameters list;
  for (size_t at = mark; at < target.size();) {
    const size_t end = std::min(target.find('&', at + 1), target.size()), is = target.find('=', at);
    list.emplace_back(plain(target.substr(at + 1, is - at - 1)), plain(target.substr(is + 1, end - is - 1)));
    at = end;
  }
  return site.answer(plain(target.substr(0, mark)), Query(list));
}

// The links of a page to this site.
std::set<std::string> links_of(const std::string& page) {
  std::set<std::string> found;
  static const std::regex kLink("(?:href|action)=\"(/[^\"]*)\"");
  for (auto it = std::sregex_iterator(page.begin(), page.end(), kLink); it != std::sregex_iterator(); ++it)
    found.insert(decoded((*it)[1]));
  return found;
}

// The page without our script elements and the data of its charts, which is JSON.
std::string without_ours(std::string page) {
  const std::string data = "<script type=\"application/json\" id=\"data\">";
  const size_t from = page.find(data), to = page.find("</script>", from);
  EXPECT_LT(to, page.size()) << "the data is not closed";
  page.erase(from, to - from);
  static const std::regex kOurs("<script defer src=\"/[a-z]+\\.js\\?v=[0-9a-f]+\">");
  return std::regex_replace(page, kOurs, "");
}

// Every page that can be reached from the first one.
std::map<std::string, Answer> walk(Site& site) {
  std::map<std::string, Answer> seen;
  std::vector<std::string> open = {"/"};
  for (const std::string& name : site.names()) open.push_back("/db/" + name + "/");
  while (!open.empty()) {
    const std::string target = open.back();
    open.pop_back();
    if (seen.contains(target)) continue;
    const Answer& answer = seen[target] = get(site, target);
    if (!answer.location.empty()) open.push_back(answer.location);
    if (answer.type.starts_with("text/html"))
      for (const std::string& link : links_of(answer.body)) open.push_back(link);
  }
  return seen;
}

// Catches: a page that fails on a store without rows, or claims that all is well there; a dead link.
TEST(Site, AnEmptyStoreSaysSo) {
  const TemporaryFolder folder;
  { Store::open_writer(folder / "a.db"); }
  Site site({folder / "a.db"});
  site.wait_until_ready();
  const auto seen = walk(site);
  EXPECT_GT(seen.size(), 12u);
  for (const auto& [target, answer] : seen)
    EXPECT_TRUE(answer.status == 200 || answer.status == 302) << target << ": " << answer.body;
  EXPECT_TRUE(has(get(site, "/db/a/").body, "Nothing was recorded."));
  EXPECT_TRUE(has(get(site, "/db/a/gate").body, "No judgement is stored"));
  EXPECT_TRUE(has(get(site, "/db/a/performance").body, "No series was measured"));
}

// Catches: a link that leads nowhere, a page that no link leads to, two h1 or none.
TEST(Site, EveryLinkLeadsToAPage) {
  const TemporaryFolder folder;
  {
    Store store = Store::open_writer(folder / "a.db");
    fill(store, "plain");
  }
  Site site({folder / "a.db"});
  site.wait_until_ready();
  std::set<std::string> kinds;
  for (const auto& [target, answer] : walk(site)) {
    EXPECT_TRUE(answer.status == 200 || answer.status == 302) << target;
    kinds.insert(target.substr(0, target.find('?')));
    if (!answer.type.starts_with("text/html") || answer.status != 200) continue;
    static const std::regex kHeading("<h1[ >]");
    EXPECT_EQ(std::distance(std::sregex_iterator(answer.body.begin(), answer.body.end(), kHeading), {}), 1)
        << target;
  }
  for (const PageDefinition& page : pages())
    EXPECT_TRUE(kinds.contains(std::string("/db/a/") + page.path)) << "no link leads to " << page.path;
}

// Catches: a value that becomes markup, in any page reached, whatever row it comes from.
TEST(Site, HostileNamesStayText) {
  for (const std::string& name : testing::hostile_names()) {
    const TemporaryFolder folder;
    {
      Store store = Store::open_writer(folder / "a.db");
      fill(store, name);
    }
    Site site({folder / "a.db"});
    site.wait_until_ready();
    for (const auto& [target, answer] : walk(site)) {
      EXPECT_TRUE(answer.status == 200 || answer.status == 302) << target << ": " << answer.body;
      if (!answer.type.starts_with("text/html") || answer.status == 302) continue;
      const std::string text = without_ours(answer.body);
      for (const char* markup : {"<script", "<img", "onmouseover='", "<!--"})
        EXPECT_FALSE(has(text, markup)) << target;
      EXPECT_EQ(answer.body.find('\0'), std::string::npos) << target;
    }
  }
}

// Catches: a parameter that reaches SQL as text of the statement, or a number that is not checked.
TEST(Site, ParametersAreValues) {
  const TemporaryFolder folder;
  {
    Store store = Store::open_writer(folder / "a.db");
    fill(store, "plain");
  }
  Site site({folder / "a.db"});
  site.wait_until_ready();
  const std::vector<std::string> names = {"op",       "suite",  "verdict", "placement", "mesh", "dtype",
                                          "evenness", "page",   "run",     "id",        "key",  "name",
                                          "state",    "across", "rank",    "commit"};
  for (const std::string& attack :
       {std::string("' OR 1=1 --"), std::string("1; DROP TABLE run"),
        std::string("\") UNION SELECT token FROM cases --"), std::string("-1"),
        std::string("99999999999999999999"), std::string("\0x", 2), std::string(6000, 'a')}) {
    for (const PageDefinition& page : pages()) {
      for (const std::string& name : names) {
        const Answer answer =
            site.answer(std::string("/db/a/") + page.path, Query(Parameters{{name, attack}}));
        EXPECT_TRUE(answer.status == 200 || answer.status == 400 || answer.status == 404)
            << page.path << "?" << name << "=" << attack << ": " << answer.body;
        EXPECT_FALSE(has(answer.body, "SQL")) << page.path << "?" << name;
      }
    }
  }
  EXPECT_TRUE(has(site.answer("/db/a/cases", Query(Parameters{{"op", "' OR 1=1 --"}})).body, "0 cases"));
  EXPECT_EQ(site.answer("/db/a/", Query(Parameters{{"run", "x"}})).status, 400);
  EXPECT_EQ(site.answer("/db/a/", Query(Parameters{{"run", "77"}})).status, 404);
  EXPECT_EQ(site.answer("/db/a/judgement", Query(Parameters{{"id", "77"}})).status, 404);
  EXPECT_EQ(site.answer("/compare", Query(Parameters{{"a", "a:1"}, {"b", "nowhere:1"}})).status, 404);
  EXPECT_EQ(site.answer("/compare", Query(Parameters{{"a", "a:1"}})).status, 400);
}

// Catches: a path that reaches a file.
TEST(Site, NoPathReachesAFile) {
  const TemporaryFolder folder;
  testing::write_file(folder / "secret.db", "secret");
  { Store::open_writer(folder / "a.db"); }
  Site site({folder / "a.db"});
  site.wait_until_ready();
  for (const std::string& path :
       {std::string("/secret.db"), std::string("/db/../secret.db"), std::string("/db/a/../../secret.db"),
        folder / "secret.db", std::string("//etc/passwd"), std::string("/db/secret/"),
        std::string("/page.css/../x"), std::string("/db/a/\0", 7), std::string(""), std::string("/db/"),
        std::string("/db/a/cases/")}) {
    const Answer answer = site.answer(path, Query());
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_FALSE(has(answer.body, "secret\n")) << path;
  }
}

// Catches: two files of one name that hide each other, a name that is no path.
TEST(Site, DatabasesAreChosenByName) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "x");
  for (const char* name : {"a b.db", "x/a b.db", "\xc3\xa4.db"}) Store::open_writer(folder / name);
  Site site({folder / "a b.db", folder / "x/a b.db", folder / "\xc3\xa4.db"});
  EXPECT_EQ(site.names(), (std::vector<std::string>{"a-b", "a-b-2", "--"}));
  site.wait_until_ready();
  for (const std::string& name : site.names()) EXPECT_EQ(get(site, "/db/" + name + "/").status, 200);
  EXPECT_TRUE(has(get(site, "/").body, "3 databases"));
  EXPECT_THROW(Site({folder / "none.db"}), StoreError);
}

// Catches: a page that goes on showing what the file held before.
TEST(Site, AChangedFileIsReadAnew) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  Recorder recorder(store, sample_run(), "w");
  recorder.record(sample_case(1));
  recorder.finish("finished", 0);
  Site site({folder / "a.db"});
  site.wait_until_ready();
  EXPECT_TRUE(has(get(site, "/db/a/").body, "Yes: every case is equal or explained."));
  recorder.record(sample_case(2, Verdict::kDifferent));
  recorder.finish("finished", 1);
  // A change is looked for with each page; it is read when the last reading is long enough ago.
  for (int i = 0; i < 2000 && !has(get(site, "/db/a/").body, "No: 1 case fails."); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(has(get(site, "/db/a/").body, "No: 1 case fails."));
  testing::write_file(folder / "new", "no store");
  std::filesystem::rename(folder / "new", folder / "a.db");
  for (int i = 0; i < 2000 && !has(get(site, "/db/a/").body, "not one of Lockstep"); ++i) {
    if (has(get(site, "/db/a/").body, "a.db: ")) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const Answer last = get(site, "/db/a/");
  EXPECT_EQ(last.status, 200) << "what was read before is still shown";
  EXPECT_TRUE(has(last.body, "a.db: "));
}

// Catches: a filter that finds other cases than the same condition in SQL does, or counts them otherwise.
TEST(CaseIndex, FindsWhatSqlFinds) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  {
    Recorder recorder(store, sample_run(), "w");
    for (int64_t i = 0; i < 300; ++i) {
      CaseRow row = sample_case(i, i % 7 == 0 ? Verdict::kExplained : Verdict::kEqual);
      row.suite = i % 2 ? "ops" : "program";
      row.mesh = i % 3 ? "2x2" : "4";
      row.dtype = i % 5 ? "f32" : "bf16";
      row.op = i % 4 ? "aten::mm" : "";
      row.ops = i % 4 ? "aten::mm" : "aten::add aten::mm aten::add";
      recorder.record(row);
    }
    recorder.finish("finished", 0);
  }
  const CaseIndex index(store.database());
  const Source source(store.database());
  const auto expect = [&](const CaseIndex::Filter& filter, const std::string& where) {
    const CaseIndex::Found found = index.find(filter, 10, 20);
    EXPECT_EQ(found.cases, source.integer("SELECT count(*) FROM v_cases WHERE " + where)) << where;
    std::vector<int64_t> ids;
    source.each("SELECT case_id FROM v_cases WHERE " + where + " ORDER BY case_id LIMIT 20 OFFSET 10",
                [&](const Row& r) { ids.push_back(r.integer(0)); });
    EXPECT_EQ(found.ids, ids) << where;
    for (const auto& [value, n] : found.counts[4]) {
      CaseIndex::Filter other = filter;
      other.value[4] = value;
      EXPECT_EQ(index.find(other, 0, 0).cases, n) << where << " and dtype " << value;
    }
  };
  expect({.runs = {1}}, "1");
  expect({.runs = {2}}, "0");
  expect({.runs = {1}, .op = "aten::add"}, "ops LIKE '%add%'");
  expect({.runs = {1}, .value = {"ops", "explained"}}, "suite = 'ops' AND verdict = 'explained'");
  expect({.runs = {1}, .op = "aten::mm", .value = {"", "", "", "4", "bf16"}},
         "mesh = '4' AND dtype = 'bf16'");
  expect({.runs = {1}, .value = {"none"}}, "0");
}

}  // namespace
}  // namespace lockstep::dashboard
