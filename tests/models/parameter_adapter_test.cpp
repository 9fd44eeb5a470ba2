#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <data/temporary_folder.h>
#include <etna/autograd/autograd.h>
#include <etna/models/internal/parameter_adapter.h>
#include <etna/models/internal/peft_config.h>
#include <etna/models/model_file.h>
#include <etna/tensor/io/safetensors.h>
#include <nn/on_device.h>

#include "small_models.h"

// PEFT's adapters of parameters that hold the matrices of all experts.
namespace etna::models {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kExperts = 4, kWidth = 64, kRank = 3;

/// What a family calls its two parameters, and how they lie.
struct Family {
  const char *architecture, *block, *gate_up, *down;  ///< the last two with the wrapper of PEFT, where there are both
  bool in_by_out, turns, nested;
};
const Family kFamilies[] = {
    {"gpt-oss", "model.layers.1.mlp.experts", ".base_layer", "", true, true, true},
    {"llama4", "model.layers.1.feed_forward.experts", ".base_layer", "", true, false, true},
    {"granitemoe", "model.layers.1.block_sparse_moe", ".input_linear", ".output_linear", false, false, false}};

DecoderConfig parameter_config(const Family& family, std::int64_t columns = 48) {
  DecoderConfig config = small_config(family.architecture);
  config.experts.feed_forward = columns;
  return config;
}

std::unique_ptr<Decoder> with_parameter_adapters(const DecoderConfig& config,
                                                 const std::vector<std::string>& targets = {"experts"}) {
  auto model = small_model(config);
  model->add_adapters({.rank = kRank, .alpha = 6, .targets = targets});
  const NoGrad no_grad;
  for (const auto& p : model->named_parameters())
    if (p.name.ends_with("lora_b")) Tensor(p.tensor).copy_(randn(p.tensor.shape()) * 0.1);
  return model;
}

std::vector<float> parameter_logits(const Decoder& model) {
  const NoGrad no_grad;
  return model(from_vector(some_text(20, 97), {1, 20})).to_vector<float>();
}

class ParameterAdapter : public testing::Test {
 protected:
  FilePath file() const { return folder_ / "adapter_model.safetensors"; }
  void write(const NamedTensors& tensors, const std::string& version, const char* more = "") const {
    save_safetensors(file(), tensors);
    std::ofstream(folder_ / "adapter_config.json")
        << R"({"r": 3, "lora_alpha": 6, "peft_version": ")" << version << "\"" << more << "}";
  }
  std::string refusal(const DecoderConfig& config) const {
    try {
      load_adapters(file(), *small_model(config));
    } catch (const FormatError& error) {
      return error.what();
    }
    return "nothing was refused";
  }
  nlohmann::json written_config() const {
    return nlohmann::json::parse(std::ifstream(folder_ / "adapter_config.json"));
  }
  std::map<std::string, Tensor> tensors() const { return load_safetensors(file()); }
  TemporaryFolder folder_;
};

TEST_F(ParameterAdapter, ComesBackAsPeftHasIt) {
  for (const Family& family : kFamilies) {
    SCOPED_TRACE(family.architecture);
    const DecoderConfig config = parameter_config(family);
    const auto model = with_parameter_adapters(config, {"all"}), again = small_model(config);
    save_adapters(file(), *model);
    load_adapters(folder_.path(), *again);
    const std::vector<float> wanted = parameter_logits(*model);
    expect_near(from_vector(parameter_logits(*again)), from_vector(wanted), 1e-4);
    // A and factors of gate and up are one now, and stay so.
    const auto first = tensors();
    save_adapters(file(), *again);
    for (const auto& [name, tensor] : tensors()) {
      ASSERT_EQ(tensor.shape(), first.at(name).shape()) << name;
      expect_near(tensor, first.at(name), 1e-6);
    }
    again->merge_adapters();
    expect_near(from_vector(parameter_logits(*again)), from_vector(wanted), 2e-3);
    EXPECT_THROW(stack_adapters(file(), *small_model(config)), FormatError);
  }
}

