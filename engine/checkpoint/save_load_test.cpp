// SPDX-License-Identifier: Apache-2.0
// What is saved from one placement is what is loaded into another; what is not whole, or not what was saved,
// is refused by its name and changes nothing.
#include "engine/checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>

#include "engine/tensor/dtensor.h"
#include "engine/values/error.h"
#include "engine/world/thread_world.h"

namespace lockstep::dcp {
namespace {

namespace fs = std::filesystem;

class SaveLoadTest : public testing::Test {
 protected:
  SaveLoadTest() : folder_((fs::temp_directory_path() / "lockstep-checkpoint-XXXXXX").string()) {
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no folder");
  }
  ~SaveLoadTest() override { fs::remove_all(folder_); }

  std::string at(const char* name) const { return folder_ + "/" + name; }

  std::string folder_;
};

struct Layout {
  std::vector<int64_t> mesh;
  const char* placements;
};
// Of 8x6, 7x5 and more: uneven, empty, flat, interleaved, replicated, over one mesh dimension and over two.
const Layout kLayouts[] = {{{1}, "[R]"},       {{4}, "[S0]"},           {{3}, "[S1]"},
                           {{2}, "[R]"},       {{4}, "[G0:1/0/2/1]"},   {{3}, "[G0.1:1/3/1]"},
                           {{2}, "[I0x2]"},    {{2, 3}, "[S0,S1]"},     {{2, 2}, "[S0,S0]"},
                           {{2, 2}, "[R,S1]"}, {{2, 2}, "[G0:1/1,S1]"}, {{9}, "[S0]"},
                           {{2}, "[G:0/1]"}};

at::Tensor numbers(at::IntArrayRef shape, at::ScalarType dtype, int64_t seed) {
  return at::arange(c10::multiply_integers(shape)).mul(7).add(seed).remainder(101).view(shape).to(dtype);
}

// Nothing where the layout is not legal for it.
std::optional<at::Tensor> placed(const at::Tensor& value, const Layout& layout) {
  try {
    return distribute_tensor(value, init_device_mesh(layout.mesh), parse_placements(layout.placements));
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Catches: a piece that is written elsewhere, twice or not at all, or read from another; elements of replicas
// that differ; a dtype or a shape that the file does not keep.
TEST_F(SaveLoadTest, EveryPlacementBecomesEveryOther) {
  int64_t pairs = 0, number = 0;
  for (const auto& shape : {std::vector<int64_t>{8, 6}, {7, 5}, {2, 3, 4}, {5}, {}, {0, 3}})
    for (const auto& from : kLayouts) {
      const auto dtype = ++number % 3 == 0 ? at::kBFloat16 : number % 3 == 1 ? at::kFloat : at::kLong;
      const auto value = numbers(shape, dtype, number);
      const auto source = placed(value, from);
      if (!source) continue;
      save(at("pairs"), {{"x", *source}, {"plain", value}});
      for (const auto& to : kLayouts) {
        const auto target = placed(at::zeros_like(value), to);
        if (!target) continue;
        const auto plain = at::zeros_like(value);
        load(at("pairs"), {{"plain", plain}, {"x", *target}});
        EXPECT_TRUE(full_tensor(*target).equal(value)) << from.placements << " to " << to.placements;
        const auto copies = redistribute(*target, Placements(to.mesh.size(), Replicate{}));
        for (const auto& local : local_tensors(copies))
          EXPECT_TRUE(local.equal(value)) << from.placements << " to " << to.placements;
        EXPECT_TRUE(plain.equal(value));
        ++pairs;
      }
    }
  EXPECT_GT(pairs, 400);
}

// Catches: an element that two ranks write, a byte more than there are.
TEST_F(SaveLoadTest, EachElementIsWrittenOnce) {
  const auto value = numbers({8, 6}, at::kFloat, 1);
  for (const auto& layout : kLayouts) {
    const auto x = placed(value, layout);
    if (!x) continue;
    save(at("once"), {{"x", *x}});
    int64_t elements = 0;
    for (const auto& file : fs::directory_iterator(at("once")))
      if (file.path().extension() == ".safetensors")
        for (const auto& tensor : read_header(file.path().string()).tensors)
          elements += c10::multiply_integers(tensor.shape);
    EXPECT_EQ(elements, 48) << layout.placements;
    EXPECT_EQ(contents(at("once")).tensors.at(0).shape, (std::vector<int64_t>{8, 6}));
  }
}

template <class F>
std::string error_of(const F& act) {
  try {
    act();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// Catches: a mistake of the caller that is told late, in other words, or not at all.
TEST_F(SaveLoadTest, WhatDoesNotFitIsNamed) {
  const auto mesh = init_device_mesh({2});
  const auto x = distribute_tensor(numbers({4, 2}, at::kFloat, 1), mesh, {Shard{0}});
  save(at("names"), {{"x", x}, {"y", at::ones({3})}}, {{"step", "7"}});
  EXPECT_EQ(contents(at("names")).metadata.at("step"), "7");
  const auto says = [&](const std::vector<NamedTensor>& into, const std::string& what) {
    const auto text = error_of([&] { load(at("names"), into); });
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  const auto y = at::zeros({3});
  says({{"x", x}}, "has y, which nothing asks for");
  says({{"x", x}, {"y", y}, {"z", y}}, "has no z");
  says({{"x", x}, {"y", at::zeros({4})}}, "y in ");
  says({{"x", x}, {"y", at::zeros({3}, at::kDouble)}}, "is f32[3], and is to be f64[3]");
  says({{"y", y}, {"y", y}}, "two tensors are called y");
  EXPECT_TRUE(y.equal(at::zeros({3})));
  load(at("names"), {{"y", y}}, Extra::kIgnored);
  EXPECT_TRUE(y.equal(at::ones({3})));
  const auto pending = from_local({at::ones({2}), at::ones({2})}, mesh, {Partial{}});
  EXPECT_NE(error_of([&] { save(at("names"), {{"p", pending}}); }).find("p pends"), std::string::npos);
  EXPECT_NE(error_of([&] { load(at("nowhere"), {}); }).find("there is no "), std::string::npos);
  EXPECT_NE(error_of([&] {
              save(at("names"), {{"c", at::zeros({1}, at::kComplexFloat)}});
            }).find("no name for"),
            std::string::npos);
  const auto again = at::zeros({3});
  load(at("names"), {{"y", again}}, Extra::kIgnored);  // the failed saves have left what was there
  EXPECT_TRUE(again.equal(at::ones({3})));
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// Every byte of every file, changed, and every file cut short anywhere. Catches: a change that is loaded as
// if it were what was saved, or that ends the process; a tensor that is written before another is found
// wrong.
TEST_F(SaveLoadTest, WhatHasChangedIsRefusedOrIsNone) {
  const auto mesh = init_device_mesh({2});
  const auto value = numbers({4, 2}, at::kFloat, 3), other = numbers({3}, at::kByte, 5);
  save(at("bytes"), {{"first", other}, {"x", distribute_tensor(value, mesh, {Shard{0}})}});
  const auto x = distribute_tensor(at::zeros_like(value), mesh, {Shard{1}});
  const auto first = at::zeros_like(other);
  std::mt19937_64 random(1);
  int64_t refused = 0, loaded = 0;
  const auto attempt = [&](const std::string& what) {
    x.zero_();
    first.zero_();
    const auto error = error_of([&] { load(at("bytes"), {{"first", first}, {"x", x}}); });
    ++(error.empty() ? loaded : refused);
    EXPECT_TRUE(full_tensor(x).equal(error.empty() ? value : at::zeros_like(value))) << what << error;
    EXPECT_TRUE(first.equal(error.empty() ? other : at::zeros_like(other))) << what << error;
    EXPECT_TRUE(error.empty() || error.starts_with("[")) << error;
  };
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(at("bytes"))) files.push_back(file.path());
  ASSERT_EQ(files.size(), 3U);
  for (const auto& file : files) {
    const auto right = text_of(file);
    for (size_t i = 0; i < right.size(); ++i) {
      auto wrong = right;
      wrong[i] = static_cast<char>(wrong[i] ^ static_cast<char>(1 + random() % 255));
      write(file, wrong);
      attempt(concat(file.filename().string(), " byte ", i, ": "));
    }
    for (size_t size = 0; size < right.size(); size += 1 + size / 40) {
      write(file, right.substr(0, size));
      attempt(concat(file.filename().string(), " of ", size, " bytes: "));
    }
    write(file, right);
  }
  attempt("nothing");
  EXPECT_EQ(error_of([&] { load(at("bytes"), {{"first", first}, {"x", x}}); }), "");
  EXPECT_GT(refused, 1000);
  EXPECT_LT(loaded, refused / 10) << "blanks in JSON, and a name that nobody reads";
}

// Catches: files of a save that did not end taken for those of the one that did, or left for ever.
TEST_F(SaveLoadTest, TheIndexDecides) {
  save(at("twice"), {{"x", at::ones({2})}});
  save(at("twice"), {{"x", at::full({2}, 2, at::kFloat)}});
  write(at("twice") + "/model-g9-00001-of-00001.safetensors", "begun");
  const auto x = at::zeros({2});
  load(at("twice"), {{"x", x}});
  EXPECT_TRUE(x.equal(at::full({2}, 2, at::kFloat)));
  save(at("twice"), {{"x", at::full({2}, 3, at::kFloat)}});
  load(at("twice"), {{"x", x}});
  EXPECT_TRUE(x.equal(at::full({2}, 3, at::kFloat)));
  int64_t files = 0;
  for (const auto& file : fs::directory_iterator(at("twice"))) files += file.is_regular_file();
  EXPECT_EQ(files, 2);
}

// Hugging Face's layouts: one file, and an index of several with nothing but names. Catches: an index of
// others that is taken for one of ours, a name that leads out of the folder.
TEST_F(SaveLoadTest, OthersCheckpointsLoad) {
  fs::create_directories(at("hf"));
  write_file(at("hf") + "/model.safetensors", {{"x", numbers({4, 2}, at::kFloat, 1)}});
  const auto x = distribute_tensor(at::zeros({4, 2}), init_device_mesh({2}), {Shard{0}});
  load(at("hf"), {{"x", x}});
  EXPECT_TRUE(full_tensor(x).equal(numbers({4, 2}, at::kFloat, 1)));
  write_file(at("hf") + "/a.safetensors", {{"x", numbers({4, 2}, at::kFloat, 2)}});
  write_file(at("hf") + "/b.safetensors", {{"y", numbers({3}, at::kLong, 2)}});
  write(at("hf") + "/model.safetensors.index.json",
        R"({"metadata":{"total_size":56},"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})");
  const auto y = at::zeros({3}, at::kLong);
  load(at("hf"), {{"x", x}, {"y", y}});
  EXPECT_TRUE(full_tensor(x).equal(numbers({4, 2}, at::kFloat, 2)));
  EXPECT_TRUE(y.equal(numbers({3}, at::kLong, 2)));
  for (const char* file : {"../a.safetensors", "", "..", "b.safetensors"}) {
    write(at("hf") + "/model.safetensors.index.json", concat(R"({"weight_map":{"x":")", file, R"("}})"));
    EXPECT_NE(error_of([&] { load(at("hf"), {{"x", x}}, Extra::kIgnored); }), "") << file;
  }
}

// One rank a thread, as processes do. Catches: a rank that writes what another has, an index that is written
// before all files are there, processes that part where one fails.
TEST_F(SaveLoadTest, ManyProcessesSaveAndLoadTogether) {
  const auto value = numbers({8, 6}, at::kFloat, 4);
  run_on_threads(4, std::chrono::minutes(1), [&](const WorldPtr& world) {
    const auto rows = init_device_mesh({4}, {}, world), grid = init_device_mesh({2, 2}, {}, world);
    const auto x = distribute_tensor(value, rows, {RaggedShard{{0}, {1, 0, 2, 1}, 1}});
    save(at("threads"),
         {{"x", x}, {"plain", value}, {"grid", distribute_tensor(value, grid, {Shard{1}, Replicate{}})}});
    const auto back = distribute_tensor(at::zeros_like(value), grid, {Shard{0}, Shard{1}});
    const auto plain = at::zeros_like(value);
    load(at("threads"), {{"x", back}, {"plain", plain}}, Extra::kIgnored);
    EXPECT_TRUE(full_tensor(back).equal(value));
    EXPECT_TRUE(plain.equal(value));
    // Of rank 0 alone nothing fits; all of them are told, and nobody's tensor has changed.
    plain.zero_();
    const auto wrong = world->hosted()[0] == 0 ? at::zeros({3}) : plain;
    const auto error = error_of([&] { load(at("threads"), {{"plain", wrong}}, Extra::kIgnored, world); });
    EXPECT_NE(error.find(world->hosted()[0] == 0 ? "is to be f32[3]" : "the process of rank 0"),
              std::string::npos)
        << error;
    EXPECT_TRUE(plain.equal(at::zeros_like(value)));
    save(at("threads"), {{"plain", value}}, {}, world);
  });
  EXPECT_EQ(contents(at("threads")).tensors.size(), 1U);
}

// A load writes as an op in place does. Catches: a backward pass that computes with what was loaded since.
TEST_F(SaveLoadTest, ALoadIsAWrite) {
  const auto mesh = init_device_mesh({2});
  const auto x = parameter(distribute_tensor(numbers({4, 2}, at::kFloat, 1), mesh, {Shard{0}}));
  save(at("write"), {{"x", x}});
  const auto y = (x * x).sum();
  load(at("write"), {{"x", x}});
  EXPECT_THROW(y.backward(), std::exception);
}

// Catches: a checkpoint that is saved and cannot be loaded, an error of another library.
TEST_F(SaveLoadTest, NamesThatNoFileCanHaveAreRefused) {
  const auto mesh = init_device_mesh({2});
  const auto x = distribute_tensor(numbers({4, 2}, at::kFloat, 1), mesh, {Shard{0}});
  const auto says = [&](const std::vector<NamedTensor>& state, const Metadata& metadata, const char* what) {
    const auto error = error_of([&] { save(at("odd"), state, metadata); });
    EXPECT_NE(error.find(what), std::string::npos) << error;
  };
  says({{"x", x}, {"x#1", at::ones({1})}}, {}, "would be called x#1");
  says({{"\xff", at::ones({1})}}, {}, "is no UTF-8");
  says({{"x", x}}, {{"key", "\xff"}}, "is no UTF-8");
  says({{"__metadata__", x}}, {}, "no tensor is called");
  says({{"x", at::ones({2}, at::kMeta)}}, {}, "no dense tensor");
  EXPECT_FALSE(fs::exists(at("odd")));
  write(folder_ + "/deep.safetensors",
        std::string("\x10\x27\0\0\0\0\0\0", 8) + "{\"x\":" + std::string(9995, '['));
  EXPECT_NE(error_of([&] { load(folder_ + "/deep.safetensors", {}); }).find("nests deeper"),
            std::string::npos);
}

// Catches: a pipe that is waited for, a folder whose old file readers would take for what is saved, two who
// save in one folder, a folder that nobody can write in and that is found so after the training.
TEST_F(SaveLoadTest, FoldersThatWouldNotDo) {
  const std::vector<NamedTensor> state = {{"x", at::ones({2})}};
  fs::create_directories(at("pipe"));
  ASSERT_EQ(mkfifo(at("pipe/model.safetensors").c_str(), 0600), 0);
  EXPECT_NE(error_of([&] { load(at("pipe"), state); }).find("is no file"), std::string::npos);
  fs::create_directories(at("theirs"));
  write_file(at("theirs/model.safetensors"), state);
  for (const auto& wrong : {at("theirs"), at("theirs/model.safetensors"), std::string("/proc/nope")}) {
    EXPECT_NE(error_of([&] { save(wrong, state); }), "") << wrong;
    EXPECT_NE(error_of([&] { prepare(wrong); }), "") << wrong;
  }
  prepare(at("ours"));
  const int folder = open(at("ours").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(folder, LOCK_EX), 0);
  EXPECT_NE(error_of([&] { save(at("ours"), state); }).find("others save in"), std::string::npos);
  close(folder);
  save(at("ours"), state);
  EXPECT_EQ(verify(at("ours")), 1);
}

// Catches: elements that a reader of 4 or 8 bytes cannot take where they lie, a file that is in two states.
TEST_F(SaveLoadTest, ElementsAreAligned) {
  for (int i = 0; i < 2; ++i)  // over what is there
    write_file(at("file"), {{"a", at::ones({3}, at::kByte)},
                            {"b", at::ones({2}, at::kDouble)},
                            {"c", at::ones({1}, at::kHalf)}});
  EXPECT_FALSE(fs::exists(at("file.new")));
  for (const auto& tensor : read_header(at("file")).tensors)
    EXPECT_EQ(tensor.begin % static_cast<int64_t>(c10::elementSize(tensor.dtype)), 0) << tensor.name;
}

}  // namespace
}  // namespace lockstep::dcp
