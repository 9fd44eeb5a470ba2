#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/autograd/autograd.h>
#include <etna/models/model_file.h>
#include <etna/tensor/io/gguf.h>
#include <nn/on_device.h>
#include <quant/random_points.h>

#include "small_models.h"

// Models whose matrices are points of grids: they stay in blocks, and say what their decoded values say.
namespace etna::models {
namespace {

DecoderConfig config_of_whole_blocks(const char* architecture) {
  DecoderConfig c = small_config(architecture);
  c.width = 256;
  c.head_size = 64;
  c.rope.size = 64;
  c.feed_forward = 256;
  c.experts.feed_forward = c.experts.count > 0 ? 256 : 0;
  return c;
}

/// Writes a model twice: with matrices in the formats in turn, and with what these decode to. Their scales become those
/// of weights.
void write_both(const FilePath& given, const FilePath& blocks, const FilePath& values,
                const std::vector<const char*>& formats) {
  const io::GgufFile file(given);
  io::GgufWriter in_blocks(blocks), in_values(values);
  std::vector<std::pair<const io::GgufTensor*, const quant::BlockFormat*>> all;
  for (const io::GgufEntry& entry : file.metadata()) {
    if (entry.key == "general.alignment") continue;
    in_blocks.set(entry.key, entry.value);
    in_values.set(entry.key, entry.value);
  }
  for (const io::GgufTensor& tensor : file.tensors()) {
    const bool turned = tensor.shape.rank() > 1 && tensor.shape[tensor.shape.rank() - 1] % 256 == 0 &&
                        tensor.name.find("gate_inp") == std::string::npos;
    const quant::BlockFormat& format = quant::format_named(turned ? formats[all.size() % formats.size()] : "F32");
    all.emplace_back(&tensor, &format);
    in_blocks.add(tensor.name, format, tensor.shape);
    in_values.add(tensor.name, quant::format_named("F32"), tensor.shape);
  }
  for (const auto& [tensor, format] : all) {
    Tensor own = file.load(*tensor);
    if (format->elements == 1) {
      in_blocks.write(tensor->name, own);
    } else {
      const auto seed = static_cast<unsigned>(tensor->begin);
      const std::vector<std::byte> points = quant::random_points(*format, own.numel(), seed);
      quant::dequantize(*format, points, own.mutable_data<float>(), own.numel());
      in_blocks.write(tensor->name, points);
    }
    in_values.write(tensor->name, own);
  }
  in_blocks.finish();
  in_values.finish();
}

Tensor logits_of(const Decoder& model, Device device = kCPU) {
  const NoGrad no_grad;
  const Tensor text = from_vector(some_text(20, 97), {1, 20}).to(device);
  // A prompt, and a step of one position.
  return cat({model(text), model(text.slice(1, 0, 1))}, 1).to(kCPU);
}

/// Of norms. Activations are rounded to bytes for blocks, not for values.
double relative_error(const Tensor& got, const Tensor& wanted) {
  return std::sqrt(sum(square(got - wanted)).item<double>() / sum(square(wanted)).item<double>());
}

class GridFormats : public OnDevice {
 protected:
  TemporaryFolder folder_;
};

TEST_P(GridFormats, SayWhatTheirValuesSay) {
  const std::vector<const char*> formats =
      tried<const char*>({"IQ2_XS", "IQ1_S", "IQ3_XXS", "IQ2_S", "IQ1_M", "IQ2_XXS", "IQ3_S"}, 7);
  for (const char* architecture : tried<const char*>({"qwen3moe", "llama", "qwen3"}, 3)) {
    save_gguf_model(folder_ / "given.gguf", *small_model(config_of_whole_blocks(architecture)), nullptr);
    write_both(folder_ / "given.gguf", folder_ / "blocks.gguf", folder_ / "values.gguf", formats);
    const Model blocks = load_model(folder_ / "blocks.gguf", {.device = device()});
    const quant::BlockFormat& format = blocks.decoder->blocks[0].attention->query->blocks().format();
    EXPECT_LE(format.bits(), 4) << format.name;
    const Tensor got = logits_of(*blocks.decoder, device());
    EXPECT_LE(relative_error(got, logits_of(*load_model(folder_ / "values.gguf").decoder)), 0.1) << architecture;
    if (!device().is_cpu()) continue;
    // Written again, they are the same.
    save_gguf_model(folder_ / "again.gguf", *blocks.decoder, nullptr);
    const Model again = load_model(folder_ / "again.gguf");
    EXPECT_EQ(&again.decoder->blocks[0].attention->query->blocks().format(), &format);
    EXPECT_EQ(logits_of(*again.decoder).to_vector<float>(), got.to_vector<float>()) << architecture;
  }
}
ETNA_ON_EVERY_DEVICE(GridFormats);

TEST(GridFormatsInFiles, AreABaseOfAdapters) {
  const TemporaryFolder folder;
  save_gguf_model(folder / "given.gguf", *small_model(config_of_whole_blocks("llama")), nullptr);
  write_both(folder / "given.gguf", folder / "blocks.gguf", folder / "values.gguf", {"IQ2_XS"});
  std::vector<Tensor> gradients;
  for (const char* name : {"blocks.gguf", "values.gguf"}) {
    const Model model = load_model(folder / name);
    manual_seed(3);
    model.decoder->add_adapters(4, 8, true);
    const Tensor text = from_vector(some_text(20, 97), {1, 20});
    mean(square((*model.decoder)(text))).backward();
    gradients.push_back(model.decoder->blocks[0].attention->value->lora_b.grad());
  }
  EXPECT_LE(relative_error(gradients[0], gradients[1]), 0.2);
}

struct PointWeights : LoudWeights {
  Matrix matrix(const std::string& name, std::int64_t rows, std::int64_t columns) override {
    if (columns % 256 != 0) return LoudWeights::matrix(name, rows, columns);
    const quant::BlockFormat& format = quant::format_named("IQ2_XS");
    const std::vector<std::byte> points = quant::random_points(format, rows * columns, seed++);
    return {{}, {format, {rows, columns}, from_bytes(points.data(), {std::ssize(points)}, u8)}};
  }
  unsigned seed = 1;
};

/// In GGUF, rows of queries and keys have another order.
TEST(GridFormatsInFiles, BecomeF16WhereRowsAreReordered) {
  const TemporaryFolder folder;
  DecoderConfig config = config_of_whole_blocks("llama");
  config.rope.interleaved = false;
  PointWeights weights;
  const Decoder model(config, weights);
  save_gguf_model(folder / "model.gguf", model, nullptr);
  const Model again = load_model(folder / "model.gguf");
  const auto& attention = *again.decoder->blocks[0].attention;
  EXPECT_EQ(attention.query->blocks().format().name, "F16");
  EXPECT_EQ(attention.value->blocks().format().name, "IQ2_XS");
  EXPECT_LE(relative_error(logits_of(*again.decoder), logits_of(model)), 0.1);
}

}  // namespace
}  // namespace etna::models
