#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/data/vision.h>
#include <etna/models/encoder.h>
#include <etna/models/generator.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>

#include "data/temporary_folder.h"
#include "vision_models.h"

// Vision towers, and the prompts that their rows stand in.
namespace etna::models {
namespace {

/// A prompt as text, with the spellings of special tokens, and the number of an image's rows before their token.
std::string spelled(const data::Tokenizer& tokenizer, const PicturePrompt& prompt) {
  const std::size_t first_special = tokenizer.size() - kImageTokens.size();
  const auto spelling = [&](std::int32_t token) {
    const auto id = static_cast<std::size_t>(token);
    return id == 1               ? "<s>"
           : id >= first_special ? kImageTokens[id - first_special]
                                 : std::string(tokenizer.token(token));
  };
  std::string text;
  std::size_t image = 0;
  for (std::size_t i = 0; i < prompt.tokens.size(); ++i) {
    const bool begins = prompt.images && image < prompt.images->places.size() &&
                        prompt.images->places[image] == static_cast<std::int64_t>(i);
    if (begins) {
      const auto rows = static_cast<std::size_t>(prompt.images->images[image++].rows.size(0));
      text += std::to_string(rows) + "x";
      i += rows - 1;
    }
    text += spelling(prompt.tokens[i]);
  }
  return text;
}

TEST(VisionPrompt, GemmasImageStandsBetweenItsMarks) {
  const VisionFixture fixture("gemma3");
  if (!fixture.reads_png()) GTEST_SKIP() << "this build has no libpng";
  const auto vision = load_vision(fixture.folder);
  const data::ModelTokenizer tokenizer = seeing_tokenizer();
  const std::vector<Tensor> two = {fixture.picture("exact"), fixture.picture("wide")};
  const PicturePrompt front = vision->prompt(tokenizer, "the river", {two.data(), 1});
  const std::string image = "\n\n<start_of_image>16x<image_soft_token><end_of_image>\n\n";
  EXPECT_EQ(spelled(tokenizer, front), "<s>" + image + "the river");
  EXPECT_TRUE(front.images->both_ways);
  const PicturePrompt placed = vision->prompt(tokenizer, "a<start_of_image>b<start_of_image>c", two, false);
  ASSERT_EQ(placed.images->places.size(), 2u);
  EXPECT_EQ(spelled(tokenizer, placed), "a" + image + "b" + image + "c");
  EXPECT_EQ(vision->prompt(tokenizer, "the river", {}).images, nullptr);
}

TEST(VisionPrompt, LongPicturesAreCutByPanAndScan) {
  const VisionFixture fixture("gemma3");
  const TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy(fixture.folder / name, folder / name);
  nlohmann::json settings;
  std::ifstream(fixture.folder / "preprocessor_config.json") >> settings;
  const auto write = [&](std::int64_t parts) {
    settings["do_pan_and_scan"] = true;
    settings["pan_and_scan_max_num_crops"] = parts;
    settings["pan_and_scan_min_crop_size"] = 20;
    settings["pan_and_scan_min_ratio_to_activate"] = 1.5;
    std::ofstream(folder / "preprocessor_config.json") << settings.dump();
  };
  write(3);
  const auto vision = load_vision(folder.path()), whole = load_vision(fixture.folder);
  manual_seed(1);
  const Tensor wide = (rand({3, 30, 100}) * 255.0).to(u8);
  const std::vector<ImageRows> rows = vision->rows(wide);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_TRUE(equal(rows[0].rows, whole->rows(wide)[0].rows));
  for (std::int64_t i = 0; i < 3; ++i) {
    const Tensor part = wide.slice(2, 34 * i, std::min<std::int64_t>(34 * (i + 1), 100)).contiguous();
    EXPECT_TRUE(equal(rows[static_cast<std::size_t>(i + 1)].rows, whole->rows(part)[0].rows)) << i;
  }
  const auto parts_of = [&](std::int64_t height, std::int64_t width) {
    return vision->seen(zeros({3, height, width}, u8)).grids.size() - 1;
  };
  EXPECT_EQ(parts_of(100, 30), 3u) << "a tall one";
  EXPECT_EQ(parts_of(50, 100), 2u);
  EXPECT_EQ(parts_of(50, 74), 0u) << "nearly a square";
  EXPECT_EQ(parts_of(19, 100), 0u) << "too small parts";
  EXPECT_EQ(parts_of(20, 30), 0u) << "too small parts";
  EXPECT_EQ(parts_of(20, 1000), 3u);
  const data::ModelTokenizer tokenizer = seeing_tokenizer();
  const std::string image = "\n\n<start_of_image>16x<image_soft_token><end_of_image>\n\n";
  EXPECT_EQ(spelled(tokenizer, vision->prompt(tokenizer, "a<start_of_image>b", {&wide, 1}, false)),
            "aHere is the original image " + image + " and here are some crops to help you see better " + image + " " +
                image + " " + image + "b");
  for (const std::int64_t bad : {1, -2, 33}) {
    write(bad);
    EXPECT_NE(message_of([&] { load_vision(folder.path()); }).find("pictures are cut into"), std::string::npos) << bad;
  }
}

TEST(VisionPrompt, TilesHaveTheirLineAndColumn) {
  const VisionFixture fixture("smolvlm");
  if (!fixture.reads_png()) GTEST_SKIP() << "this build has no libpng";
  const auto vision = load_vision(fixture.folder);
  const data::ModelTokenizer tokenizer = seeing_tokenizer();
  const Tensor tall = fixture.picture("tall");
  const std::string fake = "<fake_token_around_image>", rows = "4x<image>";
  EXPECT_EQ(spelled(tokenizer, vision->prompt(tokenizer, "<image>a", {&tall, 1}, false)),
            fake + "<row_1_col_1>" + rows + "\n" + fake + "<row_2_col_1>" + rows + "\n\n" + fake + "<global-img>" +
                rows + fake + "a");
  const Tensor small = zeros({3, 4, 4}, u8);
  EXPECT_EQ(vision->prompt(tokenizer, "a", {&small, 1}).images->images.size(), 5u) << "2 x 2 tiles, and the whole";
  EXPECT_EQ(vision->row_count(vision->seen(small)), 20);
}

TEST(VisionPrompt, WrongCountsAndTokenizersAreRefused) {
  const VisionFixture fixture("gemma3");
  if (!fixture.reads_png()) GTEST_SKIP() << "this build has no libpng";
  const auto vision = load_vision(fixture.folder);
  const data::ModelTokenizer tokenizer = seeing_tokenizer();
  const Tensor picture = fixture.picture("exact");
  EXPECT_EQ(message_of([&] {
              vision->prompt(tokenizer, "a<start_of_image><start_of_image>", {&picture, 1});
            }),
            "the prompt has places for 2 images ('<start_of_image>'), and there are 1; give as many of both");
  EXPECT_EQ(message_of([&] { vision->prompt(tokenizer, "a<start_of_image>", {}); }),
            "the prompt has places for 1 images ('<start_of_image>'), and there are 0; give as many of both");
  const data::ModelTokenizer blind = some_tokenizer();
  EXPECT_EQ(message_of([&] {
              vision->prompt(blind, "a", {&picture, 1});
            }),
            "the tokenizer has no token '<start_of_image>', which stands for an image here");
  for (const Tensor& bad : {zeros({1, 8, 8}, u8), zeros({3, 0, 8}, u8), zeros({8, 8}, u8), Tensor()})
    EXPECT_THROW(vision->rows(bad), ShapeError);
  EXPECT_THROW(vision->rows(zeros({3, 8, 8})), DtypeError);
  EXPECT_EQ(message_of([&] {
              load_vision(VisionFixture("qwen3_vl").folder)->rows(zeros({3, 1, 201}, u8));
            }),
            "an image of 201 x 1 pixels is too narrow; one side may be 200 times the other");
}

TEST(VisionPrompt, ImagesOfNoPlaceAreRefused) {
  const VisionFixture fixture("gemma3");
  const Model model = load_model(fixture.folder);
  Generator generator(*model.decoder, {.cache = {.tokens = 256}});
  const std::vector<std::int32_t> tokens(20, 5);
  const auto error = [&](PromptImages images, bool endless = false) {
    const GenerationOptions options{
        .max_tokens = 1, .endless = endless, .images = std::make_shared<const PromptImages>(std::move(images))};
    return message_of([&] { generator.join(tokens, options); });
  };
  const ImageRows image{zeros({8, 32})};
  EXPECT_EQ(error({{image}, {0}}), "");
  EXPECT_EQ(error({{image}, {13}}),
            "Generator: image 0 has 8 rows from token 13 on; the prompt has 20 tokens, of which 0 come before it");
  EXPECT_EQ(error({{image, image}, {0, 7}}),
            "Generator: image 1 has 8 rows from token 7 on; the prompt has 20 tokens, of which 8 come before it");
  EXPECT_EQ(error({{image}, {}}), "Generator: 1 images have 0 places in the prompt; wanted one each");
  EXPECT_EQ(error({{ImageRows{zeros({8, 31})}}, {0}}), "Generator: image 0 has rows [8, 31]; the model wants [N, 32]");
  EXPECT_EQ(error({{ImageRows{Tensor()}}, {0}}), "Generator: image 0 has rows undefined; the model wants [N, 32]");
  EXPECT_EQ(error({{ImageRows{zeros({8, 32}), {}, 3}}, {0}}),
            "Generator: image 0 has 8 rows, which are no grid of 3 columns");
  EXPECT_EQ(error({{image}, {0}}, true),
            "Generator: a text with images cannot go on without its middle; set endless to false");
}

TEST(VisionPrompt, NothingOfOneWithImagesIsReused) {
  const VisionFixture fixture("gemma3");
  const Model model = load_model(fixture.folder);
  Generator generator(*model.decoder, {.cache = {.tokens = 512}});
  const std::vector<std::int32_t> tokens(150, 5);
  const auto text = [&](const Tensor& rows) {
    GenerationOptions options{.max_tokens = 4, .sampling = {.temperature = 0}};
    if (rows.defined()) options.images = std::make_shared<const PromptImages>(PromptImages{{{rows}}, {2}});
    const Generator::Id id = generator.join(tokens, options);
    std::vector<std::int32_t> all;
    while (generator.busy())
      for (const GeneratedToken& token : generator.step()) all.push_back(token.token);
    return std::make_pair(all, generator.reused(id));
  };
  const Tensor first = ones({8, 32}) * 3.0;
  const auto [seen, none] = text(first);
  EXPECT_EQ(none, 0);
  EXPECT_EQ(text(first).second, 0);
  EXPECT_EQ(text(Tensor()).second, 0);
  EXPECT_EQ(text(Tensor()).second, 128) << "a text alone is reused as ever";
  EXPECT_EQ(text(first), std::make_pair(seen, std::int64_t{0}));
}

TEST(VisionPrompt, PrefixesOfTheSameImageAreShared) {
  const VisionFixture fixture("gemma3");
  const Model model = load_model(fixture.folder);
  Generator generator(*model.decoder, {.cache = {.tokens = 1024, .dtype = f32}});
  const std::vector<std::int32_t> tokens(210, 5);
  // The image begins in the first block and ends in the second one.
  const auto text = [&](Generator& generates, std::int64_t content, double value) {
    GenerationOptions options{.max_tokens = 4, .sampling = {.temperature = 0}};
    const ImageRows image{.rows = ones({20, 32}) * value, .content = content};
    if (content >= 0) options.images = std::make_shared<const PromptImages>(PromptImages{{image}, {50}, true});
    const Generator::Id id = generates.join(tokens, options);
    std::vector<std::int32_t> all;
    while (generates.busy())
      for (const GeneratedToken& token : generates.step()) all.push_back(token.token);
    return std::make_pair(all, generates.reused(id));
  };
  const std::int64_t far = std::int64_t{1} << 32;
  const auto [first, none] = text(generator, 7, 3);
  EXPECT_EQ(none, 0);
  EXPECT_EQ(text(generator, 7, 3), std::make_pair(first, std::int64_t{192}));
  for (const std::int64_t other : {std::int64_t{8}, far + 7, std::int64_t{0}, std::int64_t{-1}})
    EXPECT_EQ(text(generator, other, -2).second, 0) << other;
  EXPECT_EQ(text(generator, 7, 3).first, first);
  EXPECT_EQ(text(generator, -1, 0).second, 192);
  // A prompt that ends soon behind the image has no whole block behind it: what is found ends before the image.
  const auto ends_soon = [&](Generator& generates) {
    const GenerationOptions options{
        .max_tokens = 1,
        .logprobs = 3,
        .images = std::make_shared<const PromptImages>(PromptImages{{{.rows = ones({20, 32}), .content = 9}}, {180}})};
    const Generator::Id id = generates.join(std::span(tokens).first(203), options);
    std::vector<std::pair<std::int32_t, float>> top;
    while (generates.busy())
      for (const GeneratedToken& token : generates.step()) top = token.top;
    return std::make_pair(top, generates.reused(id));
  };
  const auto [top, before] = ends_soon(generator);
  EXPECT_EQ(top.size(), 3u);
  EXPECT_EQ(before, 128);
  EXPECT_EQ(ends_soon(generator), std::make_pair(top, std::int64_t{128}));
  Generator alone(*model.decoder, {.cache = {.tokens = 1024, .dtype = f32}});
  EXPECT_EQ(ends_soon(alone), std::make_pair(top, std::int64_t{0})) << "to the last bit";
  // Numbers of images are those of one program.
  const TemporaryFolder folder;
  generator.save_cache(folder / "prefixes");
  Generator fresh(*model.decoder, {.cache = {.tokens = 1024, .dtype = f32}});
  EXPECT_EQ(fresh.load_cache(folder / "prefixes"), 3);
  EXPECT_EQ(text(fresh, 7, 3), std::make_pair(first, std::int64_t{0}));
  EXPECT_EQ(text(fresh, -1, 0).second, 192);
}

TEST(VisionFile, ModelsThatSeeNothingSaySo) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "text");
  std::ofstream(folder / "text" / "config.json") << R"({"model_type": "llama"})";
  EXPECT_FALSE(has_vision(folder / "text"));
  EXPECT_NE(message_of([&] { load_vision(folder / "text"); }).find("whose vision does not run here"),
            std::string::npos);
  EXPECT_TRUE(has_vision(VisionFixture("gemma3").folder));
  EXPECT_FALSE(has_vision(folder / "missing"));
  EXPECT_NE(message_of([&] { load_vision(folder / "missing"); }).find("there is no such file"), std::string::npos);
  std::ofstream(folder / "some.bin") << "no model";
  EXPECT_NE(message_of([&] { load_vision(folder / "some.bin"); }).find("neither a folder"), std::string::npos);
}

