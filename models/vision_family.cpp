#include <etna/models/internal/vision_family.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/data/transforms.h>

namespace etna::models {
namespace {

using data::transforms::ResampleFilter;

void siglip(VisionConfig& c, std::int64_t width, std::int64_t heads, std::int64_t patch) {
  c.blocks.norm_eps = 1e-6;
  c.blocks.activation = Activation::gelu_tanh;
  c.blocks.pre_norm = c.blocks.first_norm = true;
  c.blocks.width = width;
  c.blocks.heads = heads;
  c.blocks.layers = 12;
  c.blocks.feed_forward = 3072;
  c.image_size = 224;
  c.patch_size = patch;
}
void gemma3_vision(VisionConfig& c) {
  siglip(c, 768, 12, 16);
  c.both_ways = true;
}
void idefics3(VisionConfig& c) {
  siglip(c, 1152, 16, 32);
  c.merge = 2;
  c.merges = PatchMerge::shuffle;
  c.fit = PictureFit::tiles;
  c.filter = ResampleFilter::lanczos;
}
void qwen3_vl(VisionConfig& c) {
  siglip(c, 1152, 16, 16);
  c.blocks.layers = 27;
  c.blocks.feed_forward = 4304;
  c.image_size = 768;
  c.merge = 2;
  c.merges = PatchMerge::layers;
  c.rotary = true;
  c.deep_layers = {8, 16, 24};
  c.fit = PictureFit::area;
  c.filter = ResampleFilter::bicubic;
  c.least_pixels = std::int64_t{1} << 16;
  c.most_pixels = std::int64_t{1} << 24;
}

constexpr std::pair<std::string_view, std::string_view> kGemma3Vision[] = {
    {"projector.norm", "mm_soft_emb_norm"}, {"projector.last", "mm_input_projection_weight"}};
constexpr std::pair<std::string_view, std::string_view> kIdefics3[] = {{"projector.last", "modality_projection.proj"}};
constexpr std::pair<std::string_view, std::string_view> kQwen3Vl[] = {{"patch_embedding", "patch_embed.proj"},
                                                                      {"position_embedding", "pos_embed"},
                                                                      {"attention_norm", "norm1"},
                                                                      {"qkv", "attn.qkv"},
                                                                      {"output", "attn.proj"},
                                                                      {"ffn_norm", "norm2"},
                                                                      {"ffn.up", "mlp.linear_fc1"},
                                                                      {"ffn.down", "mlp.linear_fc2"},
                                                                      {"projector.norm", "norm"},
                                                                      {"projector.first", "linear_fc1"},
                                                                      {"projector.last", "linear_fc2"}};

constexpr std::pair<std::string_view, std::string_view> kGemma3VisionGguf[] = {
    {"projector.norm", "mm.soft_emb_norm"}, {"projector.last", "mm.input_projection"}};
constexpr std::pair<std::string_view, std::string_view> kIdefics3Gguf[] = {{"projector.last", "mm.model.fc"}};
constexpr std::pair<std::string_view, std::string_view> kQwen3VlGguf[] = {
    {"projector.norm", "v.post_ln"}, {"projector.first", "mm.0"}, {"projector.last", "mm.2"}};

constexpr std::pair<std::string_view, std::string_view> kQwen3VlKeys[] = {{"num_hidden_layers", "depth"},
                                                                          {"num_attention_heads", "num_heads"}};

constexpr ImageText kTiles = {"<image>", "", "<fake_token_around_image>", "<image>"};
constexpr ImageText kSections = {"<|vision_start|><|image_pad|><|vision_end|>", "<|vision_start|>", "<|vision_end|>",
                                 "<|image_pad|>"};
constexpr VisionFamily kVision[] = {
    {.hugging_face = "gemma3",
     .gguf = "gemma3",
     .text = {"<start_of_image>", "\n\n<start_of_image>", "<end_of_image>\n\n", "<image_soft_token>"},
     .apply = gemma3_vision,
     .names = kGemma3Vision,
     .gguf_names = kGemma3VisionGguf},
    {.hugging_face = "smolvlm",
     .gguf = "idefics3",
     .text = kTiles,
     .apply = idefics3,
     .names = kIdefics3,
     .gguf_names = kIdefics3Gguf},
    {.hugging_face = "idefics3",
     .gguf = "idefics3",
     .text = kTiles,
     .apply = idefics3,
     .names = kIdefics3,
     .gguf_names = kIdefics3Gguf},
    {.hugging_face = "qwen3_vl",
     .gguf = "qwen3vl_merger",
     .text = kSections,
     .apply = qwen3_vl,
     .keys = kQwen3VlKeys,
     .names = kQwen3Vl,
     .gguf_names = kQwen3VlGguf},
    {.hugging_face = "qwen3_vl_moe",
     .gguf = "qwen3vl_merger",
     .text = kSections,
     .apply = qwen3_vl,
     .keys = kQwen3VlKeys,
     .names = kQwen3Vl,
     .gguf_names = kQwen3VlGguf}};

template <typename Field>
const VisionFamily* find_vision(Field field, std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kVision), std::end(kVision), [&](const VisionFamily& f) { return f.*field == name; });
  return found == std::end(kVision) ? nullptr : found;
}

}  // namespace

const VisionFamily* find_vision_hugging_face(std::string_view name) {
  return find_vision(&VisionFamily::hugging_face, name);
}
const VisionFamily* find_vision_gguf(std::string_view name) { return find_vision(&VisionFamily::gguf, name); }

const VisionFamily& family_of(const VisionConfig& config) {
  const VisionFamily* family = find_vision_hugging_face(config.family);
  if (family == nullptr)
    throw FormatError(
        fmt::format("vision towers of the family '{}' do not run here; these do: {}", config.family, vision_names()));
  return *family;
}

std::string vision_names() {
  std::string names;
  for (const VisionFamily& family : kVision) {
    if (!names.empty()) names += ", ";
    names += family.hugging_face;
  }
  return names;
}

}  // namespace etna::models
