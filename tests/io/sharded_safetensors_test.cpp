#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/etna.h>
#include <etna/tensor/io/internal/sharded_safetensors.h>

#include "data/temporary_folder.h"
#include "io/refusal.h"

namespace etna::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Two shards with an index.
class Sharded : public testing::Test {
 protected:
  Sharded() {
    save_safetensors(folder / "m-1-of-2.safetensors", NamedTensors{{"a", arange(4, f32)}, {"b", arange(6, i64)}});
    save_safetensors(folder / "m-2-of-2.safetensors", NamedTensors{{"c", arange(3, f32).to(f16)}});
    index({{"a", "m-1-of-2.safetensors"}, {"b", "m-1-of-2.safetensors"}, {"c", "m-2-of-2.safetensors"}});
  }
  void index(const std::vector<std::pair<std::string, std::string>>& map) {
    std::string text = R"({"metadata": {"total_size": 70}, "weight_map": {)";
    for (std::size_t i = 0; i < map.size(); ++i)
      text += (i > 0 ? ", \"" : "\"") + map[i].first + "\": \"" + map[i].second + "\"";
    folder.write("model.safetensors.index.json", text + "}}");
  }
  std::filesystem::path path() const { return folder / "model.safetensors.index.json"; }

  TemporaryFolder folder;
};

TEST_F(Sharded, TensorsAreFoundInTheirFiles) {
  for (const std::filesystem::path& from : {path(), folder.path()}) {
    const ShardedSafetensors model(from);
    EXPECT_THAT(model.names(), ElementsAre("a", "b", "c"));
    EXPECT_EQ(model.files().size(), 2u);
    EXPECT_TRUE(model.contains("c"));
    EXPECT_EQ(model.entry("b").dtype, i64);
    EXPECT_EQ(model.entry("b").shape, Shape({6}));
    EXPECT_EQ(model.bytes("c").size(), 6u);
    EXPECT_EQ(model.load("a").to_vector<float>(), (std::vector<float>{0, 1, 2, 3}));
    EXPECT_THAT(refusal([&] { model.load("d"); }), HasSubstr("has no tensor 'd' among its 3"));
  }
  EXPECT_EQ(load_sharded_safetensors(path()).size(), 3u);
}

TEST_F(Sharded, ViewsOutliveTheModel) {
  const MappedBytes bytes = ShardedSafetensors(path()).bytes("a");
  float last = 0;
  std::memcpy(&last, bytes.data() + 12, sizeof last);
  EXPECT_EQ(last, 3.0f);
}

TEST_F(Sharded, ASingleFileIsAModelToo) {
  EXPECT_THAT(ShardedSafetensors(folder / "m-1-of-2.safetensors").names(), ElementsAre("a", "b"));
  const TemporaryFolder other;
  EXPECT_THAT(refusal([&] { ShardedSafetensors{other.path()}; }), HasSubstr("has no model.safetensors.index.json"));
  save_safetensors(other / "model.safetensors", NamedTensors{{"x", arange(1, f32)}});
  EXPECT_THAT(ShardedSafetensors(other.path()).names(), ElementsAre("x"));
}

TEST_F(Sharded, MissingFilesAndTensorsAreNamed) {
  index({{"a", "m-1-of-2.safetensors"}, {"z", "m-2-of-2.safetensors"}});
  EXPECT_THAT(refusal([&] { ShardedSafetensors{path()}; }),
              HasSubstr("says that tensor 'z' is in 'm-2-of-2.safetensors', but it is not"));
  index({{"a", "m-3.safetensors"}});
  EXPECT_THAT(refusal([&] { ShardedSafetensors{path()}; }), HasSubstr("names 'm-3.safetensors', which is not next to"));
  folder.write("m-1-of-2.safetensors", "damaged");
  index({{"a", "m-1-of-2.safetensors"}});
  EXPECT_THAT(refusal([&] { ShardedSafetensors{path()}; }), HasSubstr("m-1-of-2.safetensors: is 7 bytes long"));
}

/// The reader lists unused tensors, too.
TEST_F(Sharded, WhatTheIndexLeavesOutIsThere) {
  index({{"a", "m-1-of-2.safetensors"}, {"c", "m-2-of-2.safetensors"}});
  EXPECT_THAT(ShardedSafetensors(path()).names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(ShardedSafetensors(path()).load("b").to_vector<int>().back(), 5);
  save_safetensors(folder / "m-2-of-2.safetensors", NamedTensors{{"b", ones({1})}, {"c", ones({1})}});
  EXPECT_THAT(refusal([&] { ShardedSafetensors{path()}; }), HasSubstr("omits tensor 'b', which is in two"));
  index({{"a", "m-1-of-2.safetensors"}, {"b", "m-1-of-2.safetensors"}, {"c", "m-2-of-2.safetensors"}});
  EXPECT_EQ(ShardedSafetensors(path()).entry("b").shape, Shape({6}));
}

TEST(ShardIndex, CannotLeadOutOfItsFolder) {
  for (const char* name : {"../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", "a\\\\b.safetensors", "",
                           ".safetensors", "x.bin", "x\\u0000.safetensors"}) {
    const std::string json = std::string(R"({"weight_map": {"t": ")") + name + "\"}}";
    EXPECT_THAT(refusal([&] { parse_shard_index(json); }), HasSubstr("wanted the name of a .safetensors file")) << name;
  }
}

TEST(ShardIndex, IsRefusedInWords) {
  const auto said = [](const std::string& json) { return refusal([&] { parse_shard_index(json); }); };
  EXPECT_THAT(said(""), HasSubstr("is empty"));
  EXPECT_THAT(said("{"), HasSubstr("is not valid JSON from byte"));
  EXPECT_THAT(said("[]"), HasSubstr("is a list; wanted a JSON object"));
  EXPECT_THAT(said("{}"), HasSubstr("has no 'weight_map'"));
  EXPECT_THAT(said(R"({"weight_map": 1})"), HasSubstr("'weight_map' is a number; wanted an object"));
  EXPECT_THAT(said(R"({"weight_map": {"a": 1}})"), HasSubstr("tensor 'a' has a number as its file"));
  EXPECT_THAT(said(R"({"weight_map": {"a": {}}})"), HasSubstr("tensor 'a' has an object as its file"));
  EXPECT_THAT(said(R"({"weight_map": {"a": ["x"]}})"), HasSubstr("tensor 'a' has a list as its file"));
  EXPECT_THAT(said(R"({"weight_map": {"a": "x.safetensors", "a": "x.safetensors"}})"), HasSubstr("'a' occurs twice"));
  EXPECT_THAT(said(R"({"weight_map": {}, "weight_map": {}})"), HasSubstr("'weight_map' occurs twice"));
  EXPECT_THAT(said(R"({"metadata": )" + std::string(100000, '[')), HasSubstr("nests deeper than 32 levels"));
  EXPECT_TRUE(parse_shard_index(R"({"weight_map": {}, "other": [{"a": [1, null, true, 0.5, "x"]}]})").empty());
}

}  // namespace
}  // namespace etna::io