TEST(VisionFile, ForecastsCountTheTowerApart) {
  for (const char* name : {"gemma3", "qwen3_vl"}) {
    const FilePath folder = VisionFixture(name).folder;
    std::uint64_t all = 0;
    for (const auto& [tensor, values] : load_safetensors(folder / "model.safetensors"))
      all += static_cast<std::uint64_t>(values.numel()) * item_size(values.dtype());
    const std::uint64_t tower = all - model_sizes(folder).total();
    EXPECT_GT(tower, all / 4) << name;
    const std::uint64_t least = vision_bytes(folder, 1), more = vision_bytes(folder, 20);
    EXPECT_GT(least, tower) << name;
    if (std::string(name) == "qwen3_vl")
      EXPECT_GT(more, least) << "pictures are as large as the context has room for";
    else
      EXPECT_EQ(more, least);
    EXPECT_EQ(vision_bytes(folder, 1 << 30), vision_bytes(folder, 1 << 20)) << "pictures end somewhere";
  }
  EXPECT_THROW(vision_bytes(TemporaryFolder() / "missing", 1), FormatError);
}

TEST(VisionFile, SizesThatMakeNoTowerAreRefused) {
  const auto error = [](const std::string& vision, const std::string& more = "", const std::string& preprocessor = "") {
    return message_of([&] {
      vision_config(R"({"model_type": "gemma3", "text_config": {"hidden_size": 32}, "vision_config": {)" + vision +
                        "}" + more + "}",
                    preprocessor, "config.json");
    });
  };
  const std::string fine = R"("hidden_size": 16, "num_attention_heads": 2, "image_size": 56, "patch_size": 14)";
  EXPECT_EQ(error(fine, R"(, "mm_tokens_per_image": 4)"), "");
  for (const char* bad :
       {R"("hidden_size": 0)", R"("hidden_size": -1)", R"("num_attention_heads": 7)", R"("patch_size": 0)",
        R"("patch_size": 15)", R"("image_size": 1e9)", R"("num_channels": 4)", R"("num_hidden_layers": 99999999)",
        R"("hidden_act": "no such")", R"("layer_norm_eps": "x")", R"("image_size": 9223372036854775807)"}) {
    EXPECT_TRUE(error(fine + ", " + bad).starts_with("config.json")) << bad << ": " << error(fine + ", " + bad);
  }
  for (const char* bad : {R"(, "mm_tokens_per_image": 5)", R"(, "mm_tokens_per_image": -4)"})
    EXPECT_TRUE(error(fine, bad).starts_with("config.json")) << bad;
  for (const char* bad : {R"({"image_mean": [1]})", R"({"image_std": [0, 1, 1]})", R"({"image_std": "x"})",
                          R"({"resample": 5})", "nothing", "[]"})
    EXPECT_TRUE(error(fine, R"(, "mm_tokens_per_image": 4)", bad).starts_with("config.json")) << bad;
}

