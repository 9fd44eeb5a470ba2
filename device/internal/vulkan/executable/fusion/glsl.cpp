#include <etna/device/internal/vulkan/executable/fusion/glsl.h>

#ifdef ETNA_HAS_GLSLANG
#include <glslang/Include/glslang_c_interface.h>
#include <glslang/Public/resource_limits_c.h>
#include <glslang/build_info.h>
#endif

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/cache_file.h>
#include <etna/device/internal/cache_folder.h>

namespace etna::vulkan::fusion {
namespace {

using Words = std::vector<std::uint32_t>;

#ifdef ETNA_HAS_GLSLANG
/// Uses the C interface, which is the same from glslang 12 to 15.
Words compile(const std::string& text) {
  static const bool started = glslang_initialize_process() != 0;
  if (!started) throw DeviceError("glslang does not start");
  glslang_input_t input{};
  input.language = GLSLANG_SOURCE_GLSL;
  input.stage = GLSLANG_STAGE_COMPUTE;
  input.client = GLSLANG_CLIENT_VULKAN;
  input.client_version = GLSLANG_TARGET_VULKAN_1_2;
  input.target_language = GLSLANG_TARGET_SPV;
  input.target_language_version = GLSLANG_TARGET_SPV_1_5;
  input.code = text.c_str();
  input.default_version = 460;
  input.default_profile = GLSLANG_NO_PROFILE;
  input.messages = static_cast<glslang_messages_t>(GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT);
  input.resource = glslang_default_resource();
  const std::unique_ptr<glslang_shader_t, void (*)(glslang_shader_t*)> shader(glslang_shader_create(&input),
                                                                              glslang_shader_delete);
  const std::unique_ptr<glslang_program_t, void (*)(glslang_program_t*)> program(glslang_program_create(),
                                                                                 glslang_program_delete);
  if (glslang_shader_preprocess(shader.get(), &input) == 0 || glslang_shader_parse(shader.get(), &input) == 0) {
    throw DeviceError(fmt::format("a fused kernel does not compile: {}; ETNA_FUSE=0 turns fusion off",
                                  glslang_shader_get_info_log(shader.get())));
  }
  glslang_program_add_shader(program.get(), shader.get());
  if (glslang_program_link(program.get(), input.messages) == 0) {
    throw DeviceError(fmt::format("a fused kernel does not link: {}; ETNA_FUSE=0 turns fusion off",
                                  glslang_program_get_info_log(program.get())));
  }
  glslang_program_SPIRV_generate(program.get(), GLSLANG_STAGE_COMPUTE);
  const unsigned int* words = glslang_program_SPIRV_get_ptr(program.get());
  return {words, words + glslang_program_SPIRV_get_size(program.get())};
}
#else
Words compile(const std::string&) { throw DeviceError("this build has no glslang"); }
#endif

constexpr CacheMagic kMagic = {'E', 'T', 'N', 'A', 'S', 'V', '0', '1'};

/// A file stores the text before the SPIR-V, so a hash collision of two texts is harmless.
std::vector<char> key_of(const std::string& text) {
  std::string key = fmt::format("{}\n{}", glsl_compiler(), text);
  key.resize((key.size() + 3) / 4 * 4, '\n');
  return {key.begin(), key.end()};
}

std::filesystem::path file_of(const std::vector<char>& key) {
  const std::filesystem::path folder = cache_folder();
  return folder.empty() ? folder : folder / "shaders" / fmt::format("{:016x}.spv", cache_sum(key));
}

Words read(const std::filesystem::path& file, const std::vector<char>& key) {
  if (file.empty()) return {};
  const std::vector<char> data = read_cache_file(file, kMagic);
  constexpr std::uint32_t magic = 0x07230203;
  if (data.size() < key.size() + 20 || data.size() % 4 != 0 || std::memcmp(data.data(), key.data(), key.size()) != 0) {
    return {};
  }
  Words words((data.size() - key.size()) / 4);
  std::memcpy(words.data(), data.data() + key.size(), 4 * words.size());
  return words[0] == magic ? words : Words{};
}

void write(const std::filesystem::path& file, std::vector<char> data, const Words& words) {
  if (file.empty()) return;
  const char* bytes = reinterpret_cast<const char*>(words.data());
  data.insert(data.end(), bytes, bytes + 4 * words.size());
  write_cache_file(file, kMagic, data);
}

struct Compiled {
  Words words;
  Shader shader{"fused", {}};
};

}  // namespace

std::string glsl_compiler() {
#ifdef ETNA_HAS_GLSLANG
  return fmt::format("glslang {}.{}.{}", GLSLANG_VERSION_MAJOR, GLSLANG_VERSION_MINOR, GLSLANG_VERSION_PATCH);
#else
  return {};
#endif
}

bool enabled() {
  const char* value = std::getenv("ETNA_FUSE");
  return (value == nullptr || std::strcmp(value, "0") != 0) && !glsl_compiler().empty();
}

std::vector<std::uint32_t> spirv_of(const std::string& text, GlslFigures& figures) {
  const std::vector<char> key = key_of(text);
  const std::filesystem::path file = file_of(key);
  if (Words words = read(file, key); !words.empty()) return words;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  Words words = compile(text);
  figures.compile_ms += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  ++figures.compiled;
  write(file, key, words);
  return words;
}

const Shader& compile_glsl(const std::string& text, GlslFigures& figures) {
  static std::mutex mutex;
  // Never freed: pipelines made from them are keyed by the address of the words, even after static objects are
  // destroyed.
  static auto& all = *new std::unordered_map<std::string, std::unique_ptr<Compiled>>();
  std::lock_guard lock(mutex);
  std::unique_ptr<Compiled>& entry = all[text];
  if (entry == nullptr) {
    auto made = std::make_unique<Compiled>();
    made->words = spirv_of(text, figures);
    made->shader.words = made->words;
    entry = std::move(made);
  }
  return entry->shader;
}

}  // namespace etna::vulkan::fusion