/// Names, shapes and what adapter_config.json says.
TEST_F(ParameterAdapter, HasTheNamesOfPeft) {
  for (const Family& family : kFamilies) {
    SCOPED_TRACE(family.architecture);
    save_adapters(file(), *with_parameter_adapters(parameter_config(family)));
    const auto all = tensors();
    const std::string block = std::string("base_model.model.") + family.block;
    const bool outputs = family.in_by_out && !family.turns;
    const auto shape = [&](const char* wrapper, const char* half) {
      return all.at(block + wrapper + ".lora_" + half + ".weight").shape();
    };
    const std::int64_t both = kExperts * 2 * kRank, one = kExperts * kRank;  // gate and up have an A each
    EXPECT_EQ(shape(family.gate_up, "A"), (Shape{both, outputs ? 96 : kWidth}));
    EXPECT_EQ(shape(family.gate_up, "B"), (Shape{outputs ? kWidth : 96, both}));
    EXPECT_EQ(shape(family.down, "A"), (Shape{one, outputs ? kWidth : 48}));
    EXPECT_EQ(shape(family.down, "B"), (Shape{outputs ? 48 : kWidth, one}));
    const nlohmann::json config = written_config();
    const std::string end = std::string(family.block).substr(std::string("model.layers.1.").size());
    const std::string gate_up = end + (family.nested ? ".gate_up_proj" : ".input_linear.weight"),
                      down = end + (family.nested ? ".down_proj" : ".output_linear.weight");
    EXPECT_EQ(config["target_parameters"], nlohmann::json(std::set<std::string>{gate_up, down}));
    EXPECT_EQ(config["target_modules"], nlohmann::json::array());
    EXPECT_EQ(config["r"], kRank);
    EXPECT_EQ(config["lora_alpha"], 6);
    EXPECT_EQ(config["rank_pattern"]["layers.1." + gate_up], 2 * kRank);
    EXPECT_EQ(config["lora_dropout"], 0);
    EXPECT_TRUE(is_parameter_version(config["peft_version"]));
  }
  save_adapters(file(), *with_parameter_adapters(parameter_config(kFamilies[0]), {"ffn.down"}));
  EXPECT_TRUE(tensors().contains("base_model.model.model.layers.0.mlp.experts.lora_A.weight"));
  EXPECT_EQ(std::ssize(tensors()), 4);
  save_adapters(file(), *with_parameter_adapters(parameter_config(kFamilies[0]), {"ffn.gate"}));
  EXPECT_EQ(tensors().at("base_model.model.model.layers.0.mlp.experts.lora_B.weight").shape(), (Shape{96, 12}));
  const auto again = small_model(parameter_config(kFamilies[0]));
  load_adapters(file(), *again);
  EXPECT_TRUE(again->blocks[0].ffn->gate->has_adapter());
  EXPECT_EQ(max(abs(again->blocks[0].ffn->up.lora_b)).item<double>(), 0);
  EXPECT_FALSE(again->blocks[0].ffn->down.has_adapter());
}

/// An adapter of PEFT, and what it adds to the model's matrices.
struct PeftHalves {
  Tensor a, b;
  std::int64_t rows, in;

  PeftHalves(std::int64_t rows, std::int64_t in, bool inputs)
      : a(randn({kExperts * kRank, inputs ? in : rows})),
        b(randn({inputs ? rows : in, kRank * kExperts})),
        rows(rows),
        in(in),
        inputs_(inputs),
        a_(a.to_vector<float>()),
        b_(b.to_vector<float>()) {}

  /// Of an element of an expert's matrix, by the file's number of its row: scale · Σ B[·, rank, e] · A[e, rank, ·],
  /// where A stands at the columns, or at the rows.
  double added(std::int64_t e, std::int64_t row, std::int64_t column) const {
    const std::int64_t of_a = inputs_ ? column : row, of_b = inputs_ ? row : column;
    double sum = 0;
    for (std::int64_t k = 0; k < kRank; ++k)
      sum += static_cast<double>(b_[static_cast<std::size_t>(of_b * kRank * kExperts + k * kExperts + e)]) *
             static_cast<double>(a_[static_cast<std::size_t>((e * kRank + k) * a.size(1) + of_a)]);
    return 6.0 / kRank * sum;
  }

 private:
  bool inputs_;
  std::vector<float> a_, b_;
};

/// @param row_of the file's number of a row
template <typename RowOf>
void expect_added(const Projection& layer, const Tensor& before, const PeftHalves& peft, RowOf row_of) {
  const auto now = layer.weight.detach().to_vector<float>(), then = before.to_vector<float>();
  const std::int64_t rows = layer.out / kExperts;
  for (std::int64_t e = 0; e < kExperts; ++e)
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < layer.in; ++c) {
        const auto i = static_cast<std::size_t>((e * rows + r) * layer.in + c);
        ASSERT_NEAR(now[i] - then[i], peft.added(e, row_of(r), c), 1e-4) << e << " " << r << " " << c;
      }
}