/// What is in a GGUF file.
struct Mmproj {
  NamedTensors tensors;
  GgufOptions options;
  void set(const std::string& key, const io::GgufValue& value) {
    std::erase_if(options.metadata, [&](const auto& entry) { return entry.first == key; });
    options.metadata.emplace_back(key, value);
  }
};

/// A folder's tower as llama.cpp's converter writes it.
Mmproj mmproj_of(const VisionFixture& fixture) {
  const VisionConfig config = load_vision(fixture.folder)->tower.config;
  const std::map<std::string, Tensor> all = load_safetensors(fixture.folder / "model.safetensors");
  Mmproj file;
  const auto put = [&](const std::string& name, const Tensor& values) {
    file.tensors.emplace_back(name, values.to(f32).contiguous());
  };
  const bool qwen = config.family == "qwen3_vl";
  for (const auto& [theirs, values] : all) {
    std::string name = theirs;
    const auto take = [&name](const std::string& prefix) {
      if (!name.starts_with(prefix)) return false;
      name = name.substr(prefix.size());
      return true;
    };
    const auto kind = name.substr(name.rfind('.'));
    if (take("vision_tower.vision_model.") || take("vision_tower.") || take("model.vision_model.") ||
        take("model.visual.")) {
      if (name == "patch_embed.proj.weight") {
        put("v.patch_embd.weight", values.select(2, 0));
        put("v.patch_embd.weight.1", values.select(2, 1));
      } else if (take("embeddings.patch_embedding") || take("patch_embed.proj")) {
        put("v.patch_embd" + kind, values);
      } else if (take("embeddings.position_embedding") || take("pos_embed")) {
        put("v.position_embd" + kind, values);
      } else if (take("post_layernorm") || take("merger.norm")) {
        put("v.post_ln" + kind, values);
      } else if (take("merger.linear_fc1")) {
        put("mm.0" + kind, values);
      } else if (take("merger.linear_fc2")) {
        put("mm.2" + kind, values);
      } else if (take("deepstack_merger_list.")) {
        const std::size_t number = std::stoul(name);
        const std::string part = name.find("fc1") != std::string::npos   ? "fc1"
                                 : name.find("fc2") != std::string::npos ? "fc2"
                                                                         : "norm";
        put("v.deepstack." + std::to_string(config.deep_layers[number]) + "." + part + kind, values);
      } else {
        take("encoder.layers.");
        take("blocks.");
        static const std::pair<const char*, const char*> kParts[] = {{"layer_norm1", "ln1"},
                                                                     {"layer_norm2", "ln2"},
                                                                     {"norm1", "ln1"},
                                                                     {"norm2", "ln2"},
                                                                     {"self_attn.q_proj", "attn_q"},
                                                                     {"self_attn.k_proj", "attn_k"},
                                                                     {"self_attn.v_proj", "attn_v"},
                                                                     {"self_attn.out_proj", "attn_out"},
                                                                     {"attn.qkv", "attn_qkv"},
                                                                     {"attn.proj", "attn_out"},
                                                                     {"mlp.fc1", "ffn_up"},
                                                                     {"mlp.fc2", "ffn_down"},
                                                                     {"mlp.linear_fc1", "ffn_up"},
                                                                     {"mlp.linear_fc2", "ffn_down"}};
        const std::size_t dot = name.find('.');
        const std::string block = name.substr(0, dot), part = name.substr(dot + 1, name.rfind('.') - dot - 1);
        for (const auto& [from, to] : kParts)
          if (part == from) put("v.blk." + block + "." + to + kind, values);
      }
    } else if (name == "multi_modal_projector.mm_input_projection_weight") {
      put("mm.input_projection.weight", values);
    } else if (name == "multi_modal_projector.mm_soft_emb_norm.weight") {
      put("mm.soft_emb_norm.weight", values.to(f32) + 1.0);
    } else if (name == "model.connector.modality_projection.proj.weight") {
      put("mm.model.fc.weight", values);
    }
  }
  const auto set = [&](const char* key, std::int64_t value) { file.set(key, static_cast<std::uint32_t>(value)); };
  file.options.metadata = {{"general.architecture", "clip"},
                           {"clip.projector_type", qwen                         ? "qwen3vl_merger"
                                                   : config.family == "smolvlm" ? "idefics3"
                                                                                : "gemma3"},
                           {"clip.has_vision_encoder", true},
                           {"clip.use_gelu", true},
                           {"clip.vision.image_mean", std::vector<float>{0.5f, 0.5f, 0.5f}},
                           {"clip.vision.image_std", std::vector<float>{0.5f, 0.5f, 0.5f}},
                           {"clip.vision.attention.layer_norm_epsilon", 1e-6f}};
  set("clip.vision.embedding_length", config.blocks.width);
  set("clip.vision.block_count", config.blocks.layers);
  set("clip.vision.attention.head_count", config.blocks.heads);
  set("clip.vision.feed_forward_length", config.blocks.feed_forward);
  set("clip.vision.image_size", qwen ? 768 : config.image_size);
  set("clip.vision.patch_size", config.patch_size);
  set("clip.vision.projection_dim", config.decoder_width);
  set(qwen ? "clip.vision.spatial_merge_size" : "clip.vision.projector.scale_factor", config.merge);
  if (config.fit == PictureFit::tiles) set("clip.vision.preproc_image_size", config.longest_edge);
  return file;
}

