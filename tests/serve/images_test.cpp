#include <filesystem>
#include <fstream>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/data/tokenizers/chat_template.h>
#include <etna/data/tokenizers/internal/chat/jinja_template.h>
#include <etna/data/tokenizers/stream_decoder.h>
#include <etna/models/encoder.h>
#include <etna/models/model_file.h>
#include <etna/serve/api_error.h>
#include <etna/serve/internal/images.h>
#include <etna/train/internal/markup.h>

#include "data/temporary_folder.h"
#include "models/vision_models.h"
#include "serve/serve_program.h"
#include "serve/small_server.h"

// Images in the messages of chats.
namespace etna::serve {
namespace {

using models::VisionFixture;
using testing::AllOf;
using testing::HasSubstr;

std::string data_url(const std::string& file) { return "data:image/png;base64," + training::base64(file); }
Json text_part(const std::string& text) { return {{"type", "text"}, {"text", text}}; }
Json image_part(const std::string& url) { return {{"type", "image_url"}, {"image_url", {{"url", url}}}}; }

/// Greedy, and not ended by a token.
Json chat_of(Json content) {
  return {{"model", "seeing"},
          {"messages", {{{"role", "user"}, {"content", std::move(content)}}}},
          {"max_tokens", 12},
          {"temperature", 0},
          {"ignore_eos", true}};
}

/// A random decoder of a fixture's design with a vocabulary of bytes, and the fixture's tower.
struct SeeingServer {
  explicit SeeingServer(const std::string& name, const ImageLimits& limits = {}, std::int64_t slots = 2,
                        std::int64_t context = kContext, const std::string& chat_template = {}, Device device = kCPU)
      : fixture(name),
        tokenizer(models::seeing_tokenizer(chat_template)),
        decoder(make_decoder(device)),
        vision(models::load_vision(fixture.folder, {.device = device, .trainable = true})),
        store(*vision, limits),
        generator(*decoder, {.device = device, .slots = slots, .cache = {.tokens = slots * kContext, .dtype = f32}}),
        engine({{.name = "seeing",
                 .decoder = decoder.get(),
                 .generator = &generator,
                 .tokenizer = &tokenizer,
                 .device = device,
                 .slots = slots,
                 .context = context,
                 .images = &store}}),
        service(engine, {.chat_format = chat_template.empty() ? "chatml" : "jinja"}),
        server(service, {.port = 0, .log = false}),
        port(server.start()) {}
  ~SeeingServer() { server.stop(); }

