#pragma once

#include <string>

#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/models/model_file.h>
#include <models/small_models.h>
#include <models/some_tokenizer.h>
#include <runner/run_program.h>

/// etna with a small random model, which may be divided over processes.
namespace etna {

class RunWorld : public testing::Test {
 protected:
  void SetUp() override {
    const data::ModelTokenizer tokenizer = some_tokenizer();
    models::DecoderConfig config = models::small_config("llama");
    config.vocabulary = static_cast<std::int64_t>(tokenizer.size());
    models::save_gguf_model(folder_ / "model.gguf", *models::small_model(config), &tokenizer,
                            &quant::format_named("F32"));
  }
  std::string model() const { return "'" + (folder_ / "model.gguf").string() + "'"; }
  std::string run(const std::string& more = "") const {
    return "run -m " + model() + " --device cpu --cache f32 -n 40 --seed 3 " + more + " --prompt 'the river' ";
  }
  static Result etna(const std::string& arguments, const std::string& errors = "2>&1",
                     const std::string& environment = "") {
    return run_program(ETNA_PROGRAM, arguments, "-u ETNA_DEVICE -u ETNA_MEET -u ETNA_DIST " + environment, errors);
  }
  static std::string printed(const std::string& arguments) { return etna(arguments, "2>/dev/null").output; }

  TemporaryFolder folder_;
};

}  // namespace etna