void write_mmproj(const VisionFixture& fixture, const FilePath& path) {
  const Mmproj file = mmproj_of(fixture);
  save_gguf(path, file.tensors, file.options);
}

TEST(VisionFile, DamagedMmprojFilesAreRefused) {
  const TemporaryFolder folder;
  const FilePath path = folder / "mmproj.gguf";
  const Mmproj whole = mmproj_of(VisionFixture("gemma3"));
  const auto error = [&](const std::function<void(Mmproj&)>& damage) {
    Mmproj file = whole;
    damage(file);
    save_gguf(path, file.tensors, file.options);
    return message_of([&] { load_vision(path); });
  };
  const auto number = [&](const std::string& key, std::uint32_t value) {
    return error([&](Mmproj& file) { file.set("clip.vision." + key, value); });
  };
  EXPECT_EQ(error([](Mmproj&) {}), "");
  std::vector<std::string> errors = {
      number("patch_size", 0),
      number("patch_size", 5),
      number("embedding_length", 17),
      number("embedding_length", 4000000000),
      number("block_count", 3),
      number("block_count", 4000000000),
      number("image_size", 0),
      number("image_size", 63),
      number("projection_dim", 31),
      number("attention.head_count", 0),
      number("attention.head_count", 3),
      number("feed_forward_length", 7),
      number("projector.scale_factor", 0),
      number("projector.scale_factor", 3),
      error([](Mmproj& file) { file.set("clip.projector_type", "resampler"); }),
      error([](Mmproj& file) { file.set("general.architecture", "llama"); }),
      error([](Mmproj& file) { file.set("clip.vision.image_mean", std::vector<float>{0.5f}); }),
      error([](Mmproj& file) { file.set("clip.vision.patch_size", "7"); }),
      error([](Mmproj& file) { file.tensors.pop_back(); }),
      error([](Mmproj& file) {
        file.tensors[0].second = zeros({2, 3, 5, 7});
      }),
      error([](Mmproj& file) { file.tensors.clear(); })};
  for (std::size_t i = 0; i < errors.size(); ++i)
    EXPECT_TRUE(errors[i].starts_with(path.string())) << i << ": " << errors[i];
}

