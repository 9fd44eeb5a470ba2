#include <sys/stat.h>

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etna_model.h"

namespace etna {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Ends after a minute where the program would not.
Result in_time(const std::string& arguments) {
  return run_program("/usr/bin/timeout", "60 " ETNA_PROGRAM " " + arguments);
}

TEST_F(EtnaModel, PipesAndDevicesEndWithASentence) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe.gguf").c_str(), 0600), 0);
  for (const char* name : {"pipes", "zeros"}) fs::create_directories(folder_ / name);
  ASSERT_EQ(::mkfifo((folder_ / "pipes" / "config.json").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", folder_ / "zeros" / "config.json");
  for (const std::string& path : {(folder_ / "pipe.gguf").string(), (folder_ / "pipes").string(),
                                  (folder_ / "zeros").string(), std::string("/dev/zero")}) {
    for (const std::string& command :
         {"inspect '" + path + "'", "run --device cpu --model '" + path + "'", "bench --device cpu '" + path + "'",
          "convert --out " + quoted(folder_ / "x.gguf") + " '" + path + "'", "embed --device cpu -t x '" + path + "'",
          "quantize --to q8_0 --out " + quoted(folder_ / "x.gguf") + " '" + path + "'",
          with_model("run") + "--prompt x --adapter '" + path + "'",
          with_model("run") + "--prompt x --draft '" + path + "'",
          with_model("run") + "--prompt x --tokenizer '" + path + "'"}) {
      const Result run = in_time(command);
      EXPECT_EQ(run.code, 4) << command << run.output;
      EXPECT_THAT(run.output, HasSubstr("etna: ")) << command;
    }
  }
}

TEST_F(EtnaModel, TextsWithoutEndAreRefused) {
  const fs::path sparse = folder_.write("sparse", "");
  fs::resize_file(sparse, std::uintmax_t{1} << 40);
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const std::string& command :
       {with_model("run") + "--prompt-file " + quoted(sparse), with_model("perplexity") + "--file " + quoted(sparse),
        with_model("run") + "--prompt-file /dev/zero", with_model("run") + "< /dev/zero",
        with_model("perplexity") + "--file /dev/zero", with_model("perplexity") + "--file " + quoted(folder_ / "pipe"),
        "embed --file /dev/zero " + quoted(model()), "embed --file " + quoted(folder_ / "pipe") + " " + quoted(model()),
        "data prepare --out " + quoted(folder_ / "out") + " /dev/zero",
        "data prepare --out " + quoted(folder_ / "out") + " " + quoted(folder_ / "pipe"), "inspect " + quoted(sparse),
        "run --device cpu --model " + quoted(sparse)}) {
    const Result run = in_time(command);
    EXPECT_EQ(run.code, 4) << command << run.output;
    EXPECT_THAT(run.output, HasSubstr("etna: ")) << command;
  }
  EXPECT_THAT(in_time(with_model("run") + "--prompt-file " + quoted(sparse)).output,
              HasSubstr("sparse: has 1.0 TiB, and there are "));
  EXPECT_EQ(in_time(with_model("run") + "-n 2 --prompt-file " + quoted(folder_ / "pipe")).code, 0)
      << "a pipe that nobody writes to is empty";
}

TEST_F(EtnaModel, WhatIsNoModelIsTold) {
  folder_.write("notes.md", "# Notes\n");
  models::Model base = models::load_model(model());
  base.decoder->add_adapters(2, 8);
  models::save_adapters(folder_ / "adapter.gguf", *base.decoder);
  fs::create_directories(folder_ / "peft");
  models::save_adapters(folder_ / "peft" / "adapter_model.safetensors", *base.decoder);
  fs::create_directories(folder_ / "one");
  fs::copy_file(model(), folder_ / "one" / "small.gguf");
  folder_.write("config.json", "{}");
  for (const auto& [name, sentence] :
       {std::pair{"notes.md", "is a text, not a model"},
        {"adapter.gguf", "is a low-rank adapter, not a model; give the model that it is for"},
        {"peft", "holds low-rank adapters, not a model"},
        {"one", "is a folder without config.json; name the model in it: small.gguf"},
        {"config.json", "is one file of a model; name the folder that it is in"}}) {
    const Result run = etna("run --device cpu --prompt x --model " + quoted(folder_ / name));
    EXPECT_EQ(run.code, 4) << name;
    EXPECT_THAT(run.output, HasSubstr(sentence)) << name;
    EXPECT_THAT(etna("inspect " + quoted(folder_ / name)).output, HasSubstr(sentence)) << name;
  }
  EXPECT_EQ(etna("inspect " + quoted(folder_ / "adapter.gguf")).code, 0) << "its tensors are shown";
}

}  // namespace
}  // namespace etna