/// Older versions have A at the first size of the tensor, later ones at the last, but for gpt-oss. Shapes tell which,
/// unless a matrix is square; then the version does.
TEST_F(ParameterAdapter, AddsWhatPeftAdds) {
  for (const Family& family : kFamilies) {
    for (const std::int64_t columns : {48, 64, 32}) {  // the last ones give a square matrix each
      for (const char* version : {"0.19.1", "0.18.0"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", family.architecture, columns, version));
        const DecoderConfig config = parameter_config(family, columns);
        const bool newer = is_parameter_version(version);
        const bool inputs = family.in_by_out ? family.turns || !newer : newer;
        manual_seed(5);
        const PeftHalves gate_up(2 * columns, kWidth, inputs), down(kWidth, columns, inputs);
        const std::string block = std::string("base_model.model.") + family.block;
        write({{block + family.gate_up + ".lora_A.weight", gate_up.a},
               {block + family.gate_up + ".lora_B.weight", gate_up.b},
               {block + family.down + ".lora_A.weight", down.a},
               {block + family.down + ".lora_B.weight", down.b}},
              version);
        const auto model = small_model(config), before = small_model(config);
        load_adapters(file(), *model);
        model->merge_adapters();
        const NoGrad no_grad;
        const DecoderFeedForward &now = *model->blocks[1].ffn, &then = *before->blocks[1].ffn;
        const std::int64_t step = family.turns ? 2 : 1;
        expect_added(*now.gate, then.gate->weight, gate_up, [&](std::int64_t r) { return step * r; });
        expect_added(now.up, then.up.weight, gate_up,
                     [&](std::int64_t r) { return family.turns ? 2 * r + 1 : columns + r; });
        expect_added(now.down, then.down.weight, down, [](std::int64_t r) { return r; });
        EXPECT_TRUE(equal(model->blocks[0].ffn->up.weight, before->blocks[0].ffn->up.weight));
      }
    }
  }
}

/// Also of families whose files have one tensor for all experts only lately.
TEST_F(ParameterAdapter, BelongsToFamiliesWithATensorForEachExpertToo) {
  const Family qwen{"qwen3moe", "model.layers.1.mlp.experts", ".base_layer", "", false, false, true};
  const PeftHalves gate_up(96, kWidth, true);
  const std::string module = "base_model.model.model.layers.1.mlp.experts";
  write({{module + ".lora_A.weight", gate_up.a}, {module + ".lora_B.weight", gate_up.b}}, "0.19.1");
  const auto model = small_model(parameter_config(qwen)), before = small_model(parameter_config(qwen));
  load_adapters(file(), *model);
  model->merge_adapters();
  const NoGrad no_grad;
  expect_added(*model->blocks[1].ffn->gate, before->blocks[1].ffn->gate->weight, gate_up,
               [](std::int64_t r) { return r; });
  expect_added(model->blocks[1].ffn->up, before->blocks[1].ffn->up.weight, gate_up,
               [](std::int64_t r) { return 48 + r; });
  EXPECT_TRUE(equal(model->blocks[1].ffn->down.weight, before->blocks[1].ffn->down.weight));
}

TEST_F(ParameterAdapter, IsRefusedInWords) {
  const DecoderConfig config = parameter_config(kFamilies[0]);
  const std::string module = "base_model.model.model.layers.0.mlp.experts.lora_";
  const auto of = [&](const Shape& a, const Shape& b, const char* more = "") {
    write({{module + "A.weight", zeros(a)}, {module + "B.weight", zeros(b)}}, "0.19.1", more);
    return refusal(config);
  };
  EXPECT_EQ(of({12, 64}, {96, 12}), "nothing was refused");
  for (const auto& [a, b] : {std::pair{Shape{12, 64}, Shape{95, 12}},
                             {{12, 63}, {96, 12}},
                             {{10, 64}, {96, 10}},
                             {{12, 64}, {96, 8}},
                             {{0, 64}, {96, 0}},
                             {{768}, {96, 12}},
                             {{4, 3, 64}, {96, 12}},
                             {{12, 64}, {1, 96, 12}}}) {
    const std::string why = of(a, b);
    EXPECT_THAT(why, HasSubstr("mlp.experts.lora_A.weight' is " + str(a) + " and " + str(b))) << why;
    EXPECT_THAT(why, HasSubstr("mlp.experts.gate_up_proj has 4 experts, 64 to 96; mlp.experts.down_proj has 4 experts, "
                               "48 to 64"));
  }
  EXPECT_THAT(of({16, 64}, {96, 16}), HasSubstr("has rank 4, and adapter_config.json says 3"));
  EXPECT_THAT(of({12, 64}, {96, 12}, R"(, "use_dora": true)"), HasSubstr("use_dora"));
  write({{module + "A.weight", zeros({12, 64})}}, "0.19.1");
  EXPECT_THAT(refusal(config), HasSubstr("belongs to no layer"));
  // Twice the same parameter.
  const std::string inner = "base_model.model.model.layers.0.mlp.experts.base_layer.lora_";
  write({{module + "A.weight", zeros({12, 64})},
         {module + "B.weight", zeros({96, 12})},
         {inner + "A.weight", zeros({12, 64})},
         {inner + "B.weight", zeros({96, 12})}},
        "0.19.1");
  EXPECT_THAT(refusal(config), HasSubstr("fits no parameter that has none"));

  const auto model = with_parameter_adapters(config);
  for (DecoderBlock& block : model->blocks) block.ffn->down.set_magnitudes();
  const auto refuses = testing::ThrowsMessage<FormatError>(HasSubstr("(DoRA) for experts that are one tensor"));
  EXPECT_THAT([&] { save_adapters(file(), *model); }, refuses);
  EXPECT_THAT([&] { check_peft_adapters(*model); }, refuses);
}

TEST(ParameterVersion, IsComparedByNumbers) {
  for (const char* version : {"0.19.1", "0.20.0", "0.21", "1", "0.19.10.dev0"})
    EXPECT_TRUE(is_parameter_version(version)) << version;
  for (const char* version : {"", "0", "0.17.1", "0.19.0", "0.9.99", "unknown", "-1.0", "99999999999999999999"})
    EXPECT_FALSE(is_parameter_version(version)) << version;
}

}  // namespace
}  // namespace etna::models