class VisionMmproj : public testing::TestWithParam<const char*> {};

TEST_P(VisionMmproj, GivesTheRowsOfTheFolder) {
  const TemporaryFolder folder;
  const VisionFixture fixture(GetParam());
  write_mmproj(fixture, folder / "mmproj.gguf");
  EXPECT_TRUE(has_vision(folder / "mmproj.gguf"));
  const auto there = load_vision(folder / "mmproj.gguf"), own = load_vision(fixture.folder, {.trainable = true});
  const VisionConfig& config = own->tower.config;
  EXPECT_EQ(there->tower.config.longest_edge, config.longest_edge);
  const std::int64_t lines = config.fit == PictureFit::area ? 4 : config.patches_per_side();
  const std::int64_t columns = config.fit == PictureFit::area ? 6 : lines;
  const NoGrad no_grad;
  const Tensor patches = rand({2, lines * columns, 3 * config.patch_size * config.patch_size});
  const VisionTower::Output wanted = own->tower.forward(patches, lines), got = there->tower.forward(patches, lines);
  EXPECT_LT(abs(got.rows - wanted.rows).max().item<double>(), 1e-5);
  ASSERT_EQ(got.deep.size(), wanted.deep.size());
  for (std::size_t i = 0; i < got.deep.size(); ++i)
    EXPECT_LT(abs(got.deep[i] - wanted.deep[i]).max().item<double>(), 1e-5);
  EXPECT_THROW(own->tower.forward(patches, lines + 1), ShapeError);
  EXPECT_THROW(own->tower.forward(patches, 0), ShapeError);
  EXPECT_NE(message_of([&] { load_model(folder / "mmproj.gguf"); }).find("clip"), std::string::npos);
}

