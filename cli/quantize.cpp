#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/memory.h>
#include <etna/models/model_file.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/quant/block_format.h>
#include <etna/train/progress.h>

#include "commands.h"
#include "output.h"
#include "weight_format.h"

namespace etna::cli {
namespace {

struct QuantizeOptions {
  std::string file, to, out;
  bool pure = false, force = false;
};

namespace fs = std::filesystem;
using quant::BlockFormat;
using training::printable;
using training::with_commas;

/// By a signal.
struct QuantizeStopped {
  int exit_code;
};

/// The format of a tensor in the new file. Vectors (norms, biases) stay as they are. Tables of words and the last
/// matrix get at least 6 bits unless `pure`, since they are few and matter most. Rows that are no whole blocks get the
/// next format whose blocks they are.
const BlockFormat& format_for(const io::GgufTensor& t, const BlockFormat& wanted, bool pure) {
  if (t.shape.size() < 2) return *t.format;
  const bool outer = t.name == "token_embd.weight" || t.name == "output.weight";
  const BlockFormat* format = &wanted;
  if (outer && !pure && wanted.bits() < 6) format = &quant::format_named("Q6_K");
  for (const char* next : {"Q8_0", "F16"}) {
    if (io::gguf_can_hold(*format, t.shape)) break;
    format = &quant::format_named(next);
  }
  return *format;
}

struct Quantized {
  std::map<std::string, std::pair<std::int64_t, std::uint64_t>> formats;  ///< tensors and bytes
  std::uint64_t before = 0, after = 0;
  std::int64_t elements = 0;
  quant::ErrorStatistics error;  ///< of tensors whose format changed
  double worst = HUGE_VAL;       ///< dB
  std::string worst_name;
};

/// Writes a tensor in its new format.
void convert(const io::GgufFile& from, const io::GgufTensor& t, const BlockFormat& format, io::GgufWriter& to,
             Quantized& sum) {
  const io::MappedBytes bytes = from.bytes(t);
  for (const quant::Finding& finding : quant::find_suspicious(*t.format, bytes, t.elements)) {
    if (finding.kind == quant::Finding::Kind::not_finite || finding.kind == quant::Finding::Kind::scale)
      throw models::SuspiciousWeights(fmt::format("{}: {}", printable(t.name), finding.text));
  }
  const std::size_t size = quant::storage_bytes(format, t.elements);
  auto& [tensors, total] = sum.formats[std::string(format.name)];
  ++tensors, total += size;
  sum.before += t.bytes, sum.after += size, sum.elements += t.elements;
  if (&format == t.format) {
    to.write(t.name, bytes);
    return;
  }
  std::vector<float> values(static_cast<std::size_t>(t.elements)), again(values.size());
  quant::dequantize(*t.format, bytes, values.data(), t.elements);
  std::vector<std::byte> blocks(size);
  quant::quantize(format, values.data(), blocks, t.elements);
  to.write(t.name, blocks);
  quant::dequantize(format, blocks, again.data(), t.elements);
  const quant::ErrorStatistics error = quant::compare(values, again);
  sum.error.add(error);
  if (error.signal_to_noise() < sum.worst) sum.worst = error.signal_to_noise(), sum.worst_name = t.name;
}

std::string quantize_text_of(const QuantizeOptions& options, const Quantized& sum) {
  std::string text;
  for (const auto& [format, count] : sum.formats)
    text +=
        fmt::format("  {:<8} {:>6} tensors {:>12}\n", format, with_commas(count.first), readable_bytes(count.second));
  text +=
      fmt::format("{}: {} -> {}, {:.2f} bits a weight\n", printable(options.out), readable_bytes(sum.before),
                  readable_bytes(sum.after),
                  8.0 * static_cast<double>(sum.after) / static_cast<double>(std::max<std::int64_t>(1, sum.elements)));
  if (sum.error.count > 0 && sum.error.mean_square_error > 0) {
    text += fmt::format("signal to noise {:.1f} dB, at the worst {:.1f} dB in {}\n", sum.error.signal_to_noise(),
                        sum.worst, printable(sum.worst_name));
  }
  return text;
}

Quantized write(const io::GgufFile& from, const BlockFormat& wanted, const QuantizeOptions& options) {
  for (const io::GgufTensor& t : from.tensors()) {
    if (t.format == nullptr) {
      throw FormatError(fmt::format("{}: this build cannot decode {}, which is {}", options.file, t.name,
                                    io::gguf_type_name(t.type)));
    }
  }
  training::Interrupt interrupt;
  io::GgufWriter to(options.out, static_cast<std::uint32_t>(from.alignment()));
  for (const io::GgufEntry& entry : from.metadata()) {
    if (entry.key != "general.alignment" && entry.key != "general.file_type" &&
        entry.key != "general.quantization_version")
      to.set(entry.key, entry.value);
  }
  if (wanted.gguf_file_type != quant::kNoGgufType) to.set("general.file_type", wanted.gguf_file_type);
  to.set("general.quantization_version", std::uint32_t{2});
  std::vector<const BlockFormat*> formats;
  for (const io::GgufTensor& t : from.tensors()) {
    formats.push_back(&format_for(t, wanted, options.pure));
    to.add(t.name, *formats.back(), t.shape);
  }
  Quantized sum;
  training::Progress progress(static_cast<std::int64_t>(formats.size()),
                              {.title = "quantize", .keep = false, .out = stderr});
  for (std::size_t i = 0; i < formats.size(); ++i) {
    if (interrupt.requested()) throw QuantizeStopped{interrupt.exit_code()};
    convert(from, from.tensors()[i], *formats[i], to, sum);
    progress.update(static_cast<std::int64_t>(i) + 1, {});
  }
  progress.finish();
  to.finish();
  return sum;
}

int quantize(const QuantizeOptions& options) try {
  const BlockFormat* wanted = writable_format(options.to);
  if (wanted == nullptr) {
    print_error(unknown_format(options.to));
    return 2;
  }
  io::require_output({"--out", options.out, {}}, options.force, {options.file});
  const Quantized sum = write(io::GgufFile(options.file), *wanted, options);
  print_all(quantize_text_of(options, sum));
  return 0;
} catch (const QuantizeStopped& stopped) {
  print_error("stopped; nothing was written");
  return stopped.exit_code;
} catch (const FormatError& error) {
  print_error(printable(error.what()));
  return 4;
}

}  // namespace

Command add_quantize(CLI::App& app) {
  const auto options = std::make_shared<QuantizeOptions>();
  CLI::App* quantize = app.add_subcommand("quantize", "Write a GGUF file with its matrices in fewer bits");
  quantize->add_option("-m,--model,file", options->file, "a GGUF file")->required();
  quantize
      ->add_option("--to", options->to,
                   "q8_0, q6_k, q5_k, q4_k (or q4_k_m), q4_0, iq4_nl, mxfp4, tq2_0 ...: see docs/quantization.md")
      ->required();
  quantize->add_option("--out", options->out, "the file to write; one that is there is refused")->required();
  quantize->add_flag("--pure", options->pure, "the same format for token_embd and output, which otherwise keep 6 bits");
  quantize->add_flag("--force", options->force, "replace --out");
  return {quantize, [options] { return cli::quantize(*options); }};
}

}  // namespace etna::cli