  std::unique_ptr<models::Decoder> make_decoder(Device device) const {
    models::DecoderConfig config = models::load_model(fixture.folder).decoder->config;
    config.vocabulary = static_cast<std::int64_t>(tokenizer.size());
    config.context = kContext;
    config.tied = false;  // else it repeats the last token
    auto model = models::small_model(config);
    model->to(device);
    model->eval();
    return model;
  }
  std::string file(const std::string& name) const {
    std::ifstream in(fixture.folder / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Json image(const std::string& name) const { return image_part(data_url(file(name))); }
  std::pair<int, Json> ask(const std::string& path, const Json& body) const {
    httplib::Client client("127.0.0.1", port);
    client.set_read_timeout(60);
    return SmallServer::read(client.Post(path, body.dump(), "application/json"));
  }
  Json answer(const Json& content) const {
    const auto [status, reply] = ask("/v1/chat/completions", chat_of(content));
    EXPECT_EQ(status, 200) << reply;
    return reply;
  }
  std::string text(const Json& content) const { return text_of(answer(content)); }
  static std::string text_of(const Json& reply) { return reply["choices"][0]["message"]["content"]; }
  static std::int64_t cached(const Json& reply) { return reply["usage"]["prompt_tokens_details"]["cached_tokens"]; }
  std::string refusal(const Json& content, int wanted = 400) const {
    const auto [status, reply] = ask("/v1/chat/completions", chat_of(content));
    EXPECT_EQ(status, wanted) << reply;
    return status == 200 ? "nothing" : reply["error"]["message"].get<std::string>();
  }

  static constexpr std::int64_t kContext = 1024;
  const VisionFixture fixture;
  const data::ModelTokenizer tokenizer;
  const std::unique_ptr<models::Decoder> decoder;
  const std::unique_ptr<models::VisionModel> vision;
  ImageStore store;
  models::Generator generator;
  Engine engine;
  Service service;
  HttpServer server;
  const int port;
};

class ServedImages : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!VisionFixture(GetParam()).reads_png()) GTEST_SKIP() << "this build has no libpng";
  }
};

TEST_P(ServedImages, AreAnsweredAsTheGeneratorDoes) {
  const SeeingServer server(GetParam());
  const Json reply =
      server.answer({text_part("a "), server.image("exact.png"), text_part("b"), server.image("wide.png")});
  const std::string mark(server.vision->marker());
  const std::vector<data::ChatMessage> messages{{"user", "a " + mark + "b" + mark}};
  const std::vector<Tensor> pictures{server.fixture.picture("exact"), server.fixture.picture("wide")};
  const models::PicturePrompt prompt =
      server.vision->prompt(server.tokenizer, data::format_chat("chatml", messages), pictures);
  EXPECT_EQ(reply["usage"]["prompt_tokens"], prompt.tokens.size()) << "rows of images count";
  models::Generator own(*server.decoder, {.cache = {.tokens = SeeingServer::kContext, .dtype = f32}});
  std::vector<std::int32_t> tokens;
  own.generate(prompt.tokens, {.max_tokens = 12, .sampling = {.temperature = 0}, .images = prompt.images},
               [&](std::int32_t token) {
                 tokens.push_back(token);
                 return true;
               });
  EXPECT_EQ(server.text_of(reply), data::replace_invalid_utf8(server.tokenizer.decode(tokens)));
  EXPECT_NE(server.text({text_part("a "), server.image("wide.png"), text_part("b"), server.image("exact.png")}),
            server.text_of(reply));
}

TEST_P(ServedImages, AreFoundAgainInTheCacheAndOthersAreNot) {
  const SeeingServer server(GetParam());
  const std::string before(70, 'a'), behind(70, 'b');
  const Json seen = {text_part(before), server.image("wide.png"), text_part(behind)};
  const Json other = {text_part(before), server.image("exact.png"), text_part(behind)};
  const Json first = server.answer(seen);
  EXPECT_EQ(server.cached(first), 0);
  const std::int64_t tokens = first["usage"]["prompt_tokens"];
  const Json again = server.answer(seen);
  EXPECT_EQ(server.cached(again), (tokens - 1) / kCacheBlock * kCacheBlock) << "with the image";
  EXPECT_EQ(server.text_of(again), server.text_of(first));
  const Json another = server.answer(other);
  EXPECT_LE(server.cached(another), 2 * kCacheBlock) << "the text before it";
  const SeeingServer fresh(GetParam());
  EXPECT_EQ(server.text_of(another), fresh.text(other));
  EXPECT_EQ(server.text(seen), server.text_of(first));
  const Json inside = {text_part(before), server.image("wide.png"), text_part("c" + behind)};
  EXPECT_EQ(server.text(inside), fresh.text(inside));
}

TEST_P(ServedImages, OfSeveralSlotsAreAnsweredAsOneByOne) {
  const SeeingServer server(GetParam(), {}, 3);
  const std::vector<Json> contents = {{server.image("exact.png"), text_part("a")},
                                      {server.image("wide.png"), text_part("a")},
                                      "no image",
                                      {text_part("b"), server.image("wide.png"), server.image("exact.png")},
                                      {server.image("exact.png"), text_part("a")},
                                      "none, either"};
  std::vector<std::future<std::string>> together;
  for (const Json& content : contents)
    together.push_back(std::async(std::launch::async, [&] { return server.text(content); }));
  const SeeingServer alone(GetParam(), {}, 1);
  for (std::size_t i = 0; i < contents.size(); ++i) EXPECT_EQ(together[i].get(), alone.text(contents[i])) << i;
  Json several = chat_of(contents[1]);
  several["n"] = 3;
  const auto [status, reply] = server.ask("/v1/chat/completions", several);
  ASSERT_EQ(status, 200) << reply;
  for (const Json& choice : reply["choices"]) EXPECT_EQ(choice["message"]["content"], alone.text(contents[1]));
}

INSTANTIATE_TEST_SUITE_P(Models, ServedImages, testing::Values("gemma3", "smolvlm", "qwen3_vl"),
                         [](const auto& info) { return std::string(info.param); });

class ImageRequests : public testing::Test {
 protected:
  void SetUp() override {
    if (!VisionFixture("gemma3").reads_png()) GTEST_SKIP() << "this build has no libpng";
  }
};

TEST_F(ImageRequests, HaveTheFormsOfEachApi) {
  const SeeingServer server("gemma3");
  const std::string file = server.file("wide.png"), question = "What is this?";
  const std::string wanted = server.text({server.image("wide.png"), text_part(question)});
  const auto responses =
      server.ask("/v1/responses", {{"model", "seeing"},
                                   {"input",
                                    {{{"role", "user"},
                                      {"content",
                                       {{{"type", "input_image"}, {"image_url", data_url(file)}, {"detail", "auto"}},
                                        {{"type", "input_text"}, {"text", question}}}}}}},
                                   {"temperature", 0},
                                   {"max_output_tokens", 12}});
  ASSERT_EQ(responses.first, 200) << responses.second;
  EXPECT_EQ(responses.second["output"][0]["content"][0]["text"], wanted);
  Json message = {
      {"model", "seeing"},
      {"messages",
       {{{"role", "user"},
         {"content",
          {{{"type", "image"},
            {"source", {{"type", "base64"}, {"media_type", "image/png"}, {"data", training::base64(file)}}}},
           text_part(question)}}}}}};
  const auto count = server.ask("/v1/messages/count_tokens", message);
  message["temperature"] = 0;
  message["max_tokens"] = 12;
  const auto anthropic = server.ask("/v1/messages", message);
  ASSERT_EQ(anthropic.first, 200) << anthropic.second;
  EXPECT_EQ(anthropic.second["content"][0]["text"], wanted);
  const Json& usage = anthropic.second["usage"];
  EXPECT_EQ(count.second["input_tokens"],
            usage["input_tokens"].get<int>() + usage["cache_read_input_tokens"].get<int>());
  const auto prompt = server.ask(
      "/apply-template", {{"messages", {{{"role", "user"}, {"content", {text_part("a"), server.image("wide.png")}}}}}});
  EXPECT_THAT(prompt.second["prompt"].get<std::string>(), HasSubstr("a<start_of_image>")) << prompt.second;
  EXPECT_EQ(server.ask("/v1/models/seeing", {}).first, 405);
  Json stream = chat_of({server.image("wide.png"), text_part(question)});
  stream["stream"] = true;
  httplib::Client client("127.0.0.1", server.port);
  const auto streamed = client.Post("/v1/chat/completions", stream.dump(), "application/json");
  ASSERT_EQ(streamed->status, 200) << streamed->body;
  EXPECT_THAT(streamed->body, AllOf(HasSubstr("chat.completion.chunk"), HasSubstr("[DONE]")));
}

TEST_F(ImageRequests, WordsOfUsersAreNoImages) {
  const SeeingServer server("gemma3");
  const std::string wide = server.text({text_part("a<start_of_image>b"), server.image("wide.png")});
  EXPECT_NE(wide, server.text({text_part("a<start_of_image>b"), server.image("exact.png")}));
  EXPECT_EQ(server.ask("/v1/chat/completions", chat_of("a<start_of_image><image_soft_token>")).first, 200);
  EXPECT_EQ(server.text(Json::array({text_part("image-000000000000000000000000-0;")})),
            server.text("image-000000000000000000000000-0;"));
}

TEST_F(ImageRequests, OfAGpuAreAnsweredAsOnTheCpu) {
  std::optional<Device> gpu;
  for (const AdapterInfo& adapter : adapters())
    if (adapter.device.is_vulkan() && adapter.rejected.empty()) gpu = adapter.device;
  if (!gpu) GTEST_SKIP() << "no usable Vulkan device";
  const SeeingServer server("qwen3_vl", {}, 1, 256, {}, *gpu), wanted("qwen3_vl");
  const Json content = {text_part("a"), server.image("exact.png")};
  EXPECT_EQ(server.text(content), wanted.text(content));
}

TEST_F(ImageRequests, GoThroughTheModelsOwnTemplate) {
  if (!data::runs_jinja()) GTEST_SKIP() << "this build has no minja";
  const auto prompt = [](const std::string& content, int wanted = 200) {
    const SeeingServer server("gemma3", {}, 1, SeeingServer::kContext,
                              "{% for m in messages %}<s>{{ m.role }}: {{ " + content + " }}{% endfor %}");
    const Json messages = {{{"role", "user"}, {"content", {server.image("wide.png"), text_part(" <s>a ")}}}};
    const auto [status, reply] = server.ask("/apply-template", {{"messages", messages}});
    EXPECT_EQ(status, 200) << reply;
    const auto chat =
        server.ask("/v1/chat/completions", {{"model", "seeing"}, {"messages", messages}, {"max_tokens", 1}});
    EXPECT_EQ(chat.first, wanted) << chat.second;
    return wanted == 200 ? reply["prompt"].get<std::string>() : chat.second["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(prompt("m.content | trim"), "<s>user: <start_of_image> <s>a");
  EXPECT_EQ(prompt("m.content + m.content"), "<s>user: <start_of_image> <s>a <start_of_image> <s>a ");
  EXPECT_EQ(prompt("'b'", 400), "this model's chat template leaves out images of the messages");
}

TEST_F(ImageRequests, AreRefusedInASentence) {
  const SeeingServer server("gemma3", {.images = 2, .pixels = 20'000});
  const auto refusal = [&](const std::string& url) { return server.refusal({text_part("a"), image_part(url)}); };
  const std::string path = "messages[0].content[1].image_url.url";
  EXPECT_EQ(refusal("https://example.org/cat.png"),
            path +
                " is 'https://example.org/cat.png'; this server fetches no images: send the image itself, as "
                "data:image/png;base64,...");
  EXPECT_THAT(refusal("file:///etc/passwd"), HasSubstr("fetches no images"));
  EXPECT_THAT(refusal(""), HasSubstr("fetches no images"));
  EXPECT_THAT(refusal("data:"), HasSubstr("no image in Base64"));
  EXPECT_THAT(refusal("data:image/png,abc"), HasSubstr("no image in Base64"));
  for (const char* bad : {"", "====", "a", "ab c", "abc*", "a\nbc", "ab=c", "\xc3\xa4"})
    EXPECT_THAT(refusal(std::string("data:image/png;base64,") + bad), HasSubstr("has no image in Base64")) << bad;
  EXPECT_THAT(refusal("data:image/webp;base64,AAAA"), HasSubstr("'image/webp'; this server reads image/png and"));
  EXPECT_EQ(refusal("data:image/png;base64,AAAA"), path + " is neither a PNG nor a JPEG file, by its first bytes");
  const std::string file = server.file("exact.png");
  EXPECT_THAT(refusal(data_url(file.substr(0, file.size() / 2))), HasSubstr(path + " is a damaged PNG file"));
  const Json image = server.image("exact.png");
  EXPECT_EQ(server.refusal({image, image, image}),
            "the messages have 3 images; this server reads at most 2 of a request");
  EXPECT_EQ(server.refusal(Json::array({{{"type", "image_url"}, {"image_url", {{"url", 5}}}}})),
            "messages[0].content[0].image_url.url is 5 (integer); wanted a string");
  EXPECT_THAT(server.refusal(Json::array({{{"type", "image_url"}}})),
              HasSubstr("'messages[0].content[0].image_url' is missing"));
  EXPECT_THAT(server.refusal(Json::array({{{"type", "video_url"}}})),
              HasSubstr("reads parts of type 'text' and 'image_url'"));
  Json spoken = chat_of("a");
  spoken["messages"].push_back({{"role", "assistant"}, {"content", {image}}});
  const auto [status, reply] = server.ask("/v1/chat/completions", spoken);
  EXPECT_EQ(status, 400);
  EXPECT_THAT(reply["error"]["message"].get<std::string>(), HasSubstr("'text' only here"));
  EXPECT_EQ(
      server
          .ask("/v1/messages",
               {{"model", "seeing"},
                {"max_tokens", 2},
                {"messages",
                 {{{"role", "user"},
                   {"content", {{{"type", "image"}, {"source", {{"type", "url"}, {"url", "http://localhost/a"}}}}}}}}}})
          .second["error"]["message"],
      "messages[0].content[0].source.type is 'url'; this server fetches and stores no images: send the image "
      "itself, as 'base64'");
  // Pixels are counted before they are decoded.
  const TemporaryFolder folder;
  data::write_png(folder / "large.png", zeros({3, 200, 101}, u8));
  std::ifstream large(folder / "large.png", std::ios::binary);
  EXPECT_EQ(refusal(data_url({std::istreambuf_iterator<char>(large), {}})),
            path + " has 101 x 200 pixels; at most 20000 are read");
}

TEST_F(ImageRequests, ModelsThatSeeNothingRefuseThem) {
  const SmallServer server;
  Json body = chat_of({text_part("a"), image_part("data:image/png;base64,AAAA")});
  body["model"] = "small";
  for (const char* path : {"/v1/chat/completions", "/apply-template"}) {
    if (std::string(path) == "/apply-template") body = {{"messages", body["messages"]}};
    const auto [status, reply] = server.ask(path, body);
    EXPECT_EQ(status, 400) << path;
    EXPECT_EQ(reply["error"]["message"], "the model 'small' sees no images here; send text") << path;
  }
  EXPECT_EQ(server.get("/v1/models/small").second["input_modalities"], Json::array({"text"}));
}

TEST_F(ImageRequests, LargerThanTheContextAreRefusedBeforeTheTowerRuns) {
  SeeingServer server("gemma3", {}, 1, 40);
  const Json wide = server.image("wide.png"), exact = server.image("exact.png");
  EXPECT_EQ(server.refusal({wide, exact, wide}),
            "the images take 48 tokens; 'seeing' has a context of 40 tokens here; send fewer or smaller ones");
  EXPECT_THAT(server.refusal({wide, exact}), HasSubstr("tokens; 'seeing' has a context of 40 tokens here; shorten"));
  EXPECT_FALSE(server.store.find(server.file("wide.png"), "")->is_read());
}

TEST(ImageMemory, KeepsTheLastImagesAndNoMoreThanItMay) {
  const VisionFixture fixture("gemma3");
  if (!fixture.reads_png()) GTEST_SKIP() << "this build has no libpng";
  const auto vision = models::load_vision(fixture.folder);
  const auto file = [&](const char* name) {
    std::ifstream in(fixture.folder / name, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(in), {}};
  };
  const std::string exact = file("exact.png"), wide = file("wide.png");
  // Patches of 56 x 56 pixels of three floats, and the file.
  ImageStore one(*vision, {.bytes = 56 * 56 * 3 * 4 + 10'000}), both(*vision, {});
  SeenImage first = one.find(exact, "a");
  EXPECT_EQ(one.find(exact, "a"), first);
  EXPECT_THROW(one.find(wide, "b"), ApiError) << "a request has the other one";
  const std::int64_t content = first->content;
  first.reset();
  EXPECT_NE(one.find(wide, "b")->content, content);
  EXPECT_NE(one.find(exact, "a")->content, content) << "it was forgotten";
  const SeenImage kept = both.find(exact, "a");
  std::int64_t steps = 0;
  both.read(*kept, [&] { ++steps; });
  EXPECT_EQ(steps, vision->tower.config.blocks.layers) << "others' steps go on behind each block";
  EXPECT_TRUE(kept->is_read());
  EXPECT_NE(both.find(wide, "b")->content, kept->content);
  EXPECT_TRUE(both.find(exact, "a")->is_read()) << "it goes through the tower once";
}

TEST_F(ServeProgram, ServesAFolderThatSees) {
  const VisionFixture fixture("gemma3");
  if (!fixture.reads_png()) GTEST_SKIP() << "this build has no libpng";
  const std::filesystem::path model = folder_ / "small.gguf";
  std::filesystem::remove(model);
  std::filesystem::copy(fixture.folder, model);
  models::gemmas_tokenizer().save(model / "tokenizer.json");
  std::ifstream in(model / "wide.png", std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  Json body = chat_of({image_part(data_url(file)), text_part("what")});
  body["model"] = "small";
  const auto modalities = [&] {
    const auto reply = httplib::Client("127.0.0.1", port_).Get("/v1/models/small");
    return reply ? Json::parse(reply->body)["input_modalities"] : Json();
  };
  ASSERT_TRUE(start()) << errors();
  EXPECT_EQ(modalities(), Json::array({"text", "image"}));
  const auto answer = post("/v1/chat/completions", body);
  EXPECT_EQ(answer->status, 200) << answer->body;
  EXPECT_GT(Json::parse(answer->body)["usage"]["prompt_tokens"], 16);
  EXPECT_EQ(end(SIGTERM), 0) << errors();
  ASSERT_TRUE(start({"--max-megapixels", "1", "--max-images", "1", "--image-memory", "1"})) << errors();
  EXPECT_EQ(post("/v1/chat/completions", body)->status, 200);
  EXPECT_EQ(end(SIGTERM), 0) << errors();
  ASSERT_TRUE(start({"--no-images"})) << errors();
  EXPECT_EQ(modalities(), Json::array({"text"}));
  EXPECT_EQ(post("/v1/chat/completions", body)->status, 400);
  EXPECT_EQ(end(SIGTERM), 0) << errors();
}

TEST_F(ServeProgram, RefusesTowersOfOthers) {
  EXPECT_FALSE(start({"--mmproj", (folder_ / "small.gguf").string()}));
  EXPECT_EQ(wait(), 4);
  EXPECT_THAT(errors(), HasSubstr("small.gguf: has no vision tower that runs here, so it sees no images"));
  EXPECT_FALSE(start({"--mmproj", VisionFixture("gemma3").folder.string()}));
  EXPECT_EQ(wait(), 4);
  EXPECT_THAT(errors(), HasSubstr("it is of another model"));
}

}  // namespace
}  // namespace etna::serve