TEST_P(VisionMmproj, ModelInGgufReadsTheRows) {
  const TemporaryFolder folder;
  const VisionFixture fixture(GetParam());
  write_mmproj(fixture, folder / "mmproj.gguf");
  const Model own = load_model(fixture.folder, {.trainable = true});
  save_gguf_model(folder / "model.gguf", *own.decoder, nullptr);
  const Model there = load_model(folder / "model.gguf", {.trainable = true});
  EXPECT_EQ(there.decoder->config.rope.pairs_by_place, own.decoder->config.rope.pairs_by_place);
  PromptImages images;
  images.images = load_vision(folder / "mmproj.gguf")->rows(full({3, 64, 64}, 99, u8));
  images.images.resize(1);
  images.places = {3};
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(images.images[0].rows.size(0)) + 9, 5);
  Generator first(*own.decoder, {.cache = {.tokens = 4096}}), second(*there.decoder, {.cache = {.tokens = 4096}});
  if (std::ssize(tokens) > own.decoder->config.context) return;
  const Tensor wanted = first.logits(tokens, -1, &images), got = second.logits(tokens, -1, &images);
  EXPECT_LT(abs(got - wanted).max().item<double>(), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Models, VisionMmproj, testing::Values("gemma3", "smolvlm", "qwen3_vl"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace etna::models
